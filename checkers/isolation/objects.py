"""What a table's operations read and change: *objects*, such as an id or a partition.

=============== ============================================= =============================================================
object          changes when a commit …                       is read by
=============== ============================================= =============================================================
id 7            adds or removes a row of id 7                 statements by key, read-key
is id 7 there   makes the first or removes the last such row  MERGE with only an insert clause
part 2          adds or removes a row of partition 2          delete-partition, overwrites
part 2, odd     … that has an odd ``cnt``                     …-where (predicates)
everything      … any row                                     read, replace-table, overwrites without partitions
=============== ============================================= =============================================================
"""

from __future__ import annotations

from collections import Counter

from checkers.evidence.history import Operation
from checkers.timeline.netrows import NetRows
from checkers.timeline.timeline import kind_of
from checkers.timeline.touched import touches
from workloads.tables import State, TableSpec

Thing = tuple[str | int, ...]
"""An object: ``("id", 7)``, ``("there", 7)``, ``("part", 2)``, ``("where", 2, 1)``, ``("all",)``."""


def touched(changes: NetRows, before: State) -> dict[Thing, bool]:
    """The objects that a commit changed, and whether it changed or removed existing rows; ``before``: the state before the commit."""
    out: dict[Thing, bool] = {}
    for rows, existing in ((changes.removed, True), (changes.added, False)):
        for r in rows:
            where: list[Thing] = [("id", r.id), ("part", r.part), ("all",)]
            if isinstance(r.cnt, int):
                where.append(("where", r.part, r.cnt % 2))
            for thing in where:
                out[thing] = existing or out.get(thing, False)
    count: Counter[int] = Counter(r.id for r in changes.added)
    count.subtract(Counter(r.id for r in changes.removed))
    for id, more in count.items():
        count_before = len(before.by_id(id))
        if (count_before > 0) != (count_before + more > 0):
            out[("there", id)] = count_before > 0
    return out


def scanned(o: Operation, table: TableSpec) -> list[Thing]:
    """The objects that an operation reads, by its arguments; none for one whose arguments say nothing of it (as of an insert)."""
    kind, about = kind_of(o), touches(o, table)
    if kind is None or about is None or kind.means_the_same_everywhere:
        return []
    if about.whole:
        return [("all",)]
    if about.parts:
        return [("part", p) for p in sorted(about.parts)]
    if about.predicate is not None:
        return [("where", *about.predicate)]
    if about.copied_from is not None:
        return [("id", about.copied_from)]
    return [("there" if about.only_absence else "id", i) for i in about.ids]


def words(thing: Thing) -> str:
    """An object, in words."""
    kind, *rest = thing
    return {
        "id": "id {0}",
        "there": "whether id {0} is there",
        "part": "partition {0}",
        "where": "what matches part = {0} and cnt % 2 = {1}",
        "all": "the whole table",
    }[str(kind)].format(*rest)
