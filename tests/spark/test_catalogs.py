"""Every catalog on real Spark: what it promises it keeps while its server is killed, and its log and its proxies tell what happened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.evidence import history, runfolder
from checkers.judge.runfolder import load_evidence
from compose.catalogs.registry import CATALOGS
from tests.support.runs import icequake

pytestmark = pytest.mark.spark

WORKLOAD = """\
workload: small
catalog: {catalog}
tables:
  - {{name: a, mode: merge-on-read, partitioned: false}}
  - {{name: b, mode: copy-on-write}}
writers: 2
keys: {{space: 8}}
phases: [{{name: main, length: {{ops: 36}}, rate: 3}}]
op_timeout: 90s
operations: {{insert: 6, update-append: 3, delete: 2, merge-upsert: 2, read: 1, set-property: 1}}
nemesis:
  interval: 4s
  duration: 500ms
  faults:
    - {{verb: kill, target: catalog}}
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
    folder = runfolder.find(tmp_path / "store" / "latest")
    whole = history.read(folder.history)
    told = whole.operations()
    assert len(told) > 36 and all(o.completed is not None for o in told)
    last = [o for o in told if o.invoked.extra.get("phase") == "final-reads"]
    assert last and all(o.type == "ok" for o in last), "its server is back, with its data"
    evidence = load_evidence(folder.path)
    assert all(log.complete and not log.missing_files for log in evidence.logs.values())
    # While the server is down operations fail at once, so how many get through is a matter of speed; the seeds are from before.
    assert all(log.main() for log in evidence.logs.values())
    requests = [json.loads(line) for line in folder.proxy.read_text().splitlines()]
    commits = [r for r in requests if r["kind"] == "commit" and r["service"] == "catalog"]
    if entry.wire is None:
        assert not commits
    elif entry.lists_one:
        assert commits and not evidence.swaps, "the server names a place of its own, not the metadata file"
    else:
        assert set(evidence.swaps) == {"a", "b"}, "the proxies tell the swaps"
    struck = [dict(e.value).get("struck") for e in whole.events if e.f == "stop-kill-catalog"]
    assert struck and {s for s in struck if s} == ({entry.services[-1]} if entry.services else set())
