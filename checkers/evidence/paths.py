"""One spelling for the location of a file, whatever its scheme."""

from __future__ import annotations

import re

_S3 = re.compile(r"^s3[an]?://", re.IGNORECASE)


_FILE = re.compile(r"^file:(//[^/]*)?(?=/)", re.IGNORECASE)


def normalise(path: str) -> str:
    """One spelling per location: ``s3a://`` and ``s3n://`` become ``s3://``; ``file:`` URIs become plain paths."""
    if _S3.match(path):
        return _S3.sub("s3://", path, count=1)
    return _FILE.sub("", path, count=1)
