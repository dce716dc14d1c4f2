"""Known defects that anomalies of a run look like: scenarios of the library that show the same anomalies under the same conditions.

A scenario is one operation sequence with a known outcome (``workloads/scenarios``). It is named beside anomalies if

* it is about the run's catalog, or about Iceberg on any (it names no catalog and has no fault),
* the run's Iceberg is in its range (``since``, ``fixed``),
* every anomaly that it shows is among the anomalies (of one that several checkers find, what one of them finds is enough), and
* what it needs was there: its special operations, and those of other engines than Spark, were invoked on the table by the same engines,
  and its fault's verb was among the faults of the same service. Operations by transaction are there
  if proxies saw an anomaly's commit come by that endpoint, whoever sent it.

It is a hint to a person, not a verdict: the same anomalies can have another cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from checkers import pointer
from checkers.evidence import history
from checkers.evidence.evidence import Evidence
from checkers.judge.releases import newer, surely_has
from checkers.timeline.two_tables import tables_of
from checkers.verdict import Anomaly
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.anomalies import entries_of
from workloads.file.scenario import LIBRARY
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

MOST = 2
"""Number of scenarios that are named for one group of anomalies."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run ran: the workload, the catalog's name, the version of Iceberg (``unknown`` if the plan has none)."""

    workload: str
    catalog: str
    iceberg: str


@dataclass(frozen=True, slots=True)
class Known:
    """A known defect.

    Attributes:
        scenario: that shows it (``icequake prove NAME``).
        link: where it is discussed.
        anomalies: that it shows.
    """

    scenario: str
    link: str
    anomalies: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"scenario": self.scenario, "link": self.link, "anomalies": list(self.anomalies)}


def known_defects(ran: Ran | None, found: Sequence[Anomaly], evidence: Evidence) -> tuple[Known, ...]:
    """The best-fitting scenarios for anomalies that have one cause, at most :data:`MOST`; none for a run that is a scenario itself.

    Those that explain most of the names come first, then those whose operation ends with the same error as the run's, then by name. Of
    several with the same link and anomalies, only the first by name.
    """
    if ran is None or not found:
        return ()
    library = _library(LIBRARY)
    if ran.workload in library:
        return ()
    operations = {o.op: o for o in evidence.history.operations()}
    tables = {a.table for a in found}
    kinds = {(o.f, o.engine) for o in operations.values() if tables & {*tables_of(o), None}}
    struck = _faults(evidence.history)
    errors = {
        c.rsplit(".", 1)[-1] for a in found for op in a.ops[:1] if op in operations for c in _classes(operations[op])
    }
    by_endpoint = any(a.evidence.get(pointer.ENDPOINT) == pointer.TRANSACTIONS for a in found)
    fits = []
    for name, s in library.items():
        entries = entries_of(*(s.get("anomalies") or ()))
        shown = {e.name for e in entries}
        if (
            not shown
            or not shown <= {e.name for e in entries if any(map(e.named, found))}
            or not _of_catalog(s, ran.catalog)
            or not _in_range(s, ran.iceberg)
        ):
            continue
        steps = s["operations"]
        engines = s.get("engines") or {}
        executed = {(step["do"], str(engines.get(str(step["writer"]), SPARK))) for step in steps}
        special = {
            (do, engine)
            for do, engine in executed
            if engine != SPARK or not (_ordinary(do) or (by_endpoint and _by_transaction(do)))
        }
        faults = {
            (step["fault"].get("verb", "answer"), step.get("service", "catalog")) for step in steps if step.get("fault")
        }
        if not special <= kinds or not faults <= struck:
            continue
        ends = {e["error"] for step in steps if isinstance(e := step.get("expect"), Mapping) and e.get("error")}
        fits.append(
            (
                -len(shown),
                not ends & errors if ends else bool(errors),
                name,
                Known(name, s["link"], tuple(sorted(shown))),
            )
        )
    best = sorted(fits, key=lambda f: f[:3])
    alike: dict[tuple[str, tuple[str, ...]], Known] = {}
    for shown_, other, _, k in best:
        if (shown_, other) == best[0][:2]:
            alike.setdefault((k.link, k.anomalies), k)
    return tuple(alike.values())[:MOST]


_ANY = TableSpec(name="any")


def _library(folder: Path) -> dict[str, dict[str, Any]]:
    """The scenario files as plain YAML, by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = (yaml.load(p.read_text(encoding="utf-8"), loader) for p in sorted(folder.glob("*.yaml")))
    return {s["scenario"]: s for s in found}


def _of_catalog(s: Mapping[str, Any], catalog: str) -> bool:
    """Whether a scenario is about a catalog. A fault strikes one catalog's protocol; without it the operations alone may be to blame."""
    anywhere = "catalog" not in s and not any(step.get("fault") for step in s["operations"])
    return anywhere or s.get("catalog", "rest") == catalog


def _ordinary(kind: str) -> bool:
    """Whether a kind of operation is one of many that can show a defect: a plain write or read of rows."""
    k = KINDS.get(kind)
    if k is None or k.replaces or k.two_tables or k.by_transaction or k.equality_deletes:
        return False
    if ENGINES[SPARK].promise(kind, _ANY).blind_append:
        return False
    return k.changes_rows or not k.commits


def _by_transaction(kind: str) -> bool:
    k = KINDS.get(kind)
    return k is not None and k.by_transaction


def _classes(o: history.Operation) -> Iterable[str]:
    return (link[0] for link in o.error or () if link)


def _faults(told: history.History) -> set[tuple[str, str]]:
    """The faults that were begun: verb and service."""
    found = set()
    for e in told.events:
        if e.process == history.NEMESIS and e.f.startswith("start-") and isinstance(e.value, Mapping):
            fault = e.value.get("fault")
            if isinstance(fault, Mapping) and "verb" in fault:
                found.add((str(fault["verb"]), str(fault.get("service") or "catalog")))
    return found


def _in_range(s: Mapping[str, Any], iceberg: str) -> bool:
    """Whether a version has the defect; an unknown version may have it."""
    since, fixed = s.get("since"), s.get("fixed")
    if not iceberg[:1].isdigit():
        return True
    return (since is None or newer(iceberg, str(since))) and not (fixed is not None and surely_has(iceberg, str(fixed)))
