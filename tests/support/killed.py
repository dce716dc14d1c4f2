"""Kills a campaign again and again.

    python -m tests.support.killed KIND FOLDER KILLS SEED

kills a campaign of a kind with SIGKILL at random moments, and lets it go on, until it was killed so often; then it checks that no line was
lost and that no process was left, and that the results are those of one that was never killed. It forks its sessions, because they share what
is imported and judged, so that a session takes a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from compose.processes.watchdog import RUN_VARIABLE
from tests.harness.experiments.shrink.failedrun import failed_run
from tests.support.campaigns import KINDS, OF_SCENARIOS, PREFIX, recorded_in

GONE_S = 60.0
"""Seconds after which a process that is still there was left."""


def left() -> list[psutil.Process]:
    """The marked processes of fake benches."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(RUN_VARIABLE, "").startswith(PREFIX):
                found.append(process)
    return found


@dataclass
class Killed:
    """Kills sessions of one kind.

    Attributes:
        kills: so far.
    """

    session: Callable[[Path, Path], object]
    source: Path
    journal: str
    random: random.Random
    kills: int = 0

    def fork(self, into: Path) -> int:
        """Begin a session in a process of its own, which writes what it came to beside the folder."""
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            result = json.dumps(self.session(self.source, into), default=list)
            into.with_suffix(".json").write_text(result)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)

    def whole(self, into: Path) -> tuple[object, float]:
        """What a session that is not killed comes to, and its seconds."""
        began = time.monotonic()
        _, status = os.waitpid(self.fork(into), 0)
        assert status == 0, f"{into}: the session failed"
        return json.loads(into.with_suffix(".json").read_text()), time.monotonic() - began

    def until_it_ends(self, into: Path, lasts: float, most: int) -> object:
        """Kill each session in a folder until one comes to its end; check the journal after each."""
        before, killed = b"", True
        while killed:
            pid = self.fork(into)
            killed = self._killed(pid, self.random.uniform(0.02, 1.1) * lasts if self.kills < most else None)
            path = into / self.journal
            data = path.read_bytes() if path.exists() else b""
            assert data.startswith(before), f"{path}: lines of the session before are gone"
            before = data[: data.rfind(b"\n") + 1]
            self._nothing_left()
        return json.loads(into.with_suffix(".json").read_text())

    def _killed(self, pid: int, after: float | None) -> bool:
        """Kill a session after so many seconds; False: it came to its end before, or nobody is to kill it."""
        try:
            code = psutil.Process(pid).wait(after)
        except psutil.TimeoutExpired:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self.kills += 1
            return True
        assert code == 0, "the session failed"
        return False

    @staticmethod
    def _nothing_left() -> None:
        deadline = time.monotonic() + GONE_S
        while found := left():
            if time.monotonic() > deadline:
                for process in found:
                    process.kill()  # or it holds the pipes of this one, whose end somebody waits for
                raise AssertionError(f"left running: {found}")
            time.sleep(0.05)


def main(kind: str, folder: Path, kills: int, seed: int) -> None:
    """Kill so often; see the module."""
    session, journal = KINDS[kind]
    with tempfile.TemporaryDirectory() as place:
        source = failed_run(Path(place)) if kind in OF_SCENARIOS else recorded_in(Path(place))
        session(source, folder / "warm-up")  # what is judged once is known to each session
        one = Killed(session, source, journal, random.Random(seed))
        expected, lasts = one.whole(folder / "whole")
        n = 0
        while one.kills < kills:
            result = one.until_it_ends(folder / f"killed-{n}", lasts, kills)
            assert result == expected, f"{folder}/killed-{n}: {result} instead of {expected}"
            n += 1
        print(f"{kind}: killed {one.kills} times in {n} campaigns; a whole one takes {lasts:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
