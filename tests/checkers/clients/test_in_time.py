"""A history says the same in whatever order its lines are, if its events have times."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checkers.clients import edn, jepsen, values
from checkers.clients.edn import Keyword, Map
from checkers.clients.in_time import BY_TIME
from checkers.evidence.history import Event, HistoryError
from checkers.verdict import Verdict
from harness.cli.clienthistory import judged

Made = dict[str, Any]
"""An event as a program writes it."""


def registers(rng: Random) -> list[Made]:
    """Reads and writes of three processes; some answer what a register cannot."""
    return _made(rng, lambda: ("read", None) if rng.random() < 0.6 else ("write", rng.randrange(1, 4)), _answer)


def lists(rng: Random) -> list[Made]:
    """Transactions over two lists; some see what no list was."""
    fresh = iter(range(1, 1000))

    def asked() -> tuple[str, Any]:
        key = rng.choice((1, 2))
        return "txn", [["r", key, None], ["append", rng.choice((1, 2)), next(fresh)]]

    return _made(rng, asked, _answer)


def _answer(rng: Random, f: str, value: Any, state: dict[Any, Any]) -> Any:
    """What an operation is told that takes effect now, or an older truth."""
    if f == "write":
        state.setdefault("old", []).append(state.get("now"))
        state["now"] = value
        return value
    if f == "read":
        return rng.choice([state.get("now"), state.get("now"), *state.get("old", ())])
    out = []
    for name, key, element in value:
        at = state.setdefault(key, [])
        if name == "append":
            at.append(element)
            out.append([name, key, element])
        else:
            out.append([name, key, at[: len(at) - (rng.random() < 0.2)]])
    return out


def _made(rng: Random, asked: Callable[[], tuple[str, Any]], answer: Callable[..., Any]) -> list[Made]:
    running: dict[int, tuple[str, Any]] = {}
    state: dict[Any, Any] = {}
    out: list[Made] = []
    processes = [0, 1, 2]
    for time in sorted(rng.sample(range(100, 1000), 24)):
        p = rng.choice(processes)
        if p not in running:
            running[p] = f, value = asked()
            out.append({"time": time, "process": p, "type": "invoke", "f": f, "value": value})
        else:
            f, value = running.pop(p)
            kind = rng.choices(("ok", "fail", "info"), (8, 1, 1))[0]
            got = answer(rng, f, value, state) if kind == "ok" else value
            out.append({"time": time, "process": p, "type": kind, "f": f, "value": got})
            if kind == "info":
                processes = [p + 3 if q == p else q for q in processes]
    return out


def as_json(events: list[Made]) -> str:
    return "".join(json.dumps(e) + "\n" for e in events)


def as_edn(events: list[Made]) -> str:
    return jepsen.to_edn(
        jepsen.History(
            {},
            tuple(Event(n, e["time"], e["type"], e["process"], e["f"], None, e["value"]) for n, e in enumerate(events)),
        ),
        header=False,
    )


def as_plain_edn(events: list[Made]) -> str:
    """Without ``:index``, in a vector: the scanner does not know it."""

    def form(e: Made) -> Map:
        value = values.transaction(e["value"]) if e["f"] == "txn" else e["value"]
        return Map(
            tuple(
                (Keyword(k), Keyword(v) if k in ("type", "f") else value if k == "value" else v) for k, v in e.items()
            )
        )

    return edn.write(tuple(form(e) for e in events))


def verdict_on(text: str, folder: Path, level: str | None = None) -> Verdict:
    path = folder / "h"
    path.write_text(text)
    return judged(path, "register" if "write" in text or "txn" not in text else "list-append", level)[0]


def said(v: Verdict) -> tuple[Any, ...]:
    return (
        v.valid,
        [(a.name, a.explanation, a.ops, a.events) for a in v.anomalies],
        [n for n in v.notes if n != BY_TIME],
    )


@pytest.mark.parametrize("write", [as_json, as_edn, as_plain_edn])
@pytest.mark.parametrize("make", [registers, lists])
def test_the_lines_of_one_history_say_the_same_in_any_order(
    make: Callable[[Random], list[Made]], write: Callable[[list[Made]], str], tmp_path: Path
) -> None:
    seen: set[Any] = set()

    @given(st.integers(0, 2**32))
    @settings(max_examples=60, deadline=None)
    def holds(seed: int) -> None:
        rng = Random(seed)
        events = make(rng)
        told = verdict_on(write(events), tmp_path)
        mixed = rng.sample(events, len(events))
        again = verdict_on(write(mixed), tmp_path)
        assert said(again) == said(told)
        assert (BY_TIME in again.notes) == (mixed != events)
        seen.add(told.valid)

    holds()
    assert seen == {True, False}


LATE_WRITE = [
    {"time": 10, "process": 0, "type": "invoke", "f": "write", "value": 1},
    {"time": 12, "process": 0, "type": "ok", "f": "write", "value": 1},
    {"time": 3, "process": 1, "type": "invoke", "f": "read", "value": None},
    {"time": 4, "process": 1, "type": "ok", "f": "read", "value": None},
]


@pytest.mark.parametrize("write", [as_json, as_edn, as_plain_edn])
def test_a_read_before_a_write_is_no_stale_one_where_its_line_stands_after_it(write: Any, tmp_path: Path) -> None:
    v = verdict_on(write(LATE_WRITE), tmp_path)
    assert v.valid is True and v.notes == (BY_TIME,)
    stale = [e | {"time": n} for n, e in enumerate(LATE_WRITE)]
    assert verdict_on(write(stale[2:] + stale[:2]), tmp_path).valid is False


@given(st.integers(0, 2**32), st.sampled_from((2, 20, 200)), st.sampled_from([registers, lists]))
@settings(max_examples=150, deadline=None)
@example(0, 900, registers)
def test_a_coarse_clock_and_files_one_after_the_other_accuse_nobody(
    tmp_path_factory: pytest.TempPathFactory, seed: int, unit: int, make: Callable[[Random], list[Made]]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    events = make(Random(seed))
    if verdict_on(as_json(events), folder).valid is not True:
        return
    by_process = sorted(events, key=lambda e: int(e["process"]))
    coarse = [e | {"time": e["time"] // unit} for e in by_process]
    if coarse == sorted(coarse, key=lambda e: int(e["time"])):
        return  # the lines are in the order of time, so their order counts
    try:
        assert verdict_on(as_json(coarse), folder).valid is True
    except HistoryError as e:
        assert "give finer times" in str(e)


def test_events_without_a_time_keep_their_place_and_a_note_says_so(tmp_path: Path) -> None:
    stale = [e | {"time": n} for n, e in enumerate(LATE_WRITE)]
    for n in range(4):
        some: list[Made] = [{k: v for k, v in e.items() if k != "time" or m != n} for m, e in enumerate(stale)]
        v = verdict_on(as_json(some), tmp_path)
        assert v.valid is False
        assert v.notes == ("1 of 4 events have no time, so the order of the lines is the order in time",)


def test_lines_whose_order_is_not_known_are_refused(tmp_path: Path) -> None:
    some: list[Made] = [{k: v for k, v in e.items() if k != "time" or n != 1} for n, e in enumerate(LATE_WRITE)]
    with pytest.raises(HistoryError, match=r"h:3: its time 3 is before 10, .* 1 of 4 events have no time"):
        verdict_on(as_json(some), tmp_path)


def test_an_own_history_that_goes_back_in_time_is_not_valid(tmp_path: Path) -> None:
    h = jepsen.from_edn(as_edn(LATE_WRITE[:2]))
    back = jepsen.History(
        h.header,
        (h.events[0], Event(**{**{k: getattr(h.events[1], k) for k in h.events[1].__struct_fields__}, "time": 2})),
    )
    own = as_json([back.header, *(e.to_json() for e in back.events)])
    for text in (jepsen.to_edn(back), own):
        v = verdict_on(text, tmp_path)
        assert v.valid == "unknown" and "one monotonic clock" in v.notes[0]
