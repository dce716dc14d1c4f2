"""What must come of a scenario, and what comes: what its operations leave if they go one after the other, and what a read among them must
see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import permutations

from checkers.formats.iceberg.metadata.rules import SPEC_RULES, SpecRule
from checkers.names import Harm, Meaning, meaning
from workloads.file.scenario import Scenario, ScenarioStep
from workloads.operations.kind import new_row
from workloads.operations.kinds import KINDS
from workloads.tables import State, TableSpec

MOST_ORDERS = 1000
"""Orders that are tried; with more nothing is said."""


def afterwards(scenario: Scenario) -> dict[str, list[list[int]]]:
    """For each table whose final rows fit no serial order that real time allows: the row ids that each such order would leave.

    Tables are left out whose final rows are not known, that came to one of these, or whose operations mean more than a state.
    """
    found = {}
    for table in scenario.tables:
        final, steps = scenario.final.get(table.name, "unchecked"), _effective(scenario, table)
        if final == "unchecked" or not _orders_known(steps):
            continue
        legal = sorted({tuple(_ids(_after(table, order))) for order in permutations(steps) if _may_go(scenario, order)})
        if final == "unreadable" or tuple(sorted(final)) not in legal:
            found[table.name] = [list(ids) for ids in legal]
    return found


def unknown_afterwards(scenario: Scenario) -> bool:
    """Whether a table's final rows are known, and not what its operations leave one after the other: nobody can say then if they are right."""
    return any(
        scenario.final.get(t.name, "unchecked") != "unchecked" and not _orders_known(_effective(scenario, t))
        for t in scenario.tables
    )


def _effective(scenario: Scenario, table: TableSpec) -> list[ScenarioStep]:
    """The steps on a table that may have an effect."""
    return [s for s in scenario.operations if scenario.table(s) is table and s.expect.type != "fail"]


def _orders_known(steps: list[ScenarioStep]) -> bool:
    """Whether each order of some steps has one outcome, and there are few enough."""
    plain = all(not KINDS[s.do].goes_back and not KINDS[s.do].two_tables and s.expect.type == "ok" for s in steps)
    return plain and math.factorial(len(steps)) <= MOST_ORDERS


def _may_go(scenario: Scenario, order: tuple[ScenarioStep, ...]) -> bool:
    """Whether no step stands behind one that began after it had completed."""
    return not any(a.name in _before(scenario, b) for n, a in enumerate(order) for b in order[:n])


def _before(scenario: Scenario, step: ScenarioStep) -> set[str]:
    """The steps that have completed when one begins."""
    found: set[str] = set()
    pending = [step]
    by_name = {s.name: s for s in scenario.operations}
    while pending:
        next_step = pending.pop()
        same_writer = [s.name for s in scenario.operations if s.writer == next_step.writer]
        completed = {n for n, moment in (next_step.after or {}).items() if moment == "completed"} | set(
            same_writer[: same_writer.index(next_step.name)]
        )
        began = {n for n, moment in (next_step.after or {}).items() if moment == "held"}
        for name in completed - found:
            found.add(name)
            pending.append(by_name[name])
        pending += [by_name[n] for n in began]
    for name in tuple(found):  # what held them has completed, too
        found |= {n for n, moment in (by_name[name].hold or {}).items() if moment == "completed"}
    return found


def _after(table: TableSpec, steps: tuple[ScenarioStep, ...]) -> State:
    state = State(new_row(i, "seed", table) for i in range(table.seed_rows))
    for step in steps:
        removed, added = KINDS[step.do].writeset(state, step.value, step.name, table)
        state.apply(removed, added)
    return state


def _ids(state: State) -> list[int]:
    return [row.id for row in state.rows()]


def read_by(scenario: Scenario, step: ScenarioStep) -> list[int] | None:
    """The ids that a read of a whole table must return: those of the operations that have completed. None if it is no such read, or follows
    a defect.

    A scenario with ``stale-read`` is about a read that returns what there was before them.
    """
    table, names = scenario.table(step), {a.name for a in scenario.anomalies}
    if step.do != "read" or (names and "stale-read" not in names):
        return None
    done: set[str] = set() if "stale-read" in names else _before(scenario, step)
    steps = tuple(
        s for s in scenario.operations if s.name in done and scenario.table(s) is table and s.expect.type != "fail"
    )
    return _ids(_after(table, steps))


def ids_said(ids: Iterable[int]) -> str:
    """Ids as a person writes them: ``0, 1, 3``."""
    return ", ".join(map(str, ids)) or "(none)"


def meanings(scenario: Scenario) -> list[tuple[str, Meaning]]:
    """The anomalies that it shows, with what their names tell."""
    names = dict.fromkeys(a.name for a in scenario.anomalies)
    return [(n, m) for n in names if (m := meaning(n)) is not None]


def rules(scenario: Scenario) -> list[SpecRule]:
    """The rules of the specification that its anomalies break; those about files that are gone say nothing of numbers."""
    return [SPEC_RULES[n] for n, m in meanings(scenario) if n in SPEC_RULES and m.harm is not Harm.UNREADABLE]


def required(scenario: Scenario) -> str:
    """What must come, in sentences: the rows of each table, that all can be read, and the rules of the specification that are kept."""
    legal, broken = afterwards(scenario), rules(scenario)
    promise = not scenario.anomalies and scenario.fixed is None
    parts = [*ends(scenario)] if promise else []
    parts += [
        f"table {table} can be read"
        if rows == "unreadable" and table not in legal
        else _rows(table, *legal.get(table, [rows]))
        for table, rows in scenario.final.items()
        if rows != "unchecked"
    ]
    parts += dict.fromkeys(rule.promise for rule in broken)
    if not legal and not broken and "unreadable" not in scenario.final.values():
        parts += [f"it must not be that {m.sentence[:1].lower()}{m.sentence[1:]}" for _, m in meanings(scenario)[:1]]
    parts += [f"{s.name} is acknowledged, because it took effect" for s in _left_open(scenario)]
    why = ": what the acknowledged operations leave, one after the other in any order" if legal and not broken else ""
    return _sentences(parts, why)


def observed(scenario: Scenario) -> str:
    """What comes, in sentences: the operations that are not acknowledged, the rows of each table, and what each anomaly means."""
    parts = [*ends(scenario), *(_rows(table, rows) for table, rows in scenario.final.items() if rows != "unchecked")]
    return _sentences([*parts, *(m.sentence for _, m in meanings(scenario))])


def ends(scenario: Scenario) -> Iterator[str]:
    """How the operations end that are not acknowledged, a clause each."""
    for step in scenario.operations:
        if step.expect.type != "ok":
            what = f" with {step.expect.error}" if step.expect.error else ""
            message = f" ({step.expect.message})" if step.expect.message else ""
            yield f"{step.name} {'fails' if step.expect.type == 'fail' else 'ends with an error that leaves it open'}{what}{message}"


def _left_open(scenario: Scenario) -> list[ScenarioStep]:
    """The operations whose outcome a defect leaves open although their rows are there: what a scenario shows that names no anomaly, and is
    fixed in some release."""
    rows = {i for ids in scenario.final.values() if not isinstance(ids, str) for i in ids}
    return [
        s
        for s in scenario.operations
        if s.expect.type == "info"
        and scenario.fixed
        and not scenario.anomalies
        and rows.issuperset(s.value.get("ids", [None]))
    ]


def _rows(table: str, *ids: Iterable[int] | str) -> str:
    """What rows a table has: one of these lists of ids."""
    if ids == ("unreadable",):
        return f"nobody can read table {table}"
    return f"table {table} has the rows with the ids {' or '.join(ids_said(map(int, each)) for each in ids)}"


def _sentences(parts: list[str], end: str = "") -> str:
    """``end``: of the last one."""
    told = [f"{part[:1].upper()}{part[1:].rstrip('.')}" for part in parts]
    return f"{'. '.join(told)}{end}."
