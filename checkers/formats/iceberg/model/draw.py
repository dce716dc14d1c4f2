"""Logs that are drawn at random, with the operations that the rules refuse at their end: does real Spark do the same?

The search asks for what breaks a promise; most logs break none. These are replayed to ask the model itself: each commit that it allows must
come, each that it refuses must end with the message of that rule, and the rows at the end must be its rows.
"""

from __future__ import annotations

from random import Random

from checkers.conflicts.validations import OVERWRITING, KeyBounds, refusals
from checkers.evidence.replace import replace
from checkers.formats.iceberg.model import properties
from checkers.formats.iceberg.model.logtree import Bound, Log, LogEntry
from checkers.formats.iceberg.model.operations import ModelOperation, Work, attempt, committed, work
from checkers.formats.iceberg.model.table import TableVersion, seeded
from workloads.engines.engine import Rule
from workloads.file.modelled import COMPACTION, REWRITE_KINDS

MOST_REFUSED = 2
"""Most refused operations of a drawn log. With 4 writes and a compaction that is 7 of a scenario's 8 writers."""
MOST_DRAWN_OPERATIONS = 60
"""Operations drawn for a log, most of which have nothing to do, or are refused."""


def draw(bound: Bound, rng: Random) -> tuple[Log, list[tuple[LogEntry, Rule]], TableVersion]:
    """A log that breaks no promise, operations that are refused after it, and the table at its end.

    An operation that has scanned an older version is held at its commit, so it is validated at its second attempt.
    """
    operations = _one_mode(bound, rng)
    versions, works = [seeded(bound.keys, bound.partitions)], list[Work]()
    entries, remaining = list[LogEntry](), {True: bound.compactions, False: bound.writes}
    live = {name: f.bounds for name, f in versions[0].files.items()}
    for _ in range(MOST_DRAWN_OPERATIONS):
        e = _entry(operations, len(works), rng)
        done, rules = _tried(bound, e, versions, works, live)
        compacts = e.operation.kind in REWRITE_KINDS
        if done is None or rules or not remaining[compacts]:
            continue
        after = committed(versions[-1], done, vectors=bound.format_version == 3)
        if _broken(bound, [*versions, after], [*entries, e], done):
            continue
        remaining[compacts] -= 1
        entries.append(e)
        versions.append(after)
        works.append(done)
        live.update((name, f.bounds) for name, f in done.added.items())
    refused = list[tuple[LogEntry, Rule]]()
    for _ in range(MOST_DRAWN_OPERATIONS):
        e = _entry(operations, len(works), rng)
        done, rules = _tried(bound, e, versions, works, live)
        if done is not None and rules and len(refused) < MOST_REFUSED and rules[0] not in [r for _, r in refused]:
            refused.append((e, rules[0]))
    return tuple(entries), refused, versions[-1]


def _one_mode(bound: Bound, rng: Random) -> list[ModelOperation]:
    """A table has one mode for each kind of operation."""
    kinds = sorted({kind for kind, _ in bound.kinds})
    modes = {kind: rng.choice([mode for k, mode in bound.kinds if k == kind]) for kind in kinds}
    return replace(bound, kinds=tuple(modes.items())).operations()


def _entry(operations: list[ModelOperation], base: int, rng: Random) -> LogEntry:
    o = rng.choice(operations)
    return LogEntry(o, base if o.at_commit else rng.randint(0, base))


def _tried(
    bound: Bound, e: LogEntry, versions: list[TableVersion], works: list[Work], live: dict[str, KeyBounds]
) -> tuple[Work | None, tuple[Rule, ...]]:
    """What it commits, if it has something to do, and the rules that refuse it."""
    o, older = e.operation, e.scan < len(works)
    if o.kind == "rewrite-manifests" or (older and o.kind in (COMPACTION, *OVERWRITING)):
        return (
            None,
            (),
        )  # the model does not know which manifests there are, and which delete files a first attempt drops
    done = work(o, versions[-1 if o.at_base else e.scan], len(works) + 1, bound.partitions)
    if done is None or _by_metadata(o, versions[e.scan]):
        return None, ()
    wanted = attempt(
        o,
        done,
        serializable=bound.serializable,
        format_version=bound.format_version,
        without=bound.lacks(o),
        partitions=bound.partitions,
        again=older,
    )
    return done, refusals(wanted, [w.effect for w in works[e.scan :]], live)


def _by_metadata(o: ModelOperation, scanned: TableVersion) -> bool:
    """Whether Spark deletes whole files, because each file that may have the key has no other one (``SparkTable.canDeleteWhere``): such a
    DELETE is not validated, and the model does not know it."""
    may_have = [f.bounds for f in scanned.files.values() if f.bounds.low <= o.key <= f.bounds.high]
    return o.kind == "delete" and all(b.low == b.high for b in may_have)


def _broken(bound: Bound, versions: list[TableVersion], entries: list[LogEntry], done: Work) -> bool:
    name = properties.broken(
        versions,
        [x.operation for x in entries],
        [x.scan for x in entries],
        done,
        serializable=bound.serializable,
        format_version=bound.format_version,
        partitions=bound.partitions,
    )
    return name is not None
