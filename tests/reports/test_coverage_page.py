"""The page of exercised interleavings: its figures are the coverage's, its colours the shares, and it is self-contained."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from checkers.coverage.coverage import Coverage
from checkers.coverage.pair import PHASES, Pair, TableSetup
from checkers.coverage.possible import KindByEngine, of_table
from reports.coverage import page
from reports.drawing.render import html, terminal
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

EVERY = of_table(TableSpec(name="t"), [KindByEngine(KINDS[k], "spark", writers=2) for k in ("insert", "delete")])
SEEN = Counter({p: 3 for p in EVERY if (p.first, p.second) == ("insert", "delete") and p.phase == "retry"})
SOME = Coverage(SEEN, Counter({("delete", "delete"): 2}), EVERY, 4)


@pytest.mark.parametrize(
    ("covered", "possible", "step"),
    [(0, 0, None), (0, 9, 0), (1, 100, 1), (1, 4, 1), (26, 100, 2), (3, 4, 3), (99, 100, 4), (9, 9, 5)],
)
def test_the_colour_is_the_share(covered: int, possible: int, step: int | None) -> None:
    assert page.heat(covered, possible) == step


def test_a_square_has_a_strip_for_each_phase() -> None:
    found = page.squares(SOME)
    assert len(found) == 4
    s = found["insert", "delete"]
    assert [x.phase for x in s.strips] == list(PHASES)
    assert [x.heat for x in s.strips] == [0, 0, 0, 0, 5, 0]
    assert (s.covered, s.possible, s.times) == (4, 24, 12)
    assert "delete while insert writes: 4 of 24 pairs, seen 12 times" in s.title
    assert found["delete", "delete"].covered == 0


def test_the_figures_are_those_of_the_coverage() -> None:
    phases = {f.name: (f.covered, f.possible) for f in page.figures(SOME)["phase of the first"]}
    assert phases == SOME.counts_by("phase") and phases["retry"] == (4, 15)
    assert page.pairs_of_kinds(SOME) == (1, 4)
    assert page.never(SOME) == [("delete", "delete"), ("delete", "insert"), ("insert", "insert")]
    first, *others = [line for line in terminal(page.of(SOME, "a store")) if isinstance(line, str)]
    assert first.startswith(
        "4 of 90 possible pairs (4.4 %) were exercised in 4 runs. Of 4 ordered pairs of operations, 1 met"
    )
    assert any(line.startswith("  * 2 times the phase is not known") for line in others)


class Tags(HTMLParser):
    """The tags of a page: those left open, those closed out of order, and addresses outside it."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.outside += [f"{k}={v}" for k, v in attrs if k in ("src", "href") and v and not v.startswith("#")]
        if tag not in ("meta", "link", "br", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_whole_and_self_contained() -> None:
    text = html(page.of(SOME, "a store", ["run 1: cannot be read"]))
    tags = Tags()
    tags.feed(text)
    assert not tags.open and not tags.wrong and not tags.outside
    assert "default-src 'none'" in text and "<script" not in text
    assert "4.4 %" in text and "a store" in text and "run 1: cannot be read" in text
    assert len(re.findall(r'class="pair"', text)) == 4
    assert len(re.findall(r'<i class="h5">', text)) == 1


def test_names_from_outside_are_escaped() -> None:
    make = TableSetup("<b>mode", "snapshot", 2, True)
    p = Pair("<script>x</script>", "retry", "insert", "same row", make)
    text = html(page.of(Coverage(Counter([p]), Counter(), frozenset([p]), 1), "<title>", ["<img src=x>"]))
    assert "<script" not in text and "<img" not in text and "<b>mode" not in text


def test_a_coverage_of_nothing_has_a_page() -> None:
    made = page.of(Coverage(), "nothing")
    text = html(made)
    assert "No pair is possible" in text and "Nothing was exercised" in text
    assert str(terminal(made)[0]).startswith("0 of 0 possible pairs (–) were exercised in 0 runs.")


def test_the_json_is_the_coverage_again_with_its_figures() -> None:
    said = json.loads(json.dumps(page.as_json(SOME, ["x"])))
    assert Coverage.from_json(said) == SOME
    assert said["unread"] == ["x"] and ["insert", "insert"] in said["never"]
    assert {"value": "retry", "covered": 4, "possible": 15} in said["figures"]["phase of the first"]
