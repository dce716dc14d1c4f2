"""A history in a file of any known format: recognised by its start, and read.

Our own JSON lines (:mod:`checkers.evidence.history`), EDN (:mod:`checkers.clients.jepsen`), logs and JSON lines of other programs.

**Logs** (``jepsen.log``; test data of Knossos and Porcupine): lines of process, type, function, value; other lines are skipped::

    INFO  jepsen.util - 3	:invoke	:cas	[1 4]
    INFO  jepsen.util - 3	:info	:cas	:timed-out

A keyword in place of an ``info`` or ``fail`` value is the reason, and becomes the error. There are no times; the order is the time.

**JSON lines** (any program): one object for each event, with the keys of an EDN event as strings::

    {"time": 3291485317, "process": 0, "type": "invoke", "f": "txn", "value": [["append", 1, 2], ["r", 1, null]]}

They are read as EDN is. A JSON array of such objects is the same history. What is missing is guessed, and the header says what
(:data:`GUESSED`). A file whose first line has ``format`` is icequake's own.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from checkers.clients import edn
from checkers.clients.edn import EdnError, Keyword
from checkers.clients.in_time import in_time
from checkers.clients.jepsen import (
    CLOCK,
    CONCURRENT,
    GUESSED,
    HistoryBuilder,
    Notation,
    cut,
    error_chain_of,
    from_edn,
    read_event,
)
from checkers.clients.times import TimeForms
from checkers.clients.values import to_json
from checkers.evidence import history
from checkers.evidence.history import FORMAT, History, HistoryError
from checkers.evidence.record import RecordError, decoded, shown
from checkers.evidence.replace import replace
from checkers.evidence.uncollected import uncollected
from workloads.file import filekinds
from workloads.file.meant import nearest
from workloads.file.opened import unpacked

_LOGGED = re.compile(
    r"(?:.*\bINFO\b.*?(?:-|:)\s+)?(?P<process>:?[\w-]+)\s+:(?P<type>invoke|ok|fail|info)\s+(?P<rest>:\S.*)$", re.ASCII
)


def from_log(text: str, file: str = "<log>", lines: list[int] | None = None) -> History:
    """A log with lines of process, type, function and value; other lines are skipped. The line of each event is added to ``lines``.

    Raises:
        HistoryError: no line has this form, a value is not EDN, or it is not a history.
    """
    number = 0

    def where(column: int, message: str) -> HistoryError:
        return HistoryError(f"{file}:{number}:{column + 1}: {message}")

    builder = HistoryBuilder(where)
    rows = text.split("\n")
    for number, line in enumerate(rows, 1):
        match = _LOGGED.match(line.rstrip())
        if match is None:
            continue
        name = match["process"].lstrip(":")
        process: int | str = int(name) if name.isdigit() and len(name) < 19 else name
        rest = match["rest"]
        try:
            forms = [form for _, form in edn.read_all(rest, file)]
        except EdnError as e:
            place = re.match(re.escape(file) + r":\d+:(\d+): (.*)", str(e), re.DOTALL)
            column, why = (int(place[1]) - 1, place[2]) if place is not None else (0, str(e))
            raise where(match.start("rest") + column, why) from None
        f, *values = forms
        if not isinstance(f, Keyword):
            raise where(match.start("rest"), f"expected a function such as :read, found {cut(f)}")
        value, error = (values[0] if values else None), (values[1] if len(values) > 1 else None)
        if match["type"] in ("info", "fail") and isinstance(value, Keyword) and error is None:
            value, error = None, value
        try:
            builder.add(
                0, type=match["type"], process=process, f=f.name, value=to_json(value), error=error_chain_of(error)
            )
        except EdnError as e:
            raise where(match.start("rest"), str(e)) from None
        if lines is not None:
            lines.append(number)
    if not builder.events:
        raise HistoryError(
            f"{file}:1:1: expected lines such as 'INFO  jepsen.util - 0\\t:invoke\\t:read\\tnil', found none in {len(rows)} lines"
        )
    return History({"format": FORMAT}, tuple(builder.events))


GUESSES = {
    "process": "no event names its process, so all of them count as of process 0; give each client its own",
    "f": "no event names its function, so all of them count as transactions (txn)",
    "time": "no event has a time, so the order of the lines is the order in time",
}
"""Keys that an event may lack, and what is then assumed."""
OTHER_NAMES = {
    "process": ("client", "clientId", "client_id", "thread", "worker", "session", "connection", "pid"),
    "f": ("op", "operation", "function", "func", "kind", "method"),
    "time": ("timestamp", "ts", "at", "date", "datetime", "when"),
    "type": ("event", "status", "outcome", "state"),
    "value": ("val", "values", "arg", "args", "input", "output", "result", "data", "payload"),
}
"""What other programs call a key."""


def _as_json(v: edn.Value) -> str:
    return shown(_bare(v))


def _bare(v: Any) -> Any:
    """The JSON that a form says."""
    return (
        {k: _bare(x) for k, x in v.entries}
        if isinstance(v, edn.Map)
        else [*map(_bare, v)]
        if isinstance(v, tuple)
        else v
    )


JSON = Notation('an object such as {"type": "invoke", "process": 0, "f": "read", "value": null}', '"{}"', _as_json)


def from_json_lines(text: str, file: str = "<json>", lines: list[int] | None = None) -> History:
    """A history as one JSON object a line, with the keys of an EDN event. The line of each event is added to ``lines``.

    Raises:
        HistoryError: a line is no JSON, or it is not a history.
    """

    def where(number: int, message: str) -> HistoryError:
        return HistoryError(f"{file}:{number}: {message}")

    records = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                records.append((number, decoded(line.encode("utf-8", "replace"))))
            except RecordError as e:
                torn, comma = "is torn" in str(e), line.rstrip().endswith("},")
                remedy = (
                    "finish that line or remove it" if torn else "write each event as one object on a line of its own"
                )
                raise where(number, f"{e}; {'remove the comma at the end of each line' if comma else remedy}") from None
            if _may_repeat(line) and (key := _Twice().first(line, 0)[0]) is not None:
                raise where(number, f"{shown(key)} is there twice in one object; only one of the two can be meant")
    return _from_records(records, where, lines)


_KEY = re.compile(r'"([^"\\]*)"\s*:')


def _may_repeat(text: str) -> bool:
    """Whether a key may stand twice in an object; if not, the text need not be read once more."""
    keys = _KEY.findall(text)
    return len(set(keys)) < len(keys) or "\\" in text


class _Twice:
    """Finds a key that an object has twice. A decoder takes the last one, without a word."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._decoder = json.JSONDecoder(object_pairs_hook=self._pairs)

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        whole = dict(pairs)
        if len(whole) < len(pairs):
            seen = set[str]()
            for key, _ in pairs:
                self._found += [key] * (key in seen)
                seen.add(key)
        return whole

    def first(self, text: str, begin: int) -> tuple[str | None, int]:
        """The first such key of the value that begins there, and where that value ends."""
        self._found.clear()
        _, end = self._decoder.raw_decode(text, begin)
        return (self._found[0] if self._found else None), end


def from_json_array(text: str, file: str = "<json>", lines: list[int] | None = None) -> History:
    """A history as a JSON array of events. The line of each event is added to ``lines``.

    Raises:
        HistoryError: it is no JSON, or not a history.
    """

    def line(number: int) -> int:
        return _lines_of(text, number + 1)[number]

    def where(number: int, message: str) -> HistoryError:
        return HistoryError(f"{file}:{line(number)}: event {number} of the array: {message}")

    try:
        records = json.loads(text)
    except json.JSONDecodeError as e:
        cut = e.pos >= len(text.rstrip()) or e.msg.startswith("Unterminated")
        what = "the array is cut off: no ] ends it" if cut else f"no JSON: {e.msg}"
        raise HistoryError(
            f"{file}:{e.lineno}:{e.colno}: {what}; give an array of events, or one event a line"
        ) from None
    except (ValueError, RecursionError):  # a number of thousands of digits
        raise HistoryError(
            f"{file}:1: no JSON that can be read: a number is too long, or values are nested too deeply"
        ) from None
    if _may_repeat(text):
        twice, at = _Twice(), text.index("[") + 1
        for number in range(len(records)):
            key, at = twice.first(text, _SPACE.match(text, at).end())  # type: ignore[union-attr]
            if key is not None:
                raise where(number, f"{shown(key)} is there twice in one object; only one of the two can be meant")
    if lines is None:
        return _from_records([*enumerate(records)], where)
    numbers: list[int] = []
    history = _from_records([*enumerate(records)], where, numbers)
    every = _lines_of(text, len(records))
    lines += [every[n] for n in numbers]
    return history


def _lines_of(text: str, first: int) -> list[int]:
    """The lines on which the first so many elements of a JSON array begin."""
    decoder, at, line, found = (
        json.JSONDecoder(),
        text.index("[") + 1,
        1 + text.count("\n", 0, text.index("[")),
        list[int](),
    )
    for _ in range(first):
        begin = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        line += text.count("\n", at, begin)
        found.append(line)
        _, at = decoder.raw_decode(text, begin)
        line += text.count("\n", begin, at)
    return found


_SPACE = re.compile(r"[\s,]*")


def _from_records(
    records: Sequence[tuple[int, Any]], where: Callable[[int, str], HistoryError], places: list[int] | None = None
) -> History:
    builder = HistoryBuilder(where, places=None if places is None else [])
    keys = {key for _, record in records if isinstance(record, dict) for key in record}
    if "value" not in keys and (meant := _meant("value", keys)):
        raise where(records[0][0], f'no event has a "value", so there is nothing to judge{meant}')
    header: dict[str, Any] = {"format": FORMAT}
    if not any(isinstance(record, dict) and record.get("type") == "invoke" for _, record in records):
        builder.alone = len(records)
        header[CONCURRENT] = True
    forms: TimeForms = {}
    events = [(number, read_event(where, number, _form(record), JSON, forms)) for number, record in records]
    if True in forms and not builder.alone:
        header[CLOCK] = True
    useless = ("time", "process") if builder.alone else ()
    notes = [f"{why}{_meant(key, keys)}" for key, why in GUESSES.items() if key not in keys and key not in useless]
    ordered = None if builder.alone else in_time(events, where)
    if ordered is not None:
        events, more = ordered
        notes += more
    for number, fields in events:
        builder.add(number, **fields)
    builder.finish(JSON)
    if places is not None:
        places += builder.all_places()
    return History(header | ({GUESSED: notes} if notes else {}), tuple(builder.all_events()))


def _meant(key: str, keys: Iterable[str]) -> str:
    """Which of the keys may stand for one that is missing, to be said behind that; nothing if none does."""
    others = sorted(set(keys) - {"type", "value", "error", "index", "table", *GUESSES})
    named = next((name for name in OTHER_NAMES[key] if name in others), None)
    found = named or next((other for other in others if other != "op" and nearest(other, [key]) is not None), None)
    return "" if found is None else f"; {shown(found)} is not read: did you mean {shown(key)}?"


def _form(value: Any) -> edn.Value:
    """JSON as the EDN that says the same; its texts stay texts."""
    if isinstance(value, dict):
        return edn.Map(tuple((key, _form(inner)) for key, inner in value.items()))
    return tuple(_form(item) for item in value) if isinstance(value, list) else value


def load(path: Path, lines: list[int] | None = None) -> History:
    """A history in any known format, recognised by its start: our own JSON lines, EDN, or a log. The line of each event is added to ``lines``.

    Raises:
        HistoryError: it cannot be read, or has none of these formats.
    """
    with uncollected():
        return _load(path, lines)


PACKED = {
    b"PK\x03\x04": "unzip",
    b"BZh": "bunzip2 -k",
    b"\xfd7zXZ": "unxz -k",
    b"\x28\xb5\x2f\xfd": "unzstd",
}
"""How a compressed file begins that is not read → the command that unpacks it."""
WIDE = (b"\xff\xfe", b"\xfe\xff")
"""How a text of UTF-16 begins."""


def _load(path: Path, lines: list[int] | None) -> History:
    content = b""
    try:
        content = unpacked(path)
        text = content.decode("utf-8-sig")
    except OSError as e:
        raise HistoryError(f"{path}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise HistoryError(f"{path}:{content.count(10, 0, e.start) + 1}: {_not_text(path, content, e.start)}") from None
    first = text.lstrip()
    if first.startswith("{") and re.match(r'\{\s*"', first):
        if filekinds.of_records(text) not in (None, filekinds.HISTORY):
            raise HistoryError(filekinds.refused(path, "a history"))
        if (many := _several_lines(first)) is not None:
            raise HistoryError(f"{path}:1: {many}")
        if _is_own(first):
            own = _own(history.read(path, content))
            if lines is not None:
                lines += range(2, len(own.events) + 2)
            return own
        return from_json_lines(text, str(path), lines)
    if re.match(r'\[\s*\{\s*"(?:[^"\\]|\\.)*"\s*:', first):
        return from_json_array(text, str(path), lines)
    if not first:
        raise HistoryError(f"{path}:1:1: expected a history, found an empty file")
    if re.match(r"[{\[]\s*'", first) or re.match(r"\[\s*\{\s*'", first):
        raise HistoryError(
            f"{path}:1: names in single quotes, as Python prints a dict, are no JSON; write each event with json.dumps(event)"
        )
    if first[0] in "{[(;" or re.match(r"#[\w{_]", first):
        return from_edn(text, str(path), lines=lines)
    if any(_LOGGED.match(line.rstrip()) for line in text.split("\n")):
        return from_log(text, str(path), lines)
    if (other := filekinds.refused(path, "a history")) is not None:
        raise HistoryError(other)
    line = text.count("\n", 0, len(text) - len(first)) + 1
    raise HistoryError(
        f"{path}:{line}:1: not EDN, JSON or a log: found {shown(first.partition(chr(10))[0])}; expected events such as "
        '{"type": "invoke", "process": 0, "f": "read", "value": null}, one on a line; docs/history.md has the forms'
    )


def _not_text(path: Path, content: bytes, byte: int) -> str:
    """Why a file is no text, and what to do."""
    if (unpack := next((command for begin, command in PACKED.items() if content.startswith(begin)), None)) is not None:
        return f"the file is compressed; unpack it first, `{unpack} {shlex.quote(str(path))}`, and give the file that comes out"
    if content.startswith(WIDE):
        name = shlex.quote(str(path))
        return f"not UTF-8 text but UTF-16; convert it first: iconv -f UTF-16 -t UTF-8 {name} > utf8-{shlex.quote(path.name)}"
    return f"not UTF-8 text: byte {byte + 1} is no part of a character"


def _several_lines(text: str) -> str | None:
    """What to do with JSON that is not one event a line: an object around the events, or events that go over several lines; None: it is."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if "format" not in value and "type" not in value:
        inside = next((k for k, v in value.items() if isinstance(v, list) and v and isinstance(v[0], dict)), None)
        if inside is not None:
            return f"the events are inside an object, under {shown(inside)}; give them alone: jq -c {_jq(inside)} FILE > events.jsonl"
        if meant := _meant("type", value):
            return f'the event has no "type"{meant}'
    if "\n" in text[:end]:
        return "a JSON object goes over several lines; write each event on one line: jq -c . FILE > events.jsonl"
    return None


def _jq(key: str) -> str:
    """What selects the elements under a key, quoted for a shell: a key may be no name of jq's, or have a quote."""
    return shlex.quote(f".[{json.dumps(key)}][]")


def _own(h: History) -> History:
    """A history of icequake's; where events contradict its rules, they are problems of it."""
    return replace(h, problems=(*h.problems, *h.contradictions))


def _is_own(text: str) -> bool:
    """Whether JSON lines begin with icequake's header and not with an event; or with what is neither: its reader says what is wrong."""
    line = text.partition("\n")[0]
    try:
        record = decoded(line.encode("utf-8", "replace"))
    except RecordError:
        return '"type"' not in line
    return "type" not in record
