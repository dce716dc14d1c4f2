"""The ``protocol`` checker: does every version of a Delta table, and every action in it, follow Delta's protocol?

Other checkers ask what clients saw. This one reads the table's own log, version by version, and holds each action against the table as the
versions before leave it. ``protocol.rules`` is the table of rules, each with its section of the protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypedDict

from checkers.evidence.history import Operation
from checkers.formats.delta.protocol.files import LogReplay, compacted, repeated
from checkers.formats.delta.protocol.rules import DELTA_PROTOCOL, PROTOCOL_RULES, BrokenProtocol
from checkers.formats.delta.protocol.versions import (
    columns,
    numbered,
    protocol,
    provenance,
    row_ids,
    times,
    transactions,
)
from checkers.formats.delta.records import DeltaLog, delta_log
from checkers.formats.delta.tableformat import Delta
from checkers.timeline import explain
from checkers.unit import Part, TableChecker, Unit
from checkers.verdict import Anomaly

MOST_OF_A_NAME = 25
"""Anomalies of one name reported for one table; a note counts the rest."""


class ProtocolTable(TypedDict):
    """What was seen of one table's log; ``found``: name of a rule → how often it was broken."""

    versions: int
    actions: int
    checkpoints: int
    found: dict[str, int]


class ProtocolStats(TypedDict):
    """What the checker counted; tables of other formats are not there."""

    tables: dict[str, ProtocolTable]


class Protocol(TableChecker):
    """Broken rules of Delta's protocol, in any version of a table."""

    name = "protocol"
    stats_type = ProtocolStats
    names = frozenset(PROTOCOL_RULES)
    of_format = Delta.name

    def part(self, unit: Unit) -> Part | None:
        """Anomalies named after ``protocol.rules.RULES``, with the rule and its source in ``evidence``.

        ``stats``: :class:`ProtocolStats`.
        ``unknown``: a log that was not read to its end, or a checkpoint that cannot be read.
        """
        if unit.log is None or unit.log.table_format != Delta.name:
            return None
        log, name = delta_log(unit.log), unit.name
        broken = [*_broken(log, unit.everything)]
        counts = Counter(b.name for b in broken)
        notes = [
            f"{name}: {n - MOST_OF_A_NAME} more {rule} are not shown"
            for rule, n in sorted(counts.items())
            if n > MOST_OF_A_NAME
        ]
        shut = [d for m in log.metadata for d in m.derived if d.problem is not None]
        notes += [f"{name}: {d.file} cannot be read: {d.problem}" for d in shut]
        if not log.complete:
            notes.append(f"{name}: its log was not read to its end")
        shown: Counter[str] = Counter()
        anomalies = []
        for b in broken:
            shown[b.name] += 1
            if shown[b.name] <= MOST_OF_A_NAME:
                anomalies.append(self._anomaly(b, log, unit))
        stats: ProtocolTable = {
            "versions": len(log.metadata),
            "actions": sum(len(m.actions) for m in log.metadata),
            "checkpoints": sum(d.kind == "checkpoint" for m in log.metadata for d in m.derived),
            "found": dict(sorted(counts.items())),
        }
        return Part(name, tuple(anomalies), tuple(notes), bool(shut) or not log.complete, stats)

    def _anomaly(self, b: BrokenProtocol, log: DeltaLog, unit: Unit) -> Anomaly:
        rule = PROTOCOL_RULES[b.name]
        writers = {m.version: str(m.info.get("userMetadata")) for m in log.metadata}
        makers = [writers[v] for v in reversed(b.versions) if v in writers]
        ops = tuple(dict.fromkeys(op for op in makers if op in unit.everything))
        made = f"The {explain.operation(unit.everything[ops[0]])} made version {b.versions[-1]}: " if ops else ""
        text = b.text if made else f"{b.text[:1].upper()}{b.text[1:]}"
        return Anomaly(
            name=b.name,
            checker=self.name,
            table=unit.name,
            explanation=f"{made}{text}. But {rule.promise} (Delta's protocol, “{rule.section}”).",
            ops=ops,
            events=tuple(i for op in ops for i in unit.everything[op].indices),
            snapshots=b.versions,
            files=b.files,
            evidence={"rule": rule.promise, "source": DELTA_PROTOCOL},
        )


def _broken(log: DeltaLog, operations: Mapping[str, Operation]) -> Iterator[BrokenProtocol]:
    yield from numbered(log)
    yield from protocol(log.metadata)
    yield from columns(log.metadata)
    yield from times(log.metadata)
    yield from row_ids(log)
    yield from transactions(log.metadata)
    yield from provenance(log, operations)
    replay = LogReplay({f.path: f.records for c in log.commits for f in c.added_files if f.role == "data"})
    for m in log.metadata:
        yield from replay.take(m)
        for txn in m.of("txn"):
            replay.transactions[str(txn.get("appId"))] = int(txn.get("version") or 0)
        yield from repeated(replay, m)
    yield from compacted(log.metadata)
