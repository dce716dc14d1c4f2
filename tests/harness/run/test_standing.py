"""The stack that is kept: there is one, also when two are asked for at the same time; a run that cannot use it says why."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from checkers.evidence.runfolder import RunFolder
from compose.endpoints import Endpoints
from compose.external.external import External
from compose.install import ensure, releases
from compose.install.releases import Release
from compose.processes.service import ServiceError
from harness.cli.run import _executed
from harness.run import standing
from harness.run.run import Run
from harness.run.settings import StandingStack
from tests.support.runs import inside
from workloads.file.workload import Workload


def test_a_stack_that_another_is_starting_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")  # a keeper that ends at once
    log = tmp_path / "stack-logs" / "keeper.log"
    log.parent.mkdir()
    log.write_text("the first one's")
    with (tmp_path / "stack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(standing.StandingError, match="another `icequake up` is starting a stack"):
            standing.up(tmp_path, 2)
    assert log.read_text() == "the first one's"
    for _ in range(2):  # and one that failed is in nobody's way
        with pytest.raises(standing.StandingError, match="did not come up"):
            standing.up(tmp_path, 2)


ENDPOINTS = Endpoints("http://h:1", "a", "b", "r", "bucket", "rest", "http://h:2", "s3://bucket/w", "spark://h:3")


def stands(home: Path, catalog: str = "rest", sockets: Sequence[str] = ("w0.sock",)) -> None:
    """This process keeps a stack."""
    me = psutil.Process()
    record = {"pid": me.pid, "pid_started": me.create_time(), "state": "up", "sockets": [*sockets], "logs": "logs"}
    standing._write(standing._file(home), record | {"endpoints": replace(ENDPOINTS, catalog=catalog).to_json()})


def spec(catalog: str, **more: Any) -> Workload:
    return Workload.model_validate(
        {
            "workload": "w",
            "tables": [{"name": "t"}],
            "length": {"ops": 1},
            "operations": {"insert": {}},
            "catalog": catalog,
            **more,
        }
    )


def used(home: Path, workload: Workload, release: Release = releases.DEFAULT) -> tuple[bool, list[str]]:
    """Whether a run uses the stack that is up, and what it says."""
    said: list[str] = []
    with standing.use(home, workload, release, said.append) as found:
        return found is not None, said


@contextmanager
def used_stack(home: Path) -> Iterator[StandingStack]:
    with standing.use(home, spec("rest"), releases.DEFAULT, lambda _: None) as found:
        assert found is not None
        yield found


def test_a_run_on_the_catalog_of_the_stack_uses_it(tmp_path: Path) -> None:
    assert used(tmp_path, spec("rest")) == (False, []), "none is up"
    stands(tmp_path, "jdbc")
    assert used(tmp_path, spec("jdbc")) == (True, [])


def test_a_run_that_fails_on_the_stack_of_another_process_says_whose_it_is_and_the_way_round(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands(tmp_path)
    with used_stack(tmp_path) as found:
        pass
    whose = f"the stack that is up, which `icequake up` keeps (process {os.getpid()}, logs in logs, ended by `icequake down`)"
    assert found.way_round == f"{whose}; --fresh starts one for this run alone"

    def execute() -> None:
        raise ServiceError("catalog", "it is away")

    run = cast(Run, SimpleNamespace(execute=execute, leftovers=(), notes=()))
    folder = cast(RunFolder, SimpleNamespace(began=False))
    for stack, told in ((found, f"icequake: it used {found.way_round}\n"), (None, "")):
        with pytest.raises(ServiceError):
            _executed(run, folder, External(), stack)
        assert capsys.readouterr().err == told
    with standing.lent(tmp_path, ENDPOINTS, tmp_path, lambda _: None), used_stack(tmp_path) as lent:
        assert "which `icequake soak` keeps" in lent.way_round


def test_a_run_that_starts_its_own_stack_beside_the_one_that_is_up_says_why_and_the_remedy(tmp_path: Path) -> None:
    stands(tmp_path)
    assert used(tmp_path, spec("jdbc")) == (
        False,
        [
            "this run starts a stack of its own: the one that is up has the catalog rest, not jdbc; "
            "`icequake down`, then `icequake up --catalog jdbc`, keeps such a one"
        ],
    )
    assert used(tmp_path, spec("rest", session="fast", cluster="local")) == (
        False,
        [
            "this run starts a stack of its own: the one that is up has session: spark, cluster: standalone, not session: fast, "
            "cluster: local; `icequake down`, then `icequake up --catalog rest --session fast --cluster local`, keeps such a one"
        ],
    )
    other = releases.find("1.10.1")
    assert used(tmp_path, spec("rest"), other) == (
        False,
        [f"this run starts a stack of its own: the one that is up has Iceberg {releases.DEFAULT.iceberg}, not 1.10.1"],
    )
    said: list[str] = []
    with standing.use(tmp_path, spec("rest"), releases.DEFAULT, said.append) as first:
        assert first is not None and said == []
        assert used(tmp_path, spec("rest")) == (
            False,
            ["this run starts a stack of its own: another run uses the one that is up"],
        )


def test_faults_need_a_server_that_was_started_behind_the_proxies(tmp_path: Path) -> None:
    stands(tmp_path, "nessie")
    assert used(tmp_path, spec("nessie")) == (True, [])
    found, said = used(tmp_path, spec("nessie", nemesis={"faults": [{"verb": "drop-reply", "service": "store"}]}))
    assert not found and "behind the proxies" in said[0]


def test_up_twice_says_what_is_up_and_another_catalog_is_told_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands(tmp_path)
    installed = SimpleNamespace(home=tmp_path)
    monkeypatch.setattr(ensure, "ensure", lambda progress: installed)  # nothing is installed in this home
    with (tmp_path / "stack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setenv("ICEQUAKE_COMMAND", "icequake")
        again = inside("up", cwd=tmp_path)
        same = inside("up", "--catalog", "rest", cwd=tmp_path)
        other = inside("up", "--catalog", "jdbc", cwd=tmp_path)
        quicker = inside("up", "--session", "fast", cwd=tmp_path)
    assert again.returncode == same.returncode == 0, again.stderr
    assert again.stdout == same.stdout
    first, second, third = again.stdout.splitlines()
    assert first.startswith("up already: catalog rest at http://h:2")
    assert second.startswith("1 warm writers; the next `icequake run` on the catalog rest uses them")
    assert third == "`icequake down` stops it"
    stands(tmp_path, sockets=[])
    with (tmp_path / "stack.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert inside("up", cwd=tmp_path).stdout.splitlines()[1].startswith("no warm writers; logs in ")
    assert other.returncode == quicker.returncode == 254
    assert "the stack that is up has session: spark, cluster: standalone; `icequake down`, then" in quicker.stderr
    assert "icequake up --catalog rest --session fast`" in quicker.stderr
    assert "a stack with the catalog rest is up; `icequake down`, then `icequake up --catalog jdbc`" in other.stderr


def test_a_stack_that_is_lent_is_used_by_runs_until_it_ends(tmp_path: Path) -> None:
    said: list[str] = []
    with standing.lent(tmp_path, ENDPOINTS, tmp_path, said.append):
        with standing.use(tmp_path, spec("rest"), releases.DEFAULT, said.append) as found:
            assert found is not None and found.endpoints == ENDPOINTS and found.sockets == ()
        with pytest.raises(standing.StandingError), standing.lent(tmp_path, ENDPOINTS, tmp_path, said.append):
            raise standing.StandingError("inside: the first one is not touched")
        assert said == ["`icequake up` keeps another stack, so runs use that one, and `icequake down` ends that one"]
        assert standing.up(tmp_path, 2)[1] is False, "there is only one"
    with standing.use(tmp_path, spec("rest"), releases.DEFAULT, said.append) as found:
        assert found is None


class SlowKeeper:
    """It ends when it has been waited for so many times."""

    def __init__(self, waits: int) -> None:
        self.waits = waits
        self.waited = 0.0

    def send_signal(self, number: int) -> None:
        assert number == signal.SIGTERM

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.waits -= 1
        if self.waits:
            raise psutil.TimeoutExpired(seconds)


@pytest.mark.parametrize(("waits", "ends"), [(1, True), (4, True), (1000, False)])
def test_down_waits_for_a_stack_that_ends_slowly_and_says_so(
    waits: int, ends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper, said = SlowKeeper(waits), list[str]()
    monkeypatch.setattr(standing, "_read", lambda _: {"pid": 7})
    monkeypatch.setattr(standing.psutil, "Process", lambda _: keeper)
    if ends:
        assert standing.down(tmp_path, said.append)
    else:
        with pytest.raises(standing.StandingError, match="process 7 has not ended after 300 s; kill it with kill -9"):
            standing.down(tmp_path, said.append)
    assert keeper.waited == min(waits * standing.DOWN_S, standing.DOWN_MOST_S)
    assert len(said) == min(waits, 10) - 1 and all("still waits for process 7" in line for line in said)
