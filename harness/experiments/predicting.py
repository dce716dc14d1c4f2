"""What the simulator says of a sweep's points, and of loads that no machine here carries: 100, 1,000 and 10,000 writers.

It is calibrated on the runs of the same sweep (``checkers.costs.simulated``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from checkers.costs.comparison import Comparison, Contender
from checkers.costs.curves import Varied
from checkers.costs.measures import NOT_THE_WORKLOADS
from checkers.costs.simulated.load import Conflicts, Length, Load
from checkers.costs.simulated.measured import Measured, measured, recorded
from checkers.costs.simulated.prediction import Predictions, predictions
from checkers.costs.simulated.service import Service
from checkers.evidence import history
from checkers.evidence.history import Operation
from harness.experiments.compare import engaged
from workloads.file.workload import Workload

WRITERS = "writers"
BEYOND = (100, 1_000, 10_000)
"""Writers that are simulated only, if the number of writers varies."""
TABLES = 100
"""Over so many tables in a further prediction of the most writers."""
FAR_S = 0.08
"""Round trip between two regions in a further prediction, seconds: as between two coasts of a continent."""
FEWEST = 3
"""Points that a calibration needs."""


class NothingToPredict(ValueError):
    """No run recorded the attempts of its commits."""


def service_like(catalog: str) -> Service:
    """What is known of a catalog's servers beside their times."""
    checks_first = catalog in ("rest", "jdbc", "jdbc-sqlite")
    return Service({}, checks_first=checks_first, late_refusal_s=0.105 if catalog == "rest" else 0.0)


def load_of(workload: Workload, conflicts: Conflicts) -> Load:
    """A workload as the simulator's load: its first phase."""
    phase = workload.resolved_phases()[0]
    n = len(workload.members(phase))
    table = workload.tables[0]
    return Load(
        writers=n,
        tables=len(workload.tables),
        pace_s=n / phase.rate if phase.rate else 0.0,
        backoff=workload.backoff.of(table.properties),
        conflicts=conflicts,
        isolation=table.isolation,
        swap_latency_s=workload.swap_latency,
    )


def _operations(path: Path) -> list[Operation]:
    found = history.read(path).operations()
    return [o for o in found if o.invoked.extra.get("phase") not in NOT_THE_WORKLOADS]


def conflicts_of(operations: Iterable[Operation]) -> Conflicts:
    """How often validation refused an attempt on a version that others had made meanwhile; the same for both levels, as one was measured."""
    moved = invalid = 0
    for o in operations:
        made = o.completed.extra.get("attempts", []) if o.completed is not None else []
        for n, attempt in enumerate(made):
            if n or attempt["outcome"] == "invalid":
                moved += 1
                invalid += attempt["outcome"] == "invalid"
    share = invalid / moved if moved else 0.0
    return Conflicts(share, share)


def _point(done: Comparison, spec: Workload, c: Contender, into: Path) -> Measured | None:
    """A point of the sweep from the histories of its runs; None if none of them has attempts."""
    workload = engaged(spec, c)
    phase = workload.resolved_phases()[0]
    runs = [r for r in done.runs if r.contender == c and r.measures is not None and r.folder is not None]
    operations = [_operations(into / (r.folder or "") / "history.jsonl") for r in runs]
    flat = [o for each in operations for o in each]
    plain = [o for each in operations for o in recorded(each, paced=phase.rate is not None)]
    if not any(o.attempts for o in plain):
        return None
    figures: dict[str, float] = {}
    for key in {k for r in runs if r.measures is not None for k in r.measures.figures}:
        values = [v for r in runs if r.measures is not None and (v := r.measures.figures.get(key)) is not None]
        if values:
            figures[key] = median(values)
    length = Length(operations=phase.length.ops) if phase.length.ops else Length(seconds=phase.length.time)
    load = load_of(workload, conflicts_of(flat))
    return measured(load, plain, figures, length=length, varied=c.varied)


def _further(points: Sequence[Measured]) -> list[tuple[Load, Varied]]:
    """More writers of each combination, if their number varies; of the most, also over many tables, and from two regions."""
    found: dict[Varied, tuple[Load, Varied]] = {}
    for m in points:
        parameters = dict(m.varied)
        if WRITERS not in parameters:
            continue
        for n in BEYOND:
            varied = tuple((k, str(n) if k == WRITERS else v) for k, v in m.varied)
            found[varied] = replace(m.load, writers=n), varied
        most: Mapping[str, str] = {**parameters, WRITERS: str(BEYOND[-1])}
        spread = (*most.items(), ("tables", str(TABLES)))
        found[spread] = replace(m.load, writers=BEYOND[-1], tables=TABLES), spread
        apart = (*{**parameters, WRITERS: str(BEYOND[0])}.items(), ("regions", f"2, {FAR_S * 1000:g}ms apart"))
        found[apart] = replace(m.load, writers=BEYOND[0], round_trips_s=(0.0, FAR_S)), apart
    return list(found.values())


def predict(done: Comparison, spec: Workload, into: Path, catalog: str) -> Predictions:
    """The sweep's points on one catalog beside their predictions, and further ones.

    Raises:
        NothingToPredict: no run has the attempts of its commits, as committers record them.
        OSError, HistoryError: a run's history cannot be read.
    """
    contenders = [c for c in done.contenders if c.catalog == catalog]
    points = [m for c in contenders if (m := _point(done, spec, c, into)) is not None]
    if not points:
        raise NothingToPredict(
            "no run recorded the attempts of its commits; the simulator needs committers, such as --writers committer=4"
        )
    return predictions(points, _further(points), service_like(catalog))
