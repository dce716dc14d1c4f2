"""Values as a person reads them: grouped numbers, sizes, arguments, results; everything bounded in length."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


OUTCOME_WORDS = {"ok": "ok", "fail": "failed", "info": "unknown"}
"""How a history says what became of an operation → how a person reads it."""
OUTCOMES_MEAN = {
    "ok": "acknowledged: it took effect",
    "fail": "refused: it certainly had no effect",
    "info": "nobody was told: it may have taken effect, at once or later, or not at all",
}


def outcomes(ok: int, fail: int, info: int, separator: str = ", ") -> str:
    """``87 ok, 35 failed, 84 unknown``."""
    return separator.join(
        f"{grouped(n)} {outcome}" for n, outcome in zip((ok, fail, info), OUTCOME_WORDS.values(), strict=True)
    )


def printable(text: str) -> str:
    """``text`` with every harmful character replaced by U+FFFD.

    These are the characters that HTML or XML forbids (control characters, lone surrogates) and those that reorder the surrounding
    text (bidirectional overrides).
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def shorten(text: str, most: int) -> str:
    """At most ``most`` characters; a cut is marked."""
    return text if len(text) <= most else text[: most - 1] + "…"


def grouped(value: object) -> str:
    """A number with a thin space between thousands (ISO 80000); ``–`` for None; any other value unchanged."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        text = f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"
    else:
        text = f"{value:,}"
    return text.replace(",", "\u202f")


def sentences(text: str) -> list[str]:
    """The sentences of a text; none for an empty one."""
    return re.split(r"(?<=\.) (?=[A-Z])", text) if text else []


def share(part: float, whole: float) -> str:
    """A percentage; ``–`` when there is nothing. Never rounds a positive share to 0 % or an incomplete one to 100 %."""
    if not whole:
        return "–"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f} %"


def size(count: float) -> str:
    """Bytes, in units of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(value_ms: float) -> str:
    """A latency or length of time with its unit: ``340 ms``, ``1.2 s``, ``2 min 5 s``."""
    if value_ms < 10:
        return f"{value_ms:.1f}".removesuffix(".0") + " ms"
    if value_ms < 999.5:
        return f"{value_ms:.0f} ms"
    if value_ms < 119_950:
        return f"{value_ms / 1000:.{2 if value_ms < 10_000 else 1}f}".rstrip("0").rstrip(".") + " s"
    minutes, s = divmod(round(value_ms / 1000), 60)
    hours, m = divmod(minutes, 60)
    parts = ((hours, "h"), (m, "min")) if hours else ((m, "min"), (s, "s"))
    return " ".join(f"{n} {unit}" for n, unit in parts if n)


def milliseconds(value_ms: float | None) -> str:
    """A time for a column of numbers: whole ms, grouped; one decimal below 10."""
    if value_ms is None:
        return "–"
    return grouped(round(value_ms, 1)) if value_ms < 10 else grouped(round(value_ms))


def moment(value_ms: float, span_ms: float = 1000.0) -> str:
    """A time since the start of the run, as in explanations: ``8.312 s``; in µs or ns where all that is shown spans less than 20 ms or µs."""
    if span_ms >= 20:
        return f"{moment_number(value_ms)} s"
    return f"{grouped(round(1e3 * value_ms))} µs" if span_ms >= 0.02 else f"{grouped(round(1e6 * value_ms))} ns"


def time_of_day(ns: int, span_ms: float | None = None) -> str:
    """The time of day, UTC, of nanoseconds since 1970: ``09:30:01.25``; seconds alone, ``01.000250``, where all that is shown spans less
    than 20 ms."""
    seconds, fraction = divmod(ns, 1_000_000_000)
    clock = datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")
    if span_ms is not None and span_ms < 20:
        return f"{clock[-2:]}.{fraction:09d}"[: 9 if span_ms >= 0.02 else 12]
    digits = f"{fraction:09d}".rstrip("0") if span_ms is None else f"{fraction // 1_000_000:03d}".rstrip("0")
    return f"{clock}.{digits}" if digits else clock


def moment_number(value_ms: float | None) -> str:
    """A time since the start of the run, for a column of numbers: ``8.312``."""
    return "–" if value_ms is None else f"{value_ms / 1000:,.3f}".replace(",", "\u202f")


def when(instant: datetime | None) -> str | None:
    """A wall clock time to the second with its zone."""
    return None if instant is None else instant.strftime("%Y-%m-%d %H:%M:%S %Z").strip()


_ISSUE = re.compile(r"https?://github\.com/[^/]+/([^/]+)/(?:issues|pull)/(\d+)")


def is_thread(url: str) -> bool:
    """Whether people discuss something there: an issue or a pull request, which has a state."""
    return _ISSUE.match(url) is not None or "/jira/browse/" in url


def how_known(url: str) -> str:
    """``known``: people discuss it there, or a document says it; a source file, which is all that icequake has to show, tells nobody."""
    return "known to icequake; not reported upstream" if not url or "/blob/" in url else "known"


def link_label(url: str) -> str:
    """A link as a person says it: ``iceberg#10720``, ``HIVE-26882``, ``iceberg.apache.org: rollback to snapshot``."""
    if (issue := _ISSUE.match(url)) is not None:
        return f"{issue[1]}#{issue[2]}"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a link"
    if parts.scheme not in ("http", "https"):
        return shorten(url, 80)
    host = parts.path.strip("/").split("/")[1:2] if parts.hostname == "github.com" else []
    last = parts.fragment or parts.path.rstrip("/").rpartition("/")[2]
    if parts.path.startswith("/jira/browse/"):
        return shorten(last, 40)
    where = "".join(host) or parts.hostname or "a link"
    return shorten(f"{where}: {re.sub('[-_]+', ' ', last)}" if last else where, 80)


def safe(target: str | None) -> str | None:
    """A link that is safe to follow: http or https only; else None."""
    if target is None:
        return None
    try:
        parts = urlsplit(target)
    except ValueError:
        return None
    return target if parts.scheme in ("http", "https") and parts.netloc else None


def compact(value: Any, most: int = 400) -> str:
    """JSON on one line, bounded."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = f"({type(value).__name__})"
    return shorten(text, most)


def plainly(value: Any, most: int = 240) -> str:
    """Any JSON value in words, bounded: ``yes``, ``a, b``, ``ids 3, 7; part 2``; what is inside another one in parentheses."""
    try:
        return shorten(_plainly(value), most)
    except RecursionError:
        return "…"


def _plainly(value: Any, depth: int = 0) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or (isinstance(value, Mapping | list | tuple) and not value):
        return "–"
    if isinstance(value, Mapping):
        text = "; ".join(f"{str(k).replace('_', ' ')} {_plainly(v, depth + 1)}" for k, v in list(value.items())[:40])
    elif isinstance(value, list | tuple):
        text = ", ".join(_plainly(v, depth + 1) for v in value[:40]) + (", …" if len(value) > 40 else "")
    else:
        return grouped(value) if isinstance(value, float) else str(value)
    return f"({text})" if depth else text


def arguments(value: Any, most: int = 160) -> str:
    """An operation's arguments: ``ids=[3, 7] part=2``."""
    if value is None or value == {}:
        return ""
    if isinstance(value, Mapping):
        return shorten(" ".join(f"{k}={_argument(v, most)}" for k, v in list(value.items())[:20]), most)
    return plainly(value, most)


def _argument(value: Any, most: int) -> str:
    """A list in square brackets, anything else in words."""
    if isinstance(value, list):
        return f"[{', '.join(plainly(v, most) for v in value[:40])}{', …' if len(value) > 40 else ''}]"
    return plainly(value, most)


def result(value: Any, most: int = 160) -> str:
    """An operation's result: a few rows are shown, many are counted, anything else is shown."""
    if isinstance(value, Mapping) and isinstance(value.get("rows"), list):
        rest = arguments({k: v for k, v in value.items() if k != "rows"}, most)
        return f"{result(value['rows'], most)} {rest}".strip()
    if isinstance(value, list) and all(isinstance(v, list | Mapping) for v in value):
        count = plural(len(value), "row")
        return f"{count}: {shorten(', '.join(_plainly(v, 1) for v in value), most)}" if 0 < len(value) <= 3 else count
    return "" if value is None else arguments(value, most)


def plural(count: int, singular: str, plural_form: str | None = None) -> str:
    """``1 table``, ``2 tables``."""
    return f"{grouped(count)} {singular if count == 1 else plural_form or singular + 's'}"


OWN_TABLES = (
    "No table of yours is broken: a run breaks tables of its own. “Do now” is what one does where such a table is in use. In a statement, "
    "c (as in CALL c.system) is the name of the catalog in Spark: write yours, and the name of your table."
)


def operation_name(op: str = "w2-39") -> str:
    """What the name of an operation says, by an example; empty if it has another form."""
    found = re.fullmatch(r"w(\d+)-(\d+)", op)
    return f"{op} is operation {found[2]} of writer {found[1]}; both count from 0." if found else ""


def tally(counts: Mapping[str, int]) -> str:
    """Names and how often each: ``lost-commit ×2, undelete``. Of anomalies the number is theirs, never that of the runs that have them."""
    return ", ".join(name + (f" ×{grouped(n)}" if n > 1 else "") for name, n in counts.items())
