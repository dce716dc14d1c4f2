"""The bill of materials of the harness image, as CycloneDX 1.6 in JSON: what the lock files pin, and Debian's packages::

    python -m compose.docker.sbom > icequake.cdx.json

``compose/docker/harness/Dockerfile`` writes it into the image at ``/opt/icequake/icequake.cdx.json``. It has no time and no random number, so
the same image has the same bill.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from compose.install import ensure, jars, minio_build

PACKAGES_LOCK = Path(__file__).parents[2] / "requirements.lock"
PROJECT = Path(__file__).parents[2] / "harness" / "__init__.py"
DPKG = Path("/var/lib/dpkg/status")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")


def bill(dpkg: Path = DPKG) -> dict[str, Any]:
    """The document. ``dpkg``: the state of Debian's packages; left out if there is no such file."""
    found = re.search(r'__version__ = "([^"]+)"', PROJECT.read_text())
    version = found[1] if found else "0"
    parts = [*_python(), *_jars(), _minio(), *(_debian(dpkg) if dpkg.is_file() else ())]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "name": "icequake",
                "version": version,
                "bom-ref": f"icequake@{version}",
            },
        },
        "components": sorted(parts, key=lambda part: str(part["bom-ref"])),
    }


def _component(purl: str, name: str, version: str, group: str = "", **more: Any) -> dict[str, Any]:
    own = {"group": group, **more} if group else more
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, **own}


def _python() -> Iterator[dict[str, Any]]:
    """The pins of ``requirements.lock``. A pin allows several files, of which one is installed, so it has no hash here."""
    for line in PACKAGES_LOCK.read_text().splitlines():
        if pin := _PIN.match(line):
            name, version = pin[1].lower(), pin[2]
            yield _component(f"pkg:pypi/{name}@{version}", name, version)


def _jars() -> Iterator[dict[str, Any]]:
    for jar in jars.of(list(ensure.CONFS), jars.read_lock()):
        suffix = f"?classifier={quote(jar.classifier)}" if jar.classifier else ""
        purl = f"pkg:maven/{jar.group}/{jar.artifact}@{jar.version}{suffix}"
        hashes = [{"alg": "SHA-256", "content": jar.sha256}]
        yield _component(purl, jar.artifact, jar.version, jar.group, hashes=hashes)


def _minio() -> dict[str, Any]:
    name, version = minio_build.MODULE, minio_build.MINIO_VERSION
    return _component(f"pkg:golang/{name}@{version}", name, version, type="application")


def _debian(status: Path) -> Iterator[dict[str, Any]]:
    for block in status.read_text(encoding="utf-8", errors="replace").split("\n\n"):
        fields = dict(_fields(block))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={fields.get('Architecture', 'all')}"
            yield _component(purl, name, version)


def _fields(block: str) -> Iterator[tuple[str, str]]:
    for line in block.splitlines():
        key, separator, value = line.partition(": ")
        if separator and not line.startswith(" "):
            yield key, value


def text(document: Mapping[str, Any]) -> str:
    """The document as JSON, in one order."""
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text(bill()))
