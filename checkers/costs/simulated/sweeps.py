"""The points of a sweep: loads from workloads, measured points from the runs' histories, and predictions for all of them.

Points that differ only in how hard they load (:data:`SCALES`) are calibrated together; every other parameter, and every catalog, changes what
an attempt needs, so its points have a service of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from checkers.costs.comparison import Comparison, Contender
from checkers.costs.curves import Predicted, Varied
from checkers.costs.simulated.load import ClosedLoop, ConflictOdds, Isolation, RunLength
from checkers.costs.simulated.measured import MeasuredOperation, MeasuredPoint, measured, recorded
from checkers.costs.simulated.phasetimes import ServiceTimes
from checkers.costs.simulated.prediction import Predictions, predictions
from checkers.evidence import history
from checkers.evidence.replace import replace
from checkers.timeline.operation_columns import AROUND
from workloads.file.workload import Workload

SCALES = ("writers", "backoff", "interval", "swap-latency")
"""Parameters that change the load and not what an attempt needs; so do all ``commit.retry.*``."""
FURTHER = (100, 1000, 10_000)
"""Numbers of writers to predict."""
LATE_REFUSAL_S: Mapping[str, float] = {"rest": 0.105}
"""``ServiceTimes.late_refusal_s``, by catalog: what ``CatalogHandlers`` of Iceberg's REST server waits after its own UPDATE was refused,
before it checks the requirements again: 100 ms (``commit.retry.min-wait-ms``) and half of the jitter."""

FIRST_CHECK: Mapping[str, float] = {"rest": 1 / 3, "jdbc": 1 / 2}
"""``ServiceTimes.first_check``. A REST server reads the row and the metadata file, compares, writes a metadata file, and updates the row; the
JDBC catalog reads the row, compares, and updates it."""


@dataclass(frozen=True, slots=True)
class SweepPredictions:
    """What :func:`predict` found.

    Attributes:
        points: of all measured contenders and of further numbers of writers. With several catalogs, ``catalog`` is a parameter, too.
        notes: sentences: why a prediction is not near what was measured, and what could not be predicted.
    """

    points: tuple[Predicted, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """Contenders that share a service."""

    catalog: str
    contenders: list[Contender] = field(default_factory=list)
    points: list[MeasuredPoint] = field(default_factory=list)
    windows: list[tuple[int, bool]] = field(default_factory=list)


def predict(
    sweep: Comparison,
    into: Path,
    workload_of: Callable[[Contender], Workload],
    *,
    cores: int,
    further: Sequence[int] = FURTHER,
    commits: int = 2000,
) -> SweepPredictions:
    """Calibrates on the points with few writers of each group, and simulates all points and further numbers of writers.

    Args:
        into: the sweep's folder; the folders of its runs are relative to it.
        workload_of: a contender → its workload, with the parameters applied.
        cores: of the machine that ran it.
        further: numbers of writers to predict besides, if the sweep varies writers.
        commits: operations to count in each simulation of a steady state.
    """
    several = len({c.catalog for c in sweep.contenders}) > 1
    groups: dict[tuple[str, str, Varied], _Group] = {}
    notes: list[str] = []
    for c in sweep.contenders:
        key = (c.catalog, c.iceberg, tuple((k, v) for k, v in c.varied if not _scales(k)))
        group = groups.setdefault(key, _Group(c.catalog))
        try:
            m, windows = _measured(sweep, c, into, workload_of(c), several)
        except (ValueError, OSError) as e:
            notes.append(f"{_named(c, several)} is not predicted: {e}")
            continue
        group.contenders.append(c)
        group.points.append(m)
        group.windows += windows
    points: list[Predicted] = []
    for group in groups.values():
        if group.points:
            found = _predicted(group, cores, further, commits)
            points += [replace(p, reason=found.reasons.get(n, "")) for n, p in enumerate(found.points)]
            notes += found.calibrated.notes
            notes += [f"{_text(group.points[n].varied)}: {why}" for n, why in sorted(found.reasons.items())]
    return SweepPredictions(tuple(points), tuple(notes))


def _predicted(group: _Group, cores: int, further: Sequence[int], commits: int) -> Predictions:
    each = conflict_probability(group.windows)
    known = [replace(m, load=replace(m.load, conflicts=ConflictOdds(each, each))) for m in group.points]
    ahead: dict[Varied, ClosedLoop] = {}
    most = max(m.load.writers for m in known)
    for m in known:
        if any(k == "writers" for k, _ in m.varied):
            for n in further:
                if n > most:
                    varied = tuple((k, str(n) if k == "writers" else v) for k, v in m.varied)
                    ahead[varied] = replace(m.load, writers=n)
    return predictions(
        known, [(load, v) for v, load in ahead.items()], service_like(group.catalog, cores), commits=commits
    )


def _measured(
    sweep: Comparison, c: Contender, into: Path, workload: Workload, several: bool
) -> tuple[MeasuredPoint, list[tuple[int, bool]]]:
    load, length = load_of(workload), length_of(workload)
    operations: list[MeasuredOperation] = []
    windows: list[tuple[int, bool]] = []
    figures: list[Mapping[str, float | None]] = []
    for run in sweep.of(c):
        if run.folder is None or run.measures is None:
            continue
        found = [o for o in history.read(into / run.folder / "history.jsonl").operations() if _counts(o)]
        operations += recorded(found, paced=load.pace_s > 0)
        windows += conflict_windows(found)
        figures.append(run.measures.figures)
    if not operations:
        raise ValueError("no run of it recorded attempts, which only committers do")
    keys = dict.fromkeys(k for f in figures for k in f)
    middle = {k: median(known) for k in keys if (known := [v for f in figures if (v := f.get(k)) is not None])}
    varied = (("catalog", c.catalog), *c.varied) if several else c.varied
    return measured(load, operations, middle, length=length, varied=varied), windows


def _counts(o: history.Operation) -> bool:
    return o.invoked.extra.get("phase") not in (*AROUND, history.NEMESIS)


def _scales(parameter: str) -> bool:
    return parameter in SCALES or parameter.startswith("commit.retry.")


def _text(varied: Varied) -> str:
    return " ".join(f"{k}={v}" for k, v in varied)


def _named(c: Contender, several: bool) -> str:
    return _text((("catalog", c.catalog), *c.varied) if several else c.varied) or c.catalog


# --- a workload as a load ---------------------------------------------------------------------------------------------


def load_of(w: Workload) -> ClosedLoop:
    """The load of a workload, without its conflicts.

    Raises:
        ValueError: it has several phases.
    """
    phase = w.resolved_phases()[0]
    if len(w.resolved_phases()) > 1:
        raise ValueError("it has several phases, and the simulator knows one")
    writers = len(w.members(phase))
    isolation: Isolation = "snapshot" if w.tables[0].isolation == "snapshot" else "serializable"
    return ClosedLoop(
        writers,
        len(w.tables),
        pace_s=writers / phase.rate if phase.rate else 0.0,
        backoff=w.backoff.of(w.tables[0].properties),
        isolation=isolation,
        swap_latency_s=w.swap_latency,
    )


def length_of(w: Workload) -> RunLength:
    """How long its only phase lasts."""
    length = w.resolved_phases()[0].length
    return RunLength(operations=length.ops) if length.ops else RunLength(seconds=length.time)


def service_like(catalog: str, cores: int) -> ServiceTimes:
    """What is known of a catalog by its code: when it compares versions, and what a late refusal costs."""
    late, first = LATE_REFUSAL_S.get(catalog, 0.0), FIRST_CHECK.get(catalog, 1.0)
    return ServiceTimes({}, cores=cores, first_check=first, late_refusal_s=late)


# --- conflicts --------------------------------------------------------------------------------------------------------


def conflict_windows(operations: Iterable[history.Operation]) -> list[tuple[int, bool]]:
    """Of each operation with attempts: how many others were acknowledged while it was under way, and whether validation refused it."""
    made = [
        (o, found)
        for o in operations
        if o.completed is not None and isinstance(found := o.completed.extra.get("attempts"), list) and found
    ]
    by_table: dict[str | None, list[int]] = {}
    for o, _ in made:
        if o.completed is not None and o.completed.type == "ok":
            by_table.setdefault(o.table, []).append(o.completed.time)
    for times in by_table.values():
        times.sort()
    out = []
    for o, found in made:
        assert o.completed is not None
        times = by_table.get(o.table, [])
        ok = o.completed.type == "ok"
        between = bisect_right(times, o.completed.time) - bisect_right(times, o.start) - ok
        out.append((between, found[-1].get("outcome") == "invalid"))
    return out


def conflict_probability(windows: Iterable[tuple[int, bool]]) -> float:
    """The probability that one commit makes one operation invalid which it came in between of: the most likely one, 0 … 1.

    Args:
        windows: (commits that came in between, whether validation refused) of each operation. A refusal has one cause at least.
    """
    refused = [max(1, k) for k, invalid in windows if invalid]
    passed = sum(k for k, invalid in windows if not invalid)
    if not refused:
        return 0.0
    if not passed:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        p = (low + high) / 2
        gain = sum(k * (1 - p) ** (k - 1) / (1 - (1 - p) ** k) for k in refused)
        if gain > passed / (1 - p):
            low = p
        else:
            high = p
    return (low + high) / 2
