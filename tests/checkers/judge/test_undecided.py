"""An undecided verdict that an expected anomaly explains does not count against a scenario."""

import pytest

from checkers.judge.undecided import left_open_by
from checkers.verdict import Anomaly, Verdict


def isolation(*unexplained: str, notes: int = 1) -> Verdict:
    tables = {"t": {"unexplained_ops": list(unexplained)}}
    return Verdict("isolation", "unknown", (), {"tables": tables}, tuple(f"t: note {n}" for n in range(notes)))


@pytest.mark.parametrize(
    ("verdict", "name", "table", "open_by"),
    [
        (isolation("w0-1"), "resurrected-row", "t", True),
        (isolation("w0-1", "w0-2"), "resurrected-row", "t", False),  # w0-2 is nobody's
        (isolation("w0-2", "w1-2"), "checkpoint-unlike", "t", True),  # the readers of a table with two histories
        (isolation("w0-2"), "checkpoint-unlike", "u", False),
        (isolation("w0-1", notes=2), "resurrected-row", "t", False),  # something else is open, too
        (Verdict("reads", "unknown", notes=("t: a note",)), "resurrected-row", "t", False),
    ],
)
def test_isolation_is_left_open_by_what_is_expected_of_its_operations(
    verdict: Verdict, name: str, table: str, open_by: bool
) -> None:
    found = Anomaly(name, "x", table, "it says so", ("w0-1",))
    assert left_open_by(verdict, [found]) is open_by
