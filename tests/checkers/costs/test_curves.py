"""A sweep as curves: which parameter lies along x, where a line stops growing and why, and which points say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.costs import curves
from checkers.costs.attempts import CommitsMeasured
from checkers.costs.comparison import Comparison, Contender, ContenderRun, Spread
from checkers.costs.curves import Axis, Ceiling, Curve, CurvePoint
from checkers.costs.measures import Measures
from checkers.evidence.replace import replace
from tests.support.committers import Committers, attempt, point

EMPTY = Measures(True, {}, (), 60.0, 100, 40, {"insert": (40, 5, 1)}, {})


def contenders(**values: str) -> list[Contender]:
    """Of every combination of values, which are separated by blanks."""
    out: list[tuple[tuple[str, str], ...]] = [()]
    for name, typed in values.items():
        out = [(*before, (name, v)) for before in out for v in typed.split()]
    return [Contender("rest", "1.12.0", (), varied) for varied in out]


def line(*medians: float, noise: float = 0.0, runs: int = 3) -> Curve:
    """Points at x = 1, 2, …, whose runs lie from ``noise`` below to ``noise`` above the median."""
    points = []
    for n, m in enumerate(medians, 1):
        values = (m,) if runs == 1 else (m - noise, *([m] * (runs - 2)), m + noise)
        points.append(CurvePoint(n, str(n), Contender("rest", "1", (), (("writers", str(n)),)), Spread(values)))
    return Curve("", tuple(points))


# --- the axis ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "parameter", "unit", "numbers"),
    [
        ({"writers": "1 2 4", "backoff": "none linear"}, "writers", "", [1, 2, 4]),
        ({"num-retries": "4 8", "writers": "1 2 4"}, "writers", "", [1, 2, 4]),
        ({"num-retries": "4 8", "writers": "1 2"}, "num-retries", "", [4, 8]),  # of as many values the first
        ({"swap-latency": "0 5ms 0.1s"}, "swap-latency", "ms", [0, 5, 100]),
        ({"interval": "1min 30s"}, "interval", "ms", [30_000, 60_000]),
        ({"writers": "50 8"}, "writers", "", [8, 50]),
    ],
)
def test_the_axis_is_the_parameter_with_most_numbers(
    values: dict[str, str], parameter: str, unit: str, numbers: list[float]
) -> None:
    x = curves.axis(contenders(**values))
    assert x is not None
    assert (x.parameter, x.unit, list(x.values.values())) == (parameter, unit, numbers)


@pytest.mark.parametrize(
    "values",
    [{"backoff": "none linear"}, {"writers": "8", "backoff": "none linear"}, {"latency": "5 10ms"}, {"n": "1 1.0"}, {}],
)
def test_names_one_number_and_numbers_of_two_kinds_are_no_axis(values: dict[str, str]) -> None:
    assert curves.axis(contenders(**values)) is None


def sweep(values: dict[str, str], figures: dict[tuple[str, ...], tuple[float, ...]], **more: Any) -> Comparison:
    """``figures``: values of a contender → commits a second for each seed."""
    every = contenders(**values)
    runs: list[ContenderRun] = []
    for one in every:
        for seed, v in enumerate(figures.get(tuple(t for _, t in one.varied), ()), 1):
            m = replace(EMPTY, figures={"commits_per_s": v}, **more)
            runs.append(point(seed, m, *one.varied))
    return Comparison({"format": 1}, tuple(every), (1, 2, 3), tuple(runs))


def test_there_is_a_line_for_each_combination_of_the_other_parameters_with_its_points_in_order() -> None:
    figures: dict[tuple[str, ...], tuple[float, ...]] = {
        (w, b): (10 * int(w) + n,) for w in ("8", "1") for n, b in enumerate(("none", "jitter"))
    }
    c = sweep({"writers": "8 1", "backoff": "none jitter"}, {**figures, ("8", "jitter"): ()})
    x = curves.axis(c.contenders)
    assert x is not None
    found = curves.lines(c, "commits_per_s", x)
    assert [(f.label, [(p.x, p.spread.median) for p in f.points]) for f in found] == [
        ("backoff=none", [(1, 10), (8, 80)]),
        ("backoff=jitter", [(1, 11)]),  # the other was not measured
    ]
    assert curves.lines(c, "retried", x) == []


def test_lines_are_called_by_what_they_differ_in() -> None:
    one, other = contenders(writers="1 2", backoff="none")
    assert curves.label(one, [one, other]) == "writers=1"
    assert curves.label(one, [one, replace(one, catalog="jdbc")]) == "rest"
    assert curves.label(one, [one]) == ""


# --- the knee ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawn", "at", "shape", "falls"),
    [
        (line(10, 20, 40, 80), "4", "grows", False),
        (line(10, 20, 21, 21), "2", "knee", False),
        (line(10, 20, 21, 23), "4", "grows", False),  # 5 % and 10 % add up
        (line(10, 10, 10), "1", "flat", False),
        (line(10, 9, 8), "1", "flat", True),
        (line(10, 30, 20), "2", "knee", True),
        (line(10, 30, 28), "2", "knee", False),  # 7 % less is no fall
        (line(10, 20, 10, 30), "4", "grows", False),  # a dip is not the end
        (line(10, 20, 30, noise=11), "1", "flat", False),  # all within noise
        (line(10, 20, 40, noise=6), "3", "grows", False),  # the second step is within noise, the third is not
        (line(10, 20, 21, runs=1), "2", "knee", False),
        (line(0, 0, 0), "1", "flat", False),
        (line(0, 5), "2", "grows", False),
        (line(10, 30, 20, noise=9), "2", "knee", False),  # the fall is within noise
    ],
)
def test_the_knee_is_the_last_point_that_is_ten_percent_and_more_than_noise_above_the_best_before(
    drawn: Curve, at: str, shape: str, falls: bool
) -> None:
    k = curves.knee(drawn)
    assert k is not None
    assert (k.point.text, k.shape, k.falls) == (at, shape, falls)


def test_one_point_has_no_knee_and_too_few_runs_are_said() -> None:
    assert curves.knee(line(10)) is None
    few, enough = curves.knee(line(10, 20, runs=1)), curves.knee(line(10, 20, runs=3))
    assert few is not None and not few.certain and enough is not None and enough.certain


MEDIANS = st.lists(st.floats(0.1, 1000), min_size=2, max_size=9)


@given(MEDIANS, st.floats(0, 5), st.sampled_from([1, 2, 3, 5]))
def test_no_point_right_of_the_knee_grows_and_the_knee_itself_does(
    medians: list[float], noise: float, runs: int
) -> None:
    drawn = line(*medians, noise=noise, runs=runs)
    k = curves.knee(drawn)
    assert k is not None
    n = drawn.points.index(k.point)
    assert not any(curves.more(p.spread, k.point.spread) for p in drawn.points[n + 1 :])
    assert n == 0 or curves.more(k.point.spread, drawn.points[0].spread)
    assert k.shape == ("grows" if k.point is drawn.points[-1] else "flat" if n == 0 else "knee")
    assert not (k.falls and k.shape == "grows")


@given(st.floats(0.5, 100), st.integers(1, 8), st.integers(0, 6), st.floats(1.2, 3))
def test_a_line_that_grows_and_then_stays_has_its_knee_where_it_stops(
    first: float, growing: int, staying: int, factor: float
) -> None:
    medians = [first * factor**n for n in range(growing)]
    medians += [medians[-1] * 1.01] * staying
    k = curves.knee(line(*medians)) if len(medians) > 1 else None
    assert k is None or k.point.x == growing


@given(MEDIANS, st.floats(0.01, 100))
def test_the_knee_does_not_depend_on_the_unit(medians: list[float], factor: float) -> None:
    """But for points that are exactly at the limit, which rounding moves."""
    ratios = [b / a for n, a in enumerate(medians) for b in medians[n + 1 :]]
    if any(abs(r - limit) < 1e-6 for r in ratios for limit in (0.9, 1.0, 1.1)):
        return
    one, other = curves.knee(line(*medians)), curves.knee(line(*(factor * m for m in medians)))
    assert one is not None and other is not None
    assert (one.point.x, one.shape, one.falls) == (other.point.x, other.shape, other.falls)


def test_scaling_is_held_against_as_many_times_the_first_point() -> None:
    drawn = line(10, 15, 15)
    assert [share for _, share in curves.scaling(drawn)] == [1.0, 0.75, 0.5]
    zero = Curve("", (replace(drawn.points[0], x=0.0),))
    assert curves.scaling(zero) == []


# --- the ceiling ------------------------------------------------------------------------------------------------------


def measured(c: Committers) -> CommitsMeasured:
    """What is measured of its commits."""
    m = c.measures().attempts
    assert m is not None
    return m


def alone(commits: int, gap: float, **times: Any) -> CommitsMeasured:
    """One writer, whose operations of a single attempt begin ``gap`` ms after one another."""
    c = Committers(1)
    length = sum(v for k, v in attempt(**times).items() if k.endswith("_ms"))
    for n in range(commits):
        c.did(f"w0-{n}", n * gap, n * gap + length, [attempt(**times)])
    return measured(c)


def test_a_pointer_that_winning_attempts_cover_is_the_ceiling() -> None:
    assert curves.ceiling([alone(30, 22)]) == Ceiling("pointer", round(540 / 658, 6), 1000 / 18)


def test_writers_that_do_nothing_half_of_the_time_are_idle() -> None:
    found = curves.ceiling([alone(30, 100)])
    assert found is not None and found.what == "idle" and found.share == pytest.approx(1 - 600 / 2920, abs=1e-5)


@pytest.mark.parametrize(("phase", "ms"), [("data", 200), ("wait", 150), ("swap", 80)])
def test_else_the_phase_where_most_time_goes_is_the_ceiling(phase: str, ms: float) -> None:
    """Three writers, of which one wins at a time, so that the pointer is free most of the time."""
    c = Committers(3)
    for n in range(9):
        slow: dict[str, Any] = {f"{phase}_ms": ms}
        both = [attempt("refused", **slow), attempt("refused", **slow), attempt()]
        end = sum(v for a in both for k, v in a.items() if k.endswith("_ms"))
        for w in range(3):
            c.did(f"w{w}-{n}", n * end, (n + 1) * end - 1, both, type="ok" if w == n % 3 else "fail")
    found = curves.ceiling([measured(c)])
    assert found is not None and found.what == phase and found.share > 0.5


def test_without_recorded_attempts_no_ceiling_is_named() -> None:
    c = Committers(1)
    c.did("w0-0", 0, 10, None)
    assert curves.ceiling([measured(c)]) is None and curves.ceiling([]) is None


def test_points_without_retries_with_idle_writers_or_few_commits_say_nothing() -> None:
    assert curves.silent([alone(30, 20)]) == ("no retries",)
    assert curves.silent([alone(30, 100)]) == ("no retries", "idle")
    assert curves.silent([alone(5, 20)]) == ("few commits", "no retries")
    c = Committers(1)
    for n in range(20):
        c.did(f"w0-{n}", 40 * n, 40 * n + 40, [attempt("refused"), attempt()])
    assert curves.silent([measured(c)]) == ()
    assert curves.silent([measured(c), alone(30, 20)]) == ()  # one seed with retries is enough
    assert curves.silent([]) == ()


def test_a_value_that_no_contender_has_is_none() -> None:
    assert curves.value(contenders(writers="1")[0], "backoff") is None
    assert curves.numbers([]) is None
    assert Axis("writers", "", {"1": 1.0}).values["1"] == 1.0
