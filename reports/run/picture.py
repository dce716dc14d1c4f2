"""The picture of an interleaving: who did what when, which snapshot each operation read, what held it, and which fault was on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from checkers.costs import figures
from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.history import Operation
from checkers.evidence.proxylog import ACCEPTED
from checkers.timeline import explain
from reports.drawing import svg
from reports.drawing.page import Block, Legend, Plot
from reports.drawing.svg import PlotArea
from reports.drawing.words import moment, shorten, time_of_day
from reports.run import plots
from reports.run.bands import Band
from reports.run.operations import Shown

WIDTH = 900.0
"""As wide as the room beside the facts of a card on a wide screen, so that its texts are not made smaller there."""
LANE, LEFT, RIGHT, TOP = 36.0, 96.0, 84.0, 34.0
MOST_BARS = 12
MOST_READS = 3
"""Arrows of one operation: the first is what it scanned, later ones what its retries read."""
MOST_COMMITS = 40
MOST_FAULTS = 6


class BrokenScale:
    """Time with idle intervals cut short, so that operations minutes apart are still visible as bars.

    Args:
        spans: the intervals to keep visible, in ms.
        start, end: pixels.
    """

    BREAK = 28.0

    def __init__(self, spans: Iterable[tuple[float, float]], start: float, end: float) -> None:
        merged: list[list[float]] = []
        ordered = sorted(spans)
        busy = sum(b - a for a, b in ordered) or 1.0
        pad = busy * 0.02
        for a, b in ordered:
            if merged and a - pad - merged[-1][1] <= max(busy * 0.3, 1.0):
                merged[-1][1] = max(merged[-1][1], b + pad)
            else:
                merged.append([a - pad, b + pad])
        self.segments = [(a, b) for a, b in merged]
        total = self.span = sum(b - a for a, b in self.segments)
        room = end - start - self.BREAK * (len(merged) - 1)
        self.pixels: list[tuple[float, float]] = []
        at = start
        for a, b in self.segments:
            width = (b - a) / total * room
            self.pixels.append((at, at + width))
            at += width + self.BREAK

    def __call__(self, value: float) -> float:
        """The pixel of a time in ms; a time within a cut maps into the cut."""
        edge = self.pixels[0][0]
        for (a, b), (p, q) in zip(self.segments, self.pixels, strict=True):
            if value < a:
                return (edge + p) / 2 if edge != p else p
            if value <= b:
                return p + (value - a) / (b - a) * (q - p)
            edge = q
        return edge

    def ticks(self) -> list[float]:
        """Round times within the segments, about 90 px apart."""
        out: list[float] = []
        for (a, b), (p, q) in zip(self.segments, self.pixels, strict=True):
            found = svg.ticks(a, b, int((q - p) / 90)) if q - p >= 90 else []
            # A label is 50 px wide and must not reach into a cut. An interval without a round time shows its middle.
            out += [t for t in found if p + 22 <= self(t) <= q - 22] or [(a + b) / 2]
        return out


@dataclass(frozen=True, slots=True)
class CommitMark:
    """A commit on an operation's bar: ms since the start of the run."""

    op: str
    at: float
    snapshot: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ReadMark:
    """When an operation read a snapshot, ms since the start of the run; ``maker``: the operation that made it, if that is known."""

    op: str
    at: float
    snapshot: int
    maker: str | None


@dataclass(frozen=True, slots=True)
class DelayMark:
    """A request of an operation that was held on its way, or struck by faults: ms since the start of the run."""

    op: str
    at: float
    end: float
    what: str
    struck: str


@dataclass(frozen=True, slots=True)
class Interleaving:
    """What a picture shows; ``rows``: by invocation; ``lost``: whose commit is lost; ``promises``: when the catalog accepted these, in ms."""

    rows: tuple[Operation, ...]
    commits: tuple[CommitMark, ...]
    reads: tuple[ReadMark, ...]
    delays: tuple[DelayMark, ...]
    bands: tuple[Band, ...]
    lost: frozenset[str] = frozenset()
    promises: tuple[tuple[str, float], ...] = ()
    clock: int | None = None
    """Nanoseconds since 1970 at the time 0, if times are shown as those of the day."""

    def told(self, at_ms: float, span_ms: float) -> str:
        """A time in words."""
        return moment(at_ms, span_ms) if self.clock is None else time_of_day(self.clock + round(at_ms * 1e6), span_ms)


def interleaving(
    shown: Shown, operations: Iterable[Operation], bands: Sequence[Band], lost: Iterable[str] = ()
) -> Interleaving:
    """What is known of some operations; ``lost``: those whose commit is lost."""
    rows = tuple(sorted(operations, key=lambda o: o.start)[:MOST_BARS])
    start = min((figures.ms(o.start) for o in rows), default=0.0)
    end = max((figures.ms((o.completed or o.invoked).time) for o in rows), default=0.0)
    near = tuple(b for b in bands if b.start * 1000 < end and b.end * 1000 > start)
    return Interleaving(
        rows,
        tuple(c for o in rows for c in _commits(shown, o)),
        tuple(r for o in rows for r in reads(shown, o)[:MOST_READS]),
        tuple(d for o in rows for d in _delays(shown, o)),
        near,
        frozenset(lost),
        tuple((o.op, figures.ms(r.time) + r.ms) for o in rows if o.op in lost for r in _accepted(shown, o)),
    )


def _commits(shown: Shown, o: Operation) -> Iterator[CommitMark]:
    """Its commits, each when its request was answered if proxies saw that: a snapshot is stamped before it is sent."""
    found = shown.commits.get(o.op, ()) if shown.origin_ms is not None else ()
    answered = [figures.ms(r.time) + r.ms for r in _accepted(shown, o)]
    for _, c in found:
        stamped = c.timestamp_ms - (shown.origin_ms or 0.0)
        at = next((end for end in answered if end >= stamped), stamped)
        if o.end is not None:  # the timestamp has whole ms of the writer's clock: keep it on its bar
            at = min(max(at, figures.ms(o.start)), figures.ms(o.end))
        yield CommitMark(o.op, at, c.snapshot_id, c.sequence_number)


def _accepted(shown: Shown, o: Operation) -> list[ChangeRequest]:
    """Its requests for a commit that were accepted, in their order."""
    return [r for r in shown.run.change_requests.get(o.op, ()) if r.kind == "commit" and ACCEPTED.fullmatch(r.status)]


def reads(shown: Shown, o: Operation) -> list[ReadMark]:
    """The snapshots that an operation read of those that the table logs have, but for its own."""
    out = []
    for scan in shown.run.scans.get(o.op, ()):
        found = shown.snapshots.get(scan.snapshot)
        if found is not None and found[1].op != o.op:
            out.append(ReadMark(o.op, figures.ms(scan.time), scan.snapshot, found[1].op))
    return out


def _delays(shown: Shown, o: Operation) -> Iterator[DelayMark]:
    for r in shown.run.change_requests.get(o.op, ()):
        if r.held or r.faults:
            at = figures.ms(r.time)
            yield DelayMark(o.op, at, at + r.ms, r.kind if r.held else "", ", ".join(r.faults))


# --- the drawing ------------------------------------------------------------------------------------------------------


def blocks(found: Interleaving, label: str) -> list[Block]:
    """The picture, and what its marks mean; nothing without operations."""
    if not found.rows:
        return []
    keys = [(plots.legend_mark("diamond", "commit-mark"), "commit")] if found.commits else []
    keys += [(_key("bar lost"), "acknowledged, and its commit is lost")] if found.lost else []
    keys += [(plots.legend_mark("diamond", "promise"), "answered as committed")] if found.promises else []
    keys += [(_key("reads"), "read this snapshot")] if found.reads else []
    keys += [(_key("held"), "held on its way")] if any(d.what for d in found.delays) else []
    keys += [(plots.legend_mark("cross", "struck"), "hit by a fault")] if any(d.struck for d in found.delays) else []
    names = _names_of(found.bands)
    keys += [
        (_key(f"band b{n % 6}"), f"fault {shorten(name, 40)} was on") for n, name in enumerate(names[:MOST_FAULTS])
    ]
    return [Plot(_Drawing(found).whole(label)), *([Legend(keys)] if keys else [])]


def _names_of(bands: Iterable[Band]) -> list[str]:
    return list(dict.fromkeys(b.name for b in bands))


def _key(class_: str) -> Markup:
    mark = svg.line(1, 6, 25, 6, class_) if class_ == "reads" else svg.rect(0, 1, 26, 10, class_)
    return svg.drawing(26, 12, "", [mark], "key")


class _Drawing:
    """One picture: its scales, and the place of each operation."""

    def __init__(self, found: Interleaving) -> None:
        self._found = found
        self._frame = PlotArea(WIDTH, TOP + LANE * len(found.rows) + 26, LEFT, RIGHT, TOP, 26)
        self._spans = [(figures.ms(o.start), figures.ms((o.completed or o.invoked).time)) for o in found.rows]
        points = [*(c.at for c in found.commits), *(d.at for d in found.delays), *(at for _, at in found.promises)]
        self._x = BrokenScale([*self._spans, *((at, at) for at in points)], LEFT, self._frame.x1)
        self._y = {o.op: TOP + LANE * (n + 0.5) for n, o in enumerate(found.rows)}

    def whole(self, label: str) -> Markup:
        """The drawing; ``label`` describes it in words."""
        parts = [*self._bands(), *self._axis(), *self._commit_lines()]
        for o, span in zip(self._found.rows, self._spans, strict=True):
            parts.append(self._row(o, *span))
        parts += [mark for r in self._found.reads for mark in self._read(r)]
        return svg.drawing(self._frame.width, self._frame.height, label, parts)

    def _axis(self) -> Iterator[Markup]:
        frame, x = self._frame, self._x
        for value in x.ticks():
            yield svg.line(x(value), frame.top, x(value), frame.y1, "grid")
            seconds = f"{value / 1000:.3f}".rstrip("0").rstrip(".") + " s"
            told = seconds if x.span >= 20 and self._found.clock is None else self._found.told(value, x.span)
            yield svg.text(x(value), frame.y1 + 15, told, "tick", "middle")
        yield svg.line(LEFT, frame.y1, frame.x1, frame.y1, "axis")
        for (_, a), (b, _) in zip(x.pixels, x.pixels[1:], strict=False):
            yield svg.rect(a, frame.top - 4, b - a, frame.y1 - frame.top + 8, "cut")
            yield svg.text((a + b) / 2, (frame.top + frame.y1) / 2 + 4, "⋯", "tick", "middle")

    def _bands(self) -> Iterator[Markup]:
        """The times of faults behind everything; the legend has their names."""
        frame, names = self._frame, _names_of(self._found.bands)
        for b in self._found.bands:
            x0, x1 = self._x(b.start * 1000), self._x(b.end * 1000)
            what = svg.title(f"{b.name}: {b.start:.1f} to {b.end:.1f} s")
            yield svg.rect(
                x0, frame.top, max(1.5, x1 - x0), frame.y1 - frame.top, f"band b{names.index(b.name) % 6}", what
            )

    def _commit_lines(self) -> Iterator[Markup]:
        names: list[tuple[float, list[str]]] = []
        for c in sorted(self._found.commits, key=lambda c: c.at)[:MOST_COMMITS]:
            at = self._x(c.at)
            yield svg.line(at, self._frame.top - 6, at, self._frame.y1, "commit-line")
            if names and at - names[-1][0] <= 44:
                names[-1][1].append(str(c.sequence))
            else:
                names.append((at, [str(c.sequence)]))
        for at, sequences in names:
            said = explain.listing(sequences, 3)
            yield svg.text(at, self._frame.top - 11, f"seq {said}", "commit-name", "middle")

    def _row(self, o: Operation, start: float, end: float) -> Markup:
        """The bar of an operation from invocation to completion, with its requests and commits."""
        y, x0, x1, span = self._y[o.op], self._x(start), self._x(end), self._x.span
        right = self._frame.x1
        engine = f" {explain.engine(o)}" if o.mixed else ""
        told = self._found.told
        what = (
            f"{o.op}{engine}: {o.f}, {o.type}, {told(start, span)} to {told(end, span) if o.completed else 'unknown'}"
        )
        parts: list[Markup] = [svg.title("\n".join([what, *self._told(o)]))]
        parts.append(svg.text(LEFT - 12, y + 4, shorten(f"process {o.process}", 14), "lane", "end"))
        parts.append(svg.line(LEFT, y, right, y, "grid"))
        parts += [svg.line(x1, y, right, y, "open")] if o.type == "info" else []
        lost = o.op in self._found.lost
        parts.append(svg.rect(x0, y - 8, max(3, x1 - x0), 16, f"bar {'lost' if lost else o.type}", rx=2))
        for d in (d for d in self._found.delays if d.op == o.op):
            a, b = self._x(d.at), min(self._x(d.end), right)
            parts += [svg.rect(a, y - 8, max(2, b - a), 16, "held")] if d.what else []
            parts += [svg.marks("cross", [(a, y + 13)], 4, "struck")] if d.struck else []
        name = f"{shorten(o.op, 18)} {o.f}{engine}{', lost' if lost else ''}"
        wide = len(name) * 6.2
        if wide < x1 - x0 - 14:
            parts.append(svg.text(x0 + 6, y + 3.8, name, "bar-name"))
        elif x1 + wide < right:
            parts.append(svg.text(max(x0 + 3, x1) + 10, y + 3.8, name, "bar-name out"))
        else:
            parts.append(svg.text(x0 - 7, y + 3.8, name, "bar-name out", "end"))
        made = [(self._x(c.at), y) for c in self._found.commits if c.op == o.op]
        parts += [svg.marks("diamond", made, 4.5, "commit-mark")] if made else []
        promised = [(self._x(at), y) for op, at in self._found.promises if op == o.op]
        parts += [svg.marks("diamond", promised, 4.5, "promise")] if promised else []
        return svg.element("g", *parts, class_="row", data_op=o.op, tabindex=0)

    def _told(self, o: Operation) -> Iterator[str]:
        """What a person who points at an operation reads besides."""
        for c in (c for c in self._found.commits if c.op == o.op):
            yield f"made snapshot {c.snapshot}, sequence number {c.sequence}"
        for r in (r for r in self._found.reads if r.op == o.op):
            yield f"read snapshot {r.snapshot} at {moment(r.at)}"
        for d in (d for d in self._found.delays if d.op == o.op):
            if d.what:
                yield f"its {d.what} was held from {moment(d.at)} to {moment(d.end)}"
            if d.struck:
                yield f"its request at {moment(d.at)} was struck by {shorten(d.struck, 80)}"

    def _read(self, r: ReadMark) -> Iterator[Markup]:
        """An arrow from the commit of a snapshot, or from above if that is not in the picture, to the moment at which it was read."""
        x1, y1 = self._x(r.at), self._y[r.op]
        made = next((c for c in self._found.commits if c.snapshot == r.snapshot), None)
        what = svg.title(f"{r.op} read snapshot {r.snapshot} at {moment(r.at)}")
        if made is None:
            yield svg.element("path", what, d=_path((x1, y1 - 19), (x1, y1 - 9)), class_="reads", data_op=r.op)
            yield svg.text(x1 + 3, y1 - 10, f"read {str(r.snapshot)[:6]}", "read-name")
            return
        x0, y0 = self._x(made.at), self._y[made.op]
        edge = 9 if y0 > y1 else -9
        yield svg.element("path", what, d=_path((x0, y0), (x1, y1 + edge)), class_="reads", data_op=r.op)


def _path(start: svg.Point, end: svg.Point) -> str:
    """A line that leaves and arrives upright."""
    (x0, y0), (x1, y1) = start, end
    n, bend = svg.number, (y1 - y0) / 2
    return f"M{n(x0)} {n(y0)}C{n(x0)} {n(y0 + bend)} {n(x1)} {n(y1 - bend)} {n(x1)} {n(y1)}"
