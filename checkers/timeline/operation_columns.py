"""What checkers of a whole run need of its operations, as columns, so that a table's operations need not stay in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from checkers.evidence.history import Operation
from checkers.evidence.outcome import conflict_of
from workloads.operations.kinds import KINDS

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOT_COMPLETED = -1
"""In place of the index or the time of a completion that the history does not have."""
AROUND = ("setup", "final-reads")
"""Phases outside the workload."""


@dataclass(frozen=True)
class OperationColumns:
    """One entry for each operation.

    Attributes:
        name: a hash of its id, the same for equal ids in this process, those that were forked from it, and those with the same PYTHONHASHSEED.
        process: of the history.
        invoked, completed: indices of its events; :data:`NOT_COMPLETED` without a completion.
        start, ended: times of its events, ns; :data:`NOT_COMPLETED` without a completion.
        ok, failed: how it ended; an ``info`` is neither.
        measured: it is the workload's, and has a completion.
        writes: it can leave a snapshot.
        reads: its latency counts as a reader's.
        aborted: by a concurrent commit.
    """

    name: I64
    process: I64
    invoked: I64
    completed: I64
    start: I64
    ended: I64
    ok: Bools
    failed: Bools
    measured: Bools
    writes: Bools
    reads: Bools
    aborted: Bools

    @staticmethod
    def of(operations: Sequence[Operation]) -> OperationColumns:
        """The columns of operations.

        Raises:
            OverflowError: a number is beyond 64 bits.
            ValueError: a process has a name in place of a number, or a time is negative.
        """
        writing = {f: k.writes for f, k in KINDS.items()}
        reading = {f: not k.commits for f, k in KINDS.items()}
        ends = [o.completed for o in operations]
        start = np.array([o.invoked.time for o in operations], np.int64)
        found = OperationColumns(
            name=np.array([hash(o.op) for o in operations], np.int64),
            process=np.array([_number(o.process) for o in operations], np.int64),
            invoked=np.array([o.invoked.index for o in operations], np.int64),
            completed=np.array([NOT_COMPLETED if e is None else e.index for e in ends], np.int64),
            start=start,
            ended=np.array([NOT_COMPLETED if e is None else e.time for e in ends], np.int64),
            ok=np.array([o.type == "ok" for o in operations], np.bool_),
            failed=np.array([o.type == "fail" for o in operations], np.bool_),
            measured=np.array(
                [o.completed is not None and o.invoked.extra.get("phase") not in AROUND for o in operations], np.bool_
            ),
            writes=np.array([writing.get(o.f, False) for o in operations], np.bool_),
            reads=np.array([reading.get(o.f, False) for o in operations], np.bool_),
            aborted=np.array([o.error is not None and conflict_of(o) is not None for o in operations], np.bool_),
        )
        if start.min(initial=0) < 0 or min((e.time for e in ends if e is not None), default=0) < 0:
            raise ValueError("an event has a negative time")
        return found

    @staticmethod
    def all(parts: Sequence[OperationColumns]) -> OperationColumns:
        """Those of several tables, one after the other."""
        names = [f.name for f in fields(OperationColumns)]
        return OperationColumns(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})

    def ends(self, among: Bools) -> Counter[str]:
        """How operations ended → how many of those ``among``."""
        ok, failed = int((self.ok & among).sum()), int((self.failed & among).sum())
        return Counter({"ok": ok, "fail": failed, "info": int(among.sum()) - ok - failed})

    def ms(self, among: Bools) -> list[float]:
        """How long those ``among`` took that have a completion, ms."""
        ended = among & (self.ended >= 0)
        return ((self.ended - self.start)[ended] / 1e6).tolist()  # type: ignore[no-any-return]

    def pair_up(self) -> bool:
        """Whether ids are different, and each process invokes only what follows the end of its operation before; see ``history.pair``."""
        if len(np.unique(self.name)) < len(self.name):
            return False
        order = np.lexsort((self.invoked, self.process))
        process, invoked, completed = self.process[order], self.invoked[order], self.completed[order]
        free = (self.ok | self.failed)[order][:-1] & (completed[:-1] < invoked[1:])
        return bool((free | (process[1:] != process[:-1])).all())


def _number(process: int | str) -> int:
    if type(process) is not int:
        raise ValueError("a process has a name")
    return process
