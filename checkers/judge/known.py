"""Known defects: scenarios of the library that show the anomalies of one story under the same conditions.

This is the one rule for *known*: page, terminal, and a night's verdict go by it. A scenario is one operation sequence with a known outcome
(``workloads/scenarios``), and a track record of the defect. The anomalies of a story are known if such scenarios together show each of them
(what clients saw of them follows from these), and each of these scenarios shows no other than were found on that table, or than come of
them only later (:data:`LATER`), and

* **catalog:** it is about a catalog of the same type and guard, or about Iceberg on any (it names no catalog and has no fault). What it
  says of a REST server by name is about that server; its faults on REST are about Iceberg's client, and so about every REST catalog;
* **table format:** a table of the anomalies has that of one of its tables;
* **release:** the run's version of its software (Iceberg, Delta Lake, deltalake) is in its range (``since``, ``fixed``);
* **engine:** an operation of each anomaly was executed by one of its engines, and its special operations, and those of other engines than
  Spark, were invoked on the table by the same engines. Operations by transaction are there if proxies saw an anomaly's commit come by that
  endpoint, whoever sent it;
* **fault:** each of its faults, by verb and service, was on while an operation of the anomalies ran. A lost reply (``drop-reply``) of a JDBC
  catalog is there as well if proxies saw the database carry out a commit of the anomalies, and its client take the answer for a broken
  connection (:data:`TAKEN_FOR_LOST`): it sends the commit again, whatever broke.

All of that is looked up in the run's evidence. It is still a hint to a person: the same anomalies can have another cause. What of it a run
did not have is said in words (:func:`unlike`), and so is what a scenario asks of one (:func:`asks`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from checkers import pointer
from checkers.evidence import history
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import LATEST
from checkers.evidence.tablelog import ICEBERG
from checkers.judge.releases import newer, surely_has
from checkers.names import Harm, in_words, meaning
from checkers.timeline.fault_windows import windows
from checkers.timeline.two_tables import tables_of
from checkers.verdict import Anomaly
from nemesis.faults.registry import VERBS
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.anomalies import entries_of
from workloads.file.scenario import LIBRARY, SOFTWARE_TITLES
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

MOST_SCENARIOS = 2
"""Number of scenarios that are named for one group of anomalies."""


@dataclass(frozen=True, slots=True)
class CatalogType:
    """What a catalog is to a defect: ``type`` of Iceberg's client, or the class that implements it, and how it guards its commits."""

    type: str
    guard: str


_CAS, _LOCK, _NONE = "compare-and-swap", "lock", "none"
CATALOG_TYPES: Mapping[str, CatalogType] = {
    "rest": CatalogType("rest", _CAS),
    "jdbc": CatalogType("jdbc", _CAS),
    "jdbc-sqlite": CatalogType("jdbc", _CAS),
    "hive": CatalogType("hive", _LOCK),
    "hive-cas": CatalogType("hive", _CAS),
    "hive-nolock": CatalogType("hive", _NONE),
    "nessie": CatalogType("rest", _CAS),
    "nessie-native": CatalogType("nessie", _CAS),
    "hadoop": CatalogType("hadoop", _NONE),
    "hadoop-locked": CatalogType("hadoop", _LOCK),
    "hadoop-conditional": CatalogType("hadoop", _CAS),
    "glue": CatalogType("glue", _NONE),
    "glue-cas": CatalogType("glue", _CAS),
    "dynamodb": CatalogType("org.apache.iceberg.aws.dynamodb.DynamoDbCatalog", _CAS),
    "polaris": CatalogType("rest", _CAS),
}
"""The catalogs that come with icequake; ``compose.catalogs`` has them, which stands beside the checkers."""
SERVER_TITLES: Mapping[str, str] = {
    "rest": "Iceberg's REST test fixture",
    "nessie": "Nessie",
    "nessie-native": "Nessie",
    "polaris": "Polaris",
    "glue": "moto's Glue",
    "glue-cas": "moto's Glue",
    "dynamodb": "moto's DynamoDB",
}
"""Catalog → what runs as its server, where its name does not say it."""
OBSERVERS = frozenset({"isolation", "linearizable", "reads"})
"""Checkers of what clients saw: of a defect that another checker found, it follows."""
FOLLOWS: Mapping[str, frozenset[str]] = {"lost-metadata-change": frozenset({"lost-commit", "lost-swap", "lost-update"})}
"""Name → names of a lost commit, of which it follows."""
LATER: Mapping[str, frozenset[str]] = {
    "next-row-id": frozenset({"file-row-id"}),
    "row-id-overlap": frozenset({"file-row-id", "next-row-id"}),
}
"""Name → names of what it comes of, if anything comes after: a run that ended, or went on in another way, need not show it."""
TAKEN_FOR_LOST = re.compile(r"UPDATE [1-9]\d*(?:, told (?:0800[0367]|40001) .*|(?P<cut> \(nemesis: not told\)))")
"""PostgreSQL's answer to an accepted commit, as in the proxy log, of which its client heard nothing, or one of the SQLSTATEs upon which
Iceberg's ``JdbcClientPool`` connects and sends the statement again."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run ran: the workload, the catalog's name, the version of Iceberg (``unknown`` if the plan has none), what type of catalog a
    user's own is (None: the plan does not say), and the versions of all other software that the plan has."""

    workload: str
    catalog: str
    iceberg: str
    own: CatalogType | None = None
    others: Mapping[str, str] = field(default_factory=dict)

    def version(self, software: str) -> str:
        """The version of a scenario's software; ``unknown`` if the plan has none."""
        return self.iceberg if software == ICEBERG else self.others.get(software, "unknown")

    @property
    def catalog_type(self) -> CatalogType | None:
        """The type of its catalog, if that is known."""
        return self.own or CATALOG_TYPES.get(self.catalog)


@dataclass(frozen=True, slots=True)
class KnownDefect:
    """A known defect.

    Attributes:
        scenario: that shows it (``icequake prove NAME``).
        link: where it is discussed.
        anomalies: that it shows.
        remedy: what a user can do about it; empty if nothing is known.
        headline: what happens in it, in plain words.
        affected: releases that have it.
        state: what has become of it since, in words; empty: the library does not say.
    """

    scenario: str
    link: str
    anomalies: tuple[str, ...]
    remedy: str = ""
    headline: str = ""
    affected: str = ""
    state: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {**asdict(self), "anomalies": list(self.anomalies)}


def known_defects(
    ran: RunFacts | None, found: Sequence[Anomaly], evidence: Evidence, beside: Sequence[Anomaly] = ()
) -> tuple[KnownDefect, ...]:
    """The scenarios that together show the anomalies of one story, at most :data:`MOST_SCENARIOS`; none if they are not known, or the run is a
    scenario.

    Those that explain most of the names come first, then those whose operation ends with the same error as the run's, then by name. Of
    several with the same link and anomalies, only the first by name.

    Args:
        beside: anomalies of other stories on the same table: one defect may be several events there.
    """
    if ran is None or not found or ran.workload in (library := _library(LIBRARY)):
        return ()
    causes = _causes(found)
    happened = _Happened.of(causes, evidence)
    fits = []
    for name, s in library.items():
        shown, rest = _shown(s, found, beside)
        if shown and not rest and next(_unmet(s, ran, happened), None) is None:
            fits.append((-len(shown), happened.ends_otherwise(s), name, _defect(name, s)))
    best = sorted(fits, key=lambda f: f[:3])
    unexplained, chosen = {a.name for a in causes}, dict[tuple[str, tuple[str, ...]], KnownDefect]()
    for fit in best:
        if fit[:2] == best[0][:2] or unexplained & {*fit[3].anomalies}:
            chosen.setdefault((fit[3].link, fit[3].anomalies), fit[3])
            unexplained -= {*fit[3].anomalies}
    return () if unexplained else tuple(chosen.values())[:MOST_SCENARIOS]


def of_scenario(name: str) -> KnownDefect | None:
    """The defect that a scenario of the library shows; None if the library does not have it."""
    s = _library(LIBRARY).get(name)
    return None if s is None else _defect(name, s)


def of_link(link: str) -> list[KnownDefect]:
    """The defects of the library that are discussed at a place."""
    return [_defect(name, s) for name, s in _library(LIBRARY).items() if s["link"] == link]


def _defect(name: str, s: Mapping[str, Any]) -> KnownDefect:
    said = {key: str(s.get(key, "")) for key in ("remedy", "headline", "affected")}
    of = "" if _software(s) == ICEBERG else f"{SOFTWARE_TITLES[_software(s)]} "
    fixed = f"fixed in {of}{s['fixed']}" if s.get("fixed") else ""
    return KnownDefect(name, s["link"], tuple(sorted(_names_of(s))), **said, state=s.get("state") or fixed)


def _causes(found: Sequence[Anomaly]) -> list[Anomaly]:
    """The anomalies that a defect has to explain: without what follows from others of them, if there are others."""
    names = {a.name for a in found}
    return [a for a in found if a.checker not in OBSERVERS and not names & FOLLOWS.get(a.name, frozenset())] or [*found]


def _gravity(name: str) -> int:
    means = meaning(name)
    return Harm.PROMISE.gravity if means is None else means.harm.gravity


def _names_of(s: Mapping[str, Any]) -> set[str]:
    """The names of a scenario's anomalies."""
    return {e.name for e in entries_of(*(s.get("anomalies") or ()))}


def _shown(s: Mapping[str, Any], found: Sequence[Anomaly], beside: Sequence[Anomaly] = ()) -> tuple[set[str], set[str]]:
    """The names of a scenario that some anomalies have, and those that they do not have, unless others have them and they are no graver:
    what a defect does to rows is not shown by its metadata alone. What only comes of it :data:`LATER` need not be there."""
    entries = entries_of(*(s.get("anomalies") or ()))
    shown = {e.name for e in entries if any(map(e.named, found))}
    missing = [e for e in entries if e.name not in shown and not LATER.get(e.name, frozenset()) & shown]
    others = {e.name: any(map(e.named, beside)) for e in missing}
    least = min(map(_gravity, shown), default=0)
    return shown, {name for name, shared in others.items() if not shared or _gravity(name) < least}


def _unmet(s: Mapping[str, Any], ran: RunFacts, happened: _Happened) -> Iterator[str]:
    """What a scenario asks of a run, besides its anomalies, and this one does not have, in words."""
    if not _of_catalog(s, ran):
        yield f"it is about {_catalogs(s)}, and this catalog is {ran.catalog or 'unknown'}"
    if not _in_range(s, version := ran.version(_software(s))):
        yield f"it is about other releases of {SOFTWARE_TITLES[_software(s)]} than {version}"
    yield from happened.lacks(s)


def unlike(ran: RunFacts, found: Sequence[Anomaly], evidence: Evidence, beside: Sequence[Anomaly] = ()) -> str:
    """Why the anomalies of one story are not known: the scenario that is most like them, and what of it they do not have.

    ``beside``: as for :func:`known_defects`.
    """
    causes = _causes(found)
    happened, names = _Happened.of(causes, evidence), {a.name for a in causes}
    best: tuple[tuple[int, int, str], str, list[str]] | None = None
    for name, s in _library(LIBRARY).items():
        shown, rest = _shown(s, found, beside)
        if not shown or not _formats(s) & happened.formats:
            continue
        others = names - shown
        why = [f"that has also: {_plain(rest)}, which is not in this event"] if rest else []
        why += [f"that has not: {_plain(others)}"] if others else []
        unmet = [*_unmet(s, ran, happened)]
        rank = (len(why) + 2 * len(unmet), -len(shown), name)
        if best is None or rank < best[0]:
            best = rank, name, why + unmet
    if best is None:
        return f"no scenario of the library has this: {_plain(names)}"
    what = "; ".join(best[2]) or "others have the rest of the event"
    return f"the scenario {best[1]} is most like it ({asks(best[1])}), but {what}"


_CHANGE = "lost-metadata-change"
WITHOUT_FAULT = "without a fault"


def needs_fault(scenario: str) -> bool:
    """Whether a scenario shows its defect by a fault; also if the library does not have it."""
    return not asks(scenario).endswith(WITHOUT_FAULT)


def asks(scenario: str) -> str:
    """What a scenario is about, in words: catalogs, engines and faults; empty if the library does not have it."""
    s = _library(LIBRARY).get(scenario)
    if s is None:
        return ""
    engines = [ENGINES[name].title for name in dict.fromkeys(engine for _, engine in _executed(s))]
    faults = [f"while {_struck(*fault)}" for fault in sorted(_faults_of(s))]
    return f"{_catalogs(s)}, {_listed(engines)}, {' and '.join(faults) or WITHOUT_FAULT}"


def _plain(names: Iterable[str]) -> str:
    return _listed(map(in_words, names))


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))


def _catalogs(s: Mapping[str, Any]) -> str:
    """Which catalogs a scenario is about."""
    named = s.get("catalog")
    if named is None:
        return "REST catalogs" if _faults_of(s) else "any catalog"
    wanted = CATALOG_TYPES[named]
    if wanted.type == "rest":
        return f"the server {named}"
    guard = {_NONE: " that guard no commit", _LOCK: " with a lock"}.get(wanted.guard, "")
    name = wanted.type.rpartition(".")[2].removesuffix("Catalog")
    return f"{name.upper() if name == 'jdbc' else name[:1].upper() + name[1:]} catalogs{guard}"


def _struck(verb: str, service: str) -> str:
    """What a fault does, of the service that it strikes."""
    return VERBS[verb].summary.replace("the service", f"the {service}", 1).replace("`", "").replace("; ", ", and ")


def _executed(s: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The operations of a scenario: kind and engine."""
    engines = s.get("engines") or {}
    return {(step["do"], str(engines.get(str(step["writer"]), SPARK))) for step in s["operations"]}


def _faults_of(s: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The faults of a scenario: verb and service."""
    return {
        (step["fault"].get("verb", "answer"), step.get("service", "catalog"))
        for step in s["operations"]
        if step.get("fault")
    }


def _formats(s: Mapping[str, Any]) -> set[str]:
    """The formats of a scenario's tables."""
    return {str(table.get("format", ICEBERG)) for table in s.get("tables") or [{}]}


@dataclass(frozen=True)
class _Happened:
    """What happened to the anomalies of a story, as far as a defect can ask for it.

    Attributes:
        engines: of each anomaly's operations, if the history has any.
        kinds: the operations on their tables: kind and engine.
        faults: verb and service of those that were on while an operation of theirs ran; one on their tables if they name none. With a lost
            reply if one of its commits was one to its client.
        errors: classes, without their packages, by which the first operation of each ended.
        by_endpoint: whether a commit came by the endpoint of transactions.
        formats: of their tables.
        unmade: kinds of operations whose change of a property or of the schema the endpoint of transactions accepted, and no version ever had.
    """

    engines: Sequence[frozenset[str]]
    kinds: frozenset[tuple[str, str]]
    faults: frozenset[tuple[str, str]]
    errors: frozenset[str]
    by_endpoint: bool
    formats: frozenset[str]
    unmade: frozenset[str] = frozenset()

    @staticmethod
    def of(found: Sequence[Anomaly], evidence: Evidence) -> _Happened:
        """From the evidence of their run."""
        operations = {o.op: o for o in evidence.history.operations()}
        tables = {a.table for a in found}
        ran = [[operations[op] for op in a.ops if op in operations] for a in found]
        on_tables = [o for o in operations.values() if tables & {*tables_of(o), None}]
        own = {o.op: o for these in ran for o in these} or {o.op: o for o in on_tables}
        first = [operations[op] for a in found for op in a.ops[:1] if op in operations]
        faults = frozenset(_faults(evidence.history, [*own.values()]))
        answers = [s.answer for t in tables for s in evidence.swaps.get(str(t), ()) if s.op in own]
        return _Happened(
            [frozenset(o.engine for o in these) for these in ran if these],
            frozenset((o.f, o.engine) for o in on_tables),
            faults | _lost_replies(faults, answers),
            frozenset(c.rsplit(".", 1)[-1] for o in first for c in _classes(o)),
            any(a.evidence.get(pointer.ENDPOINT) == pointer.TRANSACTIONS for a in found),
            frozenset(evidence.logs[t].table_format if t in evidence.logs else ICEBERG for t in map(str, tables)),
            frozenset(
                operations[op].f
                for a in found
                if a.name == _CHANGE and len({*a.files}) < 2
                for op in a.ops[:1]
                if op in operations and evidence.answered.get(op, "").endswith(f"/{pointer.TRANSACTIONS}/commit")
            ),
        )

    def lacks(self, s: Mapping[str, Any]) -> Iterator[str]:
        """Which of a scenario's table formats, special operations, faults and engines were not there, in words."""
        executed = _executed(s)
        sent = self.by_endpoint and any(_by_transaction(do) for do, _ in executed)
        special = {
            (do, engine)
            for do, engine in executed
            if engine != SPARK or not (_ordinary(do) or (sent and _by_transaction(do)))
        }
        if not _formats(s) & self.formats:
            yield f"its table is one of {_listed(_formats(s))}"
        accompanied = {do for do, _ in self.kinds} if s.get("engines") else set[str]()
        for do, engine in sorted(special - self.kinds):
            if (
                engine == SPARK and do in accompanied
            ):  # it is about the other engine; who upgrades before it does not matter
                continue
            yield f"it needs {do} by {ENGINES[engine].title}, which did not run on the table"
        if _CHANGE in _names_of(s) and not self.unmade & {do for do, _ in executed}:
            yield "its change was accepted by POST /v1/transactions/commit, and no version ever had it"
        for verb, service in sorted(_faults_of(s) - self.faults):
            yield f"it needs a fault that was not on meanwhile ({verb}: {_struck(verb, service)})"
        engines = {engine for _, engine in executed}
        if not sent and not all(engines & these for these in self.engines):
            yield f"its operations are by {_listed(ENGINES[engine].title for engine in engines)}"

    def ends_otherwise(self, s: Mapping[str, Any]) -> bool:
        """Whether the scenario's operation ends with another error."""
        ends = {
            e["error"] for step in s["operations"] if isinstance(e := step.get("expect"), Mapping) and e.get("error")
        }
        return not ends & self.errors if ends else bool(self.errors)


_ANY = TableSpec(name="any")


@lru_cache(1)  # to read them takes longer than to tell a run, and each story looks them up
def _library(folder: Path) -> Mapping[str, Mapping[str, Any]]:
    """The scenario files as plain YAML, by name."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = (yaml.load(p.read_text(encoding="utf-8"), loader) for p in sorted(folder.glob("*.yaml")))
    return {s["scenario"]: s for s in found}


def _of_catalog(s: Mapping[str, Any], ran: RunFacts) -> bool:
    """Whether a scenario is about a run's catalog. A fault strikes one protocol; without it the operations alone may be to blame."""
    named = s.get("catalog")
    if named is None and not any(step.get("fault") for step in s["operations"]):
        return True
    wanted = CATALOG_TYPES[named or "rest"]
    if wanted != ran.catalog_type:
        return False
    return named is None or wanted.type != "rest" or named == ran.catalog  # one server's defect is not another's


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


def _faults(whole: history.History, operations: Sequence[history.Operation]) -> Iterator[tuple[str, str]]:
    """The faults that were on while one of the operations ran: verb and service."""
    kinds: dict[str, set[tuple[str, str]]] = {}
    for e in whole.events:
        if e.process == history.NEMESIS and e.f.startswith("start-") and isinstance(e.value, Mapping):
            fault = e.value.get("fault")
            if isinstance(fault, Mapping) and "verb" in fault:
                kind = str(fault["verb"]), str(fault.get("service") or "catalog")
                kinds.setdefault(e.f.removeprefix("start-"), set()).add(kind)
    for window in windows(whole.events) if kinds else ():
        if any(window.overlaps(o.start, LATEST if o.end is None else o.end) for o in operations):
            yield from kinds.get(window.name, ())


def _lost_replies(faults: Collection[tuple[str, str]], answers: Iterable[str]) -> set[tuple[str, str]]:
    """The fault ``drop-reply`` of the catalog if one of the answers to accepted commits was as good as lost to its client."""
    # A duplicate's first reply is not told, either, and the second one is: that is no broken connection.
    cut = ("cut", "catalog") in faults and ("duplicate", "catalog") not in faults
    taken = (m for a in answers if (m := TAKEN_FOR_LOST.fullmatch(a)) is not None)
    return {("drop-reply", "catalog")} if any(cut or m["cut"] is None for m in taken) else set()


def _software(s: Mapping[str, Any]) -> str:
    """Whose versions a scenario's ``since`` and ``fixed`` are."""
    return str(s.get("software", ICEBERG))


def _in_range(s: Mapping[str, Any], version: str) -> bool:
    """Whether a version of a scenario's software has the defect; an unknown version may have it."""
    since, fixed = s.get("since"), s.get("fixed")
    if not version[:1].isdigit():
        return True
    return (since is None or newer(version, str(since))) and not (fixed is not None and surely_has(version, str(fixed)))
