"""What to do now about a table that an anomaly has harmed: only what the run's own evidence says is possible.

Whether a file is there, the table log says: it was compared with the store when the run ended (``TableLog.missing_files``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from checkers.evidence.history import Operation
from checkers.evidence.tableformat import format_of
from checkers.evidence.tablelog import Commit, Metadata, Row, TableLog
from checkers.names import meaning
from checkers.timeline import explain
from workloads.operations.kinds import KINDS

THIS_CARD = "this card"
"""Where the statements of the operations are."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """One thing to do now.

    Attributes:
        text: what to do, in sentences. ``{ops}`` and ``{ids}`` stand for the operations and the rows, ``{card}`` for where the statements are,
            ``{it}`` and ``{its}`` for the operations again. Steps of one text are one step (:func:`merged`).
        ops: operations whose statements a person needs, or must not run; in the order of the history.
        keys: ids of rows.
        note: what to know before, about these rows alone.
        changed: those of ``ops`` whose rows others have written since.
    """

    text: str
    ops: tuple[str, ...] = ()
    keys: tuple[int, ...] = ()
    note: str = ""
    changed: tuple[str, ...] = ()

    def words(self, card: str = THIS_CARD) -> str:
        """The sentences."""
        one = len(self.ops) == 1
        ids = f" ({'id' if len(self.keys) == 1 else 'ids'} {explain.listing(self.keys, _MOST)})" if self.keys else ""
        stands = {
            "{ops}": explain.listing(self.ops, _MOST),
            "{ids}": ids,
            "{card}": card,
            "{it}": "it" if one else "them",
            "{its}": "its" if one else "their",
            "{was}": "was" if one else "were",
            "{order}": "" if one else ", in this order",
            "{statements}": "its statement is" if one else "their statements are",
        }
        text = self.text
        for name, said in stands.items():
            text = text.replace(name, said)
        return f"{text} {self.note}".rstrip()


_MOST = 12
"""Operations or rows that a step names."""


def merged(steps: Iterable[RepairStep]) -> list[RepairStep]:
    """The steps of several stories, each text once; of their notes, only for which operations to look at the rows first."""
    found: dict[str, RepairStep] = {}
    for s in steps:
        before = found.get(s.text, RepairStep(s.text))
        found[s.text] = replace(
            before,
            ops=tuple(dict.fromkeys((*before.ops, *s.ops))),
            keys=tuple(dict.fromkeys((*before.keys, *s.keys))),
            changed=tuple(dict.fromkeys((*before.changed, *s.changed))),
        )
    return [replace(s, note=_look_first(s.ops, s.changed)) if s.changed else s for s in found.values()]


def _look_first(ops: Sequence[str], changed: Sequence[str]) -> str:
    free = [op for op in ops if op not in changed]
    safe = (
        f"Safe to run as {'it is' if len(free) == 1 else 'they are'}: {explain.listing(free, _MOST)}. " if free else ""
    )
    its, it = ("its", "it") if len(changed) == 1 else ("their", "them")
    why = f"rows of {its} ids were written later: to run {it} would overwrite, delete or double these"
    return f"{safe}Check {'the others ' if free else ''}first, for {why}."


def in_order(s: RepairStep, order: Mapping[str, int]) -> RepairStep:
    """The step with its operations in an order: operation → its place."""
    ops, changed = (tuple(sorted(these, key=lambda op: order.get(op, len(order)))) for these in (s.ops, s.changed))
    return replace(s, ops=ops, changed=changed, note=_look_first(ops, changed) if changed else s.note)


def repair_words(steps: Iterable[RepairStep], card: str = THIS_CARD) -> str:
    """What to do, the steps behind each other; empty for none."""
    return " ".join(s.words(card) for s in steps)


def repair(
    name: str,
    log: TableLog | None,
    operations: Mapping[str, Operation],
    ops: Sequence[str],
    keys: Sequence[int],
    *,
    unreadable: bool,
    engine: str = "",
) -> Iterator[RepairStep]:
    """What to do now; nothing if the evidence does not say.

    Args:
        name: of the story.
        ops: whose commits are lost, or that did it.
        keys: ids of the rows.
        unreadable: nobody can read the table any more.
        engine: that did it; empty for none.
    """
    if unreadable and log is not None:
        yield from _set_back(log, operations)
    if name == "lost-commit":
        yield from _again(log, operations, ops, keys)
    elif name == "false-failure" and not unreadable:
        yield RepairStep("Do not run {ops} again: the table has {its} rows.", tuple(ops))
    elif name in _AGAIN:
        yield RepairStep(
            _AGAIN[name].replace("{otherwise}", f", by another engine than {engine}" if engine else ""),
            tuple(ops),
            tuple(keys),
        )
    elif name == "missing-file" and not unreadable and log is not None and last_readable(log) is not None:
        yield RepairStep(
            "Restore the files, whose names are on {card}, if the store keeps versions; else set the table back."
        )
        yield from _set_back(log, operations)
    elif not unreadable and (means := meaning(name)) is not None and means.repair:
        yield RepairStep(means.repair)


_AGAIN: Mapping[str, str] = {
    "undelete": "Run {ops} again while nothing else writes{ids}: the deleted rows are still there.",
    "resurrected-row": "Delete the rows that came back{ids}{otherwise}; {card} shows them whole.",
    "duplicate-commit": "Remove what {ops} wrote a second time{ids}.",
    "duplicate-row": "Remove the second copy of each row{ids}.",
}
"""Name → what mends it: what is in the table says that it is so."""


def _gone(log: TableLog) -> frozenset[int]:
    """The snapshots of which the store has lost a file."""
    return frozenset(s for f in log.missing_files for s in f.snapshots)


def _set_back(log: TableLog, operations: Mapping[str, Operation]) -> Iterator[RepairStep]:
    """To which state the table can be set back, and what is not in that one."""
    found = last_readable(log)
    if found is None:
        return
    c, m = found
    state = f"snapshot {c.snapshot_id} ({c.label})"
    how = f"The last readable state of {log.table} is {state}: {format_of(log).set_back(c, m, log.identifier)}."
    since = [x.op for x in _since(log, c) if x.op is not None]
    kept = tuple(op for op in since if op in operations and operations[op].type == "ok")
    others = tuple(op for op in since if op not in kept)
    yield RepairStep(how if kept else how + _NONE_LOST)
    if kept:
        yield RepairStep(_ACKNOWLEDGED, kept)
    if others:
        yield RepairStep(_NOT_ACKNOWLEDGED, others)


_ACKNOWLEDGED = "That state lacks {ops}, which {was} acknowledged: run {it} again there; {statements} on {card}."
_NONE_LOST = " No acknowledged commit is lost by that."
_NOT_ACKNOWLEDGED = (
    "That state lacks {ops}, which {was} not acknowledged: run {it} again there only if you still want {its} rows."
)


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


def _since(log: TableLog, c: Commit) -> Iterator[Commit]:
    """What main has had since a state that it had, the oldest first."""
    commits = log.by_snapshot()
    seen = {c.snapshot_id}
    at = max(n for n, m in enumerate(log.metadata) if m.current == c.snapshot_id)
    for m in log.metadata[at + 1 :]:
        if m.current not in seen and m.current in commits:
            seen.add(m.current)
            yield commits[m.current]


def _again(
    log: TableLog | None, operations: Mapping[str, Operation], ops: Sequence[str], keys: Sequence[int]
) -> Iterator[RepairStep]:
    """For each lost commit, whether its snapshot can be brought back or its statement has to be run again."""
    run = []
    for op in ops:
        back = None if log is None else _brought_back(log, op)
        if back is not None:
            yield RepairStep(f"The files of {op} are all there: {back}.")
        elif op in operations and operations[op].f in KINDS:
            run.append(op)
    if run:
        makers = _there_now(log, keys) if log is not None and keys else None
        ids = f"{'id' if len(keys) == 1 else 'ids'} {explain.listing(keys)}"
        note = "" if makers is None else f"No row of {ids} is there now."
        note = f"Look at {ids} first: the table has rows by {explain.listing(makers)} now." if makers else note
        yield RepairStep(_RUN_AGAIN, tuple(run), note=note, changed=tuple(run) if makers else ())


_RUN_AGAIN = "Once it cannot happen again (see “avoid it”), run {ops} again{order}: {statements} on {card}, and none of {its} effects is there."


def _there_now(log: TableLog, keys: Sequence[int]) -> list[str] | None:
    """Whose rows of some ids the table has now, which who runs an INSERT again must know; None: nobody can say."""
    if "id" not in log.columns or any(not c.readable for c in log.main()):
        return None
    at, live, by = log.columns.index("id"), Counter[Row](), dict[Row, str | None]()
    for c in log.main():
        live.subtract(x.row for x in c.removed or () if x.row[at] in keys)
        added = [x.row for x in c.added or () if x.row[at] in keys]
        live.update(added)
        by.update(dict.fromkeys(added, c.op))
    return list(dict.fromkeys(by[row] or "another writer" for row, n in live.items() if n > 0))


def _brought_back(log: TableLog, op: str) -> str | None:
    """How the rows of a lost commit come back without its statement; None if a file of it may be gone, or its format has no way."""
    listed = set(log.metadata[-1].snapshots) if log.metadata else set()
    made = [c for c in log.commits if c.op == op]
    if not made or made[-1].snapshot_id not in listed - _gone(log) or not log.complete:
        return None
    return format_of(log).brought_back(made[-1], log.identifier)
