"""A night is worse than those before it only by the rule that the page states."""

from __future__ import annotations

from datetime import date, timedelta
from math import sqrt
from statistics import stdev
from typing import Any

import pytest

from checkers.costs.measures import FIGURES
from checkers.costs.trend import BY_KEY, Found, Series, Trend, finding, fresh, told
from checkers.costs.worse import FEWEST
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
        Found(ONE, NIGHTS[0], "old", False, 1, 1),
        Found(ONE, NIGHTS[1], "old", False, 1, 1),
        Found(ONE, NIGHTS[1], "new", False, 2, 1),
        Found(ONE, NIGHTS[1], "documented", True, 2, 1),
        Found(other, NIGHTS[1], "old", False, 1, 1),
    ]
    assert [(a.series, a.name) for a in fresh(seen, NIGHTS[1])] == [(ONE, "new"), (other, "old")]


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
    t = told(rows(newest=30.0, anomaly=True))
    assert (
        t.worse
        and [f.figure for f in t.regressions] == ["write_p50_ms"]
        and [a.name for a in t.fresh] == ["lost-commit"]
    )
    html = page.render(t)
    assert "Worse than before: 1 figure and 1 new anomaly" in html
    assert "mixed, rest, 1.12.0: lost-commit ×3 in 1 run, in no earlier night" in html
    assert "&lt;insert&gt;" in html and "<insert>" not in html
    assert html.count("<svg") == 2  # the figure, and the anomalies
    lines = [x for x in page.shown(t) if isinstance(x, str)]
    assert any("mixed, rest, 1.12.0: worse: latency of writes, median: 30" in x for x in lines), lines


def test_a_quiet_week_is_not_worse() -> None:
    t = told(rows())
    assert not t.worse and page.banner(t).headline == "Nothing is worse than before"


def test_too_few_nights_are_said() -> None:
    few = {k: [r for r in v if r.get("night", NIGHTS[-1]) > NIGHTS[-1 - FEWEST]] for k, v in rows(newest=30.0).items()}
    t = told(few)
    assert {f.state for f in t.findings} == {"too few"} and not t.worse
    assert page.banner(t).headline == f"Too few nights to say: {FEWEST} earlier ones are needed"


def test_a_series_that_did_not_run_in_the_newest_night_is_not_judged() -> None:
    found = rows()
    old = ONE._replace(catalog="jdbc")._asdict()
    found["nights"].append({**found["nights"][0], **old})
    found["points"].append({**found["points"][0], **old})
    t = told(found)
    assert {f.series for f in t.findings} == {ONE}
    assert "Not run in the newest night: mixed, jdbc, 1.12.0." in page.render(t)


def test_a_lake_without_runs_has_no_trend() -> None:
    empty: dict[str, list[dict[str, Any]]] = {k: [] for k in rows()}
    t: Trend = told(empty)
    assert t.newest is None and t.findings == () and not t.worse


def test_it_is_json() -> None:
    import json

    said = json.loads(json.dumps(told(rows(newest=30.0, anomaly=True)).to_json()))
    assert said["worse"] is True and said["newest"] == "2026-11-08"
    assert said["findings"][0]["series"] == {
        "workload": "mixed",
        "catalog": "rest",
        "iceberg": "1.12.0",
        "setup": "abc",
    }
    assert len(said["points"]) == 8 and {p["figure"] for p in said["points"]} <= {f.key for f in FIGURES}
