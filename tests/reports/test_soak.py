"""A night's page, lines and JUnit file, and the trend: made of drawn runs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.costs.measures import BY_KEY
from checkers.judge.accepted import NOTHING_ACCEPTED, AcceptedAnomalies
from checkers.judge.repairsteps import Repair, RepairStep
from checkers.judge.runfolder import Results
from checkers.nights import finds, record, trend
from checkers.nights.finds import Became, Find
from checkers.nights.happened import Happened
from checkers.nights.night import Night
from checkers.nights.record import AnomalyCount, Ended, NightRun, Sample
from checkers.verdict import Anomaly, Validity, Verdict
from reports.drawing.page import Cards, Fold, Page, Pairs, Table, TableCell, Text
from reports.drawing.render import html, junit, terminal
from reports.soak import drawings, kinds, page, places, words
from reports.soak.banner import banner
from tests.reports.test_report import HOSTILE
from tests.reports.test_summary import validate
from tests.support.soaks import SUITE
from workloads.file import suite as suites
from workloads.file.anomalies import entries_of
from workloads.file.scenario import LIBRARY
from workloads.file.suite import Cell, Shrinking, Suite

TINY: Suite = suites.parse(SUITE)[0]
CELLS = tuple(suites.cells_of(TINY, "1.12.0"))
AGAIN = "icequake soak tiny --seed 1"


def line(
    cell: Cell,
    ended: Ended = "valid",
    number: int | None = 0,
    used: float = 60.0,
    anomalies: dict[str, int] | None = None,
    commits_per_s: float | None = 2.0,
    retried: float | None = 0.25,
    **more: object,
) -> NightRun:
    found = NightRun(
        cell,
        number,
        None if number is None else 7,
        f"2026-11-22T18:{int(used) // 60 % 60:02}:00",
        ended,
        anomalies or {},
        operations=100,
        commits=50,
        figures={"commits_per_s": commits_per_s, "retried": retried},
        seconds=50.0,
        took=55.0,
        rss=10**8,
        command=f"icequake run {cell.workload} --seed 7",
        used=used,
    )
    return replace(found, **more)  # type: ignore[arg-type]


def a_night(folder: Path, *lines: NightRun, **more: object) -> Night:
    found = Night(folder, TINY, 1, CELLS, tuple(lines), (Sample(10, 10**8, 3 * 10**9, 10**6, 5 * 10**10),))
    return replace(found, **more)  # type: ignore[arg-type]


REST = next(c for c in CELLS if c.name == "quick/rest/lost-acks/1.12.0/2")
JDBC = next(c for c in CELLS if c.name == "quick/jdbc/lost-acks/1.12.0/2")
NEW = line(REST, "invalid", anomalies={"lost-commit": 2})
OLD = line(JDBC, "invalid", anomalies={"lost-commit": 1})
STACK = line(JDBC, "error", None, reason="the stack of jdbc 1.12.0 does not come up: PostgreSQL died", command=None)
UNDECIDED = "Undecided: not every run has a verdict, and nothing new was found"
GIVEN_UP = {"given_up": {JDBC.stack: "the stack of jdbc 1.12.0 does not come up: PostgreSQL died"}}


@pytest.mark.parametrize(
    ("lines", "more", "verdict", "code", "headline"),
    [
        ([line(REST)], {}, True, 0, "Passed: nothing was lost in 1 run"),
        (
            [line(REST), OLD],
            {},
            True,
            0,
            "Known defects broke 1 of 2 runs: 1 acknowledged commit lost",
        ),
        ([NEW, OLD], {}, False, 1, "Failed: new harm in 1 of 2 runs: 2 acknowledged commits lost"),
        (
            [NEW],
            {"stopped": "the disk is full"},
            False,
            1,
            "Failed: new harm in 1 of 1 run: 2 acknowledged commits lost",
        ),
        (
            [line(REST), line(JDBC, "unknown", reason="?")],
            {},
            "unknown",
            2,
            UNDECIDED,
        ),
        ([line(REST), STACK], {}, "unknown", 2, UNDECIDED),
        ([line(REST), STACK], GIVEN_UP, "unknown", 255, "Not done: the night could not do what it was to do"),
        (
            [line(REST)],
            {"stopped": "the disk is full"},
            True,
            255,
            "Not done: the night could not do what it was to do",
        ),
        ([line(REST, "incomplete"), line(REST)], {}, True, 0, "Passed: nothing was lost in 1 run"),
        ([STACK], {}, "unknown", 255, "Not done: no run"),
        ([], {}, "unknown", 255, "Not done: no run"),
    ],
)
def test_the_verdict_of_a_night(
    tmp_path: Path, lines: list[NightRun], more: dict[str, object], verdict: Validity, code: int, headline: str
) -> None:
    night = a_night(tmp_path, *lines, **more)
    assert (night.verdict, night.code, banner(night).headline) == (verdict, code, headline)


def test_a_night_in_which_a_combination_made_too_few_operations_is_not_green_but_could_not_be_judged(
    tmp_path: Path,
) -> None:
    asks = {"suite": TINY.model_copy(update={"at_least": 100}), "cells": (REST, JDBC)}
    enough, too_few = replace(line(REST), operations=60), replace(line(JDBC), operations=99)
    night = a_night(tmp_path, enough, enough, too_few, **asks)
    assert (night.verdict, night.code, dict(night.too_few)) == ("unknown", 2, {JDBC: 99})
    made = page.of(night, AGAIN)
    assert made.banner.headline == (
        "Could not judge: 1 of 2 combinations made fewer than 100 operations, and nothing new was found"
    )
    assert made.banner.sentence == (
        "3 runs of all 2 combinations in 60 s. Too little was tested of quick on jdbc, lost-acks (99 operations)."
    )
    said = (
        "Each combination must have made 100 operations (at_least): quick on jdbc, lost-acks had 99. "
        "Give a longer --for, or more --runs."
    )
    assert said in words.notes(night) and said in " ".join(
        " ".join(part for part in terminal(made) if isinstance(part, str)).split()
    )
    cases = {c.name: (c.outcome, c.message) for c in (made.suite.cases if made.suite else ())}
    assert cases[JDBC.name] == ("skipped", "could not judge: 99 operations of at least 100")
    enough_of_all = a_night(tmp_path, enough, enough, replace(too_few, operations=100), **asks)
    assert (enough_of_all.verdict, enough_of_all.code) == (True, 0)
    assert dict(a_night(tmp_path, enough, enough, **asks).too_few) == {JDBC: 0}, "one without a run, too"
    assert a_night(tmp_path, replace(NEW, operations=1), **asks).code == 1, "a new anomaly stays one"
    lost = a_night(tmp_path, replace(SEEN_AGAIN, operations=9), enough, enough, **asks)
    assert "Known defects broke 1 of 3 runs: 1 table that nobody can read." in banner(lost).sentence
    assert "could not" in banner(lost).headline.lower() and lost.code == 2


def test_a_failure_is_one_line_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    night = a_night(tmp_path, NEW, OLD, STACK, line(REST), line(REST, "unknown", reason="reads: late"))
    assert (
        words.line_of(night, NEW)
        == "✕ quick/rest/lost-acks/1.12.0/2 seed 7: lost-commit ×2; icequake run quick --seed 7"
    )
    assert (
        words.line_of(night, OLD)
        == "! quick/jdbc/lost-acks/1.12.0/2 seed 7: lost-commit (known: iceberg#10140); icequake run quick --seed 7"
    )
    assert words.line_of(night, night.lines[3]) is None
    assert "\n" not in (text := words.line_of(night, STACK) or "") and text.endswith(
        "does not come up: PostgreSQL died"
    )
    assert words.line_of(night, night.lines[4]) == "? quick/rest/lost-acks/1.12.0/2 seed 7: unknown: reads: late"


def test_the_line_of_a_failure_says_what_happened_to_data_and_who_did_it(tmp_path: Path) -> None:
    told = replace(NEW, headline=("2 acknowledged commits lost",), who="the catalog server 2")
    assert words.line_of(a_night(tmp_path, told), told) == (
        "✕ quick/rest/lost-acks/1.12.0/2 seed 7: lost-commit ×2; 2 acknowledged commits lost; who: the catalog server 2; "
        "icequake run quick --seed 7"
    )


LOST = Happened(
    "lost-commit",
    "Spark 4.1.4, Iceberg 1.12.0",
    {"lost-commit": 2},
    ("lost-commit",),
    ("orders",),
    "Use a catalog that looks first.",
    card=2,
    now=(RepairStep("Run {ops} again: {statements} on {card}.", Repair.RUN_AGAIN, ("w0-1",)),),
    how="sent its commit again",
    steps="Insert w0-1: acknowledged, but never in the table's history.",
    by="Spark",
)
KNOWN_LINK = "https://github.com/apache/iceberg/pull/10140"
UNREAD = Happened(
    "false-failure",
    "the catalog (jdbc)",
    {"false-failure": 1, "unreadable": 1},
    ("false-failure", "missing-file"),
    ("orders",),
    "Let one writer alone commit.",
    ("jdbc-unreadable",),
    KNOWN_LINK,
    card=1,
)
STALE = Happened("stale-read", "the catalog (jdbc)", {"stale-read": 1}, ("stale-read",), link=KNOWN_LINK)
TOLD = replace(NEW, happened=(LOST,), folder="runs/1", headline=("2 acknowledged commits lost",), who="Spark 2")
SEEN_AGAIN = replace(
    OLD,
    anomalies={"false-failure": 1, "missing-file": 2},
    seen=tuple(AnomalyCount(n, "commits", "orders", known=KNOWN_LINK) for n in UNREAD.names),
    happened=(UNREAD,),
    folder="runs/2",
    used=70.0,
)


def kept(folder: Path, *lines: NightRun) -> None:
    """The folders of runs with their pages."""
    for x in lines:
        assert x.folder is not None
        (folder / x.folder).mkdir(parents=True)
        (folder / x.folder / "report.html").write_text("")


def section(text: str, anchor: str) -> str:
    """The HTML of a section."""
    begin = text.index(f'id="{anchor}"')
    return text[begin : text.find("<section", begin)]


def test_a_table_that_is_lost_in_a_known_way_is_as_red_as_in_a_new_one_and_the_night_passes(tmp_path: Path) -> None:
    night = a_night(tmp_path, SEEN_AGAIN, line(REST))
    said = banner(night)
    assert (said.status, night.code) == ("harmed", 0)
    assert said.headline == "Known defects broke 1 of 2 runs: 1 table that nobody can read"
    assert said.sentence == (
        "Nothing is new, so the night passes; what is known does harm none the less. Who did it: the catalog (jdbc) in 1 run. "
        "2 runs of 2 of 8 combinations in 70 s."
    )


@pytest.mark.parametrize(
    ("happened", "status"),
    [((STALE,), "known"), ((STALE, UNREAD), "harmed"), ((Happened("nobody-knows", link=KNOWN_LINK),), "harmed")],
)
def test_the_colour_of_the_answer_is_that_of_the_harm(
    tmp_path: Path, happened: tuple[Happened, ...], status: str
) -> None:
    """Broken promises that left the rows right are not as bad; what nobody explains might be."""
    assert banner(a_night(tmp_path, replace(SEEN_AGAIN, happened=happened))).status == status


def test_what_is_new_is_said_beside_what_is_known(tmp_path: Path) -> None:
    night = a_night(tmp_path, TOLD, SEEN_AGAIN)
    said = banner(night)
    assert (said.status, said.headline) == (
        "invalid",
        "Failed: new harm in 1 of 2 runs: 2 acknowledged commits lost",
    )
    assert said.sentence.startswith(
        "New is what no known defect explains; it fails the night. Known besides, in 1 run, which does not fail the night: "
        "1 table that nobody can read. Who did it: "
    )


def steps_of(made: Page) -> list[tuple[str, str]]:
    """What the answer says of each kind, folded or not."""
    every = (b for told in made.told for b in (told.blocks if isinstance(told, Fold) else [told]))
    return [row for b in every if isinstance(b, Pairs) for row in b.rows]


def test_the_answer_lists_each_kind_with_its_card_the_new_ones_first(tmp_path: Path) -> None:
    told = page.of(a_night(tmp_path, SEEN_AGAIN, TOLD), AGAIN).told
    table = next(b for b in told if isinstance(b, Table))
    plain = plain_rows(table)
    assert plain == [
        ["1. new", "2 acknowledged commits lost", "Spark", "quick on rest, lost-acks", "nowhere yet", "1"],
        [
            "2. known",
            "1 table that nobody can read",
            "the catalog (jdbc)",
            "quick on jdbc, lost-acks",
            "iceberg#10140",
            "1",
        ],
    ], "the name of the only table says nothing"
    assert f'href="{KNOWN_LINK}"' in str(table.rows[1].cells[4])
    new = next(b for b in page.of(a_night(tmp_path, TOLD), AGAIN).told if isinstance(b, Table))
    assert plain_rows(new) == [[*plain[0][:4], "1"]], "what is new is discussed nowhere"
    assert ['href="#kind-1"' in str(row.cells[1]) for row in table.rows] == [True, False]


def plain_rows(table: Table) -> list[list[str]]:
    """The text of a table's cells."""
    return [[re.sub("<[^>]*>", "", str(c)) for c in row.cells] for row in table.rows]


def test_the_answer_names_the_tables_where_there_are_several_and_says_that_a_run_can_be_on_several_lines(
    tmp_path: Path,
) -> None:
    both = replace(TOLD, happened=(LOST, replace(UNREAD, tables=("people",), link=KNOWN_LINK)))
    told = page.of(a_night(tmp_path, both), AGAIN).told
    table = next(b for b in told if isinstance(b, Table))
    titles = [str(b.paragraphs) for b in told if isinstance(b, Text) and "<b>Do now" in str(b.paragraphs)]
    assert len(titles) == 1 and "each number is of another table, unless it says that it is the same" in titles[0]
    assert [row[4:] for row in plain_rows(table)] == [["orders", "nowhere yet", "1"], ["people", "iceberg#10140", "1"]]
    notes = [str(text) for b in told if isinstance(b, Text) for text in b.paragraphs]
    assert "A run can be on several lines; together they are 1 run." in notes
    alone = page.of(a_night(tmp_path, TOLD, SEEN_AGAIN), AGAIN).told
    assert not any("several lines" in str(text) for b in alone if isinstance(b, Text) for text in b.paragraphs)


def test_before_the_steps_stands_whose_tables_are_broken_and_what_the_name_of_an_operation_says(tmp_path: Path) -> None:
    named = replace(TOLD, happened=(replace(LOST, statements=(("w1-5", "INSERT INTO orders VALUES (7)"),)),))
    told = [str(b.paragraphs) if isinstance(b, Text) else b for b in page.of(a_night(tmp_path, named), AGAIN).told]
    steps = next(n for n, b in enumerate(told) if isinstance(b, Pairs))
    before = "".join(b for b in told[:steps] if isinstance(b, str))
    assert "No table of yours is broken" in before and "w1-5 is operation 5 of writer 1" in before


def test_runs_name_the_discussion_of_what_is_known(tmp_path: Path) -> None:
    text = section(html(page.of(a_night(tmp_path, SEEN_AGAIN), AGAIN)), "seen")
    assert f'href="{KNOWN_LINK}"' in text and "<th>table</th>" not in text


def test_what_to_do_now_is_apart_from_what_avoids_it_and_names_the_one_who_did_it(tmp_path: Path) -> None:
    kept(tmp_path, TOLD)
    told = page.of(a_night(tmp_path, TOLD), AGAIN, program=kinds.Program("/opt/icequake")).told
    said = dict(next(b for b in told if isinstance(b, Pairs)).rows)
    assert "<b>1. 2 acknowledged commits lost: Spark sent its commit again.</b>" in html(
        page.of(a_night(tmp_path, TOLD), AGAIN)
    )
    assert said["do now"].startswith("Run w0-1 again: its statement is on the run&#39;s card.")
    assert 'href="runs/1/report.html#anomaly-2"' in said["do now"] and "shrink" not in said["do now"]
    assert re.findall(r"<code>/opt/icequake (\w+)", said["report it"]) == ["shrink", "export"]
    assert said["avoid it"] == "Use a catalog that looks first."


def test_the_answer_of_a_night_has_statements_and_what_has_become_of_a_known_defect(tmp_path: Path) -> None:
    some = (("w0-1", "INSERT INTO orders VALUES (7)"), ("w0-2", ""))
    twice = [replace(x, happened=(replace(LOST, statements=some, concerned=4),)) for x in (TOLD, replace(TOLD, seed=8))]
    pairs = steps_of(page.of(a_night(tmp_path, *twice, SEEN_AGAIN), AGAIN))
    said = [text for name, text in pairs if name == "lost"]
    whole = "INSERT INTO orders VALUES (7)"
    more = "(in the run of seed 7)</li><li>and 7 more, on the run&#39;s cards</li></ul>"
    assert said == [f'<ul><li>w0-1: <code title="{whole}">{whole}</code> {more}']
    (known,) = (text for name, text in pairs if name == "known")
    assert "iceberg#10140</a> (merged; it brought the retry in, and no report of this was found). Affected: " in known


def test_the_answer_tells_one_run_of_a_kind_and_leads_to_the_others(tmp_path: Path) -> None:
    """What several stories of a run say is on all of its cards."""
    kept(tmp_path, TOLD)
    several = replace(TOLD, happened=(replace(LOST, card=0),))
    (now,) = (
        x
        for n, x in next(
            b for b in page.of(a_night(tmp_path, several, replace(several, seed=8)), AGAIN).told if isinstance(b, Pairs)
        ).rows
        if n == "do now"
    )
    assert 'href="runs/1/report.html#anomalies">Open the run&#39;s cards</a>' in now and "seed 7" in now
    assert "seed 8" not in now and '<a href="#kind-1">and in 1 more run</a>' in now


def test_what_to_do_is_said_of_the_first_kinds_and_of_the_gravest(tmp_path: Path) -> None:
    made = page.of(a_night(tmp_path, SEEN_AGAIN, replace(TOLD, happened=(LOST, replace(STALE, link=None)))), AGAIN)
    pairs = steps_of(made)
    assert [said for name, said in pairs if name == "avoid it"] == [
        "Use a catalog that looks first.",
        "No remedy is known; keep the run, and make it small by the command on its card.",
        "Let one writer alone commit.",
    ]


def test_the_answer_has_the_steps_of_each_kind_those_of_the_first_and_of_the_gravest_open(tmp_path: Path) -> None:
    mild = replace(STALE, link=None, now=LOST.now, tables=("people",))
    made = page.of(a_night(tmp_path, SEEN_AGAIN, replace(TOLD, happened=(LOST, mild))), AGAIN)
    now = [said for name, said in steps_of(made) if name == "do now"]
    assert [x.startswith("Run w0-1 again: ") for x in now] == [True, True]
    (fold,) = (b for b in made.told if isinstance(b, Fold))
    assert str(fold.name).startswith("2. ") and not fold.open


def test_the_names_of_operations_and_of_combinations_are_explained(tmp_path: Path) -> None:
    made = page.of(a_night(tmp_path, TOLD), AGAIN)
    shown = html(made)
    assert "w2-39 is operation 39 of writer 2" in shown
    assert "commands and files write it as workload/catalog/faults/Iceberg/writers." in shown
    (table,) = (x for x in terminal(made) if not isinstance(x, str))
    assert str(table.columns[0].header) == "workload/catalog/faults/Iceberg/writers"


def test_the_answer_has_all_steps_for_one_may_say_what_is_lost_by_the_first(tmp_path: Path) -> None:
    long = replace(LOST, now=tuple(RepairStep(f"Run w0-{n} again.", Repair.RUN_AGAIN) for n in range(12)))
    made = page.of(a_night(tmp_path, replace(TOLD, happened=(long,))), AGAIN)
    said = dict(next(b for b in made.told if isinstance(b, Pairs)).rows)
    assert [said["do now"].count(f"<li>Run w0-{n} again.</li>") for n in range(12)] == [1] * 12


def test_kinds_on_one_table_of_one_run_are_to_be_mended_at_once(tmp_path: Path) -> None:
    back = RepairStep("Go back.", Repair.SET_BACK)
    second = replace(LOST, name="undelete", remedy="Set it.", now=(back,))
    made = page.of(a_night(tmp_path, replace(TOLD, happened=(LOST, second))), AGAIN)
    now = [said for name, said in steps_of(made) if name == "do now"]
    there = 'It is the same table of the same run as <a href="#kind-1">number 1</a>, and mended by the steps there.'
    assert len(now) == 2 and now[1] == there
    (cards,) = (b for b in made.sections[0].blocks if isinstance(b, Cards))
    assert [str(card.head).partition(" ")[0] for card in cards.cards] == ["1.", "2."], "as the answer numbers them"
    assert there in html(made).partition('id="kind-2"')[2]
    assert now[0].startswith("<ol><li>Go back.</li><li>Run w0-1 again: "), "what must come first, comes first"


def test_a_kind_that_is_mended_elsewhere_names_the_kind_that_has_the_steps(tmp_path: Path) -> None:
    """The third shares a table with the second alone, and the steps of the second are those of the first."""
    back = RepairStep("Go back.", Repair.SET_BACK)
    both = replace(LOST, name="undelete", remedy="Set it.", now=(back,), tables=("orders", "people"))
    third = replace(STALE, link=None, now=(back,), tables=("people",))
    night = a_night(tmp_path, replace(TOLD, happened=(LOST, both, third)))
    assert [bool(steps) for steps in kinds.recipes(kinds.kinds(night))] == [True, False, False]
    made = page.of(night, AGAIN)
    there = 'It is the same table of the same run as <a href="#kind-1">number 1</a>, and mended by the steps there.'
    assert [said for name, said in steps_of(made) if name == "do now"][1:] == [there, there]
    assert there in html(made).partition('id="kind-3"')[2]


def test_of_several_runs_a_kind_that_is_mended_elsewhere_names_the_kind_of_its_own_run(tmp_path: Path) -> None:
    """The second kind has no steps: those of its first run are the first kind's, those of its second run another one's."""
    other = replace(TOLD, number=2, used=90.0, folder="runs/3")
    both = replace(LOST, name="undelete", counts={"undelete": 1}, remedy="Set it.", tables=("orders", "people"))
    third = replace(STALE, link=None, tables=("people",))
    apart = replace(LOST, remedy="Set another.")
    runs = (replace(TOLD, happened=(LOST, both)), replace(other, happened=(apart, both, third)))
    found = kinds.kinds(a_night(tmp_path, *runs))
    assert [k.first for k in found] == [LOST, apart, both, third]
    assert [bool(steps) for steps in kinds.recipes(found)] == [True, True, False, False]
    assert "number 2<" in kinds.same_table(found, found[3])


def test_cards_of_new_kinds_are_open_and_come_first(tmp_path: Path) -> None:
    known = [replace(UNREAD, remedy=f"Do {n}.") for n in range(8)]
    new = [replace(LOST, remedy=f"Do {n}.") for n in range(8)]
    night = a_night(tmp_path, replace(SEEN_AGAIN, happened=tuple(known)), replace(TOLD, happened=tuple(new)))
    (cards,) = (b for b in kinds.blocks(night, kinds.kinds(night), kinds.Program()) if isinstance(b, Cards))
    assert [(">new<" in c.head, c.open) for c in cards.cards] == [(True, True)] * 8 + [(False, True)] * 2 + [
        (False, False)
    ] * 6


def test_what_happened_in_several_runs_is_counted_together_with_what_to_do_about_it(tmp_path: Path) -> None:
    runs = [TOLD, replace(TOLD, number=2, used=90.0, folder="runs/3"), SEEN_AGAIN]
    kept(tmp_path, *runs)
    night = a_night(tmp_path, *runs)
    assert [(k.showed, dict(k.counts), len(k.runs)) for k in kinds.kinds(night)] == [
        ("new", {"lost-commit": 4}, 2),
        ("known", {"false-failure": 1, "unreadable": 1}, 1),
    ]
    shown = html(page.of(night, AGAIN, program=kinds.Program("/opt/icequake")))
    assert "4 acknowledged commits lost" in shown and "in 2 runs of 3" in shown
    lost = section(shown, "lost")
    for said in (
        "<dt>avoid it</dt><dd>Use a catalog that looks first.</dd>",
        "<dt>avoid it</dt><dd>Let one writer alone commit.</dd>",
        "Acknowledged changes are not in the rows of orders: rows that were written are missing, or rows that were deleted are still there.",
        "<dt>who did it</dt><dd><b>Spark 4.1.4, Iceberg 1.12.0</b> sent its commit again</dd>",
        "<dt>how</dt><dd>Insert w0-1: acknowledged, but never in the table&#39;s history.</dd>",
        "Nobody can read orders any more.",
        "<div>In the run of seed 7: Run w0-1 again: its statement is on the run&#39;s card. <a",
        "Use a catalog that looks first.",
        "Let one writer alone commit.",
        "Spark 4.1.4, Iceberg 1.12.0",
    ):
        assert lost.count(said) >= 1, said
    assert lost.count("Use a catalog that looks first.") == 1, "once for each kind"
    for href in ("runs/1/report.html#anomaly-2", "runs/3/report.html#anomaly-2", "runs/2/report.html#anomaly-1"):
        assert f'href="{href}"' in lost


def test_each_kind_of_failure_has_the_commands_that_show_it_make_it_small_and_export_it(tmp_path: Path) -> None:
    told = replace(TOLD, happened=(replace(LOST, statements=(("w0-1", ""),)),))
    kept(tmp_path, told, SEEN_AGAIN)
    shown = html(page.of(a_night(tmp_path, told, SEEN_AGAIN), AGAIN, program=kinds.Program("/opt/icequake")))
    lost = section(shown, "lost")
    assert [shown.count("icequake run quick --seed 7"), lost.count("icequake run quick --seed 7")] == [2, 0], (
        "a run each"
    )
    own = kinds.Program("/opt/icequake", Path("/my store"))
    lost_too = section(html(page.of(a_night(tmp_path, told, SEEN_AGAIN), AGAIN, program=own)), "lost")
    assert "/opt/icequake prove jdbc-unreadable --store &#39;/my store&#39;" in lost_too
    assert (
        f"/opt/icequake shrink {tmp_path}/runs/1 --anomaly lost-commit --op w0-1 --store &#39;/my store&#39;"
        in lost_too
    )
    for command in (
        f"/opt/icequake shrink {tmp_path}/runs/1 --anomaly lost-commit --op w0-1",
        "/opt/icequake prove jdbc-unreadable",
        "/opt/icequake export jdbc-unreadable --as issue -o jdbc-unreadable.md",
        f"/opt/icequake shrink {tmp_path}/runs/2 --anomaly false-failure",
    ):
        assert command in lost, command
    assert "# writes the text of an issue for the maintainers (no script can show it" in lost
    assert "who need no icequake for it" not in lost, "no script was made"


def test_a_mail_has_each_kind_with_its_link_its_place_its_remedy_and_the_command_that_shows_it(tmp_path: Path) -> None:
    night = a_night(tmp_path, TOLD, SEEN_AGAIN)
    assert kinds.mailed(night, kinds.kinds(night), kinds.Program("./icequake")) == [
        "lost-commit (new) in quick on rest, lost-acks; avoid: Use a catalog that looks first.",
        "  show icequake run quick --seed 7",
        "false-failure (known: iceberg#10140) in quick on jdbc, lost-acks; avoid: Let one writer alone commit.",
        "  show ./icequake prove jdbc-unreadable",
        kinds.NEW_OR_KNOWN_SAYS,
    ]
    assert kinds.mailed(a_night(tmp_path, line(REST)), [], kinds.PROGRAM) == []


def test_a_new_anomaly_that_was_shrunk_is_exported_by_its_scenario(tmp_path: Path) -> None:
    kept(tmp_path, TOLD)
    scenario = tmp_path / "shrinks/1/scenario.yaml"
    scenario.parent.mkdir(parents=True)
    scenario.write_text((LIBRARY / "rest-503-lost-commit.yaml").read_text())
    found = Find(
        REST, 7, "runs/1", "lost-commit", "shrunk", scenario="shrinks/1/scenario.yaml", command="icequake prove it"
    )
    lost = section(html(page.of(a_night(tmp_path, TOLD, finds=(found,)), AGAIN)), "lost")
    assert "icequake prove it" in lost and f"icequake export {scenario} --as script -o lost-commit.py" in lost


@pytest.mark.parametrize(
    ("became", "reason", "said"),
    [
        ("shrunk", "it strikes the store", "no scenario file can say what is left: it strikes the store"),
        ("failed", "the catalog is your own", "not shrunk: the catalog is your own"),
        ("not shown", "", "not shrunk: nothing showed it again"),
    ],
)
def test_a_new_anomaly_without_a_scenario_has_its_reason_and_the_issue_of_the_run_on_card_and_last_lines(
    tmp_path: Path, became: Became, reason: str, said: str
) -> None:
    kept(tmp_path, TOLD)
    found = Find(REST, 7, "runs/1", "lost-commit", became, operations=3, writers=2, command="replay it", reason=reason)
    made = page.of(a_night(tmp_path, TOLD, finds=(found,)), AGAIN, program=kinds.Program("/opt/icequake"))
    typed = f"/opt/icequake export {tmp_path}/runs/1 --as issue -o lost-commit.md"
    for anchor in ("lost", "finds"):
        shown = section(html(made), anchor)
        assert said in shown and typed in shown, shown
    last = "".join(part for part in terminal(made) if isinstance(part, str))
    assert said in " ".join(last.split()) and typed in " ".join(last.split()), last
    (report,) = (row[1] for b in made.told if isinstance(b, Pairs) for row in b.rows if row[0] == "report it")
    assert re.findall(r"<code>/opt/icequake (\w+)", report) == ["export", "shrink"] and typed in report


def test_a_table_that_nobody_can_read_and_one_that_can_be_read_are_two_kinds_with_one_harm_each(tmp_path: Path) -> None:
    other = replace(SEEN_AGAIN, happened=(replace(UNREAD, counts={"false-failure": 1}),), number=2, folder="runs/3")
    night = a_night(tmp_path, SEEN_AGAIN, other)
    lost = section(html(page.of(night, AGAIN)), "lost")
    assert "Nobody can read orders any more.</p>" in lost
    assert "Its rows of orders are there; whoever runs it again writes them twice.</p>" in lost
    assert "Queries of orders" not in lost
    assert [kinds.losses(k.harmed) for k in kinds.kinds(night)] == [
        "1 table that nobody can read",
        "1 operation reported as failed that was committed",
    ]


def test_a_known_kind_says_what_the_rule_asks_and_a_new_one_what_of_it_was_missing(tmp_path: Path) -> None:
    new = replace(TOLD, happened=(replace(LOST, unlike="the scenario x is most like it, but it has y"),))
    lost = section(html(page.of(a_night(tmp_path, new, SEEN_AGAIN), AGAIN)), "lost")
    assert "<dt>known?</dt><dd>no: the scenario x is most like it, but it has y" in lost
    assert "the suite&#39;s file has lost-commit for catalog jdbc only" in lost
    assert "iceberg#10140</a>: known for JDBC catalogs, Spark, while the catalog carries out the request" in lost
    of_suite = replace(OLD, happened=(replace(STALE, name="lost-commit", names=("lost-commit",)),))
    lost = section(html(page.of(a_night(tmp_path, of_suite), AGAIN)), "lost")
    assert "known for catalog jdbc, as the suite&#39;s file says" in lost


def test_what_became_of_new_anomalies_is_said_of_each_of_them(tmp_path: Path) -> None:
    """Of those that a shrink of another one showed too, by that one; of those that the night had no time for, what goes on with them."""
    names = ("lost-commit", "undelete", "stale-read")
    run = replace(NEW, anomalies=dict.fromkeys(names, 1), seen=tuple(AnomalyCount(n) for n in names), folder="runs/1")
    found = Find(REST, 7, "runs/1", "lost-commit", "shrunk", also=("undelete",), operations=2, writers=1)
    night = a_night(tmp_path, run, finds=(found,))
    text = section(html(page.of(night, AGAIN, more="again")), "finds")
    assert (
        "acknowledged commit lost (lost-commit) of quick on rest, lost-acks seed 7: shrunk to 2 operations of 1 writer"
        in text
    )
    assert "stale read (stale-read) of quick on rest, lost-acks seed 7: not replayed: no time was left" in text
    assert text.count("<li>") == 2
    assert "stale read (stale-read) of quick on rest, lost-acks seed 7: not replayed: the night is not over" in section(
        html(page.of(night, AGAIN)), "finds"
    )
    none = replace(night, finds=())
    assert 'id="finds"' not in html(page.of(none, AGAIN)), "its suite says that nothing is to be followed"
    shrinks = replace(none, suite=none.suite.model_copy(update={"shrink": Shrinking()}))
    assert section(html(page.of(shrinks, AGAIN)), "finds").count("the night is not over") == 3


def test_a_shrink_that_was_stopped_says_how_far_it_came_and_what_goes_on(tmp_path: Path) -> None:
    small: dict[str, Any] = {
        "operations": 1,
        "writers": 1,
        "scenario": "shrinks/1/scenario.yaml",
        "command": "prove it",
    }
    for more, said in (
        (small, "smallest so far 1 operation of 1 writer: prove it; go on with: shrink on"),
        ({"reason": "nothing yet"}, "not shrunk: nothing yet; go on with: shrink on"),
    ):
        found = Find(REST, 7, "runs/1", "lost-commit", "stopped", goes_on="shrink on", tries=8, **more)
        text = section(html(page.of(a_night(tmp_path, TOLD, finds=(found,)), AGAIN)), "finds")
        assert f"stopped after 8 runs of it and of parts of it; {said}" in text
    assert finds.latest([replace(found, became="stopped"), replace(found, became="shrunk")]) == [
        replace(found, became="shrunk")
    ]


def test_a_run_says_of_each_kind_what_its_card_says_with_the_link_to_it(tmp_path: Path) -> None:
    both = replace(TOLD, happened=(LOST, replace(UNREAD, card=1)))
    kept(tmp_path, both)
    row = section(html(page.of(a_night(tmp_path, both), AGAIN)), "new")
    said = [(href, text) for href, text in re.findall('<a href="([^"]*)">([^<]*)</a>', row) if "#" in href]
    assert said == [
        ("runs/1/report.html#anomaly-1", "1 table that nobody can read"),
        ("runs/1/report.html#anomaly-2", "2 acknowledged commits lost"),
    ]
    assert "table unreadable" in row and "rows lost or wrong" not in row


def test_a_kind_that_harms_no_row_does_not_say_that_the_rows_are_right_if_another_one_of_its_run_harms_them(
    tmp_path: Path,
) -> None:
    stale = Happened("stale-read", "the catalog (jdbc)", {"stale-read": 1}, ("stale-read",), ("orders",))
    for others, said in (((), "The rows of orders are right;"), ((LOST,), "By itself it changes no row of orders;")):
        run = replace(TOLD, happened=(*others, stale))
        assert said in section(html(page.of(a_night(tmp_path, run), AGAIN)), "lost")


def test_a_line_of_an_older_icequake_is_told_by_its_names(tmp_path: Path) -> None:
    (new, known) = kinds.kinds(a_night(tmp_path, NEW, OLD))
    assert (new.showed, known.showed) == ("new", "known") and "Use a catalog that swaps" in new.first.remedy
    assert kinds.lost([new, known]) == "3 acknowledged commits lost"


def test_known_defects_new_ones_and_runs_without_a_verdict_stand_apart(tmp_path: Path) -> None:
    kept(tmp_path, TOLD, SEEN_AGAIN)
    night = a_night(tmp_path, SEEN_AGAIN, TOLD, line(REST, "unknown", reason="reads: late", number=3, seed=99))
    shown = html(page.of(night, AGAIN))
    parts = {anchor: section(shown, anchor) for anchor in ("new", "seen", "open")}
    for anchor, its in (("new", "runs/1/report.html"), ("seen", "runs/2/report.html"), ("open", "reads: late")):
        assert [a for a, part in parts.items() if its in part] == [anchor], its
    assert 'href="runs/2/report.html#anomaly-1"' in parts["seen"] and "the catalog (jdbc)" in parts["seen"]


def test_the_page_names_the_versions_of_engines_and_catalogs(tmp_path: Path) -> None:
    ran = {"spark": "4.1.4", "iceberg": "1.12.0", "java": "17", "minio": "RELEASE.2025-09-07T16-13-09Z"}
    jdbc, rest = ({**ran, "postgres": "18.4"}, {**ran, "postgres": "18.4", "rest": "1.11.0"})
    facts = dict(page.of(a_night(tmp_path, line(JDBC, versions=jdbc), line(REST, versions=rest)), AGAIN).facts)
    assert facts["Engines"] == "Spark 4.1.4, Iceberg 1.12.0"
    assert facts["Catalogs"] == "rest (postgres 18.4, rest 1.11.0), jdbc (postgres 18.4)"
    older = dict(page.of(a_night(tmp_path, line(JDBC)), AGAIN).facts)
    assert (older["Engines"], older["Catalogs"]) == ("Iceberg 1.12.0", "rest, jdbc")
    bare = Cell("quick", "hadoop", "none", "1.12.0", "2")
    found = dict(page.of(a_night(tmp_path, line(bare, versions=ran), cells=(bare,)), AGAIN).facts)
    assert found["Catalogs"] == "hadoop (minio 2025-09-07)"


@pytest.mark.parametrize(("last", "opened"), [(10**8, False), (10**9, True)])
def test_memory_and_disk_are_folded_at_the_end_unless_memory_grew(tmp_path: Path, last: int, opened: bool) -> None:
    runs = [line(REST, number=n, rss=10**8) for n in range(4)]
    made = page.of(a_night(tmp_path, *runs[:-1], replace(runs[-1], rss=last)), AGAIN)
    final = made.sections[-1]
    (fold,) = final.blocks
    assert final.anchor == "resources" and isinstance(fold, Fold) and fold.open is opened


def test_the_page_says_combinations_and_explains_the_word_once(tmp_path: Path) -> None:
    """And its tables name no dimension that all have in common: those are said once."""
    text = html(page.of(a_night(tmp_path, TOLD, OLD, line(REST, number=4)), AGAIN))
    assert text.count("the suite file calls it a cell") == 1 and text.count(">cell") == 0 == text.count("cells ")
    assert "All of them: Iceberg 1.12.0, 2 writers." in text and text.count("quick/rest/lost-acks") == 0
    assert "lost-acks: the catalog commits, and the writer gets no answer, or an error" in text


def test_the_page_says_what_happened_how_bad_on_which_table_and_by_whom(tmp_path: Path) -> None:
    told = replace(
        NEW,
        headline=("2 acknowledged commits lost",),
        who="the catalog server 2",
        seen=(AnomalyCount("stale-read", "reads", "ledger"), AnomalyCount("lost-commit", "commits", "orders", count=2)),
        folder="runs/1",
    )
    night = a_night(tmp_path, told)
    shown = html(page.of(night, AGAIN))
    row = section(shown, "new")
    for said in (
        "2 acknowledged commits lost",
        "rows lost or wrong",
        "ledger, orders",
        "the catalog server 2",
        "not kept",
    ):
        assert said in row
    kept(tmp_path, told)
    assert 'href="runs/1/report.html"' in section(html(page.of(night, AGAIN)), "new")


def test_a_suite_of_ones_own_starts_with_what_the_library_shows(tmp_path: Path) -> None:
    """Its file names nothing as known; the line has where the defect is discussed, which the run's page and terminal name, too."""
    link = "https://github.com/apache/iceberg/pull/7569"
    mine = suites.parse(SUITE)[0].model_copy(update={"known": ()})
    of_story = line(
        REST, "invalid", anomalies={"lost-commit": 1}, seen=(AnomalyCount("lost-commit", "commits", known=link),)
    )
    source = AnomalyCount("lost-commit", "commits", known="https://github.com/apache/iceberg/blob/main/A.java")
    untold = line(REST, "invalid", anomalies={"lost-commit": 1}, seen=(source,))
    said = "lost-commit (known to icequake; not reported upstream: "
    assert words.findings(a_night(tmp_path, untold, suite=mine), untold).startswith(said)
    stranger = line(REST, "invalid", anomalies={"lost-commit": 1}, seen=(AnomalyCount("lost-commit", "commits"),))
    night = a_night(tmp_path, of_story, suite=mine)
    assert night.verdict is True and night.showed(of_story) == "known"
    assert "lost-commit (known: iceberg#7569)" in words.findings(night, of_story)
    assert "as a scenario of the library shows it" in html(page.of(night, AGAIN))
    assert a_night(tmp_path, stranger, suite=mine).verdict is False, "the name alone is not enough"


def test_a_run_with_a_known_and_a_new_anomaly_names_the_new_one_first(tmp_path: Path) -> None:
    both = line(JDBC, "invalid", anomalies={"lost-commit": 1, "undelete": 3})
    night = a_night(tmp_path, both)
    assert night.showed(both) == "new" and night.new_of(both) == {"undelete": 3}
    assert words.findings(night, both) == "undelete ×3, lost-commit (known: iceberg#10140)"


def test_a_cell_shows_the_worst_of_its_runs(tmp_path: Path) -> None:
    runs = [
        line(JDBC, "invalid", anomalies={"undelete": 1}),
        line(JDBC, "invalid", anomalies={"lost-commit": 1}),
        line(JDBC, "error"),
        line(JDBC, "unknown"),
        line(JDBC),
    ]
    worst = [a_night(tmp_path, *reversed(runs[n:])).worst(JDBC) for n in range(len(runs) + 1)]
    assert worst == ["new", "known", "error", "unknown", "valid", "not run"]


def in_junit(made: Page) -> str:
    assert made.suite is not None
    return junit(made.suite)


def test_junit_has_a_case_for_each_cell(tmp_path: Path) -> None:
    out = Cell("x", "glue", "none", "1.12.0", "")
    one, two, three, *_ = [c for c in CELLS if c not in (REST, JDBC)]
    lines = [NEW, OLD, line(one), line(two, "error", reason="died"), line(three, "unknown", reason="reads: late")]
    night = a_night(tmp_path, *lines, left_out={out: "it is not reached"})
    root = ET.fromstring(in_junit(page.of(night, AGAIN)))
    validate(root)
    cases = {c.get("name"): c for c in root.iter("testcase")}
    assert len(cases) == len(CELLS) + 1 == int(root.get("tests") or 0)
    failure = cases[REST.name].find("failure")
    assert failure is not None and failure.get("message") == "lost-commit ×2 in 1 of 1 runs"
    assert "icequake run quick --seed 7" in str(failure.text)
    assert [e.tag for e in cases[JDBC.name]] == ["system-out"] and "known: iceberg#10140" in str(
        cases[JDBC.name][0].text
    )
    assert len(cases[one.name]) == 0
    assert cases[two.name][0].tag == "error" and cases[two.name][0].get("message") == "died"
    assert cases[three.name][0].tag == "skipped" and cases[three.name][0].get("message") == "unknown: reads: late"
    assert cases[out.name][0].get("message") == "cannot run: it is not reached"
    unrun = next(c for c in CELLS if not night.by_cell[c])
    assert cases[unrun.name][0].get("message") == "the night ended before its turn"
    assert (root.get("failures"), root.get("errors")) == ("1", "1")
    assert root[0].get("skipped") == str(len([c for c in cases.values() if c.find("skipped") is not None]))


def test_the_page_shows_cells_failures_known_anomalies_time_memory_and_disk(tmp_path: Path) -> None:
    (tmp_path / "runs/quick/x").mkdir(parents=True)
    (tmp_path / "runs/quick/x/report.html").write_text("")
    kept = replace(NEW, folder="runs/quick/x")
    gone = replace(NEW, folder="runs/quick/y", used=130.0)
    night = a_night(tmp_path, kept, gone, OLD, line(REST, used=190.0, number=2), STACK, stopped="the disk is full")
    text = html(page.of(night, AGAIN))
    assert text.count('href="runs/quick/x/report.html') == 6, (
        "in the answer, twice on its card, twice in the table and in the drawing"
    )
    assert "its folder was removed to make room" in text and "runs/quick/y/report.html" not in text
    assert "icequake run quick --seed 7" in text and AGAIN in text and "The night stopped: the disk is full." in text
    assert "iceberg#10140" in text and "6 combinations had no run" in text
    assert (
        text.count("<svg") - text.count('<svg class="defs"') == 3
        and "the night&#39;s folder" in text
        and "the soak itself" in text
    )
    assert "There is no earlier night" in text
    for cell in CELLS:
        assert cell.workload in text
    stored = page.to_json(night)
    assert [r["showed"] for r in stored["runs"]] == ["new", "new", "known", "valid", "error"] and stored["exit"] == 1


def test_the_number_behind_an_anomaly_is_that_of_anomalies_wherever_it_is_said(tmp_path: Path) -> None:
    """Two runs with two each are four; how many runs is said of runs."""
    night = a_night(tmp_path, NEW, replace(NEW, number=2))
    assert banner(night).headline == "Failed: new harm in 2 of 2 runs: 4 acknowledged commits lost"
    assert "lost-commit ×4 in 2 of 2 runs" in in_junit(page.of(night, AGAIN))
    assert '<td class="wrap">4 acknowledged commits lost</td>' in html(page.of(night, AGAIN))


def test_the_table_of_cells_has_a_heading_for_each_of_its_columns(tmp_path: Path) -> None:
    """Also for the dimensions that few suites vary; those in which the combinations do not differ are said above it."""
    held = replace(REST, order="random", cluster="local")
    cells = next(s for s in page.of(a_night(tmp_path, cells=(JDBC, held)), AGAIN).sections if s.anchor == "cells")
    table = next(b for b in cells.blocks if isinstance(b, Table))
    names = [c.name for c in table.columns]
    assert names[:5] == ["workload", "catalog", "faults", "order of requests", "Spark cluster"]
    assert [[*map(str, row.cells)][3:5] for row in table.rows] == [["–", "–"], ["random", "local"]]


def test_a_page_without_any_run_can_be_written(tmp_path: Path) -> None:
    text = html(page.of(a_night(tmp_path, samples=()), AGAIN))
    assert "No run" in text and "No sample was taken." in text and "Nothing: every run that was judged" in text


def test_what_came_from_outside_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    hostile = Cell(HOSTILE, "rest", "none", "1.12.0", "")
    bad = line(hostile, "invalid", anomalies={HOSTILE: 1}, reason=HOSTILE, command=HOSTILE, folder=HOSTILE)
    night = a_night(tmp_path, bad, cells=(*CELLS, hostile), stopped=HOSTILE, left_out={hostile: HOSTILE})
    text = html(page.of(night, HOSTILE, [trend.EarlierNight(HOSTILE, HOSTILE, (bad,))]))
    assert HOSTILE not in text and "<script>alert" not in text and "<img" not in text
    validate(ET.fromstring(in_junit(page.of(night, HOSTILE))))
    assert all("\x1b" not in part for part in terminal(page.of(night, HOSTILE)) if isinstance(part, str))


# --- the trend --------------------------------------------------------------------------------------------------------


def stored(store: Path, name: str, started: str, *lines: NightRun) -> Path:
    folder = store / name
    folder.mkdir(parents=True)
    header = {"format": 1, **suites.as_header(TINY, CELLS), "seed": 1, "started": started}
    rows = [json.dumps(header), *(json.dumps(asdict(x)) for x in lines)]
    (folder / record.RUNS).write_text("\n".join(rows) + "\n")
    return folder


def test_the_trend_has_the_last_nights_of_the_store_before_this_one(tmp_path: Path) -> None:
    for n in range(9):
        stored(tmp_path, f"n{n}", f"2026-11-{n + 1:02}T00:00:00", line(REST, "invalid", anomalies={"undelete": 4}))
    stored(tmp_path, "later", "2026-12-01T00:00:00", line(REST))
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / record.RUNS).write_text("{")
    mine = stored(tmp_path, "mine", "2026-11-20T00:00:00", line(REST))
    past, unread = trend.earlier(mine)
    assert len(unread) == 1 and "torn/runs.jsonl:1: not the journal of a soak" in unread[0]
    assert [p.name for p in past] == [f"n{n}" for n in range(2, 9)]
    night = a_night(mine, line(REST))
    text = html(page.of(night, AGAIN, past, unread))
    assert "A night is left out: " in text
    assert (
        "2026-11-03" in text
        and "2026-11-02" not in text
        and text.count("in 1 of 1 run: 4 deletes that left their rows") == 7
    )


def test_copies_of_a_night_are_one_night_of_the_trend_that_with_the_most_runs(tmp_path: Path) -> None:
    for name, runs in (("before", 1), ("before-and-on", 2), ("copy", 2)):
        stored(tmp_path, name, "2026-11-01T00:00:00", *(line(REST, number=n) for n in range(runs)))
    past, _ = trend.earlier(stored(tmp_path, "mine", "2026-11-20T00:00:00", line(REST)))
    assert [(p.name, len(p.lines)) for p in past] == [("copy", 2)]


def test_the_trend_counts_what_was_lost_as_the_answer_does_and_has_no_column_without_a_value(tmp_path: Path) -> None:
    stored(tmp_path, "before", "2026-11-01T21:30:00", TOLD, SEEN_AGAIN)
    night = a_night(stored(tmp_path, "mine", "2026-11-20T00:00:00", TOLD), TOLD, SEEN_AGAIN)
    (shown,) = (s for s in page.of(night, AGAIN, *trend.earlier(night.folder)).sections if s.anchor == "trend")
    table = next(b for b in shown.blocks if isinstance(b, Table))
    assert [c.name for c in table.columns] == ["combination", "2026-11-01 21:30", "this night"], (
        "no mark, no column of marks"
    )
    (lost,) = (
        c for row in table.rows for c in row.cells[1:2] if isinstance(c, TableCell) and "commits lost" in str(c.below)
    )
    assert lost.below[-1] == "in 1 of 1 run: 2 acknowledged commits lost"


def test_a_cell_is_better_or_worse_by_the_rule_of_the_trend(tmp_path: Path) -> None:
    def point(*values: float) -> trend.CellNight:
        found = trend.point([line(REST, commits_per_s=v, retried=v / 10) for v in values], REST)
        assert found is not None
        return found

    speeds, shares = BY_KEY["commits_per_s"], BY_KEY["retried"]
    before = [point(2.0, 2.2), point(1.8), point(2.0), point(2.1), point(1.9, 1.9, 2.5)]
    for values, speed, again in (
        ((2.3, 2.6, 3.0), "better", "regression"),
        ((1.0, 1.2, 2.7), "regression", "better"),
        ((1.0, 2.1, 3.0), "noise", "noise"),
        ((2.15,), "noise", "noise"),  # beyond all, but by less than a tenth
    ):
        now = point(*values)
        assert trend.against(now.throughput, [p.throughput for p in before], speeds) == speed
        assert trend.against(now.retries, [p.retries for p in before], shares) == again
    assert trend.against(point(9.0).throughput, [p.throughput for p in before[1:]], speeds) == "too few"
    assert trend.against(None, [p.throughput for p in before], speeds) == "no number"
    assert trend.against(None, [None] * 5, speeds) == "too few"
    for values in ((math.nan,), (math.nan, 2.0, 2.0), (2.0, 2.0, math.nan)):
        assert trend.against(point(*values).throughput, [p.throughput for p in before], speeds) == "no number"
    assert trend.point([line(REST, "error"), line(JDBC)], REST) is None


@pytest.mark.parametrize(("runs", "marks"), [(("error",), 2), ((), 0), (("valid",), 0)])
def test_a_cell_whose_runs_were_not_judged_is_marked_if_an_earlier_night_has_figures_of_it(
    tmp_path: Path, runs: tuple[Ended, ...], marks: int
) -> None:
    stored(tmp_path, "before", "2026-11-01T00:00:00", line(REST), line(JDBC))
    mine = stored(tmp_path, "mine", "2026-11-20T00:00:00", line(JDBC))
    text = html(page.of(a_night(mine, line(JDBC), *(line(REST, ended) for ended in runs)), AGAIN, *trend.earlier(mine)))
    assert text.count("<td>no number</td>") == marks


# --- what fails a run -------------------------------------------------------------------------------------------------


def found(name: str, same_as: str | None = None) -> Anomaly:
    return Anomaly(name, "c", "t", "", same_as=same_as)


def test_what_fails_a_run_is_what_is_neither_allowed_nor_only_confirms_another() -> None:
    verdicts = [
        Verdict("a", False, (found("lost-commit"), found("lost-commit"), found("undelete"))),
        Verdict("b", False, (found("nonlinearizable", same_as="lost-commit"), found("stale-read", same_as="gone"))),
    ]
    every = tuple(verdicts)
    allowed = AcceptedAnomalies(allow=entries_of("lost-commit"))

    def failing(
        verdicts: tuple[Verdict, ...], valid: Validity, accepted: AcceptedAnomalies = NOTHING_ACCEPTED
    ) -> dict[str, int]:
        return record.tally(record.failing(Results(verdicts, valid, accepted=accepted)))

    assert failing(every, False) == {"lost-commit": 2, "undelete": 1, "stale-read": 1}
    assert failing(every, False, allowed) == {"undelete": 1, "stale-read": 1}
    assert failing(every, True) == {} == failing(every, "unknown")
    assert failing((Verdict("c", False),), False) == {record.NOT_VALID: 1}


def test_a_line_and_a_sample_are_stored_as_they_are() -> None:
    whole = replace(NEW, folder="runs/quick/x", stack="logs/rest-1", reason="why", peak_memory=1, disk=2)
    sample = Sample(1.5, 1, 2, 3, 4)
    forms: tuple[tuple[Any, Any], ...] = ((record.LINES, whole), (record.SAMPLED, sample))
    for form, one in forms:
        assert form.decode(json.loads(json.dumps(form.encode(one)))) == one


@pytest.mark.parametrize("key", [f.name for f in fields(NightRun)])
def test_a_line_that_lacks_a_key_has_its_default_or_is_refused(tmp_path: Path, key: str) -> None:
    folder = stored(tmp_path, "n", "2026-11-01T00:00:00", NEW)
    lacks = {k: v for k, v in asdict(NEW).items() if k != key}
    with (folder / record.RUNS).open("a") as file:
        file.write(json.dumps(lacks) + "\n")
    if key in ("cell", "number", "seed", "started", "ended"):
        with pytest.raises(record.NightError, match=rf"runs\.jsonl:3: .*`{key}`"):
            record.read(folder)
    else:
        default = NightRun(NEW.cell, NEW.number, NEW.seed, NEW.started, NEW.ended)
        assert record.read(folder)[1] == [NEW, replace(NEW, **{key: getattr(default, key)})]


def test_an_end_that_this_release_does_not_know_is_refused(tmp_path: Path) -> None:
    folder = stored(tmp_path, "n", "2026-11-01T00:00:00", NEW)
    with (folder / record.RUNS).open("a") as file:
        file.write(json.dumps({**asdict(NEW), "ended": "?"}) + "\n")
    with pytest.raises(record.NightError, match=r"runs\.jsonl:3: not a run of a soak: Invalid enum value '\?'"):
        record.read(folder)


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(0, 1e3)), max_size=3000))
def test_a_curve_that_is_thinned_keeps_its_peaks(points: list[tuple[float, float]]) -> None:
    points.sort()
    kept = drawings.thinned(points)
    assert len(kept) <= max(len(points), 0) and len(kept) <= drawings.MOST_POINTS + 2
    assert {*kept} <= {*points} and kept == sorted(kept)
    if points:
        assert max(y for _, y in kept) == max(y for _, y in points)


def test_a_combination_with_few_operations_does_not_pass_in_silence(tmp_path: Path) -> None:
    met = "no two commits met (none was retried, none aborted), so nothing is known of conflicts"
    night = a_night(tmp_path, line(REST, operations=4, untested=(met,)))
    made = page.of(night, AGAIN)
    assert made.banner.headline == "Passed: nothing was lost in 1 run, and next to nothing was tested"
    shown = html(made)
    assert "untested: few operations (4)" in shown and f"untested: {met}" in shown
    assert next(c for c in made.data["cells"] if c["name"] == REST.name)["untested"] == [*night.untested(REST)]
    (table,) = (x for x in terminal(made) if not isinstance(x, str))
    assert [str(x) for x in table.columns[1].cells] == ["✓ few operations"]
    assert f"Next to nothing was tested of {places.of(night, REST)} (4 operations)." in banner(night).sentence
    said = " ".join(" ".join(x if isinstance(x, str) else "" for x in terminal(made)).split())
    assert (
        f"{places.of(night, REST)} is valid, and untested: few operations (4), so next to nothing is known; {met}"
        in said
    )
    assert f"untested: {met}" in in_junit(made)


def test_what_one_run_of_a_combination_tested_is_tested(tmp_path: Path) -> None:
    night = a_night(tmp_path, line(REST, operations=20, untested=("a", "b")), line(REST, number=1, untested=("b",)))
    assert night.untested(REST) == ("b",)
    assert page.of(night, AGAIN).banner.headline == "Passed: nothing was lost in 2 runs"
    (table,) = (x for x in terminal(page.of(night, AGAIN)) if not isinstance(x, str))
    assert [str(x) for x in table.columns[1].cells] == ["✓ valid"]


def test_a_combination_that_broke_a_promise_was_tested(tmp_path: Path) -> None:
    assert a_night(tmp_path, replace(NEW, operations=4)).untested(REST) == ()
