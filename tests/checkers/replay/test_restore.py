"""RESTORE: a new version with the rows of an earlier one. Its meaning follows from the version that its result names."""

from __future__ import annotations

import pytest

from checkers.judge.check import check
from checkers.replay import Replay
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.simulator import OF_DELTA, Defects, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import DELTA, TableSpec

REPLAY = Replay()


def restored(*, to: int | None, back: list[int]) -> Drawing:
    """A adds 1, B adds 2, C updates 1; then a RESTORE leaves the rows with the ids ``back`` as A and B made them.

    ``to``: the version that its result names, by number from 1; None: it has no answer.
    """
    d = Drawing()
    made = [d.did("a", "insert", ids=[1], add=[row(1, "a")]), d.did("b", "insert", ids=[2], add=[row(2, "b")])]
    newer = row(1, "a", cnt=1)
    made.append(d.did("c", "update-counter", ids=[1], remove=[row(1, "a")], add=[newer]))
    before, after = [row(2, "b"), newer], [row(i, "ab"[i - 1]) for i in back]
    d.invoke("r", "restore", back=2)
    d.commit("r", remove=[r for r in before if r not in after], add=[r for r in after if r not in before])
    if to is None:
        d.info("r")
    else:
        d.ok("r", {"snapshot": made[to - 1], "rows": [[0] * 6]})
    return d


@pytest.mark.parametrize(("to", "back"), [(1, [1]), (2, [1, 2])])
def test_a_restore_leaves_the_rows_of_the_version_that_it_names(to: int, back: list[int]) -> None:
    e = restored(to=to, back=back).evidence()
    assert names(REPLAY, e) == []
    assert check(e).valid is True


def test_a_restore_that_leaves_other_rows_is_wrong() -> None:
    said = verdict(REPLAY, restored(to=1, back=[1, 2]).evidence())
    assert [(a.name, a.ops) for a in said.anomalies] == [("wrong-rows", ("r",))]


def test_what_a_restore_without_an_answer_means_is_unknown() -> None:
    said = verdict(REPLAY, restored(to=None, back=[1]).evidence())
    assert (said.valid, said.anomalies) == ("unknown", ())


def test_the_mix_of_delta_has_every_kind_that_only_delta_tables_have() -> None:
    assert {k for k, kind in KINDS.items() if kind.formats == {DELTA}} <= {*OF_DELTA}


@pytest.mark.parametrize("seed", range(40))
def test_a_clean_run_with_all_kinds_of_delta_is_never_false(seed: int) -> None:
    e = simulate(seed, [TableSpec(name="t")], ops=15, unknown=0.03, mix=OF_DELTA).evidence()
    said = check(e)
    assert said.valid is not False, [a.explanation for v in said.verdicts for a in v.anomalies]


def test_a_clean_run_whose_restores_are_all_answered_is_valid() -> None:
    for seed in range(20):
        e = simulate(seed, [TableSpec(name="t")], ops=15, unknown=0, mix=OF_DELTA).evidence()
        wrong = [(v.checker, v.notes) for v in check(e).verdicts if v.valid is not True]
        assert not wrong, seed


def test_a_version_that_was_not_asked_for_is_found() -> None:
    found = injected = 0
    for seed in range(30):
        run = simulate(seed, [TableSpec(name="t")], ops=25, unknown=0, mix=OF_DELTA, defects=Defects(wrong_restore=0.5))
        guilty = {op for _, op in run.injected}
        accused = {a.ops[0] for a in verdict(REPLAY, run.evidence()).anomalies}
        assert accused <= guilty
        injected, found = injected + len(guilty), found + len(accused)
    assert injected == found > 10
