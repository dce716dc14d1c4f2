"""The interface through which the harness and the nemesis control any service of the stack, wherever it runs."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol, Self, runtime_checkable

_TAIL_BYTES = 64 * 1024
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_COMPLAINT = re.compile(
    r"error|fatal|exception|fail|denied|refused|cannot|could not|in use|no such|unable|panic", re.IGNORECASE
)
_STACK_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more)")


Role = Literal["catalog", "database", "store", "spark-master", "spark-worker"]
"""The role of a service in the stack; faults target roles."""


@runtime_checkable
class Service(Protocol):
    """One server of the stack: a local process or a container.

    ``with service:`` starts it, waits until it is ready, and stops it at the end.
    """

    @property
    def name(self) -> str:
        """Its name in messages, for example ``spark-worker-1``."""

    @property
    def role(self) -> Role | None:
        """Its role in the stack; None: no fault targets it."""

    def start(self) -> None:
        """Launch it; no effect if it runs. Raises ServiceError if it cannot be launched."""

    def ready(self, timeout: float = 60.0) -> None:
        """Return as soon as it answers a real request. Raises ServiceError after ``timeout`` seconds, or if it died."""

    def stop(self) -> None:
        """End it and everything it started: a signal that it can handle first, then SIGKILL. No effect if it does not run."""

    def logs(self) -> Path:
        """The file with everything it printed, over all restarts."""

    def restart(self) -> None:
        """Stop it, start it on the same ports with the same data, and wait until it is ready."""

    def kill(self) -> None:
        """SIGKILL it and every process it started, at once. ``start`` brings it back with its ports and data."""

    def pause(self) -> None:
        """SIGSTOP it and every process it started: connections stay open, nothing answers."""

    def resume(self) -> None:
        """SIGCONT everything that ``pause`` stopped."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ServiceError(RuntimeError):
    """A service failed. The message is one line: service, problem, last line of its log, path of the log, remedy."""

    def __init__(
        self, service: str, problem: str, *, log: Path | None = None, last_line: str | None = None, remedy: str = ""
    ):
        self.service = service
        self.problem = problem
        self.log = log
        self.last_line = last_line
        self.remedy = remedy
        parts = [f"{service}: {problem}"]
        if last_line:
            parts.append(f"its log ends with “{last_line}”")
        if log:
            parts.append(f"see {log}")
        if remedy:
            parts.append(remedy)
        super().__init__("; ".join(part.replace("\n", " ") for part in parts))


def last_meaningful_line(log: Path, *, since: int = 0) -> str | None:
    """The last line of a log that reports a problem, else the last line that is not a stack frame, from byte ``since`` on.

    Returns None if there is none. At most 300 characters.
    """
    lines = [line for line in tail(log, since=since).splitlines() if line.strip() and not _STACK_FRAME.match(line)]
    complaints = [line for line in lines if _COMPLAINT.search(line)]
    chosen = (complaints or lines)[-1:]
    return _ANSI.sub("", chosen[0]).strip()[:300] if chosen else None


def tail(log: Path, *, since: int = 0) -> str:
    """The last 64 KiB of a log from byte ``since`` on; empty if it cannot be read."""
    try:
        with log.open("rb") as handle:
            end = handle.seek(0, 2)
            handle.seek(max(since, end - _TAIL_BYTES))
            return handle.read().decode("utf-8", "replace")
    except OSError:
        return ""
