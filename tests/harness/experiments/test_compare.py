"""The comparison: what a run measures, when a difference is more than noise, what is kept, and what the page and the words say."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from checkers.costs.comparison import Comparison, Contender, ContenderRun, ContenderScore, Spread, apart, chance
from checkers.costs.measures import FIGURES, FaultMeasured, Measures, measure
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History
from checkers.evidence.plan import PlannedCatalog
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.judge.runfolder import Results
from checkers.retries import Retries
from checkers.verdict import Anomaly, Verdict
from compose.external.external import External
from harness.cli.compare import _common
from harness.cli.publish import publish
from harness.experiments import compare
from harness.run.plan import catalog_of_plan
from harness.run.resolve import read_workload
from reports.compare import page, words
from reports.drawing.render import NARROWEST, html, terminal, write
from tests.harness.cli.test_cli import last_line
from tests.reports.test_report import HOSTILE, commit, log_of
from tests.support.runs import ROOT, Silent, inside
from workloads.file.workload import LIBRARY, OperationSpec, Workload
from workloads.tables import TableSpec

MS = 1_000_000
CONFLICT = [["org.apache.iceberg.exceptions.ValidationException", "Found conflicting files"]]

# --- what a run measures ----------------------------------------------------------------------------------------------

Line = tuple[float, str, int, str, str, str]
"""(ms, type, process, f, op, phase)"""


def drawn(lines: Iterable[Line], faults: Iterable[tuple[float, str, Any]] = ()) -> History:
    """Operations on table ``t``, and what the nemesis wrote: (ms, f, value)."""
    raw: list[tuple[float, dict[str, Any]]] = []
    for at, type_, process, f, op, phase in lines:
        extra = {"phase": phase} if type_ == "invoke" else {}
        error = CONFLICT if type_ == "fail" else None
        raw.append(
            (at, {"type": type_, "process": process, "f": f, "table": "t", "op": op, "error": error, "extra": extra})
        )
    raw += [(at, {"type": "info", "process": "nemesis", "f": f, "value": value}) for at, f, value in faults]
    raw.sort(key=lambda e: e[0])
    return History({"format": 1, "writers": 2}, tuple(Event(n, int(at * MS), **e) for n, (at, e) in enumerate(raw)))


LINES: list[Line] = [
    (0, "invoke", 0, "insert", "w0-0", "setup"),
    (100, "ok", 0, "insert", "w0-0", "setup"),
    (1000, "invoke", 0, "insert", "w0-1", "main"),
    (1100, "ok", 0, "insert", "w0-1", "main"),
    (1000, "invoke", 1, "delete", "w1-0", "main"),
    (1400, "fail", 1, "delete", "w1-0", "main"),
    (2000, "invoke", 1, "read", "w1-1", "main"),
    (2030, "ok", 1, "read", "w1-1", "main"),
    (2000, "invoke", 0, "insert", "w0-2", "main"),
    (2500, "ok", 0, "insert", "w0-2", "main"),
    (3000, "invoke", 1, "delete", "w1-2", "main"),  # of nothing: no snapshot
    (3200, "ok", 1, "delete", "w1-2", "main"),
    (3000, "invoke", 2, "rewrite-manifests", "w2-0", "nemesis"),
    (3900, "ok", 2, "rewrite-manifests", "w2-0", "nemesis"),
    (4000, "invoke", 0, "insert", "w0-3", "main"),
    (5000, "info", 0, "insert", "w0-3", "main"),
    (8000, "invoke", 1, "read", "w1-3", "final-reads"),
    (9000, "ok", 1, "read", "w1-3", "final-reads"),
]
COMMITS = tuple(
    commit(n, op, at, attempt=attempt)
    for n, (op, at, attempt) in enumerate([("w0-0", 90, 1), ("w0-1", 1090, 1), ("w0-2", 2490, 3), ("w2-0", 3800, 1)], 1)
)


def measured(
    faults: Iterable[tuple[float, str, Any]] = (), passed: Iterable[Mapping[str, Any]] = (), lines: list[Line] = LINES
) -> Measures:
    """Of the run that is drawn above."""
    evidence = Evidence(drawn(lines, faults), {"t": log_of("t", COMMITS)}, {"t": TableSpec(name="t")})
    return measure(evidence, check(evidence, [Retries()]), passed)


def test_only_the_workloads_operations_count_and_only_acknowledged_snapshots_are_commits() -> None:
    m = measured()
    assert (m.operations, m.commits, m.seconds) == (6, 2, 4.0)
    assert m.kinds == {"insert": (2, 0, 1), "delete": (1, 1, 0), "read": (1, 0, 0)}
    assert m.figures["commits_per_s"] == 0.5 and m.figures["operations_per_s"] == 1.0
    assert m.figures["aborted"] == 0.2 and m.figures["unknown"] == pytest.approx(1 / 6, abs=1e-5)


def test_latency_is_of_acknowledged_operations_reads_and_writes_apart() -> None:
    m = measured()
    assert [m.figures[f"write_p{q}_ms"] for q in (50, 95, 99)] == [200, 500, 500]
    assert [m.figures[f"read_p{q}_ms"] for q in (50, 95, 99)] == [30, 30, 30]


def test_retries_come_from_their_checker() -> None:
    m = measured()
    assert m.figures["retried"] == pytest.approx(1 / 3, abs=1e-5)  # of the nemesis' commit and two of the workload's
    assert m.figures["retry_success"] == 0.5
    assert m.figures["wasted"] == pytest.approx(0.4 / (0.1 + 0.4 + 0.03 + 0.5 + 0.2 + 0.9 + 1.0), abs=1e-3)


PARTITION = {"name": "partition", "fault": {"verb": "partition", "request": "any", "writers": [0]}}
KILL = {"name": "kill catalog", "fault": {"verb": "kill", "target": "catalog"}}


@pytest.mark.parametrize(
    ("start", "stop", "recoveries", "never"),
    [
        # Writer 0 acknowledges at 1100 and 2500, writer 1 at 3200.
        ((1050, PARTITION), (1150, {"hits": {"commit": 1}}), (1.35,), 0),
        ((1050, KILL), (2600, {"hits": {"process": 1}, "struck": "rest"}), (0.6,), 0),
        ((1050, PARTITION), (2600, {"hits": {"commit": 1}}), (), 1),  # writer 0 never again
        ((1050, PARTITION), (1150, {"hits": {}}), (), 0),  # it struck nothing
        ((1050, KILL), (5500, {"hits": {"process": 1}}), (), 0),  # nobody worked any more
        ((1050, {"name": "m", "fault": {"verb": "maintain", "do": "upgrade"}}), (1150, {"hits": {"x": 1}}), (), 0),
    ],
)
def test_recovery_is_from_the_end_of_a_fault_to_the_next_write_of_a_writer_that_it_concerned(
    start: tuple[float, dict[str, Any]],
    stop: tuple[float, dict[str, Any]],
    recoveries: tuple[float, ...],
    never: int,
) -> None:
    name = start[1]["name"]
    m = measured([(start[0], "start-x", start[1]), (stop[0], "stop-x", {"name": name, **stop[1]})])
    assert (m.faults[name].recoveries, m.faults[name].never) == (recoveries, never)
    assert m.figures["recovery_max_s"] == (max(recoveries) if recoveries else None)


def test_a_fault_says_what_it_was_aimed_at_and_whom_it_struck() -> None:
    faults = [
        (1000, "start-kill-catalog", KILL),
        (1150, "stop-kill-catalog", {"name": "kill catalog", "hits": {"process": 1}, "missed": 0, "struck": "rest"}),
        (1200, "start-partition", PARTITION),
        (1300, "stop-partition", {"name": "partition", "hits": {"load": 2, "commit": 1}, "missed": 1}),
        (1400, "heal", None),
    ]
    found = measured(faults).faults
    assert found["kill catalog"] == FaultMeasured(1, 1, "process catalog", ("rest",), (1.35,))
    assert (found["partition"].hits, found["partition"].on) == (3, "catalog")


def request(service: str, kind: str, at: float, op: str | None = None, ms: float = 5, **more: Any) -> dict[str, Any]:
    """Of the writer whose operation it is; of nobody knows whom when it is of none."""
    by = {} if op is None else {"op": op, "writer": int(op[1])}
    return {"service": service, "kind": kind, "time": int(at * MS), "ms": ms, **by, **more}


def test_requests_are_those_of_writes_and_of_the_servers_database_while_the_phases_go_on() -> None:
    passed = [
        request("catalog", "commit", 50, "w0-0"),  # setup
        request("catalog", "load", 1010, "w0-1"),
        request("catalog", "commit", 1080, "w0-1", ms=10),
        request("catalog", "load", 2010, "w1-1"),  # a read's
        request("catalog", "commit", 1350, "w1-0", ms=30),  # of a write that failed
        request("catalog", "commit", 2450, "w0-2", ms=900, faults=["delay"]),
        request("store", "write", 1050, "w0-1"),
        request("database", "load", 500),
        *(request("database", "load", at) for at in (1010, 2010, 4900)),
        request("database", "load", 8500),
    ]
    m = measured(passed=passed)
    cost = [m.figures[k] for k in ("catalog_requests", "store_requests", "database_requests")]
    assert cost == [2.0, 0.5, 1.5]  # of two commits
    assert (m.figures["commit_p50_ms"], m.figures["commit_p95_ms"]) == (10, 30)
    assert m.requests == {"catalog commit": 1.5, "catalog load": 0.5, "database load": 1.5, "store write": 0.5}


def test_what_passes_no_proxy_is_not_measured_instead_of_zero() -> None:
    assert measured().figures["catalog_requests"] is None
    m = measured(passed=[request("store", "write", 1050, "w0-1")])
    assert m.figures["catalog_requests"] is None and m.figures["store_requests"] == 0.5
    assert m.figures["commit_p50_ms"] is None


def test_requests_to_a_store_that_all_share_are_nobodys() -> None:
    m = measured(passed=[request("store", "write", at) for at in (50, 1050, 2010)])
    assert m.figures["store_requests"] is None and m.requests == {"store of all write": 1.0}


def test_an_anomaly_that_only_confirms_another_is_not_counted() -> None:
    evidence = Evidence(drawn(LINES), {"t": log_of("t", COMMITS)}, {"t": TableSpec(name="t")})
    undelete = Anomaly("undelete", "replay", "t", "…", documented="https://x")
    confirms = Anomaly("lost-update", "isolation", "t", "…", same_as="undelete")
    alone = Anomaly("stale-read", "reads", "t", "…", same_as="something else")
    results = Results(
        (Verdict("replay", False, (undelete, undelete)), Verdict("isolation", False, (confirms, alone))), False
    )
    m = measure(evidence, results, ())
    assert (m.valid, m.anomalies, m.documented) == (False, {"undelete": 2, "stale-read": 1}, ("undelete",))


def test_a_run_without_operations_has_no_numbers() -> None:
    m = measured(lines=[])
    assert m.operations == 0 and all(v is None for k, v in m.figures.items() if k != "retried")


def test_measures_survive_their_file() -> None:
    m = measured([(1000, "start-x", KILL), (1100, "stop-x", {"name": "kill", "hits": {"process": 1}})])
    assert m.faults
    assert Measures.from_json(json.loads(json.dumps(m.to_json()))) == m


# --- noise ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        ((1, 2, 3), (4, 5, 6), True),
        ((4, 5, 6), (1, 2, 3), True),
        ((1, 2, 3), (3, 4, 5), False),  # they touch
        ((1, 2, 9), (4, 5, 6), False),
        ((1, 2), (4, 5, 6), None),
        ((1,), (9,), None),
        ((2, 2, 2), (2, 2, 2), False),
    ],
)
def test_ranges_that_do_not_overlap_are_more_than_noise(
    one: tuple[float, ...], other: tuple[float, ...], says: bool | None
) -> None:
    assert apart(Spread(one), Spread(other)) is says


@pytest.mark.parametrize(("n", "m"), [(3, 3), (3, 5), (4, 4), (5, 5)])
def test_chance_is_the_share_of_all_orders_in_which_the_ranges_do_not_overlap(n: int, m: int) -> None:
    every = list(combinations(range(n + m), n))
    of_them = sum(
        apart(Spread(ranks), Spread(tuple(k for k in range(n + m) if k not in ranks))) is True for ranks in every
    )
    assert chance(n, m) == pytest.approx(of_them / len(every))


# --- side by side -----------------------------------------------------------------------------------------------------

REST, JDBC = Contender("rest", "1.12.0"), Contender("jdbc", "1.12.0")
EMPTY = Measures(True, {}, (), 60.0, 100, 40, {"insert": (40, 5, 1), "read": (54, 0, 0)}, {})


def ran(contender: Contender, seed: int, measures: Measures = EMPTY, **figures: float) -> ContenderRun:
    started = f"2026-01-01T00:00:{seed:02d}+00:00"
    return ContenderRun(
        contender,
        seed,
        started,
        f"../w/{contender.catalog}-{seed}",
        replace(measures, figures=figures),
        catalog=catalog_of_plan(contender.catalog, External()),
    )


def comparison(*runs: ContenderRun, nemesis: bool = True, parallel: int = 1) -> Comparison:
    spec: dict[str, Any] = {"workload": "w", "tables": [{"name": "t"}], **({"nemesis": {}} if nemesis else {})}
    if nemesis:
        spec["nemesis"] = {"packages": ["crashes"]}
    contenders = tuple(dict.fromkeys(r.contender for r in runs))
    seeds = tuple(sorted({r.seed for r in runs}))
    return Comparison({"format": 1, "workload": spec, "parallel": parallel}, contenders, seeds, runs)


def three(contender: Contender, key: str, *values: float) -> list[ContenderRun]:
    return [ran(contender, seed, **{key: v}) for seed, v in enumerate(values, 1)]


def figure(key: str) -> Any:
    return next(f for f in FIGURES if f.key == key)


@pytest.mark.parametrize(
    ("key", "mine", "first", "says"),
    [
        ("write_p50_ms", (1, 2, 3), (4, 5, 6), "better"),
        ("write_p50_ms", (4, 5, 6), (1, 2, 3), "worse"),
        ("commits_per_s", (1, 2, 3), (4, 5, 6), "worse"),  # more is better
        ("commits_per_s", (1, 2, 5), (4, 5, 6), "noise"),
        ("commits_per_s", (1,), (4,), "too few"),
    ],
)
def test_a_number_is_held_against_the_first_contenders(
    key: str, mine: tuple[float, ...], first: tuple[float, ...], says: str
) -> None:
    c = comparison(*three(REST, key, *first), *three(JDBC, key, *mine))
    assert c.cell(figure(key), JDBC).against == says
    assert c.cell(figure(key), REST).against == "first"
    assert c.cell(figure("unknown"), JDBC) == ContenderScore(None, "missing")


def test_what_chance_alone_gives_is_counted_over_all_pairs_of_numbers() -> None:
    other = Contender("rest", "1.11.0")
    runs = [ran(x, seed, write_p50_ms=1, unknown=0.1) for x in (REST, JDBC, other) for seed in (1, 2, 3)]
    count, expected = comparison(*runs).by_chance
    assert (count, round(expected, 9)) == (4, 0.4)


def test_a_contender_is_called_by_what_tells_it_from_the_others() -> None:
    old = Contender("rest", "1.10.1")
    assert [c.label(x) for c in [comparison(ran(REST, 1), ran(JDBC, 1))] for x in (REST, JDBC)] == ["rest", "jdbc"]
    assert [c.label(x) for c in [comparison(ran(REST, 1), ran(old, 1))] for x in (REST, old)] == ["1.12.0", "1.10.1"]
    assert comparison(ran(REST, 1), ran(old, 1), ran(JDBC, 1)).label(old) == "rest 1.10.1"


BROKEN = replace(EMPTY, valid=False, anomalies={"lost-commit": 2})


def test_the_verdict_is_the_worst_and_what_could_not_run_is_unknown() -> None:
    assert comparison(ran(REST, 1), ran(JDBC, 1)).verdict is True
    assert comparison(ran(REST, 1), ran(JDBC, 1, measures=BROKEN)).verdict is False
    missing = ContenderRun(JDBC, 1, reason="no Java")
    assert comparison(ran(REST, 1), missing).verdict == "unknown"
    assert comparison(ran(REST, 1, measures=BROKEN), missing).verdict is False


# --- what is kept -----------------------------------------------------------------------------------------------------

SPEC = Workload.model_validate(
    {
        "workload": "small",
        "tables": [{"name": "t", "format_version": 3}],
        "length": {"ops": 3},
        "operations": {"insert": 1},
    }
)


def order(contenders: Sequence[Contender], seeds: Sequence[int], spec: Workload = SPEC) -> compare.ComparisonPlan:
    return compare.ComparisonPlan(spec, tuple(contenders), tuple(seeds), lambda c, s: f"icequake run {c.catalog} {s}")


def whole(into: Path, o: compare.ComparisonPlan) -> compare.Compare:
    return compare.Compare(o, into, into / "store", Silent(), publish)


def test_the_order_of_contenders_is_turned_round_from_seed_to_seed() -> None:
    turns = order([REST, JDBC], [5, 6, 7]).turns()
    assert turns == [(REST, 5), (JDBC, 5), (JDBC, 6), (REST, 6), (REST, 7), (JDBC, 7)]


def kept(into: Path, *runs: ContenderRun, spec: Workload = SPEC, tail: str = "") -> None:
    into.mkdir(exist_ok=True)
    lines = [json.dumps({"format": 1, **order([], [], spec).header()}), *(json.dumps(r.to_json()) for r in runs)]
    (into / "runs.jsonl").write_text("\n".join(lines) + "\n" + tail)


def test_what_was_measured_is_not_measured_again_and_a_torn_line_is_dropped(tmp_path: Path) -> None:
    there = [ran(REST, 1, unknown=0.5), ran(JDBC, 1, unknown=0.25)]
    kept(tmp_path, *there, tail='{"catalog": "rest", "iceb')
    c = whole(tmp_path, order([REST, JDBC], [1])).measure()
    assert c.runs == tuple(there) and not (tmp_path / "store").exists()
    assert compare.read(tmp_path / "runs.jsonl")[1] == there
    assert (tmp_path / "runs.jsonl").read_text().endswith("}\n")


def test_a_contender_that_cannot_run_is_a_row_with_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    old = Contender("rest", "1.8.1")  # cannot write the table's format version
    kept(tmp_path, *(ran(REST, seed, unknown=0.5) for seed in (1, 2)))
    c = whole(tmp_path, order([old, REST], [1, 2])).measure()
    assert c.measured(REST) and not c.measured(old) and c.verdict == "unknown"
    assert "format version 2 at most" in (c.reason(old) or "")
    assert [r.seed for r in c.of(old)] == [1, 2]
    assert any("format version 2 at most" in text for text in words.untested(c))
    # It is tried again when called again: what was missing may be there.
    assert len(compare.read(tmp_path / "runs.jsonl")[1]) == 4
    whole(tmp_path, order([old, REST], [1, 2])).measure()
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 1 + 4 + 2


def test_a_catalog_that_has_no_endpoint_for_transactions_is_a_row_with_its_reason(tmp_path: Path) -> None:
    asked = order([JDBC], [1])
    mix = {"insert-by-transaction": OperationSpec()}
    c = whole(tmp_path, replace(asked, workload=asked.workload.model_copy(update={"operations": mix}))).measure()
    assert c.reason(JDBC) == (
        "insert-by-transaction commit by an endpoint of REST catalogs, and jdbc is none; use rest, nessie, polaris, the file of a REST "
        "catalog of yours, or the kinds without -by-transaction"
    )


def test_a_catalog_of_the_users_that_does_not_answer_is_a_row_without_its_secrets(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\nspark: {type: rest, uri: 'http://127.0.0.1:9', token: geheim-123, warehouse: 's3://w'}\n"
    )
    mine = Contender(str(file), "1.12.0")
    kept(tmp_path, ran(REST, 1))
    c = whole(tmp_path, order([REST, mine], [1])).measure()
    reason = c.reason(mine) or ""
    assert "127.0.0.1:9" in reason and "geheim" not in (tmp_path / "runs.jsonl").read_text()
    assert c.measured(REST) and c.verdict == "unknown" and "mine.yaml" in html(page.of(c))


def test_another_workload_in_the_same_folder_is_refused_with_what_differs(tmp_path: Path) -> None:
    kept(tmp_path, ran(REST, 1))
    other = SPEC.model_copy(update={"engines": ("spark",) * 2})
    with pytest.raises(compare.CompareError, match=r"another workload\.writers .*; give another one with --into"):
        whole(tmp_path, order([REST, JDBC], [1], other)).measure()
    # The catalog that the file names does not matter: the comparison says which.
    assert order([], [], SPEC.model_copy(update={"catalog": "jdbc"})).header() == order([], []).header()


@pytest.mark.parametrize("text", ["", "[]\n", '{"format": 9}\n', '{"format": 1}\n{"catalog": 1}\n', "\x00\n"])
def test_a_file_that_is_no_comparison_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs.jsonl").write_text(text)
    with pytest.raises(compare.CompareError, match=r"runs\.jsonl:[12]: not (the journal|a run) of a comparison"):
        compare.read(tmp_path / "runs.jsonl")


# --- page and words ---------------------------------------------------------------------------------------------------


def told() -> Comparison:
    """Three seeds: jdbc asks its catalog less, is as fast, and lost commits in one run."""
    faults = {
        "kill catalog": FaultMeasured(2, 2, "process catalog", ("postgres",), (0.5, 1.5)),
        "stale of load": FaultMeasured(1, 0, "catalog"),
        "partition": FaultMeasured(1, 1, "catalog", never=1),
    }
    runs = []
    for seed in (1, 2, 3):
        for x, asks in ((REST, 5.0), (JDBC, 2.0)):
            broken = x == JDBC and seed == 2
            m = replace(BROKEN if broken else EMPTY, faults=faults, requests={"catalog load": asks})
            runs.append(
                ran(x, seed, m, catalog_requests=asks + seed / 10, write_p50_ms=500 + seed, write_p95_ms=900,
                    write_p99_ms=1500, recovery_median_s=1.0, recovery_max_s=1.5)
            )  # fmt: skip
    return comparison(*runs)


def test_the_words_say_what_to_expect_and_what_differs() -> None:
    c = told()
    rest, jdbc = (words.expectation(c, x) for x in (REST, JDBC))
    assert rest.startswith("rest: no broken promise in 3 runs. A write takes 502 ms (501 ms to 503 ms) at the median")
    assert jdbc.startswith("jdbc: broken promises in 3 runs: lost-commit ×2 in 1 of 3 runs.")
    assert "A commit costs 2.20 (2.10 to 2.30) requests to the catalog." in jdbc
    difference, rule = words.differences(c)
    assert difference == (
        "jdbc against rest, by more than noise. Better: cost of a commit, requests to the catalog: 2.20 instead of 5.20. "
        "For 5 other numbers no difference goes beyond noise."
    )
    assert "10.0 % of cases with 3 runs each, so for the 6 pairs of numbers on this page about 0.6 times" in rule


def test_the_terminals_lines_part_no_number_from_its_unit() -> None:
    for line in (part for part in terminal(page.of(told())) if isinstance(part, str)):
        assert len(line) <= NARROWEST and line.split()[:1] not in (["ms"], ["s"], ["%"])


def test_one_run_each_separates_nothing() -> None:
    c = comparison(ran(REST, 1, unknown=0.0), ran(JDBC, 1, unknown=0.9))
    assert words.differences(c) == [
        "One run each: no difference can be told from noise. --seeds 3 can (10.0 % by chance alone), --seeds 5 better (0.8 %)."
    ]


def test_what_was_not_tested_follows_from_what_ran() -> None:
    text = " ".join(words.untested(told()))
    for part in (
        "each contender ran 3 times, each time with another seed and for 60 s, with",
        "rest: these faults were active but struck nothing: stale of load.",
        "rest: never killed, stopped or restarted: rest, minio.",
        "jdbc: never killed, stopped or restarted: minio.",
        "jdbc: after 3 faults no write was acknowledged",
        "rest: a run had only 40 acknowledged writes",
        "merge-upsert",
        "over loopback",
    ):
        assert part in text, part
    assert "none was injected" not in text and "at the same time" not in text
    calm = " ".join(words.untested(comparison(ran(REST, 1), ran(JDBC, 1), nemesis=False, parallel=2)))
    assert "Faults: none was injected" in calm and "2 runs went on at the same time" in calm


def test_the_page_links_every_run_and_lets_nothing_from_outside_break_out() -> None:
    bad = Contender(HOSTILE, HOSTILE)
    runs = [
        *told().runs,
        ContenderRun(bad, 1, HOSTILE, HOSTILE, reason=HOSTILE, command=HOSTILE, versions={HOSTILE: HOSTILE}),
    ]
    text = html(page.of(comparison(*runs), HOSTILE))
    assert "<img" not in text and "\u202e" not in text and "{{ 7 * 7 }}" in text
    assert 'href="../w/jdbc-2/report.html"' in text and "✕ 2" in text
    assert "http" not in text.replace("http-equiv", "")  # self-contained
    for part in (
        "▲",
        "Latency of acknowledged writes",
        "Anomalies on 1 of 2: jdbc",
        "lost-commit",
        "5.10 – 5.30",
        "kill catalog",
        "500 ms, at most 1.5 s",
    ):
        assert part in text, part


def test_a_format_without_a_catalog_is_not_said_to_have_one() -> None:
    iceberg, delta = (Contender("rest", "1.12.0", (), (("format", f),)) for f in ("iceberg", "delta"))
    entry = PlannedCatalog(name="rest", summary="a server of its own")
    text = html(page.of(comparison(*(replace(ran(c, 1), catalog=entry) for c in (iceberg, delta)))))
    assert text.count("a server of its own") == text.count(page.NO_CATALOG) == 1


def test_a_page_of_nothing_and_one_of_many_can_be_written(tmp_path: Path) -> None:
    nothing = Comparison({"format": 1}, (REST, JDBC), (1,), ())
    assert "Nothing was measured" in write(page.of(nothing), tmp_path).read_text()
    many = [
        ran(Contender(f"catalog-{n}", "1.12.0"), seed, write_p50_ms=n + 1, write_p95_ms=n + 2, write_p99_ms=n + 3)
        for n in range(12)
        for seed in (1, 2, 3)
    ]
    written = write(page.of(comparison(*many), "icequake compare"), tmp_path)
    assert written.read_text().count("catalog-11") > 3 and os.path.getsize(written) < 400_000
    found = json.loads((tmp_path / "compare.json").read_text())
    assert found["valid"] is True and len(found["contenders"]) == 12 and len(found["runs"]) == 36
    first, last = found["contenders"][0], found["contenders"][-1]
    assert last["figures"]["write_p50_ms"] == {
        "median": 12, "low": 12, "high": 12, "values": [12, 12, 12], "unit": "ms", "against_first": "worse",
    }  # fmt: skip
    assert first["kinds"]["insert"] == {"ok": 120, "fail": 15, "info": 3}


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["quick"], "give at least two catalogs, releases, engines, formats or values of a parameter"),
        (
            ["quick", "--catalog", "rest"],
            "give at least two catalogs, releases, engines, formats or values of a parameter",
        ),
        (
            ["quick", "--engine", "spark"],
            "give at least two catalogs, releases, engines, formats or values of a parameter",
        ),
        (["quick", "--engine", "spark,dukdb"], "unknown engine 'dukdb' (did you mean duckdb?)"),
        (["quick", "--engine", "spark,duckdb", "--catalog", "jdbc"], "DuckDB cannot reach the catalog jdbc"),
        (["quick", "--catalog", "rest,jdcb"], "did you mean jdbc?"),
        (["quick", "--catalog", "rest,rest"], "rest is given twice"),
        (["quick", "--catalog", "rest,,jdbc"], "give names separated by commas"),
        (["quick", "--iceberg", "1.12.0,1.13"], "no Iceberg release '1.13'"),
        (["quick", "--catalog", "rest,jdbc", "--seeds", "0"], "must be at least 1"),
        (["quick", "--catalog", "rest,jdbc", "--time", "soon"], "must be a length of time"),
        (["nothing", "--catalog", "rest,jdbc"], "nothing"),
        (["quick", "--catalog", "rest,jdbc", "--into", "file"], "file is no folder; give a folder that can be written"),
    ],
)
def test_bad_arguments_are_one_line_and_254(arguments: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = inside("compare", *arguments, cwd=tmp_path)
    assert done.returncode == 254, done.stdout + done.stderr
    assert says in last_line(done.stderr)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(("second", "code"), [(EMPTY, 0), (BROKEN, 1), (replace(EMPTY, valid="unknown"), 2)])
def test_a_comparison_that_is_whole_is_shown_again_with_its_exit_code(
    tmp_path: Path, second: Measures, code: int
) -> None:
    (tmp_path / "small.yaml").write_text(
        "workload: small\ntables: [{name: t, format_version: 3}]\nlength: {ops: 3}\noperations: {insert: 1}\n"
    )
    kept(tmp_path / "c", ran(REST, 7, commits_per_s=4.0), ran(JDBC, 7, second, commits_per_s=2.0))
    done = inside(
        "compare", tmp_path / "small.yaml", "--catalog", "rest,jdbc", "--into", tmp_path / "c", "--store",
        tmp_path / "store", "--json", tmp_path / "all.json", "--quiet", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "4.00/s" in done.stdout and "--seeds 1 --seed 7" in done.stdout
    assert (tmp_path / "c" / "compare.html").exists()
    assert (tmp_path / "all.json").read_text() == (tmp_path / "c" / "compare.json").read_text()


def test_the_workload_that_is_for_comparing_has_a_length_that_six_catalogs_can_run_in_half_an_hour() -> None:
    from workloads.file import workload_text

    length = workload_text.load(ROOT / "workloads" / "mixed.yaml").length
    assert length is not None and length.time is not None
    assert 6 * (length.time + 60) <= 30 * 60


def test_operations_that_an_engine_cannot_do_are_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    spec = read_workload(LIBRARY / "quick.yaml").workload
    kinds = _common(spec, [("spark",), ("duckdb",), ("spark", "duckdb")])
    said = capsys.readouterr().err
    assert "insert" in kinds and "delete" not in kinds and "rewrite-manifests" not in kinds
    assert said.startswith("icequake: warning: left out, because these engines cannot do it on every table of quick: ")
    assert "delete (duckdb)" in said and "rewrite-manifests (duckdb)" in said and "insert (" not in said
    assert len(said.splitlines()) == 1
    alone = _common(spec, [("spark",)])
    assert {*kinds} < {*alone} and not capsys.readouterr().err


# --- engines ----------------------------------------------------------------------------------------------------------


def test_the_writers_are_the_contender_s_engines_in_turn() -> None:
    spec = SPEC.model_copy(update={"engines": ("spark",) * 5})
    assert compare.engaged(spec, Contender("rest", "1.12.0", ("spark", "duckdb"))).engines == (
        "spark",
        "duckdb",
        "spark",
        "duckdb",
        "spark",
    )
    assert compare.engaged(spec, REST) == spec


def test_engines_are_told_apart_and_what_to_expect_of_each_pair_is_said() -> None:
    measures = replace(EMPTY, kinds={"insert": (9, 0, 0), "delete": (9, 0, 0), "read": (9, 0, 0)})
    teams: list[tuple[str, ...]] = [("spark",), ("duckdb",), ("spark", "duckdb")]
    contenders = tuple(Contender("rest", "1.12.0", team) for team in teams)
    spec = SPEC.model_copy(update={"tables": (TableSpec(name="t", mode="merge-on-read"),)})
    runs = tuple(ran(x, 1, measures) for x in contenders)
    assert [ContenderRun.from_json(json.loads(json.dumps(r.to_json()))).contender for r in runs] == list(contenders)
    c = Comparison(order(contenders, [1], spec).header(), contenders, (1,), runs)
    assert [c.label(x) for x in contenders] == ["spark", "duckdb", "spark + duckdb"]
    said = words.of_engines(c)
    assert "DuckDB promises serializable for delete, insert; serializable reads for read." in said
    assert "If Spark commits to the same row first, DuckDB's operations end so: aborted: delete, insert." in said, said
    assert any(s.startswith("If DuckDB commits to the same row first, Spark's operations end so: ") for s in said)
    assert words.of_engines(told()) == []
