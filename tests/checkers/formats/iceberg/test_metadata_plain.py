"""Versions and commits that the checker ``metadata`` need not look at closely: it finds the same if it looks at all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Metadata, TableLog
from checkers.formats.iceberg.metadata import files
from checkers.formats.iceberg.metadata.entries import Entries, renumbered
from checkers.formats.iceberg.metadata.files import check_files
from checkers.formats.iceberg.metadata.numbers import Numbers
from checkers.formats.iceberg.metadata.partitions import Partitions
from checkers.formats.iceberg.metadata.plain import UNCHANGED, PlainVersions
from checkers.formats.iceberg.metadata.seen import VersionSeen
from checkers.formats.iceberg.metadata.summaries import FileMeasures
from checkers.formats.iceberg.metadata.versions import check_versions
from checkers.formats.iceberg.metadata.walk import FileWalk
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.selftest import recorded
from checkers.timeline.timelines import timelines
from checkers.timeline.version_order import Chain, VersionStep
from tests.support.simulator import ALTERING, MIX, WITH_EQUALITY, simulate
from workloads.tables import TableSpec

TABLE = "t"


def chain(rng: Random) -> Chain:
    """The versions of a simulated table."""
    spec = TableSpec(
        name=TABLE,
        seed_rows=4,
        format_version=rng.choice([2, 3]),
        mode=rng.choice(["copy-on-write", "merge-on-read"]),
        partitioned=rng.random() < 0.7,
    )
    made = simulate(rng.randrange(40), [spec], ops=8, mix=rng.choice([MIX, ALTERING, WITH_EQUALITY]))
    operations = made.history.operations()
    return Chain(made.logs[TABLE], operations, {o.op: o for o in operations})


def damaged_version(rng: Random, m: Metadata, others: list[Metadata]) -> Metadata:
    """A version with one thing wrong."""
    s = m.snapshots or (1,)
    one = rng.choice(s)
    raw: dict[str, Any] = {
        "last-column-id": rng.choice([0, 1, 99, "5", None]),
        "last-partition-id": rng.choice([0, 999, 2000, None]),
        "table-uuid": rng.choice(["another", None]),
        "metadata-log": [],
        "snapshot-log": [],
        "current-schema-id": 7,
    }
    key = rng.choice([*raw])
    return rng.choice(
        [
            replace(m, current=rng.choice([None, one, 5])),
            replace(m, refs=rng.choice([{}, {"main": one}, {**m.refs, "tag": one}, {**m.refs, "tag": 5}])),
            replace(m, snapshots=rng.choice([s[:-1], s[1:], (*s, one), (*s, 5), s[::-1], (*s[:-1], one), ()])),
            replace(m, last_sequence_number=max(0, m.last_sequence_number + rng.choice([-2, -1, 1, 2]))),
            replace(m, next_row_id=rng.choice([None, 0, (m.next_row_id or 0) + 3])),
            replace(m, format_version=rng.choice([1, 2, 3])),
            replace(m, raw={**m.raw, key: raw[key]}),
            replace(m, raw={k: v for k, v in m.raw.items() if k != key}),
            replace(m, problems=(Problem(rng.choice(["fork", "metadata-log", "snapshot-changed"]), "so"),)),
            replace(m, location=rng.choice(others).location),
            replace(m, last_updated_ms=m.last_updated_ms - 200_000),
            replace(
                m, raw={**m.raw, "metadata-log": [{"timestamp-ms": 1, "metadata-file": rng.choice(others).location}]}
            ),
        ]
    )


def damaged_logs(rng: Random, m: Metadata) -> Metadata:
    """A version with one thing wrong in one of its logs."""
    name = rng.choice(["metadata-log", "snapshot-log"])
    log = list(m.raw.get(name) or ())
    if not log:
        return m
    n = rng.choice([-1, -1, rng.randrange(len(log))])
    change = rng.randrange(5)
    if change == 0:
        log.pop(n)
    elif change == 1:
        log.insert(n, log[n])
    elif change == 2:
        log[n] = {
            **log[n],
            "timestamp-ms": rng.choice([0, None, *(log[n].get("timestamp-ms", 0) + by for by in (-70_000, 70_000))]),
        }
    elif change == 3:
        log[n] = {**log[n], rng.choice(["metadata-file", "snapshot-id"]): rng.choice([5, "s3://w/other.json"])}
    else:
        log = rng.choice([[], log[::-1], [*log, "?"]])
    return replace(m, raw={**m.raw, name: log})


def damaged_file(rng: Random, f: FileEntry) -> FileEntry:
    """What an entry can say wrong of a file."""
    number = rng.choice([None, 0, 1, 3, 99])
    return rng.choice(
        [
            replace(f, path=rng.choice(["data/x", f.path + "x"])),
            replace(f, content=rng.choice(["data", "position-deletes", "equality-deletes", "deletion-vector"])),
            replace(f, records=f.records + rng.choice([-1, 1])),
            replace(f, size=f.size + 1),
            replace(f, partition=rng.choice([{}, {"part": 9}, {"part": None}, {"day": 1}])),
            replace(f, data_sequence_number=number),
            replace(f, file_sequence_number=number),
            replace(f, snapshot_id=number),
            replace(f, referenced=rng.choice([None, "data/x", f.path])),
            replace(f, offset=rng.choice([None, 4, 5])),
            replace(f, first_row_id=number),
            replace(f, spec_id=rng.choice([None, 0, 1])),
        ]
    )


def damaged_files(rng: Random, c: Commit, others: list[Commit]) -> Commit:
    """A commit with one thing wrong in its files, its rows or its summary."""
    where = rng.choice(["added_files", "removed_files"])
    had: list[FileEntry] = list(getattr(c, where))
    known = [f for o in others for f in o.added_files]
    change = rng.randrange(7)
    if change == 0 and known:
        had.insert(rng.randrange(len(had) + 1), rng.choice(known))
    elif change == 1 and had:
        had.pop(rng.randrange(len(had)))
    elif change == 2 and had:
        had.append(rng.choice(had))
    elif change == 3 and c.summary:
        key = rng.choice([*c.summary])
        return replace(c, summary={**c.summary, key: rng.choice(["0", "1", "77", "x", "9" * 19])})
    elif change == 4 and (c.added or c.removed):
        rows = "added" if c.added else "removed"
        (first, *rest) = getattr(c, rows)
        part = rng.choice([99, None, "x"])
        changed: dict[str, Any] = {rows: (replace(first, row=(*first.row[:4], part)), *rest)}
        return replace(c, **changed)
    elif change == 5:
        return replace(c, **{where: getattr(rng.choice(others), where)})
    elif had:
        n = rng.randrange(len(had))
        had[n] = damaged_file(rng, had[n])
    told: dict[str, Any] = {where: tuple(had)}
    return replace(c, **told)


def damaged_commit(rng: Random, c: Commit, others: list[Commit]) -> Commit:
    """A commit with one thing wrong."""
    other = rng.choice(others)
    if rng.random() < 0.6:
        return damaged_files(rng, c, others)
    return rng.choice(
        [
            replace(c, sequence_number=c.sequence_number + rng.choice([-2, -1, 1, 2, 9])),
            replace(c, snapshot_id=other.snapshot_id),
            replace(c, parent_id=rng.choice([None, 5, other.snapshot_id, c.snapshot_id])),
            replace(c, metadata=other.metadata),
            replace(c, op=rng.choice([None, other.op, "nobody"])),
            replace(c, operation=rng.choice(["append", "delete", "replace", "overwrite", "other", ""])),
            replace(c, added=None),
            replace(c, problems=(Problem("outside-chain", "so"),)),
            replace(c, schema_id=7),
        ]
    )


def forked(metadata: list[Metadata], commits: list[Commit]) -> None:
    """The last version with a commit is made from the version before its predecessor."""
    n = max(c.metadata for c in commits)
    (c, *_), base, m = [c for c in commits if c.metadata == n], metadata[n - 2], metadata[n]
    entry = {"timestamp-ms": base.last_updated_ms, "metadata-file": base.location}
    metadata[n] = replace(
        m,
        snapshots=(*base.snapshots, c.snapshot_id),
        current=c.snapshot_id,
        refs={"main": c.snapshot_id},
        last_sequence_number=max(c.sequence_number, base.last_sequence_number),
        raw={**base.raw, "metadata-log": [entry]},
    )


def damaged(rng: Random, log: TableLog) -> TableLog:
    """The log with a few things wrong."""
    metadata, commits = list(log.metadata), list(log.commits)
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.05 and len(metadata) > 2 and max(c.metadata for c in commits) > 1:
            forked(metadata, commits)
        elif rng.random() < 0.1:  # from one version on, a snapshot is listed twice
            n = rng.randrange(len(metadata))
            metadata[n:] = [replace(m, snapshots=(*m.snapshots[:1], *m.snapshots)) for m in metadata[n:]]
        elif commits and rng.random() < 0.5:
            n = rng.randrange(len(commits))
            commits[n] = damaged_commit(rng, commits[n], commits)
        else:
            n = rng.randrange(len(metadata))
            m = metadata[n]
            metadata[n] = damaged_logs(rng, m) if rng.random() < 0.3 else damaged_version(rng, m, metadata)
    return replace(log, metadata=tuple(metadata), commits=tuple(commits))


def found(c: Chain) -> tuple[VersionSeen, VersionSeen]:
    fresh = Chain(c.log, c.of_table, c.by_op)
    return check_versions(fresh, torn=False), check_files(fresh, complete=True)


def thorough(c: Chain, patch: pytest.MonkeyPatch) -> tuple[VersionSeen, VersionSeen]:
    """What is found if every version and every commit is looked at."""
    with patch.context() as p:
        p.setattr(PlainVersions, "__call__", lambda self, step: False)
        p.setattr(Numbers, "_ascending", lambda self: False)
        p.setattr(files, "renumbered", list)
        p.setattr(Partitions, "copied", lambda self, f: None if f.partition else ([], []))
        p.setattr(FileWalk, "_plain", lambda self, c: False)
        p.setattr(FileWalk, "_is_line", lambda self: False)
        return found(c)


@given(st.randoms(use_true_random=False), st.booleans())
def test_the_same_is_found(rng: Random, right: bool) -> None:
    c = chain(rng)
    if not right:
        c = replace(c, log=damaged(rng, c.log))
    with pytest.MonkeyPatch.context() as patch:
        assert found(c) == thorough(c, patch)


# --- recognised ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", ["quick-120", "quick-240"])
def test_nearly_all_of_real_runs_is_plain(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy-on-write, merge-on-read and deletion vectors of Spark, with compactions and an expiry."""
    commits: list[bool] = []
    plain = FileWalk._plain

    def noted(self: FileWalk, c: Commit) -> bool:
        commits.append(plain(self, c))
        return commits[-1]

    monkeypatch.setattr(FileWalk, "_plain", noted)
    for t in timelines(recorded.load(run))[0]:
        c, commits[:] = t.chain, []
        versions = [*map(PlainVersions(c), c.steps)]
        assert versions.count(False) <= 3 < 20 < len(versions)
        check_files(c, complete=True)
        assert all(commits) and len(commits) == len(c.log.commits)
        assert Numbers(c, VersionSeen(), torn=False)._ascending()
        others = renumbered(c.log.commits)
        assert {o.operation for o in others} <= {"replace"} and len(others) < len(commits) / 4
        data = [f for x in c.log.commits for f in x.added_files if f.content == "data" and f.partition]
        assert all(Partitions(c.log).copied(f) for f in data)


# --- refused ------------------------------------------------------------------------------------------------------------


def plain_log() -> tuple[TableLog, int]:
    """A log, and the number of a plain version in the middle of it."""
    c = chain_of(1)
    return c.log, next(s.after.n for s in c.steps if s.after.n > 6 and PlainVersions(c)(s))


def chain_of(seed: int, **more: Any) -> Chain:
    made = simulate(seed, [TableSpec(name=TABLE, seed_rows=4, **more)], ops=8)
    operations = made.history.operations()
    return Chain(made.logs[TABLE], operations, {o.op: o for o in operations})


def raw(m: Metadata, **changes: Any) -> Metadata:
    """A version whose unparsed fields are others; ``_`` in a name stands for ``-``, None drops one."""
    new = {**m.raw, **{k.replace("_", "-"): v for k, v in changes.items()}}
    return replace(m, raw={k: v for k, v in new.items() if v is not None})


def last_entry(m: Metadata, log: str, **changes: Any) -> Metadata:
    (*older, last) = m.raw[log]
    return replace(m, raw={**m.raw, log: [*older, {**last, **{k.replace("_", "-"): v for k, v in changes.items()}}]})


def late(m: Metadata, log: str) -> Metadata:
    """The version and the last entry of one of its logs are long before the entry before it."""
    (*older, before, last) = m.raw[log]
    time = before["timestamp-ms"] - 60_001
    return replace(m, raw={**m.raw, log: [*older, before, {**last, "timestamp-ms": time}]}, last_updated_ms=time)


Break = Callable[[Metadata, Metadata, Commit], tuple[Metadata, Metadata, list[Commit]]]


def another(key: str) -> Break:
    return lambda a, m, c: (a, replace(m, raw={**m.raw, key: "other"}), [c])


BROKEN: dict[str, Break] = {
    "no snapshot of its own": lambda a, m, c: (a, m, []),
    "two snapshots": lambda a, m, c: (a, m, [c, replace(c, snapshot_id=5)]),
    "the id of another snapshot": lambda a, m, c: (a, m, [c, replace(c, metadata=m.n + 1)]),
    "a problem": lambda a, m, c: (a, replace(m, problems=(Problem("snapshot-changed", "so"),)), [c]),
    "a missing predecessor": lambda a, m, c: (a, replace(m, problems=(Problem("missing-metadata", "so"),)), [c]),
    "an older predecessor": lambda a, m, c: (replace(a, location="s3://w/elsewhere.json"), m, [c]),
    "one snapshot less": lambda a, m, c: (a, replace(m, snapshots=m.snapshots[1:]), [c]),
    "one snapshot more": lambda a, m, c: (a, replace(m, snapshots=(5, *m.snapshots)), [c]),
    "another order": lambda a, m, c: (a, replace(m, snapshots=(*m.snapshots[-2::-1], c.snapshot_id)), [c]),
    "a snapshot twice": lambda a, m, c: (
        replace(a, snapshots=(*a.snapshots, a.snapshots[0])),
        replace(m, snapshots=(*a.snapshots, a.snapshots[0], c.snapshot_id)),
        [c],
    ),
    "listed before": lambda a, m, c: (
        replace(a, snapshots=(*a.snapshots, c.snapshot_id)),
        replace(m, snapshots=(*a.snapshots, c.snapshot_id, c.snapshot_id)),
        [c],
    ),
    "another current snapshot": lambda a, m, c: (a, replace(m, current=a.current), [c]),
    "current before": lambda a, m, c: (replace(a, current=c.snapshot_id), m, [c]),
    "main elsewhere": lambda a, m, c: (a, replace(m, refs={"main": a.snapshots[0]}), [c]),
    "a tag": lambda a, m, c: (a, replace(m, refs={**m.refs, "tag": a.snapshots[0]}), [c]),
    "a tag before": lambda a, m, c: (replace(a, refs={**a.refs, "tag": a.snapshots[0]}), m, [c]),
    "no main before": lambda a, m, c: (replace(a, refs={"tag": a.snapshots[0]}), m, [c]),
    "a lower last sequence number": lambda a, m, c: (
        replace(a, last_sequence_number=m.last_sequence_number + 1),
        m,
        [c],
    ),
    "a higher last sequence number": lambda a, m, c: (
        a,
        replace(m, last_sequence_number=m.last_sequence_number + 1),
        [c],
    ),
    "a sequence number above the last": lambda a, m, c: (
        a,
        m,
        [replace(c, sequence_number=m.last_sequence_number + 1)],
    ),
    "a new format version": lambda a, m, c: (a, replace(m, format_version=3), [c]),
    "fewer row ids": lambda a, m, c: (replace(a, next_row_id=7), replace(m, next_row_id=6), [c]),
    "no row ids any more": lambda a, m, c: (replace(a, next_row_id=7), m, [c]),
    "another schema's snapshot": lambda a, m, c: (a, m, [replace(c, schema_id=1)]),
    "an id of no schema": lambda a, m, c: (
        raw(a, current_schema_id=7),
        raw(m, current_schema_id=7),
        [replace(c, schema_id=7)],
    ),
    **{f"another {k}": another(k) for k in UNCHANGED},
    "no metadata log": lambda a, m, c: (a, raw(m, metadata_log=None), [c]),
    "no metadata log before": lambda a, m, c: (raw(a, metadata_log=None), m, [c]),
    "an empty metadata log": lambda a, m, c: (a, raw(m, metadata_log=[]), [c]),
    "a metadata log of words": lambda a, m, c: (a, raw(m, metadata_log=[*m.raw["metadata-log"][:-1], "?"]), [c]),
    "a shorter metadata log": lambda a, m, c: (a, raw(m, metadata_log=m.raw["metadata-log"][1:]), [c]),
    "a longer metadata log": lambda a, m, c: (a, raw(m, metadata_log=[{}, *m.raw["metadata-log"]]), [c]),
    "an older entry that changed": lambda a, m, c: (
        a,
        raw(m, metadata_log=[{**m.raw["metadata-log"][0], "timestamp-ms": 1}, *m.raw["metadata-log"][1:]]),
        [c],
    ),
    "an entry of another version": lambda a, m, c: (a, last_entry(m, "metadata-log", metadata_file="s3://w/x"), [c]),
    "an entry without a time": lambda a, m, c: (a, last_entry(m, "metadata-log", timestamp_ms=None), [c]),
    "an entry after the version": lambda a, m, c: (
        a,
        last_entry(m, "metadata-log", timestamp_ms=m.last_updated_ms + 60_001),
        [c],
    ),
    "an entry before the one before it": lambda a, m, c: (a, late(m, "metadata-log"), [c]),
    "no snapshot log": lambda a, m, c: (a, raw(m, snapshot_log=None), [c]),
    "no snapshot log before": lambda a, m, c: (raw(a, snapshot_log=None), m, [c]),
    "an empty snapshot log": lambda a, m, c: (raw(a, snapshot_log=[]), raw(m, snapshot_log=[]), [c]),
    "a snapshot log of words": lambda a, m, c: (a, raw(m, snapshot_log=[*m.raw["snapshot-log"][:-1], "?"]), [c]),
    "a shorter snapshot log": lambda a, m, c: (a, raw(m, snapshot_log=m.raw["snapshot-log"][1:]), [c]),
    "no line for the snapshot": lambda a, m, c: (a, raw(m, snapshot_log=m.raw["snapshot-log"][:-1]), [c]),
    "a line for another snapshot": lambda a, m, c: (a, last_entry(m, "snapshot-log", snapshot_id=5), [c]),
    "a line after the version": lambda a, m, c: (
        a,
        last_entry(m, "snapshot-log", timestamp_ms=m.last_updated_ms + 60_001),
        [c],
    ),
    "a line before the one before it": lambda a, m, c: (a, late(m, "snapshot-log"), [c]),
}
"""What makes a version that is otherwise plain another one."""


def judged_plain(log: TableLog, n: int) -> bool:
    return PlainVersions(Chain(log, (), {}))(Chain(log, (), {}).steps[n])


@pytest.mark.parametrize("what", BROKEN)
def test_a_version_with_anything_else_is_looked_at(what: str) -> None:
    log, n = plain_log()
    assert judged_plain(log, n)
    (c,) = [c for c in log.commits if c.metadata == n]
    a, m, mine = BROKEN[what](log.metadata[n - 1], log.metadata[n], c)
    log = replace(
        log,
        metadata=(*log.metadata[: n - 1], a, m, *log.metadata[n + 1 :]),
        commits=(*(x for x in log.commits if x is not c), *mine),
    )
    assert not judged_plain(log, n)


def test_the_first_versions_and_a_repeated_one_are_looked_at() -> None:
    log, n = plain_log()
    assert not judged_plain(log, 0)
    assert not judged_plain(log, min(c.metadata for c in log.commits))
    again = replace(log, metadata=(*log.metadata, log.metadata[n]))
    assert not PlainVersions(Chain(again, (), {}))(Chain(again, (), {}).steps[-1])


def test_a_full_metadata_log_loses_as_many_entries_as_the_property_says() -> None:
    log, n = plain_log()
    entries = log.metadata[n].raw["metadata-log"]

    def kept(most: str, left_out: int) -> bool:
        a, m = log.metadata[n - 1 : n + 1]
        properties = {"write.metadata.previous-versions-max": most}
        a, m = raw(a, properties=properties), raw(m, properties=properties, metadata_log=entries[left_out:])
        return judged_plain(replace(log, metadata=(*log.metadata[: n - 1], a, m)), n)

    assert kept(str(len(entries) - 1), 1) and kept("100", 0)
    assert not kept(str(len(entries) - 1), 2) and not kept("100", 1)


def test_after_a_wrong_version_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is due then is not what the predecessor says."""
    log, n = plain_log()
    later = range(n + 1, len(log.metadata))
    wrong = raw(log.metadata[n], metadata_log=log.metadata[n].raw["metadata-log"][1:])
    asked: list[int] = []
    plain = PlainVersions.__call__

    def noted(self: PlainVersions, step: VersionStep) -> bool:
        asked.append(step.after.n)
        return plain(self, step)

    monkeypatch.setattr(PlainVersions, "__call__", noted)
    check_versions(Chain(log, (), {}), torn=False)
    assert {*later} <= {*asked}
    asked.clear()
    check_versions(Chain(replace(log, metadata=(*log.metadata[:n], wrong, *log.metadata[n + 1 :])), (), {}), torn=False)
    assert max(asked) == n


# --- commits ------------------------------------------------------------------------------------------------------------


def entry(path: str, content: Any = "data", **more: Any) -> FileEntry:
    return FileEntry(
        path,
        content,
        1,
        10,
        {},
        format="parquet",
        data_sequence_number=1,
        file_sequence_number=1,
        snapshot_id=1,
        **more,
    )


A, B, NEW = entry("data/a"), entry("data/b"), entry("data/new")
GONE = entry("data/gone")
ON_A = entry("data/v1", "deletion-vector", referenced="data/a", offset=4)
ON_B = entry("data/v2", "deletion-vector", referenced="data/b", offset=4)
ON_GONE = entry("data/v3", "deletion-vector", referenced="data/gone", offset=4)
POSITIONS = entry("data/p", "position-deletes", referenced="data/a")
LIVE = (A, B, ON_A, POSITIONS)


def walked(*live: FileEntry) -> FileWalk:
    """A walk at a snapshot with these live files."""
    c = commit(added=live)
    log = TableLog(TABLE, TABLE, "s3://w/t", ("id",), (), (c,), (), True)
    made = Chain(log, (), {})
    entries = Entries(made, lambda _: None, set(), ())
    walk = FileWalk(made, VersionSeen(), set(), entries, set(), FileMeasures())
    walk.run()
    return walk


def commit(added: Sequence[FileEntry] = (), removed: Sequence[FileEntry] = ()) -> Commit:
    return Commit(
        1,
        None,
        1,
        0,
        "overwrite",
        "op",
        1,
        1,
        (),
        (),
        summary={},
        manifest_list="metadata/snap-1.avro",
        schema_id=0,
        added_files=tuple(added),
        removed_files=tuple(removed),
    )


PLAIN: dict[str, tuple[Sequence[FileEntry], Sequence[FileEntry]]] = {
    "nothing": ((), ()),
    "an append": ((NEW,), ()),
    "a rewrite": ((NEW,), (B,)),
    "position deletes": ((entry("data/p2", "position-deletes", referenced="data/b"),), ()),
    "position deletes that go": ((), (POSITIONS,)),
    "a first deletion vector": ((ON_B,), ()),
    "the next deletion vector": ((entry("data/v9", "deletion-vector", referenced="data/a", offset=4),), (ON_A,)),
    "a file with its deletion vector": ((NEW,), (A, ON_A)),
    "two vectors in one file": ((ON_B, entry("data/v2", "deletion-vector", referenced="data/a", offset=9)), (ON_A,)),
}
NOT_PLAIN: dict[str, tuple[Sequence[FileEntry], Sequence[FileEntry]]] = {
    "a file that is live": ((A,), ()),
    "a file that is live, as another entry": ((entry("data/a", offset=7),), ()),
    "a file twice": ((NEW, NEW), ()),
    "a file that was not live": ((), (GONE,)),
    "a file removed twice": ((), (B, B)),
    "a file told differently": ((), (replace(B, size=11),)),
    "a file told at another place": ((), (replace(POSITIONS, offset=7),)),
    "a file removed and added": ((B,), (B,)),
    "a vector of another vector's file": ((entry("data/v9", "deletion-vector", referenced="data/a", offset=4),), ()),
    "two vectors of one file": ((ON_B, entry("data/v9", "deletion-vector", referenced="data/b", offset=4)), ()),
    "a vector of no file": ((ON_GONE,), ()),
    "a vector of a file that goes": ((ON_B,), (B,)),
    "a vector that does not say of which file": ((replace(ON_B, referenced=None),), ()),
    "a file whose vector stays": ((), (A,)),
}


@pytest.mark.parametrize("what", PLAIN)
def test_a_usual_commit_is_plain(what: str) -> None:
    assert walked(*LIVE)._plain(commit(*PLAIN[what]))


@pytest.mark.parametrize("what", NOT_PLAIN)
def test_another_commit_is_looked_at(what: str) -> None:
    assert not walked(*LIVE)._plain(commit(*NOT_PLAIN[what]))


def test_files_that_were_wrong_before_are_looked_at() -> None:
    """A path that is live twice, a data file with two vectors, a vector of a file that is not live or does not say of which it is."""
    twice = entry("data/b", offset=7)
    assert not walked(B, twice)._plain(commit((), (B,)))
    two = entry("data/v9", "deletion-vector", referenced="data/a", offset=4)
    assert not walked(A, ON_A, two)._plain(commit((), (A, ON_A)))
    assert not walked(B, twice)._plain(commit((ON_B,)))
    assert not walked(ON_GONE)._plain(commit((GONE,)))
    nameless = replace(ON_A, referenced=None)
    assert not walked(A, nameless)._plain(commit((), (nameless,)))


def test_the_state_after_plain_commits_is_that_of_the_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    for what, (added, removed) in PLAIN.items():
        after = []
        for plain in (True, False):
            with monkeypatch.context() as p:
                if not plain:
                    p.setattr(FileWalk, "_plain", lambda self, c: False)
                walk = walked(*LIVE)
                walk._down(commit(added, removed))
                down = dict(walk._live.live), dict(walk._data), dict(walk._totals)
                walk._do(commit(added, removed), -1)
                walk._live.undo()
                after.append((down, {k: [*v] for k, v in walk._live.live.items()}, walk._data, walk._vectors))
        assert after[0] == after[1], what
        assert [f for entries in after[0][1].values() for f in entries] and not after[0][1].keys() ^ {
            (f.path, f.offset) for f in LIVE
        }
