"""A comparison in plain words: what to expect of each contender, what differs, and what was not tested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

from pydantic import ValidationError

from checkers.conflicts.predicted import ENGINE_KINDS, ENGINE_PLACEMENTS, engine_cells, predict
from checkers.costs.comparison import FEWEST_RUNS, Comparison, Contender, chance
from checkers.costs.measures import BY_KEY, FIGURES, Figure, Measures
from reports.drawing import words
from reports.drawing.figures import shown, spread
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

MOST_NAMED = 8
OBJECT_STORE = "minio"
"""The object store of every run of a comparison."""
ENOUGH = 100
"""With fewer values, the 99th percentile is just the greatest."""


def anomalies(c: Comparison, contender: Contender) -> str:
    """The anomalies of all runs of a contender: ``undelete ×3 in 2 of 3 runs``."""
    runs = len(c.measured(contender))
    parts = []
    for name, (count, within) in c.anomalies(contender).items():
        parts.append(words.tally({name: count}) + (f" in {within} of {runs} runs" if runs > 1 else ""))
    return ", ".join(parts)


# --- what to expect ---------------------------------------------------------------------------------------------------


def expectation(c: Comparison, contender: Contender) -> str:
    """A paragraph on one contender."""
    found = c.measured(contender)
    label = c.label(contender)
    if not found:
        return f"{label} was not measured: {c.reason(contender) or 'its runs were not started.'}"
    out = [_verdict(c, contender, found)]
    catalog = c.catalog(contender)
    if catalog is not None and catalog.guard == "none":
        out.append("It does nothing against concurrent commits: expect lost ones, even if none was found.")

    def figure(key: str) -> str | None:
        s = c.spreads.get((key, contender))
        return None if s is None else BY_KEY[key].sentence.format(spread(BY_KEY[key], s))

    def sentence(*parts: str | None) -> None:
        known = [p for p in parts if p is not None]
        if known:
            out.append(known[0][:1].upper() + known[0][1:] + "".join(f", {p}" for p in known[1:]) + ".")

    sentence(*map(figure, ("commits_per_s", "write_p50_ms", "write_p99_ms")))
    sentence(*map(figure, ("retried", "retry_success", "aborted", "unknown")))
    sentence(*map(figure, ("recovery_median_s", "recovery_max_s")))
    asks = [asked for key in ("catalog_requests", "store_requests") if (asked := figure(key)) is not None]
    sentence(f"a commit costs {' and '.join(asks)}" if asks else None, figure("commit_p50_ms"))
    if (reason := c.reason(contender)) is not None:
        missing = len(c.seeds) - len(found)
        out.append(f"{words.plural(missing, 'run')} of {len(c.seeds)} could not be measured: {reason}")
    return f"{label}: " + " ".join(out)


def of_engines(c: Comparison) -> list[str]:
    """What each engine promises of the compared operations, then what to expect of each ordered pair, by their code (the prediction of the
    engine matrix); empty if no contender names engines.
    """
    engines = list(dict.fromkeys(name for x in c.contenders for name in x.engines))
    kinds = sorted({kind for x in c.contenders for m in c.measured(x) for kind in m.kinds if KINDS.get(kind)})
    tables = _tables(c)
    if not engines or not tables:
        return []
    held = {e: {k: _level(e, k, tables[0]) for k in kinds if ENGINES[e].can(k, tables[0])} for e in engines}
    out = [f"{ENGINES[e].title} promises {_grouped(levels)}." for e, levels in held.items() if levels]
    for first, second in permutations(engines, 2):
        if difference := _beside(first, second, kinds):
            out.append(difference)
    return out


def _beside(first: str, second: str, kinds: Sequence[str]) -> str:
    """What to expect of operations of one engine when one of another commits to the same row first; empty if no code says it."""
    ends: dict[str, set[str]] = {}
    for cell in engine_cells((first, second), tuple(k for k in ENGINE_KINDS if k in kinds)):
        pair = (cell.first_engine, cell.second_engine, cell.placement, cell.isolation)
        if pair == (first, second, ENGINE_PLACEMENTS[0], "serializable"):
            ends.setdefault(cell.first, set()).add(predict(cell).outcome)
    words_of = (
        ({"aborted"}, "aborted"),
        ({"retried"}, "committed at another attempt"),
        ({"aborted", "retried"}, "either, depending on what was committed"),
    )
    parts = [
        f"{what}: {', '.join(sorted(k for k, found in ends.items() if found == which))}"
        for which, what in words_of
        if which in ends.values()
    ]
    if not parts:
        return ""
    return f"If {ENGINES[second].title} commits to the same row first, {ENGINES[first].title}'s operations end so: {'; '.join(parts)}."


def _level(engine: str, kind: str, table: TableSpec) -> str:
    promise = ENGINES[engine].promise(kind, table)
    level = promise.level or table.isolation
    if not KINDS[kind].writes:
        return f"{level} reads"
    return f"{level}, evaluated at the commit" if promise.at_commit else level


def _grouped(levels: dict[str, str]) -> str:
    groups: dict[str, list[str]] = {}
    for kind, level in levels.items():
        groups.setdefault(level, []).append(kind)
    return "; ".join(f"{level} for {', '.join(kinds)}" for level, kinds in groups.items())


def _tables(c: Comparison) -> list[TableSpec]:
    spec = c.header.get("workload")
    try:
        return [TableSpec.model_validate(t) for t in spec["tables"]] if isinstance(spec, dict) else []
    except (KeyError, TypeError, ValidationError):
        return []


def _verdict(c: Comparison, contender: Contender, found: Sequence[Measures]) -> str:
    runs = "its run" if len(found) == 1 else f"{len(found)} runs"
    valid = c.valid(contender)
    listed = anomalies(c, contender)
    if valid is False:
        documented = {n for m in found for n in m.documented}
        tail = " All of them are documented as possible." if set(c.anomalies(contender)) <= documented else ""
        return f"broken promises in {runs}: {listed or 'see its page'}.{tail}"
    if valid == "unknown":
        return f"no broken promise was proven in {runs}, but not everything could be decided."
    return f"no broken promise in {runs}" + (f" but those expected or allowed: {listed}." if listed else ".")


def differences(c: Comparison, figures: Sequence[Figure] = FIGURES) -> list[str]:
    """How each contender differs from the first in ``figures``, one sentence each; then the rule, and what chance alone gives."""
    first = c.contenders[0]
    out = []
    for other in c.contenders[1:]:
        if not c.measured(other) or not c.measured(first):
            continue
        better: list[str] = []
        worse: list[str] = []
        same = 0
        for f in figures:
            cell = c.cell(f, other)
            if cell.spread is None or cell.against not in ("better", "worse", "noise"):
                continue
            if cell.against == "noise":
                same += 1
                continue
            text = f"{f.group.lower()}, {f.name}: {shown(f, cell.spread.median)} instead of {shown(f, c.spreads[f.key, first].median)}"
            (better if cell.against == "better" else worse).append(text)
        if not (better or worse or same):
            continue
        parts = [f"better: {'; '.join(better)}" if better else "", f"worse: {'; '.join(worse)}" if worse else ""]
        sentences = ". ".join(p[0].upper() + p[1:] for p in parts if p) or "Nothing"
        out.append(
            f"{c.label(other)} against {c.label(first)}, by more than noise. {sentences}. "
            f"For {words.plural(same, 'other number')} no difference goes beyond noise."
        )
    out.append(rule(c))
    return out


def rule(c: Comparison) -> str:
    """The rule that tells a difference from noise, in a sentence or two."""
    runs = min((len(c.measured(x)) for x in c.contenders if c.measured(x)), default=0)
    if runs < FEWEST_RUNS:
        which = "One run each" if runs == 1 else f"{runs} runs each"
        return (
            f"{which}: no difference can be told from noise. --seeds 3 can ({words.share(chance(3, 3), 1)} by chance alone), --seeds 5 "
            f"better ({words.share(chance(5, 5), 1)})."
        )
    count, expected = c.by_chance
    return (
        "Two contenders differ by more than noise in a number when their ranges over the seeds do not overlap. If nothing differs, that "
        f"happens in {words.share(chance(runs, runs), 1)} of cases with {runs} runs each, so for the {count} pairs of numbers on this "
        f"page about {expected:.1f} times."
    )


# --- what was not tested ----------------------------------------------------------------------------------------------


def untested(c: Comparison) -> list[str]:
    """What these runs do not show, one sentence each, derived from the runs."""
    every = [m for x in c.contenders for m in c.measured(x)]
    spec = c.header.get("workload")
    spec = spec if isinstance(spec, Mapping) else {}
    out = [*_not_run(c)]
    if every:
        out.append(_extent(c, spec, every))
    out += [*_few(c), *_faults(c, spec)]
    out += _kinds(c, every)
    out.append(
        "More than one machine: everything ran on this one, over loopback. Networks with latency and loss, TLS, authentication, several "
        "servers of one catalog and their fail-over, and managed services were not tested; speeds are those of this machine and this stack."
    )
    if c.header.get("parallel", 1) != 1:
        out.append(
            f"Speed of a run alone: {c.header['parallel']} runs went on at the same time and slowed each other down."
        )
    if len(c.releases) > 1:
        out.append(
            "Other releases of the catalog servers: a release here is that of the writers; the servers stayed the same."
        )
    return out


def _not_run(c: Comparison) -> Iterable[str]:
    for x in c.contenders:
        if not c.measured(x):
            yield f"{c.label(x)}: {c.reason(x) or 'its runs were not started.'}"


def _extent(c: Comparison, spec: Mapping[str, Any], every: Sequence[Measures]) -> str:
    seconds = sorted(m.seconds for m in every)
    writers, tables = spec.get("writers", 4), spec.get("tables")
    count = len(tables) if isinstance(tables, list) else 0
    return (
        f"Rare events: each contender ran {words.plural(len(c.seeds), 'time')}, each time with another seed and for "
        f"{words.duration(1000 * seconds[len(seconds) // 2])}, with "
        f"{words.plural(int(writers), 'writer')} on {words.plural(count, 'table')}; rarer events may still exist."
    )


def _few(c: Comparison) -> Iterable[str]:
    """Contenders whose p99 is just the slowest operation."""
    for x in c.contenders:
        acknowledged = [sum(k[0] for f, k in m.kinds.items() if f in KINDS and KINDS[f].commits) for m in c.measured(x)]
        if acknowledged and min(acknowledged) < ENOUGH:
            count = words.plural(min(acknowledged), "acknowledged write")
            yield f"{c.label(x)}: a run had only {count}; p99 of fewer than {ENOUGH} is the slowest of them."


def _faults(c: Comparison, spec: Mapping[str, Any]) -> Iterable[str]:
    measured = [x for x in c.contenders if c.measured(x)]
    if not spec.get("nemesis"):
        yield "Faults: none was injected. What a catalog does when acknowledgements get lost or servers die was not tested."
        return
    for x in measured:
        found = c.measured(x)
        on = {name for m in found for name in m.faults}
        idle = sorted(n for n in on if not any(m.faults[n].hits for m in found if n in m.faults))
        if idle:
            yield f"{c.label(x)}: these faults were active but struck nothing: {_listed(idle)}."
        spared = _spared(c, x)
        if spared:
            yield f"{c.label(x)}: never killed, stopped or restarted: {_listed(spared)}."
        never = sum(f.never for m in found for f in m.faults.values())
        if never:
            yield (
                f"{c.label(x)}: after {words.plural(never, 'fault')} no write was acknowledged before the run ended, so the recovery time is "
                "unknown."
            )


def _spared(c: Comparison, x: Contender) -> list[str]:
    """Services of a catalog, and the object store, that no fault of processes struck."""
    struck = {name for m in c.measured(x) for f in m.faults.values() for name in f.struck}
    catalog = c.catalog(x)
    services = [*(catalog.services if catalog is not None else ()), OBJECT_STORE]
    return [s for s in services if s not in struck]


def _kinds(c: Comparison, every: Sequence[Measures]) -> Iterable[str]:
    ran = {k for m in every for k, counts in m.kinds.items() if sum(counts)}
    absent = [k for k in KINDS if k not in ran]
    if every and absent:
        yield f"Operations missing from the workload, or never invoked: {_listed(absent, 40)}."
    for x in c.contenders:
        acknowledged: dict[str, int] = {}
        for m in c.measured(x):
            for k, counts in m.kinds.items():
                acknowledged[k] = acknowledged.get(k, 0) + counts[0]
        never = [k for k, ok in acknowledged.items() if not ok]
        if never:
            yield f"{c.label(x)}: these were tried and never acknowledged: {_listed(never)}."


def _listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
