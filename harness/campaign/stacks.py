"""Warm stacks: servers and writers that stay up for many runs, because a new stack takes a minute and a short run ten seconds.

A run *leases* a seat on the stack of its key. A stack has one seat, or as many as groups of writers that work beside each other; an
exclusive lease takes them all. After many runs or any error a stack is **replaced, and the old one is closed first**: two at once are more
than the machine has memory for. Its logs are in a folder of their own, from which its secrets are taken when it is closed.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Generic, TypeVar

from checkers.evidence.journal import alone
from compose.catalogs import user_file
from compose.redaction import Redaction, SecretsLeft
from workloads.file.yamlfile import FileError

S = TypeVar("S")
Key = tuple[str, ...]
"""What the runs of a stack have in common, such as catalog and release."""

STACK_RUNS = 60
"""After so many runs a stack is started anew: its servers grow, and its store has the tables of all of them."""


@dataclass(eq=False)
class _Up(Generic[S]):
    """A stack that is up.

    Attributes:
        inside: ends it.
        taken: its seats that are leased.
        spoiled: whether it must not be used again.
    """

    key: Key
    stack: S
    logs: Path
    inside: contextlib.ExitStack
    seats: int
    taken: set[int] = field(default_factory=set)
    runs: int = 0
    spoiled: bool = False


class Lease(Generic[S]):
    """A seat on a stack that is up. Use in ``with``: an error inside means that the stack is not used again, and it is closed.

    Ctrl-C inside leaves the stack to :meth:`WarmStacks.close`, so that what goes on there can save what it has.

    Attributes:
        stack: the stack; ``logs``: the folder of its logs; ``secrets``: what must not stay in them.
        seat: counts from 0.
    """

    def __init__(self, stacks: WarmStacks[S], up: _Up[S], seats: Iterable[int]) -> None:
        self._stacks = stacks
        self._up = up
        self._seats = frozenset(seats)
        self.stack = up.stack
        self.logs = up.logs
        self.secrets = stacks.secrets
        self.seat = min(self._seats)

    def __enter__(self) -> Lease[S]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not issubclass(kind, KeyboardInterrupt):
            self._stacks._returned(self._up, self._seats, spoiled=kind is not None)

    def spoil(self) -> None:
        """Let nobody lease this stack again: the run failed, or its faults struck processes."""
        self._up.spoiled = True

    def end(self) -> None:
        """Close the stack now, under whatever still runs on it."""
        self._stacks._end(self._up)


class StackError(RuntimeError):
    """The stack of a key was given up; one line."""


class WarmStacks(Generic[S]):
    """The stacks of a campaign. Use in ``with``, which closes all of them.

    Args:
        start: (key, folder of its logs, the stack below it or None) → a stack that is up when it is entered. If that fails, it leaves nothing.
        place: the folder of all logs.
        say: what a person reads.
        seats: of a stack.
        most: stacks that are up at the same time; None: any number.
        runs: of one stack, until it is replaced; None: any number.
        tries: how often in succession the stack of a key may fail to come up; then it is given up. None: any number.
        layered: whether the stack of a key stands on the first one that is up of such keys: on its object store, Spark cluster and writers.
        secrets: what must not stay in the logs of any stack.
        called: what ``say`` says when the stack of a key is started.
        ended: called with the folder of the logs of a stack that was closed, when they are clean.

    Attributes:
        hide: takes the secrets out of what is said of a stack or of a run on it; the error of a start has none.
    """

    def __init__(
        self,
        start: Callable[[Key, Path, S | None], AbstractContextManager[S]],
        place: Path,
        say: Callable[[str], None],
        *,
        seats: Callable[[S], int] = lambda _: 1,
        most: int | None = 1,
        runs: int | None = STACK_RUNS,
        tries: int | None = 3,
        layered: Callable[[Key], bool] = lambda _: False,
        secrets: Iterable[str] = (),
        called: Callable[[Key], str] = lambda key: f"starting the stack of {' '.join(key)}",
        ended: Callable[[Path], None] = lambda _: None,
    ) -> None:
        self._start = start
        self._place = place
        self._say = say
        self._seats = seats
        self._most = most
        self._runs = runs
        self._tries = tries
        self._failed: dict[Key, list[str]] = {}
        """Key → why its last tries failed."""
        self._layered = layered
        self.secrets = tuple(secrets)
        self.hide = Redaction(self.secrets)
        self._called = called
        self._ended = ended
        self._up: list[_Up[S]] = []
        """In the order in which they were started."""
        self._secrets_left: list[SecretsLeft] = []
        self._changed = threading.Condition(threading.RLock())

    def __enter__(self) -> WarmStacks[S]:
        """Take the secrets from the logs of a session that was killed.

        Raises:
            SecretsLeft: a log may have a secret and could be neither cleaned nor removed.
        """
        self.hide.folder(self._place)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def up(self) -> list[tuple[Key, S]]:
        """The stacks that are up, with their keys."""
        return [(u.key, u.stack) for u in self._up]

    @property
    def logs(self) -> list[Path]:
        """The folders of the logs of the stacks that are up."""
        return [u.logs for u in self._up]

    def ready(self, key: Key) -> S:
        """Have the stack of a key up. Raises StackError, and what ``start`` raises."""
        with self._changed:
            return self._ready(key).stack

    def end(self, key: Key) -> None:
        """Close the stack of a key, if it is up."""
        for up in [u for u in self._up if u.key == key]:
            self._end(up)

    def lease(self, key: Key, *, exclusive: bool = False) -> Lease[S]:
        """A seat on the stack of a key, which is started if it is not up; waits while no seat is free.

        Raises:
            StackError: it was given up.
            Exception: what ``start`` raises.
        """
        with self._changed:
            while True:
                up = self._ready(key)
                free = [n for n in range(up.seats) if n not in up.taken]
                if free and not up.spoiled and (not exclusive or len(free) == up.seats):
                    seats = free if exclusive else free[:1]
                    up.taken.update(seats)
                    up.runs += 1
                    return Lease(self, up, seats)
                self._changed.wait()

    def close(self) -> None:
        """Close all stacks, the last one first, under whatever still runs on them; any thread may.

        Raises:
            SecretsLeft: a log of these stacks may have a secret and could be neither cleaned nor removed.
        """
        while self._up:
            self._end(self._up[-1])
        if self._secrets_left:
            raise self._secrets_left.pop()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _ready(self, key: Key) -> _Up[S]:
        """The stack of a key: one that is up, although it may be spoiled and still leased, or a new one."""
        while True:
            found = next((u for u in self._up if u.key == key), None)
            if found is not None or self._most is None or len(self._up) < self._most:
                return found or self._started(key)
            idle = next((u for u in self._up if not u.taken), None)
            if idle is None:
                self._changed.wait()
            else:
                self._end(idle)

    def _started(self, key: Key) -> _Up[S]:
        failed = self._failed.get(key, [])
        if self._tries is not None and len(failed) >= self._tries:
            raise StackError(f"the stack of {' '.join(key)} does not come up: {failed[-1]}")
        below = self._base() if self._layered(key) else None
        try:
            return self._start_on(key, below)
        except Exception:
            if below is None or below.taken:
                raise
        self._end(below)  # it may be what is broken
        return self._start_on(key, None)

    def _base(self) -> _Up[S] | None:
        """The stack on which others stand."""
        return next((u for u in self._up if self._layered(u.key)), None)

    def _start_on(self, key: Key, below: _Up[S] | None) -> _Up[S]:
        self._say(self._called(key))
        logs = new_logs(self._place, key)
        try:
            with contextlib.ExitStack() as inside:
                stack = inside.enter_context(self._start(key, logs, None if below is None else below.stack))
                up = _Up(key, stack, logs, inside.pop_all(), self._seats(stack))
        except BaseException as e:
            self.hide.error(e)
            self._failed.setdefault(key, []).append(" ".join(str(e).split()))
            self._cleaned(logs)
            raise
        self._failed.pop(key, None)
        self._up.append(up)
        return up

    def _returned(self, up: _Up[S], seats: frozenset[int], *, spoiled: bool) -> None:
        with self._changed:
            up.taken -= seats
            worn = self._runs is not None and up.runs >= self._runs
            up.spoiled = up.spoiled or spoiled or worn
            if up.spoiled and not up.taken:
                self._end(up)
            self._changed.notify_all()

    def _end(self, up: _Up[S]) -> None:
        """Close a stack, after those that stand on it; one that was closed already stays so."""
        with self._changed:
            if up not in self._up:
                return
            if up is self._base():
                for above in [u for u in reversed(self._up) if self._layered(u.key) and u is not up]:
                    self._end(above)
            self._up.remove(up)
            up.spoiled = True
            try:
                up.inside.close()
            except Exception as e:  # whatever it is, the next stack must come up
                self._say(f"the stack of {' '.join(up.key)} did not end in order: {' '.join(str(e).split())}")
            try:
                self._cleaned(up.logs)
                self._ended(up.logs)
            finally:
                self._changed.notify_all()

    def _cleaned(self, logs: Path) -> None:
        """Take the secrets from logs; a log that cannot be cleaned goes."""
        try:
            for removed in self.hide.folder(logs):
                self._say(f"{removed}: removed, because its secrets could not be")
        except SecretsLeft as e:
            self._secrets_left.append(e)
            self._say(str(e))


class LogsError(ValueError):
    """The logs of a session cannot be written; one line with the remedy."""


@contextlib.contextmanager
def session_logs(place: Path, secrets: Iterable[str]) -> Iterator[Path]:
    """A folder in ``place`` for the logs of this session alone, where others may go on beside it.

    The secrets are taken from the logs of sessions that are over, since one that was killed could not do it.

    Raises:
        LogsError: it cannot be made.
        SecretsLeft: a log may have a secret and could be neither cleaned nor removed.
        OSError: the disk is full.
    """
    hide = Redaction(secrets)
    for old in sorted(place.iterdir()) if place.is_dir() else ():
        with contextlib.suppress(LogsError), alone(old, "logs", LogsError):
            hide.folder(old)
    folder = place / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}-{os.getpid()}"
    with alone(folder, "logs", LogsError):
        yield folder


def secrets_of_files(catalogs: Iterable[str]) -> list[str]:
    """The secrets in the files of the user's own catalogs among these. A file that cannot be read has none: its stack says why."""
    found: list[str] = []
    for catalog in catalogs:
        with contextlib.suppress(FileError):
            found += user_file.load(Path(catalog)).secrets if user_file.is_file(catalog) else ()
    return found


def new_logs(place: Path, key: Key) -> Path:
    """Make a folder for the logs of a stack in ``place``: ``rest-1.12.0-1``, then ``rest-1.12.0-2``. Raises OSError."""
    name = re.sub(r"[^\w.-]+", "-", "-".join(key))  # a catalog and a release can be paths
    for n in count(1):
        folder = place / f"{name}-{n}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")
