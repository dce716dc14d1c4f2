"""What each engine of a run did, and the version that it is of: the table of who did it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from checkers.evidence.tableformat import find
from checkers.evidence.tablelog import TableLog
from checkers.judge.culprits import CATALOG, SERVER
from checkers.judge.known import SERVER_TITLES
from checkers.judge.stories import Story
from checkers.timeline import explain
from workloads.engines.engines import ENGINES
from workloads.tables import TableFormatName


@dataclass(frozen=True, slots=True)
class Did:
    """What an engine, or another one that anomalies are laid on (``the catalog server``), did in a run.

    Attributes:
        who: its title; ``version``: what it is of, such as ``DuckDB 1.4.2, iceberg extension 4f1c2ab``; empty if the plan does not say.
        operations: number of its operations; ``failed``: of those that did not end ``ok``; ``conflicts``: of those that a concurrent commit
            made it give up; ``retries``: attempts of its commits beyond the first of each.
        anomalies: number of findings that are laid on it.
    """

    who: str
    version: str
    operations: int
    failed: int
    conflicts: int
    retries: int
    anomalies: int


def version_of(engine: str, versions: Mapping[str, str]) -> str:
    """``DuckDB 1.4.2, iceberg extension 4f1c2ab``: an engine's software by the versions of a run's plan; empty if they do not say."""
    software = ENGINES[engine].software if engine in ENGINES else {}
    return ", ".join(f"{title} {versions[key]}" for title, key in software.items() if key in versions)


def _server(catalog: str, versions: Mapping[str, str]) -> str:
    """``Iceberg's REST test fixture 1.11.0``."""
    return " ".join(filter(None, (SERVER_TITLES.get(catalog, catalog), versions.get(catalog))))


def _of_format(who: str, versions: Mapping[str, str]) -> str:
    """The version of the table format that somebody is a part of; empty if it is of none, or the plan does not say."""
    formats = map(find, get_args(TableFormatName))
    return next((f"{f.title} {versions[f.name]}" for f in formats if f.keeper == who and f.name in versions), "")


def named(who: str, engine: str, versions: Mapping[str, str], catalog: str = "") -> str:
    """Who did something, with the version if a plan has it: ``DuckDB 1.4.2, …``, ``Spark's JDBC catalog client (Spark 4.1.4, …)``, ``the
    catalog server (Iceberg's REST test fixture 1.11.0)``.

    Args:
        engine: that it is, or is a part of; empty for none.
        catalog: the run's.
    """
    if who in (SERVER, CATALOG) and catalog:
        return f"{who} ({_server(catalog, versions)})"
    version = version_of(engine, versions) if engine else _of_format(who, versions)
    return who if not version else version if who == explain.title(engine) else f"{who} ({version})"


def by_engine(
    operations: Iterable[Operation],
    logs: Mapping[str, TableLog],
    stories: Sequence[Story],
    versions: Mapping[str, str],
    catalog: str = "",
) -> tuple[Did, ...]:
    """A row for each engine of the run, in the order of :data:`ENGINES`, then one for each other that a story is laid on.

    Args:
        catalog: its name, by which ``versions`` has its server.
    """
    by_name: dict[str, list[Operation]] = {}
    for o in operations:
        by_name.setdefault(o.engine, []).append(o)
    made = {o.op: o.engine for these in by_name.values() for o in these}
    retries: dict[str, int] = {}
    for c in (c for log in logs.values() for c in log.commits):
        if c.op in made:
            retries[made[c.op]] = retries.get(made[c.op], 0) + max(0, (c.attempt or 1) - 1)
    found: dict[str, int] = {}
    for s in stories:
        found[s.engine or s.who] = found.get(s.engine or s.who, 0) + s.count
    rows = [
        Did(
            ENGINES[name].title if name in ENGINES else name,
            version_of(name, versions),
            len(these),
            sum(o.type != "ok" for o in these),
            sum(conflict_of(o) is not None for o in these),
            retries.get(name, 0),
            found.pop(name, 0),
        )
        for name, these in sorted(by_name.items(), key=lambda kv: ([*ENGINES, kv[0]].index(kv[0]), kv[0]))
    ]
    server = _server(catalog, versions)
    others = ((who, server if who in (SERVER, CATALOG) else _of_format(who, versions), n) for who, n in found.items())
    return (*rows, *(Did(who, version, 0, 0, 0, 0, n) for who, version, n in others))
