"""The search step by step of transactions of two tables: a transfer changes both in one request, while others insert into one of them.

The steps of the server are those of ``RESTCatalogAdapter.commitTransaction`` (Iceberg's REST fixture, ``core/src/test/…/rest``):

* **check**: for each table it loads the metadata and compares the client's requirements, in memory (``CatalogHandlers.commit``).
* **commit**, table by table (``Transaction.commitTransaction``). It compares the table with what it has checked
  (``BaseTransaction.applyUpdates``); if that moved, it does the transaction's own updates again on what is there now. The adapter has made its
  changes past the transaction, which has none, so nothing is committed, and that is no error.
* answer: success after the last table. An error of the database in between is 500, and the client does not know.

A server that commits ``together`` compares and commits all tables in one step.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import yaml

from checkers.formats.iceberg.model.faults import Tell
from checkers.formats.iceberg.model.scenario import LINK
from checkers.formats.iceberg.model.ways import Faulty, Way, WaySearchResult, WayStep

TABLES = ("checking", "savings")
HALF, LOST = "half-transaction", "lost-commit"
FIRST_COMMIT = 3
"""Which statement of a transfer at the database commits its first table; two that stage come before (docs/scenarios.md)."""
DISK_FULL = "53100"
INSERTED = 20
"""Key of the first row that is inserted beside a transfer."""
Outcome = Literal["running", "acknowledged", "refused", "unknown"]


class ModelTransfer(NamedTuple):
    """A transfer: its number, how many commits each table had when its client read it, the table that is next, and how it ended."""

    op: int
    bases: tuple[int, ...]
    table: int | None = None
    outcome: Outcome = "running"


class BankState(NamedTuple):
    """All that there is. ``tables``: the numbers of the operations that each has, in order; ``writes``: how many operations have begun."""

    tables: tuple[tuple[int, ...], ...] = ((),) * len(TABLES)
    transfers: tuple[ModelTransfer, ...] = ()
    writes: int = 0
    faults: int = 0


def search(faulty: Faulty, tell: Tell | None = None, every: float = 0.0) -> WaySearchResult:
    """Search everything within the bound, breadth first. A state that breaks a promise is not continued. ``tell`` gets how far it is, every
    so many seconds."""
    out, began, due = WaySearchResult(), time.process_time(), every
    names = [o.name for o in faulty.operations()]
    first = BankState(faults=faulty.faults)
    ways: dict[BankState, Way] = {first: ()}
    todo = deque([first])
    while todo:
        state = todo.popleft()
        out.depth = max(out.depth, len(ways[state]))
        if tell is not None and (seconds := time.process_time() - began) > due:
            due = seconds + every
            tell(len(ways), out.depth, seconds)
        for step, after in _steps(faulty, names, state):
            out.fired[step.words.partition(" of ")[0]] += 1
            out.began.update([names[step.operation]] if step.begins else [])
            out.faults.update([step.fault] if step.fault is not None else [])
            if after in ways:
                continue
            ways[after] = (*ways[state], step)
            name = broken(after)
            if name is None:
                todo.append(after)
            elif name not in out.found:
                out.found[name] = ways[after]
            if name is not None:
                _keep(out, name, ways[after], names)
    out.states, out.seconds = len(ways), time.process_time() - began
    return out


def _keep(out: WaySearchResult, name: str, way: Way, names: list[str]) -> None:
    """Keep a way, if no part of its operations and faults breaks the promise, too."""
    mix = Counter(f"{names[s.operation]} {s.words}" for s in way if s.begins)
    mix.update(s.fault for s in way if s.fault is not None)
    if not any(name == other and part <= mix for other, part, _ in out.mixes):
        out.mixes.append((name, mix, way))


def broken(s: BankState) -> str | None:
    """A transfer that has ended, and is in one of its tables only; or was acknowledged, and is in none."""
    for t in s.transfers:
        there = sum(t.op in table for table in s.tables)
        if t.outcome != "running" and 0 < there < len(TABLES):
            return HALF
        if t.outcome == "acknowledged" and not there:
            return LOST
    return None


def _steps(faulty: Faulty, names: list[str], s: BankState) -> Iterator[tuple[WayStep, BankState]]:
    bases = tuple(map(len, s.tables))
    running = sum(t.outcome == "running" for t in s.transfers)
    if s.writes < faulty.bound.writes and running < faulty.writers:
        begun = s._replace(writes=s.writes + 1)
        for k, name in enumerate(names):
            if name == "transfer":
                step = WayStep(s.writes, k, "scan of both tables")
                yield step, begun._replace(transfers=(*s.transfers, ModelTransfer(s.writes, bases)))
                continue
            table = faulty.operations()[k].key
            words = f"scan of {TABLES[table]}, applied, acknowledged"
            yield WayStep(s.writes, k, words), begun._replace(tables=_with(s.tables, table, s.writes))
    for n, t in enumerate(s.transfers):
        if t.outcome == "running":
            for words, tables, after, fault in _serves(faulty, s, t):
                ended = s._replace(tables=tables, transfers=(*s.transfers[:n], after, *s.transfers[n + 1 :]))
                step = WayStep(t.op, names.index("transfer"), words, fault)
                yield step, ended._replace(faults=s.faults - (fault is not None))


_Served = tuple[str, tuple[tuple[int, ...], ...], ModelTransfer, Literal["statement refused"] | None]


def _serves(faulty: Faulty, s: BankState, t: ModelTransfer) -> Iterator[_Served]:
    """What the server does next for a transfer: in words, the tables, the transfer, and the fault that it met."""
    if t.table is None:
        if t.bases != tuple(map(len, s.tables)):
            yield "refused by its requirements", s.tables, t._replace(outcome="refused"), None
            return
        if not faulty.catalog.together:
            yield "check of both tables", s.tables, t._replace(table=0), None
            return
    if s.faults:
        error = t._replace(outcome="unknown")
        yield f"statement of {TABLES[t.table or 0]} refused, unknown", s.tables, error, "statement refused"
    if t.table is None:
        every = tuple((*table, t.op) for table in s.tables)
        yield "both tables applied, acknowledged", every, t._replace(outcome="acknowledged"), None
        return
    last = t.table + 1 == len(TABLES)
    after = t._replace(outcome="acknowledged") if last else t._replace(table=t.table + 1)
    answer = ", acknowledged" if last else ""
    if len(s.tables[t.table]) == t.bases[t.table]:
        yield f"commit of {TABLES[t.table]}, applied{answer}", _with(s.tables, t.table, t.op), after, None
    else:
        yield f"commit of {TABLES[t.table]}, which has moved, of nothing{answer}", s.tables, after, None


def _with(tables: tuple[tuple[int, ...], ...], n: int, op: int) -> tuple[tuple[int, ...], ...]:
    return (*tables[:n], (*tables[n], op), *tables[n + 1 :])


def of_transfers(faulty: Faulty, called: str, anomaly: str, way: Way) -> tuple[str, str]:
    """The text of a scenario file that goes a way; or an empty text, and why no file can say it. The transfer is held at the statement of the
    database by which its first table commits, or its second one, if nothing comes before."""
    if faulty.catalog.together:
        return "", "no real catalog is like that"
    names = [o.name for o in faulty.operations()]
    own = [s for s in way if names[s.operation] == "transfer"]
    if len({s.op for s in own}) > 1:
        return "", "it has several transfers, and a scenario has one gate for each operation"
    check = next(n for n, s in enumerate(way) if s.words.startswith("check"))
    if any(s not in own for s in way[:check]):
        return "", "an operation comes before the transfer, which changes nothing"
    moved = [n for n, table in enumerate(TABLES) if any(f"commit of {table}, which has moved" in s.words for s in own)]
    refused = any(s.fault is not None for s in own)
    transfer: dict[str, Any] = {"name": "transfer", "writer": 0, "do": "transfer", "table": TABLES[0]}
    transfer |= {"value": {"ids": [0], "into": TABLES[1], "amount": 5}, "service": "database"}
    transfer |= {"nth": FIRST_COMMIT + (0 if 0 in moved else 1)}
    if refused:
        transfer |= {"fault": {"verb": "reject", "sqlstate": DISK_FULL}, "expect": "info"}
    inserts = [{"name": f"insert-{TABLES[n]}", "writer": 1, "do": "insert", "table": TABLES[n]} for n in moved]
    for before, insert, n in zip([None, *inserts], inserts, moved, strict=False):
        insert |= {"value": {"ids": [INSERTED + n]}}
        insert |= {"after": {"transfer": "held"} if before is None else {before["name"]: "completed"}}
    if inserts:
        transfer |= {"hold": {inserts[-1]["name"]: "completed"}}
    data = {
        "scenario": called,
        "description": f"A way of the model: {'; '.join(map(str, way))}.",
        "link": LINK,
        "affected": "found by the model",
        "catalog": "rest",
        "tables": [
            {"name": name, "partitioned": False, "seed_rows": 2, "properties": {"write.wap.enabled": "true"}}
            for name in TABLES
        ],
        "operations": [transfer, *inserts],
        "anomalies": [anomaly],
        "allow": [name for name in (HALF, LOST, "lost-swap") if name != anomaly],
        "final": {name: [0, 1, *([INSERTED + n] if n in moved else [])] for n, name in enumerate(TABLES)},
    }
    return yaml.safe_dump(data, sort_keys=False, width=140, default_flow_style=None), ""
