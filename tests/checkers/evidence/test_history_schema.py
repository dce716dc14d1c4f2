"""``docs/history.schema.json`` says what ``checkers.evidence.history`` accepts, no more and no less, and
``docs/history.md`` shows what is true.

The schema uses few keywords of JSON Schema; :func:`complaints` knows just those, and refuses a schema with any other, so that no
validator is needed that icequake does not need itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.evidence import history
from checkers.evidence.history import Event, History, HistoryError
from checkers.evidence.recorder import Recorder
from tests.checkers.clients.test_edn import JSON, histories
from tests.support.simulator import simulate
from workloads.tables import TableSpec

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "history.schema.json").read_text())
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}
SAYS_NOTHING = {"$schema", "$id", "$defs", "title", "description", "additionalProperties"}


def complaints(value: Any, schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """Why a value does not match a schema: nothing when it does."""
    for keyword, wanted in schema.items():
        if keyword in SAYS_NOTHING:
            assert keyword != "additionalProperties" or wanted is True
        elif keyword == "$ref":
            yield from complaints(value, SCHEMA["$defs"][wanted.removeprefix("#/$defs/")], at)
        elif keyword == "anyOf":
            if all(any(complaints(value, s, at)) for s in wanted):
                yield f"{at}: none of {len(wanted)}"
        elif keyword == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            if not any(
                isinstance(value, TYPES[k]) and not (isinstance(value, bool) and k in ("integer", "number"))
                for k in kinds
            ):
                yield f"{at}: {value!r} is no {' or '.join(kinds)}"
        elif keyword == "required":
            yield from (f"{at}: no {k}" for k in wanted if isinstance(value, dict) and k not in value)
        elif keyword == "properties":
            for k, s in wanted.items():
                if isinstance(value, dict) and k in value:
                    yield from complaints(value[k], s, f"{at}.{k}")
        elif keyword == "items":
            for n, x in enumerate(value if isinstance(value, list) else ()):
                yield from complaints(x, wanted, f"{at}[{n}]")
        elif keyword in ("minItems", "maxItems"):
            if isinstance(value, list) and (len(value) < wanted if keyword == "minItems" else len(value) > wanted):
                yield f"{at}: it has {len(value)} items, {keyword} is {wanted}"
        elif keyword == "enum":
            if value not in wanted:
                yield f"{at}: {value!r} is none of {wanted}"
        elif keyword == "const":
            if value != wanted:
                yield f"{at}: {value!r} is not {wanted}"
        elif keyword in ("minimum", "exclusiveMinimum"):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and (value < wanted or (value == wanted and keyword != "minimum")):
                yield f"{at}: {value} is too little"
        elif keyword in ("maximum", "exclusiveMaximum"):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and (value > wanted or (value == wanted and keyword != "maximum")):
                yield f"{at}: {value} is too much"
        elif keyword == "maxLength":
            if isinstance(value, str) and len(value) > wanted:
                yield f"{at}: it has {len(value)} characters, {keyword} is {wanted}"
        else:
            raise AssertionError(f"this check does not know the keyword {keyword}")


def is_event(record: Any) -> bool:
    return not any(complaints(record, SCHEMA["$defs"]["event"]))


def assert_matches(lines: list[str]) -> None:
    header, *events = map(json.loads, lines)
    assert not list(complaints(header, SCHEMA["$defs"]["header"]))
    for e in events:
        assert not list(complaints(e, SCHEMA["$defs"]["event"]))
    for line in lines:
        assert not list(complaints(json.loads(line), SCHEMA))


def lines_of(h: History) -> list[str]:
    return [json.dumps(x) for x in ({"format": 1, **h.header}, *(e.to_json() for e in h.events))]


def test_recorded_histories_match(recorded_run: Path) -> None:
    assert_matches((recorded_run / "history.jsonl").read_text().splitlines())


def test_simulated_histories_match() -> None:
    for seed in range(5):
        assert_matches(lines_of(simulate(seed, [TableSpec(name="t")]).history))


def test_what_the_recorder_writes_matches(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with Recorder(path, {"workload": "w", "seed": 1, "writers": 2, "op_timeout": 120.0}) as r:
        r.record("invoke", 0, "insert", table="t", value={"ids": [1]}, op="w0-0", phase="main")
        r.record("fail", 0, "insert", table="t", op="w0-0", error=[["java.io.IOException", "no"]])
        r.record("info", "nemesis", "heal")
    assert_matches(path.read_text().splitlines())


@given(histories())
@settings(max_examples=40, deadline=None)
def test_generated_histories_match(h: History) -> None:
    assert_matches(lines_of(h))


RECORD: dict[str, Any] = {
    "index": 0,
    "time": 5,
    "type": "fail",
    "process": 1,
    "f": "insert",
    "table": "t",
    "value": {"ids": [1]},
    "op": "w1-0",
    "error": [["java.io.IOException", "no"]],
}
ODD = st.one_of(
    JSON, st.sampled_from([-1, 0, True, 1.5, "nemesis", "ok", [], [[]], [["a"]], [["a", 1]], [1], {}, None])
)


@given(st.sampled_from(sorted(RECORD)), ODD, st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_schema_accepts_what_the_reader_accepts(key: str, value: Any, drop: bool) -> None:
    record = {k: v for k, v in RECORD.items() if not (drop and k == key)} | ({} if drop else {key: value})
    try:
        Event.from_json(record)
    except HistoryError:
        assert not is_event(record)
    else:
        assert is_event(record)


def test_the_example_of_the_documentation_is_a_history(tmp_path: Path) -> None:
    (example,) = re.findall(r"```jsonl\n(.*?)```", (DOCS / "history.md").read_text(), re.DOTALL)
    assert_matches(example.splitlines())
    path = tmp_path / "history.jsonl"
    path.write_text(example)
    h = history.read(path)
    refused = {o.op: o for o in h.operations()}["w1-2"]
    assert refused.type == "fail" and refused.error is not None and "ValidationException" in refused.error[0][0]


def test_the_documentation_names_every_field() -> None:
    text = (DOCS / "history.md").read_text()
    for name in (*SCHEMA["$defs"]["event"]["properties"], *SCHEMA["$defs"]["header"]["properties"]):
        assert f"`{name}`" in text, name
