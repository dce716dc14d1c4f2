"""A comparison on real Spark: two catalogs, the same operations, every number there; what was measured is not measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence import runfolder
from tests.support.runs import icequake

pytestmark = pytest.mark.spark

SMALL = """\
workload: small
description: A few seconds of everything that a comparison measures.
tables:
  - {name: a, mode: merge-on-read, partitioned: false}
writers: 1
keys: {space: 4}
length: {ops: 24}
op_timeout: 60s
operations: {insert: 2, update-append: 3, read: 1}
"""


def test_two_catalogs_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    where = ("--store", tmp_path / "store", "--into", tmp_path / "c", "--json", tmp_path / "all.json")
    arguments = ("compare", tmp_path / "small.yaml", "--catalog", "rest,jdbc", "--seed", 3, "--parallel", 2, *where)
    arguments += ("--session", "fast", "--cluster", "local")
    done = icequake(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "all.json").read_text())
    assert [c["name"] for c in found["contenders"]] == ["rest", "jdbc"]
    for c in found["contenders"]:
        assert sum(n for counts in c["kinds"].values() for n in counts.values()) == 24
        assert c["figures"]["commits_per_s"]["median"] > 0
        # Every commit is decided by a request of its own and writes metadata, a manifest list, a manifest and data.
        assert c["requests_per_commit"]["catalog commit"] >= 1
        assert c["figures"]["catalog_requests"]["median"] >= 2 and c["figures"]["store_requests"]["median"] >= 4
        assert c["figures"]["commit_p50_ms"]["median"] > 0
        assert "recovery_max_s" not in c["figures"]
    assert "database_requests" in found["contenders"][0]["figures"]
    runs = runfolder.runs(tmp_path / "store")
    assert len(runs) == 2 and all(r.results.exists() and r.report.exists() for r in runs)
    assert all("--session fast --cluster local" in r.read_plan().command for r in runs)
    assert {(r.state()["session"], r.state()["cluster"]) for r in runs} == {("fast", "local")}
    page = (tmp_path / "c" / "compare.html").read_text()
    assert all(f"../store/small/{r.path.name}/report.html" in page for r in runs)
    # The same seed: the same operations for both.
    told = [
        sorted((e["op"], json.dumps(e["value"])) for e in map(json.loads, r.history.read_text().splitlines()[1:])
               if e["type"] == "invoke" and e.get("phase") == "main")
        for r in runs
    ]  # fmt: skip
    assert told[0] == told[1] and len(told[0]) == 24

    again = icequake(*arguments)
    assert again.returncode == 0 and len(runfolder.runs(tmp_path / "store")) == 2
    assert json.loads((tmp_path / "all.json").read_text()) == found


def test_two_formats_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL.replace("writers: 1", "writers: 2"))
    arguments = ("compare", tmp_path / "small.yaml", "--format", "iceberg,delta", "--seed", 3)
    arguments += (
        "--store",
        tmp_path / "store",
        "--json",
        tmp_path / "all.json",
        "--session",
        "fast",
        "--cluster",
        "local",
    )
    done = icequake(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "all.json").read_text())
    assert [c["name"] for c in found["contenders"]] == ["format=iceberg", "format=delta"]
    measured = ("retried", "aborted", "wasted", "write_p50_ms", "write_p99_ms", "catalog_requests", "store_requests")
    for c in found["contenders"]:
        assert c["valid"] is True, c
        assert all(c["figures"][key]["median"] is not None for key in measured), c["figures"]
