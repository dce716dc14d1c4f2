"""The results of a conflict matrix, one record per cell as in its file, and the differences of two measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from checkers.conflicts import predicted
from checkers.conflicts.predicted import MatrixCell
from checkers.evidence import journal
from checkers.evidence.journal import JournalFormat
from checkers.evidence.replace import replace


class MatrixError(ValueError):
    """A matrix cannot be continued or compared; the message is one line with a remedy."""


@dataclass(frozen=True, slots=True)
class OperationEnd:
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
class MeasuredResult:
    """The measured result of a cell.

    Attributes:
        held: whether the first operation's commit was held until the second's.
        anomalies: names, without those that only confirm another.
        allowed: anomalies that the table's level allows.
        run: the folder of the run that measured it, relative to the matrix's; None if it is not kept.
        undecided: checkers of that run that could not decide, so that anomalies may be missing.
        requests: how many commits the first operation asked the catalog for, the refused ones included; None: not recorded.
    """

    cell: MatrixCell
    first: OperationEnd
    second: OperationEnd
    held: bool
    anomalies: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    run: str | None = None
    undecided: tuple[str, ...] = ()
    requests: int | None = None

    @property
    def as_predicted(self) -> bool:
        """Whether the prediction agrees (``checkers.conflicts.predicted.predict``), or there is none."""
        prediction = predicted.predict(self.cell)
        if prediction.outcome == "open":
            return True
        if self.second.outcome != "committed" or self.first.outcome != prediction.outcome:
            return False
        if None not in (self.requests, prediction.requests) and self.requests != prediction.requests:
            return False  # the same outcome, but found at another check
        return not prediction.reasons or any(r in (self.first.message or "") for r in prediction.reasons)

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
        prediction = predicted.predict(self.cell)
        return {
            "cell": _cell(self.cell),
            **self.verdict,
            "held": self.held,
            "predicted": {"outcome": prediction.outcome, "reasons": prediction.reasons, "source": prediction.source},
            "as_predicted": self.as_predicted,
            **({} if self.run is None else {"run": self.run}),
            **({"undecided": self.undecided} if self.undecided else {}),
            **({} if self.requests is None else {"requests": self.requests}),
        }

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> MeasuredResult:
        """The inverse. Raises KeyError, TypeError or ValueError for anything else."""
        return MeasuredResult(
            _cell_of(record),
            journal.as_type(OperationEnd)(record["first"]),
            journal.as_type(OperationEnd)(record["second"]),
            record["held"],
            tuple(record["anomalies"]),
            tuple(record["allowed"]),
            record.get("run"),
            tuple(record.get("undecided", ())),
            record.get("requests"),
        )


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A cell that could not be measured.

    Attributes:
        could_not: why.
    """

    cell: MatrixCell
    could_not: str

    def to_json(self) -> dict[str, Any]:
        """For ``cells.jsonl``."""
        return {"cell": _cell(self.cell), "could_not": self.could_not}


def _cell(cell: MatrixCell) -> dict[str, Any]:
    defaults = {f.name: f.default for f in fields(MatrixCell) if f.default is not MISSING}
    return {k: v for k, v in asdict(cell).items() if k not in defaults or v != defaults[k]}


def _cell_of(record: Mapping[str, Any]) -> MatrixCell:
    return MatrixCell(
        **record["cell"]
    )  # a dimension that is not known makes it another cell: it must not be passed over


def _line(record: Mapping[str, Any]) -> MeasuredResult | NotMeasured:
    if "could_not" in record:
        return NotMeasured(_cell_of(record), str(record["could_not"]))
    return MeasuredResult.from_json(record)


_OPTIONS = {"catalog": "--catalog", "session": "--session", "cluster": "--cluster", "versions.iceberg": "--iceberg"}
CELLS = JournalFormat("a matrix", "a cell", _line, lambda x: x.to_json(), MatrixError, options=_OPTIONS)
"""``cells.jsonl``."""


@dataclass(frozen=True, slots=True)
class MeasuredCells:
    """What is known of the cells of a matrix; of a cell that was measured again the last line.

    Attributes:
        could_not: cell → why it could not be measured.
    """

    measured: Sequence[MeasuredResult]
    could_not: Mapping[MatrixCell, str]


def known(lines: Iterable[MeasuredResult | NotMeasured]) -> MeasuredCells:
    """What lines of a journal say."""
    last = {x.cell: x for x in lines}
    return MeasuredCells(
        [m for m in last.values() if isinstance(m, MeasuredResult)],
        {x.cell: x.could_not for x in last.values() if isinstance(x, NotMeasured)},
    )


def read(path: Path) -> tuple[dict[str, Any], MeasuredCells]:
    """Header and cells of a ``cells.jsonl``.

    Raises:
        MatrixError: the file is not one, or a line of it cannot be read.
    """
    header, lines = journal.read(path, CELLS)
    return header, known(lines)


def differences(
    first: Sequence[MeasuredResult], other: Sequence[MeasuredResult]
) -> list[tuple[MatrixCell, dict[str, Any], dict[str, Any]]]:
    """Cells in both matrices with different results, with both verdicts. What the catalogs compare may differ: a cell has no say in it."""
    verdicts = {_anywhere(m.cell): m.verdict for m in other}
    both = [(m.cell, m.verdict, verdicts.get(_anywhere(m.cell), m.verdict)) for m in first]
    return [found for found in both if found[1] != found[2]]


def _anywhere(cell: MatrixCell) -> MatrixCell:
    """The cell on any catalog."""
    return replace(cell, compares="requirements")
