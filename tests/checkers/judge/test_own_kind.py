"""The example kind of ``docs/extending.md`` before every checker: clean runs are clean, and bugs planted in it are found by their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.columns import Unordinary, check_columns, frame_of
from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder, save_kinds
from checkers.isolation import Isolation
from checkers.isolation.objects import scanned
from checkers.judge.check import check
from checkers.judge.minimal import minimal
from checkers.judge.runfolder import load_evidence
from checkers.linearizable import Linearizable
from checkers.replay.walk import Replay
from checkers.timeline.timelines import timelines
from tests.checkers.judge.test_check import stored
from tests.support.drawing import Drawing, names, row, verdict
from tests.support.examples import kinds_of_its_own, write_example
from tests.support.simulator import MIX, Defects, simulate
from workloads.file import own_kinds
from workloads.operations import kinds
from workloads.operations.kind import Arguments, Touches
from workloads.operations.kinds import KINDS, register
from workloads.operations.reads import ReadKey
from workloads.operations.updates import UpdateRegister
from workloads.tables import Row, TableSpec

HEAVY = {**MIX, "multiply": 12.0}


@pytest.fixture(autouse=True, scope="module")
def multiply(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("own")
    write_example("my_kind.py", folder)
    with kinds_of_its_own():
        own_kinds.load("my_kind:Multiply", folder)
        yield


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_run_with_it_is_clean_and_judged_by_both_engines(seed: int, isolation: Any) -> None:
    spec = TableSpec(name="t", isolation=isolation, partitions=2, seed_rows=4, mode="merge-on-read", format_version=3)
    run = simulate(seed, [spec], writers=3, ops=12, mix=HEAVY)
    e = run.evidence()
    assert any(
        c.op and next(o.f for o in run.history.operations() if o.op == c.op) == "multiply" for c in e.logs["t"].commits
    )
    results = check(e, engine="exact")
    wrong = {v.checker: [*(a.name for a in v.anomalies), *v.notes] for v in results.verdicts if v.valid is not True}
    assert not wrong or isolation == "snapshot", wrong
    assert not any(v.anomalies for v in results.verdicts), wrong
    (t,) = timelines(e)[0]
    with pytest.raises(Unordinary, match="is of the kind multiply, and columns do not know what it means"):
        frame_of(t)
    assert [v.valid for v in check_columns(e)] == [v.valid for v in results.verdicts[:4]]


def seeded(isolation: Any = "serializable") -> tuple[Drawing, Row, Row]:
    d = Drawing(isolation)
    one, two = row(1, "seed"), row(2, "seed")
    d.did("seed", "insert", ids=[1, 2], add=[one, two])
    d.did("c", "update-counter", ids=[1], remove=[one], add=[one._replace(cnt=1)])
    return d, one._replace(cnt=1), two


def lost_update(isolation: Any = "serializable") -> Evidence:
    """The multiplication scanned before the increment, and put what it had made of the old row beside what that had made of it."""
    d, one, _ = seeded(isolation)
    d.invoke("m", "multiply", ids=[1], factor=3)
    d.did("u", "update-counter", ids=[1], remove=[one], add=[one._replace(cnt=2)])
    d.commit("m", add=[one._replace(cnt=3, log="seed,m")])
    d.ok("m")
    d.read("r", [one._replace(cnt=2), one._replace(cnt=3, log="seed,m"), row(2, "seed")])
    return d.evidence()


def missed_row() -> Evidence:
    """It names two ids, and its commit has but one."""
    d, one, two = seeded()
    d.invoke("m", "multiply", ids=[1, 2], factor=3)
    d.commit("m", remove=[one], add=[one._replace(cnt=3, log="seed,m")])
    d.ok("m")
    d.read("r", [one._replace(cnt=3, log="seed,m"), two])
    return d.evidence()


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_a_lost_update_of_it_is_found_by_replay_isolation_and_clients(isolation: Any) -> None:
    e = lost_update(isolation)
    assert names(Replay(), e) == ["duplicate-row"]
    assert "m" in verdict(Replay(), e).anomalies[0].ops
    (found,) = verdict(Isolation(), e).anomalies
    assert {"m", "u"} <= set(found.ops) and found.keys == (1,)
    assert names(Linearizable(), e) == ["nonlinearizable"]


def test_a_row_that_its_commit_misses_is_found_by_replay_and_clients() -> None:
    e = missed_row()
    (found,) = verdict(Replay(), e).anomalies
    assert found.name == "wrong-rows" and found.ops[0] == "m"
    assert names(Linearizable(), e) == ["nonlinearizable"]


def test_its_minimal_history_is_of_its_ids() -> None:
    e = lost_update()
    (found,) = verdict(Replay(), e).anomalies
    least = minimal(e, Replay(), found)
    assert least is not None and least.complete and least.ids == (1,)
    assert {"m", "u"} <= set(least.ops) and "r" not in least.ops


def test_isolation_knows_what_it_scanned() -> None:
    (t,) = timelines(lost_update())[0]
    m = next(o for o in t.ops if o.op == "m")
    assert scanned(m, t.spec) == [("id", 1)]


def test_lost_updates_of_a_simulated_store_are_found() -> None:
    """A table that does not refuse updates of rows that were changed since: some of what it lets through is a multiplication's."""
    spec = TableSpec(name="t", isolation="snapshot", partitions=2, seed_rows=3, mode="merge-on-read")
    accused: set[str] = set()
    for seed in range(8):
        run = simulate(
            seed,
            [spec],
            writers=4,
            ops=14,
            keys=3,
            mix={"multiply": 3, "update-counter": 2, "read": 1},
            defects=Defects(overwrite=1.0),
        )
        broken = {op for _, op in run.injected}
        kind = {o.op: o.f for o in run.history.operations()}
        for checker in (Replay(), Isolation()):
            ops = {op for a in checker.check(run.evidence()).anomalies for op in a.ops}
            accused |= {checker.name for op in ops & broken if kind[op] == "multiply"}
    assert accused == {"replay", "isolation"}


class Stamp(UpdateRegister):
    """Sets the register and appends to the list: a new kind, of which its facts tell all."""

    name = "stamp"
    by_facts = True
    sets = frozenset({"val", "log"})

    @staticmethod
    def updated(row: Row, op: str) -> Row:
        return row._replace(val=op, log=f"{row.log},{op}")


def test_a_new_kind_whose_facts_tell_all_is_proven_by_columns() -> None:
    spec = TableSpec(name="t", partitions=2, seed_rows=4, mode="merge-on-read")
    with kinds_of_its_own():
        register(Stamp())
        for seed in range(4):
            e = simulate(seed, [spec], writers=3, ops=12, mix={"stamp": 3.0, "insert": 1.0, "read": 2.0}).evidence()
            assert [v.stats["engine"] for v in check_columns(e)] == [{"columns": 1, "exact": 0}] * 4


class ReadTwo(ReadKey):
    """A read that says that it touches two ids: no checker of reads can take it for a read of one."""

    name = "read-two"
    by_facts = True

    def touches(self, value: Arguments, table: TableSpec) -> Touches:
        return Touches((value["id"], value["id"] + 1))


def test_a_read_of_several_ids_is_left_undecided_not_accused() -> None:
    d, one, two = seeded()
    d.invoke("r", "read-two", id=1)
    d.ok("r", [list(one), list(two)])
    with kinds_of_its_own():
        register(ReadTwo())
        results = check(d.evidence(), engine="exact")
    assert not any(v.anomalies for v in results.verdicts)


def test_a_stored_run_that_had_it_is_judged_in_another_place(tmp_path: Path) -> None:
    folder = stored(simulate(1, [TableSpec(name="t", seed_rows=3)], mix=HEAVY), tmp_path / "run")
    run = RunFolder(folder)
    run.write_plan(run.read_plan().model_copy(update={"kinds": save_kinds(run, HEAVY)}))
    here = check(load_evidence(folder))
    with kinds_of_its_own():
        kinds._KINDS.pop("multiply")
        assert check(load_evidence(folder)).to_json() == here.to_json()
        assert "multiply" in KINDS
    assert (folder / "kinds" / "my_kind.py").is_file()
