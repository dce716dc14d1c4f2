"""Columns say what the exact checkers say: never ``true`` where these find something, and the same anomalies where they do."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bench import columns as made
from checkers.columns import (
    CHECKERS,
    TableFrame,
    Unordinary,
    check_columns,
    dataset,
    frame_of,
    hashing,
    records,
    screen,
)
from checkers.columns.engine import _EXACT, judge_frame
from checkers.columns.frames import Unplaced
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.judge.check import check
from checkers.linearizable import Linearizable
from checkers.selftest import ALL as MUTATIONS
from checkers.selftest import recorded
from checkers.selftest.world import World
from checkers.timeline.timelines import timelines
from checkers.verdict import Verdict, worst
from tests.support.drawing import Drawing, row
from tests.support.simulator import ALTERING, MIX, OF_DELTA_ALONE, UPSERTING, Defects, simulate
from workloads.operations import kinds
from workloads.operations.inserts import Insert
from workloads.operations.kind import Arguments, WriteSet, new_rows
from workloads.operations.kinds import KINDS
from workloads.operations.reads import Read
from workloads.tables import Row, State, TableSpec

SPECS = {
    level: [
        TableSpec(name="a", mode="merge-on-read", isolation=level, partitions=2, seed_rows=4),
        TableSpec(name="b", format_version=3, isolation=level, partitioned=False, partitions=2, seed_rows=4),
    ]
    for level in ("serializable", "snapshot")
}
EXACT = {c.name: c for c in _EXACT}
A, B = row(1, "a"), row(2, "b")


def said(e: Evidence) -> dict[str, tuple[object, list[tuple[object, ...]]]]:
    """Checker → what it says of the evidence."""
    return {n: _said(c.check(e)) for n, c in EXACT.items()}


def _said(v: object) -> tuple[object, list[tuple[object, ...]]]:
    return v.valid, sorted((a.name, a.table, a.ops, a.keys) for a in v.anomalies)  # type: ignore[attr-defined]


def agrees(e: Evidence) -> tuple[bool, int]:
    """Asserts that columns say the same; whether it is false, and how many tables the screen decided."""
    found = check_columns(e)
    assert _said(Linearizable().check(e)) == _said(Linearizable().check(replace(e))), (
        "what is explained needs no search"
    )
    exact = said(e)
    assert {v.checker: _said(v) for v in found} == exact
    assert [v.checker for v in found] == list(CHECKERS)
    return any(v is False for v, _ in exact.values()), found[0].stats["engine"]["columns"]


# --- simulated and recorded runs ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_clean_runs_are_proven(level: str) -> None:
    decided = 0
    for seed in range(100):
        false, columns = agrees(simulate(seed, SPECS[level], unknown=0.05).evidence())
        assert not false
        decided += columns
    # After an expiry the history of one position may have answered a time travel in two ways: the exact checkers look.
    assert decided >= 195 if level == "serializable" else decided > 80


def test_equality_deletes_are_proven() -> None:
    for seed in range(20):
        false, columns = agrees(simulate(seed, SPECS["serializable"], mix=UPSERTING).evidence())
        assert not false and columns == 2


def test_changes_of_the_metadata_are_nothing_to_columns() -> None:
    for seed in range(20):
        false, columns = agrees(simulate(seed, SPECS["serializable"], mix=ALTERING).evidence())
        assert not false and columns == 2


COPYING = {"insert": 5, "insert-select": 6, "update-counter": 3, "delete": 1, "read": 3}
TRAVELLING = {"insert": 5, "update-counter": 3, "read": 2, "read-snapshot": 6, "expire-snapshots": 3}


def test_copies_of_several_rows_are_proven() -> None:
    for seed in range(6):
        e = simulate(seed, SPECS["snapshot"], mix=COPYING, keys=3, writers=1, ops=40).evidence()
        copied = [o for o in e.history.operations() if o.f == "insert-select" and o.type == "ok"]
        assert any(len(c.added or ()) > 1 for o in copied for log in e.logs.values() for c in log.by_op().get(o.op, ()))
        false, columns = agrees(e)
        assert not false and columns == 2


def test_a_copy_of_several_rows_with_a_wrong_one_is_not_proven() -> None:
    for seed in range(4):
        e = simulate(seed, SPECS["snapshot"], mix=COPYING, keys=3, writers=1, ops=40).evidence()
        made = {o.op for o in e.history.operations() if o.f == "insert-select"}
        log = e.logs["a"]
        n, c = next((n, c) for n, c in enumerate(log.commits) if c.op in made and len(c.added or ()) > 1)
        assert c.added is not None
        wrong = replace(c.added[0], row=(*c.added[0].row[:2], c.added[0].row[2] + 1, *c.added[0].row[3:]))
        commits = (*log.commits[:n], replace(c, added=(wrong, *c.added[1:])), *log.commits[n + 1 :])
        assert agrees(replace(e, logs={**e.logs, "a": replace(log, commits=commits)}))[0]


@pytest.mark.parametrize(("acknowledged", "travels"), [(False, False), (False, True), (True, True)])
def test_an_expiry_proves_a_commit_that_nobody_acknowledged(acknowledged: bool, travels: bool) -> None:
    """``reads`` looks at it where there are time travels, and finds a read stale that does not see the commit."""
    d = Drawing("serializable")
    d.did("a", "insert", ids=[1], add=[A])
    d.invoke("b", "insert", ids=[2])
    d.commit("b", add=[B])
    if acknowledged:
        d.ok("b")
    d.invoke("e", "expire-snapshots", retain_last=1)
    kept = d.metadata[-1]
    d.metadata.append(replace(kept, n=kept.n + 1, location=kept.location + "x", snapshots=kept.snapshots[-1:]))
    d.ok("e", [[0, 0, 0, 1, 1, 0]])
    d.read("r", [A, B] if acknowledged else [A])
    if travels:
        d.invoke("x", "read-snapshot", back=0)
        d.ok("x", {"snapshot": d.metadata[-1].current, "rows": [list(A), list(B)]})
    d.capture()
    evidence = d.evidence()
    exact = EXACT["reads"].check(evidence)
    (found,) = [v for v in check_columns(evidence) if v.checker == "reads"]
    assert [a.name for a in exact.anomalies] == (["stale-read"] if travels and not acknowledged else [])
    assert (found.valid, found.anomalies) == (exact.valid, exact.anomalies)
    assert found.stats["engine"]["columns"] == (0 if exact.anomalies else 1)


@pytest.mark.parametrize("defects", [Defects(), Defects(wrong_travel=0.5), Defects(stale_travel=0.5)])
def test_time_travels_that_columns_cannot_place_are_judged_by_reads_alone(defects: Defects) -> None:
    alone = found = 0
    for seed in range(8):
        e = simulate(seed, SPECS["serializable"], mix=TRAVELLING, ops=25, defects=defects).evidence()
        false, decided = agrees(e)
        found += false
        unplaced = 0
        for t in timelines(e)[0]:
            try:
                frame_of(t)
            except Unplaced:
                unplaced += 1
        assert decided >= unplaced
        alone += unplaced
    assert alone and bool(found) == (defects != Defects())


@pytest.mark.slow
@pytest.mark.parametrize(
    "defect", [f.name for f in fields(Defects) if f.type == "float" and f.name not in OF_DELTA_ALONE]
)
@pytest.mark.parametrize("level", ["serializable", "snapshot"])
def test_what_an_exact_checker_accuses_is_accused(defect: str, level: str) -> None:
    false = decided = 0
    seldom = defect in ("resurrect", "dirty_read", "stale_overwrite", "lose_equality", "younger")
    for seed in range(60 if seldom else 12):
        mix = UPSERTING if defect in ("lose_equality", "younger") else MIX
        e = simulate(seed, SPECS[level], defects=Defects(**{defect: 1.0 if seldom else 0.4}), mix=mix).evidence()
        was, columns = agrees(e)
        false += was
        decided += columns
    assert false or defect in ("lose_change", "undelete", "skew", "blind", "resurrect"), "the defect showed"
    assert decided or false


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_planted_bug_of_a_recorded_run_is_told_alike(part: int) -> None:
    worlds = [World(recorded.load(n), Random(0)) for n in recorded.names()]
    mine = [m for m in MUTATIONS if m.checker in CHECKERS][part::4]
    planted = 0
    for n, m in enumerate(mine):
        for w in worlds:
            bug = m.plant(w.with_rng(Random(n)))
            if bug is not None:
                planted += 1
                false, _ = agrees(bug.evidence)
                assert false or not m.finds, m.name
    assert planted >= len(mine)


# --- the screen alone ---------------------------------------------------------------------------------------------------


@cache
def frames() -> list[TableFrame]:
    """The tables of clean runs; nobody changes them."""
    return [
        frame_of(t) for seed in range(8) for t in timelines(simulate(seed, SPECS["serializable"], ops=80).evidence())[0]
    ]


TOLD = (
    "seen",
    "name",
    "commit_op",
    "position",
    "sign",
    "id",
    "val",
    "cnt",
    "log",
    "row_part",
    "arg_id",
    "outcome",
    "kind",
)
"""Columns in which no number can be another one without a contradiction."""


def changed(f: TableFrame, column: str, rng: Random) -> TableFrame | None:
    """The frame with one number changed in a column, where that must be a contradiction; None where there is none such."""
    values = getattr(f, column).copy()
    made = np.zeros(f.operations, np.bool_)
    made[f.commit_op] = True
    reads = np.isin(f.kind, [f.kinds.index(k) for k in ("read", "read-key")]) & (f.outcome == 0)
    changes = np.zeros(f.operations, np.bool_)
    changes[f.commit_op[f.position - 1]] = True
    inserts = changes & (f.kind == f.kinds.index("insert"))
    where = {
        "seen": reads,
        "name": inserts,
        "outcome": made,
        "kind": changes,
        "arg_id": inserts[f.arg_op],
        "commit_op": (changes & (f.outcome == 0))[f.commit_op],
    }.get(column, np.ones(len(values), np.bool_))
    found = np.flatnonzero(where)
    if not len(found):
        return None
    n = int(rng.choice(found.tolist()))
    if column == "outcome":
        values[n] = 1
    elif column == "kind":
        values[n] = f.kinds.index("read")
    elif column == "sign":
        values[n] = -values[n]
    elif column == "commit_op":
        values[n] = (values[n] + 1) % f.operations
    elif column == "position":
        step = 1 if values[n] < len(f.commit_op) else -1
        values[n] += step
        order = np.argsort(values, kind="stable")
        return replace(
            f, **{c: (values if c == column else getattr(f, c))[order] for c in records.RECORD[records.CHANGE]}
        )
    else:
        values[n] += values.dtype.type(rng.choice([1, 2, 1 << 20]))
    return replace(f, **{column: values})


@pytest.mark.slow
@pytest.mark.parametrize("column", TOLD)
def test_one_wrong_number_is_never_proven(column: str) -> None:
    tried = 0
    for seed in range(150):
        rng = Random(f"{column}/{seed}")
        f = rng.choice(frames())
        assert screen(f).proven
        wrong = changed(f, column, rng)
        if wrong is not None:
            tried += 1
            assert not screen(wrong).proven, (column, seed)
    assert tried > 100


def test_without_evidence_what_is_certain_is_said_and_the_rest_is_unknown() -> None:
    d = Drawing("serializable")
    one = row(1, "seed")
    d.did("seed", "insert", ids=[1], add=[one])
    d.invoke("d", "delete", ids=[1])
    d.did("u", "update-register", ids=[1], remove=[one], add=[one._replace(val="u")])
    d.commit("d")
    d.ok("d")
    (t,) = timelines(d.evidence())[0]
    f = frame_of(t)
    verdicts = judge_frame(f).parts
    assert [a.name for a in verdicts["replay"].anomalies] == ["wrong-rows"] and verdicts["replay"].valid is False
    assert {v.valid for n, v in verdicts.items() if n != "replay"} == {"unknown"}
    lenient = replace(f, spec=f.spec.model_copy(update={"isolation": "snapshot"}))
    assert {v.valid for v in judge_frame(lenient).parts.values()} == {"unknown"}


def test_what_is_planted_in_a_long_table_is_suspect() -> None:
    def suspects(f: TableFrame) -> dict[str, list[int]]:
        return {reason: ops.tolist() for reason, ops in sorted(screen(f).suspects.items())}

    f = made.frame(5_000, seed=3)
    assert suspects(f) == {}
    commits, val, kind, outcome = f.commit_op.copy(), f.val.copy(), f.kind.copy(), f.outcome.copy()
    commits[[7, 70]] = -1
    assert suspects(replace(f, commit_op=commits)) == {"unknown-commit": [-71, -8]}
    val[1000] += np.uint64(1)
    assert suspects(replace(f, val=val)) != {}
    kind[5] = 99
    assert suspects(replace(f, kind=kind)) == {"unknown-kind": [5]}
    failed, made_by = np.flatnonzero(outcome == 1)[:3], f.commit_op[:4]
    outcome[failed], outcome[made_by] = 0, 1
    assert suspects(replace(f, outcome=outcome)) == {
        "false-failure": sorted(made_by.tolist()),
        "lost-commit": failed.tolist(),
    }


def test_a_table_that_is_not_ordinary_has_no_columns() -> None:
    e = simulate(1, SPECS["serializable"]).evidence()
    log = replace(e.logs["a"], complete=False)
    (a, _) = timelines(replace(e, logs={**e.logs, "a": log}))[0]
    with pytest.raises(Unordinary, match="did not come to its end"):
        frame_of(a)
    found = check_columns(replace(e, logs={**e.logs, "a": log}))
    assert found[0].stats["engine"] == {"columns": 1, "exact": 1}


def test_records_give_the_frame_back_in_any_order() -> None:
    for n, f in enumerate(frames()):
        t = records.to_records(f).take(np.random.default_rng(n).permutation(_length(f)))
        numbers = [t[f"c{i}"].to_numpy() for i in range(records.RECORD_WIDTH)]
        again = records.from_records(t["record"].to_numpy(), t["n"].to_numpy(), numbers, f.spec, f.kinds)
        for c in fields(TableFrame):
            mine, theirs = getattr(f, c.name), getattr(again, c.name)
            assert (
                mine is theirs
                if c.name in ("spec", "kinds")
                else (mine.dtype == theirs.dtype and (mine == theirs).all())
            )


def test_a_dataset_means_the_same_to_a_version_that_numbers_kinds_otherwise() -> None:
    for f in frames():
        last = len(f.kinds) - 1
        other = replace(f, kinds=f.kinds[::-1], kind=last - f.kind)
        assert screen(other).proven is screen(f).proven
        strange = replace(f, kinds=tuple(f"{k}-of-tomorrow" for k in f.kinds))
        assert set(screen(strange).suspects) == {"unknown-kind"}


def test_a_dataset_that_does_not_name_its_kinds_is_refused(tmp_path: Path) -> None:
    dataset.write([("run", frames()[0])], tmp_path)
    told = json.loads((tmp_path / dataset.PARTS).read_text())
    assert [p.kinds for p in dataset.parts_of(tmp_path)] == [frames()[0].kinds]
    (tmp_path / dataset.PARTS).write_text(json.dumps([{k: v for k, v in p.items() if k != "kinds"} for p in told]))
    with pytest.raises(ValueError, match=r"parts.json: kinds: .*write the dataset again"):
        dataset.parts_of(tmp_path)


def _length(f: TableFrame) -> int:
    return sum(len(getattr(f, names[0])) for names in records.RECORD.values())


def test_lists_have_the_same_hash_if_and_only_if_they_are_the_same() -> None:
    rows = hashing.Rows()
    rng = Random(1)
    texts = {",".join(rng.choice(["a", "b", "w0-1", ""]) for _ in range(rng.randint(1, 5))) for _ in range(500)}
    assert len({rows.list(t) for t in texts}) == len(texts)
    assert {t: hashing.Rows().list(t) for t in texts} == {t: rows.list(t) for t in texts}


def test_the_engine_changes_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    for defects in (Defects(), Defects(lose=0.3), Defects(stale_read=0.5)):
        e = simulate(3, SPECS["serializable"], defects=defects).evidence()
        exact, fast = check(e, engine="exact"), check(e, engine="columns")
        assert fast.valid is exact.valid
        assert [(v.checker, _said(v)) for v in fast.verdicts] == [(v.checker, _said(v)) for v in exact.verdicts]
    monkeypatch.setattr("checkers.judge.check.LONG", 1)
    assert "engine" in check(e).verdicts[0].stats and "engine" not in check(e, engine="exact").verdicts[0].stats


def test_a_bug_of_the_columns_is_told_and_the_exact_checkers_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(evidence: Evidence) -> list[Verdict]:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("checkers.judge.check.check_columns", broken)
    e = simulate(3, SPECS["serializable"]).evidence()
    results = check(e, engine="columns")
    assert results.valid is True
    assert results.verdicts[-1].notes == ("columns failed, so the exact checkers judged: ZeroDivisionError: oops",)


def test_the_worst_table_decides() -> None:
    for seed in range(20):
        e = simulate(seed, SPECS["serializable"], defects=Defects(lose=0.2)).evidence()
        assert worst(v.valid for v in check_columns(e)) is worst(c.check(e).valid for c in _EXACT)


# --- kinds and arguments that columns do not know -----------------------------------------------------------------------


class InsertTwins(Insert):
    """Inserts every row twice: a kind of which columns were never told."""

    name = "insert-twins"

    def writeset(self, state: State, value: Arguments, op: str, table: TableSpec) -> WriteSet:
        return WriteSet([], sorted([*new_rows(value, op, table)] * 2))


class ReadCount(Read):
    """Returns how many rows there are: a read of which columns were never told."""

    name = "read-count"


@pytest.mark.parametrize(
    ("f", "value", "added", "result"),
    [
        ("insert-twins", {"ids": [2]}, [row(2, "x")] * 2, None),
        ("insert-twins", {}, [row(2, "x")] * 2, None),
        ("insert-twins", {"keys": [2]}, [row(2, "x")] * 2, None),
        ("read-count", {}, [], 1),
        ("insert", {}, [row(2, "x")], None),
        ("delete-where", {"part": 1}, [], None),
        ("transfer", {}, [row(2, "x")], None),
        ("transfer", {"keys": [2]}, [row(2, "x")], None),
    ],
)
def test_what_columns_do_not_know_they_hand_over_however_long_the_table(
    monkeypatch: pytest.MonkeyPatch, f: str, value: dict[str, Any], added: list[Row], result: object
) -> None:
    for kind in (InsertTwins(), ReadCount()):
        monkeypatch.setitem(kinds._KINDS, kind.name, kind)
    monkeypatch.setattr("checkers.columns.engine.EXACT", 0)
    d = Drawing("serializable")
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    d.invoke("x", f, **value)
    if added:
        d.commit("x", added)
    d.ok("x", result)
    e = d.evidence()
    (t,) = timelines(e)[0]
    with pytest.raises(Unordinary, match=r"^x (has arguments of no known form|is of the kind)"):
        frame_of(t)
    found = check_columns(e)
    assert found[0].stats["engine"] == {"columns": 0, "exact": 1}
    assert {v.checker: _said(v) for v in found} == said(e)


CODES = list(KINDS)


@pytest.mark.parametrize("code", [CODES.index("transfer"), CODES.index("read-both"), len(CODES), -1])
def test_columns_of_a_kind_that_the_screen_does_not_know_are_neither_proven_nor_accused(code: int) -> None:
    d = Drawing("serializable")
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    d.did("x", "insert", ids=[2], add=[row(2, "x")])
    d.read("r", [row(1, "seed"), row(2, "x")])
    (t,) = timelines(d.evidence())[0]
    f = frame_of(t)
    assert {v.valid for v in judge_frame(f).parts.values()} == {True}
    at = 2 if code == CODES.index("read-both") else 1
    kind = f.kind.copy()
    kind[at] = code
    strange = judge_frame(replace(f, kind=kind))
    assert strange.why.startswith("not-replayed ×1, unknown-kind ×1" if code == CODES.index("transfer") else "unknown")
    assert {v.valid for v in strange.parts.values()} == {"unknown"}


def test_what_keeps_rows_may_have_any_other_arguments() -> None:
    d = Drawing("serializable")
    d.did("seed", "insert", ids=[1], add=[row(1, "seed")])
    d.invoke("c", "rewrite-data-files", strategy="zorder", of="tomorrow")
    d.commit("c")
    d.ok("c", [[0] * 5])
    assert [v.stats["engine"] for v in check_columns(d.evidence())] == [{"columns": 1, "exact": 0}] * 4


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_taken_in_together_as_one_by_one(seed: int) -> None:
    rng = Random(seed)
    strange: list[Any] = [True, 1.0, None, -1, 1 << 63, "w1-1", ",".join("w" * 902), b"x"]

    def some() -> list[Any]:
        made: list[Any] = [
            rng.randrange(-3, 9),
            f"w{rng.randrange(4)}-1",
            rng.randrange(3),
            "w1-1,w2-2"[: 4 * rng.randrange(3)],
            1,
        ]
        if rng.random() < 0.05:
            made[rng.randrange(5)] = rng.choice(strange)
        return made

    rows = [some() for _ in range(rng.randrange(12))]

    def taken(together: bool) -> object:
        into = hashing.Rows()
        try:
            if together:
                into.add_all(rows)
            else:
                for r in rows:
                    into.add(r)
        except Unordinary:
            return "not ordinary"
        return into.id, into.val, into.cnt, into.log, into.part

    assert taken(True) == taken(False)
