"""Legal runs of every make: what chance can do to a run in which every promise is kept.

One seed, one run (:func:`legal`), of up to 80 operations. It draws the tables (mode, format version, partitions, level, each its own),
the kinds and their weights out of all there are, the engines, what is lost on the way, and what surrounds the writers:

* **Clocks.** Each host has its own, and each may jump during the run; snapshots have the time of their maker's, versions that of the catalog's
  server, if it has one. Commits that are behind by more than a minute are refused, as ``TableMetadata`` does.
* **Staged snapshots.** A transfer stages one in each of its tables and then publishes both (``harness.writers.two_tables``).
* **Kinds of a workload's own** (``docs/extending.md``), for what no kind of the product does: a snapshot that is staged and cherry-picked,
  branches and tags, partition specs that change. :func:`own` must be registered where such a run is judged.
* **Strangers.** Clients that are no writers of the run, past its proxies. They begin with a row: one that leaves no snapshot cannot be told
  from a catalog that changes a table by itself.
* **Proxies**: none, those that see swaps of the pointer, or those that see requests.

No kind drops a table and makes it again under its name, and a stranger who did would have lost every acknowledged row, so no run here
has that; a table that is made anew by ``replace-table`` while nobody else commits is legal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from checkers.evidence.evidence import Evidence
from checkers.evidence.proxylog import TRANSACTIONS, AcceptedChange, Carried, PointerSwap
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.linearizable.sidetables import KINDS_OF_NAMES
from checkers.selftest.recorded import TABLE_COMMIT
from tests.support.simulator import (
    ALTERING,
    CLEAN,
    MIX,
    RESHAPING,
    ROW_BY_ROW,
    UPSERTING,
    WALL_MS,
    WITH_EQUALITY,
    Place,
    Refused,
    Run,
    Steps,
    Table,
    left,
)
from workloads.engines.engines import ENGINES as KNOWN
from workloads.operations.alterations import SetProperty
from workloads.operations.inserts import Insert
from workloads.operations.keys import part_of
from workloads.operations.kind import Arguments, Draw, Kind, Lost, Part
from workloads.operations.kinds import BUILT_IN, KINDS
from workloads.tables import ICEBERG, Row, TableSpec

STRANGER = "a-stranger"


class EvolvePartitions(SetProperty):
    """``ALTER TABLE … ADD`` or ``DROP PARTITION FIELD part``."""

    name = "evolve-partitions"
    may_change: ClassVar[frozenset[Part]] = frozenset({"spec"})
    options = ()

    def arguments(self, draw: Draw) -> Arguments:
        return {}


class Label(SetProperty):
    """``ALTER TABLE … CREATE`` or ``DROP TAG`` (or a branch), whichever can be."""

    name = "label"
    may_change: ClassVar[frozenset[Part]] = frozenset({"ref"})
    takes_away: ClassVar[frozenset[Lost]] = frozenset({"ref"})
    options = ()

    def arguments(self, draw: Draw) -> Arguments:
        return {"ref": draw.rng.choice(("audit", "eoy", "dev"))}


class InsertByCherryPick(Insert):
    """An INSERT that is staged (``spark.wap.id``), and then published by ``cherrypick_snapshot``."""

    name = "insert-by-cherry-pick"


def own() -> tuple[Kind, ...]:
    """The kinds that a workload of its own would bring."""
    return EvolvePartitions(), Label(), InsertByCherryPick()


OVERWRITES = frozenset(f for f, k in KINDS.items() if k.verb == "overwrite")
"""They mean something else where the partition spec changes."""
TWO_TABLES = frozenset(f for f, k in KINDS.items() if k.two_tables)
MIXES: tuple[Mapping[str, float], ...] = (MIX, ALTERING, RESHAPING, WITH_EQUALITY, ROW_BY_ROW, UPSERTING)
ENGINES = ("spark", "duckdb", "pyiceberg", "flink", "committer", "stream")


def mix(rng: Random, names: Iterable[str]) -> dict[str, float]:
    """Kinds and their weights: one of the simulator's mixes with rollbacks, with others added; or any of all kinds."""
    every = [*names]
    if rng.random() < 0.5:
        found = {**rng.choice(MIXES), **{f: rng.choice((1, 3)) for f in rng.sample(every, rng.randint(0, 5))}}
        if rng.random() < 0.4:
            found |= {"rollback": rng.choice((1, 2, 4)), "read-snapshot": 3}
    else:
        found = {f: rng.choice((0.5, 1, 3, 8)) for f in rng.sample(every, rng.randint(4, len(every)))}
    if rng.random() < 0.15:
        found[InsertByCherryPick.name] = 8
    if "evolve-partitions" in found:
        found = {f: weight for f, weight in found.items() if f not in OVERWRITES}
    return {"insert": 2, **found}


def tables(rng: Random) -> list[TableSpec]:
    """One to three tables, of any make, each with a level of its own."""
    return [
        TableSpec(
            name=name,
            isolation=rng.choice(("serializable", "snapshot")),
            mode=rng.choice(("copy-on-write", "merge-on-read")),
            format_version=rng.choice((2, 3)),
            partitioned=rng.random() < 0.5,
            partitions=rng.choice((1, 2, 4)),
            seed_rows=rng.randrange(9),
            properties={"write.wap.enabled": "true"},
        )
        for name in ("a", "b", "c")[: rng.choice((1, 1, 2, 3))]
    ]


class Clock:
    """A host's clock: how far it is off, ms, and when that changes."""

    def __init__(self, rng: Random, spread: int) -> None:
        self._jumps = [(0, rng.randint(-spread, spread))]
        for _ in range(rng.choice((0, 0, 1, 3)) if spread else 0):
            self._jumps.append((rng.randrange(600_000_000), rng.randint(-spread, spread)))
        self._jumps.sort()

    def ms(self, time: int) -> int:
        """What it says at a time of the run, ns."""
        return WALL_MS + time // 1_000_000 + [off for at, off in self._jumps if at <= time][-1]


@dataclass
class LegalRun(Run):
    """One run."""

    clocks: dict[str, Clock] = field(default_factory=dict)
    """Of each host: ``w0`` …; those that are not here are right."""
    committing: str = STRANGER
    """The operation that changes a table now."""
    swaps: dict[str, list[PointerSwap]] = field(default_factory=dict)
    changes: dict[str, list[AcceptedChange]] = field(default_factory=dict)
    strangers: int = 0

    def wall_ms(self, op: str) -> int:
        self.committing = op
        clock = self.clocks.get(op.partition("-")[0])
        return super().wall_ms(op) if clock is None else clock.ms(self.time)

    def watch(self, table: Table, before: Metadata, after: Metadata) -> None:
        """A proxy sees the request that made a version, but not a stranger's."""
        op, name = self.committing, table.spec.name
        if op == STRANGER:
            return
        writer = int(op.partition("-")[0][1:]) if op.startswith("w") else None
        swap = PointerSwap(self.time, self.time, writer, op, before.location, after.location, "200")
        self.swaps.setdefault(name, []).append(swap)
        adds = tuple(s for s in after.snapshots if s not in before.snapshots)
        main = after.current if after.current != before.current else None
        what = f"POST /v1{TRANSACTIONS}" if adds == () and main is not None else TABLE_COMMIT
        base = None if main is None else before.current
        if adds or main is not None:
            change = AcceptedChange(self.time, self.time, writer, op, base, adds, main, what, "200")
            self.changes.setdefault(name, []).append(change)

    def execute(self, writers: int, ops: int) -> None:
        for table in self.tables.values():
            table.watch = lambda before, after, table=table: self.watch(table, before, after)  # type: ignore[misc]
        for _ in range(self.strangers):
            self.late.append(self.stranger(ops))
        super().execute(writers, ops)

    # --- operations

    def read(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        if not kind.two_tables:
            return (yield from super().read(op, kind, table, value))
        other = self.tables[value["and"]]
        yield
        first = table.current
        yield
        second = other.current
        yield
        again = table.current
        if first is None or second is None:
            return None
        rows = [[side, *r] for side, t, s in ((0, table, first), (1, other, second)) for r in t.contents[s].values()]
        return {"first": first, "second": second, "again": again, "rows": self._shuffled(rows)}

    def write(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        if kind.name == "remove-orphan-files":
            yield
            return False
        if kind.name == "replace-table":
            return (yield from self._replace(op, table))
        if kind.name == "transfer":
            return (yield from self._transfer(op, kind, table, value))
        if kind.name == InsertByCherryPick.name:
            return (yield from self._cherry_pick(op, kind, table, value))
        if kind.name in (EvolvePartitions.name, Label.name):
            yield
            (_evolve if kind.name == EvolvePartitions.name else _label)(table, value, self.wall_ms(op))
            return False
        return (yield from super().write(op, kind, table, value))

    def _replace(self, op: str, table: Table) -> Steps:
        """The same rows in a new lineage, if nobody commits meanwhile: what others commit would be lost, by design."""
        base = table.current
        yield
        if base is None or table.current != base:
            raise Refused("the table has changed")
        rows: list[tuple[Row, Any]] = [(r, None) for _, r in sorted(table.contents[base].items())]
        now = self.wall_ms(op)
        table.admit(now, adds=True)
        table.commit(
            op=op, parent=None, remove=(), add=rows, now_ms=now, attempt=1, copy_on_write=False, operation="append"
        )
        return True

    def _stage(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """A snapshot beside main."""
        base = table.current
        want = kind.writeset(table.state(base), value, op, table.spec)
        places = self._find(table.contents[base], want.removed)
        yield
        if (places or kind.two_tables) and table.current != base:
            raise Refused("the table has changed")
        return table.commit(
            op=op,
            parent=table.current,
            remove=places,
            add=[(r, None) for r in want.added],
            now_ms=self.wall_ms(op),
            attempt=1,
            copy_on_write=table.spec.mode == "copy-on-write",
            operation="append" if not places else "overwrite",
            staged=True,
        )

    def _transfer(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """Stage it in both tables, then publish both, or neither if main of one has moved."""
        pair = [table, self.tables[value["into"]]]
        staged = []
        for t in pair:
            staged.append((yield from self._stage(op, kind, t, value)))
            yield
        for t, c in zip(pair, staged, strict=True):
            if t.current != c.parent_id or c.snapshot_id not in t.listed:
                raise Refused("Cannot publish: main has moved on")
            t.admit(self.wall_ms(op))
        for t, c in zip(pair, staged, strict=True):
            t.set_main(c.snapshot_id, self.wall_ms(op))
        return "one transaction"

    def _cherry_pick(self, op: str, kind: Kind, table: Table, value: Arguments) -> Steps:
        """Stage it, then put main at it; or, if main has moved, commit its files again."""
        staged: Commit = yield from self._stage(op, kind, table, value)
        for _ in range(self.rng.randrange(1, 9)):
            yield
        if staged.snapshot_id not in table.listed:
            raise Refused("Cannot cherry-pick unknown snapshot ID")
        now = self.wall_ms(op)
        if table.current == staged.parent_id:
            table.set_main(staged.snapshot_id, now)
            return True
        if table.format_version > 2 or table.raw["default-spec-id"] != staged.added_files[0].spec_id:
            raise Refused("the row ids and the partitions of a picked file are not simulated")
        made = table.commit(
            op=op,
            parent=table.current,
            remove=(),
            add=[(r, None) for r in kind.writeset(table.state(table.current), value, op, table.spec).added],
            now_ms=now,
            attempt=1,
            copy_on_write=False,
            operation="append",
            picks=staged,
        )
        more = {"source-snapshot-id": str(staged.snapshot_id), "published-wap-id": op}
        table.commits[made.snapshot_id] = replace(made, summary=made.summary | more)
        return True

    # --- others

    def stranger(self, ops: int) -> Steps:
        """A client that is no writer: rows that come and go, tags, other partitions, expired snapshots."""
        for n in range(self.rng.randint(1, 2 + ops // 3)):
            for _ in range(self.rng.randrange(40)):
                yield
            table = self.rng.choice([*self.tables.values()])
            now = self.wall_ms(STRANGER)
            try:
                what = self.rng.random()
                if what < 0.6 or not any(c.op is None for c in table.commits.values()):  # else nothing tells of them
                    key = self.rng.choice((5_000_000 + n, self.rng.randrange(self.keys)))
                    here = table.contents[table.current]
                    # Rows of own keys are their process's: blind appends rely on that.
                    gone = [p for p in sorted(here) if here[p].id >= 0][: self.rng.choice((0, 0, 1))]
                    self._change(table, gone, Row(key, "theirs", 0, "theirs", part_of(key, table.spec)), now)
                elif what < 0.75:
                    _label(table, {"ref": "theirs"}, now)
                elif what < 0.9:
                    table.expire(2, now)
                elif not OVERWRITES.intersection(self.mix):
                    _evolve(table, {}, now)
            except Refused:
                pass

    @staticmethod
    def _change(table: Table, gone: Sequence[Place], row: Row, now: int) -> None:
        """A snapshot that names no operation."""
        c = table.commit(
            op=STRANGER,
            parent=table.current,
            remove=gone,
            add=[(row, None)],
            now_ms=now,
            attempt=1,
            copy_on_write=table.spec.mode == "copy-on-write",
            operation="overwrite",
        )
        summary = {k: v for k, v in c.summary.items() if k != "icequake-op"}
        table.commits[c.snapshot_id] = replace(c, op=None, attempt=None, summary=summary)


def _evolve(table: Table, value: Arguments, now: int) -> None:
    """A partition field more or less; a spec that was there before is the default again."""
    table.admit(now)
    specs = table.raw["partition-specs"]
    field = {"name": "part", "transform": "identity", "source-id": 5, "field-id": 1000}
    fields = [] if table.partitioned else [field]
    known = next((s["spec-id"] for s in specs if s["fields"] == fields), None)
    if known is None:
        known = len(specs)
        table.raw["partition-specs"] = [*specs, {"spec-id": known, "fields": fields}]
        table.raw["last-partition-id"] = 1000
    table.raw["default-spec-id"] = known
    table.partitioned = not table.partitioned
    table._version(now)


def _label(table: Table, value: Arguments, now: int) -> None:
    """A tag more, at main's snapshot, or less."""
    table.admit(now)
    name = value["ref"]
    if table.current is None:
        raise Refused("Cannot create a tag: there is no snapshot")
    gone = {k: v for k, v in table.refs.items() if k != name}
    table.refs = gone if name in table.refs else {**table.refs, name: table.current}
    table._version(now)


def on_iceberg(f: str) -> bool:
    """Whether a kind can be executed on a table of Iceberg, as the simulated ones are. No side table is simulated, whose answers
    ``tests/checkers/linearizable/test_side_tables.py`` draws."""
    return ICEBERG in KINDS[f].formats and f not in KINDS_OF_NAMES


def legal(seed: int) -> Evidence:
    """The evidence that the run of this seed leaves."""
    rng = Random(f"legal/{seed}")
    specs, writers = tables(rng), rng.randint(1, 6)
    names = [
        f
        for f in KINDS
        if (f in BUILT_IN or f in {k.name for k in own()})
        and not (len(specs) == 1 and f in TWO_TABLES)
        and on_iceberg(f)
    ]
    run = LegalRun(
        rng,
        specs,
        rng.randint(1, 8),
        mix(rng, names),
        rng.choice((0.0, 0.05, 0.3)),
        rng.choice((0.0, 0.05, 0.2)),
        CLEAN,
    )
    run.captured = rng.choice((0.0, 0.05, 0.3))
    run.engines = tuple(rng.choice(ENGINES) for _ in range(writers)) if rng.random() < 0.2 else ()
    # What an engine that does not name its snapshots made, and what a stranger, cannot always be told apart.
    run.strangers = rng.choice((0, 0, 0, 0, int(all(KNOWN[e].marks for e in run.engines))))
    spread = rng.choice((0, 5, 25_000, 180_000))
    run.clocks = {f"w{n}": Clock(rng, spread) for n in range(writers)}
    server = Clock(rng, spread) if rng.random() < 0.5 else None
    if server is not None:
        for table in run.tables.values():
            table.server = lambda: server.ms(run.time)
    run.execute(writers, max(1, rng.randint(5, 80) // writers))
    seen = rng.choice(("nothing", "swaps", "requests"))
    header = {"format": 1, "workload": "legal", "seed": seed, "writers": writers}
    e = replace(left(run, header, proxied=False).evidence(), accepted={}, carried={}, proxied=False)
    if seen == "nothing":
        return e
    if seen == "swaps":
        return replace(e, swaps={n: tuple(s) for n, s in run.swaps.items()}, proxied=True)
    accepted = {n: tuple(c) for n, c in run.changes.items()}
    carried = {
        n: tuple(Carried(c.time, c.writer, c.op, c.adds, True, c.answer) for c in changes if c.op and c.adds)
        for n, changes in accepted.items()
    }
    return replace(e, accepted=accepted, carried=carried, proxied=True)
