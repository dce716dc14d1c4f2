"""What must hold of each commit of a log, at the isolation level of the table.

Serializable: some order of the operations explains the log: there each means what it did, and comes after the commits that it has scanned.
ConsistentRead, judged key by key in the order of the commits, is stronger and accuses legal logs: a row is deleted with its partition and
inserted again, and a DELETE that had scanned the old row commits last; it can come first. Snapshot isolation also allows write skew: what
the operation has read may have changed, but not the rows that it removes.

Rows have an identity, the commit that wrote them, so a value that was written again is not taken for the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.formats.iceberg.model.operations import ModelOperation, Work, meaning
from checkers.formats.iceberg.model.table import Row, TableVersion
from workloads.file.modelled import REWRITE_KINDS

DANGLING = "dangling-dv"
"""A deletion vector of a file that is gone. In version 2 such position deletes are allowed, and delete nothing."""


def broken(
    versions: Sequence[TableVersion],
    operations: Sequence[ModelOperation],
    scans: Sequence[int],
    done: Work,
    *,
    serializable: bool,
    format_version: int,
    partitions: int,
    numbers: Sequence[int] = (),
) -> str | None:
    """The name of the promise that the last commit breaks, as the checkers name it; None if it breaks none.

    Args:
        versions: version n is the table after commit n; the last one is that of the commit in question.
        operations: commit n is that of operation n - 1; the last one is the one in question.
        scans: the version that each has scanned.
        done: what it wrote.
        numbers: the number of each commit, by which its rows are named; by default 1, 2, ….
    """
    *_, base, after = versions
    o, n = operations[-1], numbers[-1] if numbers else len(operations)
    changed = (base.rows - after.rows, after.rows - base.rows)
    orders = _Orders(versions, operations, scans, partitions, numbers or range(1, n + 1))
    if changed != meaning(o, base.rows, n, partitions) and not any(orders.of(len(operations))):
        found = _named(o, versions[scans[-1]], base, changed, n, partitions)
        if serializable or found != "write-skew":
            return found
    return of_vectors(base, after) if format_version == 3 else None


def of_vectors(base: TableVersion, after: TableVersion) -> str | None:
    """The promise about deletion vectors that a commit on ``base`` breaks."""
    covered = [d.data_file for d in after.deletes.values()]
    if len(covered) != len(set(covered)):
        return "several-dvs"
    return DANGLING if _dangling(after) - _dangling(base) else None


def _dangling(v: TableVersion) -> set[str]:
    return {name for name, d in v.deletes.items() if d.data_file not in v.files}


@dataclass(frozen=True)
class _Orders:
    """Orders of a log's operations in which each means what it did; see :func:`broken` for the attributes."""

    versions: Sequence[TableVersion]
    operations: Sequence[ModelOperation]
    scans: Sequence[int]
    partitions: int
    numbers: Sequence[int]

    def of(self, n: int) -> Iterator[tuple[int, ...]]:
        """Those of the first n operations, the order of the commits first. Each operation comes after the commits that it has scanned."""
        if not n:
            yield ()
            return
        found = False
        for order in self.of(n - 1):
            for place in range(len(order), self._first(order, self.scans[n - 1]) - 1, -1):
                tried = (*order[:place], n - 1, *order[place:])
                if self._rows(tried) == self.versions[n].rows:
                    found = True
                    yield tried
        if not found and n < len(self.operations):  # allowed by the level: it did what it did where it committed
            yield from ((*order, ~(n - 1)) for order in self.of(n - 1))

    def _first(self, order: tuple[int, ...], scanned: int) -> int:
        return max((place for place, m in enumerate(order, 1) if max(m, ~m) < scanned), default=0)

    def _rows(self, order: tuple[int, ...]) -> Counter[Row]:
        """The rows at the end of an order; an operation that no order explains has the number ``~m``."""
        rows = self.versions[0].rows
        for m in order:
            if m >= 0:
                removed, added = meaning(self.operations[m], rows, self.numbers[m], self.partitions)
            else:
                was, now = self.versions[~m].rows, self.versions[~m + 1].rows
                removed, added = was - now, now - was
            rows = rows - removed + added
        return rows


def _named(
    o: ModelOperation,
    scanned: TableVersion,
    base: TableVersion,
    changed: tuple[Counter[Row], Counter[Row]],
    n: int,
    partitions: int,
) -> str:
    """The name of what no order explains."""
    removed, added = changed
    if o.kind in REWRITE_KINDS:
        return "compaction-changed-rows"
    wanted = meaning(o, scanned.rows, n, partitions)
    if changed == wanted:
        return "write-skew"
    rest = meaning(o, base.rows, n, partitions)[0] - removed
    if removed - wanted[0]:
        return "lost-update"
    if added:
        return "duplicate-row" if rest else "resurrected-row"
    return "undelete" if rest else "write-skew"  # else another one had removed what it was to remove
