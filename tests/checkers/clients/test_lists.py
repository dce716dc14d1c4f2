"""Histories of list transactions judged from columns: the verdict is that of the other reader and judge, or there is none."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.clients import history_files, lists, models
from checkers.evidence.history import HistoryError
from checkers.verdict import Verdict
from tests.checkers.clients.test_edn_scan import texts


def history(rng: Random, transactions: int = 40, clients: int = 4, keys: int = 3) -> str:
    """A serializable history as Jepsen writes it: each transaction takes effect somewhere between its two events, a crashed one perhaps."""
    there: dict[int, list[int]] = {}
    lines: list[str] = []
    free = list(range(clients))
    under_way: dict[int, tuple[int, list[tuple[str, int, int]], str | None]] = {}
    element, started, process = 0, 0, list(range(clients))

    def event(kind: str, who: str, value: str, more: str = "", f: str = "txn") -> None:
        lines.append(
            f"{{:type :{kind}, :f :{f}, :value {value}, :process {who}, :time {len(lines) * 7}, :index {len(lines)}{more}}}"
        )

    def executed(micro: list[tuple[str, int, int]]) -> str:
        said = []
        for f, k, v in micro:
            if f == "r":
                said.append(f"[:r {k} [{' '.join(map(str, there.get(k, [])))}]]" if k in there else f"[:r {k} nil]")
            else:
                there.setdefault(k, []).append(v)
                said.append(f"[:append {k} {v}]")
        return f"[{' '.join(said)}]"

    while started < transactions or under_way:
        if rng.random() < 0.03:
            event("info", ":nemesis", rng.choice(["nil", "7"]), f=rng.choice(["start", "kill"]))
        c = rng.randrange(clients)
        if c in free and started < transactions:
            micro = []
            for _ in range(rng.choice([0, 1, 2, 3, 4, 4])):
                element += 1
                micro.append((rng.choice(["r", "append"]), rng.randrange(keys) + started // 15, element))
            asked = " ".join(f"[:r {k} nil]" if f == "r" else f"[:append {k} {v}]" for f, k, v in micro)
            event("invoke", str(process[c]), f"[{asked}]")
            under_way[c] = started, micro, None
            free.remove(c)
            started += 1
        elif c in under_way:
            n, micro, told = under_way[c]
            if told is None:
                end = rng.choices(["ok", "fail", "info", "lost", "never"], [20, 1, 1, 1, 0.3])[0]
                asked = re.sub(
                    r":r (\d+) [^\]]*", r":r \1 nil", f"[{' '.join(f'[:{f} {k} {v}]' for f, k, v in micro)}]"
                )
                if end == "ok":
                    under_way[c] = n, micro, executed(micro)
                    if rng.random() < 0.5:
                        continue
                    told = under_way[c][2]
                else:
                    if end in ("info", "never"):
                        executed(micro)
                    more = rng.choice(["", ", :error :timeout", ', :error [:a "b"]'])
                    if end == "fail" or end != "never":
                        event("fail" if end == "fail" else "info", str(process[c]), asked, more)
                    del under_way[c]
                    if end != "never":
                        process[c] += 0 if end == "fail" else clients
                        free.append(c)
                    continue
            event("ok", str(process[c]), str(told))
            del under_way[c]
            free.append(c)
        elif not under_way and (started >= transactions or not free):
            break
    return "\n".join(lines) + "\n"


def damaged(rng: Random, text: str) -> str:
    """The history with a few things wrong."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        how = rng.randrange(9)
        lines = text.split("\n")
        n, m = rng.randrange(len(lines)), rng.randrange(len(lines))
        numbers = list(re.finditer(r"\d+", lines[n]))
        if how == 0 and numbers:  # another number
            x = rng.choice(numbers)
            lines[n] = lines[n][: x.start()] + rng.choice(["0", "3", "17", "007", "1" * 20]) + lines[n][x.end() :]
        elif how == 1:  # an element less, or more
            lines[n] = re.sub(r" (\d+)\]\]", rng.choice(["]]", r" \1 \1]]", r" \1 99]]"]), lines[n], count=1)
        elif how == 2:
            lines[n] = re.sub(r"\[(\d+) (\d+)", r"[\2 \1", lines[n], count=1)
        elif how == 3:
            lines[n], lines[m] = lines[m], lines[n]
        elif how == 4:
            del lines[n]
        elif how == 5:
            lines.insert(n, lines[m])
        elif how == 6:
            lines[n] = lines[n].replace(":ok", rng.choice([":fail", ":info", ":done"]))
        elif how == 7 and lines[n]:
            at = rng.randrange(len(lines[n]))
            lines[n] = lines[n][:at] + rng.choice(["", "]", "[", " ", "é", '"', "\r", "-", ":r "]) + lines[n][at + 1 :]
        else:
            lines[n] = lines[n].replace(":append", ":r" if rng.random() < 0.5 else ":w", 1)
        text = "\n".join(lines)
    return text


def both(text: str, file: Path, model: str | None, level: str | None = None) -> tuple[Verdict | None, Verdict | str]:
    """The short cut's verdict, and the other one or its error."""
    file.write_text(text, encoding="utf-8")
    short = lists.judged(file, model, level)
    try:
        return short, models.judge(history_files.load(file), model, level)
    except (HistoryError, models.ModelError) as e:
        return short, str(e)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists") / "history.edn"


@given(st.randoms(use_true_random=False), st.sampled_from([None, "list-append"]))
def test_a_right_history_needs_no_other_judge(file: Path, rng: Random, model: str | None) -> None:
    text = history(rng)
    short, whole = both(text, file, model)
    if "[:append" in text:
        assert isinstance(whole, Verdict) and whole.valid is True
        assert short is not None and short == whole and [*short.stats] == [*whole.stats]


@given(st.randoms(use_true_random=False))
def test_a_damaged_history_gets_the_same_verdict_or_none(file: Path, rng: Random) -> None:
    short, whole = both(
        damaged(rng, history(rng, transactions=rng.choice([3, 12, 40]), keys=rng.choice([1, 3]))), file, "list-append"
    )
    assert short is None or short == whole


@given(texts(), st.sampled_from([None, "list-append"]))
def test_any_text_gets_the_same_verdict_or_none(file: Path, text: str, model: str | None) -> None:
    short, whole = both(text, file, model)
    assert short is None or short == whole


PLAIN = (
    "{:type :invoke, :f :txn, :value [[:append 1 1]], :process 0, :time 0, :index 0}\n"
    "{:type :ok, :f :txn, :value [[:append 1 1]], :process 0, :time 1, :index 1}\n"
    "{:type :invoke, :f :txn, :value [[:append 1 2] [:r 1 nil]], :process 0, :time 2, :index 2}\n"
    "{:type :ok, :f :txn, :value [[:append 1 2] [:r 1 [1 2]]], :process 0, :time 3, :index 3}\n"
)


def test_what_is_usual_is_judged(file: Path) -> None:
    short, whole = both(PLAIN, file, None)
    assert short is not None and short == whole and short.stats["dependencies"] > 0


@pytest.mark.parametrize(
    "old, new",
    [
        ("[1 2]", "[2 1]"),
        ("[1 2]", "[1]"),
        ("[1 2]", "[1 2 2]"),
        ("[1 2]", "[1 2 3]"),
        ("[1 2]", "[]"),
        ("[1 2]", "[1  2]"),
        ("[1 2]", "[01 2]"),
        ("[1 2]", "[1 2 ]"),
        ("[1 2]", '["1" 2]'),
        (":append 1 2", ":append 1 1"),
        (":append 1 2", ":w 1 2"),
        (":process 0, :time 1", ":process 1, :time 1"),
        (
            ":f :txn, :value [[:append 1 1]], :process 0, :time 1",
            ":f :read, :value [[:append 1 1]], :process 0, :time 1",
        ),
        ("{:type :ok, :f :txn, :value [[:append 1 1]]", "{:type :fail, :f :txn, :value [[:append 1 1]]"),
        ("{:type :ok, :f :txn, :value [[:append 1 1]]", "{:type :info, :f :txn, :value [[:append 1 1]]"),
        (", :index 3}\n", ", :index 3"),
        (":time 3", ':op "x"'),
    ],
)
def test_what_is_not_usual_is_left_to_the_other_judge(file: Path, old: str, new: str) -> None:
    assert old in PLAIN
    assert both(PLAIN.replace(old, new), file, "list-append")[0] is None


def test_other_models_levels_and_files_are_left_to_the_other_judge(file: Path, tmp_path: Path) -> None:
    file.write_text(PLAIN)
    assert lists.judged(file, "rw-register") is None and lists.judged(file, None, "no level") is None
    assert lists.judged(tmp_path / "absent") is None
    file.write_bytes(PLAIN.encode() + b"\xff")
    assert lists.judged(file) is None


def test_every_level_is_told(file: Path) -> None:
    for level in models.levels("list-append"):
        short, whole = both(PLAIN, file, "list-append", level)
        assert short is not None and short == whole


def one_after_the_other(*values: str) -> str:
    """Transactions of one process, each with what it was asked for and what it returned, or only the former."""
    out = ""
    for value in values:
        asked = re.sub(r"(:r \d+) \[[^\]]*\]", r"\1 nil", value)
        out += f"{{:type :invoke, :f :txn, :value {asked}, :process 0}}\n{{:type :ok, :f :txn, :value {value}, :process 0}}\n"
    return out


FIRST = one_after_the_other("[[:append 1 1]]")
FAILED = FIRST + "{:type :invoke, :f :txn, :value [[:append 1 9]], :process 0}\n"


@pytest.mark.parametrize(
    "text, model",
    [
        (one_after_the_other("[[:append 1 1] [:append 1 2]]", "[[:r 1 [1]]]", "[[:r 1 [1 2]]]"), None),  # G1b
        (one_after_the_other("[[:append 1 1]]", "[[:r 1 [1 2]] [:append 1 2]]"), None),  # future-read
        (one_after_the_other("[[:append 1 1]]", "[[:append 1 3]]", "[[:r 1 [1]] [:append 1 2] [:r 1 [1 3]]]"), None),
        (one_after_the_other("[[:append 1 1]]", "[[:r 1 [1]] [:r 1 []]]"), None),  # internal
        (FAILED + "{:type :ok, :f :txn, :value [[:append 01 9]], :process 0}\n", None),
        (FIRST + one_after_the_other("[[:append 1 2]]").replace(":ok, :f :txn, :value [[:append", ":ok, :f :txn, :value [[:w"), None),
        (FAILED + "{:type :fail, :f :txn, :value [[], :process 0}\n", None),
        (FAILED + '{:type :fail, :f :txn, :value nil, :process 0, :error :x, :op "other"}\n', None),
        (FAILED + "{:type :invoke, :f :txn, :value nil, :process 0, :error :x}\n", None),
        (FIRST + "{:type :info, :f :kill, :value [[], :process :nemesis}\n", None),
        (one_after_the_other("[[:append 1 1]]", "[[:append 1 2]]", "[[:r 1 [1 2]]]", "[[:r 1 [1]]]"), None),  # a cycle in real time
        (one_after_the_other("[[:append 1 1]]", "[[:append 1 2]]", "[[:r 1 [1 2]]]", "[[:r 1 [2]]]"), None),  # no prefix
        (one_after_the_other("[[:append 1 12]]", "[[:r 1 [12]]]", "[[:r 1 [1]]]"), None),  # half a number
        (one_after_the_other("[[:append 1 1]]", "[[:append 1 1]]"), None),  # appended twice
        (one_after_the_other("[[:r 1 nil]]"), None),  # of no model
        (FIRST.replace(":txn", ":read"), None),
        ('; icequake {"format":2}\n' + FIRST, None),
        ('; icequake {"format":1}\n' + FIRST, "list-append"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_left_to_the_other_judge(file: Path, text: str, model: str | None) -> None:
    short, whole = both(text, file, model)
    assert short is None and (isinstance(whole, str) or whole.valid is not True)


def test_an_acknowledged_failure_with_an_error_is_usual(file: Path) -> None:
    text = FAILED + "{:type :fail, :f :txn, :value nil, :process 0, :error [:a {:b 1}]}\n"
    short, whole = both(text + one_after_the_other("[[:r 1 [1]] [:append 1 2]]"), file, None)
    assert short is not None and short == whole and short.valid is True
