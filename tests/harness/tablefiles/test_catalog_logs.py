"""The table logs of catalogs that are not like the others: one that lists the current snapshot alone, one whose files are written over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History
from checkers.evidence.tablelog import TableLog
from checkers.formats.iceberg.metadata.checker import MetadataRules
from checkers.judge.check import check
from compose.objectstore import ObjectStore
from harness.tablefiles.iceberg.reader import TableReader
from tests.support.icebergtable import HandMadeTable
from workloads.tables import TableSpec

COLUMNS = ("id", "val", "cnt")


def reader(**how: bool) -> TableReader:
    return TableReader(ObjectStore(), table="t", identifier="c.ns.t", columns=COLUMNS, path=None, **how)


class Nessie:
    """A table as Nessie serves it over REST: each version lists its snapshot, names no parent and no version before it."""

    def __init__(self, folder: Path) -> None:
        self.table = HandMadeTable(folder)
        self.history: list[str] = []

    def serve(self, name: str, **change: Any) -> str:
        """The newest version, as it is served; its location."""
        content = self.table.metadata
        listed = [dict(s) for s in content["snapshots"] if s["snapshot-id"] == content["current-snapshot-id"]]
        for s in listed:
            s.pop("parent-snapshot-id", None)
            s |= change
        path = Path(self.table.pointer).with_name(f"{name}.metadata.json")
        path.write_text(json.dumps({**content, "snapshots": listed, "metadata-log": [], "snapshot-log": []}))
        self.history.append(str(path))
        return str(path)

    def insert(self, n: int, **change: Any) -> int:
        id = self.table.commit(add=[self.table.data([(n, "a", 0)])], op=f"w0-{n}")
        self.serve(f"v{n}", **change)
        return id


def test_parents_are_what_the_writers_put_into_their_manifest_lists(tmp_path: Path) -> None:
    nessie = Nessie(tmp_path)
    ids = [nessie.insert(n) for n in range(4)]
    log = reader(lists_one=True).finish(nessie.history[-1], 1, nessie.history)
    assert [c.snapshot_id for c in log.main()] == ids
    assert [c.parent_id for c in log.commits] == [None, *ids[:-1]]
    assert [m.location for m in log.metadata] == nessie.history and not any(m.problems for m in log.metadata)
    assert [[r.row[0] for r in c.added or ()] for c in log.commits] == [[0], [1], [2], [3]], (
        "what each added to its parent"
    )
    without = reader().finish(nessie.history[-1], 1)
    assert len(without.commits) == 1, "the files alone tell nothing of what was before"


def test_a_commit_of_several_snapshots_has_its_rows_of_the_version_before(tmp_path: Path) -> None:
    """PyIceberg deletes in one snapshot and appends in the next, and commits both at once: the first one is in no version."""
    nessie = Nessie(tmp_path)
    first = nessie.insert(0)
    old = nessie.table.data([(7, "a", 0)])
    both = [nessie.table.commit(add=[old], op="w0-7"), nessie.table.commit(add=[nessie.table.data([(8, "a", 0)])])]
    nessie.serve("both")
    last = nessie.insert(2)
    for log in (
        reader(lists_one=True).finish(nessie.history[-1], 1, nessie.history),
        _captured_one_by_one(nessie),
    ):
        assert [c.snapshot_id for c in log.main()] == [first, both[1], last]
        assert [c.parent_id for c in log.commits] == [None, first, both[1]]
        assert [sorted(r.row[0] for r in c.added or ()) for c in log.commits] == [[0], [7, 8], [2]]
        assert not any(c.problems or c.violations for c in log.commits)


def test_a_snapshot_whose_writer_names_no_parent_is_made_from_the_version_before(tmp_path: Path) -> None:
    """DuckDB's manifest lists do not say; those of Iceberg that say "null" have none."""
    nessie = Nessie(tmp_path)
    first = nessie.insert(0)
    nessie.table.names_parents = False
    ids = [first, nessie.insert(1), nessie.insert(2)]
    log = reader(lists_one=True).finish(nessie.history[-1], 1, nessie.history)
    assert [c.snapshot_id for c in log.main()] == ids
    assert [[r.row[0] for r in c.added or ()] for c in log.commits] == [[0], [1], [2]]


def _captured_one_by_one(nessie: Nessie) -> TableLog:
    live = reader(lists_one=True)
    for n in range(1, len(nessie.history)):
        live.capture(nessie.history[n - 1], n, nessie.history[:n])
    return live.finish(nessie.history[-1], 9, nessie.history)


def test_captures_go_on_behind_what_is_known_and_leave_out_what_came_after_the_pointer(tmp_path: Path) -> None:
    nessie, live = Nessie(tmp_path), reader(lists_one=True)
    for n in range(3):
        nessie.insert(n)
        live.capture(nessie.history[-1], n, nessie.history)
    assert [m.location for m in live.log().metadata] == nessie.history
    nessie.insert(3)
    asked = nessie.history[-1]
    nessie.insert(4)  # between the two questions
    live.capture(asked, 4, nessie.history)
    assert live.log().metadata[-1].location == asked
    log = live.finish(nessie.history[-1], 5, nessie.history)
    assert [m.location for m in log.metadata] == nessie.history and len(log.main()) == 5


def test_a_branch_that_was_set_back_is_told(tmp_path: Path) -> None:
    nessie, live = Nessie(tmp_path), reader(lists_one=True)
    for n in range(3):
        nessie.insert(n)
    live.capture(nessie.history[-1], 1, nessie.history)
    lost = nessie.history.pop()
    nessie.table.versions.pop()
    nessie.insert(9)
    log = live.finish(nessie.history[-1], 2, nessie.history)
    assert "does not descend from it" in log.metadata[-1].problems[0].why and lost in log.metadata[-1].problems[0].why


def committed_again(folder: Path) -> tuple[TableLog, int]:
    nessie = Nessie(folder)
    first = nessie.insert(0)
    nessie.insert(1)
    last = nessie.table.metadata["snapshots"][-1]
    nessie.serve("again", **{"snapshot-id": first, "sequence-number": 3})
    content = json.loads(Path(nessie.history[-1]).read_text())
    content |= {"current-snapshot-id": first, "refs": {"main": {"snapshot-id": first, "type": "branch"}}}
    content["last-sequence-number"] = 3
    Path(nessie.history[-1]).write_text(json.dumps(content))
    assert last["snapshot-id"] != first
    return reader(lists_one=True).finish(nessie.history[-1], 10, nessie.history), first


def test_a_snapshot_that_is_committed_again_is_found_and_nothing_is_made_of_its_ancestry(tmp_path: Path) -> None:
    log, first = committed_again(tmp_path)
    assert log.committed_again == {first}
    spec = TableSpec(name="t", partitioned=False)
    evidence = Evidence(History({}, (), ()), {"t": log}, {"t": spec})
    commits, metadata = check(evidence, [Commits(), MetadataRules()]).verdicts
    assert commits.valid == "unknown" and str(first) in commits.notes[0]
    assert metadata.valid is False and "snapshot-changed" in {a.name for a in metadata.anomalies}
    assert not {a.name for a in metadata.anomalies} & {"foreign-file", "summary-count", "wrong-operation"}


def test_where_all_snapshots_are_listed_none_is_committed_again(tmp_path: Path) -> None:
    t = HandMadeTable(tmp_path)
    for n in range(2):
        t.commit(add=[t.data([(n, "a", 0)])])
    m = t.metadata
    m["snapshots"][0]["timestamp-ms"] += 1
    t.write_metadata(m)
    log = reader().finish(t.pointer, 1)
    assert any("differently" in p.why for v in log.metadata for p in v.problems) and not log.committed_again


def test_a_version_that_was_written_over_is_another_version(tmp_path: Path) -> None:
    t, live = HandMadeTable(tmp_path), reader(overwrites=True)
    t.commit(add=[t.data([(1, "a", 0)])])
    t.commit(add=[t.data([(2, "b", 0)])], op="first")
    live.capture(t.pointer, 1)
    live.capture(t.pointer, 2)
    assert len(live.log().metadata) == 3, "the same file again is nothing new"
    lost = t.versions.pop()
    t.commit(add=[t.data([(3, "c", 0)])], op="second")
    Path(lost.location).write_text(Path(t.pointer).read_text())
    log = live.finish(lost.location, 3)
    assert [c.op for c in log.main()][1:] == ["second"] and "first" in {c.op for c in log.commits}
    assert any(p.code == "written-over" for p in log.metadata[-1].problems)
    asleep = reader()
    asleep.capture(lost.location, 1)
    Path(lost.location).write_text(json.dumps(lost.content))
    assert {c.op for c in asleep.finish(lost.location, 2).commits} == {None, "second"}, "only where that can happen"
