"""What to do now about a table that an anomaly has harmed: only what the run's own evidence says is possible.

Whether a file is there, the table log says: it was compared with the store when the run ended (``TableLog.missing_files``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from checkers.evidence.history import Operation
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit, Metadata, Row, TableLog
from checkers.judge.repairsteps import ALONE, MOST_NAMED, Repair, RepairStep
from checkers.names import Harm, meaning
from checkers.prevention import NOTHING_WRONG
from checkers.timeline import explain
from workloads.operations.kinds import KINDS


def repair(
    name: str,
    log: TableLog | None,
    operations: Mapping[str, Operation],
    ops: Sequence[str],
    keys: Sequence[int],
    *,
    unreadable: bool,
    engine: str = "",
    keys_of: Mapping[str, Sequence[int]] | None = None,
    repeats: Sequence[str] = (),
    came_back: Sequence[Row] = (),
) -> list[RepairStep]:
    """What to do now; nothing if the evidence does not say.

    Args:
        name: of the story.
        ops: whose commits are lost, or that did it.
        keys: ids of the rows.
        keys_of: operation → those that are its own; None: all are.
        unreadable: nobody can read the table any more.
        engine: that did it; empty for none.
        repeats: files that repeat a table's log and say something else (:data:`REPEATS`).
        came_back: the rows of a ``resurrected-row``; empty: nobody can say.
    """
    steps = [*_steps(name, log, operations, ops, keys, unreadable=unreadable, engine=engine, keys_of=keys_of)]
    if name == "resurrected-row" and (sql := _deletes(log, came_back)):
        of = ("{card} shows them whole, for other rows may have these ids.", "{sql}")
        steps = [replace(s, text=s.text.replace(*of), sql=(sql,)) if s.does is Repair.REMOVE else s for s in steps]
    if repeats and log is not None and log.metadata and log.metadata[0].n == 0:
        steps = [] if name in REPEATS else steps
        text = _REPEATED + (_LAST if any(".checkpoint" in f for f in repeats) else "")
        files = explain.listing([f"`{f}`" for f in repeats], MOST_NAMED)
        steps.insert(0, RepairStep(text.replace("{files}", files), Repair.MOVE, tables=(log.table,)))
    means = meaning(name)
    harmed = unreadable or means is None or means.harm is not Harm.METADATA
    if any(s.does is Repair.MOVE or (harmed and s.does is not Repair.LEAVE) for s in steps):
        steps.insert(0, RepairStep(_STOP, Repair.STOP, tables=(log.table,) if log is not None else ()))
    return steps


REPEATS = frozenset({"checkpoint-unlike", "compacted-unlike", "checksum-unlike"})
"""Anomalies of files that repeat what the versions of a table say; their own files are those."""
_REPEATED = (
    "Move {files} out of the log of {tables}, before anybody writes on, if every version from 0 on is still there: what such a file repeats is "
    "not what the versions say, and they can be read without it."
)
_LAST = " If `_last_checkpoint` names it, remove that, too."
_STOP = (
    "Stop the writers of {tables}, and the maintenance, which could remove files that are needed here, until all is done and it cannot happen "
    "again (see “avoid it”)."
)


def _steps(
    name: str,
    log: TableLog | None,
    operations: Mapping[str, Operation],
    ops: Sequence[str],
    keys: Sequence[int],
    *,
    unreadable: bool,
    engine: str,
    keys_of: Mapping[str, Sequence[int]] | None,
) -> Iterator[RepairStep]:
    rows = tuple((log.table if log is not None else "", k) for k in keys)
    if unreadable and log is not None and last_readable(log) is not None:
        yield RepairStep(_RESTORE, Repair.RESTORE)
        yield from _set_back(log, operations)
    if name == "lost-commit":
        yield from _again(log, operations, {op: keys if keys_of is None else keys_of.get(op, ()) for op in ops})
    elif name == "false-failure" and not unreadable:
        yield RepairStep("Do not run {ops} again: the table has {its} rows.", Repair.LEAVE, tuple(ops))
    elif name == "undelete":
        yield from _undeleted(log, operations, {op: keys if keys_of is None else keys_of.get(op, keys) for op in ops})
    elif name in _ROWS:
        text, does = _ROWS[name]
        otherwise = f", by another engine than {engine}" if engine else ""
        yield RepairStep(text.replace("{otherwise}", otherwise), does, tuple(ops), rows)
    elif name == "missing-file" and not unreadable and log is not None and (found := last_readable(log)) is not None:
        if found[1] is log.metadata[-1]:
            refs: Mapping[str, int] = getattr(found[1], "refs", {})
            named = [name for name, s in refs.items() if s in _gone(log)]
            text = _OF_REFS.replace("{refs}", explain.listing(named)) if named else _OLDER
            yield RepairStep(text, tables=(log.table,))
            yield from _not_there(log, operations, ops)
            return
        yield RepairStep(_RESTORE, Repair.RESTORE)
        yield from _set_back(log, operations)
    elif name in _BY_HAND and log is not None and not unreadable and keys:
        sql = f"SELECT * FROM {log.table} WHERE id IN ({', '.join(map(str, keys[:_MOST_LOOKED_AT]))})"
        text = _COMPARE + _there_now(log, keys)
        yield RepairStep(text, Repair.REMOVE, tuple(ops), rows, (log.table,), sql=(sql,))
    elif not unreadable and (means := meaning(name)) is not None and means.repair:
        does = Repair.SET_BACK if means.harm is Harm.UNREADABLE else Repair.REWRITE
        does = Repair.LEAVE if means.repair is NOTHING_WRONG else does
        yield RepairStep(means.repair, does, tables=(log.table,) if log is not None else ())


_RESTORE = (
    "If you have a backup (a store that keeps versions is one): restore the files whose names are on {card}, and do not go back. What was "
    "reported as failed is in the table then: do not run it again."
)
_OF_REFS = (
    "Main of {tables} can be read; {refs} (branches or tags) and time travel need the files that are gone, whose names are on {card}. Restore "
    "them if the store keeps versions; else drop these references, and expire their snapshots."
)
_OLDER = (
    "{tables} can be read; only time travel to the snapshots on {card} needs the files that are gone. Restore them if the store keeps "
    "versions; else expire these snapshots."
)

_MOST_LOOKED_AT = 500
"""Ids that a statement names."""
_BY_HAND = frozenset({"lost-update", "stale-scan", "write-skew"})
"""Names of rows that were computed without another write: which of them are right, only their owner knows."""
_COMPARE = (
    "Look at these rows{ids}, by {sql}, and compare them with what {ops} and the writes before {it} were to leave; {card} has the statements. "
    "Mend by hand what is in no order of the statements: a value, or an id that is there too often."
)

_ROWS: Mapping[str, tuple[str, Repair]] = {
    "resurrected-row": (
        "Delete the rows that came back{ids}{otherwise}, by all their columns: {card} shows them whole, for other rows may have these ids.",
        Repair.REMOVE,
    ),
    "duplicate-commit": ("Remove what {ops} wrote a second time{ids}.", Repair.REMOVE),
    "duplicate-row": ("Remove the second copy of each row{ids}.", Repair.REMOVE),
}
"""Name → what mends its rows: what is in the table says that it is so."""


def _gone(log: TableLog) -> frozenset[int]:
    """The snapshots of which the store has lost a file."""
    return frozenset(s for f in log.missing_files for s in f.snapshots)


def _set_back(log: TableLog, operations: Mapping[str, Operation]) -> Iterator[RepairStep]:
    """To which state the table can be set back, and what is not in that one."""
    found = last_readable(log)
    if found is None:
        return
    c, m = found
    of = format_of(log)
    rows = _rows(log, c)
    has = f", which has {explain.count(rows, 'row')}" if rows is not None else ""
    state = f"the last readable state of {log.table}, snapshot {c.snapshot_id} ({c.label}{has})"
    yield RepairStep(f"Go back to {state}: {of.set_back(c, m, log.identifier)}.", Repair.SET_BACK, back=True)
    if of.set_back_note:
        yield RepairStep(of.set_back_note, Repair.MOVE, tables=(log.table,), back=True)
    since = [*_since(log, c)]
    began = operations[c.op].start if c.op is not None and c.op in operations else 0
    altered = [
        o.op
        for o in operations.values()
        if o.table == log.table and o.type == "ok" and o.f in KINDS and KINDS[o.f].verb == "alter"
        if o.end is not None and o.end > began
    ]
    ops = [x.op for x in since if x.op is not None]
    kept = tuple(op for op in ops if op in operations and operations[op].type == "ok")
    others = tuple(op for op in ops if op not in kept)
    if altered:
        yield RepairStep(_ALTERED, Repair.REDO, tuple(altered), tables=(log.table,), back=True)
    if kept:
        yield RepairStep(_KEPT, Repair.REDO, kept, tables=(log.table,), back=True)
    if unnamed := sum(x.op is None for x in since):
        yield RepairStep(f"{_UNNAMED} ({log.table}: {explain.count(unnamed, 'commit')}).", Repair.REDO, back=True)
    if others:
        none_lost = "" if kept or altered or unnamed else _NONE_KEPT
        yield RepairStep(none_lost + _OTHERS, Repair.REDO, others, tables=(log.table,), back=True)


_ALTERED = "Look whether {tables} still has what {ops} changed in its schema or settings; {statements} on {card}."
_UNNAMED = "Do again what writers did that icequake does not know"
_KEPT = "What {ops} did, acknowledged, is not in {tables} then: run {it} again{order}; {statements} on {card}."
_NONE_KEPT = "No acknowledged commit is lost by going back. "
_OTHERS = "{ops}: not acknowledged, and not there once you have gone back; run {it} again only if you still want {its} effect."
_UNMADE = "{ops}: not acknowledged, and not there; run {it} again only if you still want {its} effect."


def last_readable(log: TableLog) -> tuple[Commit, Metadata] | None:
    """The last state of main all of whose files are in the store, and the version of the table that has it; None: nobody knows."""
    commits, gone = log.by_snapshot(), _gone(log)
    away = {p.file for p in log.problems if p.code == "missing-metadata"}
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    for m in reversed(log.metadata):
        c = commits.get(m.current) if m.current is not None else None
        if c is not None and c.snapshot_id in listed - gone and m.location not in away:
            return c, m
    return None


def _ancestry(log: TableLog, snapshot: int | None) -> dict[int, Commit]:
    """A snapshot and those that it stands on, as far as they are known."""
    commits, found = log.by_snapshot(), dict[int, Commit]()
    while snapshot is not None and snapshot in commits and snapshot not in found:
        found[snapshot] = commits[snapshot]
        snapshot = commits[snapshot].parent_id
    return found


def _since(log: TableLog, c: Commit) -> Iterator[Commit]:
    """What main had at the end, or at any moment since a state that it had, and that state has not; the oldest first."""
    have = _ancestry(log, c.snapshot_id)
    at = max(n for n, m in enumerate(log.metadata) if m.current == c.snapshot_id)
    later = {m.current for m in log.metadata[at + 1 :]} | {*_ancestry(log, log.metadata[-1].current)}
    return (x for x in log.commits if x.snapshot_id in later and x.snapshot_id not in have)


def _rows(log: TableLog, c: Commit) -> int | None:
    """How many rows a state has; None if nobody can say."""
    made = _ancestry(log, c.snapshot_id).values()
    if any(not x.readable for x in made) or min(x.sequence_number for x in made) > 1:
        return None
    return sum(len(x.added or ()) - len(x.removed or ()) for x in made)


def _not_there(log: TableLog, operations: Mapping[str, Operation], ops: Sequence[str]) -> Iterator[RepairStep]:
    """Operations that were not acknowledged, and of which the table has nothing."""
    there = {x.op for x in log.main()}
    missing = tuple(op for op in ops if op in operations and operations[op].type != "ok" and op not in there)
    if missing:
        yield RepairStep(_UNMADE, Repair.REDO, missing)


def _again(
    log: TableLog | None, operations: Mapping[str, Operation], lost: Mapping[str, Sequence[int]]
) -> Iterator[RepairStep]:
    """For each lost commit, whether its snapshot can be brought back or its statement has to be run again.

    Args:
        lost: operation → ids of its rows.
    """
    run, back_to = [], _there_after_going_back(log)
    for op in lost:
        o, back = operations.get(op), None if log is None else _brought_back(log, op)
        look = None if o is None or o.f not in KINDS else _look_first(o, log, lost[op], operations, again=back is None)
        if back is not None:
            there = f"The files of {op} are all there"
            first = "" if look is None else f"{look.advice[:1].upper()}{look.advice[1:]}."
            text = f"{there}: {back}." if look is None else f"{there}. {first} Then {back}."
            yield RepairStep(text, Repair.BRING_BACK, (op,))
        elif op in back_to:
            yield RepairStep(_BACK_AGAIN, Repair.LEAVE, (op,))
        elif o is not None and o.f in KINDS and KINDS[o.f].goes_back:
            yield RepairStep(_SET_BACK_AGAIN, Repair.LEAVE, (op,))
        elif o is not None and o.f in KINDS:
            run.append((op, "" if look is None else look.before_running(_there_now(log, lost[op]))))
    if run:
        ops, notes = zip(*run, strict=True)
        yield RepairStep(_RUN_AGAIN, Repair.RUN_AGAIN, ops, notes=tuple(filter(None, notes)))


_UNDELETED = f"Run {{ops}} again {ALONE}{{ids}}: its rows were still there when it had committed."
_NONE_LEFT = "Nothing to repair{ids}: no such row is left."
_OTHERS_LEFT = "Nothing to repair{ids}: what was left is gone, and what has this id now was written later."


def _undeleted(
    log: TableLog | None, operations: Mapping[str, Operation], left: Mapping[str, Sequence[int]]
) -> Iterator[RepairStep]:
    """Deletes that left rows are run again, unless somebody has removed those since.

    Args:
        left: operation → ids of the rows that it left.
    """

    def rows(ops: Sequence[str]) -> tuple[tuple[str, int], ...]:
        return tuple(dict.fromkeys((log.table if log is not None else "", k) for op in ops for k in left[op]))

    live = {op: _live(log, keys) if log is not None and keys else None for op, keys in left.items()}
    none = [op for op, found in live.items() if found is not None and not found]
    if none:
        yield RepairStep(_NONE_LEFT, Repair.LEAVE, keys=rows(none))
    others = [op for op in left if op not in none and removed_since(log, op, left[op]) is not None]
    if others:
        yield RepairStep(_OTHERS_LEFT, Repair.LEAVE, keys=rows(others))
    if again := [op for op in left if op not in none and op not in others]:
        looked = [_look_first(operations[o], log, left[o], operations, apart=True) for o in again if o in operations]
        notes = tuple(str(x) for x in looked if x is not None)
        yield RepairStep(_UNDELETED, Repair.RUN_AGAIN, tuple(again), rows(again), notes=notes)


def removed_since(log: TableLog | None, op: str, keys: Sequence[int]) -> tuple[int, int] | None:
    """The positions of two commits on main, from 1: the operation's own, and the later one that removed the last of the rows with these ids
    that it had left, or of what was made of them. None: there is none, or nobody can say. Ids are not unique: a row that was inserted since,
    without removing such a row, is another row."""
    if log is None or not keys or "id" not in log.columns or any(not c.readable for c in log.main()):
        return None
    at, since = log.columns.index("id"), 0
    every, left = Counter[Row](), Counter[Row]()
    for n, c in enumerate(log.main(), 1):
        removed = Counter(x.row for x in c.removed or () if x.row[at] in keys)
        added = Counter(x.row for x in c.added or () if x.row[at] in keys)
        every = every - removed + added
        if since:
            left = left - removed + (added if left & removed else Counter())
            if not left:
                return since, n
        elif c.op == op:
            since, left = n, every
            if not left:
                return None
    return None


def _there_after_going_back(log: TableLog | None) -> set[str | None]:
    """The operations whose commits the state has to which an unreadable table is set back; none if it can be read."""
    found = None if log is None else last_readable(log)
    if log is None or found is None or found[1] is log.metadata[-1]:
        return set()
    return {x.op for x in _ancestry(log, found[0].snapshot_id).values()}


_BACK_AGAIN = (
    "{ops}, which {was} lost, {is} in the state to which you go back. If you restore the files instead, run {it} again."
)
_RUN_AGAIN = "Run {ops} again{order}: none of {its} effects is there, and {statements} on {card}."
_SET_BACK_AGAIN = "{ops} was a rollback. Look what was committed since: running {it} again undoes that."
_WOULD: Mapping[str, str] = {"insert": "insert {} again", "delete": "delete {}"}
"""Verb of a kind → what it would do to the rows if it ran again; any other one writes them."""
_WOULD_ALSO: Mapping[str, str] = {"insert": "insert rows", "delete": "delete rows"}
"""The same where nobody knows which rows; any other one changes them."""


class Look(NamedTuple):
    """What is known of the rows of an operation before it is run again.

    Attributes:
        advice: in words, without the operation and a full stop.
        chooses: whether somebody must choose which rows it may change: others have changed them, or nobody knows.
        only_missing: whether the advice says already that it is to run for rows that are missing.
    """

    op: str
    advice: str
    chooses: bool = False
    only_missing: bool = False

    def __str__(self) -> str:
        return f"{self.op}: {self.advice}."

    def before_running(self, there: str) -> str:
        """The advice before a statement runs again; ``there``: the rows that are in the table now, in a sentence."""
        if self.only_missing:
            return f"{self}{there}"
        return f"{self.op}: {self.advice}; leave out what is to stay.{there}" if self.chooses else str(self)


def _look_first(
    o: Operation,
    log: TableLog | None,
    keys: Sequence[int],
    operations: Mapping[str, Operation],
    *,
    apart: bool = False,
    again: bool = False,
) -> Look | None:
    """Whether others have changed the rows of an operation since, and what it would do to them; None if it changes none.

    Args:
        apart: only what began after it had ended counts.
        again: what follows is to run it again, so it says when.
    """
    if log is None or not KINDS[o.f].changes_rows:
        return None
    changed = _changed(log, keys) if keys else None
    if changed is None:
        also = _WOULD_ALSO.get(KINDS[o.f].verb, "change rows")
        first = "look at its rows first, for nobody knows who has changed them since"
        said = f"{first}; as it stands it would also {also} that others have written since"
        return None if apart else Look(o.op, said, chooses=True)
    ids = f"{'id' if len(keys) == 1 else 'ids'} {explain.listing(keys, MOST_NAMED)}"

    def later(op: str) -> bool:
        other = operations.get(op)
        if other is None or other.end is None:
            return True
        return other.start > (o.end or o.start) if apart else other.end > o.start

    since = [op for op in changed if op != o.op and later(op)]
    if not since:
        return None if apart else Look(o.op, f"nobody has changed {ids} since")
    if again and KINDS[o.f].verb == "insert":
        rows, when = ("row", f"if {ids} is missing") if len(keys) == 1 else ("rows", "for those that are missing")
        said = f"{ids}: {explain.listing(since)} changed the {rows} since. Run the INSERT only {when}"
        return Look(o.op, said, only_missing=True)
    these = "it" if len(keys) == 1 else "them"
    would = _WOULD.get(KINDS[o.f].verb, "write {} again").format(these)
    said = f"look at {ids} first, for {explain.listing(since)} changed {these} since, and it would {would}"
    return Look(o.op, said, chooses=True)


def _changed(log: TableLog, keys: Sequence[int]) -> list[str] | None:
    """Whose commits of main added or removed rows of some ids; None: nobody can say."""
    if "id" not in log.columns or any(not c.readable for c in log.main()):
        return None
    at = log.columns.index("id")
    return list(
        dict.fromkeys(
            c.op or "another writer"
            for c in log.main()
            if any(x.row[at] in keys for x in (*(c.added or ()), *(c.removed or ())))
        )
    )


def _live(log: TableLog, keys: Sequence[int]) -> Counter[Row] | None:
    """The rows of some ids that the table has, and how often; None: nobody can say."""
    if "id" not in log.columns or any(not c.readable for c in log.main()):
        return None
    at, live = log.columns.index("id"), Counter[Row]()
    for c in log.main():
        live.subtract(x.row for x in c.removed or () if x.row[at] in keys)
        live.update(x.row for x in c.added or () if x.row[at] in keys)
    return +live


_MOST_ROWS = 3
"""Rows that are shown of those that a statement would change."""


def _there_now(log: TableLog | None, keys: Sequence[int]) -> str:
    """`` Now there: (1, 'w2-76', 2).``: the rows of some ids; empty if there are many, or nobody can say."""
    live = _live(log, keys) if log is not None and keys else None
    if live is None or live.total() > _MOST_ROWS:
        return ""
    rows = sorted((f"({', '.join(map(repr, row))})" for row in live.elements()), key=lambda r: (len(r), r))
    return f" Now there: {', '.join(rows) or 'no row'}."


def _deletes(log: TableLog | None, rows: Sequence[Row]) -> str:
    """The statement that deletes these rows and no other; empty if one is not there exactly once, or SQL writes its values in many ways."""
    ids = [r[log.columns.index("id")] for r in rows] if log is not None and "id" in log.columns else []
    live = _live(log, ids) if log is not None and ids else None
    if log is None or live is None or any(live[r] != 1 for r in rows):
        return ""
    if not all(type(v) in (int, str, type(None)) and not set("`'\\") & set(str(v)) for r in rows for v in r):
        return ""  # Spark reads two quotes as the end of a text and a new one before 4.0, and a backslash as an escape
    each = [" AND ".join(_is(c, v) for c, v in zip(log.columns, r, strict=True)) for r in rows]
    return f"DELETE FROM {log.table} WHERE {each[0] if len(each) == 1 else ' OR '.join(f'({x})' for x in each)}"


def _is(column: str, value: object) -> str:
    if value is None:
        return f"{column} IS NULL"
    return f"{column} = '{value}'" if isinstance(value, str) else f"{column} = {value}"


def _brought_back(log: TableLog, op: str) -> str | None:
    """How the rows of a lost commit come back without its statement; None if a file of it may be gone, the table is set back to an older state,
    or its format has no way."""
    state = last_readable(log)
    listed = set(state[1].snapshots) if state is not None and state[1] is log.metadata[-1] else set()
    made = [c for c in log.commits if c.op == op]
    if len(made) != 1 or made[-1].snapshot_id not in listed - _gone(log) or not log.complete:
        return None
    return format_of(log).brought_back(made[-1], log.identifier)
