"""A night in words: one line for each failure, and what a person must do about it."""

from __future__ import annotations

from checkers.names import Harm, in_words
from checkers.nights import record
from checkers.nights.finds import Find
from checkers.nights.night import Night
from checkers.nights.record import AnomalyCount, NightRun
from reports.drawing import words
from reports.soak import places
from workloads.file.suite import KnownAnomalies

SYMBOLS = {"new": "✕", "known": "!", "error": "…", "unknown": "?", "valid": "✓", "not run": "–"}
"""What a run or a cell showed → its symbol."""
CLASSES = {
    "new": "invalid",
    "known": "known",
    "error": "incomplete",
    "unknown": "unknown",
    "valid": "valid",
    "not run": "incomplete",
}
"""What a run or a cell showed → its class of the style sheet."""


MOST_TOO_FEW = 20
"""Combinations with too few operations that a note names."""
MOST_NOTED = 3
"""Combinations that a note names."""


def findings(night: Night, line: NightRun) -> str:
    """The anomalies of a run, those that are known with their link."""
    new = night.new_of(line)
    parts = [words.tally(new)] if new else []
    links: dict[str, list[AnomalyCount]] = {}
    for seen in line.kinds:
        if (known := night.known_of(seen, line.cell)) is not None:
            links.setdefault(known, []).append(seen)
    parts += [
        f"{words.tally({name: n})} ({words.how_known(link)}: {words.link_label(link)})"
        for link, found in links.items()
        for name, n in record.tally(found).items()
    ]
    return ", ".join(parts)


def harm(line: NightRun) -> str:
    """How bad the gravest is that happened in a run; empty for a run without one, or names that nobody explains."""
    harms = [h.harm for h in line.by_kind if h.harm is not None]
    unread = Harm.UNREADABLE if any(h.unreadable for h in line.by_kind) else None
    return str(unread or min(harms, key=lambda h: h.gravity)) if harms else ""


def line_of(night: Night, line: NightRun) -> str | None:
    """The line of a run on the terminal; None for one that needs none."""
    shown = night.showed(line)
    if shown == "valid" or line.ended == "incomplete":  # the run is made again
        return None
    who = line.cell.name + ("" if line.seed is None else f" seed {line.seed}")
    if shown == "error" and line.number is None:  # a stack
        return words.printable(f"{SYMBOLS[shown]} {line.cell.name}: {line.reason}")
    what = findings(night, line) or words.shorten(f"{shown}: {line.reason or 'no reason given'}", 300)
    happened = f"; {'; '.join(line.headline)}; who: {line.who}" if line.headline else ""
    repeat = f"; {line.command}" if line.command and shown != "unknown" else ""
    return words.printable(f"{SYMBOLS[shown]} {who}: {what}{words.shorten(happened, 400)}{repeat}")


def find_of(f: Find, place: str = "") -> str:
    """What became of a new anomaly, one line: ``undelete of CELL: shows again in 3 of 3 replays; shrunk to 2 operations …``.

    ``place``: what to call its cell, for a person: the anomaly is said in words, too; empty: its name.
    """
    parts = [f"shows again in {f.replays} replays"] if f.replays is not None else []
    if f.became == "stopped":
        parts.append(f"stopped after {words.plural(f.tries, 'run')} of it and of parts of it")
    if f.is_smaller:
        what = "smallest so far" if f.became == "stopped" else "shrunk to"
        result = f"{what} {words.plural(f.operations, 'operation')} of {words.plural(f.writers, 'writer')}"
        result += f", which shows it in {f.rate}" if f.rate is not None else ""
        how = "reproduced" if f.scenario is not None else "the recording showed it"
        parts.append(result + (f", {how} {f.reproduced}" if f.reproduced is not None else ""))
    parts += [words.shorten(f.why_no_scenario, 400)] if f.why_no_scenario else []
    seed = "" if f.seed is None else f" seed {f.seed}"
    text = f"{in_words(f.anomaly) if place else f.anomaly} of {place or f.cell.name}{seed}: {'; '.join(parts)}"
    text += f": {f.command}" if f.is_smaller and f.command else ""
    return words.printable(text + (f"; go on with: {f.goes_on}" if f.goes_on else ""))


def waiting(night: Night) -> list[tuple[NightRun, str]]:
    """The new anomalies that the night neither replayed nor found to be the same as one that it did: run and name."""
    done = {(f.cell.catalog, name) for f in night.finds for name in (f.anomaly, *f.also)}
    first: dict[tuple[str, str], NightRun] = {}
    for x in night.failures:
        for name in night.new_of(x):
            first.setdefault((x.cell.catalog, name), x)
    return [(x, name) for (catalog, name), x in first.items() if (catalog, name) not in done]


def unfollowed(x: NightRun, name: str, place: str, *, over: bool) -> str:
    """What became of a new anomaly that the night did not get to: ``change lost (lost-update) of CELL seed 7: not replayed: …``.

    ``over``: whether the night has come to its end; else it goes on, or was stopped.
    """
    seed = "" if x.seed is None else f" seed {x.seed}"
    why = "no time was left; the same command with a longer --for goes on with it" if over else "the night is not over"
    return words.printable(f"{in_words(name)} of {place}{seed}: not replayed: {why}")


def finds_of(night: Night, line: NightRun) -> list[Find]:
    """What became of the anomalies of a run."""
    return [f for f in night.finds if f.run == line.folder]


def counted(night: Night) -> str:
    """``40 runs of 22 of 66 combinations in 1 h 2 min``, ``14 runs of all 7 combinations in 10 min``."""
    ran = sum(1 for cell in night.cells if any(x.counts for x in night.by_cell.get(cell, ())))
    took = words.duration(1000 * night.used)
    cells = words.plural(len(night.cells), "combination")
    share = f"{'all ' * (ran > 1)}{cells}" if ran == len(night.cells) > 0 else f"{ran} of {cells}"
    return f"{words.plural(len(night.runs), 'run')} of {share} in {took}"


def where(known: KnownAnomalies) -> str:
    """The combinations that a known anomaly is limited to; empty: none is left out."""
    conditions = ((d, getattr(known, d)) for d in ("workload", "catalog", "faults", "iceberg"))
    return ", ".join(f"{d} {' or '.join(values)}" for d, values in conditions if values)


def notes(night: Night) -> list[str]:
    """What a person should know besides the failures, a sentence each."""
    out = [*night.too_little]
    for missing in night.missing:
        k = missing.known
        whereabouts = f" of {found}" if (found := where(k)) else ""
        out.append(
            f"The known anomaly {k.name}{whereabouts} did not show in {words.plural(missing.runs, 'run')} "
            f"of its combinations; if it is fixed, remove it from known: ({k.link})"
        )
    if night.grown is not None:
        first, last = night.grown
        out.append(f"The memory of the soak's own process grew from {words.size(first)} to {words.size(last)}.")
    if unrun := [c for c in night.cells if night.worst(c) == "not run"]:
        few = "; ".join(places.of(night, c) for c in unrun[:MOST_NOTED])
        out.append(
            f"{words.plural(len(unrun), 'combination')} had no run: {few}{'; …' if len(unrun) > MOST_NOTED else ''}; give a longer --for."
        )
    asked = night.suite.at_least
    named = [f"{places.of(night, c)} had {words.grouped(n)}" for c, n in night.too_few.items()][:MOST_TOO_FEW]
    others = len(night.too_few) - len(named)
    named += [f"{words.grouped(others)} more, in the table, had too few" if others else ""]
    if asked and night.too_few:
        each = f"Each combination must have made {words.plural(asked, 'operation')} (at_least)"
        out.append(f"{each}: {'; '.join(filter(None, named))}. Give a longer --for, or more --runs.")
    thin = [c for c in night.cells if night.few(c) and c not in night.too_few]
    out += [f"{places.of(night, c)} is valid, and untested: {'; '.join(night.untested(c))}." for c in thin[:MOST_NOTED]]
    if more := thin[MOST_NOTED:]:
        out.append(
            f"So {'is' if len(more) == 1 else 'are'} {words.plural(len(more), 'more combination')}, in the table."
        )
    for cell, why in night.left_out.items():
        out.append(f"{places.of(night, cell)} cannot run: {why}")
    return out
