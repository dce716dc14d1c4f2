"""A run as Elle and Knossos read it: in their documented formats, without a contradiction that the run does not have, and with those it has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from checkers.clients import derived, edn, jepsen, models
from checkers.clients.derived import HISTORY_FORMS, DerivedError, TranslatedRun
from checkers.clients.edn import Keyword, Map
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import History
from checkers.evidence.replace import replace
from checkers.judge.runfolder import load_evidence
from checkers.verdict import Verdict
from tests.support.runs import ROOT
from tests.support.simulator import CLEAN, Defects, simulate
from workloads.tables import TableSpec

RECORDED = sorted((ROOT / "checkers" / "selftest" / "recorded").glob("*.zip"))
TABLES = {
    level: [TableSpec(name="t", isolation=level), TableSpec(name="u", isolation=level)]
    for level in ("serializable", "snapshot")
}


def simulated(seed: int, level: str = "serializable", defects: Defects = CLEAN) -> Evidence:
    return simulate(seed, TABLES[level], ops=20, defects=defects).evidence()


def read_back(d: TranslatedRun) -> History:
    """As another tool gets it: through the text."""
    return jepsen.from_edn(jepsen.to_edn(d.history, header=False))


def judged(d: TranslatedRun, form: str) -> Verdict:
    """By the model that the operations show, at the level that the tables promise."""
    return models.judge(read_back(d), None, None if form == "register" else d.level)


def step(value: edn.Value, form: str) -> None:
    """One micro-operation as Elle's README has it: ``[:append k v]``, ``[:r k [v …]]``, ``[:w k v]``, ``[:r k v]``."""
    f, key, what = value
    assert isinstance(key, str)
    if f == Keyword("r"):
        lists = form == "list-append"
        assert what is None or (
            isinstance(what, tuple) and all(isinstance(x, str) for x in what) if lists else isinstance(what, str)
        )
    else:
        assert f == Keyword({"list-append": "append", "rw-register": "w"}[form])
        assert isinstance(what, str)


@pytest.mark.parametrize("form", HISTORY_FORMS)
def test_every_event_has_the_form_that_elle_and_knossos_document(form: str) -> None:
    text = jepsen.to_edn(derived.derive(simulated(1), form).history, header=False)
    running: dict[int, edn.Value] = {}
    functions = set()
    events = [value for _, value in edn.read_all(text)]
    for n, e in enumerate(events):
        assert isinstance(e, Map)
        fields = {k.name: v for k, v in e.entries}
        assert fields["index"] == n and isinstance(fields["time"], int) and isinstance(fields["process"], int)
        kind, process, f, value = (fields[k] for k in ("type", "process", "f", "value"))
        functions.add(f.name)
        if kind == Keyword("invoke"):
            assert process not in running, "a process does one thing at a time"
            running[process] = value
        else:
            assert kind in (Keyword("ok"), Keyword("fail"), Keyword("info"))
            asked = running.pop(process) if kind != Keyword("info") else running[process]
            assert len(asked) == len(value), "the completion answers the invocation"
            if kind != Keyword("ok"):
                assert asked == value, "an outcome that is not known says what was asked"
        if form != "register":
            assert f == Keyword("txn")
            for one in value:
                step(one, form)
        else:
            key, what = value
            assert isinstance(key, str)
            assert (
                isinstance(what, tuple) and len(what) == 2
                if f == Keyword("cas")
                else what is None or isinstance(what, str)
            )
    assert all(e.entries for e in events) and len(events) > 20
    assert functions == ({"read", "write", "cas"} if form == "register" else {"txn"})
    assert not text.startswith(";"), "a reader that takes line after line would take a comment for an event"


@pytest.mark.parametrize("form", HISTORY_FORMS)
@pytest.mark.parametrize("level", TABLES)
def test_a_good_run_has_no_contradiction(form: str, level: str) -> None:
    for seed in range(12):
        d = derived.derive(simulated(seed, level), form)
        verdict = judged(d, form)
        assert verdict.valid is True, (seed, [a.explanation for a in verdict.anomalies], verdict.notes)
        assert d.operations[0] > 10


@pytest.mark.parametrize("form", HISTORY_FORMS)
@pytest.mark.parametrize("archive", RECORDED, ids=lambda p: p.stem)
def test_a_recorded_run_of_real_spark_has_no_contradiction(archive: Path, form: str, tmp_path: Path) -> None:
    shutil.unpack_archive(archive, tmp_path)
    d = derived.derive(load_evidence(next(tmp_path.rglob("history.jsonl")).parent), form)
    assert judged(d, form).valid is True
    assert len(d.keys) >= 30


@pytest.mark.parametrize("form", HISTORY_FORMS)
@pytest.mark.parametrize(
    ("defects", "least"),
    [
        (Defects(false_failure=0.3), 5),
        (Defects(forget=0.3), 3),
        (Defects(fractured_read=0.3), 1),
        (Defects(lose=0.3), 1),
    ],
    ids=["false failure", "acknowledged and never committed", "fractured read", "lost commit"],
)
def test_what_went_wrong_in_the_run_is_wrong_in_what_others_read(form: str, defects: Defects, least: int) -> None:
    found = 0
    for seed in range(6):
        simulation = simulate(seed, TABLES["serializable"][:1], ops=20, defects=defects)
        if not simulation.injected:
            continue
        found += judged(derived.derive(simulation.evidence(), form), form).valid is False
    assert found >= least


def test_outcomes_stay_as_they_were_and_an_operation_without_an_end_gets_an_unknown_one() -> None:
    evidence = simulated(3)
    run = {o.op: o for o in evidence.history.operations()}
    for form in HISTORY_FORMS:
        for o in derived.derive(evidence, form).history.operations():
            mine = run[o.op.partition("/")[0]]
            assert (o.type, o.start) == (mine.type, mine.start)
            assert o.completed is not None
    assert {o.type for o in run.values()} == {"ok", "fail", "info"}
    final = {
        o.process: o for o in run.values()
    }  # the last operation of each process: nothing follows that its end would have to precede
    shown = {o.op for o in derived.derive(evidence, "list-append").history.operations()}
    last = next(o for o in final.values() if o.type == "ok" and o.op in shown)
    kept = tuple(e for e in evidence.history.events if e is not last.completed)
    cut = replace(
        evidence, history=History(evidence.history.header, tuple(replace(e, index=n) for n, e in enumerate(kept)))
    )
    ends = {o.op: o.type for o in derived.derive(cut, "list-append").history.operations()}
    assert ends[last.op] == "info"


def test_an_update_says_what_it_read_because_its_row_says_it() -> None:
    d = derived.derive(simulated(1), "list-append")
    told = [s for o in d.history.operations() if o.type == "ok" for s in o.result]
    appended = {(key, value) for f, key, value in told if f == "append"}
    longer = [
        o.result for o in d.history.operations() if o.type == "ok" and [m[0] for m in o.result] == ["r", "append"]
    ]
    assert longer, "updates read the list that they make longer"
    for (_, key, before), (_, same, _) in longer:
        assert key == same and all((key, element) in appended or element for element in before)


def test_a_copied_row_is_left_out_and_named() -> None:
    mix = {"insert": 3, "insert-select": 3, "update-append": 2, "read": 2}
    runs = [simulate(seed, TABLES["serializable"][:1], ops=8, mix=mix, defects=Defects(blind=1.0)) for seed in range(3)]
    found = [derived.derive(run.evidence(), "list-append") for run in runs]
    copies = [text for d in found for text in d.left_out if "copies" in text]
    assert copies
    for d in found:
        elements = {(s[1], s[2]) for o in d.history.operations() for s in o.value if s[0] == "append"}
        for o in d.history.operations():
            for f, key, value in o.result or () if o.type == "ok" else ():
                assert f != "r" or all((key, x) in elements for x in value), "each element that is read was appended"


@pytest.mark.parametrize("form", derived.HISTORY_FORMS)
def test_the_operations_that_are_not_shown_are_counted_by_kind(form: str) -> None:
    evidence = simulated(1)
    d = derived.derive(evidence, form)
    (text,) = [text.partition(": ")[2] for text in d.left_out if text.startswith("operations that show nothing")]
    counts = {kind: int(count) for count, kind in (part.split(" ") for part in text.split(", "))}
    shown, of = d.operations
    assert sum(counts.values()) == of - shown > 0
    kinds = [o.f for o in evidence.history.operations()]
    assert all(count <= kinds.count(kind) for kind, count in counts.items()) and counts["delete"] == kinds.count(
        "delete"
    )


def test_one_register_alone_is_what_knossos_reads() -> None:
    evidence = simulated(1)
    everything = derived.derive(evidence, "register")
    key = max(everything.keys, key=lambda k: sum(o.value[0] == k for o in everything.history.operations()))
    alone = derived.derive(evidence, "register", key)
    assert judged(alone, "register").valid is True
    for o in alone.history.operations():
        assert isinstance(o.value, list) == (o.f == "cas") and not (isinstance(o.value, list) and o.value[0] == key)
    with pytest.raises(DerivedError, match=re.escape("no key 't/99/nobody'; there are")):
        derived.derive(evidence, "register", "t/99/nobody")
    with pytest.raises(DerivedError, match="for register only"):
        derived.derive(evidence, "list-append", key)


def test_a_run_without_such_writes_says_what_it_lacks() -> None:
    empty = simulate(1, TABLES["serializable"][:1], ops=3, mix={"delete": 1}).evidence()
    nothing = replace(empty, logs={})
    with pytest.raises(DerivedError, match=r"needs operations that write log .*there is no table log"):
        derived.derive(nothing, "list-append")
