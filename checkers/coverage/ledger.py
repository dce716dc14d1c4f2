"""What the runs of a night exercised, one line each, for nights that do not keep the folders of their runs.

The file ``coverage.jsonl`` lies in the night's folder::

    {"format": 1}
    {"possible": 0, "pairs": [[…], …]}                                          a set of possible pairs; runs of one workload share it
    {"run": "mixed/20260101T000000.000Z", "possible": 0, "seen": [[…, 3], …], "untold": [[first, second, 1], …]}

Lines are only appended. One that is torn, because the night was killed, is left out, and so is a run whose set of possible pairs is lost.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkers.coverage.coverage import FORMAT, Coverage, CoverageError
from checkers.coverage.pair import Pair
from checkers.evidence.runfolder import append

FILE = "coverage.jsonl"
"""Name of the file in a night's folder."""


def name_of(folder: Path) -> str:
    """How the file names a run: the last two parts of its folder's path."""
    return f"{folder.parent.name}/{folder.name}"


class Ledger:
    """The file of one night, to append to; one process at a time.

    Args:
        path: the file; made if it does not exist.

    Raises:
        CoverageError: the file is there and is none.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sets: dict[frozenset[Pair], int] = {}
        self.seen: Counter[Pair] = Counter()
        """Pair → how often, in all runs of the night so far: what ``checkers.coverage.possible.rarity`` wants."""
        self.runs: set[str] = set()
        """Names of the runs in the file."""
        if path.exists():
            numbered, runs = _read(path)
            self._sets = {pairs: number for number, pairs in numbered.items()}
            for name, c in runs.items():
                self.runs.add(name)
                self.seen.update(c.seen)

    def append(self, run: str, c: Coverage) -> None:
        """Add a run; one that is in the file already is not added again.

        Args:
            run: its name (:func:`name_of`).

        Raises:
            OSError: it cannot be written; the file is as before.
        """
        if run in self.runs:
            return
        there = self.path.exists()
        lines: list[dict[str, Any]] = [] if there else [{"format": FORMAT}]
        number = self._sets.get(c.possible)
        if number is None:
            number = max(self._sets.values(), default=-1) + 1
            lines.append({"possible": number, "pairs": [p.to_json() for p in sorted(c.possible)]})
        seen = [[*p.to_json(), n] for p, n in sorted(c.seen.items())]
        untold = [[*kinds, n] for kinds, n in sorted(c.untold.items())]
        lines.append({"run": run, "possible": number, "seen": seen, "untold": untold})
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        append(self.path, text if not there or _ends_whole(self.path) else "\n" + text)
        self._sets[c.possible] = number
        self.runs.add(run)
        self.seen.update(c.seen)


def read(path: Path) -> dict[str, Coverage]:
    """Run → its coverage, in the order of the file.

    Raises:
        CoverageError: it is no such file, or a whole line in it is none.
        OSError: it cannot be read.
    """
    return _read(path)[1]


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _read(path: Path) -> tuple[dict[int, frozenset[Pair]], dict[str, Coverage]]:
    sets: dict[int, frozenset[Pair]] = {}
    runs: dict[str, Coverage] = {}
    first = True
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # torn, or empty
        try:
            if first and record["format"] != FORMAT:
                raise ValueError(f"format {record['format']!r} is not known")
            if "pairs" in record:
                sets[int(record["possible"])] = frozenset(map(Pair.from_json, record["pairs"]))
            elif "run" in record and record["possible"] in sets:
                runs.setdefault(str(record["run"]), _run(record, sets))
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise CoverageError(f"{path}:{number}: not a line of a coverage: {e}") from None
        first = False
    if first:
        raise CoverageError(f"{path}: empty: the first line is missing")
    return sets, runs


def _run(record: Mapping[str, Any], sets: Mapping[int, frozenset[Pair]]) -> Coverage:
    seen = Counter({Pair.from_json(row[:-1]): int(row[-1]) for row in record["seen"]})
    untold = Counter({(str(a), str(b)): int(n) for a, b, n in record["untold"]})
    return Coverage(seen, untold, sets[record["possible"]], 1)
