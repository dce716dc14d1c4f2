"""How the figures of runs change from night to night, computed by Spark over the tables of a lake (``docs/lake.md``).

A *series* is a workload on a catalog with a release of Iceberg, in runs that were to do the same work (``setup`` of the table ``runs``).
Its points are nights: the median of a figure over the runs of that night. The newest night is compared with up to ``nights`` nights before it.

The rule is that of :mod:`checkers.costs.worse`. Beside it, an anomaly that is new (:attr:`SeriesAnomaly.new`), and that no earlier night of
the series had, is a regression, however few nights there are. So is a series without any figure that had some before (:func:`missing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, NamedTuple

from checkers.costs.measures import BY_KEY, FIGURES, Figure
from checkers.costs.worse import FAILURES, FEWEST_NIGHTS, State, against

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NIGHTS = 14
"""Earlier nights that are compared with, unless the user says otherwise."""

EVERY_RUN = "*"
"""In place of the name of a suite: all runs."""


class SuiteNight(NamedTuple):
    """The runs of a suite in one night, and when the last of them began; no name: runs of no suite, ``shrinks`` of which made an anomaly of
    a night small."""

    suite: str | None
    night: date
    runs: int
    last: datetime
    shrinks: int = 0


class Series(NamedTuple):
    """What a line of points is about."""

    workload: str
    catalog: str
    iceberg: str
    setup: str


@dataclass(frozen=True, slots=True)
class SeriesNight:
    """The runs of a series in one night; ``faults`` and ``engines``: of its setup, as the lake has them."""

    series: Series
    night: date
    runs: int
    invalid: int
    operations: int
    commits: int
    anomalies: int
    faults: str | None = None
    engines: str | None = None


@dataclass(frozen=True, slots=True)
class NightFigure:
    """A figure of a series in one night: over its runs the median, the least and the greatest."""

    series: Series
    figure: str
    night: date
    runs: int
    median: float
    low: float
    high: float

    @property
    def is_number(self) -> bool:
        """Whether every run has a number."""
        return all(map(isfinite, (self.median, self.low, self.high)))


@dataclass(frozen=True, slots=True)
class KindFigures:
    """The operations of one kind, on a catalog with a release, in one night; rates are shares, latencies ms.

    Attributes:
        known: commits whose number of attempts is known; ``retried`` of them needed more than one, ``extra`` attempts in all.
        conflicts: operations that a concurrent commit aborted.
        p50, p95, p99: of acknowledged operations, by nearest rank; None without any.
    """

    catalog: str
    iceberg: str
    f: str
    night: date
    operations: int
    ok: int
    failed: int
    unknown: int
    known: int
    retried: int
    extra: int
    conflicts: int
    p50: float | None
    p95: float | None
    p99: float | None

    @property
    def retry_rate(self) -> float | None:
        """The share of commits that needed another attempt."""
        return self.retried / self.known if self.known else None


@dataclass(frozen=True, slots=True)
class SeriesAnomaly:
    """An anomaly of a series: how often in a night, in how many runs.

    Attributes:
        documented: whether Iceberg documents all of them as possible.
        known: how many fail no night: documented, known by the rule of the night (:func:`checkers.judge.accepted.known_link`), or accepted by
            the workload.
    """

    series: Series
    night: date
    name: str
    documented: bool
    count: int
    runs: int
    known: int = 0

    @property
    def new(self) -> int:
        """How many of them fail a night."""
        return 0 if self.documented else self.count - self.known


@dataclass(frozen=True, slots=True)
class MetPair:
    """How often operations of kind ``kind`` met a commit of kind ``by``."""

    catalog: str
    iceberg: str
    kind: str
    by: str
    count: float


@dataclass(frozen=True, slots=True)
class TrendFinding:
    """What is said of a figure of a series in the newest night.

    Attributes:
        value: the newest point; None if a run of it has no number there.
        before: the median of the earlier points; None without any.
        noise: of the earlier points, as the rule counts it.
        nights: earlier points.
    """

    series: Series
    figure: str
    state: State
    value: float | None
    before: float | None
    noise: float | None
    nights: int


@dataclass(frozen=True, slots=True)
class MissingSeries:
    """A series without any figure in the newest night, although it had some in ``nights`` earlier ones; it ran ``runs`` times."""

    series: Series
    runs: int
    nights: int


@dataclass(frozen=True)
class Trend:
    """All of it. Everything is in the order of nights, then of names.

    Attributes:
        newest: the night that is compared; None if there are no runs.
        nights: the nights with runs that were read.
        points: without those that are no numbers; ``findings`` has these.
        fresh: anomalies of the newest night that are regressions.
        suite: that the runs are of; empty: all runs were read. ``beside``: runs of the newest night that are not of it.
        latest: the last night of the suite that the lake has, also after the one that was asked for; None: it has none.
    """

    newest: date | None
    nights: tuple[date, ...]
    runs: tuple[SeriesNight, ...]
    points: tuple[NightFigure, ...]
    kinds: tuple[KindFigures, ...]
    anomalies: tuple[SeriesAnomaly, ...]
    pairs: tuple[MetPair, ...]
    findings: tuple[TrendFinding, ...]
    fresh: tuple[SeriesAnomaly, ...]
    missing: tuple[MissingSeries, ...]
    suite: str = ""
    beside: int = 0
    latest: date | None = None

    @property
    def ran(self) -> bool:
        """Whether the newest night has a run; a night that was asked for may have none."""
        return self.newest in self.nights

    @property
    def regressions(self) -> tuple[TrendFinding, ...]:
        """The figures that are worse, or no numbers."""
        return tuple(f for f in self.findings if f.state in FAILURES)

    @property
    def worse(self) -> bool:
        """Whether anything is a regression."""
        return bool(self.regressions or self.fresh or self.missing)

    def to_json(self) -> dict[str, Any]:
        """As JSON values; dates are words."""
        words: dict[str, Any] = {"newest": _word(self.newest), "nights": [_word(n) for n in self.nights]}
        for name in ("runs", "points", "kinds", "anomalies", "pairs", "findings", "fresh", "missing"):
            words[name] = [_plain(x) for x in getattr(self, name)]
        return {**words, "suite": self.suite, "beside": self.beside, "ran": self.ran, "worse": self.worse}


def _word(night: date | None) -> str | None:
    return None if night is None else night.isoformat()


def _plain(row: Any) -> dict[str, Any]:
    out = {k: _word(v) if isinstance(v, date) else v for k, v in asdict(row).items()}
    return {**out, "series": row.series._asdict()} if "series" in out else out


# --- on Spark ---------------------------------------------------------------------------------------------------------

_SERIES = "workload, catalog, iceberg, setup"


def newest_suite(ran: Iterable[SuiteNight], night: date | None) -> str:
    """The suite of the last night of one, of ``night`` at the latest; empty if there is none: no run of the lake is of a suite."""
    of_suites = [r for r in ran if r.suite and (night is None or r.night <= night)]
    return max(of_suites, key=lambda r: r.last).suite or "" if of_suites else ""


def latest_night(ran: Iterable[SuiteNight], suite: str) -> date | None:
    """The last night of a suite, or of all runs if none is named; None if there is no run."""
    return max((r.night for r in ran if not suite or r.suite == suite), default=None)


def beside(ran: Iterable[SuiteNight], suite: str, night: date | None) -> int:
    """How many runs of the newest night of a suite, or of ``night``, are not of it, without those of shrinks, which repeat others."""
    every = [*ran]
    newest = night or latest_night(every, suite)
    return sum(r.runs - r.shrinks for r in every if suite and r.night == newest and r.suite != suite)


OF_SHRINKS = "count_if(suite IS NULL AND folder LIKE '%/shrinks/%') shrinks"
"""Of some rows of ``runs`` those that a night made in its folder ``shrinks``."""


def chosen(runs: DataFrame, last: int, night: date | None, suite: str) -> DataFrame:
    """The runs of the newest night, or of ``night``, and of up to ``last`` nights before it; of one suite, if it is named."""
    from pyspark.sql import functions as F

    own = runs.where(F.col("suite") == suite) if suite else runs
    own = own if night is None else own.where(F.col("night") <= F.lit(night))
    nights = own.select("night").distinct().orderBy(F.desc("night")).limit(last + 1)
    unnamed = [F.coalesce(F.col(c), F.lit("")).alias(c) for c in ("workload", "catalog", "iceberg", "setup")]
    rest = ("run", "day", "night", "verdict", "operations", "commits", "anomalies", "faults", "engines")
    return own.join(nights, "night", "left_semi").select(*unnamed, *rest)


def nights(runs: DataFrame) -> DataFrame:
    """One row for each series and night, with the columns of :class:`SeriesNight`, and ``days``: the UTC days of its runs."""
    return _grouped(
        runs, f"{_SERIES}, night", "collect_set(day) days",
        "count(*) runs", "count_if(verdict = 'invalid') invalid", "sum(operations) operations", "sum(commits) commits",
        "coalesce(sum(anomalies), 0) anomalies", "max(faults) faults", "max(engines) engines",
    )  # fmt: skip


def points(runs: DataFrame, metrics: DataFrame) -> DataFrame:
    """One row for each series, figure and night, with the columns of :class:`NightFigure`."""
    figures = metrics.where("kind IS NULL AND by IS NULL").selectExpr("run", "day", "name figure", "value")
    return _grouped(
        runs.join(figures, ["run", "day"]), f"{_SERIES}, figure, night",
        "count(*) runs", "percentile(value, 0.5) median", "min(value) low", "max(value) high",
    )  # fmt: skip


def kinds(runs: DataFrame, operations: DataFrame) -> DataFrame:
    """One row for each catalog, release, kind of operation and night, with the columns of :class:`KindFigures`."""
    ops = operations.where("workload").select(
        "run", "day", "f", "outcome", "committed", "attempts", "conflict", "latency_ms"
    )
    acknowledged = "CASE WHEN outcome = 'ok' THEN latency_ms END"
    return _grouped(
        runs.select("run", "day", "night", "catalog", "iceberg").join(ops, ["run", "day"]), "catalog, iceberg, f, night",
        "count(*) operations", "count_if(outcome = 'ok') ok", "count_if(outcome = 'fail') failed", "count_if(outcome = 'info') unknown",
        "count_if(committed AND attempts IS NOT NULL) known", "count_if(committed AND attempts > 1) retried",
        "coalesce(sum(CASE WHEN committed THEN attempts - 1 END), 0) extra", "count_if(conflict IS NOT NULL) conflicts",
        *(f"percentile_disc({q / 100}) WITHIN GROUP (ORDER BY {acknowledged}) p{q}" for q in (50, 95, 99)),
    )  # fmt: skip


def anomalies(runs: DataFrame, found: DataFrame) -> DataFrame:
    """One row for each series, night and name of an anomaly, with the columns of :class:`SeriesAnomaly`; without those that only confirm
    another."""
    marks = ("documented", "known", "expected", "allowed")
    own = found.where("same_as IS NULL").select("run", "day", "name", *marks)
    return _grouped(
        runs.join(own, ["run", "day"]), f"{_SERIES}, night, name",
        "every(documented IS NOT NULL) documented", "count(*) count", "count(DISTINCT run) runs",
        "count_if(documented IS NOT NULL OR known IS NOT NULL OR expected OR allowed) known",
    )  # fmt: skip


def pairs(runs: DataFrame, metrics: DataFrame) -> DataFrame:
    """One row for each catalog, release and pair of kinds, with the columns of :class:`MetPair`."""
    met = metrics.where("name = 'conflicts'").select("run", "day", "kind", "by", "value")
    return _grouped(
        runs.select("run", "day", "catalog", "iceberg").join(met, ["run", "day"]), "catalog, iceberg, kind, by", "sum(value) count"
    )  # fmt: skip


def _grouped(frame: DataFrame, column: str, *what: str) -> DataFrame:
    from pyspark.sql import functions as F

    keys = column.split(", ")
    return frame.groupBy(*keys).agg(*(F.expr(w.rpartition(" ")[0]).alias(w.rpartition(" ")[2]) for w in what))


def trend(
    tables: Mapping[str, DataFrame], *, last: int = NIGHTS, night: date | None = None, suite: str | None = None
) -> Trend:
    """The trend of a lake.

    Args:
        tables: name → the lake's table: ``runs``, ``operations``, ``metrics``, ``anomalies``. Rows of a run that ``runs`` has not are left out.
        last: earlier nights to compare with, at most.
        night: the night to compare; the newest one for None.
        suite: only runs of this suite; the newest one for None, all runs for :data:`EVERY_RUN`.
    """
    every = _grouped(tables["runs"], "suite, night", "count(*) runs", "max(started) last", OF_SHRINKS)
    ran = [SuiteNight(**row) for row in _rows(every)]
    of = newest_suite(ran, night) if suite is None else "" if suite == EVERY_RUN else suite
    runs = chosen(tables["runs"], last, night, of).cache()
    try:
        by_night = _rows(nights(runs))
        # Files of other days are then not opened.
        days = sorted({day for row in by_night for day in row.pop("days")})
        of_days = {name: _of_days(frame, days) for name, frame in tables.items() if name != "runs"}
        frames = {
            "points": points(runs, of_days["metrics"]),
            "kinds": kinds(runs, of_days["operations"]),
            "anomalies": anomalies(runs, of_days["anomalies"]),
            "pairs": pairs(runs, of_days["metrics"]),
        }
        with ThreadPoolExecutor(len(frames), "trend") as pool:  # Spark plans one while it computes another
            rows = dict(zip(frames, pool.map(_rows, frames.values()), strict=True))
    finally:
        runs.unpersist()
    found, latest = trend_from({"nights": by_night, **rows}, night), latest_night(ran, of)
    return replace(found, suite=of, beside=beside(ran, of, night), latest=latest)


def _of_days(frame: DataFrame, days: Sequence[date]) -> DataFrame:
    from pyspark.sql import functions as F

    return frame.where(F.col("day").isin(*days)) if days else frame.where("false")


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


# --- what it says -----------------------------------------------------------------------------------------------------


def trend_from(rows: Mapping[str, Sequence[Mapping[str, Any]]], night: date | None = None) -> Trend:
    """The trend of rows with the columns of the classes above, by ``nights``, ``points``, ``kinds``, ``anomalies``, ``pairs``.

    Args:
        night: that was asked for; the newest one of the rows for None.
    """
    every = sorted({r["night"] for r in rows["nights"]})
    newest = night or (every[-1] if every else None)
    runs = sorted((_of_series(SeriesNight, r) for r in rows["nights"]), key=lambda r: (r.night, r.series))
    found = sorted(
        (_of_series(NightFigure, r) for r in rows["points"] if r["figure"] in BY_KEY),
        key=lambda p: (p.night, p.series, p.figure),
    )
    seen = sorted((_of_series(SeriesAnomaly, r) for r in rows["anomalies"]), key=lambda a: (a.night, a.series, a.name))
    return Trend(
        newest,
        tuple(every),
        tuple(runs),
        tuple(p for p in found if p.is_number),
        tuple(sorted((KindFigures(**r) for r in rows["kinds"]), key=lambda k: (k.night, k.catalog, k.iceberg, k.f))),
        tuple(seen),
        tuple(
            sorted((MetPair(**r) for r in rows["pairs"]), key=lambda p: (-p.count, p.catalog, p.iceberg, p.kind, p.by))
        ),
        tuple(findings(found, newest)),
        tuple(fresh(seen, newest)),
        tuple(missing(runs, found, newest)),
    )


def _of_series(into: Any, row: Mapping[str, Any]) -> Any:
    rest = {k: v for k, v in row.items() if k not in Series._fields}
    return into(series=Series(*(row[k] for k in Series._fields)), **rest)


def findings(found: Iterable[NightFigure], newest: date | None) -> list[TrendFinding]:
    """What is said of each figure of each series that has a point in the newest night, in the order of ``FIGURES``."""
    lines: dict[tuple[Series, str], list[NightFigure]] = {}
    for p in found:
        lines.setdefault((p.series, p.figure), []).append(p)
    order = [f.key for f in FIGURES]
    out = []
    for (series, figure), line in sorted(lines.items(), key=lambda x: (x[0][0], order.index(x[0][1]))):
        last = next((p for p in line if p.night == newest), None)
        if last is not None:
            before = [p.median for p in line if p.night != newest and p.is_number]
            out.append(finding(series, BY_KEY[figure], last.median if last.is_number else nan, before))
    return out


def finding(series: Series, f: Figure, value: float, before: Sequence[float]) -> TrendFinding:
    """What the rule says of a value after earlier ones."""
    change = against(value, before, f)
    return TrendFinding(
        series, f.key, change.state, value if isfinite(value) else None, change.before, change.noise, change.nights
    )


def fresh(seen: Iterable[SeriesAnomaly], newest: date | None) -> list[SeriesAnomaly]:
    """The new anomalies of the newest night that no earlier night of their series had; one that was known there says nothing of another one
    of its name."""
    every = list(seen)
    before = {(a.series, a.name) for a in every if a.night != newest and (a.new or a.documented)}
    return [a for a in every if a.night == newest and a.new and (a.series, a.name) not in before]


def missing(runs: Iterable[SeriesNight], found: Iterable[NightFigure], newest: date | None) -> list[MissingSeries]:
    """The series without any figure in the newest night that had some before; none if nothing ran in it.

    One that ran is missing if any earlier night has a figure of it. One that did not run is missing if more than half of the earlier nights
    (at least :data:`checkers.costs.worse.FEWEST_NIGHTS`) have one, and if no other series of its workload and catalog took its place: such as
    one with another release or setup, which began after its last night.
    """
    ran: dict[Series, dict[date, int]] = {}
    for r in runs:
        ran.setdefault(r.series, {})[r.night] = r.runs
    measured: dict[Series, set[date]] = {}
    for p in found:
        measured.setdefault(p.series, set()).add(p.night)
    nights = {n for measured_on in ran.values() for n in measured_on}
    earlier = len(nights - {newest})
    if newest not in nights:
        return []
    out = []
    for s, measured_on in sorted(measured.items()):
        if newest in measured_on:
            continue
        followed = any(
            (s[:2], newest) == (o[:2], max(measured_on)) and min(measured_on) > max(ran[s])
            for o, measured_on in ran.items()
        )
        usual = earlier >= FEWEST_NIGHTS and 2 * len(measured_on) > earlier
        if newest in ran[s] or (usual and not followed):
            out.append(MissingSeries(s, ran[s].get(newest, 0), len(measured_on)))
    return out
