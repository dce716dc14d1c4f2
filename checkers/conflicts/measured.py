"""The results of a conflict matrix, one record per cell as in its file, and the differences of two measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from checkers.conflicts import predicted
from checkers.conflicts.predicted import Cell

FORMAT = 1


class MatrixError(ValueError):
    """A matrix cannot be continued or compared; the message is one line with a remedy."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How an operation of a cell ended.

    Attributes:
        outcome: ``committed`` (at the first attempt), ``retried``, ``aborted``, ``unknown``.
        attempts: number of commit attempts; None if it did not commit.
        error: class of the exception, without package; None if it was acknowledged.
        message: pattern of its message.
    """

    outcome: str
    attempts: int | None = None
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """The measured result of a cell.

    Attributes:
        held: whether the first operation's commit was held until the second's.
        anomalies: names, without those that only confirm another.
        allowed: anomalies that the table's level allows.
        run: the folder of the run that measured it, relative to the matrix's; None if it is not kept.
        undecided: checkers of that run that could not decide, so that anomalies may be missing.
        requests: how many commits the first operation asked the catalog for, the refused ones included; None: not recorded.
    """

    cell: Cell
    first: Ended
    second: Ended
    held: bool
    anomalies: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    run: str | None = None
    undecided: tuple[str, ...] = ()
    requests: int | None = None

    @property
    def as_predicted(self) -> bool:
        """Whether the prediction agrees (``checkers.conflicts.predicted.predict``), or there is none."""
        said = predicted.predict(self.cell)
        if said.outcome == "open":
            return True
        if self.second.outcome != "committed" or self.first.outcome != said.outcome:
            return False
        if None not in (self.requests, said.requests) and self.requests != said.requests:
            return False  # the same outcome, but found at another check
        return not said.reasons or any(r in (self.first.message or "") for r in said.reasons)

    @property
    def verdict(self) -> dict[str, Any]:
        """The values that two measurements must agree on."""
        return {
            "first": asdict(self.first),
            "second": asdict(self.second),
            "anomalies": sorted(self.anomalies),
            "allowed": sorted(self.allowed),
        }

    def to_json(self) -> dict[str, Any]:
        """For ``cells.jsonl``."""
        said = predicted.predict(self.cell)
        defaults = {f.name: f.default for f in fields(Cell) if f.default is not MISSING}
        return {
            "cell": {k: v for k, v in asdict(self.cell).items() if k not in defaults or v != defaults[k]},
            **self.verdict,
            "held": self.held,
            "predicted": {"outcome": said.outcome, "reasons": said.reasons, "source": said.source},
            "as_predicted": self.as_predicted,
            **({} if self.run is None else {"run": self.run}),
            **({"undecided": self.undecided} if self.undecided else {}),
            **({} if self.requests is None else {"requests": self.requests}),
        }

    @staticmethod
    def from_json(record: dict[str, Any]) -> Measured:
        """The inverse. Raises KeyError or TypeError for anything else."""
        return Measured(
            Cell(**record["cell"]),
            Ended(**record["first"]),
            Ended(**record["second"]),
            record["held"],
            tuple(record["anomalies"]),
            tuple(record["allowed"]),
            record.get("run"),
            tuple(record.get("undecided", ())),
            record.get("requests"),
        )


def read(path: Path) -> tuple[dict[str, Any], list[Measured]]:
    """Header and cells of a ``cells.jsonl``; a torn last line is left out.

    Raises:
        MatrixError: the file is not one.
    """
    try:
        lines = path.read_text().split("\n")
        header = json.loads(lines[0])
        if header.get("format") != FORMAT:
            raise ValueError(f"format {header.get('format')!r} is not known")
        return header, [Measured.from_json(json.loads(line)) for line in lines[1:-1] if line]
    except OSError as e:
        raise MatrixError(f"{path}: cannot be read: {e.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise MatrixError(f"{path}: not the cells of a matrix: {e}") from None


def differences(
    one: Sequence[Measured], other: Sequence[Measured]
) -> list[tuple[Cell, dict[str, Any], dict[str, Any]]]:
    """Cells in both matrices with different results, with both verdicts. What the catalogs compare may differ: a cell has no say in it."""
    theirs = {_anywhere(m.cell): m.verdict for m in other}
    both = [(m.cell, m.verdict, theirs.get(_anywhere(m.cell), m.verdict)) for m in one]
    return [found for found in both if found[1] != found[2]]


def _anywhere(cell: Cell) -> Cell:
    """The cell on any catalog."""
    return replace(cell, compares="requirements")
