"""The search with what changes a table's metadata or its store: expiry, rollback, tags, staged commits, columns, the format version, and the
removal of orphan files.

A log's entry n makes version n of the metadata. So a snapshot is no longer the same as a version: main may go back, a snapshot may be on
no branch, and one that nothing needs is taken away with its files. Whoever validates follows main from its base back to the
snapshot that it scanned (``MergingSnapshotProducer.validationHistory``). Each kind is held to
:func:`checkers.conflicts.validations.metadata_rules`.

What is real and what is left out:

* An operation writes its files after its scan and before its commit. Files in no metadata are orphans meanwhile; the age by which
  the procedure spares them is no validation, and there is none.
* A catalog that compares requirements lets an expiry through that was computed from an older version, because Iceberg asks it to compare
  nothing (``UpdateRequirements``). The expiry deletes the files of what it removed when its commit is there, in one step with it.
* Every commit but an append drops the delete files that are older than all data files which it leaves
  (``dropDeleteFilesOlderThan``). A DELETE of a partition remembers which manifests it has filtered (``ManifestFilterManager``): what its
  first attempt dropped its second one drops, too, though a rollback may have made it needed.
* A streaming writer that starts again looks for its epoch in main's history, back to the first snapshot that is not listed any more
  (``SparkWrite.findLastCommittedEpochId``), and commits it again if it does not find it.
* A publish has read the staged snapshot, and asks at each attempt whether it is still there (``WapUtil.validateWapPublish``). A catalog
  that compares requirements compares main, and does not refuse it if the snapshot goes after that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from checkers.conflicts.validations import (
    FileEffect,
    KeyBounds,
    PendingCommit,
    RowFilter,
    metadata_rules,
    refusals,
    rules_beside_metadata,
    rules_of_server,
)
from checkers.evidence.replace import replace
from checkers.formats.iceberg.model import properties
from checkers.formats.iceberg.model.logtree import Bound, Explored, Log, LogEntry, goes_on
from checkers.formats.iceberg.model.operations import ModelOperation, Work, attempt, committed, rules_of_kind, work
from checkers.formats.iceberg.model.table import TableVersion, seeded
from workloads.engines.engine import Rule
from workloads.file.modelled import COMPACTION, REWRITE_KINDS, UPKEEP

LOST_COMMIT, LOST_TAG, MISSING = "lost-commit", "lost-tag", "missing-file"
OLD_DELETES = "position-deletes-in-v3"
UNPUBLISHED = "unpublished-row"
COMMITTED_TWICE = "duplicate-commit"
ORPHANS = "remove-orphan-files"
NOTHING = FileEffect("none")


class MetadataState(NamedTuple):
    """A version of the metadata, and what the store has lost. Snapshots are numbers of the entries that made them; 0: the start.

    Attributes:
        main: its snapshot; None: there is no such branch any more.
        snapshots: those that are listed.
        tags: entry that made a tag → snapshot; as pairs.
        gone: names of files that were deleted from the store.
    """

    main: int | None
    snapshots: frozenset[int]
    tags: frozenset[tuple[int, int]] = frozenset()
    gone: frozenset[str] = frozenset()
    format_version: int = 2


class ModelSnapshot(NamedTuple):
    """A snapshot: the one before, the table that it has, what its commit wrote, whose it is, which snapshot that one scanned, and the
    number by which its rows are named."""

    parent: int | None
    table: TableVersion
    done: Work | None
    operation: ModelOperation | None
    scanned: int | None
    number: int


@dataclass
class Candidate:
    """What an entry leads to: the new state, what others are validated against, and the snapshot that it makes, if it makes one."""

    state: MetadataState
    effect: FileEffect = NOTHING
    made: ModelSnapshot | None = None


@dataclass
class UpkeepBranch:
    """The path from the root to the log at hand."""

    bound: Bound
    out: Explored
    operations: list[ModelOperation]
    states: list[MetadataState]
    made: dict[int, ModelSnapshot]
    live: dict[str, KeyBounds]
    entries: list[LogEntry] = field(default_factory=list)
    effects: list[FileEffect] = field(default_factory=list)
    deepest: int | None = None

    def below(self, writes: int, compactions: int, upkeep: int, used: int) -> Iterator[tuple[Log, str | None]]:
        """The logs that go on from here. ``used``: how many keys the log has used."""
        base = len(self.entries)
        for o in self.operations:
            compacts, keeps = o.kind in REWRITE_KINDS, o.kind in UPKEEP
            if not (compactions if compacts else upkeep if keeps else writes) or (not o.whole and o.key > used):
                continue
            for scan in self._scans(o):
                found = self.allowed(o, scan)
                if found is None:
                    continue
                self.push(o, scan, found)
                name = self._broken(o, scan, found)
                yield tuple(self.entries), name
                if goes_on(name) and len(self.entries) != self.deepest:
                    yield from self.below(
                        writes - (not compacts and not keeps),
                        compactions - compacts,
                        upkeep - keeps,
                        used if o.whole else max(used, o.key + 1),
                    )
                self._pop(found)
                assert len(self.entries) == base

    # --- which scans differ

    def _scans(self, o: ModelOperation) -> list[int]:
        base = len(self.entries)
        if o.kind in ("upgrade", "stage", "restart-stream", ORPHANS):
            return [base]  # made anew at each attempt, and the rest of it does not depend on what was there
        before = {"insert": ORPHANS, "delete-partition": "rollback"}.get(o.kind)
        if before is not None:  # it has no scan, but files, and remembers what it has filtered
            return [base, *(n for n, e in enumerate(self.entries) if e.operation.kind == before)]
        return list(range(base, -1, -1))  # the later scan first: it needs no gate

    # --- what an operation leads to

    def allowed(self, o: ModelOperation, scan: int) -> Candidate | None:
        """None if it has nothing to do, or is refused."""
        now, then = self.states[-1], self.states[scan]
        if now.main is None or then.main is None:
            return None
        if o.kind in UPKEEP:
            return _UPKEEP[o.kind](self, o, now, then, scan)
        scanned = self.made[now.main if o.at_base else then.main].table
        done = work(o, scanned, len(self.entries) + 1, self.bound.partitions)
        if done is None:
            return None
        if o.kind == COMPACTION and then.format_version == 2:  # vectors go with their files, position deletes do not
            done = replace(done, dropped=frozenset())
        if done.effect.operation != "append":
            done = replace(done, dropped=done.dropped | self._stale(self.made[now.main].table, done))
        if o.kind == "delete-partition" and scan < len(self.entries):
            before = self.made[then.main].table
            first = work(o, before, len(self.entries) + 1, self.bound.partitions)
            done = done if first is None else replace(done, dropped=done.dropped | self._stale(before, first))
        wanted = attempt(
            o,
            done,
            serializable=self.bound.serializable,
            format_version=then.format_version,
            without=self.bound.lacks(o),
            partitions=self.bound.partitions,
        )
        rules = rules_beside_metadata(
            wanted.rules, merge_on_read=bool(done.deletes), format_version=then.format_version
        )
        wanted = replace(wanted, rules=self._with(o, rules), scanned=then.main)
        if self._refused(wanted, scan) or self._refused_by_server(o, wanted, scan):
            return None
        n = len(self.entries) + 1
        made = ModelSnapshot(
            now.main, committed(self.made[now.main].table, done, vectors=now.format_version == 3), done, o, then.main, n
        )
        gone = now.gone | (self._written(done) if self._swept(scan) else frozenset())
        return Candidate(now._replace(main=n, snapshots=now.snapshots | {n}, gone=gone), made=made)

    def _stale(self, table: TableVersion, done: Work) -> frozenset[str]:
        """The delete files that are older than every data file which this work leaves."""
        left = (f.sequence for name, f in table.files.items() if name not in done.effect.removed)
        least = min((table.sequence, *left))
        return frozenset(name for name in table.deletes if _maker(name) + 1 < least)

    def _with(self, o: ModelOperation, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        lacks = self.bound.lacks(o)
        return tuple(r for r in rules if r not in lacks)

    def _refused(self, wanted: PendingCommit, scan: int) -> bool:
        main = self.states[-1].main
        files = []
        while main is not None and main != wanted.scanned:
            snapshot = self.made[main]
            files += [snapshot.done.effect] if snapshot.done is not None else []
            main = snapshot.parent
        if main is None:  # what is not known as history refuses by the rule for it
            files = []
        found = refusals(wanted, [*self.effects[scan:], *files], self.live)
        self.out.fired.update(found)
        return bool(found)

    def _refused_by_server(self, o: ModelOperation, wanted: PendingCommit, scan: int) -> bool:
        """Where the operation did not see what came last, since nothing made it try again."""
        asked = replace(wanted, rules=self._with(o, rules_of_server(self.bound.compares)))
        seen = len(self.entries) if o.at_commit else self.refreshed(scan)
        found = refusals(asked, self.effects[seen:], self.live)
        self.out.fired.update(found)
        return bool(found)

    def _written(self, done: Work) -> frozenset[str]:
        return frozenset((*done.added, *done.deletes))

    def _swept(self, scan: int) -> bool:
        """Whether somebody removed orphan files since this version."""
        return any(e.operation.kind == ORPHANS for e in self.entries[scan:])

    def _files(self, snapshots: frozenset[int]) -> frozenset[str]:
        """The files that some of these snapshots have."""
        return frozenset(f for s in snapshots for f in (*self.made[s].table.files, *self.made[s].table.deletes))

    def chain(self, main: int | None) -> list[int]:
        """The snapshots from the start to this one."""
        out = []
        while main is not None:
            out.append(main)
            main = self.made[main].parent
        return out[::-1]

    def ancestor(self, state: MetadataState, back: int) -> int | None:
        """The ancestor of main so many snapshots before; None: it is not listed, or there is none."""
        chain = self.chain(state.main)
        if len(chain) <= back or chain[-1 - back] not in state.snapshots:
            return None
        return chain[-1 - back]

    def refreshed(self, scan: int) -> int:
        """The version on which the last attempt of an operation was made that sets main: the catalog refuses it once for what moves main, or,
        where it compares the location, for everything."""
        if self.bound.compares == "location":
            return len(self.entries)
        moved = [n for n in range(scan + 1, len(self.states)) if self.states[n].main != self.states[n - 1].main]
        return moved[-1] if moved else scan

    def metadata_commit(
        self, o: ModelOperation, effect: FileEffect, then: MetadataState, scan: int, seen: int | None = None
    ) -> bool:
        """Whether a change of the metadata is let through. ``seen``: the last version that anybody compares it with; None: the current one."""
        rules = self._with(o, metadata_rules(o.kind, self.bound.compares))
        on_main = [FileEffect("none", published=self.made[s].number) for s in self.chain(self.states[-1].main)]
        others = [*self.effects[scan:seen], *(on_main if effect.published is not None else ())]
        found = refusals(PendingCommit(effect, RowFilter(), rules, then.main), others, self.live)
        self.out.fired.update(found)
        return not found

    # --- what must hold

    def _broken(self, o: ModelOperation, scan: int, found: Candidate) -> str | None:
        state = found.state
        if state.main is None:
            return LOST_COMMIT
        tags = {n for n, e in enumerate(self.entries, 1) if e.operation.kind == "create-tag"}
        if tags - {n for n, _ in state.tags}:
            return LOST_TAG
        needed = self._files(frozenset({state.main, *(s for _, s in state.tags)}))
        if needed & state.gone:
            return MISSING
        if found.made is None or found.made.done is None or o.kind in UPKEEP:
            return self._publishing(state)
        if found.made.done.deletes and state.format_version == 3 and self.states[scan].format_version == 2:
            return OLD_DELETES
        return self._rows(state)

    def _publishing(self, state: MetadataState) -> str | None:
        """Staged rows are on main by a publish, and once; an epoch of a stream is there once."""
        kinds = [e.operation.kind for e in self.entries]
        of_main = Counter(self.made[s].number for s in self.chain(state.main))
        staged = {n: count for n, count in of_main.items() if n and kinds[n - 1] == "stage"}
        if staged and "publish" not in kinds:
            return UNPUBLISHED
        if any(count > 1 for count in staged.values()):
            return "duplicate-row"
        return COMMITTED_TWICE if any(count > 1 for count in of_main.values()) else None

    def _without_position_deletes(self, table: TableVersion) -> TableVersion:
        """Of version 2, which are no vectors, if there are any."""
        old = {name for name in table.deletes if self.states[self.entries[_maker(name) - 1].scan].format_version == 2}
        if not old:
            return table
        return replace(table, deletes={name: d for name, d in table.deletes.items() if name not in old})

    def _rows(self, state: MetadataState) -> str | None:
        """The promise about rows that the last commit of main breaks."""
        chain = self.chain(state.main)
        place = {s: n for n, s in enumerate(chain)}
        made = [self.made[s] for s in chain[1:]]
        last = made[-1].done
        assert last is not None
        tables = [self.made[s].table for s in chain]
        broken = properties.broken(
            tables,
            [m.operation for m in made if m.operation is not None],
            [place.get(-1 if m.scanned is None else m.scanned, n) for n, m in enumerate(made)],
            last,
            serializable=self.bound.serializable,
            format_version=2,
            partitions=self.bound.partitions,
            numbers=[m.number for m in made],
        )
        if broken is not None or state.format_version == 2:
            return broken
        return properties.of_vectors(*map(self._without_position_deletes, tables[-2:]))

    # --- the path

    def push(self, o: ModelOperation, scan: int, found: Candidate) -> None:
        n = len(self.entries) + 1
        self.entries.append(LogEntry(o, scan))
        self.states.append(found.state)
        self.effects.append(found.effect)
        if found.made is not None:
            self.made[n] = found.made
            if found.made.done is not None:
                self.live.update((name, f.bounds) for name, f in found.made.done.added.items())

    def _pop(self, found: Candidate) -> None:
        n = len(self.entries)
        self.entries.pop()
        self.states.pop()
        self.effects.pop()
        if found.made is not None:
            del self.made[n]
            if found.made.done is not None and found.made.number == n:
                for name in found.made.done.added:
                    del self.live[name]


def _maker(name: str) -> int:
    """The number of the entry that wrote a delete file, which its name begins with."""
    return int(name.partition("-")[0])


def _expire(b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int) -> Candidate | None:
    """Keeps main and what tags point to, of the version that it has seen, and nothing else (``retain_last => 1``)."""
    if b.bound.compares == "location" and scan < len(b.entries):
        expired = (then.snapshots - _kept(then)) | (now.snapshots - _kept(now))
    else:
        expired = then.snapshots - _kept(then)
    expired &= now.snapshots
    if not expired:
        return None
    main = None if now.main in expired else now.main
    snapshots = now.snapshots - expired
    discarded = frozenset(b.made) - _known(b, main, snapshots)
    effect = FileEffect("none", expired=expired, discarded=discarded)
    if not b.metadata_commit(o, effect, then, scan):
        return None
    tags = frozenset((n, s) for n, s in now.tags if s not in expired)
    gone = now.gone | (b._files(expired) - b._files(snapshots))
    return Candidate(now._replace(main=main, snapshots=snapshots, tags=tags, gone=gone), effect)


def _kept(state: MetadataState) -> frozenset[int]:
    return frozenset({s for _, s in state.tags} | ({state.main} if state.main is not None else set()))


def _known(b: UpkeepBranch, main: int | None, snapshots: frozenset[int]) -> frozenset[int]:
    """The snapshots from which a validation can follow main to its end, snapshot by snapshot."""
    out = set()
    while main is not None:
        out.add(main)
        if main not in snapshots:
            break
        main = b.made[main].parent
    return frozenset(out)


def _rollback(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    target = b.ancestor(then, 1)
    if target is None or target == now.main:
        return None
    was, back = b.made[now.main].table if now.main is not None else b.made[target].table, b.made[target].table
    effect = FileEffect(
        "none",
        removed=frozenset(was.files.keys() - back.files.keys()),
        merged=frozenset(was.deletes[d].data_file for d in was.deletes.keys() - back.deletes.keys()),
        discarded=frozenset(b.made) - _known(b, target, now.snapshots),
        referenced=target,
    )
    if not b.metadata_commit(o, effect, then, scan):
        return None
    return Candidate(now._replace(main=target), effect)


def _tag(b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int) -> Candidate | None:
    """A tag on the snapshot before main."""
    target = b.ancestor(then, 1)
    effect = FileEffect("none", referenced=target)
    if target is None or not b.metadata_commit(o, effect, then, scan):
        return None
    return Candidate(now._replace(tags=now.tags | {(len(b.entries) + 1, target)}), effect)


def _stage(b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int) -> Candidate | None:
    """An INSERT whose snapshot is on no branch."""
    assert now.main is not None
    n, table = len(b.entries) + 1, b.made[now.main].table
    insert = ModelOperation("insert", o.key)
    done = work(insert, table, n, b.bound.partitions)
    if done is None:
        return None
    made = ModelSnapshot(now.main, committed(table, done, vectors=now.format_version == 3), done, insert, now.main, n)
    return Candidate(now._replace(snapshots=now.snapshots | {n}), made=made)


def _restart(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    """The last INSERT of its key was its epoch."""
    epochs = [n for n, e in enumerate(b.entries, 1) if (e.operation.kind, e.operation.key) == ("insert", o.key)]
    if not epochs:
        return None
    snapshot = now.main
    while snapshot is not None and snapshot in now.snapshots:
        if b.made[snapshot].number == epochs[-1]:
            return None
        snapshot = b.made[snapshot].parent
    assert now.main is not None
    n, table, insert = len(b.entries) + 1, b.made[now.main].table, ModelOperation("insert", o.key, again=True)
    done = work(insert, table, n, b.bound.partitions)
    assert done is not None, "it does not ask whether its row is there"
    made = ModelSnapshot(
        now.main, committed(table, done, vectors=now.format_version == 3), done, insert, now.main, epochs[-1]
    )
    return Candidate(now._replace(main=n, snapshots=now.snapshots | {n}), made=made)


def _publish(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    """Cherry-picks the snapshot that was staged last, or makes it main's where it follows main."""
    assert now.main is not None
    staged = [n for n, e in enumerate(b.entries[:scan], 1) if e.operation.kind == "stage" and n in then.snapshots]
    if not staged:
        return None
    source = staged[-1]
    forward = b.made[source].parent == now.main
    effect = FileEffect("none", published=source, referenced=source)
    if not b.metadata_commit(o, effect, then, scan, None if forward else b.refreshed(scan)):
        return None
    effect = replace(effect, published=None)  # others find it on main
    if forward:
        return Candidate(now._replace(main=source), effect)
    n, picked = len(b.entries) + 1, b.made[source]
    assert picked.done is not None
    table = committed(b.made[now.main].table, picked.done, vectors=now.format_version == 3)
    made = ModelSnapshot(now.main, table, picked.done, picked.operation, now.main, source)
    return Candidate(now._replace(main=n, snapshots=now.snapshots | {n}), effect, made)


def _add_column(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    effect = FileEffect("none", schema=True)
    return Candidate(now, effect) if b.metadata_commit(o, effect, then, scan) else None


def _upgrade(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    return (
        Candidate(now._replace(format_version=3), FileEffect("none", version=True)) if now.format_version == 2 else None
    )


def _remove_orphans(
    b: UpkeepBranch, o: ModelOperation, now: MetadataState, then: MetadataState, scan: int
) -> Candidate | None:
    """It deletes the files of those who have scanned and have not committed: what they write is in no metadata yet."""
    return Candidate(now)


_UPKEEP = {
    "expire-snapshots": _expire,
    "rollback": _rollback,
    "create-tag": _tag,
    "stage": _stage,
    "publish": _publish,
    "restart-stream": _restart,
    "add-column": _add_column,
    "upgrade": _upgrade,
    ORPHANS: _remove_orphans,
}


def _start(bound: Bound, log: Log = (), deepest: int | None = None) -> UpkeepBranch:
    """The path to a log."""
    table = seeded(bound.keys, bound.partitions)
    first = MetadataState(0, frozenset({0}), format_version=bound.format_version)
    live = {name: f.bounds for name, f in table.files.items()}
    made = {0: ModelSnapshot(None, table, None, None, None, 0)}
    branch = UpkeepBranch(bound, Explored(), bound.operations(), [first], made, live, deepest=deepest)
    for e in log:
        found = branch.allowed(e.operation, e.scan)
        assert found is not None, "the log has only what is let through"
        branch.push(e.operation, e.scan, found)
    return branch


def upkeep_logs(
    bound: Bound, out: Explored | None = None, prefix: Log = (), deepest: int | None = None
) -> Iterator[tuple[Log, str | None]]:
    """All logs within the bound that go on from a prefix, as ``checkers.formats.iceberg.model.logtree.logs`` has them."""
    branch = _start(bound, prefix, deepest)
    branch.out = out or branch.out
    compactions = sum(e.operation.kind in REWRITE_KINDS for e in prefix)
    upkeep = sum(e.operation.kind in UPKEEP for e in prefix)
    writes = len(prefix) - compactions - upkeep
    used = max((e.operation.key + 1 for e in prefix if not e.operation.whole), default=0)
    yield from branch.below(bound.writes - writes, bound.compactions - compactions, bound.upkeep - upkeep, used)


def rules_with_upkeep(bound: Bound) -> set[Rule]:
    """The validations that some operation within the bound meets, and that another one can break."""
    kinds = {o.kind for o in bound.operations()}
    found: set[Rule] = set()
    for o in bound.operations():
        if o.kind in UPKEEP:
            found.update(r for r in metadata_rules(o.kind, bound.compares) if r not in bound.lacks(o))
            continue
        for version in {bound.format_version, 3 if "upgrade" in kinds else bound.format_version}:
            rules = rules_of_kind(o, serializable=bound.serializable, format_version=version)
            merge_on_read = o.mode == "merge-on-read"
            every = rules_beside_metadata(rules, merge_on_read=merge_on_read, format_version=version)
            every = (*every, *(() if o.at_commit else rules_of_server(bound.compares)))
            found.update(r for r in every if r not in bound.lacks(o))
    needs: dict[Rule, set[str]] = {
        "history": {"rollback", "expire-snapshots"},
        "scanned snapshot": {"expire-snapshots"},
        "format version": {"upgrade"},
        "row ids": {"upgrade"},
        "target snapshot": {"expire-snapshots"},
        "retained refs": {"rollback", "create-tag"},
    }
    return {r for r in found if needs.get(r, kinds) & kinds}


def table_after(bound: Bound, log: Log) -> TableVersion | None:
    """Main's table at the end of a log; None: there is no main any more."""
    branch = _start(bound, log)
    main = branch.states[-1].main
    return None if main is None else branch.made[main].table
