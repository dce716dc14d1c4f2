"""When the table log is read: while a run goes on, or only at its end, where the order of the operations is laid down."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from checkers.conflicts.predicted import cells
from checkers.evidence.tablelog import Growth
from compose.install.installation import Installation
from harness.campaign.campaign import JobAttempt
from harness.campaign.stacks import WarmStacks
from harness.experiments.matrix import Matrix
from harness.experiments.prove import prove_once
from harness.run.bench import Bench
from harness.run.errors import RunError
from harness.tablefiles.follower import Follower
from harness.tablefiles.iceberg.reader import ObjectStore, TableReader
from nemesis.proxy.board import Board
from tests.support.runs import Silent
from workloads.file import scenario
from workloads.tables import COLUMNS

ENOUGH = 300.0
"""Seconds after which a test gives up on what never comes."""


@dataclass
class Catalog:
    """A catalog without tables that counts how often it is asked."""

    asked: list[str] = field(default_factory=list)
    thrice: threading.Event = field(default_factory=threading.Event)

    def __call__(self, table: str) -> tuple[None, None]:
        self.asked.append(table)
        if len(self.asked) == 3:
            self.thrice.set()
        return None, None


def follower(catalog: Catalog, path: Path, interval: float | None) -> Follower:
    store = ObjectStore(endpoint="http://127.0.0.1:1", access_key="a", secret_key="b")
    reader = TableReader(store, table="t", identifier="c.n.t", columns=COLUMNS, path=path / "t.jsonl")
    return Follower({"t": reader}, catalog, lambda: 0, interval)


def test_tables_are_read_again_and_again_while_the_run_goes_on(tmp_path: Path) -> None:
    catalog = Catalog()
    with follower(catalog, tmp_path, 0.001):
        assert catalog.thrice.wait(ENOUGH)


def test_without_an_interval_tables_are_read_at_the_end_alone_and_before_an_expiry(tmp_path: Path) -> None:
    catalog = Catalog()
    with follower(catalog, tmp_path, None) as one:
        assert one.secure("t") is None
        assert catalog.asked == ["t"]
        one.finish()
    assert catalog.asked == ["t", "t"] and one.errors == []


def test_what_captures_add_is_passed_on_also_what_the_last_one_adds(tmp_path: Path) -> None:
    told: list[Growth] = []
    times = iter(range(1, 10))
    store = ObjectStore(endpoint="http://127.0.0.1:1", access_key="a", secret_key="b")
    reader = TableReader(store, table="t", identifier="c.n.t", columns=COLUMNS, path=tmp_path / "t.jsonl")
    one = Follower({"t": reader}, Catalog(), lambda: next(times), None, told.append)
    one.capture("t")
    one.capture("t")
    logs = one.finish()
    assert [[c.time for c in g.captures] for g in told] == [[1], [2], [3]]
    assert tuple(c for g in told for c in g.captures) == logs["t"].captures


@dataclass
class Signalling:
    """A catalog without tables that says who was asked, and can fail the first time."""

    fails: bool = False
    asked: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)

    def __call__(self, table: str) -> tuple[None, None]:
        self.asked.put(table)
        if self.fails:
            self.fails = False
            raise OSError("refused")
        return None, None


def test_a_table_is_read_at_its_first_acknowledged_commit_and_not_at_every_one(tmp_path: Path) -> None:
    catalog = Signalling()
    with follower(cast(Catalog, catalog), tmp_path, 3600.0) as one:
        for _ in range(3):
            one.committed("t")
        assert catalog.asked.get(timeout=ENOUGH) == "t"
    assert catalog.asked.empty() and one.errors == []


def test_a_first_capture_that_failed_is_made_up_for_at_the_next_commit(tmp_path: Path) -> None:
    catalog, noted = Signalling(fails=True), threading.Event()

    class Begun(set[str]):
        def discard(self, table: object) -> None:
            super().discard(str(table))
            noted.set()

    with follower(cast(Catalog, catalog), tmp_path, 3600.0) as one:
        one._begun = Begun()
        one.committed("t")
        assert catalog.asked.get(timeout=ENOUGH) == "t"
        assert noted.wait(ENOUGH)
        one.committed("t")
        assert catalog.asked.get(timeout=ENOUGH) == "t"
    assert one.errors == ["t: OSError: refused"]


def test_ctrl_c_reads_every_table_once_more(tmp_path: Path) -> None:
    catalog = Catalog()
    with pytest.raises(KeyboardInterrupt), follower(catalog, tmp_path, 3600.0):
        raise KeyboardInterrupt
    assert catalog.asked == ["t"]


def test_a_script_s_commits_are_not_captured_while_it_goes_on(tmp_path: Path) -> None:
    catalog = Catalog()
    with follower(catalog, tmp_path, None) as one:
        one.committed("t")
    assert catalog.asked == []


@dataclass
class Asked:
    """Notes how the runs of a script were asked for; there is no cluster, so none begins."""

    how: list[dict[str, Any]] = field(default_factory=list)

    @dataclass(frozen=True)
    class Group:
        board: Board = field(default_factory=Board)

    groups: tuple[Group, ...] = (Group(),)
    secrets: tuple[str, ...] = ()

    def run(self, *_: object, **how: Any) -> None:
        self.how.append(how)
        raise RunError("no cluster")


def a_scenario(bench: Bench, folder: Path) -> None:
    (one,) = scenario.find(["jdbc-replace-table-insert"])
    with pytest.raises(RunError, match="no cluster"):
        prove_once(bench, one, folder, "icequake prove", lambda _: None, JobAttempt(Silent()))


def a_cell(bench: Bench, folder: Path) -> None:
    some = list(cells())[:1]
    with pytest.raises(RunError, match="no cluster"):
        whole = Matrix(some, folder, cast(Installation, None), Silent())
        whole._stacks = WarmStacks(lambda *_: nullcontext(bench), folder / "logs", lambda _: None)
        whole._run(some, JobAttempt(Silent()))


@pytest.mark.parametrize("script", [a_scenario, a_cell])
def test_no_capture_falls_between_the_operations_of_a_script(
    script: Callable[[Bench, Path], None], tmp_path: Path
) -> None:
    """One that falls between an INSERT and the replacement that loses it would find the INSERT's swap in the table's history."""
    bench = Asked()
    script(cast(Bench, bench), tmp_path)
    assert [how["capture_interval"] for how in bench.how] == [None]
