"""Warm stacks: at most one at a time, a new one after an error, the old one closed before; their logs keep no secret."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compose.processes.service import ServiceError
from compose.redaction import SecretsLeft
from harness.campaign.stacks import Key, StackError, WarmStacks, session_logs
from tests.support.files import disk_of, fill
from tests.support.planted import forms_in, planted

REST, JDBC = ("rest", "1.12.0"), ("jdbc", "1.12.0")
SECRET = "geheim/+=42"


@dataclass
class Starter:
    """Starts stacks that are names, and remembers what happened.

    Attributes:
        down: how often the next starts fail.
        most: stacks that were up at the same time.
    """

    told: list[str] = field(default_factory=list)
    down: int = 0
    up: int = 0
    most: int = 0

    @contextlib.contextmanager
    def __call__(self, key: Key, logs: Path, below: str | None) -> Iterator[str]:
        name = f"{key[0]}{len(self.told)}" + ("" if below is None else f" on {below}")
        (logs / "server.log").write_text(f"password={SECRET} of {name}\n")
        if self.down:
            self.down -= 1
            raise ServiceError(key[0], f"does not answer with {SECRET}")
        self.told.append(f"start {name}")
        self.up += 1
        self.most = max(self.most, self.up)
        try:
            yield name
        finally:
            self.up -= 1
            self.told.append(f"close {name}")


def made(starter: Starter, place: Path, **more: Any) -> WarmStacks[str]:
    return WarmStacks(starter, place, lambda _: None, **more)


def test_runs_of_one_key_share_a_stack_and_another_key_closes_it_first(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path) as stacks:
        for key in (REST, REST, JDBC, REST):
            with stacks.lease(key) as lease:
                assert lease.stack.startswith(key[0]) and lease.seat == 0
    assert starter.told == ["start rest0", "close rest0", "start jdbc2", "close jdbc2", "start rest4", "close rest4"]
    assert starter.most == 1


@pytest.mark.parametrize("error", [ServiceError("s3", "is gone"), ZeroDivisionError(), OSError(28, "full")])
def test_after_an_error_the_stack_is_closed_and_the_next_run_has_a_new_one(tmp_path: Path, error: Exception) -> None:
    starter = Starter()
    with made(starter, tmp_path) as stacks:
        with pytest.raises(type(error)), stacks.lease(REST):
            raise error
        assert starter.told == ["start rest0", "close rest0"]
        with stacks.lease(REST) as lease:
            lease.spoil()
        with stacks.lease(REST):
            pass
    assert starter.told[2:] == ["start rest2", "close rest2", "start rest4", "close rest4"] and starter.most == 1


def test_ctrl_c_leaves_the_stack_until_all_is_closed(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path) as stacks:
        with pytest.raises(KeyboardInterrupt), stacks.lease(REST):
            raise KeyboardInterrupt
        assert starter.up == 1
    assert starter.up == 0


def test_a_stack_is_replaced_after_many_runs(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path, runs=3) as stacks:
        for _ in range(7):
            with stacks.lease(REST):
                pass
    assert [t.split()[0] for t in starter.told] == ["start", "close"] * 3


def test_a_stack_that_fails_to_start_leaves_nothing_and_is_given_up_after_some_tries(tmp_path: Path) -> None:
    starter = Starter(down=5)
    with made(starter, tmp_path, tries=2) as stacks:
        for _ in range(2):
            with pytest.raises(ServiceError):
                stacks.lease(REST)
        with pytest.raises(StackError, match=r"the stack of rest 1\.12\.0 does not come up: .*does not answer"):
            stacks.lease(REST)
        assert starter.down == 3, "it was not tried again"
        starter.down = 0
        with stacks.lease(JDBC):
            pass
    assert starter.up == 0


def test_what_stands_on_a_broken_stack_is_started_anew_without_it(tmp_path: Path) -> None:
    class OnSand(Starter):
        @contextlib.contextmanager
        def __call__(self, key: Key, logs: Path, below: str | None) -> Iterator[str]:
            if below is not None:
                raise ServiceError("s3", "is gone")
            with super().__call__(key, logs, below) as name:
                yield name

    starter = OnSand()
    with made(starter, tmp_path, most=None, layered=lambda _: True) as stacks:
        for key in (REST, JDBC):
            with stacks.lease(key):
                pass
    assert starter.told == ["start rest0", "close rest0", "start jdbc2", "close jdbc2"]


def test_a_start_that_succeeds_forgets_the_tries_before(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path, tries=2) as stacks:
        for _ in range(4):
            starter.down = 1
            with pytest.raises(ServiceError):
                stacks.lease(REST)
            with stacks.lease(REST) as lease:
                lease.spoil()


def test_seats_are_leased_at_the_same_time_and_an_exclusive_lease_waits_for_all(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path, seats=lambda _: 2) as stacks:
        one, other = stacks.lease(REST), stacks.lease(REST)
        assert {one.seat, other.seat} == {0, 1} and one.stack == other.stack
        got, asked = threading.Event(), threading.Event()

        def alone() -> None:
            asked.set()
            with stacks.lease(REST, exclusive=True):
                got.set()

        waiting = threading.Thread(target=alone)
        waiting.start()
        asked.wait(60)
        with one:
            pass
        assert not got.is_set()
        with other:
            pass
        waiting.join(60)
        assert got.is_set()
    assert starter.told == ["start rest0", "close rest0"]


def test_an_error_on_one_seat_closes_the_stack_when_the_other_seat_is_returned(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path, seats=lambda _: 2) as stacks:
        one, other = stacks.lease(REST), stacks.lease(REST)
        with pytest.raises(ZeroDivisionError), one:
            raise ZeroDivisionError
        assert starter.told == ["start rest0"], "somebody still uses it"
        with other:
            pass
        assert starter.told == ["start rest0", "close rest0"]
        with stacks.lease(REST) as lease:
            assert lease.stack == "rest2"


def test_a_stack_can_be_ended_under_what_hangs_on_it(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path) as stacks, stacks.lease(REST) as lease:
        lease.end()
        lease.end()
        assert starter.told == ["start rest0", "close rest0"]
        with stacks.lease(REST):
            assert starter.up == 1


def test_stacks_stand_on_the_first_one_and_go_with_it(tmp_path: Path) -> None:
    starter = Starter()
    with made(starter, tmp_path, most=None, layered=lambda key: key != JDBC) as stacks:
        hive = ("hive", "1.12.0")
        for key in (REST, hive, JDBC):
            with stacks.lease(key):
                pass
        assert [t for t in starter.told if "start" in t] == ["start rest0", "start hive1 on rest0", "start jdbc2"]
        with stacks.lease(REST) as lease:
            lease.spoil()
        assert starter.told[3:] == ["close hive1 on rest0", "close rest0"]
        with stacks.lease(hive) as lease:
            assert lease.stack == "hive5"


def test_whatever_closing_raises_the_next_stack_comes_up(tmp_path: Path) -> None:
    class Hanging(Starter):
        @contextlib.contextmanager
        def __call__(self, key: Key, logs: Path, below: str | None) -> Iterator[str]:
            yield "hanging"
            raise ZeroDivisionError("at the end")

    said: list[str] = []
    with WarmStacks(Hanging(), tmp_path, said.append) as stacks:
        for key in (REST, JDBC):
            with stacks.lease(key):
                pass
    assert said.count("the stack of rest 1.12.0 did not end in order: at the end") == 1


# --- secrets in logs --------------------------------------------------------------------------------------------------


def logs_below(place: Path) -> str:
    return "".join(p.read_text() for p in place.rglob("*.log"))


def test_logs_keep_no_secret_of_a_stack_that_was_closed_or_did_not_come_up_or_was_killed(tmp_path: Path) -> None:
    starter = Starter(down=1)
    (killed := tmp_path / "rest-0").mkdir()
    (killed / "server.log").write_text(f"uri postgres://user:{SECRET}@host/db\n")
    with made(starter, tmp_path, secrets=[SECRET]) as stacks:
        assert SECRET not in logs_below(tmp_path)
        with pytest.raises(ServiceError):
            stacks.lease(REST)
        assert SECRET not in logs_below(tmp_path)
        with stacks.lease(REST):
            assert SECRET in logs_below(tmp_path), "its server still writes"
    assert SECRET not in logs_below(tmp_path) and logs_below(tmp_path).count("of rest") == 2


def test_a_log_that_can_neither_be_cleaned_nor_removed_is_an_error_at_the_end(tmp_path: Path) -> None:
    """A folder on a disk that becomes read-only meanwhile."""
    starter = Starter()
    with disk_of("1m", tmp_path / "disk") as disk:
        with pytest.raises(SecretsLeft, match=r"server\.log"), made(starter, disk, secrets=[SECRET]) as stacks:
            for key in (REST, JDBC):
                with stacks.lease(key):
                    if key == JDBC:
                        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True, timeout=60)
        assert starter.up == 0
        with pytest.raises(SecretsLeft, match=r"server\.log"), made(starter, disk, secrets=[SECRET]):
            raise AssertionError("it was opened")


def test_on_a_full_disk_logs_keep_no_secret_in_any_of_forty_places(tmp_path: Path) -> None:
    with disk_of("2m", tmp_path / "disk") as disk:
        with made(Starter(), disk, secrets=[SECRET]) as stacks, stacks.lease(REST) as lease:
            for n, (_, text) in enumerate(planted(SECRET)):
                (lease.logs / f"{n}.log").write_text(text)
            fill(disk)
        logs = [*disk.rglob("*.log")]
        assert len(logs) >= 40 and not forms_in(SECRET, b"".join(p.read_bytes() for p in logs))


def test_sessions_beside_each_other_leave_the_logs_of_the_others_alone(tmp_path: Path) -> None:
    place = tmp_path / "prove-logs"
    with session_logs(place, [SECRET]) as over:
        (over / "server.log").write_text(f"password={SECRET}\n")
    over = over.rename(over.with_name("before"))
    with session_logs(place, [SECRET]) as first:
        (first / "server.log").write_text(f"password={SECRET}\n")
        living = (first / "server.log").stat().st_ino
        assert SECRET not in (over / "server.log").read_text()
        with session_logs(place, [SECRET]) as other:
            assert other != first
        assert (first / "server.log").stat().st_ino == living and SECRET in (first / "server.log").read_text()
