"""Transactions of two tables: what a server that commits one table after the other loses, and one that commits them together does not."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from checkers.formats.iceberg.model.catalogs import MODEL_CATALOGS
from checkers.formats.iceberg.model.lanes import of_way
from checkers.formats.iceberg.model.logtree import Bound
from checkers.formats.iceberg.model.transactions import HALF, LOST, TABLES, of_transfers, search
from checkers.formats.iceberg.model.ways import Faulty
from workloads.file import modelled
from workloads.file.scenario import parse
from workloads.file.workload import WorkloadError


def faulty(catalog: str, writes: int = 3, faults: int = 1) -> Faulty:
    bound = Bound((("transfer", ""), ("insert", "")), writes, keys=len(TABLES))
    return Faulty(bound, MODEL_CATALOGS[catalog], writers=2, faults=faults)


def test_one_table_after_the_other_leaves_half_a_transfer_or_none_of_it() -> None:
    asked = faulty("rest-transactions")
    found = search(asked)
    words = [(name, [s.words for s in way if "moved" in s.words or s.fault]) for name, _, way in found.mixes]
    moved = [f"commit of {table}, which has moved, of nothing" for table in TABLES]
    assert sorted(words[:4]) == sorted(
        [
            (HALF, ["statement of savings refused, unknown"]),
            (HALF, moved[:1]),
            (HALF, [f"{moved[1]}, acknowledged"]),
            (LOST, [moved[0], f"{moved[1]}, acknowledged"]),
        ]
    )
    assert [name for name, _, _ in found.mixes[4:]] == [HALF, LOST], "two transfers do it to each other"
    assert found.began["transfer"] and found.began["insert"] and found.faults["statement refused"]


@pytest.mark.parametrize("faults", [0, 1])
def test_together_they_are_in_both_tables_or_in_none(faults: int) -> None:
    found = search(faulty("ideal-transactions", writes=4, faults=faults))
    assert not found.found
    assert found.fired["both tables applied, acknowledged"] and found.fired["refused by its requirements"]


def by_hand(order: tuple[str, ...]) -> str | None:
    """What becomes of a transfer whose server takes its three steps in this order among the inserts of others."""
    moved, there = set[str](), 0
    checked = False
    for step in order:
        if step == "check":
            if moved:
                return None  # refused
            checked = True
        elif step in TABLES:
            there += step not in moved
        else:
            moved.add(step.removeprefix("insert "))
    assert checked
    return {0: LOST, 1: HALF, 2: None}[there]


def test_each_order_of_one_transfer_and_two_inserts_ends_as_by_hand() -> None:
    """With the scan before everything else, since what comes before it changes nothing."""
    expected = set[str | None]()
    for inserts in product(TABLES, repeat=2):
        steps = ("check", *TABLES, *(f"insert {t}" for t in inserts))
        orders = {o for o in permutations(steps) if o.index("check") < o.index(TABLES[0]) < o.index(TABLES[1])}
        expected |= {by_hand(o) for o in orders}
    assert {*search(faulty("rest-transactions", faults=0)).found} == expected - {None}


def test_what_a_gate_reaches_is_written_as_a_scenario() -> None:
    asked = faulty("rest-transactions")
    texts = [of_transfers(asked, f"t-{n}", name, way) for n, (name, _, way) in enumerate(search(asked).mixes)]
    scenarios = [parse(text) for text, _ in texts if text]
    assert [(s.operations[0].nth, len(s.operations)) for s in scenarios] == [(4, 1), (3, 2), (4, 2), (3, 3)]
    assert [why for text, why in texts if not text] == [
        "it has several transfers, and a scenario has one gate for each operation"
    ] * 2
    assert of_transfers(faulty("ideal-transactions"), "t", HALF, ()) == ("", "no real catalog is like that")


def test_it_is_drawn_as_lanes() -> None:
    asked = faulty("rest-transactions", faults=0)
    name, way = min(search(asked).found.items())
    _, _, lanes = of_way(name, way, asked.operations())
    assert [(lane.f, lane.outcome) for lane in lanes] == [("transfer", "ok"), ("insert", "ok")]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("catalog: rest", "kinds: transfer: write [], and a catalog: with transactions, such as rest-transactions"),
        ("keys: 1", "keys: with catalog: rest-transactions a key is a table, and there are two; write 2"),
        (
            "kinds: {transfer: [], delete: [copy-on-write]}",
            "the model knows transfer and insert; write both, and no other",
        ),
        ("retries: 2", "retries: with catalog: rest-transactions nothing asks for it; leave it out"),
        ("repeats: blindly", "repeats: with catalog: rest-transactions nothing asks for it"),
        ("compactions: 1", "compactions: with catalog: rest-transactions nothing asks for it"),
        ("isolation: snapshot", "isolation: with catalog: rest-transactions nothing asks for it"),
    ],
)
def test_a_file_that_asks_for_something_else_is_refused(change: str, says: str) -> None:
    key = change.partition(":")[0]
    lines = (modelled.LIBRARY / "transactions-rest.yaml").read_text().splitlines()
    text = "\n".join([*(x for x in lines if not x.startswith(f"{key}:")), change])
    with pytest.raises(WorkloadError) as e:
        modelled.parse(text)
    assert says in str(e.value)


def test_a_search_says_how_far_it_is() -> None:
    told: list[tuple[int, int, float]] = []
    found = search(faulty("rest-transactions"), lambda *far: told.append(far))
    states, depths, seconds = zip(*told, strict=True)
    assert list(states) == sorted(states) and states[-1] <= found.states
    assert max(depths) == found.depth and list(seconds) == sorted(seconds)
