"""What the runs of a night exercised, one line each, for nights that do not keep the folders of their runs.

The file ``coverage.jsonl`` lies in the night's folder::

    {"format": 1}
    {"possible": 0, "pairs": [[…], …]}                                          a set of possible pairs; runs of one workload share it
    {"run": "mixed/20260101T000000.000Z", "possible": 0, "seen": [[…, 3], …], "untold": [[first, second, 1], …]}

It is a journal (:mod:`checkers.evidence.journal`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from checkers.coverage.coverage import FORMAT, Coverage, CoverageError
from checkers.coverage.pair import Pair
from checkers.evidence import journal
from checkers.evidence.journal import Journal, JournalFormat, Values

FILE = "coverage.jsonl"
"""Name of the file in a night's folder."""


def name_of(folder: Path) -> str:
    """How the file names a run: the last two parts of its folder's path."""
    return f"{folder.parent.name}/{folder.name}"


def _line(values: Values) -> Values:
    if not {"pairs", "possible"} <= values.keys() and not {"run", "possible", "seen", "untold"} <= values.keys():
        raise ValueError("neither a set of pairs nor a run")
    return values


FORM = JournalFormat("a coverage", "a line", _line, lambda values: values, CoverageError, version=FORMAT)


class Ledger:
    """The file of one night, to append to. Use in ``with``; the night's folder is locked already.

    Args:
        path: the file; made if it does not exist.

    Raises (on entry):
        CoverageError: the file is there and is none, or cannot be read or made.
        OSError: the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = Journal(path, FORM, alone=False)
        self._sets: dict[frozenset[Pair], int] = {}
        self.seen: Counter[Pair] = Counter()
        """Pair → how often, in all runs of the night so far: what ``checkers.coverage.possible.rarity`` wants."""
        self.runs: set[str] = set()
        """Names of the runs in the file."""

    def __enter__(self) -> Ledger:
        numbered, runs = _read_lines(self.path, self._journal.__enter__().lines)
        self._sets = {pairs: number for number, pairs in numbered.items()}
        for name, c in runs.items():
            self.runs.add(name)
            self.seen.update(c.seen)
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.__exit__()

    def append(self, run: str, c: Coverage) -> None:
        """Add a run; one that is in the file already is not added again.

        Args:
            run: its name (:func:`name_of`).

        Raises:
            OSError: it cannot be written; the file is as before.
        """
        if run in self.runs:
            return
        lines: list[Values] = []
        number = self._sets.get(c.possible)
        if number is None:
            number = max(self._sets.values(), default=-1) + 1
            lines.append({"possible": number, "pairs": [p.to_json() for p in sorted(c.possible)]})
        seen = [[*p.to_json(), n] for p, n in sorted(c.seen.items())]
        untold = [[*kinds, n] for kinds, n in sorted(c.untold.items())]
        lines.append({"run": run, "possible": number, "seen": seen, "untold": untold})
        self._journal.append(*lines)
        self._sets[c.possible] = number
        self.runs.add(run)
        self.seen.update(c.seen)


def read(path: Path) -> dict[str, Coverage]:
    """Run → its coverage, in the order of the file.

    Raises:
        CoverageError: it is no such file, a line of it cannot be read, or the file cannot be.
    """
    return _read_lines(path, journal.read(path, FORM)[1])[1]


def _read_lines(path: Path, lines: Iterable[Values]) -> tuple[dict[int, frozenset[Pair]], dict[str, Coverage]]:
    sets: dict[int, frozenset[Pair]] = {}
    runs: dict[str, Coverage] = {}
    for values in lines:
        try:
            if "pairs" in values:
                sets[int(values["possible"])] = frozenset(map(Pair.from_json, values["pairs"]))
            else:
                runs.setdefault(str(values["run"]), _run(values, sets))
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise CoverageError(f"{path}: not a coverage: {e}") from None
    return sets, runs


def _run(record: Mapping[str, Any], sets: Mapping[int, frozenset[Pair]]) -> Coverage:
    seen = Counter({Pair.from_json(row[:-1]): int(row[-1]) for row in record["seen"]})
    untold = Counter({(str(a), str(b)): int(n) for a, b, n in record["untold"]})
    return Coverage(seen, untold, sets[record["possible"]], 1)
