"""What commits cost in attempts: retries, phases, waste, fairness, and who made whom retry."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.costs.attempts import Beaten, CommitsMeasured, Quantiles, merged
from checkers.costs.measures import FIGURES, Measures
from checkers.evidence.history import HistoryError
from tests.support.committers import Committers, attempt, simulated

MS = 1_000_000


def race(*, recorded: bool = True) -> Committers:
    """Three writers on one pointer: w0 wins at once, w1 after w0, w2 after w0 and w1; then w1 commits alone."""
    c = Committers()
    refused = attempt("refused", "cold")
    c.did("w0-0", 0, 100, [attempt(parent="cold", data_ms=60)] if recorded else None)
    again = attempt(wait_ms=10)
    c.did("w1-0", 0, 140, [attempt("refused", "cold", data_ms=50), again] if recorded else None, tries=2)
    thrice = [refused, attempt("refused", wait_ms=10), attempt(wait_ms=20)]
    c.did("w2-0", 5, 195, thrice if recorded else None, tries=3)
    c.did("w1-1", 200, 220, [attempt()] if recorded else None)
    return c


def committing(c: Committers, passed: Any = ()) -> CommitsMeasured:
    """What is measured of its commits."""
    m = c.measures(passed).attempts
    assert m is not None
    return m


def test_commits_are_counted_by_their_retries() -> None:
    m = committing(race())
    assert m.retries == {0: 2, 1: 1, 2: 1}
    assert (m.commits, m.retried, m.retries_mean, m.retries_of_retried, m.many) == (4, 0.5, 0.75, 1.5, 0)
    assert (m.met, m.aborted, m.success) == (2, 0, 1.0)


def test_eight_retries_are_the_long_tail() -> None:
    c = Committers()
    c.did("w0-0", 0, 500, [attempt("refused")] * 7 + [attempt()])
    c.did("w1-0", 0, 600, [attempt("refused")] * 8 + [attempt()])
    c.did("w2-0", 0, 700, [attempt("refused")] * 20 + [attempt()])
    c.did("w2-1", 700, 720, [attempt()])
    assert committing(c).many == 0.5
    assert c.measures().figures["retries_8"] == 0.5


def test_whoever_was_current_when_an_attempt_was_refused_made_it_retry() -> None:
    m = committing(race())
    assert m.beaten_writers == {"w1": {"w0": 1}, "w2": {"w0": 1, "w1": 1}}
    assert m.beaten == (Beaten("insert", "insert", 3, 0),)
    assert m.unexplained == 0


def test_a_refusal_before_any_commit_has_no_cause_in_the_log() -> None:
    c = Committers()
    c.did("w0-0", 0, 20, [attempt("refused")], type="fail")
    c.did("w1-0", 100, 120, [attempt()])
    assert (committing(c).beaten, committing(c).unexplained) == ((), 1)


def test_a_commit_that_was_answered_after_the_refusal_is_its_cause_if_it_was_under_way() -> None:
    c = Committers()
    c.did("w0-0", 0, 130, [attempt(swap_ms=100)])  # its request is under way from 30 on
    c.did("w1-0", 80, 110, [attempt("refused", swap_ms=18)], type="fail")
    assert committing(c).beaten_writers == {"w1": {"w0": 1}}


def test_commit_requests_that_passed_a_proxy_say_when_an_attempt_was_refused() -> None:
    """By its completion alone, w1's first attempt was refused at 380, after w2's commit; the proxy saw that it was at 100, after w0's."""
    c = Committers()
    c.did("w0-0", 0, 90, [attempt()])
    c.did("w1-0", 0, 400, [attempt("refused"), attempt()])
    c.did("w2-0", 300, 350, [attempt()])
    assert committing(c).beaten_writers == {"w1": {"w2": 1}}
    seen = [
        {"service": "catalog", "kind": "commit", "op": "w1-0", "writer": 1, "time": at * MS, "ms": 8.0}
        for at in (92, 392)
    ]
    assert committing(c, seen).beaten_writers == {"w1": {"w0": 1}}


def test_an_operation_that_validation_or_the_last_refusal_ended_is_aborted() -> None:
    c = Committers()
    c.did("w0-0", 0, 50, [attempt()], f="update-counter")
    c.did("w1-0", 0, 60, [attempt("invalid", swap_ms=0)], f="delete", type="fail")
    c.did("w2-0", 0, 70, [attempt("refused"), attempt("refused")], f="delete", type="fail")
    m = committing(c)
    assert (m.commits, m.aborted) == (1, 2) and m.success == pytest.approx(1 / 3)
    assert m.beaten == (Beaten("delete", "update-counter", 2, 1),)
    assert (m.wasted.attempts, m.wasted.aborted, m.wasted.aborted_s) == (3, 2, 0.13)
    assert m.unexplained == 1  # nothing was committed between w2's two refusals


def test_phases_of_first_attempts_and_retries_are_apart_and_so_are_hot_and_cold_parents() -> None:
    c = Committers()
    c.did("w0-0", 0, 100, [attempt(parent="cold", refresh_ms=50, data_ms=30)])
    c.did("w1-0", 0, 200, [attempt("refused", "cold", refresh_ms=70), attempt(refresh_ms=1, wait_ms=9)])
    c.did("w2-0", 0, 300, [attempt(refresh_ms=3), attempt("invalid", refresh_ms=900)], type="fail")
    m = committing(c)
    assert {s: by["refresh"].deciles for s, by in m.taken.items()} == {
        "first": (3, 3, 3, 3, 50, 50, 50, 70, 70, 70, 70),
        "retry": (1,) * 11,
        "first hot": (3,) * 11,
        "first cold": (50, 50, 50, 50, 50, 50, 70, 70, 70, 70, 70),
        "retry hot": (1,) * 11,
    }
    retry, first = m.taken["retry"], m.taken["first"]
    assert retry["whole"].median == 19 and retry["wait"].median == 9 and "data" not in retry
    assert first["data"].mean == 10 and "wait" not in first
    assert (retry["written_bytes"].median, retry["reads"].median) == (3000, 2)


def test_the_time_in_writes_is_split_into_phases_and_the_rest() -> None:
    m = committing(race())
    assert m.time["wait"] == pytest.approx(0.04) and m.time["data"] == pytest.approx(0.11)
    assert m.time["swap"] == pytest.approx(7 * 0.008)
    assert sum(m.time.values()) == pytest.approx(0.1 + 0.14 + 0.19 + 0.02)
    assert m.busy == pytest.approx((0.1 + 0.14 + 0.19 + 0.02) / (0.1 + 0.22 + 0.19), abs=1e-6)
    assert m.swaps == pytest.approx(7 * 8 / 220, abs=1e-4)


def test_winning_attempts_cover_a_share_of_the_time() -> None:
    m = committing(race())
    assert m.window_ms == 18 and m.occupied == pytest.approx(4 * 18 / 220, abs=1e-6)  # without the refresh


def test_wasted_work_is_that_of_attempts_in_vain() -> None:
    w = committing(race()).wasted
    assert (w.attempts, w.attempts_s, w.waited_s, w.written_bytes, w.read_bytes) == (3, 0.06, 0.04, 9000, 3000)
    assert (w.aborted, w.aborted_s) == (0, 0)


@pytest.mark.parametrize(
    ("commits", "jain", "fewest"),
    [((4, 4, 4), 1.0, 1.0), ((9, 0, 0), 1 / 3, 0.0), ((1, 3), 0.8, 1 / 3), ((5,), 1.0, 1.0)],
)
def test_fairness_is_jain_s_index_over_all_that_tried_to_write(
    commits: tuple[int, ...], jain: float, fewest: float
) -> None:
    c = Committers(len(commits) + 1)
    for w, count in enumerate(commits):
        for n in range(count):
            c.did(f"w{w}-{n}", 100 * n, 100 * n + 50, [attempt()])
        if not count:
            c.did(f"w{w}-0", 0, 50, [attempt("refused")], type="fail")
    c.did(f"w{len(commits)}-0", 0, 10, None, f="read")  # who only reads does not count
    m = committing(c)
    assert m.fairness == pytest.approx(jain) and m.fewest == pytest.approx(fewest)
    assert list(m.writers) == [f"w{n}" for n in range(len(commits))]


def test_writers_that_record_no_attempts_have_retries_by_the_names_of_their_manifest_lists() -> None:
    c = race(recorded=False)
    c.did("w0-1", 100, 400, None, f="delete", type="fail")
    m = committing(c)
    assert not m.detailed and m.retries == committing(race()).retries
    assert (m.taken, m.window_ms, m.wasted.written_bytes, m.time) == ({}, None, None, {})
    assert (m.wasted.attempts, m.wasted.aborted, m.aborted) == (3, 1, 1)
    assert m.beaten and all(b.attempts == 0 and b.aborted for b in m.beaten)


def test_commits_of_both_sorts_of_writers_are_counted_alike() -> None:
    c = Committers()
    c.did("w0-0", 0, 50, [attempt("refused"), attempt()])
    c.did("w1-0", 0, 90, None, tries=2)
    m = committing(c)
    assert m.retries == {1: 2} and m.detailed


def test_figures_come_from_attempts_where_they_are_recorded() -> None:
    figures = race().measures().figures
    assert (figures["retried"], figures["retry_success"], figures["retries_mean"]) == (0.5, 1.0, 0.75)
    assert (figures["attempt_ms"], figures["retry_ms"]) == (20, 20)
    assert race(recorded=False).measures().figures["retry_ms"] is None
    assert {f.key for f in FIGURES} >= {"retries_mean", "retries_8", "retry_ms", "attempt_ms", "fairness"}


def test_a_run_in_which_nobody_writes_has_none() -> None:
    c = Committers()
    c.did("w0-0", 0, 10, None, f="read")
    assert c.measures().attempts is None and c.measures().figures.get("fairness") is None


@pytest.mark.parametrize("recorded", [True, False])
def test_they_survive_their_file_and_older_files_are_read(recorded: bool) -> None:
    m = race(recorded=recorded).measures()
    plain = json.loads(json.dumps(m.to_json()))
    assert Measures.from_json(plain) == m
    assert plain["attempts"]["retried"] == 0.5
    del plain["attempts"]
    assert Measures.from_json(plain).attempts is None


@pytest.mark.parametrize(
    ("attempts", "says"),
    [
        ({}, "attempts must be a list"),
        ([7], "attempts[0]: an attempt must be an object, not 7"),
        (
            [{k: v for k, v in attempt().items() if k not in ("swap_ms", "parent")}],
            "an attempt needs swap_ms and parent",
        ),
        ([attempt(), attempt(swap_ms=-1)], "attempts[1]: swap_ms must be milliseconds from 0, not -1"),
        ([attempt(refresh_ms=float("inf"))], "refresh_ms must be milliseconds from 0"),
        ([attempt(reads=True)], "reads must be a whole number from 0, not true"),
        ([attempt(parent="warm")], 'parent must be hot or cold, not "warm"'),
        ([attempt("lost")], 'outcome must be one of committed, refused, invalid, unknown, error, not "lost"'),
    ],
)
def test_attempts_that_are_not_as_documented_are_refused_by_event_and_key(attempts: Any, says: str) -> None:
    c = Committers()
    c.did("w0-0", 0, 10, [])
    c._raw[1][2]["extra"]["attempts"] = attempts
    with pytest.raises(HistoryError) as e:
        c.measures()
    assert says in str(e.value) and "event 1 (ok of w0-0)" in str(e.value)


def test_several_runs_are_one_with_sums_and_weighted_means() -> None:
    one, other = committing(race()), committing(simulated(3, 4, 5).run)
    both = merged([one, other])
    assert both.commits == one.commits + other.commits and both.aborted == one.aborted + other.aborted
    assert both.wasted.attempts == one.wasted.attempts + other.wasted.attempts
    n, k = one.taken["first"]["swap"].count, other.taken["first"]["swap"].count
    assert both.taken["first"]["swap"] == Quantiles(n + k, 8, 8, (8,) * 11)
    assert sum(b.attempts for b in both.beaten) == sum(b.attempts for m in (one, other) for b in m.beaten)
    assert merged([one]) == one
    with pytest.raises(ValueError, match="no runs"):
        merged([])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6), st.sampled_from([2, 50]))
def test_what_is_measured_of_simulated_writers_is_what_happened(
    seed: int, writers: int, commits: int, budget: int
) -> None:
    """The simulation decides each request at its end, so the commit that was answered last is the one that was current."""
    s = simulated(seed, writers, commits, budget=budget)
    m = committing(s.run)
    assert m.retries == dict(s.retries)
    found = {(w, by): n for w, counts in m.beaten_writers.items() for by, n in counts.items()}
    assert found == dict(s.beaten) and m.unexplained == 0
    assert sum(b.attempts for b in m.beaten) == m.wasted.attempts == s.beaten.total()
    assert m.occupied is None or m.occupied <= 1.000001  # winning attempts do not overlap
    assert 0 <= m.busy <= 1
    if m.commits:
        assert m.fairness is not None and 1 / writers - 1e-9 <= m.fairness <= 1 + 1e-9
    assert CommitsMeasured.from_json(json.loads(json.dumps(m.to_json()))) == m
