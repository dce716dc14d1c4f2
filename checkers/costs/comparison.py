"""Runs of several contenders side by side: each number with its spread over the seeds, and whether a difference is more than noise.

**The rule.** Two contenders differ by *more than noise* in a number when their ranges over the seeds do not overlap: every run of one is
above every run of the other. If there is no difference, every order of the ``n + m`` runs is equally likely, and two of
``(n + m)! / (n! · m!)`` orders look like this (the permutation test for the most extreme order)::

    runs each      2        3        4        5
    by chance    33 %     10 %    2.9 %    0.8 %

With fewer than three runs each, the rule would mean nothing and is not applied. Among many numbers some differ by chance alone:
:attr:`Comparison.by_chance` says how many.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean, median, variance
from typing import Any, Literal

from checkers.costs.measures import FIGURES, Figure, Measures
from checkers.evidence.plan import PlannedCatalog
from checkers.verdict import Validity, worst

FEWEST_RUNS = 3
"""The runs of each contender that the rule needs."""


@dataclass(frozen=True, slots=True)
class Contender:
    """What is compared: a catalog, reached by writers of an Iceberg release, or of another engine.

    Attributes:
        engines: of the writers, in the order in which they take turns; empty: those of the workload file.
        varied: what a sweep varies: (parameter, its value as typed), in the order of the parameters, which all contenders share.
    """

    catalog: str
    iceberg: str
    engines: tuple[str, ...] = ()
    varied: tuple[tuple[str, str], ...] = ()


def varied_label(varied: Sequence[tuple[str, str]]) -> str:
    """``writers=8 backoff=none``: what a sweep varies; empty for a contender of no sweep."""
    return " ".join(f"{k}={v}" for k, v in varied)


def engines_label(engines: Sequence[str]) -> str:
    """``duckdb``, or ``spark + duckdb`` for writers of both; empty for those of the workload file."""
    return " + ".join(engines)


@dataclass(frozen=True, slots=True)
class ContenderRun:
    """One run of a contender, or the reason why there is none.

    Attributes:
        started: wall clock, ISO format.
        folder: the run's, relative to the comparison's folder.
        reason: why there are no measures; None if there are.
        versions: of the software that ran.
        command: repeats the run.
        catalog: what the plan says of its catalog; None in older files.
    """

    contender: Contender
    seed: int
    started: str | None = None
    folder: str | None = None
    measures: Measures | None = None
    reason: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None
    catalog: PlannedCatalog | None = None

    def to_json(self) -> dict[str, Any]:
        """For ``runs.jsonl``."""
        return {
            "catalog": self.contender.catalog,
            "catalog_entry": None if self.catalog is None else self.catalog.model_dump(mode="json"),
            "iceberg": self.contender.iceberg,
            **({"engines": list(self.contender.engines)} if self.contender.engines else {}),
            **({"varied": dict(self.contender.varied)} if self.contender.varied else {}),
            "seed": self.seed,
            "started": self.started,
            "folder": self.folder,
            "reason": self.reason,
            "versions": dict(self.versions),
            "command": self.command,
            "measures": None if self.measures is None else self.measures.to_json(),
        }

    @staticmethod
    def from_json(r: Mapping[str, Any]) -> ContenderRun:
        """The inverse. Raises KeyError, TypeError, ValueError or AttributeError for anything else."""
        measures, entry = r["measures"], r.get("catalog_entry")
        return ContenderRun(
            Contender(
                str(r["catalog"]),
                str(r["iceberg"]),
                tuple(map(str, r.get("engines", ()))),
                tuple((str(k), str(v)) for k, v in r.get("varied", {}).items()),
            ),
            int(r["seed"]),
            None if r["started"] is None else str(r["started"]),
            r["folder"],
            None if measures is None else Measures.from_json(measures),
            r["reason"],
            {str(k): str(v) for k, v in r["versions"].items()},
            r["command"],
            None if entry is None else PlannedCatalog.model_validate(entry),
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over the seeds: the values in the order of the seeds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median value."""
        return median(self.values)

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The greatest."""
        return max(self.values)


def apart(spread: Spread, other: Spread) -> bool | None:
    """Whether two numbers differ by more than noise; None if there are too few runs."""
    if min(len(spread.values), len(other.values)) < FEWEST_RUNS:
        return None
    return spread.low > other.high or other.low > spread.high


def chance(n: int, m: int) -> float:
    """The probability that :func:`apart` is true of ``n`` and ``m`` runs although nothing differs."""
    return 2 * math.factorial(n) * math.factorial(m) / math.factorial(n + m)


def seeds_needed(spread: Spread, other: Spread) -> int | None:
    """Runs of each of two points that a comparison of their means needs at least, at the variances seen; None: their means are equal.

    It is ``16 s² / d²`` for a two-sided error of 5 % and a power of 80 % (R. Lehr, "Sixteen S-squared over D-squared: a relation for crude
    sample size estimates", Statistics in Medicine 11, 1992, p. 1099), and more than there are.
    """
    distance = mean(spread.values) - mean(other.values)
    if not distance:
        return None
    squared = (variance(spread.values) + variance(other.values)) / 2
    have = min(len(spread.values), len(other.values))
    return max(math.ceil(16 * squared / distance**2), have + 1)


Against = Literal["first", "better", "worse", "noise", "too few", "missing"]
"""A number compared with the first contender's: ``noise``: the ranges overlap; ``too few`` runs to tell."""


@dataclass(frozen=True, slots=True)
class ContenderScore:
    """A number of a contender; ``spread`` is None if none of its runs has it."""

    spread: Spread | None
    against: Against


@dataclass(frozen=True)
class Comparison:
    """All runs. The others are compared with the first contender.

    Attributes:
        header: what was run (``harness.experiments.compare``).
        contenders: in the order given.
        runs: of all contenders, in the order in which they ran.
    """

    header: Mapping[str, Any]
    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    runs: tuple[ContenderRun, ...]

    @property
    def releases(self) -> tuple[str, ...]:
        """Releases of Iceberg, in order."""
        return tuple(dict.fromkeys(c.iceberg for c in self.contenders))

    def label(self, c: Contender) -> str:
        """A contender's label: of its catalog, release, engines and varied parameters those in which contenders differ; else the catalog."""
        words: tuple[tuple[str, set[Any]], ...] = (
            (self._called(c), {x.catalog for x in self.contenders}),
            (c.iceberg, {*self.releases}),
            (engines_label(c.engines), {x.engines for x in self.contenders}),
            *((f"{k}={v}", {dict(x.varied).get(k) for x in self.contenders}) for k, v in c.varied),
        )
        return " ".join(text for text, all_of_them in words if len(all_of_them) > 1) or self._called(c)

    def _called(self, c: Contender) -> str:
        """A catalog's name; of a user's own the name of its file, unless two files have it."""
        name = os.path.basename(c.catalog)
        return (
            c.catalog
            if any(os.path.basename(x.catalog) == name != x.catalog != c.catalog for x in self.contenders)
            else name
        )

    def of(self, c: Contender) -> list[ContenderRun]:
        """A contender's runs by seed."""
        return sorted((r for r in self.runs if r.contender == c), key=lambda r: r.seed)

    def measured(self, c: Contender) -> list[Measures]:
        """The measures of a contender's runs, by seed."""
        return [r.measures for r in self.of(c) if r.measures is not None]

    def catalog(self, c: Contender) -> PlannedCatalog | None:
        """What the newest of a contender's runs says of its catalog; None when none says anything."""
        return next((r.catalog for r in reversed(self.of(c)) if r.catalog is not None), None)

    def reason(self, c: Contender) -> str | None:
        """Why runs of a contender are missing; None if none is."""
        found = [r for r in self.of(c) if r.measures is None and r.reason]
        return found[-1].reason if found else None

    def valid(self, c: Contender) -> Validity | None:
        """The worst verdict of its runs; None if it has none."""
        found = self.measured(c)
        return worst(m.valid for m in found) if found else None

    @property
    def verdict(self) -> Validity:
        """The worst of all verdicts; a contender that could not run is ``unknown``."""
        found: list[Validity] = []
        for c in self.contenders:
            valid = self.valid(c)
            found.append("unknown" if valid is None or len(self.measured(c)) < len(self.seeds) else True)
            found += [] if valid is None else [valid]
        return worst(found)

    def anomalies(self, c: Contender) -> dict[str, tuple[int, int]]:
        """Name → (total in all runs, number of runs with it), the most frequent first."""
        found: dict[str, tuple[int, int]] = {}
        for m in self.measured(c):
            for name, n in m.anomalies.items():
                count, runs = found.get(name, (0, 0))
                found[name] = (count + n, runs + 1)
        return dict(sorted(found.items(), key=lambda kv: (-kv[1][0], kv[0])))

    @cached_property
    def spreads(self) -> Mapping[tuple[str, Contender], Spread]:
        """(key of a figure, contender) → its values; pairs without values are left out."""
        found = {}
        for f in FIGURES:
            for c in self.contenders:
                values = tuple(v for m in self.measured(c) if (v := m.figures.get(f.key)) is not None)
                if values:
                    found[f.key, c] = Spread(values)
        return found

    def cell(self, f: Figure, c: Contender) -> ContenderScore:
        """A contender's number, compared with the first contender's."""
        spread, first = self.spreads.get((f.key, c)), self.spreads.get((f.key, self.contenders[0]))
        if spread is None:
            return ContenderScore(None, "missing")
        if c == self.contenders[0]:
            return ContenderScore(spread, "first")
        return ContenderScore(spread, "missing" if first is None else versus(f, spread, first))

    def best(self, f: Figure) -> list[Contender]:
        """Contenders by median, the best first; those without the number are left out."""
        sign = 1 if f.better == "less" else -1
        known = [c for c in self.contenders if (f.key, c) in self.spreads]
        return sorted(known, key=lambda c: sign * self.spreads[f.key, c].median)

    @property
    def by_chance(self) -> tuple[int, float]:
        """How many pairs of numbers were compared, and how many of them chance alone would set apart."""
        count, expected = 0, 0.0
        for f in FIGURES:
            first = self.spreads.get((f.key, self.contenders[0]))
            for c in self.contenders[1:]:
                spread = self.spreads.get((f.key, c))
                if first is not None and spread is not None and apart(spread, first) is not None:
                    count += 1
                    expected += chance(len(spread.values), len(first.values))
        return count, expected


def versus(f: Figure, spread: Spread, first: Spread) -> Against:
    """A number compared with another."""
    differs = apart(spread, first)
    if differs is None:
        return "too few"
    if not differs:
        return "noise"
    return "better" if (spread.median < first.median) == (f.better == "less") else "worse"


def summed(found: Iterable[Measures]) -> dict[str, tuple[int, int, int]]:
    """Kind → (ok, fail, info), summed over several runs."""
    out: dict[str, tuple[int, int, int]] = {}
    for m in found:
        for kind, counts in m.kinds.items():
            a, b, c = out.get(kind, (0, 0, 0))
            out[kind] = (a + counts[0], b + counts[1], c + counts[2])
    return dict(sorted(out.items()))


def requests(found: Sequence[Measures]) -> dict[str, float]:
    """``service kind`` → requests for each commit: the median over the runs; a run without any counts as 0."""
    names = sorted({k for m in found for k in m.requests})
    return {k: median(m.requests.get(k, 0.0) for m in found) for k in names}
