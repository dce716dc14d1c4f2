"""The page of a sweep: what it says of curves, knees and commits, that every point links to its runs, and that it is self-contained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from checkers.costs import curves
from checkers.costs.comparison import Comparison, Contender, ContenderRun
from checkers.costs.curves import Curve, Predicted
from checkers.costs.measures import BY_KEY, FIGURES, Measures
from harness.experiments import compare
from reports.drawing.render import cell, html, terminal, write
from reports.sweep import blocks, choice, drawings, page, sentences
from tests.reports.test_report import HOSTILE
from tests.support.committers import Committers, attempt, point, simulated

WRITERS, BACKOFF = ("1", "2", "8"), ("none", "exponential+jitter")


def swept(*runs: ContenderRun, seeds: tuple[int, ...] = (1, 2, 3), **header: Any) -> Comparison:
    spec = {"workload": "race", "tables": [{"name": "t"}]}
    contenders = tuple(dict.fromkeys(r.contender for r in runs))
    return Comparison({"format": 1, "workload": spec, "parallel": 1, **header}, contenders, seeds, runs)


@pytest.fixture(scope="module")
def race() -> Comparison:
    """Simulated writers: three numbers of them, with two budgets of retries, three seeds each."""
    runs = []
    for b in BACKOFF:
        for w in WRITERS:
            for seed in (1, 2, 3):
                s = simulated(10 * seed + int(w), int(w), 10, budget=3 if b == "none" else 50)
                runs.append(point(seed, s.run.measures(), ("writers", w), ("backoff", b), command=f"icequake {w} {b}"))
    return swept(*runs)


def names(c: Comparison) -> Comparison:
    """The points with eight writers alone: a sweep of names."""
    kept = tuple(x for x in c.contenders if dict(x.varied)["writers"] == "8")
    return replace(c, contenders=kept, runs=tuple(r for r in c.runs if r.contender in kept))


def foretold() -> list[Predicted]:
    """Of both lines, with points that were not measured: beside, far to the right, and with a parameter that does not vary."""
    out = []
    for b in BACKOFF:
        for w in (*WRITERS, "32", "1000"):
            there = w in WRITERS
            error = {"commits_per_s": 0.25 if w == "8" else 0.05} if there else {}
            out.append(Predicted((("writers", w), ("backoff", b)), {"commits_per_s": 30.0}, there, error))
    far = (("writers", "8"), ("backoff", BACKOFF[0]), ("regions", "2"))
    return [*out, Predicted(far, {"commits_per_s": 3.0}, False, {})]


# --- the page ---------------------------------------------------------------------------------------------------------


def test_every_link_within_the_page_has_its_target_and_every_run_is_linked(race: Comparison) -> None:
    text = html(page.of(race, "icequake sweep", foretold()))
    targets = set(re.findall(r' id="([^"]+)"', text))
    inside = set(re.findall(r'href="#([^"]+)"', text))
    assert inside <= targets and {blocks.anchor(n) for n in range(6)} <= inside
    for r in race.runs:
        assert f'href="{r.folder}/report.html"' in text
    assert "icequake 8 none" in text and "icequake sweep" in text


@pytest.mark.parametrize("what", ["race", "names"])
def test_the_page_is_self_contained_and_nothing_from_outside_breaks_out(race: Comparison, what: str) -> None:
    c = race if what == "race" else names(race)
    bad = Contender(HOSTILE, HOSTILE, (), (("writers", HOSTILE), ("backoff", HOSTILE)))
    hostile = ContenderRun(bad, 1, HOSTILE, HOSTILE, race.runs[0].measures, None, {HOSTILE: HOSTILE}, HOSTILE)
    text = html(page.of(replace(c, contenders=(*c.contenders, bad), runs=(*c.runs, hostile)), HOSTILE))
    assert "<img" not in text and "\u202e" not in text and "{{ 7 * 7 }}" in text
    assert "http" not in text.replace("http-equiv", "")
    assert not any("nan" in places or "inf" in places for places in re.findall(r'(?:points|d)="([^"]*)"', text))


def test_curves_have_a_band_for_each_line_and_a_mark_for_each_point(race: Comparison) -> None:
    x = curves.axis(race.contenders)
    assert x is not None and x.parameter == "writers"
    rate = BY_KEY["commits_per_s"]
    lines = list(enumerate(curves.lines(race, rate.key, x)))
    rows = {one: f"p{n}" for n, one in enumerate(race.contenders)}
    knees = {n: k for n, line in lines if (k := curves.knee(line)) is not None}
    drawn = drawings.curve(rate, x, lines, knees, page.foretold(race, rate.key, x, foretold()), rows)
    assert drawn.count('class="spread ') == 2 and drawn.count('class="run ') == 2 and drawn.count("<a ") == 6
    assert drawn.count('class="foretold ') == 2 and ">32<" in drawn and ">1000<" not in drawn
    assert drawn.count('class="knee ') == sum(k.shape == "knee" for k in knees.values())
    assert ">none<" in drawn and ">exponential+jitter<" in drawn  # beside the lines, without the parameter
    for one in race.contenders:
        assert f'href="#{rows[one]}"' in drawn


@pytest.mark.parametrize(
    ("labels", "short"),
    [
        (["backoff=none", "backoff=linear"], ["none", "linear"]),
        (["backoff=none", "interval=1s"], ["backoff=none", "interval=1s"]),
        (["rest backoff=none", "jdbc backoff=none"], ["rest backoff=none", "jdbc backoff=none"]),
        (["rest", "jdbc"], ["rest", "jdbc"]),
    ],
)
def test_names_beside_lines_leave_out_what_all_of_them_say(labels: list[str], short: list[str]) -> None:
    assert list(drawings.short(dict(enumerate(labels))).values()) == short


def test_a_sweep_of_names_is_drawn_as_bars_with_whiskers(race: Comparison) -> None:
    text = html(page.of(names(race)))
    assert curves.axis(names(race).contenders) is None
    assert 'class="column ' in text and 'class="run ' not in text and "commits a second of each point" in text


def test_two_parameters_of_names_are_drawn_in_groups() -> None:
    m = simulated(1, 2, 3).run.measures()
    runs = [point(1, m, ("layout", a), ("backoff", b)) for a in ("flat", "by-part") for b in ("none", "linear")]
    text = html(page.of(swept(*runs, seeds=(1,))))
    assert text.count(">layout=flat<") >= 2 and ">backoff=linear<" in text
    one = runs[:2]
    other = [replace(r, contender=replace(r.contender, catalog="jdbc")) for r in one]
    text = html(page.of(swept(*one, *other, seeds=(1,))))
    assert ">rest<" in text and ">jdbc<" in text and ">backoff=linear<" in text


def test_one_commit_is_taken_apart_into_first_attempts_and_retries_with_parents_hot_and_cold() -> None:
    c = Committers(2)
    for n in range(25):
        c.did(
            f"w0-{n}", 60 * n, 60 * n + 25, [attempt(parent="cold" if n % 2 else "hot", refresh_ms=50 if n % 2 else 1)]
        )
        again = attempt(wait_ms=9, refresh_ms=3)
        c.did(f"w1-{n}", 60 * n, 60 * n + 59, [attempt("refused", "cold", data_ms=7), again])
    m = c.measures()
    sweep = swept(*(point(s, m, ("writers", w)) for w in ("2", "4") for s in (1, 2, 3)))
    text = html(page.of(sweep))
    for sort in ("first, parent hot", "first, parent cold", "retry, parent hot"):
        assert sort in text, sort
    assert "Phases of a first attempt and of a retry" in text and text.count('class="part p-wait"') >= 2
    said = " ".join(sentences.findings(sweep))
    assert (
        "A retry takes 21 ms (refresh 3 ms, validate 1 ms, manifests 5 ms, metadata 4 ms, swap 8 ms) after a backoff of 9 ms"
        in said
    )
    wasted = next(s for s in sentences.findings(sweep) if s.startswith("Wasted"))
    assert "150 attempts in vain cost" in wasted and "aborted" not in wasted
    assert "A first attempt takes 19 ms if its client has read its parent before" in said


def test_writers_without_recorded_attempts_have_a_page_too() -> None:
    c = Committers(2)
    for n in range(3):
        c.did(f"w0-{n}", 50 * n, 50 * n + 20, None, tries=2)
        c.did(f"w1-{n}", 50 * n, 50 * n + 40, None)
    text = html(page.of(swept(*(point(s, c.measures(), ("writers", w)) for w in ("1", "2") for s in (1, 2, 3)))))
    assert "do not record their attempts" in text and "fewer than 20 commits" in text


OLD = Measures(True, {}, (), 60.0, 100, 40, {"insert": (40, 0, 0)}, {"commits_per_s": 5.0})


def test_files_of_earlier_versions_runs_that_failed_and_nothing_at_all_can_be_shown(tmp_path: Path) -> None:
    old = swept(*(point(s, OLD, ("writers", w)) for w in ("1", "2") for s in (1, 2, 3)))
    assert "Nobody wrote" in html(page.of(old)) and "None was counted" in html(page.of(old))
    failed = swept(point(1, None, ("writers", "1"), reason="no Java"), point(1, OLD, ("writers", "2")), seeds=(1,))
    text = write(page.of(failed, "again"), tmp_path).read_text()
    assert "no Java" in text and "1 run could not be measured" in text
    nothing = Comparison({"format": 1}, (Contender("rest", "1", (), (("writers", "1"),)),), (1,), ())
    assert "Nothing was measured" in write(page.of(nothing), tmp_path).read_text()
    assert not any("nan" in part for part in terminal(page.of(nothing)) if isinstance(part, str))


def test_the_json_has_everything(race: Comparison, tmp_path: Path) -> None:
    write(page.of(race, "icequake sweep", foretold()), tmp_path)
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert found["parameters"] == {"writers": list(WRITERS), "backoff": list(BACKOFF)}
    assert found["axis"] == {"parameter": "writers", "unit": "", "values": {"1": 1.0, "2": 2.0, "8": 8.0}}
    assert len(found["points"]) == 6 and len(found["runs"]) == 18 and len(found["predicted"]) == 11
    first = found["points"][0]
    assert first["varied"] == {"writers": "1", "backoff": "none"} and first["name"] == "writers=1 backoff=none"
    assert first["silent"] == ["few commits", "no retries"] and first["commits"]["retries"] == {"0": 30}
    rates = [line for line in found["lines"] if line["figure"] == "commits_per_s"]
    assert [line["line"] for line in rates] == ["backoff=none", "backoff=exponential+jitter"]
    for line in rates:
        assert line["x"] == [1, 2, 8] and line["knee"]["shape"] in ("grows", "knee", "flat")
        assert all(a <= b <= c for a, b, c in zip(line["low"], line["median"], line["high"], strict=True))
    again = [ContenderRun.from_json(r) for r in found["runs"]]
    assert [r.measures for r in again] == [r.measures for r in race.runs]
    assert [r.contender for r in again] == [r.contender for r in race.runs]


def test_the_page_of_a_large_sweep_stays_small(race: Comparison) -> None:
    m = next(r.measures for r in race.runs if dict(r.contender.varied) == {"writers": "8", "backoff": BACKOFF[1]})
    params = [(str(w), b) for w in (1, 2, 4, 8, 16, 30, 50) for b in ("a", "b", "c", "d", "e", "f")]
    runs = [point(s, m, ("writers", w), ("backoff", b)) for w, b in params for s in (1, 2, 3, 4, 5)]
    assert len(html(page.of(swept(*runs, seeds=(1, 2, 3, 4, 5))))) < 900_000


# --- the words --------------------------------------------------------------------------------------------------------


def along(*medians: float, parameter: str = "writers") -> tuple[Comparison, Curve]:
    """Commits a second at x = 1, 2, …, three seeds each without noise."""
    runs = [
        point(s, replace(OLD, figures={"commits_per_s": v}), (parameter, str(n)))
        for n, v in enumerate(medians, 1)
        for s in (1, 2, 3)
    ]
    c = swept(*runs)
    x = curves.axis(c.contenders)
    assert x is not None
    return c, curves.lines(c, "commits_per_s", x)[0]


@pytest.mark.parametrize(
    ("medians", "says"),
    [
        (
            (10, 20, 40),
            "Throughput still grows at writers=3, the largest value, with 40.0/s (40.0/s to 40.0/s) commits: its knee was not",
        ),
        (
            (10, 20, 20.5),
            "Throughput grows up to writers=2, with 20.0/s (20.0/s to 20.0/s) commits, and not beyond: that is the knee.",
        ),
        ((10, 10, 10), "Throughput never grows by 10 % or more from writers=1 on, where it is 10.0/s"),
        ((10, 30, 15), "It then falls by 50.0 % to 15.0/s at writers=3."),
        ((10, 20, 20), "At writers=3 that is 66.7 % of linear scaling from writers=1."),
    ],
)
def test_the_knee_is_said_in_words(medians: tuple[float, ...], says: str) -> None:
    c, _ = along(*medians)
    assert says in sentences.findings(c)[0]


def test_linear_scaling_is_said_of_writers_only() -> None:
    assert "linear" not in " ".join(sentences.findings(along(10, 20, 20, parameter="interval")[0]))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (
            curves.Ceiling("idle", 0.6, None),
            "The ceiling is the workload: writers have nothing to do in 60.0 % of their time.",
        ),
        (
            curves.Ceiling("pointer", 0.9, 50.0),
            "the table's one pointer: the attempts that won cover 90.0 % of the time",
        ),
        (
            curves.Ceiling("wait", 0.7, 50.0),
            "The ceiling is backoff: 70.0 % of the writers' time goes there at the right end.",
        ),
        (curves.Ceiling("swap", 0.7, 50.0), "at most 50.0 commits a second to one table"),
    ],
)
def test_the_ceiling_is_named(what: curves.Ceiling, says: str) -> None:
    assert says in sentences.ceiling(what)


def test_retries_are_said_as_share_mean_and_long_tail(race: Comparison) -> None:
    one, busy = race.contenders[0], race.contenders[-1]
    assert sentences.retries(race, one) == "none of 30 commits retried"
    said = sentences.retries(race, busy)
    assert re.fullmatch(
        r"\d+\.\d % of the commits retried, \d+\.\d\d retries a commit, \d+\.\d\d for each that retried, .* needed 8 or more",
        said,
    )


def test_points_that_say_nothing_about_conflicts_are_listed_with_the_reason(race: Comparison) -> None:
    said = sentences.silences(race)
    assert any(
        "Too idle to say. writers=1 backoff=none; writers=1 backoff=exponential+jitter: no commit needed a retry" in s
        for s in said
    )
    calm = swept(*(point(s, simulated(s, 1, 30).run.measures(), ("writers", w)) for w in ("1", "2") for s in (1, 2, 3)))
    assert "Too idle to say. Every point: no commit needed a retry" in " ".join(sentences.silences(calm))


def test_predictions_are_said_with_their_error() -> None:
    said = sentences.predictions(foretold())
    assert (
        said[0]
        == "Predicted commits a second: off by 5.0 % at the median of 6 points, and by +25.0 % at writers=8 backoff=none."
    )
    assert said[1] == "5 points are predicted only: nothing measured stands beside."
    assert sentences.predictions([]) == []


def test_all_predictions_are_in_the_table_beside_what_was_measured(race: Comparison) -> None:
    text = html(page.of(race, None, foretold()))
    assert "writers=1000 backoff=none" in text and "writers=8 backoff=none regions=2" in text
    assert text.count("<small>not measured</small>") == 5 and text.count("<small>+25.0 %</small>") == 2
    assert 'id="predicted"' not in html(page.of(race))
    far = replace(foretold()[0], reason=f"swap is slower {HOSTILE}")
    text = html(page.of(race, None, [far]))
    assert "swap is slower" in text and "<img" not in text


def test_a_sweep_of_names_is_ranked_and_held_against_its_first_point(race: Comparison) -> None:
    said = sentences.findings(names(race))
    assert said[0].startswith("Commits a second, the best first: backoff=")
    assert any(s.startswith("backoff=exponential+jitter against backoff=none, by more than noise.") for s in said)
    assert "Two contenders differ by more than noise" in said[-1]
    limits = next(s for s in said if s.startswith("What limits the points, and its share of the time: "))
    assert len(re.findall(r"backoff=(?:none|exponential\+jitter) \d+\.\d %", limits)) == 2


def enough(measures: Measures, commits: int = 100) -> Measures:
    """The measures of a run that made so many commits."""
    assert measures.attempts is not None
    return replace(measures, attempts=replace(measures.attempts, retries={0: commits}))


def of_points(**points: tuple[float, ...]) -> Comparison:
    """A sweep of a policy: the throughput of each run of a point."""
    runs = []
    for backoff, values in points.items():
        for seed, value in enumerate(values):
            measured = enough(simulated(1, 2, 4).run.measures())
            figures = {**measured.figures, "commits_per_s": value, "aborted": 0.1, "write_p95_ms": 100.0}
            runs.append(point(seed, replace(measured, figures=figures), ("writers", "2"), ("backoff", backoff)))
    return swept(*runs)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (
            {"linear": (9.0, 9.5, 9.2), "none": (5.0, 5.5, 5.2)},
            "Choose backoff=linear: best in commits a second, by more than noise, and worse in nothing that decides. "
            "Out: backoff=none (worse than backoff=linear in commits a second). In Iceberg's words: no property of a table: "
            "a program that commits by Iceberg's API waits so itself (linear).",
        ),
        (
            {"linear": (9.0, 5.1, 9.2), "none": (5.0, 5.5, 5.2)},
            "No choice: noise. In failed writes, commits a second, the p95 of writes the ranges of backoff=linear, backoff=none overlap. "
            "At the spread seen, a comparison of means needs at least 7 seeds of each point to tell any two of them apart "
            "(in commits a second; error 5 %, power 80 %). Longer runs (--time) can narrow the ranges, by which a point is chosen here; "
            "more seeds only widen them.",
        ),
        (
            {"linear": (9.0, 9.0, 9.0), "none": (9.0, 9.0, 9.0)},
            "No choice: noise. In failed writes, commits a second, the p95 of writes the ranges of backoff=linear, backoff=none overlap. "
            "Their means are equal, which no number of seeds tells apart. Longer runs (--time) can narrow the ranges, by which a point is "
            "chosen here; more seeds only widen them.",
        ),
        (
            {"linear": (9.0, 9.5), "none": (5.0, 5.5)},
            "No choice: noise. With fewer than 3 runs of a point nothing can be told from it.",
        ),
        ({"linear": (9.0, 9.5, 9.2)}, "No choice: only the load was varied, and no setting."),
    ],
)
def test_a_sweep_ends_with_the_point_to_choose_or_with_why_there_is_none(
    points: dict[str, tuple[float, ...]], says: str
) -> None:
    c = of_points(**points)
    assert choice.choice(c) == [says]
    told = [part for part in terminal(page.of(c)) if isinstance(part, str)]
    assert " ".join(" ".join(told).split()).endswith(says)
    assert page.of(c).sections[0].title == "Which to choose"


def without(c: Comparison, figure: str, *seeds: int) -> Comparison:
    """The sweep, where the runs of some seeds have no such figure, as those without writes."""
    runs = []
    for r in c.runs:
        measures = r.measures
        if measures is not None and r.seed in seeds:
            kept = {k: v for k, v in measures.figures.items() if k != figure}
            r = replace(r, measures=replace(measures, figures=kept))
        runs.append(r)
    return replace(c, runs=tuple(runs))


@pytest.mark.parametrize("lacking", [(0, 1, 2), (1, 2)])
def test_a_figure_that_points_lack_or_have_only_once_says_nothing_of_seeds(lacking: tuple[int, ...]) -> None:
    c = of_points(linear=(9.0, 5.1, 9.2), none=(5.0, 5.5, 5.2))
    (said,) = choice.choice(without(c, "write_p95_ms", *lacking))
    assert "at least 7 seeds of each point" in said and "in commits a second" in said
    (none,) = choice.choice(without(without(c, "commits_per_s", *lacking), "aborted", *lacking))
    assert "overlap. Longer runs" in none


def test_the_point_to_choose_is_marked_in_the_table_of_the_terminal_and_of_the_page() -> None:
    c = of_points(linear=(9.0, 9.5, 9.2), none=(5.0, 5.5, 5.2))
    shown = blocks.glance(c)
    (column,) = [n for n, x in enumerate(shown.columns) if x.terminal == ""]
    assert [cell(row.cells[column]).text for row in shown.rows] == ["← choose", ""]
    noisy = of_points(linear=(9.0, 5.1, 9.2), none=(5.0, 5.5, 5.2))
    assert all(x.terminal != "" for x in blocks.glance(noisy).columns)


def test_numbers_of_all_runs_together_are_not_taken_for_the_tables_medians(race: Comparison) -> None:
    said = [s for s in sentences.findings(race) if s.startswith("Retries")]
    assert said and all(s.startswith("Retries, all runs together (the table has the median of the runs)") for s in said)


def of_retries(**points: tuple[float, float, float]) -> Comparison:
    """A sweep of retries: of each point the share of writes that failed, commits a second and the p95, of three runs that hardly differ."""
    runs = []
    for retries, (failed, commits, p95) in points.items():
        for seed, share in enumerate((1.0, 1.01, 1.02)):
            measured = enough(simulated(1, 2, 4).run.measures())
            found = {"commits_per_s": commits * share, "aborted": failed * share, "write_p95_ms": p95 * share}
            varied = (("writers", "16"), ("num-retries", retries.removeprefix("r")))
            runs.append(point(seed, replace(measured, figures={**measured.figures, **found}), *varied))
    return swept(*runs)


@pytest.mark.parametrize(
    ("points", "says"),
    [
        (
            {"r1": (0.5, 5.0, 900.0), "r4": (0.069, 5.0, 2800.0), "r8": (0.0, 5.0, 15000.0)},
            "Choose num-retries=8: best in failed writes, by more than noise; failed writes come before the others, "
            "at the price of the p95 of writes 909 ms (900 ms to 918 ms) → 15.2 s (15 s to 15.3 s). "
            "Out: num-retries=1 (fails 50.5 % (50.0 % to 51.0 %) of its writes); num-retries=4 (fails 7.0 % (6.9 % to 7.0 %) of its writes).",
        ),
        (
            {"r8": (0.0, 5.0, 900.0), "r16": (0.0, 5.0, 2800.0), "r32": (0.0, 5.0, 950.0)},
            "Choose num-retries=8: best in the p95 of writes, by more than noise, and worse in nothing that decides. "
            "Out: num-retries=16 (worse than num-retries=8 in the p95 of writes); "
            "num-retries=32 (worse than num-retries=8 in the p95 of writes).",
        ),
        (
            {"r8": (0.0, 5.0, 900.0), "r16": (0.0, 9.0, 2800.0)},
            "No choice: num-retries=8 is worse than num-retries=16 in commits a second and better in another figure; "
            "num-retries=16 is worse than num-retries=8 in the p95 of writes and better in another figure.",
        ),
    ],
)
def test_failed_writes_come_before_speed_and_a_point_that_is_out_says_why(
    points: dict[str, tuple[float, float, float]], says: str
) -> None:
    assert choice.choice(of_retries(**points)) == [says]


def test_without_a_choice_what_all_that_are_left_have_is_said_as_statements() -> None:
    """Both isolation levels are alike with copy-on-write, and merge-on-read fails more of its writes with either."""
    runs = []
    for isolation, mode in product(("serializable", "snapshot"), ("copy-on-write", "merge-on-read")):
        for seed, share in enumerate((1.0, 1.2, 1.1) if isolation == "snapshot" else (1.1, 1.0, 1.2)):
            measured = enough(simulated(1, 2, 4).run.measures())
            failed = 0.5 if mode == "merge-on-read" else 0.0
            found = {"commits_per_s": share, "aborted": failed * share, "write_p95_ms": 90 * share}
            varied = (("isolation", isolation), ("mode", mode))
            runs.append(point(seed, replace(measured, figures={**measured.figures, **found}), *varied))
    tables = {"tables": [{"isolation": "serializable", "format_version": 2}], "operations": {"update": 1}}
    (said,) = choice.choice(swept(*runs, workload=tables))
    assert said.startswith("No choice: noise. ") and said.count("TBLPROPERTIES ('") == 2, said
    assert said.endswith(
        " What is not out has in common, in Iceberg's words: ALTER TABLE t SET TBLPROPERTIES ('write.update.mode'='copy-on-write'). "
        "All points had, too: ALTER TABLE t SET TBLPROPERTIES ('format-version'='2'). "
        "For a new table write the same TBLPROPERTIES (…) at the end of its CREATE TABLE."
    ), said


def test_a_point_with_an_anomaly_is_out_whatever_else_it_does() -> None:
    c = of_points(linear=(9.0, 9.5, 9.2), none=(5.0, 5.5, 5.2), wild=(50.0, 50.0, 50.0))
    runs = [
        replace(r, measures=replace(r.measures, valid=False, anomalies={"undelete": 1}))
        if "wild" in str(r.contender)
        else r
        for r in c.runs
    ]
    (said,) = choice.choice(replace(c, runs=tuple(runs)))
    assert said.startswith("Choose backoff=linear: ") and "Out: backoff=wild (3 undelete); backoff=none (" in said


def test_the_chosen_point_is_said_in_icebergs_words_and_on_how_few_commits_it_stands() -> None:
    c = of_points(linear=(9.0, 9.5, 9.2), none=(5.0, 5.5, 5.2))
    varied = {"linear": "own-partition", "none": "one-partition"}
    runs = []
    for r in c.runs:
        assert r.measures is not None
        layout = varied[dict(r.contender.varied)["backoff"]]
        kept = enough(r.measures, 19) if layout == "own-partition" else r.measures
        at = (("writers", "2"), ("layout", layout), ("mode", "copy-on-write"))
        runs.append(replace(r, contender=replace(r.contender, varied=at), measures=kept))
    properties = {"commit.retry.num-retries": "20"}
    spec: dict[str, Any] = {
        "workload": "race",
        "tables": [{"name": "t", "mode": "merge-on-read", "properties": properties}],
    }
    spec["operations"] = {"insert": {"weight": 2}, "update-counter": 2}
    c = swept(*runs, workload=spec)
    (said,) = choice.choice(c, lambda time: f"icequake sweep race --time {time}")
    assert said.startswith("Likely layout=own-partition: ")
    assert list(choice.chosen(c).values()) == ["likely"]
    (short,) = choice.in_short(c)
    assert said.startswith(short) and "Out:" not in short
    meant, _, alike = said.partition(" All points had, too: ")
    assert (
        "In Iceberg's words: CREATE TABLE … PARTITIONED BY (writer), where the column writer says whose row it is"
        in meant
    )
    assert "ALTER TABLE t ADD PARTITION FIELD writer (files that it has keep their partition" in meant
    assert "write.update.mode" not in meant, "all points have it"
    assert alike.startswith(
        "ALTER TABLE t SET TBLPROPERTIES ('write.update.mode'='copy-on-write'); "
        "ALTER TABLE t SET TBLPROPERTIES ('commit.retry.num-retries'='20')."
    ), "the sweep's value, not the file's, and of the one command that ran"
    lasted = max(m.seconds for x in c.contenders for m in c.measured(x))
    confirms = re.search(r" Only likely: layout=own-partition: fewer than 20 commits a run\. Confirm with (.*)$", said)
    assert confirms and (time := re.fullmatch(r"icequake sweep race --time (\d+)s", confirms[1]))
    assert int(time[1]) > lasted * 20 / 19


def test_a_choice_says_what_is_worse_within_noise() -> None:
    c = of_points(linear=(9.0, 9.5, 9.2), none=(5.0, 5.5, 5.2))
    slow = {0: 90.0, 1: 300.0, 2: 310.0}
    runs = [
        replace(r, measures=replace(r.measures, figures={**r.measures.figures, "write_p95_ms": slow[r.seed]}))
        if r.measures is not None and "linear" in str(r.contender)
        else r
        for r in c.runs
    ]
    (said,) = choice.choice(replace(c, runs=tuple(runs)))
    assert "Choose backoff=linear" in said and " Worse, but within noise: the p95 of writes 300 ms (" in said
    assert "within noise" not in choice.choice(c)[0]


def test_a_sweep_with_too_few_seeds_ranks_nothing() -> None:
    two, three = (
        {"linear": (9.0, 9.5, 9.2)[:n], "none": (5.0, 5.5, 5.2)[:n], "decorrelated": (7.0, 7.5, 7.2)[:n]}
        for n in (2, 3)
    )
    said = sentences.findings(of_points(**two))
    order = [re.findall(r"backoff=(\w+)", s) for s in said if s.startswith("Commits a second")]
    assert order == [["linear", "none", "decorrelated"]] and not any("best" in s or "lowest" in s for s in said)
    assert "in no order of worth, which fewer than 3 runs of a point do not tell" in said[0]
    ranked = sentences.findings(of_points(**three))
    assert (
        re.findall(r"backoff=(\w+)", ranked[0]) == ["linear", "decorrelated", "none"] and "the best first" in ranked[0]
    )


def test_a_choice_is_made_at_each_load(race: Comparison) -> None:
    said = choice.choice(race)
    assert [s.partition(": ")[0] for s in said] == [f"writers={w}" for w in WRITERS]
    assert all(s.partition(": ")[2].startswith(("choose backoff=", "likely backoff=", "no choice: ")) for s in said)


def test_what_was_not_tested_follows_from_the_runs(race: Comparison) -> None:
    said = " ".join(sentences.untested(race))
    for part in (
        "each point ran 3 times, each time with another seed and for",
        "writers 1, 2, 8; backoff none, exponential+jitter",
        "none was injected",
        "Iceberg's own client",
    ):
        assert part in said, part
    assert "at the same time" in " ".join(sentences.untested(replace(race, header={**race.header, "parallel": 2})))


# --- the terminal -----------------------------------------------------------------------------------------------------


def printed(parts: Iterable[object]) -> str:
    """The tables of what a terminal shows."""
    console = Console(width=150, record=True)
    for part in parts:
        if isinstance(part, Table):
            console.print(part)
    return console.export_text()


def test_the_terminal_has_a_row_for_each_point_and_fits(race: Comparison) -> None:
    parts = terminal(page.of(race, None, foretold()))
    text = printed(parts)
    assert len(text.rstrip().splitlines()) == 7 and "exponential+jitter" in text and "✓ valid" in text
    lines = [part for part in parts if isinstance(part, str)]
    assert all(len(line) <= 104 for line in lines) and "  Not tested:" in lines


def test_points_of_several_catalogs_say_theirs(race: Comparison) -> None:
    other = tuple(replace(r, contender=replace(r.contender, catalog="jdbc")) for r in race.runs)
    both = swept(*race.runs, *other)
    assert "jdbc" in printed(terminal(page.of(both)))
    x = curves.axis(both.contenders)
    assert x is not None
    assert [line.label for line in curves.lines(both, "commits_per_s", x)] == [
        "rest backoff=none", "rest backoff=exponential+jitter", "jdbc backoff=none", "jdbc backoff=exponential+jitter",
    ]  # fmt: skip


def test_predictions_of_several_catalogs_stand_beside_their_own_lines(race: Comparison) -> None:
    other = tuple(replace(r, contender=replace(r.contender, catalog="jdbc")) for r in race.runs)
    both = swept(*race.runs, *other)
    x = curves.axis(both.contenders)
    assert x is not None
    predicted = [
        Predicted((("catalog", name), ("writers", w), ("backoff", "none")), {"commits_per_s": 7.0}, True, {})
        for name in ("rest", "jdbc")
        for w in WRITERS
    ]
    labels = [line.label for line in curves.lines(both, "commits_per_s", x)]
    told = page.foretold(both, "commits_per_s", x, predicted)
    assert [(labels[t.line], [a for a, _ in t.points]) for t in told] == [
        ("rest backoff=none", [1, 2, 8]),
        ("jdbc backoff=none", [1, 2, 8]),
    ]
    assert html(page.of(both, None, predicted)).count("<small>measured ") == 6


def test_what_a_sweep_varies_is_kept_with_its_runs(race: Comparison, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join([json.dumps(race.header), *(json.dumps(r.to_json()) for r in race.runs), ""]))
    _, found = compare.read(path)
    assert found == list(race.runs)
    assert json.loads(path.read_text().splitlines()[1])["varied"] == {"writers": "1", "backoff": "none"}


def test_every_figure_of_the_glance_and_of_the_plots_exists() -> None:
    known = {f.key for f in FIGURES}
    assert {*blocks.SWEPT_FIGURES} <= known and set(blocks.PLOTTED) <= known and set(sentences.COMPARED) <= known
