"""The page of exercised interleavings: a heat map of operation beside operation, the figures of each dimension, what is rare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.coverage.coverage import Coverage, Kinds
from checkers.coverage.pair import MEANT, PHASES, PLACEMENTS, Pair, Phase
from checkers.evidence.runfolder import replace_file
from reports.drawing import words
from reports.drawing.templates import environment
from reports.run.interleavings import words_of

MOST_RARE = 60
MOST_BEYOND = 60
MOST_UNREAD = 20
STEPS: tuple[tuple[float, str], ...] = (
    (0.0, "none"),
    (0.25, "up to a quarter"),
    (0.5, "up to half"),
    (0.75, "up to three quarters"),
    (0.9999999, "more"),
    (1.0, "all"),
)
"""Share of the possible pairs, at most → what the legend says of the colour."""


@dataclass(frozen=True, slots=True)
class Strip:
    """One phase in a square. ``heat``: index in :data:`STEPS`; None: no pair is possible."""

    phase: Phase
    heat: int | None
    covered: int
    possible: int


@dataclass(frozen=True, slots=True)
class Square:
    """An ordered pair of operations on the page; ``times``: how often their pairs were seen."""

    first: str
    second: str
    strips: tuple[Strip, ...]
    covered: int
    possible: int
    times: int

    @property
    def title(self) -> str:
        """What is shown when one points at it."""
        parts = [f"{s.phase} {s.covered} of {s.possible}" for s in self.strips if s.possible]
        return (
            f"{self.second} while {self.first} writes: {self.covered} of {self.possible} pairs, seen "
            f"{words.plural(self.times, 'time')}; {', '.join(parts)}"
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """Covered and possible pairs of one value of a dimension."""

    name: str
    covered: int
    possible: int
    meaning: str = ""


def heat(covered: int, possible: int) -> int | None:
    """The index in :data:`STEPS` of a share; None if there is nothing to cover."""
    if not possible:
        return None
    return next(n for n, (most, _) in enumerate(STEPS) if covered / possible <= most)


def kinds_of(c: Coverage) -> list[str]:
    """The operations on both axes: those with the most pairs seen first."""
    seen: Counter[str] = Counter()
    for p, n in c.seen.items():
        seen[p.first] += n
        seen[p.second] += n
    every = {name for p in c.possible for name in (p.first, p.second)}
    return sorted(every, key=lambda name: (-seen[name], name))


def squares(c: Coverage) -> dict[Kinds, Square]:
    """Every ordered pair of operations that is possible."""
    possible: dict[Kinds, Counter[Phase]] = {}
    covered: dict[Kinds, Counter[Phase]] = {}
    times: Counter[Kinds] = Counter()
    for p in c.possible:
        possible.setdefault((p.first, p.second), Counter())[p.phase] += 1
        if p in c.seen:
            covered.setdefault((p.first, p.second), Counter())[p.phase] += 1
            times[p.first, p.second] += c.seen[p]
    out = {}
    for kinds, every in possible.items():
        have = covered.get(kinds, Counter())
        strips = tuple(Strip(x, heat(have[x], every[x]), have[x], every[x]) for x in PHASES)
        out[kinds] = Square(*kinds, strips, have.total(), every.total(), times[kinds])
    return out


def figures(c: Coverage) -> dict[str, list[Figure]]:
    """Dimension → its values, in order."""
    by = {name: c.by(name) for name in ("phase", "placement", "make")}
    return {
        "phase of the first": [Figure(x, *by["phase"][x], MEANT[x]) for x in PHASES if x in by["phase"]],
        "place of the second": [Figure(x, *by["placement"][x]) for x in PLACEMENTS if x in by["placement"]],
        "make of the table": [Figure(str(x), *by["make"][x]) for x in sorted(by["make"])],
    }


def pairs_of_kinds(c: Coverage) -> tuple[int, int]:
    """How many ordered pairs of operations were seen in any phase and place, and how many are possible."""
    every = c.of_kinds()
    return sum(1 for covered, _ in every.values() if covered), len(every)


def never(c: Coverage) -> list[Kinds]:
    """Ordered pairs of operations that were never seen, in any phase or place."""
    return sorted(kinds for kinds, (covered, _) in c.of_kinds().items() if not covered)


def render(c: Coverage, title: str, unread: Sequence[str] = ()) -> str:
    """The page.

    Args:
        title: what it is the coverage of.
        unread: runs that cannot be read, a sentence each.
    """
    found = squares(c)
    covered, every = pairs_of_kinds(c)
    return words.printable(
        environment()
        .get_template("coverage.html")
        .render(
            title=title,
            c=c,
            covered=len(c.covered),
            kinds=kinds_of(c),
            squares=found,
            steps=STEPS,
            figures=figures(c),
            kind_pairs=(covered, every),
            rare=c.rare(MOST_RARE),
            never=never(c),
            beyond=_most(c, c.beyond),
            untold=c.untold.most_common(MOST_BEYOND),
            untold_total=c.untold.total(),
            unread=unread[:MOST_UNREAD],
            unread_more=len(unread[MOST_UNREAD:]),
        )
    )


def _most(c: Coverage, pairs: Iterable[Pair]) -> list[tuple[Pair, int]]:
    return [(p, n) for n, p in sorted((-c.seen[p], p) for p in pairs)[:MOST_BEYOND] for n in (-n,)]


def write(c: Coverage, path: Path, title: str, unread: Sequence[str] = ()) -> Path:
    """Write the page to a file and return its path. Raises OSError if it cannot be written."""
    replace_file(path, render(c, title, unread))
    return path


def lines(c: Coverage) -> list[str]:
    """The figures on the terminal."""
    covered, every = pairs_of_kinds(c)
    out = [
        f"{words_of(c)} in {words.plural(c.runs, 'run')}",
        f"  operation beside operation, in any phase and place: {words.grouped(covered)} of {words.grouped(every)}",
    ]
    for dimension, values in figures(c).items():
        out.append(f"  {dimension}:")
        wide = max(len(f.name) for f in values) if values else 0
        out += [
            f"    {f.name:<{wide}}  {words.grouped(f.covered)} of {words.grouped(f.possible)} "
            f"({words.share(f.covered, f.possible)})"
            for f in values
        ]
    if c.beyond:
        out.append(
            f"  {words.plural(len(c.beyond), 'other pair')} that the workloads do not name, such as a fault's maintenance"
        )
    if c.untold:
        out.append(f"  {words.plural(c.untold.total(), 'time')} the phase is not known: no proxy saw it")
    return out


def as_json(c: Coverage, unread: Sequence[str] = ()) -> Mapping[str, object]:
    """For ``--json``: the coverage with its figures."""
    said = {
        dimension: [{"value": f.name, "covered": f.covered, "possible": f.possible} for f in values]
        for dimension, values in figures(c).items()
    }
    return {**c.to_json(), "figures": said, "never": [list(kinds) for kinds in never(c)], "unread": list(unread)}
