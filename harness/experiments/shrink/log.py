"""``shrink.jsonl``: every run of a shrink and what came of it, so that the same command goes on where another one ended.

The first line says what is shrunk. The search asks the same questions again and gets the answers from here, so nothing else is kept.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from checkers.evidence import runfolder

FORMAT = 1
FILE = "shrink.jsonl"


class ShrinkError(ValueError):
    """The folder of a shrink cannot be used; one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a candidate.

    Attributes:
        key: of the candidate.
        what: the candidate in words.
        failed: whether the run showed what is looked for.
        found: names of the anomalies that it showed.
        folder: the run's folder, relative to that of the shrink; None if there is none, or it was not kept.
        seconds: how long it took.
        problem: why the run could not show it, or was not as it should have been; empty if there is nothing to say.
        shown: how many anomalies of the name that is looked for; 0 if nobody counted.
    """

    key: str
    what: str
    failed: bool
    found: tuple[str, ...] = ()
    folder: str | None = None
    seconds: float = 0.0
    problem: str = ""
    shown: int = 0


class Log:
    """The log in a folder. A torn last line, of a process that was killed, is cut off.

    Args:
        about: what is shrunk; a folder with another is refused.

    Raises:
        ShrinkError: the folder has the log of another shrink, or a line of it cannot be read.
        OSError: it cannot be written.
    """

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.path = folder / FILE
        self._trials: dict[str, list[Trial]] = defaultdict(list)
        self._all: list[Trial] = []
        head = {"format": FORMAT, **about}
        folder.mkdir(parents=True, exist_ok=True)
        lines = self._lines()
        if not lines:
            runfolder.append(self.path, json.dumps(head, ensure_ascii=False) + "\n")
            return
        self._check(head, lines[0])
        for n, line in enumerate(lines[1:], 2):
            try:
                said = json.loads(line)
                trial = Trial(**{**said, "found": tuple(said["found"])})
            except (ValueError, TypeError, KeyError):
                raise ShrinkError(f"{self.path}:{n}: not a run of a shrink; give another folder with --into") from None
            self._remember(trial)

    def _remember(self, trial: Trial) -> None:
        self._trials[trial.key].append(trial)
        self._all.append(trial)

    def _lines(self) -> list[str]:
        """The whole lines; what stands behind the last line end is cut off."""
        with contextlib.suppress(FileNotFoundError):
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if whole != data:
                with self.path.open("rb+") as file:
                    file.truncate(len(whole))
            return whole.decode("utf-8", errors="replace").split("\n")[:-1]  # a text may have other line ends in it
        return []

    def _check(self, head: Mapping[str, Any], line: str) -> None:
        try:
            there = json.loads(line)
        except ValueError:
            there = None
        if not isinstance(there, dict) or "run" not in there:
            raise ShrinkError(f"{self.path}:1: not the log of a shrink; give another folder with --into")
        for k, v in head.items():
            if there.get(k) != v:
                raise ShrinkError(
                    f"{self.path}: this folder has the shrink of another {k}, {there.get(k)}, not {v}; give another one with --into"
                )

    def of(self, key: str) -> Sequence[Trial]:
        """The runs of a candidate so far."""
        return tuple(self._trials.get(key, ()))

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All runs so far, in their order."""
        return tuple(self._all)

    def add(self, trial: Trial) -> None:
        """Write the line of a run that has ended."""
        self._remember(trial)
        runfolder.append(self.path, json.dumps(asdict(trial), ensure_ascii=False) + "\n")
