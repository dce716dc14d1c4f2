"""What must hold of each commit of a log, at the isolation level of the table.

Serializable: some place between the scan and the commit explains the commit: there the operation means what it did, and the commits after it
mean what they did when it comes first. ConsistentRead, judged key by key in the order of the commits, is stronger and accuses legal logs: a
row is deleted with its partition and inserted again, and a DELETE that had scanned the old row commits last; it can come first. Snapshot
isolation also allows write skew: what the operation has read may have changed, but not the rows that it removes.

Rows have an identity, the commit that wrote them, so a value that was written again is not taken for the old one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from checkers.formats.iceberg.model.operations import Operation, Work, meaning
from checkers.formats.iceberg.model.table import Row, Table
from workloads.file.modelled import COMPACTION

DANGLING = "dangling-dv"
"""A deletion vector of a file that was gone when it was committed. In version 2 such position deletes are allowed, and delete nothing."""


def broken(
    versions: Sequence[Table],
    operations: Sequence[Operation],
    scan: int,
    done: Work,
    *,
    serializable: bool,
    format_version: int,
    partitions: int,
) -> str | None:
    """The name of the promise that the last commit breaks, as the checkers name it; None if it breaks none.

    Args:
        versions: version n is the table after commit n; the last one is that of the commit in question.
        operations: commit n is that of operation n - 1; the last one is the one in question.
        scan: the version that it has scanned.
        done: what it wrote.
    """
    *_, base, after = versions
    n, o = len(operations), operations[-1]
    changed = (base.rows - after.rows, after.rows - base.rows)
    if changed != meaning(o, base.rows, n, partitions) and not _explained(versions, operations, scan, partitions):
        found = _named(o, versions[scan], base, changed, n, partitions)
        if serializable or found != "write-skew":
            return found
    if format_version == 3:
        of = [d.data_file for d in after.deletes.values()]
        if len(of) != len(set(of)):
            return "several-dvs"
        if {d.data_file for d in done.deletes.values()} - set(base.files):
            return DANGLING
    return None


def _explained(versions: Sequence[Table], operations: Sequence[Operation], scan: int, partitions: int) -> bool:
    """Whether the last operation can come earlier, but not before its scan, with the same rows at the end."""
    n, last = len(operations), operations[-1]
    for place in range(scan, n - 1):
        rows = _after(versions[place].rows, last, n, partitions)
        for m in range(place, n - 1):
            rows = _after(rows, operations[m], m + 1, partitions)
        if rows == versions[-1].rows:
            return True
    return False


def _after(rows: Counter[Row], o: Operation, n: int, partitions: int) -> Counter[Row]:
    removed, added = meaning(o, rows, n, partitions)
    return rows - removed + added


def _named(
    o: Operation, scanned: Table, base: Table, changed: tuple[Counter[Row], Counter[Row]], n: int, partitions: int
) -> str:
    """The name of what no order explains."""
    removed, added = changed
    if o.kind == COMPACTION:
        return "compaction-changed-rows"
    wanted = meaning(o, scanned.rows, n, partitions)
    if changed == wanted:
        return "write-skew"
    left = meaning(o, base.rows, n, partitions)[0] - removed
    if removed - wanted[0]:
        return "lost-update"
    if added:
        return "duplicate-row" if left else "resurrected-row"
    return "undelete" if left else "write-skew"  # else another one had removed what it was to remove
