"""Do the names of side tables mean what they must while tables are created, dropped, renamed and appended to?

The object is what the names beside one table of the workload say: name → the operation that created the table, and the appends that it has
(:mod:`workloads.operations.side_tables`). Its calls must have an order that explains every answer (:func:`check_model`):

=============== ============================ ==========================================================================
call            needs                        effect
=============== ============================ ==========================================================================
``side-create`` no table of the name         an empty table, made by this operation
``side-drop``   nothing                      no table of the name (Spark acknowledges the drop that comes second, too)
``side-rename`` a table, and the other free  the same table under the other name
``side-append`` the table that was loaded    the append is in it
``side-read``   that very table, or none     none
=============== ============================ ==========================================================================

So without an order are: an acknowledged append that a drop or a rename loses, one that lands in a table made anew, a table that comes back, two
CREATE of one name that both succeed, and a name that shows what it showed before.

A statement that was refused took effect before the refusal, or never: a client that gets no answer may send its request again, and is then
refused because of itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.replace import replace
from checkers.linearizable.blackbox import check_model
from checkers.linearizable.calls import NEVER, Call, UnfitHistory, bounds
from checkers.linearizable.models import Model
from checkers.linearizable.result import LinearizableResult
from checkers.linearizable.search import Limits

KINDS_OF_NAMES = frozenset({"side-create", "side-drop", "side-rename", "side-append", "side-read"})
REFUSED = ", refused"


class TableNames(Model):
    """Tables by name. The state is the frozen set of (name, creator, appends), the newest append first.

    What a read showed: nothing, or the creator and the appends; last None, if the catalog does not list them all (Nessie lists one snapshot).
    """

    name = "table-names"

    def __init__(self) -> None:
        super().__init__(frozenset())

    def call(self, o: Operation, value: Any, result: Any) -> Call:
        start, end = bounds(o)
        seen: Any = None
        if o.type == "ok" and o.f in ("side-append", "side-read"):
            least, most = (1, 1) if o.f == "side-append" else (0, 1)
            if not isinstance(result, list) or not least <= len(result) <= most or not all(map(_named, result)):
                raise UnfitHistory(o.op, f"{o.f} has a result of another form: {result!r}")
            seen = tuple(result[0]) if result else ()
        return Call(o.op, o.process, o.f, (value["n"], value.get("to")), seen, o.f == "side-read", start, end)

    def step(self, state: Any, call: Call) -> Sequence[Any]:
        if call.f.endswith(REFUSED):
            return (state, *self.step(state, replace(call, f=call.f.removesuffix(REFUSED), end=NEVER)))
        n, to = call.value
        tables = {name: (creator, appends) for name, creator, appends in state}
        here = tables.get(n)
        if call.reads:
            there = () if here is None else (here[0], *here[1])
            seen = call.result
            same = (
                seen == there if None not in seen else len(seen) <= len(there) and seen[:-1] == there[: len(seen) - 1]
            )
            return (state,) if same else ()
        if call.f == "side-drop":
            tables.pop(n, None)
        elif call.f == "side-create":
            if here is not None:
                return ()
            tables[n] = (call.op, ())
        elif here is None:
            return ()
        elif call.f == "side-rename":
            if to in tables:
                return ()
            tables[to] = tables.pop(n)
        elif call.ok and call.result[0] != here[0]:
            return ()
        else:
            tables[n] = (here[0], (call.op, *here[1]))
        return (frozenset((name, *table) for name, table in tables.items()),)

    def kind(self, call: Call) -> Hashable | None:
        return None if call.f in ("side-create", "side-append") else (call.f, call.value)

    def size(self, state: Any) -> int:
        return 1 + sum(len(appends) for _, _, appends in state) // 32

    def describe(self, state: Any) -> str:
        if not isinstance(state, frozenset):
            return _told(state[0], [x or "older ones" for x in state[1:]]) if state else "no table"
        tables = (f"side{n}: {_told(by, appends)}" for n, by, appends in sorted(state, key=str))
        return "; ".join(tables) or "no table"

    def words(self, call: Call) -> str:
        n, to = call.value
        where = f"{call.f} of side{n}" + ("" if to is None else f" to side{to}")
        return f"{where}, which showed {self.describe(call.result)}" if call.reads else where


def judge_names(operations: Sequence[Operation], limits: Limits) -> LinearizableResult | None:
    """What :func:`check_model` says of the side tables of one table; None if there are no operations on any.

    Args:
        operations: all of the table; others than on side tables are left out.

    Raises:
        UnfitHistory: a result has another form.
    """
    own = [o for o in operations if o.f in KINDS_OF_NAMES and not (o.f == "side-read" and o.type != "ok")]
    refused = [replace(o, f=o.f + REFUSED, type="ok") if o.type == "fail" else o for o in own]
    return check_model(refused, TableNames(), limits=limits, keyed=False) if own else None


def _named(row: Any) -> bool:
    return (
        isinstance(row, list | tuple) and bool(row) and all(isinstance(x, str) for x in (row if row[-1] else row[:-1]))
    )


def _told(creator: str, appends: Sequence[str]) -> str:
    most = 3
    newest = f"{', '.join(appends[:most])}{'' if len(appends) <= most else f' and {len(appends) - most} before'}"
    return f"the table of {creator} with {f'the appends {newest}' if appends else 'no append'}"
