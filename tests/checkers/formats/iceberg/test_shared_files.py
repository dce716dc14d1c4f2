"""Files that two tables of a run have added."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, FileEntry, RowChange
from checkers.formats.iceberg.metadata.checker import MetadataRules
from checkers.verdict import Anomaly
from tests.support.simulator import simulate
from workloads.tables import TableSpec

NAMES = ("a", "b", "c")


def run(seed: int) -> Evidence:
    """A simulated run on three tables, each at a place of its own."""
    e = simulate(seed, [TableSpec(name=n, mode="merge-on-read", seed_rows=3) for n in NAMES]).evidence()
    assert len({log.location for log in e.logs.values()}) == len(NAMES)
    return e


def shared(e: Evidence) -> list[Anomaly]:
    return [a for a in MetadataRules().check(e).anomalies if a.name == "shared-file"]


def renamed(e: Evidence, table: str, old: str, new: str) -> Evidence:
    """The run in which a table's file has another path."""

    def entries(files: Sequence[FileEntry]) -> tuple[FileEntry, ...]:
        def at(f: FileEntry) -> FileEntry:
            return replace(
                f, path=new if f.path == old else f.path, referenced=new if f.referenced == old else f.referenced
            )

        return tuple(map(at, files))

    def rows(changes: Sequence[RowChange] | None) -> tuple[RowChange, ...]:
        return tuple(replace(r, file=new if r.file == old else r.file) for r in changes or ())

    def commit(c: Commit) -> Commit:
        files = {"added_files": entries(c.added_files), "removed_files": entries(c.removed_files)}
        return replace(c, added=rows(c.added), removed=rows(c.removed), **files)

    log = e.logs[table]
    return replace(e, logs={**e.logs, table: replace(log, commits=tuple(map(commit, log.commits)))})


def with_property(e: Evidence, table: str, **properties: str) -> Evidence:
    def set_(raw: dict[str, Any]) -> dict[str, Any]:
        return {**raw, "properties": {**raw.get("properties", {}), **properties}}

    log = e.logs[table]
    return replace(
        e, logs={**e.logs, table: replace(log, metadata=tuple(replace(m, raw=set_(m.raw)) for m in log.metadata))}
    )


@given(st.integers(0, 50))
def test_a_data_file_of_another_table_is_told_of_the_operation_that_took_it(seed: int) -> None:
    rng, e = Random(seed), run(seed % 7)
    assert shared(e) == [] and MetadataRules().check(e).valid is True
    taker, owner = rng.sample(NAMES, 2)
    mine, theirs = (
        rng.choice(
            [
                (c, f)
                for c in e.logs[t].commits
                for f in c.added_files
                if f.content == "data" and f.snapshot_id == c.snapshot_id
            ]
        )
        for t in (taker, owner)
    )
    place = e.logs[owner].location
    for root in (place, place.replace("s3://", "s3a://")):
        taken = renamed(e, taker, mine[1].path, f"{root}/{theirs[1].path}")
        (a,) = MetadataRules().check(taken).anomalies
        assert (a.name, a.table, a.ops[0]) == ("shared-file", taker, mine[0].op)
        assert set(a.ops) == {mine[0].op, theirs[0].op} and a.snapshots == (mine[0].snapshot_id, theirs[0].snapshot_id)
        assert f"added it to table {owner}: whichever of the tables drops its snapshots first" in a.explanation
        assert MetadataRules().check(taken).stats["tables"][taker]["found"] == {"shared-file": 1}
    for kept in (taker, owner):
        assert shared(with_property(taken, kept, **{"gc.enabled": "false"})) == [], "it says that it may share files"


def test_two_tables_of_one_uuid_are_told_and_accuse_nobody() -> None:
    e = run(3)

    def known_as(e: Evidence, table: str, uuid: str | None) -> Evidence:
        log = e.logs[table]
        metadata = tuple(replace(m, raw={**m.raw, "table-uuid": uuid}) for m in log.metadata)
        return replace(e, logs={**e.logs, table: replace(log, metadata=metadata)})

    one = known_as(known_as(e, "a", "0a"), "c", "0A")
    (a,) = (a for a in MetadataRules().check(one).anomalies if a.name == "shared-uuid")
    assert (a.table, a.ops) == ("c", ()) and a.explanation.startswith("the tables a and c both have the table-uuid 0a.")
    assert not [a for a in MetadataRules().check(e).anomalies if a.name == "shared-uuid"]
    none = known_as(known_as(e, "a", None), "c", None)
    assert not [a for a in MetadataRules().check(none).anomalies if a.name == "shared-uuid"]


def test_what_only_has_an_equal_name_is_not_shared() -> None:
    e = run(0)
    first = {t: next(f.path for c in log.commits for f in c.added_files) for t, log in e.logs.items()}
    same = renamed(e, "b", first["b"], first["a"])
    assert shared(same) == [], "each below the location of its own table"
    elsewhere = renamed(e, "b", first["b"], "s3://elsewhere/" + first["a"])
    assert shared(elsewhere) == [], "no table has it"
    nested = replace(e, logs={**e.logs, "b": replace(e.logs["b"], location=e.logs["a"].location + "/b")})
    assert shared(nested) == [], "one below the other"


def test_two_tables_at_one_location_share_what_has_one_path_and_the_later_operation_is_named() -> None:
    e = run(1)
    start = {o.op: o.start for o in e.history.operations()}
    e = replace(e, logs={**e.logs, "b": replace(e.logs["b"], location=e.logs["a"].location + "/")})
    made = {t: {f.path: c.op for c in reversed(e.logs[t].commits) for f in c.added_files} for t in ("a", "b")}
    both = {path: {made["a"][path], made["b"][path]} for path in made["a"].keys() & made["b"].keys()}
    found = shared(e)
    assert len(found) == len(both) > 0
    for a in found:
        ops = both[a.files[0].removeprefix(e.logs["a"].location + "/")]
        assert set(a.ops) == ops and a.ops[0] == max(ops, key=lambda op: start[op or ""])
        assert a.ops[0] == made[a.table or ""][a.files[0].removeprefix(e.logs["a"].location + "/")]


def test_a_file_of_three_tables_is_told_once_and_names_each() -> None:
    e = run(2)
    paths = {t: e.logs[t].commits[0].added_files[0].path for t in NAMES}
    for other in ("b", "c"):
        e = renamed(e, other, paths[other], f"{e.logs['a'].location}/{paths['a']}")
    (a,) = shared(e)
    assert len(set(a.snapshots)) == 3 and a.ops[-1] == e.logs["a"].commits[0].op
