"""The timeline of operations: one column for each writer, time downwards in the order of events, one box for each operation.

Boxes have ``op-<id>`` anchors, so that an anomaly's table links to its operations among their neighbours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from markupsafe import Markup

from checkers.costs import figures
from checkers.evidence import error_chain
from checkers.evidence.change_requests import SnapshotScan
from checkers.evidence.history import Operation
from checkers.evidence.tablelog import Commit
from checkers.timeline import explain
from reports.drawing import words
from reports.drawing.page import Block, Plot, Text, joined, tag
from reports.drawing.svg import element
from reports.run.operations import anchor_id

MOST_DRAWN = 2000
MOST_KEYS = 8
ROW = 15
"""Pixels for each event."""


@dataclass(frozen=True, slots=True)
class Box:
    """One operation: its lane (from 0), its position in px, its text, its tooltip, and the keys and snapshots it is about."""

    op: str
    lane: int
    top: int
    height: int
    outcome: str
    label: str
    second: str
    title: str
    about: str
    marked: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A text across or beside the lanes at ``top`` px: a time, or what is left out."""

    top: int
    text: str


@dataclass(frozen=True, slots=True)
class TimelineDrawing:
    """The whole timeline: ``shown`` of ``total`` operations."""

    lanes: tuple[str, ...]
    boxes: tuple[Box, ...]
    times: tuple[Note, ...]
    cuts: tuple[Note, ...]
    height: int
    shown: int
    total: int


def choose(operations: Sequence[Operation], marked: Collection[str], most: int = MOST_DRAWN) -> list[int]:
    """Positions of the operations to show: all, or the marked ones with their neighbours and then the first ones."""
    if len(operations) <= most:
        return list(range(len(operations)))
    centres = [n for n, o in enumerate(operations) if o.op in marked][:most]
    around = min(20, (most - len(centres)) // max(1, 2 * len(centres)))
    kept = set(centres)
    for n in centres:
        kept.update(range(max(0, n - around), min(len(operations), n + around + 1)))
    n = 0
    while len(kept) < most and n < len(operations):
        kept.add(n)
        n += 1
    return sorted(kept)


def lane_of(o: Operation, writers: int) -> int | str:
    """The writer behind an operation: after an unknown outcome it continues as a new process (``old + writers``), and its operations keep
    its number."""
    n = explain.writer(o)
    if n is not None:
        return n
    return o.process % writers if isinstance(o.process, int) else o.process


def timeline(
    operations: Sequence[Operation],
    writers: int,
    marked: Collection[str],
    commits: Mapping[str, list[tuple[str, Commit]]],
    scans: Mapping[str, Sequence[SnapshotScan]] = MappingProxyType({}),
) -> TimelineDrawing | None:
    """The timeline of ``operations`` (in the order of invocation); None if there are none."""
    if not operations:
        return None
    positions = choose(operations, marked)
    shown = [operations[n] for n in positions]
    names = {lane_of(o, writers) for o in shown}
    lanes = sorted(names, key=lambda lane: (isinstance(lane, str), lane))
    column = {lane: n for n, lane in enumerate(lanes)}
    events = sorted(
        [(o.invoked.index, 0, k) for k, o in enumerate(shown)]
        + [(o.completed.index, 1, k) for k, o in enumerate(shown) if o.completed is not None]
    )
    skipped = {k: n - m - 1 for k, (m, n) in enumerate(zip([-1, *positions], positions, strict=False)) if n - m > 1}
    top: dict[int, int] = {}
    bottom: dict[int, int] = {}
    times: list[Note] = []
    cuts: list[Note] = []
    at = 0
    for n, (_, completed, k) in enumerate(events):
        if not completed and k in skipped:
            cuts.append(Note(at, f"{words.plural(skipped[k], 'operation')} not shown"))
            at += ROW + 5
            times.append(Note(at, words.moment(figures.ms(shown[k].start))))
        elif n % 8 == 0:
            o = shown[k]
            times.append(Note(at, words.moment(figures.ms(o.completed.time if completed and o.completed else o.start))))
        (bottom if completed else top)[k] = at
        at += ROW
    last = len(operations) - positions[-1] - 1
    if last:
        cuts.append(Note(at, f"{words.plural(last, 'operation')} not shown"))
        at += ROW + 5
    boxes = [
        Box(
            op=o.op,
            lane=column[lane_of(o, writers)],
            top=top[k],
            height=max(ROW, bottom.get(k, top[k]) - top[k]) - 1,
            outcome=o.type,
            label=words.shorten(f"{o.f} {words.arguments(o.value, 60)}".strip(), 72),
            second=_second(o) if bottom.get(k, 0) - top[k] >= 2 * ROW else "",
            title=_title(o, commits.get(o.op, [])),
            about=_about(o, commits.get(o.op, []), scans.get(o.op, ())),
            marked=o.op in marked,
        )
        for k, o in enumerate(shown)
    ]
    engines = {lane_of(o, writers): o.engine for o in shown if o.mixed}
    heads = tuple(f"{lane} {engines[lane]}" if lane in engines else str(lane) for lane in lanes)
    return TimelineDrawing(heads, tuple(boxes), tuple(times), tuple(cuts), at, len(shown), len(operations))


def _about(o: Operation, commits: Sequence[tuple[str, Commit]], scans: Sequence[SnapshotScan]) -> str:
    """What the field above the timeline is compared with: ``k7`` for a key, ``s…`` for a snapshot that it read or made."""
    value = o.value if isinstance(o.value, Mapping) else {}
    ids = found if isinstance(found := value.get("ids"), list) else [value.get("id")]
    keys = [f"k{i}" for i in ids[:MOST_KEYS] if type(i) is int]
    snapshots = dict.fromkeys([*(c.snapshot_id for _, c in commits), *(s.snapshot for s in scans[:3])])
    return " ".join((*keys, *(f"s{s}" for s in snapshots)))


def _second(o: Operation) -> str:
    took = figures.latency_ms(o)
    parts = [o.op, o.table or "", "never completed" if took is None else words.duration(took)]
    if o.type != "ok" and o.error:
        parts.append(error_chain.short_class(error_chain.deciding_error(o.error)[0]))
    return words.shorten(" · ".join(p for p in parts if p), 90)


def _title(o: Operation, commits: Sequence[tuple[str, Commit]]) -> str:
    took = figures.latency_ms(o)
    lines = [
        f"{o.op} · {explain.process(o)} · {o.f} {words.arguments(o.value, 120)}".strip(),
        f"{o.type}"
        + (f" on {o.table}" if o.table else "")
        + (f" after {words.duration(took)}" if took is not None else ", never completed"),
        f"invoked {words.moment(figures.ms(o.start))}, events {', '.join(map(str, o.indices))}",
    ]
    if o.type == "ok" and o.result is not None:
        lines.append(f"result {words.result(o.result, 120)}")
    for table, c in commits[:3]:
        lines.append(f"{table}: snapshot {c.snapshot_id}, {c.label}, attempt {c.attempt}")
    if o.error:
        name, message = error_chain.deciding_error(o.error)
        lines.append(words.shorten(f"{error_chain.short_class(name)}: {' '.join(message.split())}", 200))
    return "\n".join(words.shorten(line, 200) for line in lines)


def blocks(found: TimelineDrawing | None) -> list[Block]:
    """The section of the timeline."""
    if found is None:
        return [Text(["The history has no operations."], "muted")]
    shown, total = words.grouped(found.shown), words.grouped(found.total)
    which = (
        f"{shown} of {total} operations are shown: those of the anomalies above with their neighbours, then the first ones."
        if found.shown < found.total
        else f"All {total} operations are shown."
    )
    note = (
        f"One column for each writer, time downwards in the order of events, not to scale. {which} Operations of anomalies are outlined; "
        "a dashed lower edge means that the outcome is unknown."
    )
    printed = tag("span", " In print: only the beginning.", "print-only")
    return [Text([joined((note, printed))], "note"), Plot(_drawn(found))]


def _drawn(found: TimelineDrawing) -> Markup:
    """Boxes that the style sheet places: one column for each lane, as wide as there is room."""
    heads = [tag("span", f"writer {words.shorten(lane, 24)}") for lane in found.lanes]
    marks = [tag("div", f"⋯ {c.text} ⋯", "left-out", style=f"top:{c.top}px") for c in found.cuts]
    marks += [tag("div", t.text, "at", style=f"top:{t.top}px") for t in found.times]
    inner = [*marks, *map(_box, found.boxes)]
    field = element("div", *inner, class_="field", style=f"height:{found.height + 8}px")
    width = 150 if len(found.lanes) < 12 else 90
    style = f"--lanes:{len(found.lanes)};--lane:{width}px;--gutter:84px"
    return element("div", element("div", *heads, class_="heads"), field, class_="timeline", style=style, tabindex=0)


def _box(b: Box) -> Markup:
    text = [tag("b", b.label), *([tag("small", b.second)] if b.second else [])]
    style = f"--n:{b.lane};top:{b.top}px;height:{b.height}px"
    marked = " marked" if b.marked else ""
    return element(
        "div", *text, id=anchor_id(b.op), class_=f"op {b.outcome}{marked}", style=style, title=b.title, data_f=b.about
    )
