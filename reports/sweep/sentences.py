"""A sweep in plain words: where throughput stops growing and why, what commits cost, what the points do not say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from checkers.costs import curves
from checkers.costs.attempts import ATTEMPT_PHASES, MANY_RETRIES, CommitsMeasured, merged
from checkers.costs.comparison import FEWEST_RUNS, Comparison, Contender, chance, varied_label
from checkers.costs.curves import Axis, Ceiling, Curve, Knee, Predicted, Silence
from checkers.costs.measures import BY_KEY
from reports.compare import words as comparewords
from reports.drawing import words
from reports.drawing.figures import shown, spread

THROUGHPUT = "commits_per_s"
COMPARED = (
    "commits_per_s",
    "write_p50_ms",
    "write_p95_ms",
    "retried",
    "retries_mean",
    "retries_8",
    "aborted",
    "fairness",
)
"""Figures in which the points of a sweep of names are held against the first."""
MOST_POINTS_NAMED = 6
"""Points that a sentence lists."""

_PARTS = {
    "data": "data files",
    "wait": "backoff",
    "refresh": "refreshing the table",
    "validate": "validation",
    "manifests": "manifests and manifest lists",
    "metadata": "metadata files",
    "swap": "the catalog's answers to commit requests",
    "other": "what is outside the recorded phases of a commit",
}

_LIMITS = {
    "idle": "the workload's own pace, in writers' idle time",
    "pointer": "the table's one pointer, in attempts that won",
}


def point(c: Comparison, x: Contender) -> str:
    """How a point is called: ``writers=8 backoff=none``, and catalog, release and engines where points differ in them."""
    return curves.label(x, c.contenders) or varied_label(x.varied) or c.label(x)


def findings(c: Comparison, predicted: Sequence[Predicted] = ()) -> list[str]:
    """What the sweep shows, a paragraph each, the most important first."""
    x = curves.axis(c.contenders)
    out = []
    if x is not None:
        for line in curves.lines(c, THROUGHPUT, x):
            found = curves.knee(line)
            if found is not None:
                out.append(throughput(c, x, line, found))
        out += _retries_along(c, x)
    else:
        out += _ranked(c)
    out += [*_one_commit(c), *_fair(c), *_refusals(c), *silences(c), *predictions(predicted)]
    out.append(comparewords.rule(c) if x is None else rule(c))
    return out


# --- throughput -------------------------------------------------------------------------------------------------------


def throughput(c: Comparison, x: Axis, line: Curve, found: Knee) -> str:
    """The knee of a line and its ceiling."""
    f = BY_KEY[THROUGHPUT]
    first, last = line.points[0], line.points[-1]
    lead = f"{line.label}: " if line.label else ""
    here = f"{x.parameter}={found.point.text}"
    reached = spread(f, found.point.spread)
    if found.shape == "grows":
        sentence = f"throughput still grows at {x.parameter}={last.text}, the largest value, with {reached} commits: its knee was not reached."
    elif found.shape == "flat":
        sentence = (
            f"throughput never grows by 10 % or more from {x.parameter}={first.text} on, where it is {reached} commits."
        )
    else:
        sentence = f"throughput grows up to {here}, with {reached} commits, and not beyond: that is the knee."
    if found.falls:
        sentence += (
            f" It then falls by {words.share(-found.change, 1)} to {shown(f, last.spread.median)} "
            f"at {x.parameter}={last.text}."
        )
    if found.shape != "grows" and (what := curves.ceiling(curves.committing(c, last.contender))) is not None:
        sentence += f" {ceiling(what)}"
    if x.parameter == "writers" and (share := _scaled(line)):
        sentence += f" {share}"
    if not found.certain:
        sentence += f" With fewer than {FEWEST_RUNS} runs of a point, growth cannot be told from noise."
    return lead + sentence if lead else sentence[:1].upper() + sentence[1:]


def ceiling(found: Ceiling) -> str:
    """What limits a line, in a sentence or two."""
    share = words.share(found.share, 1)
    bound = (
        ""
        if found.most is None
        else f" A winning attempt leaves room for at most {found.most:.1f} commits a second to one table."
    )
    if found.what == "idle":
        return f"The ceiling is the workload: writers have nothing to do in {share} of their time."
    if found.what == "pointer":
        return (
            f"The ceiling is the table's one pointer: the attempts that won cover {share} of the time and cannot overlap, as each must refresh "
            f"after the commit before it.{bound}"
        )
    return f"The ceiling is {_PARTS.get(found.what, found.what)}: {share} of the writers' time goes there at the right end.{bound}"


def _scaled(line: Curve) -> str:
    found = curves.scaling(line)
    if len(found) < 2:
        return ""
    first, (p, share) = found[0][0], found[-1]
    return f"At writers={p.text} that is {words.share(share, 1)} of linear scaling from writers={first.text}."


# --- retries ----------------------------------------------------------------------------------------------------------


def _retries_along(c: Comparison, x: Axis) -> Iterable[str]:
    """The share of commits that needed a retry at both ends of each line."""
    for line in curves.lines(c, "retried", x):
        ends = dict.fromkeys((line.points[0], line.points[-1]))
        parts = [f"{x.parameter}={p.text}: {retries(c, p.contender)}" for p in ends]
        if parts:
            of_line = f", {line.label}" if line.label else ""
            yield f"Retries, all runs together (the table has the median of the runs){of_line}. {'; '.join(parts)}."


def retries(c: Comparison, x: Contender) -> str:
    """``35 % of the commits retried, 1.40 retries a commit, 4.10 for each that retried, 1.2 % needed 8 or more``; all runs together."""
    found = [m for m in curves.committing(c, x) if m.commits]
    if not found:
        return "not known"
    m = merged(found)
    if not m.retries_mean:
        return f"none of {words.plural(m.commits, 'commit')} retried"
    return (
        f"{words.share(m.retried or 0.0, 1)} of the commits retried, {m.retries_mean:.2f} retries a commit, {m.retries_of_retried or 0.0:.2f} "
        f"for each that retried, {words.share(m.many or 0.0, 1)} needed {MANY_RETRIES} or more"
    )


def _ranked(c: Comparison) -> Iterable[str]:
    """A sweep of names: the points by throughput and by retries, then how each differs from the first by more than noise."""
    ranks = min((n for x in c.contenders if (n := len(c.measured(x)))), default=0) >= FEWEST_RUNS
    order = (
        "the best first"
        if ranks
        else f"in no order of worth, which fewer than {FEWEST_RUNS} runs of a point do not tell"
    )
    for key in (THROUGHPUT, "retried", "retries_mean"):
        f = BY_KEY[key]
        ranked = c.best(f) if ranks else [x for x in c.contenders if (key, x) in c.spreads]
        if len(ranked) > 1:
            shown = [f"{point(c, x)} {spread(f, c.spreads[key, x])}" for x in ranked[:MOST_POINTS_NAMED]]
            rest = f"; and {len(ranked) - MOST_POINTS_NAMED} more" if len(ranked) > MOST_POINTS_NAMED else ""
            yield f"{f.name[:1].upper()}{f.name[1:]}, {order}: {'; '.join(shown)}{rest}."
    if ceilings := _ceilings(c):
        yield ceilings
    if len(c.contenders) <= 2 * MOST_POINTS_NAMED:
        yield from comparewords.differences(c, [BY_KEY[k] for k in COMPARED])[:-1]


def _ceilings(c: Comparison) -> str:
    """What limits each point of a sweep of names; empty if no attempts were recorded."""
    by_limit: dict[str, list[str]] = {}
    for x in c.contenders:
        found = curves.ceiling(curves.committing(c, x))
        if found is not None:
            by_limit.setdefault(found.what, []).append(f"{point(c, x)} {words.share(found.share, 1)}")
    parts = [f"{_LIMITS.get(what) or _PARTS.get(what, what)} ({listed(points)})" for what, points in by_limit.items()]
    return f"What limits the points, and its share of the time: {'; '.join(parts)}." if parts else ""


def _one_commit(c: Comparison) -> Iterable[str]:
    """A first attempt beside a retry, and a parent that was read before beside one that was not, over all runs."""
    found = [m for x in c.contenders for m in curves.committing(c, x) if m.detailed]
    if not found:
        return
    m = merged(found)
    first, retry = m.phase("first", "whole"), m.phase("retry", "whole")
    if first is not None:
        took = words.duration(first.median)
        sentence = f"One commit, all points together: a first attempt takes {took} at the median from its refresh to the catalog's answer"
        if (data := m.phase("first", "data")) is not None and data.median:
            sentence += f", after {words.duration(data.median)} for data files"
        sentence += f" ({_phases(m, 'first')})."
        if retry is not None:
            sentence += f" A retry takes {words.duration(retry.median)} ({_phases(m, 'retry')})"
            wait, size = m.phase("retry", "wait"), m.phase("retry", "written_bytes")
            sentence += f" after a backoff of {words.duration(wait.median)}" if wait is not None else ""
            sentence += f", and writes {words.size(size.median)} of metadata." if size is not None else "."
        yield sentence
    for which, called in (("first", "A first attempt"), ("retry", "A retry")):
        hot, cold = m.phase(f"{which} hot", "whole"), m.phase(f"{which} cold", "whole")
        if hot is not None and cold is not None:
            yield (
                f"{called} takes {words.duration(hot.median)} if its client has read its parent before "
                f"({_phases(m, f'{which} hot')}), and {words.duration(cold.median)} if not ({_phases(m, f'{which} cold')}); medians of "
                f"{words.grouped(hot.count)} and {words.grouped(cold.count)} attempts."
            )
    lost = m.wasted
    worked = sum(m.time.values())
    if worked and (lost.attempts or lost.aborted):
        written = (
            ""
            if lost.written_bytes is None
            else f" and {words.size(lost.written_bytes)} of manifests and metadata files"
        )
        share = words.share(min(lost.attempts_s + lost.waited_s, worked), worked)
        sentence = (
            f"Wasted in all runs: {words.plural(lost.attempts, 'attempt')} in vain cost {words.duration(1000 * lost.attempts_s)} of writers' "
            f"time{written}; backoff took {words.duration(1000 * lost.waited_s)}. Together this is {share} of the time in writes."
        )
        if lost.aborted:
            count = words.plural(lost.aborted, "operation was", "operations were")
            sentence += f" In the end {count} aborted, after {words.duration(1000 * lost.aborted_s)} in all."
        yield sentence


def _phases(m: CommitsMeasured, sort: str) -> str:
    found = ((p, m.phase(sort, p)) for p in ATTEMPT_PHASES)
    return ", ".join(f"{p} {words.duration(q.median)}" for p, q in found if q is not None and q.median)


# --- writers ----------------------------------------------------------------------------------------------------------


def _fair(c: Comparison) -> Iterable[str]:
    found = [(x, c.spreads["fairness", x]) for x in c.contenders if ("fairness", x) in c.spreads]
    several = [(x, s) for x, s in found if any(len(m.writers) > 1 for m in curves.committing(c, x))]
    if several and min(len(c.measured(x)) for x, _ in several) >= FEWEST_RUNS:
        x, s = min(several, key=lambda p: p[1].median)
        fewest = median(m.fewest or 0.0 for m in curves.committing(c, x))
        yield (
            f"Fairness is lowest at {point(c, x)}: Jain's index {s.median:.2f}, and the writer with the fewest commits has "
            f"{words.share(fewest, 1)} of those of the writer with the most."
        )


def _refusals(c: Comparison) -> Iterable[str]:
    found = [m for x in c.contenders for m in curves.committing(c, x)]
    if not found:
        return
    m = merged(found)
    if m.beaten:
        top = [
            f"{b.kind} by {b.by} "
            + (f"×{words.grouped(b.attempts)}" if b.attempts else f"×{words.grouped(b.aborted)} aborted")
            for b in m.beaten[:4]
        ]
        own = sum(met.get(w, 0) for w, met in m.beaten_writers.items())
        whole = sum(n for met in m.beaten_writers.values() for n in met.values())
        tail = f" {words.share(own, whole)} of the refusals were by a commit of the writer itself." if own else ""
        yield f"Who made whom retry or abort, the most frequent first: {'; '.join(top)}.{tail}"


# --- what the points do not say ---------------------------------------------------------------------------------------

SILENCES: Mapping[Silence, str] = {
    "no retries": "no commit needed a retry, so they say nothing about conflicts. More writers, a shorter interval or a slower swap would",
    "idle": "writers spend less than half of their time in operations, so throughput is the workload's own pace and not a limit",
    "few commits": f"fewer than {curves.FEW} commits a run: shares of so few say little. A longer run would",
}


def silences(c: Comparison) -> list[str]:
    """The points that say nothing about conflicts, by reason."""
    by_silence: dict[Silence, list[str]] = {}
    measured = 0
    for x in c.contenders:
        found = curves.committing(c, x)
        measured += bool(found)
        for why in curves.silent(found):
            by_silence.setdefault(why, []).append(point(c, x))
    out = []
    for why, points in by_silence.items():
        which = "Every point" if len(points) == measured and measured > 1 else listed(points)
        out.append(
            f"Too idle to say. {which}: {SILENCES[why]}." if why != "few commits" else f"{which}: {SILENCES[why]}."
        )
    return out


def listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_POINTS_NAMED
    return "; ".join(names[:MOST_POINTS_NAMED]) + (f" and {words.plural(more, 'other point')}" if more > 0 else "")


def predictions(predicted: Sequence[Predicted]) -> list[str]:
    """How far the predicted figures are from the measured ones."""
    errors: dict[str, list[tuple[float, Predicted]]] = {}
    for p in predicted:
        for name, e in p.error.items():
            errors.setdefault(name, []).append((e, p))
    out = []
    for name, found in errors.items():
        f = BY_KEY.get(name)
        worst, where = max(found, key=lambda ep: abs(ep[0]))
        typical = median(abs(e) for e, _ in found)
        sentence = f"Predicted {f.title if f else name}: off by {words.share(typical, 1)} at the median of {words.plural(len(found), 'point')}"
        out.append(f"{sentence}, and by {_signed(worst)} at {varied_label(where.varied)}." if worst else f"{sentence}.")
    only = sum(not p.measured for p in predicted)
    if only:
        out.append(
            f"{words.plural(only, 'point')} {'is' if only == 1 else 'are'} predicted only: nothing measured stands beside."
        )
    return out


def _signed(share: float) -> str:
    return ("+" if share > 0 else "-") + words.share(abs(share), 1)


def rule(c: Comparison) -> str:
    """How growth is told from noise."""
    runs = min((len(c.measured(x)) for x in c.contenders if c.measured(x)), default=0)
    base = "A figure grows if its median is 10 % above the best before"
    if runs < FEWEST_RUNS:
        return f"{base}. With {words.plural(runs, 'run')} of a point nothing can be told from noise: --seeds 3 can, --seeds 5 better."
    return (
        f"{base} and the ranges over the seeds do not overlap, which chance alone does in {words.share(chance(runs, runs), 1)} of cases with "
        f"{words.plural(runs, 'run')} each."
    )


def untested(c: Comparison) -> list[str]:
    """What these runs do not show, one sentence each."""
    out = [f"{point(c, x)}: {c.reason(x) or 'its runs were not started.'}" for x in c.contenders if not c.measured(x)]
    every = [m for x in c.contenders for m in c.measured(x)]
    spec = c.header.get("workload")
    spec = spec if isinstance(spec, Mapping) else {}
    if every:
        seconds = median(m.seconds for m in every)
        out.append(
            f"Long runs: each point ran {words.plural(len(c.seeds), 'time')}, each time with another seed and for "
            f"{words.duration(1000 * seconds)}. A table that grows for hours has longer manifest lists and metadata files."
        )
    params = curves.parameters(c.contenders)
    if params:
        settings = "; ".join(f"{name} {', '.join(values)}" for name, values in params.items())
        out.append(
            f"Values between and beyond those of the sweep ({settings}), and every parameter that it holds still."
        )
    if not spec.get("nemesis"):
        out.append("Faults: none was injected.")
    if any(m.attempts is not None and m.attempts.detailed for m in every):
        out.append(
            "Engines: these writers are Iceberg's own client in one process, a thread for each. Planning, tasks and data files of an engine "
            "come on top of each first attempt; a retry is the same in an engine that uses this client."
        )
    out.append(
        "More than one machine: everything ran on this one, over loopback; networks, TLS and managed services were not tested. Writers, "
        "catalog and object store shared its processors, so with many writers these can be the ceiling."
    )
    if c.header.get("parallel", 1) != 1:
        out.append(
            f"Speed of a run alone: {c.header['parallel']} runs went on at the same time and slowed each other down."
        )
    return out
