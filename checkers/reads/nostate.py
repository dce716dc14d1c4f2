"""Reads that equal no state of their table: named after what their rows are.

A value of an operation that never committed (``dirty-read``, Adya's G1a), a value that nobody wrote (``phantom-value``, "thin air"), or
rows of different states (``fractured-read``).
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property

from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.reads.bounds import ReadBounds
from checkers.timeline import explain
from checkers.timeline.states import rows_hash
from checkers.timeline.timeline import kind_of
from checkers.timeline.touched import touches
from checkers.verdict import Anomaly
from workloads.tables import Row

_MOST_EXPLAINED = 100
"""Fractured reads per table to compare with every possible state, to name the nearest."""


class NoState:
    """Names the reads of one table that equal none of its states; ``judge`` keeps the states and the findings."""

    def __init__(self, judge: ReadBounds) -> None:
        self._judge = judge
        self._t = judge.t
        self._fractures = 0

    @cached_property
    def _written(self) -> frozenset[Row]:
        """Every row that some commit in the log made."""
        return frozenset(r for r, (born, _) in self._lives.items() if born is not None)

    def found(self, o: Operation, rows: list[Row], key: int | None, floor: int, ceiling: int) -> Anomaly | None:
        """The anomaly of a read whose rows are no state of the table; None if a lost commit explains it, which another checker reports.

        ``floor``, ``ceiling``: the lowest and the highest position that it can have seen.
        """
        strange = [r for r in rows if r not in self._written]
        thin: list[Row] = []
        uncommitted: dict[str, Row] = {}
        lost: dict[str, Row] = {}
        for r in strange:
            for w in sorted({str(r.val), *str(r.log).split(",")}) + self._uncounted(o, r):
                x = self._t.everything.get(w)
                if x is None or x.table != self._t.name:
                    thin.append(r)
                elif not self._t.commits.get(w):
                    (lost if x.type == "ok" else uncommitted).setdefault(w, r)
        if thin:
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(thin)}, with a value that no operation on this "
                "table writes."
            )
            return self._judge.make("phantom-value", text, o, thin, key, [], [])
        if uncommitted:
            writers_ = [self._t.everything[w] for w in sorted(uncommitted)]
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(uncommitted[w.op] for w in writers_)}, "
                f"written by the {explain.listing(f'{explain.operation(w)}, {explain.outcome(w)}' for w in writers_)}: no snapshot of it "
                "was ever committed, so nobody may see it (Adya's G1a)."
            )
            return self._judge.make("dirty-read", text, o, list(uncommitted.values()), key, [], writers_)
        if lost:  # acknowledged, and no snapshot in the log: the commits checker reports the lost commit
            self._judge.vanished += 1
            return None
        if strange:
            text = f"the {explain.operation(o)}, {explain.outcome(o)}, returned {explain.rows(strange)}, which no commit ever made."
            return self._judge.make("phantom-value", text, o, strange, key, [], [])
        if key is None and (staged := self._staged(rows)) is not None:
            c = self._t.snapshots[staged]
            maker = self._t.everything.get(c.op or "")
            text = (
                f"the {explain.operation(o)}, {explain.outcome(o)}, returned the rows of {explain.snapshot(c)} of "
                f"{explain.maker(c, self._t.everything)}, which never was on main."
            )
            return self._judge.make("dirty-read", text, o, rows, key, [c], [maker])
        return self._fractured(o, rows, key, floor, ceiling)

    def _uncounted(self, read: Operation, row: Row) -> list[str]:
        """Increments that never committed and may have made the row: a counter does not show who wrote it.

        It changed a row that those had written who sign it. One that had failed before the last of them was invoked cannot have seen theirs.
        """
        assert read.completed is not None
        signed = (self._t.everything.get(w) for w in {str(row.val), *str(row.log).split(",")})
        named = max((w.invoked.index for w in signed if w is not None), default=-1)
        return [
            o.op
            for o in self._t.ops
            if (kind := kind_of(o)) is not None
            and kind.changes_rows
            and not (kind.signs or kind.deletes)
            and o.type != "ok"
            and not self._t.commits.get(o.op)
            and o.invoked.index < read.completed.index
            and not (o.type == "fail" and o.indices[-1] < named)
            and (about := touches(o, self._t.spec)) is not None
            and (about.ids == (row.id,) or about.among is None or row.part in about.among)
        ]

    def _staged(self, rows: list[Row]) -> int | None:
        h = rows_hash(rows)
        return next(
            (s for s, x in self._judge.states.of_snapshot.items() if x == h and s not in self._t.ever_current), None
        )

    def _fractured(self, o: Operation, rows: list[Row], key: int | None, floor: int, ceiling: int) -> Anomaly:
        text = (
            f"the {explain.operation(o)}, invoked at {explain.s(o.start)} and {explain.outcome(o)}, equals no state that the table ever "
            "had, though each of its rows was committed."
        )
        self._fractures += 1
        if self._fractures > _MOST_EXPLAINED:
            return self._judge.make("fractured-read", text, o, rows, key, [], [])
        p, more, less = self._nearest(Counter(rows), key, floor, ceiling)
        text += (
            f" The nearest possible state is {self._judge.state_words(p)}; compared with it, the read has {explain.rows(more)} too much and "
            f"lacks {explain.rows(less)}."
        )
        commits: list[Commit | None] = []
        for r in [*more, *less][: explain.MOST_IN_A_SENTENCE]:
            life = self._life(r)
            if life is not None:
                text += f" {explain.row(r)} was there {life}."
                commits += self._lives[r]
        makers = [self._t.everything.get(c.op or "") for c in commits if c is not None]
        return self._judge.make("fractured-read", text, o, [*more, *less], key, commits, makers)

    def _nearest(
        self, rows: Counter[Row], key: int | None, floor: int, ceiling: int
    ) -> tuple[int, list[Row], list[Row]]:
        """The position within the bounds that differs least from ``rows``, and the extra and missing rows compared with it."""
        off = Counter(rows)  # rows read minus rows of the state
        size = sum(off.values())
        best: tuple[int, int, list[Row], list[Row]] | None = None
        cursor: int | None = None
        for p in range(ceiling + 1):
            version = self._t.versions[p]
            if p in self._judge.states.unknown:
                continue
            for c, sign in self._judge.states.steps(cursor, version.snapshot):
                changes = self._t.changes(c)
                assert changes is not None
                for part, way in ((changes.added, -sign), (changes.removed, sign)):
                    for r in part:
                        if key is None or r.id == key:
                            size += abs(off[r] + way) - abs(off[r])
                            off[r] += way
            cursor = version.snapshot
            if p >= floor and (best is None or size <= best[0]):
                more = sorted((+off).elements(), key=str)
                best = size, p, more, sorted((+Counter({r: -n for r, n in off.items()})).elements(), key=str)
        return (best[1], best[2], best[3]) if best is not None else (floor, sorted(rows, key=str), [])

    @cached_property
    def _lives(self) -> dict[Row, list[Commit | None]]:
        """Row → the first commit that made it, and the first that removed it (None: no commit did)."""
        out: dict[Row, list[Commit | None]] = {}
        for c in self._t.log.commits:
            changes = self._t.changes(c)
            for r in changes.added if changes is not None else ():
                out.setdefault(r, [c, None])
            for r in changes.removed if changes is not None else ():
                life = out.setdefault(r, [None, None])
                life[1] = life[1] or c
        return out

    def _life(self, row: Row) -> str | None:
        """When a row was in the table: from which snapshot to which."""
        born, died = self._lives.get(row, (None, None))
        if born is None:
            return None
        text = f"from {explain.snapshot(born)} of {explain.maker(born, self._t.everything)}"
        until = "" if died is None else f"{explain.snapshot(died)} of {explain.maker(died, self._t.everything)}"
        return text + (f" until {until}" if until else " on")
