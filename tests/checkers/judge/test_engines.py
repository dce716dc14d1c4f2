"""Runs of several engines: each operation is held to what its own engine promises, and is blamed by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.commits import Commits
from checkers.evidence.evidence import Evidence
from checkers.evidence.outcome import conflict_of
from checkers.evidence.proxylog import AcceptedChange, Carried, PointerSwap
from checkers.evidence.replace import replace
from checkers.isolation import Isolation
from checkers.isolation.cycles import find_cycles
from checkers.isolation.graph import PROCESS, REALTIME, RW, RWP, WR, WW, Graph
from checkers.judge.check import check
from checkers.linearizable import Linearizable
from checkers.replay.walk import Replay
from checkers.retries import Retries
from checkers.timeline import promise
from checkers.timeline.timelines import named, timelines
from tests.checkers.judge.test_clean_histories import ENOUGH, tables, told
from tests.checkers.linearizable.test_linearizable_tables import Told, explained, small
from tests.support.amount import many
from tests.support.drawing import Drawing, row, verdict
from tests.support.guests import PAPER, admit
from tests.support.simulator import ALTERING, CLEAN, MIX, ROW_BY_ROW, Defects, Simulation, simulate
from workloads.operations.kinds import KINDS
from workloads.tables import Row, State, TableSpec

Level = Literal["serializable", "snapshot"]


@pytest.fixture(autouse=True)
def guests(monkeypatch: pytest.MonkeyPatch) -> None:
    admit(monkeypatch)


# --- what is promised ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "table", "f", "level"),
    [
        ("spark", "serializable", "update-register", "serializable"),
        ("spark", "snapshot", "update-register", "snapshot"),
        ("spark", "snapshot", "delete-partition", "serializable"),
        ("duckdb", "snapshot", "update-register", "serializable"),
        ("duckdb", "snapshot", "read", "serializable"),
        ("loose", "serializable", "update-register", "snapshot"),
        ("loose", "serializable", "delete-partition", "serializable"),
        ("blind", "snapshot", "insert-select", "snapshot"),
        ("trino", "serializable", "update-register", "snapshot"),
    ],
)
def test_an_operation_has_its_engines_level_or_its_tables(engine: str, table: Level, f: str, level: str) -> None:
    d = Drawing(table)
    d.engines["a"] = engine
    value = {"part": 1} if f == "delete-partition" else {"from": 1, "to": 2} if f == "insert-select" else {"ids": [1]}
    d.invoke("a", f, **value)
    (o,) = d.evidence().history.operations()
    assert promise.isolation(d.spec, o) == level
    assert promise.known(o) is (engine != "trino")


def test_a_property_of_the_table_is_for_engines_that_promise_what_the_table_does() -> None:
    d = Drawing("serializable", properties={"write.update.isolation-level": "SNAPSHOT"})
    d.engines |= {"b": "duckdb", "c": "blind"}
    for op in ("a", "b", "c"):
        d.invoke(op, "update-register", ids=[1])
    levels = [promise.isolation(d.spec, o) for o in d.evidence().history.operations()]
    assert levels == ["snapshot", "serializable", "snapshot"]


def test_a_blind_append_is_the_engines_and_so_is_its_source() -> None:
    d = Drawing()
    d.engines |= {"b": "blind", "c": "strict"}
    for op in ("a", "b", "c"):
        d.invoke(op, "insert-select", **{"from": 1, "to": 2})
    found = [promise.source_of_blind_append(d.spec, o) for o in d.evidence().history.operations()]
    assert found == [promise.BLIND_APPEND, PAPER, None]


# --- replay -------------------------------------------------------------------------------------------------------------


def skewed(table: Level, engine: str) -> Evidence:
    """The operation ``s`` commits what it meant before ``u`` changed what it copies."""
    d = Drawing(table)
    d.engines |= {} if engine == "spark" else {"s": engine}
    d.engines["u"] = "loose" if engine != "loose" else "duckdb"
    one = row(1, "seed")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("s", "merge-upsert", ids=[1, 2])
    d.did("u", "insert", ids=[2], add=[row(2, "u")])
    new = KINDS["merge-upsert"].writeset(State([one]), {"ids": [1, 2]}, "s", d.spec).added
    d.commit("s", remove=[one], add=new)
    d.ok("s")
    return d.evidence()


@pytest.mark.parametrize(
    ("table", "engine", "found"),
    [
        ("serializable", "spark", True),
        ("serializable", "duckdb", True),
        ("serializable", "loose", False),
        ("snapshot", "spark", False),
        ("snapshot", "duckdb", True),
        ("snapshot", "strict", True),
        ("snapshot", "loose", False),
    ],
)
def test_an_older_scan_is_held_against_the_engine_that_promised_more(table: Level, engine: str, found: bool) -> None:
    v = verdict(Replay(), skewed(table, engine))
    assert [a.name for a in v.anomalies] == (["write-skew"] if found else [])
    if found:
        a = v.anomalies[0]
        title = {"spark": "Spark", "duckdb": "DuckDB", "strict": "Strict"}[engine]
        assert a.ops[0] == "s" and a.documented is None
        assert a.explanation.startswith(f"the {title} merge-upsert of ids 1, 2 (s, process ")
        assert f"The {'Loose'} insert of id 2 (u, process " in a.explanation
        if engine != "spark":
            assert f"{title} promises this statement to be serializable on any table" in a.explanation
    else:
        assert v.stats["tables"]["t"]["write_skew_ops"] == ["s"]


def test_a_blind_append_of_another_engine_is_documented_where_that_engine_says_so() -> None:
    for engine, link in (("spark", promise.BLIND_APPEND), ("blind", PAPER), ("strict", None)):
        d = Drawing()
        d.engines |= {} if engine == "spark" else {"s": engine}
        one = row(1, "seed")
        d.did("seed", "insert", ids=[1], add=[one])
        d.invoke("s", "insert-select", **{"from": 1, "to": 2})
        d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
        d.did("c", "update-counter", ids=[1], remove=[one._replace(val="u")], add=[one._replace(val="u", cnt=1)])
        d.commit("s", add=[Row(2, "s", 0, "seed,s", 2)])
        d.ok("s")
        (a,) = verdict(Replay(), d.evidence()).anomalies
        assert (a.name, a.ops[0], a.documented) == ("write-skew", "s", link)


# --- what is not known --------------------------------------------------------------------------------------------------


def test_what_an_unknown_engine_promised_is_not_guessed() -> None:
    e = skewed("serializable", "trino")
    for checker in (Replay(), Isolation(), Linearizable()):
        v = checker.check(e)
        assert v.valid == "unknown" and not v.anomalies, checker.name
        assert any("what these engines promise: trino" in n and "spark" in n for n in v.notes), v.notes
    results = check(e)
    assert results.valid == "unknown"
    (said,) = (v for v in results.verdicts if v.checker == "history")
    assert any("trino" in n and "newer" in n for n in said.notes)


def test_an_unknown_engines_commit_that_every_promise_explains_is_replayed() -> None:
    d = Drawing()
    d.engines["b"] = "trino"
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "insert", ids=[2], add=[row(2, "b")])
    assert verdict(Replay(), d.evidence()).valid is True


def of_writers(
    *events: str | None, completed: str | None = None, header: Sequence[str] = ("spark", "duckdb")
) -> Evidence:
    """Inserts of the second writer, each with an engine's name or none, one commit each."""
    d = Drawing()
    for n, engine in enumerate(events):
        if engine is not None:
            d.engines[f"w1-{n}"] = engine
        d.did(f"w1-{n}", "insert", ids=[n], add=[row(n, f"w1-{n}")])
    e = d.evidence()
    marked = [replace(x, extra={"engine": completed}) if completed and x.type == "ok" else x for x in e.history.events]
    return replace(
        e, history=replace(e.history, header={**e.history.header, "engines": [*header]}, events=tuple(marked))
    )


def test_an_event_that_lost_its_engine_has_the_one_of_the_header() -> None:
    e = of_writers("duckdb", None)
    assert [o.engine for o in e.history.operations()] == ["duckdb", "duckdb"]
    results = check(e, ENOUGH)
    assert results.valid == "unknown" and not any(v.anomalies for v in results.verdicts)
    (said,) = (v for v in results.verdicts if v.checker == "history")
    assert said.notes == (
        "event 2 (invoke of w1-1) names as its engine none, and the header duckdb for its writer; "
        "what that operation was promised is not certain",
    )


def test_an_engine_that_changes_is_a_problem_of_the_history() -> None:
    assert check(of_writers("duckdb", "duckdb", completed="duckdb"), ENOUGH).valid is True
    assert of_writers("duckdb", "pyiceberg").history.engine_contradictions()[0].startswith("event 2 (invoke of w1-1)")
    (words,) = of_writers("duckdb", completed="pyiceberg").history.engine_contradictions()
    assert "names as its engine pyiceberg, and its invocation duckdb" in words
    assert not of_writers(None, header=("spark", "spark")).history.engine_contradictions()


# --- cycles -------------------------------------------------------------------------------------------------------------

DEPENDS = (WW, WR, PROCESS, REALTIME)
EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from((*DEPENDS, RW, RWP))), max_size=14)


def graph(edges: Sequence[tuple[int, int, int]], size: int) -> Graph:
    kept = [e for e in dict.fromkeys(edges) if e[0] != e[1]]
    src, dst, kind = (np.array([e[k] for e in kept], np.int64) for k in range(3))
    return Graph(size, size, src, dst, kind, np.full(len(kept), -1, np.int64))


def contradiction(edges: Sequence[tuple[int, int, int]], loose: Sequence[bool], unknown: Sequence[bool]) -> bool:
    """Whether no order of moments satisfies the edges: a loose transaction reads at one moment and commits at a later one, any other
    does both at once. By trying every path."""
    reads = [(n, "r") if loose[n] else (n, "") for n in range(len(loose))]
    commits = [(n, "c") if loose[n] else (n, "") for n in range(len(loose))]
    follows: dict[object, set[object]] = {reads[n]: {commits[n]} for n in range(len(loose)) if loose[n]}
    for u, v, kind in edges:
        if u == v or unknown[u] or unknown[v] or (kind == REALTIME and loose[v]):
            continue
        a, b = (reads[u], commits[v]) if kind in (RW, RWP) else (commits[u], reads[v])
        follows.setdefault(a, set()).add(b)

    def reaches(at: object, goal: object, seen: frozenset[object]) -> bool:
        return any(x == goal or (x not in seen and reaches(x, goal, seen | {x})) for x in follows.get(at, ()))

    return any(reaches(x, x, frozenset()) for x in list(follows))


@settings(max_examples=400, deadline=None)
@given(
    EDGES,
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.lists(st.sampled_from([False] * 5 + [True]), min_size=6, max_size=6),
)
def test_a_cycle_is_found_just_if_no_order_keeps_every_promise(
    edges: list[tuple[int, int, int]], loose: list[bool], unknown: list[bool]
) -> None:
    free, bad = np.array(loose), np.array(unknown)
    found = list(find_cycles(graph(edges, 6).promised(free, bad), free))
    assert bool(found) == contradiction(edges, loose, unknown)
    for name, cycle in found:
        kinds = [k for k, _ in cycle.edges]
        anti = [k in (RW, RWP) for k in kinds]
        for n, node in enumerate(cycle.nodes):
            assert not unknown[node]
            assert not (loose[node] and anti[n - 1] and anti[n]), (name, cycle)
            assert not (loose[node] and kinds[n - 1] == REALTIME), (name, cycle)


@settings(max_examples=150, deadline=None)
@given(EDGES)
def test_one_level_for_all_is_a_mix_without_the_other(edges: list[tuple[int, int, int]]) -> None:
    none, every = np.zeros(6, np.bool_), np.ones(6, np.bool_)
    g = graph(edges, 6)
    assert [n for n, _ in find_cycles(g.promised(none, none), none)] == [n for n, _ in find_cycles(g)]
    by_name = {n for n, _ in find_cycles(g.promised(every, none), every)}
    assert not any(n.startswith("G2") or "realtime" in n for n in by_name)


# --- isolation, drawn ---------------------------------------------------------------------------------------------------


def ring(table: Level, *engines: str) -> Evidence:
    """Two updates by predicate: each scanned before the other committed, and made a row that the other's predicate matches."""
    d = Drawing(table)
    rows = [row(0, "seed"), row(4, "seed", cnt=1)]
    d.did("seed", "insert", ids=[0, 4], add=[row(0, "seed"), row(4, "seed")])
    d.did("more", "update-counter", ids=[4], remove=[row(4, "seed")], add=[rows[1]])
    for op, engine in zip(("a", "b"), engines, strict=True):
        if engine != "spark":
            d.engines[op] = engine
    d.invoke("a", "update-counter-where", part=0, parity=0)
    d.invoke("b", "update-counter-where", part=0, parity=1)
    d.commit("a", remove=[rows[0]], add=[rows[0]._replace(cnt=1)])
    d.commit("b", remove=[rows[1]], add=[rows[1]._replace(cnt=2)])
    d.ok("a")
    d.ok("b")
    return d.evidence()


@pytest.mark.parametrize(
    ("table", "engines", "found"),
    [
        ("serializable", ("spark", "spark"), True),
        ("serializable", ("spark", "duckdb"), True),
        ("serializable", ("loose", "spark"), False),
        ("serializable", ("spark", "loose"), False),
        ("snapshot", ("spark", "spark"), False),
        ("snapshot", ("spark", "strict"), False),
        ("snapshot", ("strict", "spark"), False),
        ("snapshot", ("strict", "strict"), True),
        ("serializable", ("loose", "loose"), False),
        ("serializable", ("trino", "strict"), False),
    ],
)
def test_write_skew_is_a_cycle_only_among_operations_that_were_all_promised_more(
    table: Level, engines: tuple[str, str], found: bool
) -> None:
    """One at snapshot isolation may have read before the other committed and committed after it: that is a serial place for the other."""
    v = verdict(Isolation(), ring(table, *engines))
    assert [a.name for a in v.anomalies] == (["G2"] if found else []), v.anomalies
    assert (v.valid == "unknown") is ("trino" in engines)
    if found and "duckdb" in engines:
        assert "DuckDB update-counter-where" in v.anomalies[0].explanation


def lost_update(engines: Mapping[str, str]) -> Evidence:
    d = Drawing("snapshot")
    d.engines |= engines
    one = row(1, "seed")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("b", "update-counter", ids=[1])
    d.did("a", "update-append", ids=[1], remove=[one], add=[one._replace(log="seed,a")])
    d.commit("b", add=[one._replace(cnt=1)])
    d.ok("b")
    return d.evidence()


@pytest.mark.parametrize("engines", [{"b": "duckdb"}, {"a": "duckdb"}, {"a": "strict", "b": "loose"}, {}])
def test_a_lost_update_breaks_every_promise_and_the_one_who_overwrote_is_named_first(engines: dict[str, str]) -> None:
    for checker, name in ((Replay(), "duplicate-row"), (Isolation(), "lost-update")):
        (a,) = verdict(checker, lost_update(engines)).anomalies
        assert a.name == name
        assert a.ops[0] == "b" or not engines, checker.name
        if engines and checker.name == "isolation":
            assert "Promised was " in a.explanation and "'s b" in a.explanation


def stale(table: Level, engine: str) -> Evidence:
    """A read of what was before an update that had been acknowledged."""
    d = Drawing(table)
    d.engines["r"] = engine
    one = row(1, "seed")
    d.did("seed", "insert", ids=[1], add=[one])
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.read("r", [one])
    return d.evidence()


@pytest.mark.parametrize(("table", "engine", "found"), [("snapshot", "strict", True), ("serializable", "loose", False)])
def test_real_time_counts_before_what_was_promised_to_be_serializable(table: Level, engine: str, found: bool) -> None:
    v = verdict(Isolation(), stale(table, engine))
    assert [a.name for a in v.anomalies] == (["G-single-realtime"] if found else []), v.anomalies
    if found:
        assert v.anomalies[0].ops[0] == "r"


# --- whose a snapshot is ------------------------------------------------------------------------------------------------


def carried(d: Drawing, **requests: Sequence[int]) -> Evidence:
    """The drawing with requests of operations that carried snapshots."""
    seen = tuple(Carried(0, None, op, (s,), True, "204") for op, snapshots in requests.items() for s in snapshots)
    return replace(d.evidence(), carried={"t": seen}, proxied=True)


def labels(e: Evidence) -> tuple[dict[int, str], dict[int, str]]:
    ((t,), _) = timelines(e)
    return dict(t.labels.made), {s: str(h) for s, h in t.labels.how.items()}


def of_duckdb(*ops: str) -> Drawing:
    d = Drawing()
    d.engines |= dict.fromkeys(ops, "duckdb")
    return d


def test_the_request_that_carried_a_snapshot_says_whose_it_is() -> None:
    """Two deletes of the same row: nothing but the request tells which one made the snapshot."""
    d = of_duckdb("x", "y")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "delete", ids=[1])
    d.invoke("y", "delete", ids=[1])
    s = d.commit(None, remove=[row(1, "a")])
    d.commit(None)
    d.ok("x")
    d.ok("y")
    assert Commits().check(d.evidence()).valid == "unknown"
    e = carried(d, y=[s], x=[s + 1])
    assert labels(e) == ({s: "y", s + 1: "x"}, {s: "proxy", s + 1: "proxy"})
    v = verdict(Commits(), e)
    assert v.valid is True and v.stats["tables"]["t"]["named_by"] == {"summary": 1, "proxy": 2}
    assert verdict(Replay(), e).valid is True


def test_the_swap_of_a_metadata_file_says_whose_its_new_snapshot_is() -> None:
    d = of_duckdb("x")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "delete", ids=[1])
    s = d.commit(None, remove=[row(1, "a")])
    d.ok("x")
    swap = PointerSwap(0, 0, 1, "x", None, d.metadata[-1].location, "UPDATE 1")
    assert labels(replace(d.evidence(), swaps={"t": (swap,)})) == ({s: "x"}, {s: "proxy"})


def test_signed_rows_say_whose_a_snapshot_is_where_no_proxy_was() -> None:
    d = of_duckdb("x", "y")
    one = row(1, "a")
    d.did("a", "insert", ids=[1], add=[one])
    d.invoke("x", "update-append", ids=[1])
    d.invoke("y", "update-append", ids=[1])
    s = d.commit(None, remove=[one], add=[one._replace(log="a,y")])
    t = d.commit(None, remove=[one._replace(log="a,y")], add=[one._replace(log="a,y,x")])
    d.ok("x")
    d.ok("y")
    assert labels(d.evidence()) == ({s: "y", t: "x"}, {s: "rows", t: "rows"})
    v = verdict(Commits(), d.evidence())
    assert v.valid is True and v.stats["tables"]["t"]["named_by"] == {"summary": 1, "rows": 2}


def test_how_a_snapshot_was_named_is_said_where_it_is_shown() -> None:
    d = of_duckdb("x")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "insert", ids=[2])
    d.commit(None, add=[row(2, "x")])
    d.fail("x")
    (a,) = verdict(Commits(), d.evidence()).anomalies
    assert a.name == "false-failure" and a.ops == ("x",)
    assert "the DuckDB insert of id 2 (x, process" in a.explanation and "whose it is, its rows say)" in a.explanation


def test_proxies_and_rows_that_disagree_are_believed_neither() -> None:
    d = of_duckdb("x", "y")
    d.invoke("x", "insert", ids=[1])
    d.invoke("y", "insert", ids=[2])
    s = d.commit(None, add=[row(1, "x")])
    d.commit(None, add=[row(2, "y")])
    d.ok("x")
    d.ok("y")
    v = verdict(Commits(), carried(d, y=[s]))
    assert v.valid == "unknown" and not v.anomalies
    assert any(
        f"snapshot {s} names no operation; proxies saw it in a request of y" in n and "id of x" in n for n in v.notes
    )
    v = verdict(Commits(), carried(d, y=[s, s + 1], x=[s]))
    assert v.valid == "unknown" and any("requests of x and y" in n for n in v.notes)


def test_an_upsert_that_removes_rows_has_its_id_in_those_that_it_adds() -> None:
    """Proxies take one upsert's request for the next one's: its rows say otherwise, so nobody is accused."""
    d = of_duckdb("x", "y")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "upsert", ids=[1])
    s = d.commit(None, remove=[row(1, "a")], add=[row(1, "x")])
    d.ok("x")
    d.invoke("y", "upsert", ids=[1])
    d.commit(None, remove=[row(1, "x")], add=[row(1, "y")])
    d.ok("y")
    assert labels(carried(d, x=[s], y=[s + 1]))[0] == {s: "x", s + 1: "y"}
    v = verdict(Commits(), carried(d, y=[s]))
    assert v.valid == "unknown" and not v.anomalies
    assert any(f"snapshot {s} " in n and "its rows bear the id of x" in n for n in v.notes), v.notes
    assert labels(d.evidence())[0] == {s: "x", s + 1: "y"}


def test_requests_of_an_insert_and_a_delete_that_were_confused_accuse_nobody() -> None:
    d = of_duckdb("x", "y")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "delete", ids=[1])
    s = d.commit(None, remove=[row(1, "a")])
    d.invoke("y", "insert", ids=[2])
    d.commit(None, add=[row(2, "y")])
    d.ok("x")
    d.ok("y")
    assert verdict(Replay(), carried(d, x=[s], y=[s + 1])).valid is True
    e = carried(d, y=[s], x=[s + 1])
    assert labels(e)[0] == {}
    for checker in (Commits(), Replay()):
        assert not verdict(checker, e).anomalies
    notes = verdict(Commits(), e).notes
    assert any(f"in a request of y, but the rows with its id are in snapshot {s + 1}" in n for n in notes), notes


def test_a_snapshot_that_only_removes_belongs_to_the_request_that_brought_the_rows_too() -> None:
    d = of_duckdb("x")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "update-register", ids=[1])
    s = d.commit(None, remove=[row(1, "a")], shown=False)
    d.commit(None, parent=s, add=[row(1, "x", log="a")])
    d.ok("x")
    e = carried(d, x=[s, s + 1])
    assert labels(e)[0] == {s: "x", s + 1: "x"}
    for checker in (Commits(), Replay()):
        assert verdict(checker, e).valid is True


def test_an_insert_that_removes_a_row_instead_is_still_its_requests() -> None:
    """No other snapshot has its rows, so nothing contradicts the request: the engine is wrong."""
    d = of_duckdb("y")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("y", "insert", ids=[2])
    s = d.commit(None, remove=[row(1, "a")])
    d.ok("y")
    assert {a.ops[0] for a in verdict(Replay(), carried(d, y=[s])).anomalies} == {"y"}


def test_rows_that_a_request_brought_back_are_its_doing() -> None:
    """A delete's snapshot has the rows of an insert that has its own: the request says whose it is, and replay that it is wrong."""
    d = of_duckdb("x")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.did("b", "delete", ids=[1], remove=[row(1, "a")])
    d.invoke("x", "delete", ids=[1])
    s = d.commit(None, add=[row(1, "a")])
    d.ok("x")
    e = carried(d, x=[s])
    assert labels(e)[0] == {s: "x"}
    (a,) = verdict(Replay(), e).anomalies
    assert a.name == "resurrected-row" and a.ops[0] == "x"


def test_several_operations_in_one_snapshot_are_all_there() -> None:
    d = of_duckdb("x", "y")
    d.invoke("x", "insert", ids=[1])
    d.invoke("y", "insert", ids=[2])
    s = d.commit(None, add=[row(1, "x"), row(2, "y")])
    d.ok("x")
    d.ok("y")
    for checker in (Commits(), Replay(), Isolation()):
        v = verdict(checker, d.evidence())
        assert v.valid is True, (checker.name, v)
    assert verdict(Commits(), d.evidence()).stats["tables"]["t"]["named_by"] == {"shared": 1}
    assert any(
        f"snapshot {s} has the rows of several operations in one commit: x, y" in n
        for n in Commits().check(d.evidence()).notes
    )
    again = d.commit(None, add=[row(1, "x"), row(2, "y")])
    v = Commits().check(d.evidence())
    assert v.valid == "unknown" or {a.name for a in v.anomalies} == {"duplicate-commit"}, (again, v)


def test_a_shared_snapshot_with_a_row_too_many_is_wrong() -> None:
    d = of_duckdb("x", "y")
    d.invoke("x", "insert", ids=[1])
    d.invoke("y", "insert", ids=[2])
    d.commit(None, add=[row(1, "x"), row(2, "y"), row(2, "y")])
    d.ok("x")
    d.ok("y")
    (a,) = verdict(Replay(), d.evidence()).anomalies
    assert a.name == "wrong-rows" and a.ops[0] in ("x", "y")


@pytest.mark.parametrize(("engine", "found"), [("duckdb", True), ("spark", False)])
def test_the_same_rows_twice_are_a_second_commit_of_an_engine_that_never_names_itself(engine: str, found: bool) -> None:
    d = Drawing()
    d.engines |= {"x": "duckdb"} if engine == "duckdb" else {}
    d.invoke("x", "insert", ids=[1])
    d.commit(None, add=[row(1, "x")])
    d.commit(None, add=[row(1, "x")])
    d.ok("x")
    v = verdict(Commits(), d.evidence())
    assert [a.name for a in v.anomalies] == (["duplicate-commit"] if found else [])
    assert found or v.valid == "unknown"


def test_a_second_commit_that_no_proxy_saw_is_one_all_the_same() -> None:
    d = of_duckdb("x")
    d.invoke("x", "insert", ids=[1])
    s = d.commit(None, add=[row(1, "x")])
    d.commit(None, add=[row(1, "x")])
    d.ok("x")
    (a,) = verdict(Commits(), carried(d, x=[s])).anomalies
    assert a.name == "duplicate-commit" and a.ops == ("x",)


def test_a_long_run_without_names_is_matched() -> None:
    """More than 20 000 pairs of a snapshot and an operation, but few of them at the same time."""
    d = of_duckdb(*(f"w1-{n}" for n in range(300)))
    ids = {n: row(n % 3, "a") for n in range(3)}
    d.did("a", "insert", ids=[0, 1, 2], add=list(ids.values()))
    made = {}
    for n in range(300):
        old = ids[n % 3]
        ids[n % 3] = old._replace(cnt=old.cnt + 1)
        d.invoke(f"w1-{n}", "update-counter", ids=[n % 3])
        made[d.commit(None, remove=[old], add=[ids[n % 3]])] = f"w1-{n}"
        d.ok(f"w1-{n}")
        d.capture()
    e = d.evidence()
    assert labels(e)[0] == made
    assert verdict(Commits(), e).valid is True
    assert [c.op for log in named(e).logs.values() for c in log.commits][1:] == list(made.values())
    assert named(named(e)) == named(e)


# --- who is to blame ----------------------------------------------------------------------------------------------------


def lost(**more: object) -> Evidence:
    d = of_duckdb("x")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    d.invoke("x", "insert", ids=[2])
    d.ok("x")
    return replace(d.evidence(), **more)  # type: ignore[arg-type]


def test_a_server_that_answered_and_did_not_commit_is_to_blame() -> None:
    sent = AcceptedChange(0, 5_000_000, 1, "x", 1, (99,), 99, "POST /v1/transactions/commit", "204")
    (a,) = verdict(Commits(), lost(accepted={"t": (sent,)}, proxied=True)).anomalies
    assert a.name == "lost-commit" and a.ops == ("x",)
    assert a.evidence == {"seen": False, "culprit": "server", "engine": "duckdb"}
    assert "the catalog server answered 204 at 0.005 s" in a.explanation and "DuckDB could not know" in a.explanation


def test_a_pointer_swap_that_the_catalog_accepted_is_its_own_as_well() -> None:
    swap = PointerSwap(0, 5_000_000, 1, "x", None, "s3://w/t/metadata/00009-lost.metadata.json", "UPDATE 1")
    (a,) = verdict(Commits(), lost(swaps={"t": (swap,)}, proxied=True)).anomalies
    assert a.evidence["culprit"] == "server" and "answered UPDATE 1" in a.explanation


def test_an_engine_that_asked_nobody_is_to_blame() -> None:
    other = Carried(0, 0, "a", (1,), True, "200")
    (a,) = verdict(Commits(), lost(carried={"t": (other,)}, proxied=True)).anomalies
    assert a.evidence == {"seen": False, "culprit": "engine", "engine": "duckdb"}
    assert "DuckDB reported success without asking the catalog" in a.explanation


def test_an_engine_is_not_blamed_for_what_a_torn_proxy_log_lacks() -> None:
    """The log ends after the first snapshot: requests after that cannot be seen in it."""
    d = of_duckdb("x", "y", "z")
    d.did("z", "insert", ids=[1], add=[row(1, "z")])
    d.invoke("x", "insert", ids=[2])
    d.ok("x")
    d.invoke("y", "insert", ids=[3])
    d.commit(None, add=[row(3, "y")])
    d.ok("y")
    for requests, culprit in (({"z": [1], "y": [2]}, "engine"), ({"z": [1]}, None)):
        (a,) = verdict(Commits(), carried(d, **requests)).anomalies
        assert a.name == "lost-commit" and a.ops == ("x",)
        assert a.evidence.get("culprit") == culprit
        assert ("Proxies saw no request" in a.explanation) is (culprit is not None)


def test_nobody_is_blamed_where_no_proxy_was_or_the_request_was_not_accepted() -> None:
    for more in (
        {},
        {"proxied": True},
        {"proxied": True, "carried": {"t": (Carried(0, 1, "x", (99,), False, "500"),)}},
    ):
        (a,) = verdict(Commits(), lost(**more)).anomalies
        assert a.evidence == {"seen": False}


# --- conflicts and attempts ---------------------------------------------------------------------------------------------


def test_a_conflict_is_what_the_engine_calls_one() -> None:
    d = Drawing()
    d.engines |= {"b": "loose", "c": "loose", "d": "trino"}
    for op in ("a", "b", "c", "d"):
        d.invoke(op, "update-register", ids=[1])
    for op in ("a", "b", "d"):
        d.fail(op)
    d.fail("c")
    events = [replace(e, error=[["loose.Overtaken", "x"]]) if e.op == "c" and e.type == "fail" else e for e in d.events]
    e = d.evidence()
    ops = {o.op: o for o in replace(e.history, events=tuple(events)).operations()}
    assert {op: conflict_of(o) for op, o in ops.items()} == {
        "a": "ValidationException",
        "b": None,
        "c": "Overtaken",
        "d": "ValidationException",
    }


def test_attempts_are_the_requests_of_an_engine_that_does_not_count_them() -> None:
    d = of_duckdb("x", "y")
    d.did("a", "insert", ids=[1], add=[row(1, "a")])
    for op, n in (("x", 2), ("y", 3)):
        d.invoke(op, "insert", ids=[n])
        d.commit(None, add=[row(n, op)], attempt=None if op == "x" else 0)
        d.ok(op)
    bare = Retries().check(d.evidence()).stats["attempts"]["total"]
    assert bare == {"1": 1}, "no number, and 0, say nothing"
    e = carried(d, x=[77, 78, 2], y=[3])
    stats = Retries().check(e).stats
    assert stats["attempts"]["by_kind"] == {"insert": {"1": 2, "3": 1}}
    assert stats["wasted"]["attempts"] == 2 and stats["backoff_ms"]["committed"] == 0.0


# --- what clients saw, against every order --------------------------------------------------------------------------------


def of_several(level: Level, seed: int) -> tuple[Told, dict[str, str]]:
    """A small history on one id whose operations are of several engines, and each operation's level."""
    rng = Random(f"several/{level}/{seed}")
    if seed % 2:  # whoever finds no row makes one: what two of them may do depends on their levels
        t = small(level, seed, older=0.7, kinds=("merge-upsert", "merge-upsert", "delete"), first="merge-upsert")
    else:
        t = small(level, seed, older=0.4)
    other = "strict" if level == "snapshot" else "loose"
    by = {op: rng.choice(["spark", "loose", "strict", other, other, other]) for op in t.process}
    t.events = [
        replace(e, extra={"engine": by[str(e.op)]}) if e.type == "invoke" and by[str(e.op)] != "spark" else e
        for e in t.events
    ]
    return t, {op: {"loose": "snapshot", "strict": "serializable"}.get(name, level) for op, name in by.items()}


def judged_as_the_oracle_does(level: Level, seeds: range) -> int:
    """How many of the histories one level for all would have judged otherwise."""
    count = {True: 0, False: 0}
    apart = 0
    for seed in seeds:
        t, levels = of_several(level, seed)
        expected = explained(t, levels)
        count[expected] += 1
        apart += expected != explained(t)
        assert t.verdict().valid is expected, (seed, levels, t.events)
    assert min(count.values()) > len(seeds) / 20, count
    return apart


@pytest.mark.parametrize(
    ("level", "engines", "valid"),
    [
        ("serializable", ("spark", "spark"), False),
        ("serializable", ("spark", "duckdb"), False),
        ("serializable", ("loose", "strict"), True),
        ("serializable", ("spark", "loose"), True),
        ("snapshot", ("spark", "spark"), True),
        ("snapshot", ("spark", "duckdb"), True),
        ("snapshot", ("duckdb", "strict"), False),
    ],
)
def test_two_upserts_may_both_insert_if_one_of_them_may_have_scanned_before(
    level: Level, engines: tuple[str, str], valid: bool
) -> None:
    t = Told(level)
    for op in ("a", "b"):
        t.invoke(op, "merge-upsert", ids=[1])
    for op in ("a", "b"):
        t.ok(op)
    t.read("r", row(1, "a"), row(1, "b"))
    by = dict(zip(("a", "b"), engines, strict=True))
    t.events = [
        replace(e, extra={"engine": by[str(e.op)]})
        if e.type == "invoke" and by.get(str(e.op), "spark") != "spark"
        else e
        for e in t.events
    ]
    v = t.verdict()
    assert v.valid is valid, v
    if not valid and engines == ("duckdb", "strict"):
        assert "Promised: serializable by DuckDB, serializable by Strict." in v.anomalies[0].explanation


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_small_histories_of_several_engines_are_judged_as_the_oracle_does(level: Level) -> None:
    judged_as_the_oracle_does(level, range(400))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_many_histories_of_several_engines_are_judged_as_the_oracle_does(level: Level) -> None:
    assert judged_as_the_oracle_does(level, range(400, 4000)) > 5


# --- simulated ----------------------------------------------------------------------------------------------------------

MIXES: tuple[tuple[str, ...], ...] = (
    ("spark", "duckdb"),
    ("spark", "spark", "duckdb", "duckdb"),
    ("spark", "loose", "strict"),
    ("loose", "duckdb", "blind"),
    ("duckdb", "duckdb", "duckdb"),
)


def run(seed: int, engines: Sequence[str], *, proxied: bool, defects: Defects = CLEAN, **more: object) -> Simulation:
    rng = Random(f"engines/{seed}/{engines}")
    level: Level = rng.choice(["serializable", "snapshot"])
    mixes = (MIX, ALTERING) if proxied else (ROW_BY_ROW,)
    options: dict[str, object] = {
        "writers": len(engines),
        "ops": rng.randint(3, 60 // len(engines)),
        "keys": rng.randint(1, 8),
        "unknown": rng.choice([0.0, 0.05, 0.3]),
        "spurious": rng.choice([0.0, 0.05, 0.2]),
        "mix": rng.choice(mixes),
    }
    return simulate(seed, tables(rng, level), defects=defects, engines=engines, proxied=proxied, **(options | more))  # type: ignore[arg-type]


def clean(engines: Sequence[str], seeds: Iterator[int] | range) -> None:
    for seed in seeds:
        results = check(run(seed, engines, proxied=True).evidence(), ENOUGH)
        assert results.valid is True, (seed, engines, told(results))
        if seed % 3 == 0:  # without proxies whose a snapshot is cannot always be told
            results = check(run(seed, engines, proxied=False).evidence(), ENOUGH)
            assert results.valid is not False, (seed, engines, told(results))


@pytest.mark.parametrize("engines", MIXES, ids="-".join)
def test_a_clean_run_of_several_engines_is_valid(engines: tuple[str, ...]) -> None:
    clean(engines, range(12))


@pytest.mark.slow
@pytest.mark.parametrize("engines", MIXES, ids="-".join)
def test_no_clean_run_of_several_engines_raises_an_alarm(engines: tuple[str, ...]) -> None:
    clean(engines, range(12, 12 + many(150)))


@pytest.mark.parametrize(
    ("defects", "faulty", "checker", "names"),
    [
        (Defects(skew=0.7), "strict", Replay(), {"write-skew"}),
        (Defects(skew=0.7), "duckdb", Replay(), {"write-skew"}),
        (Defects(double=0.4), "duckdb", Commits(), {"duplicate-commit"}),
        (Defects(forget=0.3, answered=True), "duckdb", Commits(), {"lost-commit"}),
        (Defects(forget=0.3), "duckdb", Commits(), {"lost-commit"}),
    ],
    ids=["skew-strict", "skew-duckdb", "double", "answered", "forgotten"],
)
def test_a_broken_promise_of_one_engine_is_found_and_laid_on_it(
    defects: Defects, faulty: str, checker: Commits | Replay, names: set[str]
) -> None:
    """All of them beside an engine that is promised less; on tables at either level."""
    shown = found = 0
    for seed in range(40):
        made = run(
            seed,
            ("spark", "loose", faulty, faulty),
            proxied=True,
            defects=defects,
            faulty=faulty,
            ops=14,
            keys=3,
            unknown=0.0,
            mix=ROW_BY_ROW,
        )
        v = checker.check(made.evidence())
        guilty = {op for _, op in made.injected}
        assert {a.name for a in v.anomalies} <= names, (seed, v.anomalies)
        assert {a.ops[0] for a in v.anomalies} <= guilty, (seed, guilty, [a.explanation for a in v.anomalies])
        title = {"strict": "Strict", "duckdb": "DuckDB"}[faulty]
        assert all(f"the {title} " in a.explanation for a in v.anomalies)
        if names == {"lost-commit"}:
            assert {a.evidence.get("culprit") for a in v.anomalies} <= {"server" if defects.answered else "engine"}
        shown += len(guilty)
        found += len({a.ops[0] for a in v.anomalies})
    assert shown >= 10 and found >= 0.9 * shown, (shown, found)


def test_a_blind_append_beside_an_engine_that_promises_more_is_the_appenders() -> None:
    found = 0
    for seed in range(120):
        made = simulate(
            seed,
            [TableSpec(name="a", isolation="serializable", partitions=2, seed_rows=4)],
            writers=3,
            ops=14,
            keys=3,
            unknown=0.0,
            mix=ROW_BY_ROW,
            engines=("blind", "strict", "duckdb"),
            defects=Defects(blind=1.0),
        )
        v = Replay().check(made.evidence())
        guilty = {op for _, op in made.injected}
        assert {a.ops[0] for a in v.anomalies} <= guilty, [a.explanation for a in v.anomalies]
        assert all(a.documented == PAPER and "the Blind " in a.explanation for a in v.anomalies)
        found += len(v.anomalies)
    assert found >= 5
