"""Histories of other systems: what they are about, and what is found in them, from the file to the exit code."""

from __future__ import annotations

import json
import re
from html import unescape
from importlib.resources import as_file, files
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

import pytest

from checkers import selftest
from checkers.clients.bank import ONLY_TOTALS
from checkers.clients.history_files import from_json_lines, load
from checkers.clients.jepsen import from_edn, to_edn
from checkers.clients.models import ORDER_IN_PART, ModelError, guess, judge, models
from checkers.evidence.history import History, HistoryError, read
from checkers.selftest import recorded
from harness.cli import app

WRITE_SKEW = """
{:type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r :y nil]]}
{:type :invoke, :process 1, :f :txn, :value [[:append :y 1] [:r :x nil]]}
{:type :ok, :process 0, :f :txn, :value [[:append :x 1] [:r :y []]]}
{:type :ok, :process 1, :f :txn, :value [[:append :y 1] [:r :x nil]]}
{:type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:r :y nil]]}
{:type :ok, :process 0, :f :txn, :value [[:r :x [1]] [:r :y [1]]]}
"""
STALE_READ = """
{:type :invoke, :process 0, :f :txn, :value [[:append :x 1]]}
{:type :ok, :process 0, :f :txn, :value [[:append :x 1]]}
{:type :invoke, :process 1, :f :txn, :value [[:r :x nil]]}
{:type :ok, :process 1, :f :txn, :value [[:r :x []]]}
{:type :invoke, :process 2, :f :txn, :value [[:r :x nil]]}
{:type :ok, :process 2, :f :txn, :value [[:r :x [1]]]}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is that of the current folder."""
    monkeypatch.chdir(tmp_path)


def icequake(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["icequake", *map(str, arguments)])
    return app._main()


def of(*events: tuple[str, int, str, str]) -> History:
    """A history of (type, process, f, value in EDN)."""
    return from_edn("\n".join(f"{{:type :{t}, :process {p}, :f :{f}, :value {v}}}" for t, p, f, v in events))


def bank(*reads: str) -> History:
    transfer = [(t, 0, "transfer", "{:from 0 :to 1 :amount 3}") for t in ("invoke", "ok")]
    return of(*transfer, *((t, 1, "read", v if t == "ok" else "nil") for v in reads for t in ("invoke", "ok")))


def moved(value: str, ending: str = "ok") -> History:
    """A bank with a read and then a transfer of this value."""
    read = (("invoke", 1, "read", "nil"), ("ok", 1, "read", "{0 10, 1 10}"))
    return of(*read, ("invoke", 0, "transfer", value), (ending, 0, "transfer", value))


@pytest.mark.parametrize(
    ("text", "level", "names"),
    [
        (WRITE_SKEW, None, {"G2-item"}),
        (WRITE_SKEW, "serializable", {"G2-item"}),
        (WRITE_SKEW, "repeatable-read", {"G2-item"}),
        (WRITE_SKEW, "snapshot-isolation", set()),
        (STALE_READ, "strict-serializable", {"G-single-realtime"}),
        (STALE_READ, "strong-session-serializable", set()),
    ],
)
def test_transactions_are_held_to_the_level_that_is_asked_for(text: str, level: str | None, names: set[str]) -> None:
    verdict = judge(from_edn(text), level=level)
    assert {a.name for a in verdict.anomalies} == names
    assert verdict.valid is (not names)
    assert verdict.stats["model"] == "list-append" and verdict.stats["guessed"]
    assert verdict.stats["allowed"] == ({} if names else dict.fromkeys(verdict.stats["found"], 1))
    for a in verdict.anomalies:
        assert len(a.ops) == 2 and len(a.events) == 4 and a.evidence["cycle"]


MORE_OF_THE_ORDER = """
{:type :invoke, :process 0, :f :txn, :value [[:w :x 2]]}
{:type :invoke, :process 2, :f :txn, :value [[:w :x 3]]}
{:type :ok, :process 2, :f :txn, :value [[:w :x 3]]}
{:type :ok, :process 0, :f :txn, :value [[:w :x 2]]}
{:type :invoke, :process 1, :f :txn, :value [[:r :x nil]]}
{:type :ok, :process 1, :f :txn, :value [[:r :x 2]]}
{:type :invoke, :process 1, :f :txn, :value [[:r :x nil]]}
{:type :ok, :process 1, :f :txn, :value [[:r :x 3]]}
"""
"""No order explains it, but two reads alone show that."""


def test_registers_in_which_nothing_is_found_are_called_no_more_than_was_looked_for() -> None:
    verdict = judge(from_edn(MORE_OF_THE_ORDER))
    assert verdict.valid is not True or verdict.notes == (ORDER_IN_PART,)
    assert judge(from_edn(WRITE_SKEW), level="snapshot-isolation").notes == ()


def test_an_unknown_append_may_have_happened_and_a_failed_one_may_not() -> None:
    for ending, found in (("info", set()), ("fail", {"G1a"})):
        h = of(
            ("invoke", 0, "txn", "[[:append :x 1]]"),
            (ending, 0, "txn", "[[:append :x 1]]"),
            ("invoke", 1, "txn", "[[:r :x nil]]"),
            ("ok", 1, "txn", "[[:r :x [1]]]"),
        )
        assert {a.name for a in judge(h).anomalies} == found


def test_one_and_true_and_one_point_zero_are_different_values() -> None:
    text = '[[:append :x 1] [:append :x true] [:append :x 1.0] [:append :x "1"] [:r :x [1 true 1.0 "1"]]]'
    assert judge(of(("invoke", 0, "txn", text), ("ok", 0, "txn", text))).valid is True
    wrong = text.replace('[1 true 1.0 "1"]', '[true 1 1.0 "1"]')
    assert judge(of(("invoke", 0, "txn", wrong), ("ok", 0, "txn", wrong))).valid is False


def test_a_bank_whose_reads_differ_in_their_total_is_robbed() -> None:
    assert judge(bank("{0 10, 1 10}", "{0 7, 1 13}")).valid is True
    verdict = judge(bank("{0 10, 1 10}", "{0 7, 1 10}", "{0 7, 1 13}"))
    assert [(a.name, a.ops) for a in verdict.anomalies] == [("wrong-total", ("1-1", "1-0"))]
    assert "add up to 17" in verdict.anomalies[0].explanation
    assert [a.name for a in judge(bank("{0 10, 1 10}", "{0 10}", "{0 10, 1 10}")).anomalies] == ["wrong-accounts"]
    assert judge(bank("{0 -2, 1 22}")).notes == (
        ONLY_TOTALS,
        "1 reads show a negative balance; whether these are allowed is unknown",
    )
    assert judge(bank()).valid is True


@pytest.mark.parametrize("ending", ["fail", "info"])
def test_an_account_that_was_never_acknowledged_need_not_exist_and_is_noted(ending: str) -> None:
    verdict = judge(moved("{:from 0 :to 9 :amount 3}", ending))
    assert verdict.valid is True and any(n.startswith("no read shows the accounts 9, ") for n in verdict.notes)
    answered = ("invoke", 2, "transfer", "nil"), ("ok", 2, "transfer", "{:from 0 :to 1 :amount 3}")
    assert judge(of(*answered)).valid is True, "the answer may say what was asked"


@pytest.mark.parametrize("balances", ["{0 10, 1 10}", "{0 13, 1 7}"], ids=["stale", "the wrong way round"])
def test_a_bank_is_called_no_more_than_its_totals_show(balances: str) -> None:
    verdict = judge(bank("{0 10, 1 10}", balances))
    assert verdict.valid is True and verdict.stats["level"] == "snapshot-isolation"
    assert any("order, direction and staleness are not judged" in n for n in verdict.notes)
    with pytest.raises(ModelError, match=r"no level 'strict-serializable'.*; sums of balances say nothing of order"):
        judge(bank("{0 10, 1 10}", balances), level="strict-serializable")


def test_a_bank_that_moves_money_at_random_is_never_accused_and_a_lost_half_always() -> None:
    for seed in range(200):
        rng = Random(seed)
        money = {str(a): 10 for a in range(4)}
        events: list[tuple[str, int, str, str]] = []
        robbed = rng.randrange(20) if seed % 2 else None
        for n in range(20):
            a, b = rng.sample(sorted(money), 2)
            amount = rng.randint(1, 5)
            money[a] -= amount
            money[b] += 0 if n == robbed else amount
            value = f"{{:from {a} :to {b} :amount {amount}}}"
            events += [(t, 0, "transfer", value) for t in ("invoke", "ok")]
            events.append(("invoke", 1, "read", "nil"))
            events.append(("ok", 1, "read", "{" + ", ".join(f"{k} {v}" for k, v in money.items()) + "}"))
        assert judge(of(*events)).valid is (robbed is None or robbed == 0), seed


def test_a_stale_read_of_a_register_has_no_linear_order() -> None:
    stale = of(
        ("invoke", 0, "write", "1"),
        ("ok", 0, "write", "1"),
        ("invoke", 1, "read", "nil"),
        ("ok", 1, "read", "nil"),
    )
    verdict = judge(stale)
    assert verdict.valid is False and verdict.stats["level"] == "linearizable"
    (a,) = verdict.anomalies
    assert a.name == "nonlinearizable" and a.ops[0] == "1-0" and set(a.events) == {0, 1, 2, 3}
    keyed = from_edn(to_edn(stale).replace(":value 1", ":value [7 1]").replace(":value nil", ":value [7 nil]"))
    assert judge(keyed).anomalies[0].explanation.startswith("key 7: ")
    with pytest.raises(HistoryError, match="expected"):
        judge(of(("invoke", 0, "cas", "3")), "cas-register")


@pytest.mark.parametrize(
    ("history", "model"),
    [
        (from_edn(WRITE_SKEW), "list-append"),
        (of(("invoke", 0, "txn", "[[:w :x 1] [:r :y nil]]")), "rw-register"),
        (of(("invoke", 0, "read", "nil"), ("ok", 0, "read", "3"), ("invoke", 1, "write", "4")), "register"),
        (of(("invoke", 0, "read", "nil"), ("ok", 0, "read", "3"), ("invoke", 1, "cas", "[3 4]")), "cas-register"),
        (of(("invoke", 0, "add", "1"), ("ok", 0, "add", "1"), ("invoke", 0, "read", "nil"), ("ok", 0, "read", "1")), "counter"),
        (of(("invoke", 0, "add", "1"), ("ok", 0, "add", "1"), ("invoke", 0, "read", "nil"), ("ok", 0, "read", "[1]")), "set"),
        (of(("invoke", 0, "append", "[1 2]"), ("ok", 0, "append", "[1 2]")), "append-list"),
        (bank("{0 1, 1 1}"), "bank"),
    ],
)  # fmt: skip
def test_a_model_is_told_by_the_operations(history: History, model: str) -> None:
    assert guess(history.operations()) == model
    assert model in models() and judge(history).stats["model"] == model
    assert judge(from_edn(to_edn(history))).to_json() == judge(history).to_json()


@pytest.mark.parametrize(
    ("history", "options", "says"),
    [
        (
            of(("invoke", 0, "enqueue", "1")),
            {},
            "cannot determine the kind of history (enqueue): give --model, one of list-append, rw-register",
        ),
        (from_edn(""), {}, "cannot determine the kind of history (no operations)"),
        (
            from_edn(WRITE_SKEW),
            {"model": "list_append"},
            "the model 'list_append' is not known (did you mean list-append?); there are: list-append",
        ),
        (
            from_edn(WRITE_SKEW),
            {"level": "linearizable"},
            "the model list-append has no level 'linearizable' (did you mean strict-serializable?)",
        ),
        (
            of(("invoke", 0, "write", "1")),
            {"level": "serializable"},
            "it has: linearizable; nothing is judged: its operations are single ones, and a level of isolation says what transactions",
        ),
        (of(("invoke", 0, "put", "1")), {}, "of transactions: txn (put is perhaps write)"),
        (bank(), {"level": "causal"}, "the model bank has no level 'causal'; it has: snapshot-isolation"),
    ],
)
def test_a_model_or_level_that_does_not_fit_is_told(history: History, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as e:
        judge(history, **options)
    assert says in str(e.value)


@pytest.mark.parametrize(
    ("history", "model", "says"),
    [
        (of(("invoke", 0, "txn", "[[:append :x 1]]"), ("ok", 0, "txn", "nil")), "list-append", "event 1: expected a transaction"),
        (of(("invoke", 0, "txn", "[[:append :x]]")), "list-append", "or [append KEY VALUE], found ['append', 'x']"),
        (of(("invoke", 0, "txn", "[[:inc :x 1]]")), "list-append", "event 0: expected [r KEY VALUE]"),
        (of(("invoke", 0, "txn", "[[:append :x nil]]")), "list-append", "event 0: append of key 'x' writes no value"),
        (of(("invoke", 0, "txn", "[[:append :x 1]]")), "rw-register", "event 0: append is no operation of rw-register: it has r and w"),
        (of(("invoke", 0, "txn", "[]"), ("ok", 0, "txn", "[[:r :x 3]]")), "list-append", "event 1: expected a list read of key 'x', found 3"),
        (bank("[1 2]"), "bank", "event 3: expected balances such as {\"A\": 10, \"B\": 12}, found [1, 2]"),
        (bank("{0 10, 1 nil}"), "bank", "event 3: the balance of the account '1' must be a whole number, found nil"),
        (moved("{:from 0 :to 1}"), "bank", "event 2: a transfer needs 'amount', found "),
        (moved("{:form 0 :to 1 :amount 3}"), "bank", "'from', found {\"form\": 0, \"to\": 1, \"amount\": 3}; 'form' is perhaps from; write {"),
        (moved("{}"), "bank", "event 2: a transfer needs 'from' and 'to' and 'amount', found "),
        (moved("nil"), "bank", "event 2: expected a transfer such as {\"from\": \"A\", \"to\": \"B\", \"amount\": 5}, found nil"),
        (moved("[0 1 3]"), "bank", "event 2: expected a transfer such as "),
        (moved('{:from 0 :to 1 :amount "3"}'), "bank", "event 2: 'amount' of a transfer must be a whole number (count the"),
        (moved("{:from 0 :to 1 :amount true}"), "bank", "event 2: 'amount' of a transfer must be a whole number"),
        (moved("{:from nil :to 1 :amount 3}"), "bank", "event 2: 'from' of a transfer must be the name or number of an account, found nil"),
        (moved("{:from 0 :to 2 :amount 3}"), "bank", "acknowledged, is the account '2', and no read shows it (0, 1); correct"),
        (of(("invoke", 0, "withdraw", "3")), "bank", "event 0: withdraw is no operation of bank"),
    ],
)  # fmt: skip
def test_an_operation_that_is_none_of_the_models_is_told_with_its_event(
    history: History, model: str, says: str
) -> None:
    with pytest.raises(HistoryError) as e:
        judge(history, model)
    assert says in str(e.value)


def test_the_command_line_judges_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "skew.edn"
    file.write_text(WRITE_SKEW)
    assert icequake(monkeypatch, "check", file, "--json", tmp_path / "v.json") == 1
    out = capsys.readouterr().out
    assert f"✕ {file}: Anomalies found" in out
    page = Path(out.splitlines()[-1].removeprefix("  page  "))
    assert page.is_relative_to(tmp_path / "store" / "check") and json.loads(page.with_suffix(".json").read_text())
    text = page.read_text()
    assert "Anomalies found" in text and "<svg" in text and "T1 did not observe" in text
    assert "append" in text and "process 0" in text, "what each operation asked, and on whose line"
    assert "strict-serializable forbids G2-item" in out
    assert json.loads((tmp_path / "v.json").read_text())["anomalies"][0]["name"] == "G2-item"

    assert icequake(monkeypatch, "check", file, "--model", "list-append", "--level", "snapshot-isolation") == 0
    assert "1 G2-item, which snapshot-isolation allows" in capsys.readouterr().out

    assert icequake(monkeypatch, "check", file, "--level", "psychic") == 254
    assert "has no level 'psychic'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ops", "says", "where", "arrows"),
    [
        (
            [(1, 0, "invoke", "write", 1), (2, 0, "ok", "write", 1), (3, 1, "invoke", "read", None), (4, 1, "ok", "read", 0)],
            "process 1, invoked at h.jsonl:3, answered at h.jsonl:4)",
            "Where: h.jsonl:3, h.jsonl:4",
            "a history does not record which version",
        ),
        (
            [(3, 1, "invoke", "txn", [["r", "x", None]]), (4, 1, "ok", "txn", [["r", "x", []]]),
             (1, 0, "invoke", "txn", [["append", "x", 1]]), (2, 0, "ok", "txn", [["append", "x", 1]])],
            "had ended (h.jsonl:4) when T1 began (h.jsonl:1)",
            "Where: h.jsonl:3, h.jsonl:4, h.jsonl:1, h.jsonl:2",
            "the explanation above says which operation comes before which",
        ),
        (
            [(1, 0, "invoke", "read", None), (2, 0, "ok", "read", {"a": 1, "b": 1}),
             (3, 0, "invoke", "read", None), (4, 0, "ok", "read", {"a": 1, "b": 2}),
             (5, 0, "invoke", "transfer", {"from": "a", "to": "b", "amount": 1})],
            "add up to",
            "Where: h.jsonl:1, h.jsonl:2, h.jsonl:3, h.jsonl:4",
            "a history does not record which version",
        ),
    ],
    ids=["register", "lists, not in the order of time", "bank"],
)  # fmt: skip
def test_a_place_in_a_history_is_its_file_and_line_on_the_terminal_and_on_the_page(
    ops: list[tuple[int, int, str, str, Any]],
    says: str,
    where: str,
    arrows: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = ("time", "process", "type", "f", "value")
    file = tmp_path / "h.jsonl"
    file.write_text("".join(json.dumps(dict(zip(keys, op, strict=True))) + "\n" for op in ops))
    assert icequake(monkeypatch, "check", file, "--store", tmp_path / "store") == 1
    out = capsys.readouterr().out
    told = " ".join(out.split())
    assert says in told and where in told and " event " not in told
    text = Path(out.splitlines()[-1].removeprefix("  page  ")).read_text()
    assert where in text and arrows in text and ">lines<" in text and ">events<" not in text
    assert "1-0 is the first operation of process 1" in text


def test_a_checker_engine_is_refused_for_a_history_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "history.edn").write_text(STALE_READ)
    assert icequake(monkeypatch, "check", tmp_path / "history.edn", "--engine", "columns") == 254
    assert "--engine columns applies to runs only" in capsys.readouterr().err


def test_a_folder_of_jepsens_store_is_its_history_and_a_run_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "history.edn").write_text(STALE_READ)
    assert icequake(monkeypatch, "check", tmp_path) == 1
    assert "G-single-realtime" in capsys.readouterr().out
    (tmp_path / "history.edn").unlink()
    assert icequake(monkeypatch, "check", tmp_path, "--model", "list-append") == 254
    assert "--model applies to history files only" in capsys.readouterr().err


def test_a_run_goes_out_as_edn_and_its_file_is_judged_with_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with as_file(files(selftest).joinpath("recorded", f"{recorded.names()[0]}.zip")) as path, ZipFile(path) as z:
        z.extractall(tmp_path / "run")
    out = tmp_path / "history.edn"
    assert icequake(monkeypatch, "export", tmp_path / "run", "-o", out) == 0
    assert load(out).events == read(tmp_path / "run" / "history.jsonl").events
    capsys.readouterr()
    assert icequake(monkeypatch, "export", tmp_path / "run") == 0
    assert capsys.readouterr().out == out.read_text()

    assert icequake(monkeypatch, "check", tmp_path / "run" / "history.jsonl") == 0
    assert (tmp_path / "run" / "results.json").exists()
    capsys.readouterr()
    assert icequake(monkeypatch, "check", out) == 0
    assert "model rows, as-promised" in capsys.readouterr().out


def test_completions_alone_have_no_order_in_time() -> None:
    alone = "\n".join(line for line in STALE_READ.splitlines() if ":ok" in line)
    verdict = judge(from_edn(alone))
    assert verdict.valid is True and "has an invocation" in verdict.notes[0]


LOST_UPDATE = """
{:time 10000, :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:w :x 1]]}
{:time 20000, :type :invoke, :process 1, :f :txn, :value [[:r :x nil] [:w :x 2]]}
{:time 30000, :type :ok, :process 0, :f :txn, :value [[:r :x nil] [:w :x 1]]}
{:time 40000, :type :ok, :process 1, :f :txn, :value [[:r :x nil] [:w :x 2]]}
"""


def page_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, *more: str
) -> tuple[str, str]:
    """The text of a history's page, and what the terminal says."""
    file = tmp_path / "own log.edn"
    file.write_text(text)
    icequake(monkeypatch, "check", file, *more)
    out = capsys.readouterr().out
    return Path(out.splitlines()[-1].removeprefix("  page  ")).read_text(), out


def test_the_page_of_another_systems_write_skew_gives_no_advice_of_iceberg(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = page_of(tmp_path, capsys, monkeypatch, WRITE_SKEW)
    assert "What to do: Run these transactions at the level" in page and "write.{" not in page


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wrong-total", "add up to different sums"),
        ("wrong-accounts", "do not show the same accounts"),
        ("G2-item", "in other systems"),
        *((m, "a model of a history") for m in models()),
    ],
)
def test_what_check_says_of_a_history_is_explained(
    name: str, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert icequake(monkeypatch, "explain", name) == 0
    assert says in " ".join(capsys.readouterr().out.split())


def test_the_page_of_a_history_says_in_plain_words_what_happened_when_and_how_it_was_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, _ = page_of(tmp_path, capsys, monkeypatch, LOST_UPDATE)
    assert "icequake explain lost-update" in page and "icequake explain G2-item" in page
    assert page.count('id="anomaly-') == 1, "one event that has two names is one card"
    assert "2 rows" not in page and "30 µs" in page and "0.000 s" not in page
    assert "0, 2" in page, "the numbers of an operation's events"
    assert str(tmp_path / "own log.edn") in page and "--level strict-serializable" in page


@pytest.mark.parametrize("form", ["json", "edn"])
def test_times_of_the_clock_are_those_of_the_page(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at = [f"2026-11-28T09:30:0{n}.5Z" for n in range(4)]
    if form == "json":
        events = [
            {"time": t, **dict(zip(("type", "process", "f", "value"), e, strict=True))}
            for t, e in zip(at, STALE_REGISTER, strict=True)
        ]
        text = "\n".join(map(json.dumps, events))
    else:
        each = zip(at, ((t, p, f, "nil" if v is None else v) for t, p, f, v in STALE_REGISTER), strict=True)
        text = "\n".join(
            f'{{:time #inst "{at}" :type :{t} :process {p} :f :{f} :value {v}}}' for at, (t, p, f, v) in each
        )
    page, _ = page_of(tmp_path, capsys, monkeypatch, text)
    assert "09:30:02.5 to 09:30:03.5" in page and ">09:30:03<" in page, "bar and axis"
    assert ">09:30:02.5<" in page and "the first is of 2026-11-28" in page, "table"
    counted = re.sub(r'"2026-11-28T09:30:0(\d).5Z"', r"1\g<1>000000000", text).replace("#inst ", "")
    page, _ = page_of(tmp_path, capsys, monkeypatch, counted)
    assert "09:30" not in page and ">12.000 s<" in page


def test_an_object_is_shown_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, _ = page_of(tmp_path, capsys, monkeypatch, to_edn(bank("{0 10, 1 10}", "{0 7, 1 10}"), header=False))
    assert '{"0": 7, "1": 10}' in unescape(page) and "{'0'" not in unescape(page) and "'from'" not in unescape(page)


def test_another_level_has_another_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_of(tmp_path, capsys, monkeypatch, LOST_UPDATE)
    page_of(tmp_path, capsys, monkeypatch, LOST_UPDATE, "--level", "serializable")
    assert len(list((tmp_path / "store" / "check").rglob("report.html"))) == 2


def test_operations_that_were_not_judged_are_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [("write", 1, "ok"), ("write", 2, "fail"), ("read", 7, "ok")]
    text = "\n".join(
        f"{{:type :{t}, :process {n}, :f :{f}, :value {v}}}"
        for n, (f, v, end) in enumerate(events)
        for t in ("invoke", end)
    )
    page, out = page_of(tmp_path, capsys, monkeypatch, text)
    said = "2 operations of 3 (the others failed, or are reads without an answer)"
    assert said in out and said in page
    assert "No order of the operations explains what the clients saw." in page


def test_an_unknown_operation_and_a_process_that_goes_on_get_a_remedy() -> None:
    with pytest.raises(ModelError, match="of a register: read, write, cas"):
        judge(from_edn("{:type :invoke :process 0 :f :set :value 1}{:type :ok :process 0 :f :set :value 1}"))
    with pytest.raises(ModelError, match=r"get is perhaps read\); a key belongs into the value: \[KEY, VALUE\]"):
        judge(from_edn("{:type :invoke :process 0 :f :get :key 1}"))
    with pytest.raises(ModelError, match="; no event names its function, so all of them count as transactions"):
        judge(from_json_lines('{"type": "invoke", "func": "read"}'))
    text = "{:type :invoke :process 0 :f :read}{:type :info :process 0 :f :read}{:type :invoke :process 0 :f :read}"
    with pytest.raises(HistoryError, match="give the client a new process number"):
        from_edn(text)


def one_by_one(*operations: tuple[str, str, str]) -> History:
    """A history of operations that ended well, one after the other: (f, what was asked, what was answered)."""
    return of(
        *(
            (t, n, f, v)
            for n, (f, *values) in enumerate(operations)
            for t, v in zip(("invoke", "ok"), values, strict=True)
        )
    )


CAS_OF_A_KEY = (("write", "[:x 0]", "[:x 0]"), *(("cas", v, v) for v in ("[:x [0 1]]", "[:x [1 2]]")))
ASKED_WITHOUT_KEY = (("write", "[:x 1]", "nil"), ("write", "[:y 2]", "nil"), ("read", "nil", "[:x 1]"))


@pytest.mark.parametrize(
    ("operations", "keyed", "valid", "says"),
    [
        (CAS_OF_A_KEY, None, True, "counts as [key, value]"),
        ((*CAS_OF_A_KEY, ("read", "nil", "[:x 2]")), None, True, "counts as [key, value]"),
        ((*CAS_OF_A_KEY, ("read", "nil", "[:x 1]")), None, False, "counts as [key, value]"),
        ((*CAS_OF_A_KEY, ("cas", "[:x [1 3]]", "nil")), None, False, "counts as [key, value]"),
        (CAS_OF_A_KEY, True, True, ""),
        (CAS_OF_A_KEY, False, False, ""),
        ((("write", "nil", "nil"), *CAS_OF_A_KEY), None, False, ""),
        (ASKED_WITHOUT_KEY, None, "unknown", "say which it is, with --keyed or --plain"),
        (ASKED_WITHOUT_KEY, True, True, ""),
        (ASKED_WITHOUT_KEY, False, False, ""),
        ((*ASKED_WITHOUT_KEY, ("read", "nil", "[:y 1]")), None, False, ""),
        ((("write", "[1 2]", "nil"), ("read", "nil", "[1 2]")), None, True, ""),
        ((("write", "[1 2]", "nil"), ("read", "nil", "nil")), None, False, ""),
        ((("add", "[:x 2]", "nil"), ("add", "[:x 3]", "nil"), ("read", "[:x nil]", "[:x 5]")), None, True, "counts as"),
        ((("add", "[:x 2]", "nil"), ("read", "nil", "[:x 2]")), None, True, "counts as"),
        ((("add", "[1 2]", "nil"), ("read", "nil", "[[1 2]]")), None, True, ""),
        ((("add", "[1 2]", "nil"), ("add", "[3 4]", "nil"), ("read", "nil", "[[1 2] [3 4]]")), None, True, ""),
        ((("append", "[1 2]", "nil"), ("append", "[3 4]", "nil"), ("read", "nil", "[[1 2] [3 4]]")), None, True, ""),
    ],
)  # fmt: skip
def test_pairs_are_keys_with_values_or_values_and_who_is_right_in_one_reading_is_not_accused(
    operations: tuple[tuple[str, str, str], ...], keyed: bool | None, valid: bool | str, says: str
) -> None:
    history = one_by_one(*operations)
    verdict = judge(history, keyed=keyed)
    assert verdict.valid == valid and bool(verdict.anomalies) is (valid is False)
    assert says in " ".join(verdict.notes) and (says or not verdict.notes), verdict.notes
    lines = (json.dumps({"type": e.type, "process": e.process, "f": e.f, "value": e.value}) for e in history.events)
    assert judge(from_json_lines("\n".join(lines)), keyed=keyed).valid == valid


@pytest.mark.parametrize("asked", ["{}", "nil"])
def test_keys_that_keep_their_promise_are_never_accused_and_a_stale_read_of_one_always_is(asked: str) -> None:
    for seed in range(200):
        rng = Random(seed)
        state: dict[str, int] = {}
        operations = []
        for n in range(1, 13):
            key = rng.choice("xyz")
            f = rng.choice(["write", "read", "cas"]) if key in state else "write"
            value = f"[{state[key]} {n}]" if f == "cas" else str(n)
            if f == "read":
                operations.append((f, asked.format(f"[:{key} nil]"), f"[:{key} {state[key]}]"))
            else:
                operations.append((f, f"[:{key} {value}]", "nil"))
                state[key] = n
        assert judge(one_by_one(*operations), "cas-register").valid in (True, "unknown"), (seed, operations)
        stale = [*operations, ("write", f"[:{key} 20]", "nil"), ("read", asked.format(f"[:{key} nil]"), f"[:{key} 0]")]
        assert judge(one_by_one(*stale), "cas-register").valid is False, (seed, stale)


def test_the_command_line_says_how_pairs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = to_edn(one_by_one(*CAS_OF_A_KEY))
    page, out = page_of(tmp_path, capsys, monkeypatch, text)
    assert (
        "Valid" in out and "counts as [key, value]" in " ".join(out.split()) and "--level linearizable --keyed" in page
    )
    page, out = page_of(tmp_path, capsys, monkeypatch, text, "--plain")
    assert "Anomalies found" in out and "--level linearizable --plain" in page
    file = tmp_path / "own log.edn"
    file.write_text(WRITE_SKEW)
    assert icequake(monkeypatch, "check", file, "--keyed") == 254
    assert "--keyed is for single objects" in capsys.readouterr().err


EMPTY = """
{"type": "invoke", "process": 0, "f": "txn", "value": [["r", "x", null], ["append", "x", 1]]}
{"type": "invoke", "process": 1, "f": "txn", "value": [["r", "x", null], ["append", "x", 2]]}
{"type": "ok", "process": 0, "f": "txn", "value": [["r", "x", []], ["append", "x", 1]]}
{"type": "ok", "process": 1, "f": "txn", "value": [["r", "x", []], ["append", "x", 2]]}
"""


def test_the_page_of_a_history_has_its_own_values_and_speaks_of_no_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, _ = page_of(tmp_path, capsys, monkeypatch, EMPTY)
    text = unescape(page)
    assert "r 'x' []; append 'x' 1" in text and "–" not in text.split("<body", 1)[1]
    assert "which version an operation read" in text
    assert (
        "What to do: Read and write in one operation" in text
        and "table" not in text.split("What to do", 1)[1].split("<", 1)[0]
    )
    assert "of the table" not in text
    stale = "\n".join(json.dumps({"type": t, "process": p, "f": f, "value": v}) for t, p, f, v in STALE_REGISTER)
    page, _ = page_of(tmp_path, capsys, monkeypatch, stale)
    assert "read → nil" in unescape(page), "a read that got nil did get something"
    thin = stale.replace("null", "7")
    assert "at first it is nil" in " ".join(page_of(tmp_path, capsys, monkeypatch, thin)[1].split())


STALE_REGISTER = (
    ("invoke", 0, "write", 1),
    ("ok", 0, "write", 1),
    ("invoke", 1, "read", None),
    ("ok", 1, "read", None),
)


def test_explain_says_what_a_name_means_in_an_own_log_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert icequake(monkeypatch, "explain", "lost-update") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in other systems Two operations read the same version of a key" in said and "docs/catalogs" in said


def test_a_torn_history_is_said_before_the_verdict_on_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.jsonl"
    of_write = '"process": 0, "f": "write", "value": 1, "op": "0"}\n'
    file.write_text(
        f'{{"format": 1}}\n{{"index": 0, "time": 1, "type": "invoke", {of_write}{{"index": 1, "time": 2, "type": "ok", {of_write}{{"in'
    )
    assert icequake(monkeypatch, "check", file) == 2
    lines = capsys.readouterr().out.splitlines()
    told, _, rest = " ".join(lines).partition("the run was killed")
    assert " ".join(told.split()).endswith("only in part: h.jsonl: the last line is torn (4 bytes);")
    assert len(lines) > 3 and " is torn" not in rest


def test_a_store_that_cannot_be_made_is_said_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "h.edn"
    file.write_text(WRITE_SKEW)
    assert icequake(monkeypatch, "check", file, "--store", file) == 254
    said = capsys.readouterr().err
    assert f"--store {file}: " in said and "give a folder that can be written" in said
