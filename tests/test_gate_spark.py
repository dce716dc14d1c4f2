"""Two real writers, one gate: the delete scans first and commits last. What Iceberg promises, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compose.install import Installation
from compose.stack import Endpoints, Stack
from harness import history, tablelog
from harness.store import RunFolder
from nemesis.gate import CatalogGate, Hold
from tests.runs import execute, icequake
from workloads.generator import Planned
from workloads.schema import Phase, Workload, parse

pytestmark = pytest.mark.spark


def workload(isolation: str, format_version: int) -> Workload:
    return parse(
        f"""
workload: undelete
tables:
  - name: colours
    format_version: {format_version}
    mode: merge-on-read
    isolation: {isolation}
    partitioned: false
    seed_rows: 4  # two a file: a file with nothing but the row would go by a metadata delete
    properties: {{commit.retry.min-wait-ms: "10"}}
writers: 2
length: {{ops: 2}}
operations: {{insert: 1}}
"""
    )


class DeleteAfterUpdate:
    """Writer 0 deletes id 1; its commit is held until writer 1's update of id 1 has been acknowledged."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._gate: CatalogGate | None = None
        self._hold: Hold | None = None

    def catalog_uri(self, writer: str, endpoints: Endpoints) -> str:
        if writer != "w0":
            return endpoints.catalog_uri
        self._gate = self._stack.enter_context(CatalogGate(endpoints.catalog_uri))
        self._hold = self._gate.hold("w0-1")  # w0-0 is the insert of the setup phase
        return self._gate.address

    def operations(self, workload: Workload, phase: Phase, writer: int, seed: int) -> Iterator[Planned]:
        (table,) = workload.tables
        assert self._hold is not None
        if writer == 0:
            yield Planned("delete", table, {"ids": [1]})
        else:
            assert self._hold.reached.wait(120), "the delete never came to its commit"
            yield Planned("update-register", table, {"ids": [1]})
            self._hold.release()  # the update has been acknowledged

    def __enter__(self) -> DeleteAfterUpdate:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def delete_after_update(spec: Workload, into: Path, installation: Installation, stack: Stack) -> RunFolder:
    with DeleteAfterUpdate() as script:
        return execute(
            spec,
            into,
            installation,
            stack.endpoints,
            operations=script.operations,
            catalog_uri=script.catalog_uri,
        )


def outcomes(folder: RunFolder) -> dict[str, str]:
    return {o.f: o.type for o in history.read(folder.history).operations()}


def final_rows(folder: RunFolder) -> Iterable[list[object]]:
    return next(o.result for o in history.read(folder.history).operations() if o.f == "read")  # type: ignore[no-any-return]


def test_v2_merge_on_read_under_snapshot_isolation_undeletes_and_the_checkers_explain_it(
    tmp_path: Path, installation: Installation, stack: Stack
) -> None:
    folder = delete_after_update(workload("snapshot", 2), tmp_path, installation, stack)
    assert outcomes(folder) | {"read": "ok"} == {"insert": "ok", "delete": "ok", "update-register": "ok", "read": "ok"}
    assert [row[0] for row in sorted(final_rows(folder))] == [0, 1, 2, 3]

    (delete,) = tablelog.read(folder.tablelog / "colours.jsonl").by_op()["w0-1"]
    assert delete.attempt == 2, "its first commit was refused, for the update had come first"

    checked = icequake("check", folder.path)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "undelete" in checked.stdout
    verdicts = json.loads(folder.results.read_text())
    assert verdicts["valid"] is False
    anomalies = [a for c in verdicts["checkers"] for a in c["anomalies"]]
    (anomaly,) = [a for a in anomalies if "same_as" not in a["evidence"]]  # not the second opinions on it
    assert anomaly["name"] == "undelete"
    assert anomaly["ops"][0] == "w0-1" and "w1-0" in anomaly["ops"]
    assert anomaly["keys"] == [1]
    assert anomaly["documented"]
    text = anomaly["explanation"]
    assert "w0-1" in text and "w1-0" in text
    assert all(str(s) in text for s in anomaly["snapshots"])
    assert any(f in text for f in anomaly["files"])


@pytest.mark.parametrize(("isolation", "format_version"), [("serializable", 2), ("snapshot", 3)])
def test_serializable_and_deletion_vectors_abort_the_delete_and_the_checkers_are_silent(
    tmp_path: Path, installation: Installation, stack: Stack, isolation: str, format_version: int
) -> None:
    folder = delete_after_update(workload(isolation, format_version), tmp_path, installation, stack)
    assert outcomes(folder)["delete"] == "fail"
    checked = icequake("check", folder.path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
