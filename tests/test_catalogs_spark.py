"""Every catalog on real Spark: what it promises it keeps while its server is killed, and its log and its proxies tell what happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers import check
from compose.catalogs import CATALOGS
from harness import history, store
from tests.runs import icequake

pytestmark = pytest.mark.spark

WORKLOAD = """\
workload: small
catalog: {catalog}
tables:
  - {{name: a, mode: merge-on-read, partitioned: false}}
  - {{name: b, mode: copy-on-write}}
writers: 2
keys: {{space: 8}}
length: {{time: 20s}}
op_timeout: 60s
operations: {{insert: 4, update-append: 3, delete: 2, merge-upsert: 2, read: 2, rewrite-data-files: 1, set-property: 1}}
nemesis:
  interval: 2s
  duration: 1500ms
  faults:
    - {{verb: kill, target: catalog}}
    - {{verb: delay, service: store, request: any, seconds: 20ms}}
"""

COVERED = ("rest", "jdbc")
"""In test_nemesis_spark."""


@pytest.mark.parametrize("catalog", [n for n, c in CATALOGS.items() if n not in COVERED and n != "polaris"])
def test_a_catalog_keeps_what_it_promises_while_its_server_is_killed(tmp_path: Path, catalog: str) -> None:
    entry = CATALOGS[catalog]
    (tmp_path / "small.yaml").write_text(WORKLOAD.format(catalog=catalog))
    done = icequake("run", tmp_path / "small.yaml", "--seed", 3, "--store", tmp_path / "store")
    # Of one that promises nothing a short run may find it or not; both are definite.
    assert done.returncode in ((0,) if entry.guard != "none" else (0, 1)), done.stdout + done.stderr
    folder = store.find(tmp_path / "store" / "latest")
    told = history.read(folder.history).operations()
    assert sum(o.type == "ok" and o.f not in ("read", "read-key") for o in told) > 6, (
        "it went on after its server's death"
    )
    evidence = check.load_evidence(folder.path)
    for table, log in evidence.logs.items():
        assert log.complete and len(log.metadata) > 3 and not log.missing_files, table
        assert len(log.main()) > 2, table
    requests = [json.loads(line) for line in folder.proxy.read_text().splitlines()]
    commits = [r for r in requests if r["kind"] == "commit" and r["service"] == "catalog"]
    if entry.wire is None:
        assert not commits
    else:
        assert {t: len(s) > 2 for t, s in evidence.swaps.items()} == {"a": True, "b": True}, "proxies tell the swaps"
        killed = [e for e in history.read(folder.history).events if e.f == "stop-kill-catalog"]
        assert any(dict(e.value).get("struck") for e in killed) == bool(entry.services)
