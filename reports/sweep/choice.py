"""Which point of a sweep to choose, in plain words: at each load, on each catalog and release; or why the runs do not say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import median

from checkers.costs import curves
from checkers.costs.comparison import FEWEST_RUNS, Comparison, Contender, apart, seeds_needed, varied_label
from checkers.costs.measures import BY_KEY, Figure
from checkers.evidence.lenient import mapping, mappings
from checkers.evidence.replace import replace
from reports.drawing.figures import spread
from reports.sweep.sentences import SILENCES, listed
from workloads.file.pasteable import SETS, commands_of, typed

FAILED = "aborted"
DECIDING = {FAILED: "failed writes", "commits_per_s": "commits a second", "write_p95_ms": "the p95 of writes"}
"""Figures by which a point is chosen: what was in vain, what gets done, how long the slowest wait. The first comes before the others: a fast
failure is no good point."""
LOAD = ("writers", "interval", "swap-latency")
"""Parameters that say how much is asked of a table. Nobody chooses among their values, only at one of them."""


WORTH_SAYING = 0.1
"""Share by which a median must be worse for that to be said of a choice though noise may be its reason."""
FOR_NEW = "For a new table write the same TBLPROPERTIES (…) at the end of its CREATE TABLE."
Longer = Callable[[str], str]
"""The command that makes the runs of a sweep anew, each as long as the argument says (``40s``)."""


def choice(c: Comparison, longer: Longer | None = None) -> list[str]:
    """Which values to choose at each load, on each catalog and release; or that the runs do not say. A sentence for each of these.

    Args:
        longer: for a choice that stands on few commits; None: the option alone is said.
    """
    groups = _loads(c)
    if not groups:
        return ["No choice: only the load was varied, and no setting."]
    out = []
    for group, found in groups.items():
        where = curves.label(group, list(groups))
        said, best, left = _choice(c, found)
        said += _within_noise(c, best, found) + _in_icebergs_words(c, best, left, found) + _few(c, best, found, longer)
        out.append(f"{where}: {said}" if where else f"{said[:1].upper()}{said[1:]}")
    return out


def in_short(c: Comparison) -> list[str]:
    """The first sentence of each :func:`choice`."""
    return [f"{said.partition('. ')[0].removesuffix('.')}." for said in choice(c)]


def _in_icebergs_words(
    c: Comparison, x: Contender | None, left: Sequence[Contender], points: Sequence[Contender]
) -> str:
    """What one types for the values of a chosen point in which others differ, because a sweep's parameters are names of icequake's; then
    what all points had, without which the choice was not measured. Without a choice, of the values that all points have which are not out."""
    settings = [(k, v) for k, v in left[0].varied if k not in LOAD] if left else []
    settings = [(k, v) for k, v in settings if all(curves.value(y, k) == v for y in left)]
    differ = [(k, v) for k, v in settings if any(curves.value(y, k) != v for y in points)]
    ran = commands_of(_kinds(c))
    found = typed(differ, ran)
    open_ = {k for y in points for k, _ in y.varied} - dict(settings).keys()
    same = [pair for pair in (*_of_file(c), *settings) if pair[0] not in {*dict(differ), *open_}]
    alike = f" All points had, too: {'; '.join(every)}." if (every := typed(same, ran)) else ""
    new = f" {FOR_NEW}" if any(text.startswith(SETS) for text in (*found, *every)) else ""
    begins = "In Iceberg's words" if x is not None else "What is not out has in common, in Iceberg's words"
    return f" {begins}: {'; '.join(found)}.{alike}{new}" if found else ""


def _of_file(c: Comparison) -> Iterator[tuple[str, str]]:
    """What the experiment's file says of all its tables and their properties, by names that :func:`typed` knows."""
    tables = mappings(mapping(c.header.get("workload")).get("tables"))
    each = [
        {name.replace("_", "-"): str(t[name]) for name in ("mode", "isolation", "format_version") if name in t}
        | {str(name): str(value) for name, value in mapping(t.get("properties")).items()}
        for t in tables
    ]
    yield from ((k, v) for k, v in (each[0].items() if each else ()) if all(x.get(k) == v for x in each))


def _kinds(c: Comparison) -> set[str]:
    """The kinds of the operations in the mixes of the experiment's file, its phases' too."""
    spec = mapping(c.header.get("workload"))
    mixes = [spec, *mappings(spec.get("phases"))]
    return {str(kind) for m in mixes for kind in mapping(m.get("operations"))}


def _on_few(c: Comparison, points: Sequence[Contender]) -> list[Contender]:
    """The points whose runs made fewer commits than :data:`checkers.costs.curves.FEW`."""
    return [x for x in points if "few commits" in curves.silent(curves.committing(c, x))]


def _few(c: Comparison, chosen: Contender | None, points: Sequence[Contender], longer: Longer | None) -> str:
    """Where a choice, or that there is none, stands on few commits; a choice with the command that confirms it."""
    few = _on_few(c, points)
    if not few:
        return ""
    which = "every point" if len(few) == len(points) else listed([_setting(x, points) for x in few])
    if chosen is None:
        return f" Mind: {which}: {SILENCES['few commits']}."
    time = f"{_long_enough_s(c, few)}s"
    with_time = f"--time {time}" if longer is None else longer(time)
    return f" Only likely: {which}: fewer than {curves.FEW} commits a run. Confirm with {with_time}"


def _long_enough_s(c: Comparison, few: Sequence[Contender]) -> int:
    """Seconds, a multiple of ten, in which each of these points would make half as many commits again as are needed, at the pace seen; ten
    times as long as a run was if none was made."""
    lasted = max(m.seconds for x in few for m in c.measured(x))
    made = min(median(m.commits for m in curves.committing(c, x)) for x in few)
    return 10 * math.ceil(lasted * min(10.0, 1.5 * curves.FEW / made if made else 10.0) / 10)


def _within_noise(c: Comparison, chosen: Contender | None, points: Sequence[Contender]) -> str:
    """In which figures the chosen point has a worse median than another valid one though noise may be the reason; else empty."""
    if chosen is None:
        return ""
    worse = []
    for key, name in {**DECIDING, "retries_mean": "retries a commit"}.items():
        f, own = BY_KEY[key], c.spreads.get((key, chosen))
        others = [
            s for y in points if y != chosen and c.valid(y) is True and (s := c.spreads.get((key, y))) is not None
        ]
        if own is None or not others:
            continue
        best = (max if f.better == "more" else min)(others, key=lambda s: s.median)
        difference = best.median - own.median if f.better == "more" else own.median - best.median
        if difference > WORTH_SAYING * abs(best.median) and apart(own, best) is not True:
            worse.append(f"{name} {spread(f, own)} against {spread(f, best)}")
    return f" Worse, but within noise: {'; '.join(worse)}." if worse else ""


def chosen(c: Comparison) -> dict[Contender, str]:
    """The points that :func:`choice` says to choose, each with the word for it: ``choose``, or ``likely`` where commits are few."""
    groups = _loads(c).values()
    best = {x: found for found in groups if (x := _choice(c, found)[1]) is not None}
    return {x: "likely" if _on_few(c, found) else "choose" for x, found in best.items()}


def _loads(c: Comparison) -> dict[Contender, list[Contender]]:
    """Load, catalog and release → the points among which one is chosen; empty if there is no choice anywhere."""
    groups: dict[Contender, list[Contender]] = {}
    for x in c.contenders:
        groups.setdefault(replace(x, varied=tuple((k, v) for k, v in x.varied if k in LOAD)), []).append(x)
    return groups if any(len(found) > 1 for found in groups.values()) else {}


def _choice(c: Comparison, found: Sequence[Contender]) -> tuple[str, Contender | None, list[Contender]]:
    """In words and itself the point to choose, if there is one, then the points that are not out. Out are those with an anomaly, then those
    that fail more writes than another one, then those that are worse than another one in what is left of :data:`DECIDING` and better in
    nothing; each by more than noise.
    """
    valid = [x for x in found if c.valid(x) is True]
    out = [f"{_setting(x, found)} ({_why_invalid(c, x)})" for x in found if x not in valid]
    if len(valid) < 2:
        only = f"only {_setting(valid[0], found)} is valid" if valid else "no point is valid"
        return f"no choice: {only}.{_outs(out)}", None, valid
    if min(len(c.measured(x)) for x in valid) < FEWEST_RUNS:
        return (
            f"no choice: noise. With fewer than {FEWEST_RUNS} runs of a point nothing can be told from it.{_outs(out)}",
            None,
            [],
        )
    kept = [x for x in valid if not any(_better(c, FAILED, y, x) for y in valid)]
    f = BY_KEY[FAILED]
    out += [
        f"{_setting(x, found)} (fails {spread(f, c.spreads[FAILED, x])} of its writes)" for x in valid if x not in kept
    ]
    others = [k for k in DECIDING if k != FAILED]
    worse = {x: [(k, y) for y in kept for k in others if _better(c, k, y, x)] for x in kept}
    beaten = {
        x: [(k, y) for k, y in pairs if not any(_better(c, o, x, y) for o in others)] for x, pairs in worse.items()
    }
    left = [x for x in kept if not beaten[x]]
    out += [f"{_setting(x, found)} ({_than(beaten[x], found)})" for x in kept if x not in left]
    if len(left) == 1:
        (x,) = left
        best = [name for k, name in DECIDING.items() if all(_better(c, k, x, y) for y in valid if y is not x)]
        why = f"best in {' and '.join(best)}, by more than noise" if best else "no point is better in all that decides"
        price = _price(c, x, valid)
        rest = (
            f"; failed writes come before the others, at the price of {price}"
            if price
            else ", and worse in nothing that decides"
        )
        verb = "likely" if _on_few(c, found) else "choose"
        return f"{verb} {_setting(x, found)}: {why}{rest}.{_outs(out)}", x, left
    split = [f"{_setting(x, found)} is {_than(worse[x], found)} and better in another figure" for x in left if worse[x]]
    if split:
        return f"no choice: {'; '.join(split)}.{_outs(out)}", None, left
    names = ", ".join(_setting(x, found) for x in left)
    return (
        f"no choice: noise. In {', '.join(DECIDING.values())} the ranges of {names} overlap.{_seeds(c, left)} Longer runs (--time) can narrow "
        f"the ranges, by which a point is chosen here; more seeds only widen them.{_outs(out)}",
        None,
        left,
    )


def _price(c: Comparison, x: Contender, points: Sequence[Contender]) -> str:
    """``the p95 of writes 6.6 s → 19.3 s``: each figure in which another point is better, of the best of these points and of ``x``."""
    better = {k: [y for y in points if _better(c, k, y, x)] for k in DECIDING if k != FAILED}
    found = [(k, ([y for y in c.best(BY_KEY[k]) if y in ys] or ys)[0]) for k, ys in better.items() if ys]
    return " and ".join(
        f"{DECIDING[k]} {spread(BY_KEY[k], c.spreads[k, y])} → {spread(BY_KEY[k], c.spreads[k, x])}" for k, y in found
    )


def _seeds(c: Comparison, left: Sequence[Contender]) -> str:
    """With how many seeds the means of the points of which none is chosen could be told apart, by the figure that needs fewest.

    Nothing if none tells and a figure is missing in a point, or was measured in only one of its runs.
    """
    each, missing = [], False
    for n, x in enumerate(left):
        for y, f in product(left[n + 1 :], DECIDING):
            one, other = c.spreads.get((f, x)), c.spreads.get((f, y))
            if one is None or other is None or min(len(one.values), len(other.values)) < 2:
                missing = True
            elif (needed := seeds_needed(one, other)) is not None:
                each.append((needed, f))
    if not each:
        return "" if missing else " Their means are equal, which no number of seeds tells apart."
    needed, f = min(each)
    return (
        f" At the spread seen, a comparison of means needs at least {needed} seeds of each point to tell any two of them apart "
        f"(in {DECIDING[f]}; error 5 %, power 80 %)."
    )


def _outs(out: Sequence[str]) -> str:
    return f" Out: {'; '.join(out)}." if out else ""


def _why_invalid(c: Comparison, x: Contender) -> str:
    found = ", ".join(f"{total} {name}" for name, (total, _) in c.anomalies(x).items())
    return found or c.reason(x) or "not everything was decided"


def _than(worse: Sequence[tuple[str, Contender]], found: Sequence[Contender]) -> str:
    """In which figures a point is worse, and than which."""
    return " and ".join(
        f"worse than {_setting(y, found)} in {DECIDING[k]}" for k, y in {k: (k, y) for k, y in reversed(worse)}.values()
    )


def _better(c: Comparison, key: str, x: Contender, y: Contender) -> bool:
    """Whether a point is better in a figure than another one, by more than noise."""
    return x is not y and _beats(c, BY_KEY[key], x, [x, y])


def _beats(c: Comparison, f: Figure, x: Contender, points: Sequence[Contender]) -> bool:
    """Whether a point is better in a figure than each of the others, by more than noise."""
    own_spread = c.spreads.get((f.key, x))
    others = [c.spreads.get((f.key, y)) for y in points if y is not x]
    if own_spread is None or None in others:
        return False
    return all(
        apart(own_spread, o) is True and (own_spread.median > o.median) == (f.better == "more")
        for o in others
        if o is not None
    )


def _setting(x: Contender, points: Sequence[Contender]) -> str:
    """The values of a point that others at the same load have not."""
    return curves.label(x, points) or varied_label(x.varied)
