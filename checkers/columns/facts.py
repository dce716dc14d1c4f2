"""What kinds of operations do to rows, as columns: one flag per kind, by its number in a frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from workloads.operations.kind import Kind
from workloads.operations.kinds import KINDS

Bools = npt.NDArray[np.bool_]


def keeps_rows(kind: Kind) -> bool:
    """Whether an operation of the kind neither changes rows nor returns any, so that its arguments do not matter here."""
    return kind.commits and not kind.changes_rows and not kind.replaces


@dataclass(frozen=True)
class KindFacts:
    """For each of a frame's kinds whether …

    Attributes:
        known: this version knows it.
        by_facts: its facts define its effect on rows, or it has none.
        writes, dml: it can leave a snapshot; it leaves exactly one if acknowledged.
        sets_val, counts, appends: it updates that column of the rows that it touches.
        removes: it removes or replaces the rows that it touches.
        inserts, if_absent: it makes a row for each of its ids; only for absent ids.
        reads, travels: it returns the rows that it touches; as of an older snapshot.
    """

    known: Bools
    by_facts: Bools
    writes: Bools
    dml: Bools
    sets_val: Bools
    counts: Bools
    appends: Bools
    removes: Bools
    inserts: Bools
    if_absent: Bools
    reads: Bools
    travels: Bools

    @property
    def updates(self) -> Bools:
        """It updates any column of the rows that it touches."""
        return self.sets_val | self.counts | self.appends

    @staticmethod
    def of(names: Sequence[str]) -> KindFacts:
        """The facts of kinds by name."""
        kinds = [KINDS.get(n) for n in names]

        def each(fact: Callable[[Kind], bool]) -> Bools:
            return np.array([k is not None and fact(k) for k in kinds], np.bool_)

        return KindFacts(
            known=each(lambda k: True),
            by_facts=each(lambda k: k.by_facts or keeps_rows(k)),
            writes=each(lambda k: k.writes),
            dml=each(lambda k: k.writes and (k.changes_rows or k.replaces)),
            sets_val=each(lambda k: "val" in k.sets),
            counts=each(lambda k: "cnt" in k.sets),
            appends=each(lambda k: "log" in k.sets),
            removes=each(lambda k: bool(k.sets) or k.deletes),
            inserts=each(lambda k: k.inserts in ("new", "absent")),
            if_absent=each(lambda k: k.inserts == "absent"),
            reads=each(lambda k: k.verb == "read" and k.by_facts and not k.travels),
            travels=each(lambda k: k.travels and k.by_facts),
        )
