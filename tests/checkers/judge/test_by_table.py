"""A long run judged table by table: the same results as of the whole run, or none."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import numpy as np
import pytest

from bench import files
from checkers.evidence import history, tablelog, tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, History, UnpairedError
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge import by_table
from checkers.judge.by_table import NotByTable
from checkers.judge.check import ALL, check
from checkers.judge.registry import VERDICT_ORDER
from checkers.judge.runfolder import Results, load_evidence, load_promises, load_ran
from checkers.liveness import Liveness, LivenessPart, unanswered
from checkers.timeline import fault_windows
from checkers.timeline.operation_columns import OperationColumns
from checkers.unit import Part, RunColumns, TableChecker, Unit, unjudged
from checkers.verdict import Checker, Validity, Verdict
from tests.support.examples import example
from workloads.file.anomalies import entries_of

Line = dict[str, Any]
S = 1_000_000_000
BUILT_IN = tuple(c for c in ALL if c.name in VERDICT_ORDER)
"""A checker that somebody has added may have ``check`` alone, and then the run is read as a whole."""


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three tables with a fault, in which nothing is wrong."""
    patch = pytest.MonkeyPatch()
    patch.setattr(files, "A_TABLE", 48)
    patch.setattr(files, "KEYS", 10)
    try:
        folder = files.make_run(tmp_path_factory.mktemp("runs") / "run", 144)
    finally:
        patch.undo()
    edit(folder, with_faults)
    return folder


@pytest.fixture
def run(clean: Path, tmp_path: Path) -> Path:
    return Path(copytree(clean, tmp_path / "run"))


def lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, records: list[Line]) -> None:
    path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records))


def edit(folder: Path, change: Callable[[list[Line]], object], file: str = "history.jsonl") -> None:
    """Change the lines of a file; events get their indices anew."""
    path = folder / file
    found = lines(path)
    change(found)
    if file == "history.jsonl":
        for n, e in enumerate(found[1:]):
            e["index"] = n
    write(path, found)


def with_faults(found: list[Line]) -> None:
    faults = [(0.2, "start-partition"), (0.3, "stop-partition"), (0.6, "start-pause"), (0.65, "heal")]
    size = len(found)
    for share, f in reversed(faults):
        at = int(size * share)
        event = {"index": 0, "time": found[at]["time"], "type": "info", "process": "nemesis", "f": f, "table": None}
        found.insert(at, {**event, "value": None, "op": None})


def whole(folder: Path) -> Results:
    return check(load_evidence(folder), ALL, load_promises(folder), ran=load_ran(folder), engine="columns")


def fast(folder: Path, processes: int = 1) -> Results:
    return by_table._Run(folder, "columns").results(processes)


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_the_results_are_those_of_the_whole_run(clean: Path, processes: int) -> None:
    found = fast(clean, processes)
    assert found.valid is True
    assert found == whole(clean)
    assert json.dumps(found.to_json(), sort_keys=True) == json.dumps(whole(clean).to_json(), sort_keys=True)
    assert found == by_table.judged(clean, "columns", processes)
    assert next(v for v in found.verdicts if v.checker == "retries").stats["faults"]["windows"] == 2


class Own(Checker):
    """A checker that is not icequake's own."""

    name = "own"
    names = frozenset({"odd"})
    says: Validity = True

    def check(self, evidence: Evidence) -> Verdict:
        return Verdict(self.name, self.says, stats={"operations": len(evidence.history.operations())})


@pytest.mark.parametrize("processes", [1, 3])
def test_a_checker_of_ones_own_is_judged_beside_the_tables(
    clean: Path, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = (*ALL, Own())
    monkeypatch.setattr(by_table, "ALL", every)
    evidence = load_evidence(clean)
    together = check(evidence, every, load_promises(clean), ran=load_ran(clean), engine="columns")
    found = by_table.judged(clean, "columns", processes)
    assert found == together
    assert found is not None and found.verdicts[-1].stats == {"operations": len(evidence.history.operations())}


@pytest.mark.parametrize("says", ["unknown", False])
def test_what_a_checker_of_ones_own_says_is_told_beside_the_tables(
    clean: Path, says: Validity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Own, "says", says)
    every = (*ALL, Own())
    monkeypatch.setattr(by_table, "ALL", every)
    together = check(load_evidence(clean), every, load_promises(clean), ran=load_ran(clean), engine="columns")
    assert by_table.judged(clean, "columns", 2) == together
    assert together.valid is says


class OwnOfTables(TableChecker):
    """A checker of tables that is not icequake's own: snapshots of each, and of the run."""

    name = "own-of-tables"
    names = frozenset({"odd"})

    def part(self, unit: Unit) -> Part:
        t = unit.timeline
        return unjudged(unit) if t is None else Part(t.name, stats={"snapshots": len(t.main), "pid": os.getpid()})

    def fold(self, parts: Sequence[Part]) -> Verdict:
        tables = [p.stats or {} for p in parts]
        snapshots, workers = sum(t["snapshots"] for t in tables), {t["pid"] for t in tables}
        return Verdict(self.name, True, stats={"snapshots": snapshots}, notes=(f"{len(workers)} processes",))


def test_a_checker_of_tables_of_ones_own_is_asked_where_the_table_is(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = (*BUILT_IN, OwnOfTables())
    monkeypatch.setattr(by_table, "ALL", every)
    monkeypatch.setattr(by_table, "load_evidence", lambda _: pytest.fail("the run was read as a whole"))
    together = check(load_evidence(clean), every, load_promises(clean), ran=load_ran(clean), engine="columns")
    assert by_table.judged(clean, "columns", 1) == together
    found = by_table.judged(clean, "columns", 3)
    assert found is not None and found.verdicts[-1].notes == ("3 processes",)
    assert found.verdicts[-1].stats == together.verdicts[-1].stats != {"snapshots": 0}


def test_the_checker_of_the_page_is_asked_where_the_table_is(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space: dict[str, Any] = {"__name__": "my_checker"}
    exec(compile(example("my_checker.py"), "my_checker.py", "exec"), space)
    every = (*BUILT_IN, space["Clocks"]())
    monkeypatch.setattr(by_table, "ALL", every)
    monkeypatch.setattr(by_table, "load_evidence", lambda _: pytest.fail("the run was read as a whole"))
    together = check(load_evidence(clean), every, load_promises(clean), ran=load_ran(clean), engine="columns")
    assert by_table.judged(clean, "columns", 2) == together
    assert together.verdicts[-1].checker == "clocks" and len(together.verdicts[-1].stats["tables"]) == 3


def test_thresholds_and_what_is_allowed_are_told_alike(run: Path) -> None:
    folder = RunFolder(run)
    plan = folder.read_plan()
    folder.write_plan(
        plan.model_copy(update={"allow": entries_of("lost-update"), "assertions": {"retry_rate": "<=100%"}})
    )
    assert fast(run) == whole(run)
    assert fast(run).accepted.allow == entries_of("lost-update")
    assert fast(run).verdicts[-1].checker == "assert"
    folder.write_plan(plan.model_copy(update={"assertions": {"retry_rate": "<0%"}}))
    with pytest.raises(NotByTable, match="not true"):
        fast(run)


def test_without_proxies(run: Path) -> None:
    (run / "proxy.jsonl").unlink()
    assert fast(run) == whole(run)


def test_short_runs_and_the_exact_engine_are_judged_as_a_whole(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_table.judged(clean, "exact", 2) is None
    assert by_table.judged(clean, "auto", 2) is None
    monkeypatch.setattr(by_table, "LONG", 10)
    assert by_table.judged(clean, "auto", 2) is not None
    monkeypatch.setattr(by_table, "_processes", lambda: 1)
    assert by_table.judged(clean, "auto") is None  # one process would take longer than the whole


def test_a_process_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.active_count", lambda: 2)
    assert by_table._processes() == 1


# --- what is not as usual ---------------------------------------------------------------------------------------------


def first(found: list[Line], **values: Any) -> Line:
    return next(e for e in found[1:] if all(e.get(k) == v for k, v in values.items()))


def torn(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_bytes(path.read_bytes()[:-3])


def blank_line(folder: Path) -> None:
    path = folder / "history.jsonl"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 1))


def ended_early(folder: Path) -> None:
    RunFolder(folder).write_state({"state": "incomplete", "operations": 10})


def evidence_missing(folder: Path) -> None:
    state = RunFolder(folder).state()
    RunFolder(folder).write_state({**state, "evidence": ["tablelog/t0001.jsonl", "kinds/own.py"]})


def end_missing(folder: Path) -> None:
    RunFolder(folder).write_state({"state": "complete", "operations": 10_000})


def table_in_a_value(folder: Path) -> None:
    """The first "table" of two lines is one of the value, which the reader of the whole file does not mistake."""

    def change(found: list[Line]) -> None:
        for own, other in (("t0000", "t0001"), ("t0001", "t0000"), ("t0002", "t0000")):
            n = found.index(first(found, table=own, type="invoke"))
            rest = {k: v for k, v in found[n].items() if k != "value"}
            found[n] = {"value": {"table": other, **found[n]["value"]}, **rest}

    edit(folder, change)


def table_of_another_form(folder: Path) -> None:
    def change(found: list[Line]) -> None:
        n = next(k for k, e in enumerate(found[1:], 1) if e["type"] == "invoke" and e["table"] == "t0000")
        found[n] = {
            "value": {**found[n]["value"], "table": "t0001"},
            **{k: v for k, v in found[n].items() if k != "value"},
        }

    edit(folder, change)


def completed_elsewhere(folder: Path) -> None:
    edit(folder, lambda found: first(found, type="ok", table="t0000").update(table="t0001"))


def same_id_twice(folder: Path) -> None:
    """Two tables have an operation of one id."""

    def change(found: list[Line]) -> None:
        other = first(found, table="t0001", type="invoke", f="read")["op"]
        mine = first(found, table="t0000", type="invoke", f="read")["op"]
        for e in found[1:]:
            if e["op"] == other:
                e["op"] = mine

    edit(folder, change)


def busy_process(folder: Path) -> None:
    """A process invokes an operation on another table while one is under way."""

    def change(found: list[Line]) -> None:
        a = first(found, table="t0001", type="invoke", f="read")
        during = [e["process"] for e in found[1 : found.index(a)] if e["table"] == "t0000"]
        b = next(e for e in found[found.index(a) :] if e["table"] == "t0000" and e["type"] == "invoke" and during)
        for e in found[1:]:
            if e["op"] == a["op"]:
                e["process"] = b["process"]
        assert found.index(a) < found.index(b)
        end = next(e for e in found[1:] if e["op"] == a["op"] and e["type"] != "invoke")
        found.remove(end)
        found.insert(found.index(b) + 1, {**end, "time": b["time"]})

    edit(folder, change)


def clock_runs_backwards(folder: Path) -> None:
    """Between events of two tables: within each table the times go up."""

    def change(found: list[Line]) -> None:
        for n, (a, b) in enumerate(pairwise(found[1:]), 1):
            rest = [e for e in found[n + 2 :] if e["table"] == b["table"]]
            if a["table"] == "t0000" and b["table"] == "t0001" and b["time"] > a["time"] and rest:
                a["time"], b["time"] = b["time"], a["time"]
                return
        raise AssertionError("no such events")

    edit(folder, change)


def of_another_table(folder: Path) -> None:
    """A snapshot names an operation of another table."""
    op = first(lines(folder / "history.jsonl"), table="t0001", type="invoke", f="insert")["op"]

    def change(found: list[Line]) -> None:
        c = [r for r in found if r["type"] == "commit"][-1]
        c["op"] = c["summary"]["icequake-op"] = op

    edit(folder, change, "tablelog/t0000.jsonl")


def of_nobody(folder: Path) -> None:
    def change(found: list[Line]) -> None:
        c = [r for r in found if r["type"] == "commit"][-1]
        c["op"] = None
        del c["summary"]["icequake-op"]

    edit(folder, change, "tablelog/t0000.jsonl")


def request_of_another_table(folder: Path) -> None:
    op = first(lines(folder / "history.jsonl"), table="t0001", type="invoke", f="insert")["op"]
    edit(folder, lambda found: first(found, table="t0000", kind="commit").update(op=op), "proxy.jsonl")


def request_about_another_table(folder: Path) -> None:
    """A commit to one table, as the table's name says, that replaces the metadata of another one."""

    def change(found: list[Line]) -> None:
        r = first(found, table="t0000", kind="commit", service="database")
        r["new"] = r["new"].replace("t0000", "t0001")

    edit(folder, change, "proxy.jsonl")


def requests_of_no_table(folder: Path) -> None:
    with (folder / "proxy.jsonl").open("a") as file:
        file.write('{"kind":"commit"}\n' * (by_table.MOST_COMMON + 1))


def proxies_of_another_run(folder: Path) -> None:
    def change(found: list[Line]) -> None:
        for r in found:
            for c in r.get("changes", ()):
                c["adds"] = [str(int(s) + 1) for s in c["adds"]]

    edit(folder, change, "proxy.jsonl")


def lost_row(folder: Path) -> None:
    def change(found: list[Line]) -> None:
        e = [e for e in found[1:] if e["f"] == "read" and e["type"] == "ok" and e["value"]][-1]
        e["value"] = e["value"][1:]

    edit(folder, change)


def other_engine(folder: Path) -> None:
    edit(folder, lambda found: first(found, table="t0002", type="invoke", f="read").update(engine="duckdb"))


def unknown_kind(folder: Path) -> None:
    def change(found: list[Line]) -> None:
        op = first(found, table="t0002", type="invoke", f="read")["op"]
        for e in found[1:]:
            if e["op"] == op:
                e["f"] = "dream"

    edit(folder, change)


def table_without_plan(folder: Path) -> None:
    run = RunFolder(folder)
    plan = run.read_plan()
    run.write_plan(plan.model_copy(update={"tables": (plan.tables or ())[:-1]}))


def log_without_end(folder: Path) -> None:
    edit(folder, lambda found: found.pop(), "tablelog/t0001.jsonl")


def broken_log(folder: Path) -> None:
    path = folder / "tablelog" / "t0001.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"commit"', b'"comit"', 1))


def fault_that_nothing_ends(folder: Path) -> None:
    edit(folder, lambda found: found.remove(first(found, f="heal")))


def expected(folder: Path) -> None:
    run = RunFolder(folder)
    run.write_plan(run.read_plan().model_copy(update={"expect": entries_of("lost-update")}))


def of_a_scenario(folder: Path) -> None:
    run = RunFolder(folder)
    run.write_plan(run.read_plan().model_copy(update={"scenario": {"scenario": "rarely"}}))


def slow_operation(folder: Path) -> None:
    """One that was answered only after its deadline."""

    def change(found: list[Line]) -> None:
        last = found[-1]
        assert last["type"] == "ok"
        last["time"] += 1000 * S

    edit(folder, change)


def nemesis_on_a_table(folder: Path) -> None:
    edit(folder, lambda found: first(found, f="start-pause").update(table="t0000"))


UNUSUAL: tuple[tuple[Callable[[Path], None], str], ...] = (
    (torn, "a torn history"),
    (blank_line, "a line without a table"),
    (ended_early, "the run ended early"),
    (evidence_missing, "files of evidence that are gone"),
    (end_missing, "the history's end is missing"),
    (table_in_a_value, "another table than its line seems to be of"),
    (table_of_another_form, "a table's name of another form"),
    (completed_elsewhere, "does not pair"),
    (same_id_twice, "operations that do not pair"),
    (busy_process, "operations that do not pair"),
    (clock_runs_backwards, "a clock that runs backwards"),
    (of_another_table, "another table's operation"),
    (of_nobody, "names no operation"),
    (request_of_another_table, "another table's operation"),
    (request_about_another_table, "names another table than"),
    (requests_of_no_table, "many requests of no table"),
    (proxies_of_another_run, "another run's"),
    (lost_row, "a verdict that is not true"),
    (other_engine, "other engines than Spark"),
    (unknown_kind, "an unknown kind"),
    (table_without_plan, "that the plan does not describe"),
    (log_without_end, "a log without an end"),
    (broken_log, "type must be one of metadata"),
    (fault_that_nothing_ends, "liveness must see the evidence"),
    (expected, "anomalies are expected"),
    (of_a_scenario, "the run of a scenario"),
    (slow_operation, "a verdict that is not true"),
    (nemesis_on_a_table, "an event of no operation"),
)


@pytest.mark.parametrize(("change", "why"), UNUSUAL, ids=[change.__name__ for change, _ in UNUSUAL])
def test_what_is_not_as_usual_is_judged_as_a_whole(run: Path, change: Callable[[Path], None], why: str) -> None:
    change(run)
    with pytest.raises((NotByTable, ValueError), match=why):
        fast(run)
    assert by_table.judged(run, "columns", 2) is None


def test_workers_that_hash_differently_do_not_tell_whether_an_operation_is_there_twice(clean: Path) -> None:
    told = [by_table._share_of(share, clean) for share in (["t0000", "t0002"], ["t0001"])]
    (one, parts), (_, others) = [pickle.loads(pickle.dumps(said)) for said in told]
    assert by_table._Run(clean, "columns").results(2, lambda *_: by_table._of_shares(told)) == whole(clean)
    with pytest.raises(NotByTable, match="PYTHONHASHSEED"):
        by_table._of_shares([(one, parts), (one + 1, others)])


def test_a_task_that_finds_something_unusual_says_so(run: Path) -> None:
    broken_log(run)
    why = by_table._share_of(["t0001"], run)
    assert isinstance(why, str) and "type must be one of metadata" in why
    with pytest.raises(NotByTable, match="type must be one of metadata"):
        by_table._of_shares([by_table._share_of(["t0000"], run), why])


def test_a_process_that_dies_is_no_verdict(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        os._exit(9)

    monkeypatch.setattr(by_table, "_help", killed)
    with pytest.raises(NotByTable, match="another process"):
        fast(clean, 2)


def test_what_another_process_finds_ends_all(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, parts = os.getpid(), by_table._Run.parts

    def slow(run: by_table._Run, tables: list[str]) -> Iterator[Any]:
        if os.getpid() != here:
            raise NotByTable("something")
        found = list(parts(run, tables))
        for _ in range(1000):
            yield found[0]
            time.sleep(0.05)

    monkeypatch.setattr(by_table._Run, "parts", slow)
    with pytest.raises(NotByTable, match="another process found something unusual"):
        fast(clean, 2)


# --- columns of operations --------------------------------------------------------------------------------------------


def drawn(seed: int) -> list[Event]:
    """Events of a few processes, some of which break the rules of pairing."""
    rng = Random(seed)
    out: list[Event] = []
    open_: dict[int, str] = {}
    time = 0
    for n in range(rng.randrange(2, 30)):
        time += rng.choice([0, 1, S, 300 * S, 800 * S]) if rng.random() < 0.5 else rng.randrange(S)
        process = rng.randrange(3)
        if process in open_ and rng.random() < 0.97:
            kind = rng.choice(["ok", "ok", "ok", "fail", "info"])
            error = [["icequake.WriterTimeout", "no answer"]] if kind == "info" and rng.random() < 0.5 else None
            out.append(Event(n, time, kind, process, "read", "t", None, open_[process], error))  # type: ignore[arg-type]
            if kind != "info" or rng.random() < 0.3:
                del open_[process]
        else:
            op = f"w{process}-{n}" if rng.random() < 0.97 else "w0-0"
            open_[process] = op
            out.append(Event(n, time, "invoke", process, "read", "t", {"ids": [1]}, op))
    return out


def test_operations_pair_up_as_events_do() -> None:
    seen = []
    for seed in range(400):
        events = drawn(seed)
        # A table alone pairs its own events, so only what concerns several operations is left.
        by_op: dict[str | None, list[Event]] = {}
        for e in events:
            by_op.setdefault(e.op, []).append(e)
        if any([e.type == "invoke" for e in es] not in ([True], [True, False]) for es in by_op.values()):
            continue
        try:
            History({}, tuple(events)).operations()
            pairs = True
        except UnpairedError:
            pairs = False
        operations = [o for es in by_op.values() for o in history.pair(es)]
        assert OperationColumns.of(operations).pair_up() == pairs, seed
        seen.append(pairs)
    assert {*seen} == {True, False}
    twice = OperationColumns.of([*operations, *operations])
    assert not twice.pair_up()


def test_liveness_is_told_alike_or_not_at_all() -> None:
    told = []
    for seed in range(600):
        rng = Random(-seed)
        events = drawn(seed)
        faults: list[Event] = []
        for _ in range(rng.randrange(3)):
            at = rng.randrange(events[-1].time + 1)
            faults.append(Event(0, at, "info", "nemesis", "start-partition"))
            faults.append(Event(0, at + rng.randrange(1, 500 * S), "info", "nemesis", "stop-partition"))
        merged = sorted([*events, *faults], key=lambda e: e.time)
        whole = History({}, tuple(replace(e, index=n) for n, e in enumerate(merged)))
        try:
            operations = whole.operations()
        except UnpairedError:
            continue
        exact = Liveness(progress=300.0).check(Evidence(whole, {}, {}))
        pending = [o for o in operations if unanswered(o)]
        end = whole.events[-1].time
        columns, windows = OperationColumns.of(operations), fault_windows.windows(whole.events)
        run = RunColumns({}, columns, windows, end)
        found = Liveness(progress=300.0).whole(run, [LivenessPart(len(pending), tuple(pending))])
        told.append((found is None, exact.valid is True and not exact.notes))
        if found is not None:
            assert found == exact, seed
    assert (False, True) in told  # told alike
    assert (True, False) in told  # left to the exact checker
    assert (False, False) not in told


def test_columns_of_what_has_no_number_are_refused() -> None:
    events = (Event(0, 0, "invoke", "jepsen", "read", "t", {"ids": [1]}, "w0-0"),)
    with pytest.raises(ValueError, match="name"):
        OperationColumns.of(History({}, events).operations())
    with pytest.raises(OverflowError):
        OperationColumns.of(History({}, (replace(events[0], process=1, time=1 << 70),)).operations())
    with pytest.raises(ValueError, match="negative"):
        OperationColumns.of(History({}, (replace(events[0], process=1, time=-1),)).operations())


def test_the_columns_of_tables_follow_each_other() -> None:
    events = [e for seed in (1, 2) for e in drawn(seed) if e.type == "invoke"]
    operations = [o for e in events for o in history.pair([e])]
    a, b = OperationColumns.of(operations[:3]), OperationColumns.of(operations[3:])
    both = OperationColumns.all([a, b])
    assert np.array_equal(both.start, OperationColumns.of(operations).start)
    assert np.array_equal(both.name, OperationColumns.of(operations).name)


def test_a_logs_header_is_read_without_its_records(clean: Path) -> None:
    path = clean / "tablelog" / "t0001.jsonl"
    header, log = tablelog_file.header_of(path), tablelog_file.read(path)
    assert (header.table, header.location, header.columns) == (log.table, log.location, log.columns)
    assert not header.metadata and not header.commits and not header.complete
    with pytest.raises(tablelog.TableLogError, match=r"none\.jsonl: cannot be read"):
        tablelog_file.header_of(path.with_name("none.jsonl"))
    path = clean.parent / "broken.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(tablelog.TableLogError, match=r"broken\.jsonl:1: "):
        tablelog_file.header_of(path)
