"""What became of an acknowledged write: the table is whole, and drawn writes have the fate that it says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from checkers.commits.fate import FATES, AcknowledgedWrite, Fate, fate
from checkers.timeline.timelines import timelines
from tests.support.drawing import Drawing, row


@pytest.mark.parametrize(("dropped", "on_main", "dml"), [*product((False, True), repeat=3)])
def test_every_write_has_a_fate_whatever_else_holds(dropped: bool, on_main: bool, dml: bool) -> None:
    fits = [r for r in FATES if all(x in (None, fact) for x, fact in zip(r[:3], (dropped, on_main, dml), strict=True))]
    assert any(besides is None for *_, besides, _ in fits)


def test_no_row_of_the_table_is_hidden_by_one_above_it() -> None:
    for n, (*wanted, _, _) in enumerate(FATES):
        for *above, besides, found in FATES[:n]:
            wider = all(x is None or x == y for x, y in zip(above, wanted, strict=True))
            assert besides is not None or not wider, (found, wanted)


def on_main(d: Drawing) -> None:
    d.did("w", "update-register", ids=[1], remove=[row(1, "seed")], add=[row(1, "seed")._replace(val="w")])


def dropped(d: Drawing) -> None:
    at = d.main
    on_main(d)
    d.set_main(at)


def rolled_back(d: Drawing) -> None:
    at = d.main
    on_main(d)
    made = d.main
    d.invoke("r", "rollback", back=1)
    d.set_main(at)
    d.ok("r", {"snapshot": at, "rows": [[made, at]]})


def never_seen(d: Drawing) -> None:
    d.invoke("w", "update-register", ids=[1])
    d.ok("w")


def nothing_to_change(d: Drawing) -> None:
    d.invoke("w", "delete", ids=[99])
    d.ok("w")


def twice_of_which_one_is_dropped(d: Drawing) -> None:
    at = d.main
    new = row(1, "seed")._replace(val="w")
    d.did("w", "update-register", ids=[1], remove=[row(1, "seed")], add=[new])
    d.set_main(at)
    d.commit("w", remove=[row(1, "seed")], add=[new])


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        (on_main, Fate.KEPT),
        (dropped, Fate.DROPPED),
        (rolled_back, Fate.ROLLED_BACK),
        (never_seen, Fate.NEVER_SEEN),
        (nothing_to_change, Fate.LEFT_NONE),
        (twice_of_which_one_is_dropped, Fate.KEPT),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_drawn_write_has_its_fate(drawn: Callable[[Drawing], None], expected: Fate) -> None:
    d = Drawing()
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    drawn(d)
    (t,), _ = timelines(d.evidence())
    assert fate(AcknowledgedWrite(t, t.everything["w"])) is expected
