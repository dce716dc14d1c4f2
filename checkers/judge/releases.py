"""Which release of Iceberg contains what: versions of releases, release candidates and builds of one's own, in order."""

from __future__ import annotations

import re

from packaging.version import Version


def newer(version: str, than: str) -> bool:
    """Whether ``version`` is ``than`` or a later release; False for a text that is not a version (``unknown``).

    A pre-release (``1.12.0-SNAPSHOT``, ``1.10.1-rc2``) counts as its release.
    """
    release = _release(version)
    return release is not None and release >= Version(than)


def surely_has(version: str, change: str) -> bool:
    """Whether every build that calls itself ``version`` contains what the release ``change`` brought; False if it is not known.

    A release candidate may lack what came between it and its release. The build of Iceberg calls a commit after the tag X.Y.Z, on
    whatever branch, ``X.(Y+1).0-SNAPSHOT`` (``getProjectVersion`` in its ``build.gradle``). So such a build surely has what X.Y.0
    brought, and no more is known.
    """
    release = _release(version)
    if release is None:
        return False
    if version == str(release):
        return release >= Version(change)
    if re.search(r"-rc\d+$", version):
        return release > Version(change)
    return release.minor > 0 and Version(f"{release.major}.{release.minor - 1}.0") >= Version(change)


def _release(version: str) -> Version | None:
    """The release to which a version leads: the numbers at its beginning; None if there are none."""
    match = re.match(r"\d+(\.\d+)*", version)
    return None if match is None else Version(match[0])
