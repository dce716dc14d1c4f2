"""Which pairs a run exercised: histories drawn by hand, a brute-force definition, and five cells of the matrix measured on real Spark."""

from __future__ import annotations

import zipfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.coverage.coverage import (
    Coverage,
    CoverageError,
    Landing,
    counts,
    exercised,
    in_order,
    of_folder,
    union,
)
from checkers.coverage.pair import PHASES, Pair, Phase, Placement, TableSetup
from checkers.coverage.phases import DecidedRequest, MetadataLoad, phase_at, segments
from checkers.judge.runfolder import load_evidence
from tests.support.interleaving import Drawing
from workloads.tables import TableSpec

MAKE = TableSetup("copy-on-write", "serializable", 2, True)


def found(d: Drawing) -> Counter[Pair]:
    seen, untold = exercised(d.evidence(), d.requests())
    assert not untold
    return seen


def phases_of(d: Drawing, first: str, second: str) -> list[Phase]:
    return [p.phase for p in found(d) if (p.first, p.second) == (first, second)]


@pytest.mark.parametrize(
    ("landed", "phase"),
    [
        (5, "before scan"),
        (15, "scanned"),
        (25, "commit"),
        (35, "refused"),
        (45, "retry"),
        (55, "after"),
        (-5, None),
        (65, None),
    ],
)
def test_a_commit_counts_for_the_phase_in_which_it_landed(landed: float, phase: Phase | None) -> None:
    d = Drawing()
    d.write("A", "update-register", [0], 0, loads=[10, 20, 40], asked=[(30, False), (50, True)], end=60)
    d.write("B", "insert", [99], landed - 2, loads=[landed - 1.5, landed - 1], asked=[(landed, True)], end=landed + 1)
    assert phases_of(d, "update-register", "insert") == ([] if phase is None else [phase])


@pytest.mark.parametrize(
    ("landed", "phase"), [(5, "before scan"), (15, "scanned"), (25, "commit"), (35, "refused"), (45, "retry")]
)
def test_a_write_that_was_aborted_has_the_phases_that_it_came_to(landed: float, phase: Phase) -> None:
    d = Drawing()
    d.write("A", "update-register", [0], 0, loads=[10, 20, 40], asked=[(30, False)], end=50)
    d.write("B", "update-register", [0], 1, loads=[2, 3], asked=[(landed, True)], end=59)
    own = Pair("update-register", phase, "update-register", "same row", MAKE)
    assert found(d)[own] == 1


def test_a_write_that_its_first_check_aborted_was_scanned_and_then_refreshed() -> None:
    d = Drawing()
    d.write("A", "delete", [0], 0, loads=[10, 20], end=30)
    for op, at in (("B", 5), ("C", 15), ("D", 25)):
        d.write(op, "insert", [50], 1, loads=[2, 3], asked=[(at, True)], end=40)
    assert [p.phase for p in found(d) if p.first == "delete"] == ["before scan", "scanned", "commit"]


def test_a_write_with_one_load_scans_what_it_refreshed() -> None:
    got = segments(0, 40, [MetadataLoad(8, 10)], [DecidedRequest(19, (20, 1), True)])
    assert [(s.phase, s.start[0], s.end[0]) for s in got] == [
        ("before scan", 0, 10),
        ("commit", 10, 20),
        ("after", 20, 40),
    ]


def test_without_a_load_it_is_not_known_what_came_before_the_first_answer() -> None:
    got = segments(0, 40, [], [DecidedRequest(19, (20, 1), False), DecidedRequest(29, (30, 1), True)])
    assert [(s.phase, s.end[0]) for s in got] == [(None, 20), ("retry", 30), ("after", 40)]


def test_a_write_of_two_commits_scans_again_after_its_first() -> None:
    loads = [MetadataLoad(t - 2, t) for t in (10, 20, 50, 60)]
    got = segments(0, 90, loads, [DecidedRequest(29, (30, 1), True), DecidedRequest(69, (70, 2), True)])
    assert [s.phase for s in got] == ["before scan", "scanned", "commit", "after", "scanned", "commit", "after"]


def test_an_answer_that_was_lost_is_the_last_one_of_a_write_whose_snapshot_is_there() -> None:
    d = Drawing()
    d.write("A", "insert", [50], 0, loads=[10, 20], asked=[(30, True)], end=60, type="info")
    d.write("B", "insert", [51], 1, loads=[2, 35], asked=[(40, True)], end=70)
    asked = d.requests()
    lost = asked["t"].asked["A"][0]
    asked["t"].asked["A"][0] = lost._replace(accepted=False, new=None)
    seen, untold = exercised(d.evidence(), asked)
    assert not untold
    assert {(p.phase, n) for p, n in seen.items()} == {("after", 1), ("scanned", 1)}


def test_two_commits_answered_in_the_wrong_order_landed_in_that_of_the_table() -> None:
    """A's answer was late: B built on A, so A landed before B was answered."""
    d = Drawing()
    d.write("A", "insert", [50], 0, loads=[10, 20], asked=[(30, True)], end=60)
    d.write("B", "insert", [51], 1, loads=[2, 3], asked=[(40, True)], end=70)
    asked = d.requests()
    asked["t"].asked["A"][0] = asked["t"].asked["A"][0]._replace(end=50_000_000)
    seen, _ = exercised(d.evidence(), asked)
    assert {p.phase for p in seen} == {"after", "commit"}


SAME_FILE = (0, 4, 8)
"""Ids of one data file."""


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize(
    ("second", "value", "where"),
    [
        ("update-register", [0], "same row"),
        ("delete", [4], "same file"),
        ("insert", [0], "same row"),
        ("insert", [16], "same partition"),
        ("insert", [17], "other partition"),
        ("update-register", [1], "other partition"),
        ("set-property", {"key": "a", "value": "b"}, "whole table"),
        ("rewrite-manifests", {}, "whole table"),
    ],
)
def test_where_the_second_worked(second: str, value: Any, where: Placement, commits: bool) -> None:
    d = Drawing()
    d.write("A", "update-register", [0], 0, loads=[10, 20], asked=[(60, True)] if commits else [], end=70)
    d.write("B", second, value, 1, loads=[2, 3], asked=[(15, True)], end=16)
    assert [(p.second, p.placement) for p in found(d) if p.first == "update-register"] == [(second, where)]


def test_a_file_that_a_rewrite_made_holds_what_it_was_made_from() -> None:
    """B moved rows 0, 4, 8 to a new file; an update of 8 that is aborted later works on the file that C replaces."""
    d = Drawing()
    d.write("B", "update-register", [0], 0, loads=[1, 2], asked=[(3, True)], end=4)
    d.write("A", "update-register", [8], 10, loads=[11, 12], end=30)
    d.write("C", "delete", [4], 10, loads=[13, 14], asked=[(20, True)], end=21)
    assert [p.placement for p in found(d)] == ["same file"]


def test_an_aborted_compaction_was_about_every_file() -> None:
    d = Drawing()
    d.write("A", "rewrite-data-files", {"strategy": "binpack", "all": True}, 0, loads=[10, 20], end=70)
    d.write("B", "delete", [5], 1, loads=[2, 3], asked=[(15, True)], end=16)
    assert [p.placement for p in found(d)] == ["same file"]


def test_a_table_without_partitions_is_one() -> None:
    d = Drawing(spec=TableSpec(name="t", partitioned=False))
    d.write("A", "insert", [50], 0, loads=[10, 20], asked=[(60, True)], end=70)
    d.write("B", "insert", [51], 1, loads=[2, 3], asked=[(15, True)], end=16)
    assert {(p.placement, p.setup.partitioned) for p in found(d)} == {("same partition", False)}


def test_the_engine_stands_before_the_kind_unless_it_is_spark() -> None:
    d = Drawing()
    d.write("A", "insert", [50], 0, loads=[10, 20], asked=[(60, True)], end=70, engine="duckdb")
    d.write("B", "insert", [51], 1, loads=[2, 3], asked=[(15, True)], end=16)
    assert {(p.first, p.second) for p in found(d)} == {("duckdb insert", "insert")}


def test_the_set_up_the_final_reads_and_reads_do_not_count() -> None:
    d = Drawing()
    d.write("A", "insert", [50], 0, loads=[10, 20], asked=[(60, True)], end=70, phase="setup")
    d.write("B", "insert", [51], 1, loads=[2, 3], asked=[(15, True)], end=16)
    d.write("R", "read", {}, 0, loads=[10], end=70, type="ok")
    assert not found(d)


@pytest.mark.parametrize(
    ("order", "b", "kept", "told"),
    [
        (("A", "B"), (1, 60), ("after", 1), 0),
        (("B", "A"), (1, 60), None, 1),
        (("A", "B"), (1, 90), None, 0),
        (("B", "A"), (-5, 60), None, 0),
    ],
)
def test_without_proxies_only_what_the_log_says_is_told(
    order: tuple[str, ...], b: tuple[float, float], kept: tuple[Phase, int] | None, told: int
) -> None:
    d = Drawing(proxied=False, order=list(order))
    d.write("A", "update-register", [0], 0, end=70)
    d.write("B", "insert", [99], b[0], end=b[1])
    seen, untold = exercised(d.evidence(), {})
    mine = [(p.phase, n) for p, n in seen.items() if p.first == "update-register"]
    assert mine == ([] if kept is None else [kept])
    assert untold["update-register", "insert"] == told


# --- brute force ------------------------------------------------------------------------------------------------------


@st.composite
def _writes(draw: st.DrawFn) -> list[tuple[list[tuple[int, str]], bool]]:
    """Each write as its moments, which are all different, each with the phase that begins there; and whether it commits."""
    count = draw(st.integers(2, 5))
    shapes = []
    for _ in range(count):
        refused, commits = draw(st.integers(0, 3)), draw(st.booleans())
        shape = ["before scan", "scanned", "commit", *["refused", "retry"] * refused]
        shape += ["after"] if commits else []
        shapes.append((shape, commits))
    total = sum(len(s) + 1 for s, _ in shapes)
    moments = draw(st.permutations(range(1, total + 1)))
    out, at = [], 0
    for shape, commits in shapes:
        mine = sorted(moments[at : at + len(shape) + 1])
        at += len(shape) + 1
        out.append((list(zip(mine, [*shape, "end"], strict=True)), commits))
    return out


@given(_writes())
def test_it_is_what_the_definition_says(writes: list[tuple[list[tuple[int, str]], bool]]) -> None:
    """Against the definition: a write is in the phase that began last."""
    d = Drawing()
    for n, (moments, commits) in enumerate(writes):
        times = dict[str, list[int]]()
        for at, name in moments:
            times.setdefault(name, []).append(at)
        loads = [*times["scanned"], *times["commit"], *times.get("retry", [])]
        asked = [(float(t), False) for t in times.get("refused", [])] + [
            (float(t), True) for t in times.get("after", [])
        ]
        d.write(f"w{n}", "insert", [100 + n], moments[0][0], loads=loads, asked=asked, end=times["end"][0])
        assert commits == bool(times.get("after"))
    want: Counter[str] = Counter()
    for n, (moments, _) in enumerate(writes):
        landed = [at for m, (other, _) in enumerate(writes) if n != m for at, name in other if name == "after"]
        for at in landed:
            if moments[0][0] <= at < moments[-1][0]:
                want[[name for began, name in moments if began <= at][-1]] += 1
    got: Counter[str] = Counter()
    for p, k in found(d).items():
        got[p.phase] += k
    assert got == want


@given(st.data())
def test_phases_follow_each_other_without_gaps(data: st.DataObject) -> None:
    times = st.integers(0, 50)
    loads = [MetadataLoad(t, t + data.draw(st.integers(0, 5))) for t in data.draw(st.lists(times, max_size=6))]
    asked = [
        DecidedRequest(t, (t + data.draw(st.integers(0, 5)), 0), data.draw(st.booleans()))
        for t in data.draw(st.lists(times, max_size=4))
    ]
    start, length = data.draw(times), data.draw(st.integers(1, 50))
    got = segments(start, start + length, loads, asked, aborted=data.draw(st.booleans()))
    assert got[0].start == (start, -1) and got[-1].end[0] == start + length
    assert all(a.end == b.start and a.start < a.end for a, b in pairwise(got))
    at = (data.draw(st.integers(start, start + length - 1)), 7)
    assert phase_at(got, at) is not None


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30)), min_size=1, max_size=8), st.randoms())
def test_landings_respect_the_order_of_the_versions(times: list[tuple[int, int]], rng: Random) -> None:
    """And none is moved out of the time in which it can have landed, unless the answers contradict that order."""
    d = Drawing().write("A", "insert", [50], 0, loads=[1, 2], asked=[(3, True)], end=9)
    (o,) = d.evidence().history.operations()
    said = [Landing(o, (t, -1), (t + length, n), n) for n, (t, length) in enumerate(times)]
    got = in_order(rng.sample(said, len(said)))
    assert [x.version for x in got] == list(range(len(said)))
    assert all(x.first <= x.last for x in got)
    assert all(a.last <= b.last and a.first <= b.first for a, b in pairwise(got))
    for x, before in zip(got, said, strict=True):
        assert x.last <= before.last
        if all(a.last[0] <= b.last[0] for a, b in pairwise(said)):
            assert x.last == before.last and x.first >= before.first


# --- real runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def five_cells(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ``icequake matrix`` on real Spark and a REST catalog, without its requests to the store."""
    folder = tmp_path_factory.mktemp("five-cells")
    with zipfile.ZipFile(Path(__file__).with_name("five-cells.zip")) as z:
        z.extractall(folder)
    return folder


def test_a_cell_of_the_matrix_is_the_pair_that_it_was_to_measure(five_cells: Path) -> None:
    """Four updates that were held at their commit, at the four placements, and a DELETE that was held at its refresh."""
    c = of_folder(five_cells)
    cow = TableSetup("copy-on-write", "serializable", 2, True)
    held: list[Placement] = ["same row", "same file", "same partition", "other partition"]
    assert c.seen == Counter(
        [
            *(Pair("update-register", "commit", "update-register", where, cow) for where in held),
            Pair("delete", "scanned", "update-register", "same row", TableSetup("merge-on-read", "snapshot", 2, True)),
        ]
    )
    assert not c.untold
    assert c.possible == frozenset(c.seen), "it is scripted"


def test_a_recorded_run_without_proxies_covers_only_what_is_certain(recorded_run: Path) -> None:
    c, evidence = of_folder(recorded_run), load_evidence(recorded_run)
    assert {p.phase for p in c.seen} <= {"after"}
    assert len(c.possible) > 500 and not c.beyond and c.runs == 1
    writes = [o for o in evidence.history.operations() if counts(o)]
    within = Counter(
        (a.f, b.f)
        for a in writes
        for b in writes
        if a.op != b.op and a.completed and b.end and b.type == "ok" and a.start < b.start and b.end < a.completed.time
    )
    assert sum(c.untold.values()) > 0
    assert all(n <= 2 * within[kinds] for kinds, n in c.untold.items()), "two tables at most"


# --- several runs -----------------------------------------------------------------------------------------------------


def _one(phase: Phase, n: int) -> Coverage:
    p = Pair("insert", phase, "delete", "same row", MAKE)
    every = frozenset(p._replace(phase=x) for x in PHASES)
    return Coverage(Counter({p: n}), Counter({("insert", "delete"): 1}), every, 1)


def test_runs_together_have_the_pairs_of_all() -> None:
    both = union([_one("commit", 2), _one("retry", 1), _one("retry", 4)])
    assert both == _one("commit", 2) | _one("retry", 1) | _one("retry", 4)
    assert both.runs == 3 and both.share == 2 / 6 and both.untold == Counter({("insert", "delete"): 3})
    assert both.counts_by("phase")["retry"] == (1, 1) and both.counts_by("phase")["after"] == (0, 1)
    assert both.counts_by("placement") == {"same row": (2, 6)} and both.of_kinds() == {("insert", "delete"): (2, 6)}
    assert [(p.phase, n) for p, n in both.rare(9)] == [("commit", 2), ("retry", 5)] and len(both.rare(1)) == 1
    assert union([]) == Coverage() and Coverage().share is None


def test_a_pair_that_is_not_possible_does_not_count_for_the_share() -> None:
    c = _one("commit", 1)
    odd = next(iter(c.seen))._replace(placement="other partition")
    more = Coverage(c.seen + Counter([odd]), c.untold, c.possible, 1)
    assert more.share == c.share and more.beyond == {odd}


def test_a_stored_coverage_is_the_same_again(five_cells: Path) -> None:
    for c in (of_folder(five_cells), _one("after", 3), Coverage()):
        assert Coverage.from_json(c.to_json()) == c


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 9}, "format 9 is not known"),
        ({"seen": [["insert", "later", "delete", "same row", "copy-on-write", "snapshot", 2, True, 1]]}, "no phase"),
        ({"seen": [["insert", "after", "delete", "far", "copy-on-write", "snapshot", 2, True, 1]]}, "no placement"),
        ({"possible": [["insert"]]}, "8 values"),
        ({"possible": [["insert", "after", "delete", "same row", "copy-on-write", "snapshot", "2", True]]}, "version"),
        ({"untold": 3}, "not a coverage"),
    ],
)
def test_a_file_that_is_no_coverage_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(CoverageError, match=says):
        Coverage.from_json(_one("after", 1).to_json() | change)
