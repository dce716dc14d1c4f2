"""Names of side tables: drawn histories, and an oracle that tries every order of small ones."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.linearizable import Linearizable
from harness.writers import side_tables as written
from tests.support.drawing import Drawing
from workloads.operations import side_tables as kinds_of_side_tables

Story = str
"""Events, separated by commas: ``a create 0`` is an operation, ``a( create 0`` and ``a)`` are its two ends. ``> x y``: its result.

``> -``: no table; ``…``: older appends are not listed. ``!``: it is refused; ``?``: nobody knows.
"""


def evidence(story: Story) -> Any:
    d = Drawing()
    for event in story.split(","):
        said, _, result = event.partition(">")
        (op, *words) = said.split()
        end = words.pop() if words and words[-1] in "!?" else ""
        if words:
            numbers: dict[str, Any] = dict(zip(("n", "to"), map(int, words[1:]), strict=False))
            d.invoke(op.strip("()"), f"side-{words[0]}", **numbers)
        if op.endswith("("):
            continue
        op = op.strip("()")
        seen = [None if word == "…" else word for word in result.split()]
        rows: Any = None if not seen else [seen] if seen != ["-"] else []
        if end == "":
            d.ok(op, rows)
        else:
            {"!": d.fail, "?": d.info}[end](op)
    return d.evidence()


def found(story: Story) -> list[tuple[str, ...]]:
    verdict = Linearizable().check(evidence(story))
    assert verdict.valid is (not verdict.anomalies), verdict.notes
    return [a.ops for a in verdict.anomalies]


@pytest.mark.parametrize(
    "story",
    [
        "r read 0 > -, a create 0, s read 0 > a, b append 0 > a, t read 0 > a b, c drop 0, u read 0 > -",
        "a create 0, b rename 0 1, r read 0 > -, s read 1 > a",
        "a create 0, b append 0 > a, c rename 0 1, d create 0, r read 0 > d, s read 1 > a b",
        "a create 0, b drop 0, c drop 0, d create 0, r read 0 > d",  # Spark acknowledges the second DROP, too
        "a create 0, b create 0 !, r read 0 > a",
        "a( create 0, b create 0, r read 0 > b, a) !",
        "a create 0, b append 0 ?, r read 0 > a, s read 0 > a b",
        "a create 0, b append 0 !, r read 0 > a b",  # sent again, and refused because of itself
        "a create 0, b( append 0, c drop 0, d create 0, b) !, r read 0 > d",
        "a create 0, b( append 0, c drop 0, b) > a, r read 0 > -",  # it may have come before the drop
        "a create 0, b drop 0 ?, r read 0 > a, s read 0 > -, c create 0, t read 0 > c",
        "a create 0, b append 0 > a, c append 0 > a, r read 0 > a c b, s read 0 > a c …",  # the catalog lists one snapshot
        "a create 0, b( rename 0 1, c( append 0, c) > a, b), r read 1 > a c",
    ],
)
def test_what_has_an_order_is_no_anomaly(story: Story) -> None:
    assert found(story) == []


@pytest.mark.parametrize(
    ("story", "op"),
    [
        ("a create 0, b create 0", "b"),  # one name twice
        ("a create 0, r read 0 > -", "r"),  # the table is gone
        ("a create 0, b drop 0, r read 0 > a", "r"),  # it comes back
        ("a create 0, b append 0 > a, r read 0 > a", "r"),  # a lost append
        ("a create 0, b append 0 > a, r read 0 > a b b", "r"),  # made twice
        ("a create 0, b append 0 > a, c append 0 > a, r read 0 > a b …", "r"),  # lost, if all are listed or not
        ("a create 0, b append 0 > a, r read 0 > a b …", "r"),  # and what was before it?
        ("a create 0, b append 0 > a, c append 0 > a, r read 0 > a b c", "r"),  # in the wrong order
        ("a create 0, b drop 0, c append 0 > a", "c"),  # a commit to a dropped table is acknowledged
        ("a create 0, b( append 0, c drop 0, d create 0, b) > a, r read 0 > d b", "r"),  # it lands in the new table
        ("a create 0, b append 0 > a, c rename 0 1, r read 1 > a", "r"),  # the rename loses it
        ("a create 0, c rename 0 1, r read 0 > a", "r"),  # two names
        ("a create 0, b create 1, c rename 0 1, r read 1 > a", "c"),  # over another table
        ("r rename 0 1", "r"),
        ("a create 0, b append 0 !, r read 0 > a, s read 0 > a b", "s"),  # it was refused long before
    ],
)
def test_what_has_none_is_found_at_the_first_answer_that_nothing_explains(story: Story, op: str) -> None:
    assert [ops[0] for ops in found(story)] == [op]


def test_a_result_of_another_form_is_not_judged() -> None:
    d = Drawing()
    d.invoke("a", "side-create", n=0)
    d.ok("a")
    d.invoke("r", "side-read", n=0)
    d.ok("r", "t")
    verdict = Linearizable().check(d.evidence())
    assert verdict.valid == "unknown" and "another form" in " ".join(verdict.notes)


class Op(NamedTuple):
    """An operation of the oracle; ``end``: ok, refused or unknown."""

    op: str
    f: str
    n: int
    to: int
    result: Any
    start: int
    answer: int
    end: str


def step(tables: dict[int, tuple[str, ...]], o: Op) -> bool:
    """Carry out an operation; whether it can have had its answer."""
    if o.f == "read":
        there = tables.get(o.n, ())
        return there == o.result or (
            None in o.result and len(there) >= len(o.result) and there[: len(o.result) - 1] == o.result[:-1]
        )
    if o.f == "drop":
        tables.pop(o.n, None)
        return True
    if o.f == "create":
        return o.n not in tables and tables.setdefault(o.n, (o.op,)) == (o.op,)
    if o.n not in tables or (o.f == "rename" and o.to in tables):
        return False
    if o.f == "rename":
        tables[o.to] = tables.pop(o.n)
        return True
    if o.end == "ok" and tables[o.n][0] != o.result[0]:
        return False
    tables[o.n] = (tables[o.n][0], o.op, *tables[o.n][1:])
    return True


def has_order(ops: list[Op]) -> bool:
    """Whether any order of those that took effect, in real time, explains them."""
    sure = [o for o in ops if o.end == "ok"]
    maybe = [o for o in ops if o.end != "ok" and o.f != "read"]
    for k in range(len(maybe) + 1):
        for some in combinations(maybe, k):
            for order in permutations([*sure, *some]):
                late = any(
                    b.end != "unknown" and b.answer < a.start for i, a in enumerate(order) for b in order[i + 1 :]
                )
                tables: dict[int, tuple[str, ...]] = {}
                if not late and all(step(tables, o) for o in order):
                    return True
    return False


def drawn(rng: Random) -> list[Op]:
    """Up to five operations that overlap, carried out in some order; now and then one answer is another's."""
    count = rng.randint(2, 5)
    places = sorted(rng.sample(range(40), 2 * count))
    rng.shuffle(places)
    spans = [sorted(places[2 * i : 2 * i + 2]) for i in range(count)]
    spans.sort(key=lambda s: rng.uniform(*s))
    tables: dict[int, tuple[str, ...]] = {}
    ops = []
    for i, (start, answer) in enumerate(spans):
        f = rng.choice(["create", "create", "drop", "rename", "append", "append", "read", "read"])
        n = rng.randrange(2)
        before = dict(tables)
        result: tuple[str | None, ...] = tables.get(n, ()) if f == "read" else tables.get(n, ("none",))[:1]
        if f == "read" and len(result) > 2 and rng.random() < 0.5:
            result = (*result[: rng.randint(2, len(result) - 1)], None)
        o = Op(f"o{i}", f, n, 1 - n, result, start, answer, "ok")
        if not step(tables, o):
            tables, o = before, o._replace(end="refused")
        if rng.random() < 0.15:
            o = o._replace(end="unknown")
        if rng.random() < 0.3 and o.f == "read":
            o = o._replace(result=rng.choice([(), ("o0",), ("o0", "o1"), ("o1",)]))
        if rng.random() < 0.25 and o.end == "ok" and o.f != "read":
            tables = before  # acknowledged and not made
        ops.append(o)
    return ops


def told(ops: list[Op]) -> Story:
    events = []
    for o in ops:
        numbers = f"{o.n} {o.to}" if o.f == "rename" else f"{o.n}"
        result = (
            f" > {' '.join(x or '…' for x in o.result) or '-'}" if o.f in ("read", "append") and o.end == "ok" else ""
        )
        events.append((o.start, f"{o.op}( {o.f} {numbers}"))
        events.append((o.answer, f"{o.op}) {({'ok': '', 'refused': '!', 'unknown': '?'})[o.end]}{result}"))
    return ", ".join(text for _, text in sorted(events))


@given(st.integers(0, 1 << 32))
def test_as_an_oracle_that_tries_every_order(seed: int) -> None:
    ops = drawn(Random(seed))
    assert (not found(told(ops))) is has_order(ops), told(ops)


def test_the_oracle_meets_both() -> None:
    said = [has_order(drawn(Random(seed))) for seed in range(300)]
    assert 30 < said.count(False) < 270


def test_the_property_that_names_a_tables_creator_is_written_and_read_by_one_name() -> None:
    """A writer's side imports nothing of the kinds, so each has the name."""
    assert written.CREATED_BY == kinds_of_side_tables.CREATED_BY
