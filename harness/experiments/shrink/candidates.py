"""What can be taken away from a recording: tables, writers, operations, faults and rows. Pure.

A candidate is always plain: one phase, no writer and no table without an operation, and nothing in its workload that only a random run
needs (rate, expectations, a schedule of faults). Ids of operations stay those of the recorded run, as labels.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import pairwise

from checkers.evidence.replace import replace
from checkers.timeline.two_tables import second_of
from harness.experiments.shrink.reduction import Pass
from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment
from reports.shrunk import Size
from workloads.engines.engines import ENGINES
from workloads.file.recording import RecordedFault, RecordedOperation, Recording
from workloads.file.workload import Length, Nemesis, OperationSpec

NEMESIS = "nemesis"
"""The phase of the nemesis's own operations."""
PHASE = "main"
FEW_ROWS = 32
"""Seed rows that are taken away one at a time; more of them in parts that double."""


def tables_of(o: RecordedOperation) -> tuple[str, ...]:
    """The tables of an operation, its own first."""
    second = second_of(o.f, dict(o.value))
    return (o.table,) if second is None else (o.table, second)


def measure(r: Recording) -> Size:
    """How much a recording is."""
    ids = sum(len(i) for o in r.operations if isinstance(i := o.value.get("ids"), list | tuple))
    used = {t for o in r.operations for t in tables_of(o)}
    return Size(
        len(r.operations),
        len({o.writer for o in r.operations}),
        len(used),
        sum(max(1, len(f.struck)) for f in r.faults),
        ids + sum(t.seed_rows for t in r.workload.tables if t.name in used),
    )


def key(r: Recording) -> str:
    """What names a candidate in the log: equal recordings have equal keys."""
    return hashlib.sha256(r.to_json().encode()).hexdigest()[:16]


def realigned(r: Recording) -> Recording:
    """The recording without the attempts to commit that nobody refuses any more.

    Where an operation that won against another one goes, the other one's first attempt is no longer refused: it would commit there, and not
    where it did commit. So the attempt goes, and the load that it was based on; the attempt after it stands in its place. An attempt
    stays if somebody else commits to its table between that load and it, or if a fault struck the operation.
    """
    places: dict[str, list[int]] = {}
    for i, m in enumerate(r.order):
        places.setdefault(m.op, []).append(i)
    last = {m.op: i for i, m in enumerate(r.order) if m.kind == "commit"}
    tables = {o.op: {*tables_of(o)} for o in r.operations}
    struck = {m.op for f in r.faults for m in f.struck}
    strikes = {m for f in r.faults for m in f.struck}
    won = {i for i, m in enumerate(r.order) if last.get(m.op) == i or (m.kind == "commit" and m in strikes)}
    dropped: set[int] = set()
    for op, own in places.items():
        if op in struck or len(tables[op]) > 1:
            continue
        for place in [i for i in own if r.order[i].kind == "commit"][:-1]:
            loads = [i for i in own if i < place and r.order[i].kind == "load" and i not in dropped]
            if not loads:
                continue
            others = (r.order[i] for i in range(loads[-1] + 1, place) if i in won)
            if any(m.op != op and tables[op] & tables[m.op] for m in others):
                continue
            following = next(i for i in own if i > place and r.order[i].kind == "commit")
            repeated = [i for i in own if place < i < following]
            dropped |= {place, *(loads[-1:] if len(loads) > 1 and repeated else repeated)}
    if not dropped:
        return r
    changed = {r.order[i].op for i in dropped}
    seen: Counter[tuple[str, str, str]] = Counter()
    new: dict[Moment, Moment] = {}
    order: list[Moment] = []
    for i, m in enumerate(r.order):
        if i in dropped:
            new[m] = order[-1] if order else m
            continue
        if m.op in changed:
            seen[m.op, m.service, m.kind] += 1
            new[m] = replace(m, nth=seen[m.op, m.service, m.kind])
        order.append(new.get(m, m))
    faults = tuple(replace(f, after=None if f.after is None else new.get(f.after, f.after)) for f in r.faults)
    return replace(r, order=tuple(order), faults=faults)


def plain(r: Recording) -> Recording | None:
    """The recording as a candidate; None if no operation is left."""
    r = realigned(r)
    own = [o for o in r.operations if o.phase != NEMESIS]
    if not own:
        return None
    used = sorted({o.writer for o in own})
    engines = [r.workload.engines[n] for n in used]
    tables = {t for o in r.operations for t in tables_of(o)}
    specs = tuple(t for t in r.workload.tables if t.name in tables)
    if not any(ENGINES[e].can("insert", t) for e in engines for t in specs):  # who would fill the tables?
        able = [n for n, e in enumerate(r.workload.engines) if any(ENGINES[e].can("insert", t) for t in specs)]
        used = sorted({*used, *able[:1]})
    number = {n: i for i, n in enumerate(used)}
    number[r.workload.writers] = len(used)  # the nemesis's own
    kinds = dict.fromkeys(o.f for o in own)
    faults = tuple(replace(f, target=_renamed(f, number)) for f in r.faults)
    workload = r.workload.model_copy(
        update={
            "tables": specs,
            "engines": tuple(r.workload.engines[n] for n in used),
            "length": Length(ops=len(own)),
            "rate": None,
            "operations": {kind: OperationSpec() for kind in kinds},
            "phases": (),
            "nemesis": Nemesis(faults=tuple(_planned(f.fault) for f in faults)) if faults else None,
            "clocks": {number[n]: shift for n, shift in r.workload.clocks.items() if n in number},
            "expect": (),
            "allow": (),
            "stop_when": None,
            "order": None,
            "assertions": {},
        }
    )
    operations = tuple(
        replace(o, writer=number[o.writer], phase=o.phase if o.phase == NEMESIS else PHASE) for o in r.operations
    )
    return replace(r, workload=workload, operations=operations, faults=faults)


def _planned(fault: Fault) -> Fault:
    """A fault as the plan of a replay has it: which requests or processes it strikes, the recording says."""
    fields = fault.plain()
    return Fault.model_validate(
        {k: v for k, v in fields.items() if k not in ("writers", "whose", "nth", "after", "times")}
    )


def _renamed(f: RecordedFault, number: dict[int, int]) -> str | None:
    """The target of a fault, if it is a writer's driver with the writer's new number."""
    found = re.fullmatch(r"w(\d+)(\.\d+)?", f.target or "")
    if found is None or f.fault.target != "driver":
        return f.target
    return f"w{number.get(int(found[1]), int(found[1]))}{found[2] or ''}"


def only(r: Recording, ops: Collection[str]) -> Recording | None:
    """The candidate with these operations; None if it has none."""
    return plain(r.only(ops))


# -- the passes ------------------------------------------------------------------------------------------------------


def _tables(r: Recording) -> Sequence[Hashable]:
    return list(dict.fromkeys(o.table for o in r.operations))


def _without_tables(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    return only(r, [o.op for o in r.operations if {*removed}.isdisjoint(tables_of(o))])


def _writers(r: Recording) -> Sequence[Hashable]:
    """The first operation of each writer stands for the writer, whose number changes."""
    return list({o.writer: o.op for o in reversed(r.operations)}.values())


def _writer_of(r: Recording) -> dict[Hashable, int]:
    return {o.op: o.writer for o in r.operations}


def _without_writers(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    writer_of = _writer_of(r)
    writers = {writer_of[op] for op in removed}
    return only(r, [o.op for o in r.operations if o.writer not in writers])


def _operations(r: Recording) -> Sequence[Hashable]:
    return [o.op for o in r.operations]


def _without_operations(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    return only(r, [o.op for o in r.operations if o.op not in removed])


def _strikes(r: Recording) -> Sequence[Hashable]:
    """What faults struck: each request by itself; a fault that is not of requests as a whole."""
    return [(i, m) for i, f in enumerate(r.faults) for m in (f.struck or (None,))]


def _without_strikes(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    """The operations of the nemesis go with their fault."""
    faults: list[RecordedFault] = []
    ops = {o.op for o in r.operations}
    for i, f in enumerate(r.faults):
        struck = tuple(m for m in f.struck if (i, m) not in removed)
        if struck or (not f.of_requests and (i, None) not in removed):
            faults.append(replace(f, struck=struck))
        elif f.target in ops:
            ops.discard(f.target)
    rest = replace(r, faults=tuple(faults))
    return plain(rest.only(ops))


def _merged(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    """The operations of some writers are invoked by others, each set by one that does nothing at the same time; None if there is none."""
    writer_of = _writer_of(r)
    for op in removed:
        found = next(_moved(r, writer_of[op]), None)
        if found is None:
            return None
        r = found
        writer_of = _writer_of(r)
    return plain(r)


def _moved(r: Recording, writer: int) -> Iterator[Recording]:
    """The recording with one writer's operations invoked by another one, for each that can."""
    if any(o.phase == NEMESIS and o.writer == writer for o in r.operations) or writer in r.workload.clocks:
        return
    if any((f.target or "").partition(".")[0] == f"w{writer}" for f in r.faults):
        return
    places: dict[str, list[int]] = {}
    for i, m in enumerate(r.order):
        places.setdefault(m.op, []).append(i)
    for other in sorted({o.writer for o in r.operations if o.phase != NEMESIS} - {writer}):
        if r.workload.engines[other] != r.workload.engines[writer] or other in r.workload.clocks:
            continue
        both = [o.op for o in r.operations if o.writer in (writer, other)]
        if any(op not in places for op in both):
            continue
        if all(places[a][-1] < places[b][0] for a, b in pairwise(both)):
            operations = {*both}
            yield replace(
                r,
                operations=tuple(
                    replace(o, writer=other, after=tuple(a for a in o.after if a not in operations))
                    if o.op in operations
                    else o
                    for o in r.operations
                ),
            )


def _ids(r: Recording) -> Sequence[Hashable]:
    """The ids that operations with several of them name."""
    found = []
    for o in r.operations:
        ids = o.value.get("ids")
        if isinstance(ids, list | tuple) and len(ids) > 1:
            found += [(o.op, i) for i in dict.fromkeys(ids)]
    return found


def _without_ids(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    operations = []
    for o in r.operations:
        ids = o.value.get("ids")
        if isinstance(ids, list | tuple) and any((o.op, i) in removed for i in ids):
            rest = [i for i in ids if (o.op, i) not in removed]
            if not rest:
                return None
            o = replace(o, value={**o.value, "ids": rest})
        operations.append(o)
    return replace(r, operations=tuple(operations))


def _seeds(r: Recording) -> Sequence[Hashable]:
    """The seed rows of each table, in parts that begin at these numbers of rows."""
    found = []
    for t in r.workload.tables:
        steps = [*range(min(t.seed_rows, FEW_ROWS))]
        step = FEW_ROWS
        while step < t.seed_rows:
            steps.append(step)
            step *= 2
        found += [(t.name, n) for n in steps]
    return found


def _without_seeds(r: Recording, removed: Collection[Hashable]) -> Recording | None:
    """Only the last rows of a table can go, because its seed rows are numbered from 0."""
    parts = _seeds(r)
    tables = []
    for t in r.workload.tables:
        own = [p for p in parts if isinstance(p, tuple) and p[0] == t.name]
        rest = [p for p in own if p not in removed]
        if rest != own[: len(rest)]:
            return None
        if len(rest) < len(own):
            first = own[len(rest)]
            assert isinstance(first, tuple)
            t = t.model_copy(update={"seed_rows": first[1]})
        tables.append(t)
    return replace(r, workload=r.workload.model_copy(update={"tables": tuple(tables)}))


PASSES: tuple[Pass[Recording], ...] = (
    Pass("table", _tables, _without_tables, least=1),
    Pass("writer with its operations", _writers, _without_writers, least=1),
    Pass("operation", _operations, _without_operations, least=1),
    Pass("fault", _strikes, _without_strikes),
    Pass("writer", _writers, _merged, least=1),
    Pass("row of an operation", _ids, _without_ids),
    Pass("seed row", _seeds, _without_seeds),
)
"""The coarse ones first: what is left then is cheap to try."""
