"""Who did what a story tells: the catalog's server, its client in an engine, an engine, or what keeps a format's versions apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from checkers import pointer
from checkers.evidence.history import Operation
from checkers.evidence.tableformat import TableFormat
from checkers.evidence.tablelog import TableLog
from checkers.judge.causes import MISSING, Facts
from checkers.judge.known import CatalogType
from checkers.names import Culprit, meaning
from checkers.timeline import explain
from checkers.verdict import Anomaly
from workloads.operations.kinds import KINDS

DECIDING_SERVERS = frozenset({"rest", "nessie"})
"""Types of catalogs (``checkers.judge.known``) whose server decides about a commit; of others it is the client, by a database or a store."""
SERVER, CATALOG, NOBODY = "the catalog server", "the catalog", "unknown"
"""Who did it, besides engines and their clients."""
_CLIENTS: Mapping[str, str] = {
    "jdbc": "JDBC ",
    "rest": "REST ",
    "hive": "Hive ",
    "nessie": "Nessie ",
    "hadoop": "Hadoop ",
    "glue": "Glue ",
}
"""Type of catalog → how its client is called."""


@dataclass(frozen=True, slots=True)
class DoneBy:
    """Who did it.

    Attributes:
        who: an engine's title, its catalog's client, or another one (:data:`SERVER` …).
        engine: name of the engine that it is, or that it is a part of; empty for none.
        how: what it did, in a sentence that begins with a verb; empty: the headline says it.
        client: whether it is a catalog's client, which did not know what became of its commit.
        forgot: whether it is a server that made a commit, and made the next one on the version before.
    """

    who: str
    engine: str = ""
    how: str = ""
    client: bool = False
    forgot: bool = False


def done_by(
    group: Sequence[Anomaly],
    lead: Sequence[Anomaly],
    facts: Facts,
    operations: Mapping[str, Operation],
    catalog: CatalogType | None,
    of: TableFormat[Any, Any],
    *,
    cleaned: bool = False,
    log: TableLog | None = None,
    told: Mapping[str, str] = MappingProxyType({}),
) -> DoneBy:
    """Who did what the anomalies of one story say.

    Args:
        lead: those that the story is named after.
        catalog: what type of catalog it was; None: nobody knows.
        of: the table's format.
        log: the table's, if there is one.
        told: operation → the answer to its commit of no snapshot (``Evidence.answered``).
        cleaned: an operation that deletes files ran on the table, so that it may have deleted them and not the client.
    """
    server = SERVER if catalog is None or catalog.type in DECIDING_SERVERS else CATALOG
    server = of.keeper or server
    answered = any(a.evidence.get("culprit") == "server" or pointer.ANSWER in a.evidence for a in group)
    moved = any(a.checker == pointer.Pointer.name and meant(a.name) is Culprit.CATALOG for a in group)
    if answered or moved:
        return _by_server(server, group, facts, operations, of)
    name = lead[0].name if lead else ""
    at_fault = [op for a in lead for op in sorted(facts.at_fault(a))] or [op for a in lead for op in a.ops[:1]]
    o = next((operations[op] for op in at_fault if op in operations), None)
    if o is None:
        return DoneBy(server if meant(name) is Culprit.CATALOG else NOBODY)
    engine = explain.engine(o)
    if meant(name) is Culprit.MAKER and server == SERVER and catalog is not None:
        return DoneBy(f"{engine} or {SERVER}")  # the server writes the file, and the client says what goes into it
    if name == "lost-metadata-change" and server == SERVER:
        if any(len({*a.files}) > 1 for a in lead):  # a version had it: who took it away is not known
            return DoneBy(NOBODY)
        if not told or told.get(o.op) == "":  # nobody saw whether it was sent
            return DoneBy(f"{engine} or {SERVER}")
        if o.op in told:
            how = f"answered {told[o.op].replace(' to ', f' to what {engine} sent by ', 1)}{MADE_NOT}"
            return DoneBy(server, how=how)
    how = _believed(name, group, cleaned) if meant(name) is Culprit.CLIENT else ""
    if (
        name == "missing-file"
        and not cleaned
        and all(operations[op].type == "fail" for op in at_fault if op in operations)
    ):
        how = f"did not learn that its commit was made{_DELETED}"
    if name == "lost-commit" and all(map(facts.set_back, lead)) and o.f in KINDS and KINDS[o.f].changes_rows:
        how = "sent a commit again that was made already, which set the table back to it"
    if how and not of.decides:
        client = f"{engine}'s {_CLIENTS.get(catalog.type, '') if catalog is not None else ''}catalog client"
        return DoneBy(client, o.engine, how, client=True)
    return DoneBy(
        engine, o.engine, _brought_back(log, o, lead) if name == "resurrected-row" and log is not None else ""
    )


def _brought_back(log: TableLog, o: Operation, lead: Sequence[Anomaly]) -> str:
    """How a commit brought rows back: it took away what hid them, or wrote them again; empty if the log has not these rows of it."""
    keys = {k for a in lead for k in a.keys}
    at = log.columns.index("id") if "id" in log.columns else 0
    added = [x for c in log.commits if c.op == o.op for x in c.added or () if x.row[at] in keys]
    if not added:
        return ""
    if all(x.by is not None for x in added):
        return "removed deletes of these rows from the table, so that they are visible again"
    return "wrote these rows again" if all(x.by is None for x in added) else ""


def _by_server(
    server: str,
    group: Sequence[Anomaly],
    facts: Facts,
    operations: Mapping[str, Operation],
    of: TableFormat[Any, Any],
) -> DoneBy:
    """A server lost a commit: it answered that it made it, or made another one on the same version."""
    answers = dict.fromkeys(str(a.evidence[pointer.ANSWER]) for a in group if pointer.ANSWER in a.evidence)
    lost = sorted({op for a in group for op in facts.lost(a)})
    by = explain.listing(dict.fromkeys(explain.engine(operations[op]) for op in lost if op in operations))
    if answers and by:
        said = f"answered {explain.listing(answers)} to what {by} committed{_endpoint(group)}"
        taken = {a.evidence[pointer.TAKEN] for a in group if pointer.TAKEN in a.evidence}
        if taken == {False}:
            forgot = " and forgot it: the next commit was made on the version before"
            return DoneBy(server, how=said + forgot, forgot=True)
        return DoneBy(server, how=said + MADE_NOT + (": another commit had taken its place" if taken == {True} else ""))
    if any(facts.instead(a) for a in group):
        return DoneBy(server, how=of.two_made)
    unmade = "acknowledged a commit that no version of the table has"
    return DoneBy(server, how=unmade if any(_unmade(a) for a in group) else "")


MADE_NOT = ", and did not make it"


def _endpoint(group: Sequence[Anomaly]) -> str:
    """By which endpoint it was asked, if not by that of the table."""
    asked = any(a.evidence.get(pointer.ENDPOINT) == pointer.TRANSACTIONS for a in group)
    return " by POST /v1/transactions/commit" if asked else ""


def _unmade(a: Anomaly) -> bool:
    return a.name == "lost-commit" and a.evidence.get("seen") is False


def _believed(name: str, group: Sequence[Anomaly], cleaned: bool) -> str:
    """What a client did that did not know what became of its commit."""
    if name == "duplicate-commit":
        return "sent a commit again that was made already"
    gone = not cleaned and any(a.name in MISSING for a in group)
    return f"did not learn that its commit was made{', ' if gone else ' and '}reported it as failed{_DELETED if gone else ''}"


_DELETED = ", and deleted its files, which snapshots of the table need"


def meant(name: str) -> Culprit | None:
    """Who usually causes what has this name; None if nobody explains it."""
    means = meaning(name)
    return None if means is None else means.culprit
