"""One spelling for the location of a file, whatever its scheme; and which commit wrote it, by its name."""

from __future__ import annotations

import re

_S3 = re.compile(r"^s3[an]?://", re.IGNORECASE)


_FILE = re.compile(r"^file:(//[^/]*)?(?=/)", re.IGNORECASE)
_COMMIT = re.compile(r"(?:/|^)(?:snap-\d+-\d+-(?P<a>[0-9a-f-]{36})\.avro|(?P<b>[0-9a-f-]{36})-m\d+\.avro)$")


def normalise(path: str) -> str:
    """One spelling per location: ``s3a://`` and ``s3n://`` become ``s3://``; ``file:`` URIs become plain paths."""
    if path.startswith("s3://"):
        return path
    if _S3.match(path):
        return _S3.sub("s3://", path, count=1)
    return _FILE.sub("", path, count=1)


def commit_uuid(path: str) -> str | None:
    """The UUID of the commit that wrote a manifest or manifest list; None for other files.

    Each ``SnapshotProducer`` draws one UUID and gives it to all its files: ``snap-<snapshot>-<attempt>-<uuid>.avro``
    (``SnapshotProducer.manifestListPath``) and ``<uuid>-m<n>.avro`` (``newManifestOutputFile``).
    """
    found = _COMMIT.search(path)
    return None if found is None else found["a"] or found["b"]
