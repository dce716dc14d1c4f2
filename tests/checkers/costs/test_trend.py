"""A night is worse than those before it only by the rule that the page states."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from math import sqrt
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest

from checkers.costs.measures import BY_KEY, FIGURES
from checkers.costs.trend import (
    MissingSeries,
    Series,
    SeriesAnomaly,
    SeriesNight,
    SuiteNight,
    Trend,
    beside,
    finding,
    fresh,
    latest_night,
    newest_suite,
    trend_from,
)
from checkers.costs.worse import FEWEST_NIGHTS
from harness.cli.lake import TrendOptions, no_runs
from reports.drawing.render import html, terminal
from reports.trend import page

ONE = Series("mixed", "rest", "1.12.0", "abc")
NIGHTS = [date(2026, 11, 1) + timedelta(days=n) for n in range(8)]


@pytest.mark.parametrize(
    ("figure", "before", "value", "state"),
    [
        ("write_p50_ms", [100, 102, 98, 101, 99], 150, "regression"),
        ("write_p50_ms", [100, 102, 98, 101, 99], 50, "better"),
        ("commits_per_s", [100, 102, 98, 101, 99], 50, "regression"),  # more is better
        ("commits_per_s", [100, 102, 98, 101, 99], 150, "better"),
        ("write_p50_ms", [100, 102, 98, 101, 99], 101, "noise"),
        ("write_p50_ms", [100, 102, 98, 101, 99], 109, "noise"),  # above all and 3 s = 4.4, but not by a tenth
        ("write_p50_ms", [100, 102, 98, 101, 160], 150, "regression"),  # one night was as bad, and is no excuse
        ("write_p50_ms", [50, 150, 60, 140, 100], 160, "noise"),  # above all, but the noise is 50
        ("write_p50_ms", [100, 102, 98, 101], 500, "too few"),
        ("write_p50_ms", [], 500, "too few"),
        ("retried", [0.10, 0.10, 0.11, 0.10, 0.10], 0.125, "regression"),
        ("retried", [0.10, 0.10, 0.11, 0.10, 0.10], 0.119, "noise"),  # a share must be worse by 0.02
        ("aborted", [0.0] * 5, 0.5, "regression"),
        ("aborted", [0.0] * 5, 0.0, "noise"),
    ],
)
def test_the_rule(figure: str, before: list[float], value: float, state: str) -> None:
    found = finding(ONE, BY_KEY[figure], value, before)
    assert (found.state, found.value, found.nights) == (state, value, len(before))


def test_the_noise_is_that_of_the_earlier_nights_without_outliers() -> None:
    found = finding(ONE, BY_KEY["write_p50_ms"], 7.0, [1.0, 2.0, 3.0, 4.0, 100.0])
    assert (found.before, found.noise) == (3.0, pytest.approx(stdev([1, 2, 3, 4]) * sqrt(1 + 1 / 4)))


def test_only_an_undocumented_anomaly_that_no_earlier_night_had_is_new() -> None:
    other = ONE._replace(catalog="jdbc")
    seen = [
        SeriesAnomaly(ONE, NIGHTS[0], "old", False, 1, 1),
        SeriesAnomaly(ONE, NIGHTS[1], "old", False, 1, 1),
        SeriesAnomaly(ONE, NIGHTS[1], "new", False, 2, 1),
        SeriesAnomaly(ONE, NIGHTS[1], "documented", True, 2, 1),
        SeriesAnomaly(other, NIGHTS[1], "old", False, 1, 1),
    ]
    assert [(a.series, a.name) for a in fresh(seen, NIGHTS[1])] == [(ONE, "new"), (other, "old")]


def test_what_is_known_is_not_new_and_hides_no_new_one() -> None:
    seen = [
        SeriesAnomaly(ONE, NIGHTS[0], "lost-commit", False, 2, 1, known=2),
        SeriesAnomaly(ONE, NIGHTS[0], "undelete", True, 2, 1, known=2),
        SeriesAnomaly(ONE, NIGHTS[1], "lost-commit", False, 3, 2, known=2),
        SeriesAnomaly(ONE, NIGHTS[1], "missing-file", False, 1, 1, known=1),
        SeriesAnomaly(ONE, NIGHTS[1], "undelete", False, 1, 1),
    ]
    assert [(a.name, a.new) for a in fresh(seen, NIGHTS[1])] == [("lost-commit", 1)], (
        "the last night's lost-commit was another one"
    )
    assert fresh(seen[:2], NIGHTS[0]) == []


def rows(*, newest: float = 10.0, anomaly: bool = False) -> dict[str, list[dict[str, Any]]]:
    """A week of one series whose median write takes 10 ms, and in the newest night ``newest``."""
    series = ONE._asdict()
    night = {"runs": 2, "invalid": int(anomaly), "operations": 20, "commits": 10, "anomalies": 3 * anomaly}
    value = [10 + 0.1 * (n % 3) for n in range(7)] + [newest]
    counts = {"operations": 9, "ok": 8, "failed": 1, "unknown": 0, "known": 5, "retried": 2, "extra": 3, "conflicts": 1}
    return {
        "nights": [{**series, "night": n, **night} for n in NIGHTS],
        "points": [
            {**series, "figure": "write_p50_ms", "night": n, "runs": 2, "median": v, "low": v - 1, "high": v + 1}
            for n, v in zip(NIGHTS, value, strict=True)
        ],
        "kinds": [
            {
                "catalog": "rest",
                "iceberg": "1.12.0",
                "f": "<insert>",
                "night": n,
                **counts,
                "p50": 1.0,
                "p95": 2.0,
                "p99": None,
            }
            for n in NIGHTS
        ],
        "anomalies": [
            {**series, "night": NIGHTS[-1], "name": "lost-commit", "documented": False, "count": 3, "runs": 1}
        ]
        * anomaly,
        "pairs": [{"catalog": "rest", "iceberg": "1.12.0", "kind": "update", "by": "delete", "count": 4.0}],
    }


def test_the_page_and_the_terminal_say_what_is_worse() -> None:
    t = trend_from(rows(newest=30.0, anomaly=True))
    assert (
        t.worse
        and [f.figure for f in t.regressions] == ["write_p50_ms"]
        and [a.name for a in t.fresh] == ["lost-commit"]
    )
    text = html(page.of(t))
    assert "Worse than before: 1 figure and 1 new anomaly" in text
    assert "mixed, rest, 1.12.0: lost-commit ×3 in 1 run, in no earlier night" in text
    assert "&lt;insert&gt;" in text and "<insert>" not in text
    assert text.count("<svg") == 2  # the figure, and the anomalies
    lines = [x for x in terminal(page.of(t)) if isinstance(x, str)]
    assert any("mixed, rest, 1.12.0: worse: latency of writes, median: 30" in x for x in lines), lines


def test_a_quiet_week_is_not_worse() -> None:
    t = trend_from(rows())
    assert not t.worse and page.banner(t).headline == "Nothing is worse than before"


def test_too_few_nights_are_said() -> None:
    few = {
        k: [r for r in v if r.get("night", NIGHTS[-1]) > NIGHTS[-1 - FEWEST_NIGHTS]]
        for k, v in rows(newest=30.0).items()
    }
    t = trend_from(few)
    assert {f.state for f in t.findings} == {"too few"} and not t.worse
    assert page.banner(t).headline == f"Too few nights to say: {FEWEST_NIGHTS} earlier ones are needed"


def test_a_series_that_did_not_run_in_the_newest_night_is_not_judged() -> None:
    found = rows()
    old = ONE._replace(catalog="jdbc")._asdict()
    found["nights"].append({**found["nights"][0], **old})
    found["points"].append({**found["points"][0], **old})
    t = trend_from(found)
    assert {f.series for f in t.findings} == {ONE}
    assert "Not run in the newest night: mixed, jdbc, 1.12.0." in html(page.of(t))


def without(found: dict[str, list[dict[str, Any]]], nights: Sequence[date], *tables: str) -> dict[str, Any]:
    """The rows, of these tables without those of these nights."""
    return {k: [r for r in v if k not in tables or r["night"] not in nights] for k, v in found.items()}


def of(found: dict[str, list[dict[str, Any]]], nights: Sequence[date], **other: str) -> dict[str, Any]:
    """The rows of these nights, of another series."""
    mine = {k: [r for r in v if r.get("night") in nights] for k, v in found.items()}
    return {k: [{**r, **other} for r in v] if k in ("nights", "points") else v for k, v in mine.items()}


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {k: [*v, *other[k]] for k, v in one.items()}


@pytest.mark.parametrize("bad", ["median", "low", "high"])
def test_what_is_no_number_in_the_newest_night_is_worse(bad: str) -> None:
    found = rows()
    found["points"][-1][bad] = math.nan
    t = trend_from(found)
    assert t.worse and [(f.figure, f.state, f.value) for f in t.regressions] == [("write_p50_ms", "no number", None)]
    assert "Worse than before: 1 figure" in html(page.of(t))
    assert "no number: latency of writes, median: – instead of 10" in html(page.of(t))
    assert not any("nan" in str(x).lower() for x in (html(page.of(t)), json.dumps(t.to_json()), *terminal(page.of(t))))


def test_what_is_said_of_a_night_without_runs_names_the_night_that_has_some() -> None:
    asked, there, began = date(2026, 11, 27), date(2026, 11, 28), datetime(2026, 11, 28, 13, tzinfo=UTC)
    ran = [SuiteNight("tiny", there, 4, began), SuiteNight("other", date(2026, 12, 1), 1, began)]
    nothing: dict[str, list[dict[str, Any]]] = {name: [] for name in rows()}
    found = replace(trend_from(nothing, asked), suite="tiny", latest=latest_night(ran, "tiny"))
    assert no_runs("the lake", found) == (
        "the lake has no run of suite tiny in the night of 2026-11-27, nor in an earlier one; its newest night is "
        "2026-11-28: --night 2026-11-28"
    )
    assert latest_night(ran, "") == date(2026, 12, 1) and latest_night(ran, "third") is None
    assert "add some with `" in no_runs("the lake", replace(found, latest=None))
    late = replace(trend_from(rows(), NIGHTS[-1] + timedelta(days=1)), latest=NIGHTS[-1] + timedelta(days=2))
    assert page.banner(late).sentence.endswith(
        "The last night that has runs is that of 2026-11-10: --night 2026-11-10."
    )
    assert "--night" not in page.banner(replace(late, latest=NIGHTS[-1])).sentence


def test_a_series_that_ran_without_any_figure_is_worse_if_an_earlier_night_had_some() -> None:
    t = trend_from(without(rows(), NIGHTS[1:], "points"))
    assert t.worse and t.missing == (MissingSeries(ONE, 2, 1),)
    assert "Worse than before: 1 series without figures" in html(page.of(t))
    assert "mixed, rest, 1.12.0: ran in 2 runs without any figure; 1 earlier night has figures of it" in html(
        page.of(t)
    )
    assert not trend_from(without(rows(), NIGHTS, "points")).worse, "it never had any"


def test_a_series_that_most_nights_have_is_worse_when_it_does_not_run() -> None:
    other = of(rows(), NIGHTS, catalog="jdbc")
    gone = both(without(rows(), NIGHTS[-1:], "nights", "points"), other)
    t = trend_from(gone)
    assert t.worse and t.missing == (MissingSeries(ONE, 0, 7),)
    assert "mixed, rest, 1.12.0: did not run; 7 earlier nights have figures of it" in html(page.of(t))
    assert not trend_from(both(without(rows(), NIGHTS[3:], "nights", "points"), other)).worse, "it ran in 3 of 7"
    few = {k: [r for r in v if r.get("night", NIGHTS[-1]) >= NIGHTS[-FEWEST_NIGHTS]] for k, v in gone.items()}
    assert not trend_from(few).worse, "too few nights to say that most have it"


@pytest.mark.parametrize("change", [{"iceberg": "1.13.0"}, {"setup": "def"}])
def test_a_series_with_another_release_or_setup_takes_the_place_of_the_one_before(change: dict[str, str]) -> None:
    before, after = without(rows(), NIGHTS[-2:], "nights", "points"), of(rows(), NIGHTS[-2:], **change)
    assert not trend_from(both(before, after)).worse
    beside = of(rows(), NIGHTS, **change)
    assert trend_from(both(before, beside)).worse, "one that ran beside it took no place"


def test_a_night_that_was_asked_for_and_has_no_run_is_not_compared() -> None:
    tonight = NIGHTS[-1] + timedelta(days=1)
    t = trend_from(rows(newest=30.0), tonight)
    assert (t.newest, t.ran, t.worse, t.findings) == (tonight, False, False, ())
    assert page.banner(t).status == "unknown" and page.banner(t).headline == f"No run in the night of {tonight}"
    assert f"The newest night before it that has runs is that of {NIGHTS[-1]}" in html(page.of(t))
    assert t.to_json()["ran"] is False and trend_from(rows()).to_json()["ran"] is True


def test_the_first_night_has_nothing_to_compare_with_and_no_chart_of_it_is_worse() -> None:
    """Whatever it found: an anomaly is new only beside an earlier night, though it still fails the command."""
    first = {k: [r for r in v if r.get("night", NIGHTS[-1]) == NIGHTS[-1]] for k, v in rows(anomaly=True).items()}
    t = trend_from(first)
    found = page.banner(t)
    assert (found.status, found.headline) == ("unknown", "The first night: there is nothing to compare with")
    text = html(page.of(t))
    assert (
        "lost-commit ×3 in 1 run" in text
        and "in no earlier night" not in text
        and "anomalies, night by night" in text
        and ">worse<" not in text
    )
    assert t.worse and "3 anomalies of it are new: neither the suite nor the library has them." in found.sentence


def test_a_night_that_fails_the_command_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a first night, of which the page says that there is nothing to compare with."""
    first = {k: [r for r in v if r.get("night", NIGHTS[-1]) == NIGHTS[-1]] for k, v in rows(anomaly=True).items()}
    monkeypatch.setattr(TrendOptions, "_trend", lambda *_: trend_from(first))
    assert TrendOptions(store=tmp_path, fail_on_regression=True).execute() == 1
    said = (
        f"--fail-on-regression: the night of {NIGHTS[-1]}, fails because of 1 new anomaly: {tmp_path}/trend/trend.html"
    )
    assert said in capsys.readouterr().out
    assert TrendOptions(store=tmp_path).execute() == 0
    assert "fails because" not in capsys.readouterr().out


def test_a_first_night_with_what_is_known_alone_passes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = {k: [r for r in v if r.get("night", NIGHTS[-1]) == NIGHTS[-1]] for k, v in rows(anomaly=True).items()}
    first["anomalies"] = [{**r, "known": r["count"]} for r in first["anomalies"]]
    monkeypatch.setattr(TrendOptions, "_trend", lambda *_: trend_from(first))
    assert TrendOptions(store=tmp_path, fail_on_regression=True).execute() == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "No anomaly of it is new. 3 anomalies" in said
    assert (
        "3 anomalies of it are known (to the suite or the library), documented or allowed, and fail no night." in said
    )
    assert "fails because" not in said


def test_a_chart_says_the_median_of_what() -> None:
    text = html(page.of(trend_from(rows())))
    assert "<h3>Latency of writes: median" in text and 'aria-label="Latency of writes: median, night by night"' in text


def test_series_of_one_workload_catalog_and_release_are_told_apart_in_words() -> None:
    def ran(setup: str, faults: str, engines: str = "spark=3") -> SeriesNight:
        return SeriesNight(ONE._replace(setup=setup), NIGHTS[0], 1, 0, 9, 9, 0, faults, engines)

    alone = SeriesNight(ONE._replace(catalog="jdbc"), NIGHTS[0], 1, 0, 9, 9, 0, "crashes", "spark=3")
    every = [
        ran("a", ""),
        ran("b", "lost-acks"),
        ran("c", "lost-acks", "duckdb=1,spark=2"),
        ran("d", "crashes"),
        ran("e", "crashes"),
    ]
    names = page.Names([*every, alone])
    assert [names[r.series].removeprefix("mixed, rest, 1.12.0, ") for r in every] == [
        "no faults",
        "lost-acks, spark=3",
        "lost-acks, duckdb=1,spark=2",
        "crashes, setup d",
        "crashes, setup e",
    ]
    assert names[alone.series] == "mixed, jdbc, 1.12.0"


def test_a_lake_without_runs_has_no_trend() -> None:
    empty: dict[str, list[dict[str, Any]]] = {k: [] for k in rows()}
    t: Trend = trend_from(empty)
    assert t.newest is None and t.findings == () and not t.worse


def test_it_is_json() -> None:
    said = json.loads(json.dumps(trend_from(rows(newest=30.0, anomaly=True)).to_json()))
    assert said["worse"] is True and said["newest"] == "2026-11-08"
    assert said["findings"][0]["series"] == {
        "workload": "mixed",
        "catalog": "rest",
        "iceberg": "1.12.0",
        "setup": "abc",
    }
    assert len(said["points"]) == 8 and {p["figure"] for p in said["points"]} <= {f.key for f in FIGURES}


def test_a_trend_is_of_one_suite_the_one_of_the_last_night() -> None:
    def ran_in(suite: str | None, day: int, hour: int, runs: int = 1) -> SuiteNight:
        return SuiteNight(suite, date(2026, 11, day), runs, datetime(2026, 11, day, hour, tzinfo=UTC))

    every = [ran_in("nightly", 1, 22), ran_in("smoke", 2, 13), ran_in("nightly", 2, 22), ran_in(None, 2, 23, 4)]
    assert newest_suite(every, None) == "nightly", "the runs that are of no suite began last"
    assert newest_suite([*every, ran_in("smoke", 3, 13)], None) == "smoke"
    assert newest_suite([*every, ran_in("smoke", 3, 13)], date(2026, 11, 2)) == "nightly"
    assert newest_suite([ran_in(None, 1, 22)], None) == "", "a lake without a suite has no other runs"
    assert beside(every, "nightly", None) == 5 and beside(every, "nightly", date(2026, 11, 1)) == 0
    assert beside(every, "", None) == 0
    shrunk = SuiteNight(None, date(2026, 11, 2), 9, datetime(2026, 11, 2, 23, tzinfo=UTC), 7)
    assert beside([*every[:3], shrunk], "nightly", None) == 1 + 2, "what a shrink repeats is nobody's to compare"


def test_it_says_of_which_suite_it_is_and_how_many_runs_are_left_out() -> None:
    t = replace(trend_from(rows()), suite="nightly", beside=1)
    assert page.banner(t).sentence.endswith(
        "Only runs of the suite nightly; 1 other run of that night is left out (--suite '*' compares all)."
    )
    assert page.banner(replace(t, beside=0)).sentence.endswith("Only runs of the suite nightly.")
    assert "suite" not in page.banner(trend_from(rows())).sentence
    assert (t.to_json()["suite"], t.to_json()["beside"]) == ("nightly", 1)
