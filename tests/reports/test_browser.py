"""Pages in a real Chromium: at every width, light and dark, by the keyboard, without scripts and without a network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkers.nights import trend
from checkers.verdict import MinimalHistory, Verdict
from compose.install.browser import BROWSER_REMEDY
from reports.coverage import page as coverage_page
from reports.drawing.page import Banner, Page, Section, Table
from reports.drawing.render import html
from reports.run import over_time, page
from reports.run.bands import TableFigures
from reports.serve import pages as serve_pages
from reports.serve.index import RunFilter
from reports.soak import page as night_page
from tests.reports import test_soak
from tests.reports.test_coverage_page import SOME
from tests.reports.test_report import many, undelete, with_proxies, write_results, write_run
from tests.support.browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=BROWSER_REMEDY)
WIDTHS = (420, 1000, 1600)

LOW_CONTRAST = """
(() => {
  const parsed = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
  const light = c => {
    const l = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2];
  };
  const behind = e => {
    const found = [];
    for (let at = e; at; at = at.parentElement) {
      const style = getComputedStyle(at), c = parsed(style.backgroundColor);
      if (c[3]) found.push(c);
      if (c[3] === 1) break;
    }
    return found.reverse().reduce((below, c) => over(c, below), parsed(getComputedStyle(document.body).backgroundColor).slice(0, 3));
  };
  const low = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const e = node.parentElement, style = getComputedStyle(e);
    if (!node.data.trim() || !e.checkVisibility() || parseFloat(style.fontSize) === 0 || e.closest("script, style, title, desc")) continue;
    if (e.closest(".bar-name:not(.out), .symbol")) continue;
    let opacity = 1;
    for (let at = e; at; at = at.parentElement) opacity *= parseFloat(getComputedStyle(at).opacity);
    const back = behind(e), ink = parsed(e.closest("svg") ? style.fill : style.color);
    const front = over([...ink.slice(0, 3), ink[3] * opacity], back), a = light(front), b = light(back);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute("class")}: ${node.data.trim().slice(0, 40)}`);
  }
  return [...new Set(low)].slice(0, 20);
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("chromium"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with an anomaly, proxies, and texts that are too long for their cells."""
    run = with_proxies(write_run(tmp_path_factory.mktemp("run") / "mixed" / "1"))
    pairs = [{"aborted": "delete", "by": "x" * 300, "table": "word " * 90, "because": "time", "count": 3}]
    stats = {"conflicts": {"pairs": pairs}, "spurious": {"judged": 64, "aborted": 64, "spurious": 36}}
    found = undelete(evidence={"cycle": [{"because": "a long reason " * 60, "before": "w0-1"}]})
    write_results(run, False, [Verdict("replay", False, (found,)), Verdict("retries", True, (), stats)])
    return page.write(run)


@pytest.fixture(scope="module")
def pages(written: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """That page, those of a night and of coverage, and the list of a store's runs."""
    folder = tmp_path_factory.mktemp("pages")
    found = {
        "soak": html(night_page.of(test_soak.a_night(folder, test_soak.NEW, test_soak.OLD), test_soak.AGAIN)),
        "coverage": html(coverage_page.of(SOME, "a store", ["run 1: cannot be read"])),
        "runs": serve_pages.runs([], RunFilter(), 1, "store"),
    }
    for name, text in found.items():
        (folder / f"{name}.html").write_text(text)
    return {"run": written, **{name: folder / f"{name}.html" for name in found}}


CUT = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.innerText)"


@pytest.mark.parametrize("width", [1000, 1600])
def test_no_table_of_a_night_is_cut(browser: Browser, tmp_path: Path, width: int) -> None:
    """Neither by names of many dimensions nor by the commands below its rows."""
    again = "/home/me/icequake/icequake run contention --seed 1443252414 --store /home/me/icequake/store --writers 3 --time 20s"
    fast = [replace(c, session="fast", cluster="local") for c in (test_soak.REST, test_soak.JDBC)]
    runs = [replace(x, cell=c, command=again) for x, c in zip((test_soak.NEW, test_soak.OLD), fast, strict=True)]
    night = test_soak.a_night(tmp_path, *runs, cells=tuple(fast))
    names = {"false-failure": 2, "missing-file": 5, "lost-commit": 1, "lost-update": 1}
    before = trend.EarlierNight("before", "2026-11-21T18:00:00", tuple(replace(x, anomalies=names) for x in runs))
    (tmp_path / "soak.html").write_text(html(night_page.of(night, test_soak.AGAIN, [before] * 3)))
    with browser.page(tmp_path / "soak.html", width=width) as shown:
        assert shown.evaluate(CUT) == []


def test_the_table_of_commits_is_whole_on_a_laptop(browser: Browser, tmp_path: Path) -> None:
    made = {"append": 8123, "overwrite": 3456, "delete": 1234, "replace": 345}
    counts = {"data_added": 23456, "data_removed": 12345, "deletes_added": 3456, "deletes_removed": 2345}
    rows = {"rows_added": 123456, "rows_removed": 12345, "live_rows": 111111, "live_by_commit": tuple(range(400))}
    ends = {"first_sequence": 1, "last_sequence": 13158, "complete": False, "captured_s": 3600.0, "problems": 3}
    figures = TableFigures("merge_on_read_v3", 13158, 17, made, metadata=13159, **counts, **rows, **ends)  # type: ignore[arg-type]
    row = over_time._table(figures)
    said = Page(
        "run", "run", Banner("valid", "Valid", ""), [Section("Commits", "c", [Table(over_time._COMMITS, [row])])], {}
    )
    (tmp_path / "run.html").write_text(html(said))
    for width in (1000, 1280):
        with browser.page(tmp_path / "run.html", width=width) as shown:
            assert shown.evaluate(CUT) == []
            assert "17 not on main" in shown.evaluate("document.body.innerText")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["run", "soak", "coverage", "runs"])
def test_a_page_fits_every_width_can_be_read_and_asks_for_nothing(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    written = pages[name]
    with browser.page(written, width=width, dark=dark) as shown:
        shown.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert shown.errors == []
        assert shown.requests == [written.resolve().as_uri()]
        assert shown.evaluate("document.documentElement.scrollWidth") <= width, "the page itself scrolls sideways"
        assert shown.evaluate(LOW_CONTRAST) == []
        tallest = "Math.max(0, ...Array.from(document.querySelectorAll('tr'), r => r.getBoundingClientRect().height))"
        assert shown.evaluate(tallest) < 260, "a long cell clips"


def test_the_facts_of_a_card_stand_beside_it_on_a_wide_screen(browser: Browser, written: Path) -> None:
    place = "(r => [r.left, r.top])(document.querySelector('.beside > :last-child').getBoundingClientRect())"
    above = "document.querySelector('.beside > :first-child').getBoundingClientRect().bottom"
    with browser.page(written, width=1600) as shown:
        left, top = shown.evaluate(place)
        assert left > 1000 and top < shown.evaluate(above)
    with browser.page(written, width=1000) as shown:
        assert shown.evaluate(place)[1] >= shown.evaluate(above)


REACHABLE = "a[href], button, summary, input, select, [tabindex='0']"


def test_the_keyboard_reaches_everything(browser: Browser, written: Path) -> None:
    with browser.page(written) as shown:
        count: Any = shown.evaluate(
            f"""(() => {{ window.seen = new Set();
            addEventListener('focusin', e => seen.add(e.target));
            window.all = Array.from(document.querySelectorAll("{REACHABLE}")).filter(e => e.checkVisibility());
            return all.length; }})()"""
        )
        assert count > 20
        for _ in range(count + 40):  # the browser also stops at what scrolls
            shown.press("Tab", 9)
        left = "all.filter(e => !seen.has(e)).map(e => e.outerHTML.slice(0, 120))"
        assert shown.evaluate(left) == []


def test_who_points_at_an_operation_sees_its_snapshot_and_its_requests(browser: Browser, written: Path) -> None:
    lit = "Array.from(document.querySelectorAll('.card .lit'), e => [e.tagName, e.dataset.op])"
    with browser.page(written) as shown:
        assert shown.evaluate(lit) == []
        shown.point('.row[data-op="w1-0"] .bar')
        found = shown.evaluate(lit)
        assert {op for _, op in found} == {"w1-0"}
        assert [tag for tag, _ in found].count("tr") + [tag for tag, _ in found].count("TR") >= 3
        shown.evaluate("""document.querySelector('.row[data-op="w0-0"]').focus()""")
        assert {op for _, op in shown.evaluate(lit)} == {"w0-0"}, "the keyboard does the same"


CLIPPED = """
Array.from(document.querySelectorAll('.scroll:has(table)')).filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map(e => e.scrollWidth + ' > ' + e.clientWidth + ': ' + Array.from(e.querySelectorAll('th'), t => t.innerText).join(' | '))
"""


@pytest.mark.parametrize("width", [1000, 1600])
def test_no_table_of_a_runs_page_has_a_column_that_one_must_scroll_to(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    """Nine tables, the checkers' figures of each, and the operations of a race, as real runs have them."""
    run = with_proxies(write_run(tmp_path / "mixed" / "1"))
    names = [f"v{v}_{mode}{flat}" for v in (2, 3) for mode in ("cow", "mor") for flat in ("", "_flat")] + ["v2_to_v3"]
    plan = yaml.safe_load((run / "plan.yaml").read_text())
    spec = {
        "format_version": 2,
        "mode": "merge-on-read",
        "isolation": "serializable",
        "partitioned": True,
        "partitions": 4,
    }
    plan["tables"] += [{"name": n, **spec, "properties": {}, "seed_rows": 16} for n in names]
    (run / "plan.yaml").write_text(yaml.safe_dump(plan))
    figures = (
        "dangling position delete files",
        "dropped snapshots",
        "live data files",
        "loose statistics",
        "reused by replace",
    )
    stats = {f"{f} {n}".replace(" ", "_"): 1000 * n for n in (1, 2) for f in figures} | {
        "strongest": "snapshot-isolation"
    }
    lasted = {f"{what} {q}": 12_345 for what in ("read", "write") for q in ("p50", "p90", "p99", "max")} | {
        "acknowledged": 12_345
    }
    found = undelete(ops=("w1-0", "w0-0", "w0-1", "w1-1", "w1-2"), minimal=MinimalHistory(("w0-0", "w1-0"), (7,), True))
    verdicts = [
        Verdict("replay", False, (found,), {"tables": dict.fromkeys(names, stats)}),
        Verdict("liveness", True, (), {"phases": {"main": lasted, "quiesce": lasted, "after the last fault": lasted}}),
    ]
    write_results(run, False, verdicts)
    with browser.page(page.write(run), width=width) as shown:
        assert shown.evaluate(CLIPPED) == []


def test_a_key_and_a_snapshot_filter_the_timeline(browser: Browser, written: Path) -> None:
    left = "Array.from(document.querySelectorAll('.timeline .op:not(.out)'), e => e.id)"
    with browser.page(written) as shown:
        assert len(shown.evaluate(left)) == 5
        shown.point('.card [data-pick="k7"]', click=True)
        assert shown.evaluate(left) == ["op-w0-0", "op-w1-0"]
        shown.evaluate("document.querySelector('.filter input').value = ''")
        shown.evaluate("document.querySelector('.card [data-pick=s100]').click()")
        assert set(shown.evaluate(left)) == {"op-w0-0", "op-w1-0", "op-w1-2"}
        assert "3 of 5" in shown.evaluate("document.querySelector('.filter').textContent")


def test_who_copies_a_short_id_copies_all_of_it(browser: Browser, written: Path) -> None:
    copied = """(() => { const id = document.createElement('span'); id.className = 'id'; id.innerHTML = '260114<i>6157855945355</i>';
        document.querySelector('.why').append(id); getSelection().selectAllChildren(id);
        return [getSelection().toString(), id.getBoundingClientRect().width < 80]; })()"""
    with browser.page(written) as shown:
        assert shown.evaluate(copied) == ["2601146157855945355", True]


def test_without_scripts_everything_is_there(browser: Browser, written: Path) -> None:
    with browser.page(written, scripts=False) as shown:
        assert shown.errors == [] and shown.evaluate("document.querySelector('.filter') === null")
        text = shown.evaluate("document.body.innerText")
        for said in ("did not delete id 7", "UPDATE orders SET val", "36 of 64 aborts were spurious", "w1-2"):
            assert said in text, said


@pytest.mark.slow
def test_the_page_of_ten_thousand_operations_opens(browser: Browser, tmp_path: Path) -> None:
    text = page.render(many(10_000, {"ids": [1, 2, 3]}))
    assert len(text.encode()) <= 3_000_000
    (tmp_path / "report.html").write_text(text)
    with browser.page(tmp_path / "report.html", width=1600) as shown:
        assert shown.errors == [] and len(shown.requests) == 1
        assert shown.evaluate("document.querySelectorAll('.timeline .op').length") == 2000


BROKEN = """
(() => {
  const broken = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (!node.parentElement.closest("td, th") || !node.parentElement.checkVisibility()) continue;
    for (const word of node.data.matchAll(/[A-Za-z]{2,20}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) broken.push(word[0]);
    }
  }
  return broken;
})()
"""
"""Words of tables that stand on two lines."""


def test_no_word_of_a_table_of_a_night_is_broken_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    """What is too long for its column scrolls instead; only what is no word, such as a path, goes on in the next line anywhere."""
    lost = replace(test_soak.LOST, counts={"lost-commit": 2, "nonmonotonic-read": 3, "lost-metadata-change": 1})
    run = replace(test_soak.TOLD, happened=(lost,), command="icequake run contention --seed 1443252414 --time 20s")
    night = test_soak.a_night(tmp_path, run, test_soak.OLD)
    before = trend.EarlierNight("before", "2026-11-21T18:00:00", (run,))
    (tmp_path / "soak.html").write_text(html(night_page.of(night, test_soak.AGAIN, [before] * 3)))
    with browser.page(tmp_path / "soak.html", width=420) as shown:
        shown.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert shown.evaluate(BROKEN) == []
