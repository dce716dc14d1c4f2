"""The ``metadata`` checker: does every version of a table's metadata, and every snapshot in it, follow the specification?

Other checkers ask what clients saw. This one reads the table's own files: *every* metadata.json that the catalog's pointer named, not
only the last. A version that was wrong for a second misled whoever read it then, and later versions may show no trace of it.

Two parts judge a table's log, each on its own subject: ``metadata.versions`` (versions, and what changed from one to the
next) and ``metadata.files`` (files, manifests, summaries), on the chain of versions that ``checkers.timeline.version_order``
builds; ``metadata.shared`` compares the files of a run's tables. ``metadata.rules`` is the table of rules, each with its section of the
specification. Of an operation the checker knows only what its kind may change or take away (``metadata.responsible``), so it also judges
tables that other engines wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.files import check_files
from checkers.formats.iceberg.metadata.rules import SPEC_RULES, BrokenRule
from checkers.formats.iceberg.metadata.seen import MetadataCounts
from checkers.formats.iceberg.metadata.shared import Shared, added, shared
from checkers.formats.iceberg.metadata.versions import check_versions
from checkers.formats.iceberg.records import iceberg_log
from checkers.formats.iceberg.tableformat import Iceberg
from checkers.unit import Part, TableChecker, Unit
from checkers.verdict import Anomaly, Verdict
from workloads.engines.engines import engine_of

MOST_OF_A_NAME = 25
"""Anomalies of one name reported for one table; a note counts the rest."""


OF_A_PARENT = frozenset({"foreign-file", "summary-count", "wrong-operation", "removed-not-live", "entry-changed"})
"""Rules about what a snapshot adds to its parent; they say nothing if the parent is unknown."""


class MetadataTable(MetadataCounts):
    """What was seen of one table's metadata, and the broken rules."""

    found: dict[str, int]
    """Name of a rule → how often it was broken; ``anomalies`` tell at most :data:`MOST_OF_A_NAME` of them."""


class MetadataStats(TypedDict):
    """What the checker counted; tables without a log are not there."""

    tables: dict[str, MetadataTable]


class MetadataRules(TableChecker):
    """Broken rules of the Iceberg specification, in any version of a table's metadata."""

    name = "metadata"
    stats_type = MetadataStats
    names = frozenset(SPEC_RULES)

    def part(self, unit: Unit) -> Part | None:
        """Anomalies named after ``metadata.rules.RULES``, with the rule and its source in ``evidence``.

        ``stats``: :class:`MetadataStats`.
        ``unknown``: a table without a log, a log that was not read to its end, or an unreadable part of it.
        """
        name, found = unit.name, unit.log
        if unit.spec is None and found is None:
            return None
        if found is None or not found.metadata:
            return Part(name, notes=(f"{name}: there is no table log to check",), undecided=True)
        if found.table_format != Iceberg.name:
            return None
        notes: list[str] = []
        undecided = False
        log, t = iceberg_log(found), unit.timeline
        chain = (
            cast(Chain, t.chain)
            if t is not None and t.log is log
            else Chain(log, unit.ops, {**unit.everything, **{o.op: o for o in unit.ops}})
        )
        looks = [
            check_versions(chain, torn=unit.torn or not unit.complete, spec=unit.spec),
            check_files(chain, complete=log.complete),
        ]
        findings = [f for p in looks for f in p.findings]
        if all(len(m.snapshots) <= 1 for m in log.metadata):
            # Of what its engine committed at once, such a catalog lists only the last snapshot; its parent is in no version.
            findings = [f for f in findings if f.name not in OF_A_PARENT or not _by_several(f, unit.everything)]
        if log.committed_again:
            reported = [f for f in findings if f.name not in OF_A_PARENT]
            undecided |= len(reported) < len(findings)
            findings = reported
            notes.append(
                f"{name}: snapshots were committed more than once: what each adds to its parent was not judged"
            )
        counts = Counter(f.name for f in findings)
        shown: Counter[str] = Counter()
        anomalies: list[Anomaly] = []
        for f in findings:
            shown[f.name] += 1
            if shown[f.name] <= MOST_OF_A_NAME:
                events = tuple(i for op in f.ops if op in unit.everything for i in unit.everything[op].indices)
                anomalies.append(self._anomaly(f, name, events))
        notes += [
            f"{name}: {n - MOST_OF_A_NAME} more {kind} are not shown"
            for kind, n in sorted(counts.items())
            if n > MOST_OF_A_NAME
        ]
        notes += [f"{name}: {n}" for p in looks for n in p.notes]
        undecided |= any(p.undecided for p in looks)
        seen = cast(MetadataCounts, {k: n for p in looks for k, n in sorted(p.stats.items())})
        stats: MetadataTable = {**seen, "found": dict(sorted(counts.items()))}
        return Part(name, tuple(anomalies), tuple(notes), undecided, stats, more=added(log, unit.everything))

    def fold(self, parts: Sequence[Part]) -> Verdict:
        """As for any checker of tables; with what several tables share."""
        common = shared([p.more for p in parts if p.more is not None])
        return super().fold([self._with_shared(p, common[p.table]) if p.table in common else p for p in parts])

    def _with_shared(self, part: Part, common: Sequence[Shared]) -> Part:
        reported = tuple(self._anomaly(s.rule, part.table, s.events) for s in common[:MOST_OF_A_NAME])
        notes = (
            (f"{part.table}: {len(common) - MOST_OF_A_NAME} more shared-file are not shown",)
            if len(common) > MOST_OF_A_NAME
            else ()
        )
        stats = cast(MetadataTable, part.stats)
        names = Counter(s.rule.name for s in common)
        counted: MetadataTable = {**stats, "found": dict(sorted({**stats["found"], **names}.items()))}
        return replace(part, anomalies=(*part.anomalies, *reported), notes=(*part.notes, *notes), stats=counted)

    def _anomaly(self, f: BrokenRule, table: str, events: tuple[int, ...]) -> Anomaly:
        rule = SPEC_RULES[f.name]
        source = f"Iceberg specification, “{rule.section}”" if rule.link else rule.section
        return Anomaly(
            name=f.name,
            checker=self.name,
            table=table,
            explanation=f"{f.text} But {rule.promise} ({source}).",
            ops=f.ops,
            events=events,
            snapshots=f.snapshots,
            files=f.files,
            evidence={"rule": rule.promise, "source": rule.link or rule.section},
        )


def _by_several(f: BrokenRule, everything: Mapping[str, Operation]) -> bool:
    """Whether a finding is about an operation whose engine can add several snapshots in one commit."""
    return any(op in everything and engine_of(everything[op].engine).several for op in f.ops)
