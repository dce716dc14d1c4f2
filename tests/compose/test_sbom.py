"""The bill of materials of the harness image lists what the lock files pin and what Debian has installed."""

from __future__ import annotations

import json
import re
from pathlib import Path

from compose.docker import sbom
from compose.install import ensure, jars, minio_build

STATUS = """\
Package: tini
Status: install ok installed
Architecture: amd64
Version: 0.19.0-1+b3
Description: a tiny init
 with more lines: than one

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""


def test_it_has_every_pin_every_jar_minio_and_the_installed_packages(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(STATUS)
    purls = [one["purl"] for one in sbom.bill(status)["components"]]
    assert len(purls) == len(set(purls))
    kinds = {kind: [p for p in purls if p.startswith(f"pkg:{kind}/")] for kind in ("pypi", "maven", "golang", "deb")}
    pins = re.findall(r"^[A-Za-z0-9._-]+==", sbom.PACKAGES_LOCK.read_text(), re.M)
    assert len(kinds["pypi"]) == len(pins) > 50 and any(p.startswith("pkg:pypi/pyspark@4.1.4") for p in kinds["pypi"])
    wanted = jars.of(list(ensure.CONFS), jars.read_lock())
    assert len(kinds["maven"]) == len(wanted)
    assert kinds["golang"] == [f"pkg:golang/github.com/minio/minio@{minio_build.MINIO_VERSION}"]
    assert kinds["deb"] == ["pkg:deb/debian/tini@0.19.0-1%2Bb3?arch=amd64"]


def test_the_hash_of_a_jar_is_that_of_its_lock() -> None:
    hashes = {one["purl"]: one["hashes"] for one in sbom.bill(Path("/nowhere"))["components"] if "hashes" in one}
    (driver,) = [value for purl, value in hashes.items() if "/postgresql@" in purl]
    (jar,) = [jar for jar in jars.of(["spark"], jars.read_lock()) if jar.artifact == "postgresql"]
    assert driver == [{"alg": "SHA-256", "content": jar.sha256}]


def test_the_same_image_has_the_same_bill() -> None:
    written = sbom.text(sbom.bill(Path("/nowhere")))
    assert written == sbom.text(sbom.bill(Path("/nowhere")))
    document = json.loads(written)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert {"name", "version", "purl", "type", "bom-ref"} <= set.intersection(*(set(c) for c in document["components"]))
