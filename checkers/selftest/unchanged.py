"""Judging a good run after a change: tables that the change does not touch are not judged again.

A plant changes one table of a run that has several, and most of the trial's time goes into judging tables. What a checker says of a table
depends on nothing but its unit (:mod:`checkers.unit`), so of an equal unit it says the same. What it says of the run is still put together
from all tables.
"""

from __future__ import annotations

from checkers.evidence.evidence import Evidence
from checkers.unit import Part, TableChecker, units
from checkers.verdict import Checker, Verdict

PARTS = "parts"
"""Key of what checkers say of a good run's tables, in what is known of its evidence."""


def check(checker: Checker, changed: Evidence, good: Evidence) -> Verdict:
    """What ``checker.check(changed)`` says, given the run before the change."""
    if not isinstance(checker, TableChecker):
        return checker.check(changed)
    same, good_parts = unchanged(changed, good), _parts_of(checker, good)
    parts: list[Part | None] = []
    for unit in units(changed):
        if unit.name not in same:
            parts.append(checker.part(unit))
            continue
        if unit.name not in good_parts:
            good_parts[unit.name] = checker.part(unit)
        parts.append(good_parts[unit.name])
    return checker.fold([p for p in parts if p is not None])


def unchanged(changed: Evidence, good: Evidence) -> frozenset[str]:
    """The tables whose units are as they were: all that a unit is made of is, and most of it is the same object.

    After a change of the history there are none: a unit has all operations of the run.
    """
    if changed.history is not good.history or (changed.complete, changed.proxied) != (good.complete, good.proxied):
        return frozenset()
    by_table = ("tables", "swaps", "accepted", "carried", "labels")
    return frozenset(
        name
        for name, log in changed.logs.items()
        if log is good.logs.get(name)
        and all(getattr(changed, field).get(name) == getattr(good, field).get(name) for field in by_table)
    )


def _parts_of(checker: Checker, good: Evidence) -> dict[str, Part | None]:
    """What a checker has said of a good run's tables. Copies of a checker, which may have other settings, are kept apart."""
    kept: list[tuple[Checker, dict[str, Part | None]]] = good.known.setdefault(PARTS, [])
    found = next((parts for known_checker, parts in kept if known_checker is checker), None)
    if found is None:
        found = {}
        kept.append((checker, found))
    return found
