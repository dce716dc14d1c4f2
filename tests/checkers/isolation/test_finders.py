"""Each finder of isolation, called alone on a drawn history: what it finds there, and a history beside it in which there is nothing."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from checkers.isolation import listcases, register
from checkers.isolation.blackbox import WORKLOADS
from checkers.isolation.cycles import cycle_cases, explain_cycle, find_cycles
from checkers.isolation.explanation import SENTENCES, Case, explained
from checkers.isolation.levels import CYCLES, VARIANTS
from checkers.isolation.observed import TransactionHistory
from checkers.isolation.visibility import atomicity_cases, session_cases, session_causality_cases
from checkers.names import meaning
from tests.support.examples import PAGE
from tests.support.transactions import draw

Finder = Callable[[Any], Iterable[Case]]

# finder: (name, a history with one, the transactions of the case, a history without)
LISTS: list[tuple[Finder, str, Sequence[str], list[str], Sequence[str]]] = [
    (listcases.future_read_cases, "future-read", ("rx1 ax1",), ["T1"], ("ax1 rx1",)),
    (listcases.internal_cases, "internal", ("ax1", "ax2 rx1"), ["T2"], ("ax1", "ax2 rx12")),
    (listcases.duplicate_cases, "duplicate-elements", ("ax1", "rx11"), ["T2"], ("ax1", "rx1")),
    (
        listcases.incompatible_order_cases,
        "incompatible-order",
        ("ax1", "ax2", "rx12", "rx21"),
        ["T4", "T3"],
        ("ax1", "ax2", "rx12", "rx1"),
    ),
    (listcases.garbage_read_cases, "garbage-read", ("ax1", "rx19"), ["T2"], ("ax1", "rx1")),
    (listcases.g1a_cases, "G1a", ("! ax1", "rx1"), ["T2", "T1"], ("? ax1", "rx1")),
    (listcases.dirty_update_cases, "dirty-update", ("! ax1", "ax2", "rx12"), ["T2", "T1"], ("! ax1", "ax2", "rx21")),
    (listcases.g1b_cases, "G1b", ("ax1 ax2", "rx1", "rx12"), ["T2", "T1"], ("ax1 ax2", "rx12")),
    (
        listcases.lost_update_cases,
        "lost-update",
        ("rx ax1", "rx ax2", "rx12"),
        ["T1", "T2"],
        ("rx ax1", "rx1 ax2", "rx12"),
    ),
    (atomicity_cases, "fractured-read", ("ax1 ay1", "rx1 ry"), ["T2", "T1"], ("ax1 ay1", "rx1 ry1")),
    (atomicity_cases, "causality", ("ax1", "rx1 ay1", "ry1 rx"), ["T3", "T2", "T1"], ("ax1", "rx1 ay1", "ry1 rx1")),
    (
        session_cases,
        "non-monotonic-read",
        ("0 0-9 ax1", "1 1-2 rx1", "1 3-4 rx"),
        ["T3", "T2"],
        ("0 0-9 ax1", "1 1-2 rx", "1 3-4 rx1"),
    ),
    (session_cases, "read-your-writes", ("0 0-1 ax1", "0 2-3 rx"), ["T2", "T1"], ("0 0-1 ax1", "1 2-3 rx")),
    (
        session_cases,
        "non-monotonic-write",
        ("0 0-1 ax1", "0 2-3 ax2", "1 0-9 rx21"),
        ["T2", "T1"],
        ("0 0-1 ax1", "1 2-3 ax2", "2 0-9 rx21"),
    ),
    (
        session_cases,
        "writes-follow-reads",
        ("1 0-9 ax1", "0 0-1 rx21", "0 2-3 ax2"),
        ["T3", "T2"],
        ("1 0-9 ax1", "0 0-1 rx21", "3 2-3 ax2"),
    ),
    (
        session_causality_cases,
        "session-causality",
        ("0 0-1 ax1", "0 2-3 ay1", "1 4-5 ry1 rx"),
        ["T3", "T2", "T1"],
        ("0 0-1 ax1", "1 2-3 ay1", "2 4-5 ry1 rx"),
    ),
]
REGISTERS: list[tuple[Finder, str, Sequence[str], list[str], Sequence[str]]] = [
    (register.internal_cases, "internal", ("wx1", "wx2 rx1"), ["T2"], ("wx1", "wx2 rx2")),
    (register.garbage_read_cases, "garbage-read", ("wx1", "rx9"), ["T2"], ("wx1", "rx")),
    (register.future_read_cases, "future-read", ("rx1 wx1",), ["T1"], ("wx1 rx1",)),
    (register.g1a_cases, "G1a", ("! wx1", "rx1"), ["T2", "T1"], ("? wx1", "rx1")),
    (register.g1b_cases, "G1b", ("wx1 wx2", "rx1"), ["T2", "T1"], ("wx1 wx2", "rx2")),
    (register.lost_update_cases, "lost-update", ("rx wx1", "rx wx2"), ["T1", "T2"], ("rx wx1", "rx1 wx2")),
    (atomicity_cases, "fractured-read", ("wx1 wy1", "rx1 ry"), ["T2", "T1"], ("wx1 wy1", "rx1 ry1")),
    (session_cases, "read-your-writes", ("0 0-1 wx1", "0 2-3 rx"), ["T2", "T1"], ("0 0-1 wx1", "0 2-3 rx1")),
    (
        session_causality_cases,
        "session-causality",
        ("0 0-1 wx1", "0 2-3 wx2", "0 4-5 wy1", "1 6-7 ry1 rx1"),
        ["T4", "T3", "T2"],
        ("0 0-1 wx1", "1 2-3 wx2", "1 4-5 wy1", "1 6-7 ry1 rx1"),
    ),
]
CASES = [("list-append", *row) for row in LISTS] + [("rw-register", *row) for row in REGISTERS]


def history(workload: str, lines: Sequence[str]) -> TransactionHistory:
    read, _ = WORKLOADS[workload]
    return read(draw(*lines))


@pytest.mark.parametrize(
    ("workload", "finder", "name", "lines", "who", "clean"), CASES, ids=[f"{c[0]} {c[2]}" for c in CASES]
)
def test_a_finder_returns_the_evidence_of_its_anomaly_and_nothing_where_there_is_none(
    workload: str, finder: Finder, name: str, lines: Sequence[str], who: list[str], clean: Sequence[str]
) -> None:
    there = history(workload, lines)
    before = repr(there)
    (case,) = finder(there)
    assert (case.name, [t.id for t in case.transactions]) == (name, who)
    finding = explained(case, workload)
    assert (finding.name, list(finding.transactions)) == (name, who)
    assert who[0] in finding.explanation
    assert [*finder(there)] == [case] and repr(there) == before, "a finder changes nothing"
    assert [*finder(history(workload, clean))] == []


def test_every_finder_and_every_sentence_is_tried_here() -> None:
    tried = {(workload, finder) for workload, finder, *_ in CASES}
    assert {(w, f) for w, (_, finders) in WORKLOADS.items() for f in finders} <= tried
    assert {name for _, _, name, *_ in CASES} == {name for sentences in SENTENCES.values() for name in sentences}


# sort of cycle: (a history with one, its transactions, a history without)
DRAWN_CYCLES: dict[str, tuple[Sequence[str], set[str], Sequence[str]]] = {
    "G0": (("ax1 ay1", "ax2 ay2", "rx12 ry21"), {"T1", "T2"}, ("ax1 ay1", "ax2 ay2", "rx12 ry12")),
    "G1c": (("ax1 ry1", "ay1 rx1"), {"T1", "T2"}, ("ax1 ry", "ay1 rx1")),
    "G-single": (("ax1 ay1", "rx1 ry"), {"T1", "T2"}, ("ax1 ay1", "rx1 ry1")),
    "G-nonadjacent": (
        ("ax1", "ay1", "rx1 ry", "rx ry1"),
        {"T1", "T2", "T3", "T4"},
        ("ax1", "ay1", "rx1 ry", "rx1 ry1"),
    ),
    "G2-item": (("rx ay1", "ry ax1"), {"T1", "T2"}, ("rx ay1", "ry1 ax1")),
    "G-single-realtime": (("0 0-1 ax1", "1 2-3 rx"), {"T1", "T2"}, ("0 0-9 ax1", "1 2-3 rx")),
    "G-single-process": (("0 0-1 ax1", "0 2-3 rx"), {"T1", "T2"}, ("0 0-1 ax1", "1 2-3 rx")),
}
# The examples that `icequake explain` has of the names with a suffix (checkers.names._EXAMPLES), drawn.
DRAWN_EXAMPLES: dict[str, Sequence[str]] = {
    "G0-process": ("0 0-1 ax1", "0 2-3 ax2", "1 0-9 rx21"),
    "G0-realtime": ("0 0-1 ax1", "1 2-3 ax2", "2 0-9 rx21"),
    "G1c-process": ("0 0-1 rx1", "0 2-3 ax1"),
    "G1c-realtime": ("0 0-1 rx1", "1 2-3 ax1"),
    "G-single-process": ("0 0-1 ax1", "0 2-3 rx"),
    "G-single-realtime": ("0 0-1 ax1", "1 2-3 rx"),
    "G-nonadjacent-process": ("0 0-9 ax1", "1 0-9 rx1 ry", "2 0-1 ay1", "2 2-3 rx"),
    "G-nonadjacent-realtime": ("0 0-9 ax1", "1 0-9 rx1 ry", "2 0-1 ay1", "3 2-3 rx"),
    "G2-item-process": ("0 0-1 ay1", "0 2-3 rx", "1 0-9 ry ax1"),
    "G2-item-realtime": ("0 0-1 ay1", "1 2-3 rx", "2 0-9 ry ax1"),
}


@pytest.mark.parametrize("name", DRAWN_EXAMPLES)
def test_a_name_with_a_suffix_has_an_example_of_its_own_that_needs_it(name: str) -> None:
    told, base = meaning(name), meaning(name.rpartition("-")[0])
    assert told is not None and base is not None
    assert told.example and told.example != base.example
    there = history("list-append", DRAWN_EXAMPLES[name])
    found = {found for found, _ in find_cycles(there.graph)}
    assert name in found and found <= {name, name.replace("-process", "-realtime")}


def test_every_name_with_the_suffix_of_an_order_has_an_example_of_its_own() -> None:
    names = [f"{cycle}{suffix}" for cycle in CYCLES for suffix in VARIANTS[1:]]
    examples = {m.example for name in names if (m := meaning(name)) is not None}
    plain = {m.example for name in CYCLES if (m := meaning(name)) is not None}
    assert len(examples) == len(names) and not examples & plain


@pytest.mark.parametrize("name", DRAWN_CYCLES)
def test_the_cycles_of_a_sort_are_found_alone(name: str) -> None:
    lines, who, clean = DRAWN_CYCLES[name]
    there = history("list-append", lines)
    (cycle,) = cycle_cases(there.graph, name)
    finding = explain_cycle(cycle, there.id, there.show, there.why)
    assert (finding.name, set(finding.transactions)) == (name, who)
    assert cycle_cases(history("list-append", clean).graph, name) == []


def test_a_worse_cycle_is_also_one_of_the_sorts_that_it_implies() -> None:
    graph = history("list-append", DRAWN_CYCLES["G-single"][0]).graph
    assert [name for name in CYCLES if not cycle_cases(graph, name)] == ["G0", "G1c"]


@pytest.mark.parametrize(
    "text", [PAGE.read_text(encoding="utf-8"), listcases.__doc__ or ""], ids=["docs/extending.md", "listcases"]
)
def test_the_examples_in_the_documents_answer_as_they_say(text: str) -> None:
    shown = re.search(r"```pycon\n(.*?)```", text, re.DOTALL)
    source = shown[1] if shown else text
    test = doctest.DocTestParser().get_doctest(source, dict(vars(listcases)), "example", None, 0)
    assert len(test.examples) > 3
    assert doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE).run(test).failed == 0
