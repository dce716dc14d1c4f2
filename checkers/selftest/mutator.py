"""The mutator: one field of a recorded run gets another plausible value, whatever the field is.

Planted bugs are those that somebody thought of. The mutator needs no idea: it walks over every field of every event, commit, file entry,
row change, metadata version (and each key of its JSON), capture, problem, swap and accepted request (:func:`sites`), and changes one of
them to what a broken recorder, reader, catalog or engine could have put there (:func:`variants`). :mod:`checkers.selftest.fields` says of
each field what must come of it, :mod:`checkers.selftest.fieldtrial` tries it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, get_args, get_origin, get_type_hints

from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Event, EventType
from checkers.evidence.problem import Code, Problem
from checkers.evidence.proxylog import AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Capture, FileContent, MissingFile, RowChange, TableLog
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.records import IcebergMetadata as Metadata

Put = Callable[[Any], Evidence]
"""The evidence with another value at a site."""

RECORDS: Mapping[str, type[Any]] = {
    "event": Event,
    "log": TableLog,
    "commit": Commit,
    "file": FileEntry,
    "row": RowChange,
    "metadata": Metadata,
    "capture": Capture,
    "missing": MissingFile,
    "problem": Problem,
    "swap": PointerSwap,
    "accepted": AcceptedChange,
}
"""First word of a field's name → whose field it is."""

PER_KEY: Mapping[str, str] = {"event.extra": "event", "commit.summary": "summary", "metadata.raw": "raw"}
"""A field that is a mapping → the first word of the names of its keys, which are fields of their own."""

_NAMES = {word: tuple(get_type_hints(record)) for word, record in RECORDS.items()}
_HINTS = {f"{word}.{name}": hint for word, r in RECORDS.items() for name, hint in get_type_hints(r).items()}

NULLABLE: frozenset[str] = frozenset(name for name, hint in _HINTS.items() if type(None) in get_args(hint))
"""Fields that may be null by their type."""
NUMBERS: frozenset[str] = frozenset(name for name, hint in _HINTS.items() if int in get_args(hint))
"""Fields that are a number or null."""
LIST_FIELDS: frozenset[str] = frozenset(
    n for n, h in _HINTS.items() if tuple in (get_origin(x) for x in (h, *get_args(h)))
)
"""Fields that are a list, or null."""

MADE_UP: Mapping[str, Any] = {"accepted.refs": (("made-up", 7),)}
"""Field that is empty in every recorded run → a value for it."""

ENUMS: Mapping[str, Sequence[str]] = {
    "event.type": get_args(EventType),
    "file.content": get_args(FileContent),
    "problem.code": get_args(Code),
}
"""Fields with a fixed set of values."""


@dataclass(frozen=True, slots=True)
class MutationSite:
    """One field of one record of a run.

    Attributes:
        field: the field's name, such as ``commit.parent_id``.
        table: the table of the record; None for the history.
        value: what it holds.
        put: gives the evidence with another value in its place.
        first: whether the record is its table's first metadata version.
    """

    field: str
    table: str | None
    value: Any
    put: Put
    first: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """Another value for a site.

    Attributes:
        change: how it was made: ``null``, ``neighbour`` (one more or less), ``other`` (of another record of the run), ``made up``, ``dropped``,
            ``doubled``, ``exchanged``, ``inside`` (an element has another value), ``empty``, ``negated``.
        value: the value.
    """

    change: str
    value: Any


def sites(e: Evidence) -> Iterator[MutationSite]:
    """Every field of every record, in the order of the records."""

    def with_events(events: tuple[Event, ...]) -> Evidence:
        return replace(e, history=replace(e.history, events=events))

    def with_part(part: str, table: str, value: Any) -> Evidence:
        return replace(e, **{part: {**getattr(e, part), table: value}})

    yield MutationSite("history.events", None, e.history.events, with_events)
    yield MutationSite("run.complete", None, e.complete, lambda v: replace(e, complete=v))
    for n, event in enumerate(e.history.events):
        for site in _fields("event", None, event, partial(_put_at, e.history.events, n, with_events)):
            # Arguments and results are different things.
            yield replace(site, field=f"event.value of {event.type}") if site.field == "event.value" else site
    for table, log in e.logs.items():
        yield from _log(table, log, partial(with_part, "logs", table))
        for word, part in (("swap", "swaps"), ("accepted", "accepted")):
            records, put = getattr(e, part).get(table, ()), partial(with_part, part, table)
            yield MutationSite(f"run.{part}", table, records, put)
            for n, record in enumerate(records):
                yield from _fields(word, table, record, partial(_put_at, records, n, put))


def variants(site: MutationSite, same: Sequence[MutationSite], rng: Random) -> list[Variant]:
    """Plausible other values for a site, one of each kind of change.

    Args:
        same: all sites of the same field in the same run; their values are plausible here, those of the same table first.
    """
    near = [s.value for s in same if s.table == site.table]
    if site.field in ENUMS:
        found = [Variant("other", v) for v in ENUMS[site.field] if v != site.value]
        rng.shuffle(found)
        return found
    if site.field in MADE_UP and not site.value:
        return [Variant("made up", MADE_UP[site.field])]
    others = _unequal(site.value, near) or _unequal(site.value, [s.value for s in same])
    null = site.field in NULLABLE or site.field.startswith(("raw.", "summary.", "event.value"))
    if site.value is None and not others:
        made: Any = 7 if site.field in NUMBERS else [] if site.field.startswith("event.value") else None
        return [] if made is None else [Variant("made up", made)]
    return list(_values(site.value, others, rng, null=null))


def _log(table: str, log: TableLog, put: Callable[[TableLog], Evidence]) -> Iterator[MutationSite]:
    yield from _fields("log", table, log, put)
    for n, c in enumerate(log.commits):
        put_c = partial(_put_at, log.commits, n, partial(_replaced, log, "commits", put))
        yield from _fields("commit", table, c, put_c)
        for name, keys in (("row", ("added", "removed")), ("file", ("added_files", "removed_files"))):
            for key in keys:
                records, put_all = getattr(c, key) or (), partial(_replaced, c, key, put_c)
                for k, r in enumerate(records):
                    yield from _fields(name, table, r, partial(_put_at, records, k, put_all))
    several = {"metadata": "metadata", "capture": "captures", "problem": "problems", "missing": "missing_files"}
    for name, key in several.items():
        records = getattr(log, key)
        for n, r in enumerate(records):
            put_r = partial(_put_at, records, n, partial(_replaced, log, key, put))
            for site in _fields(name, table, r, put_r):
                yield replace(site, first=name == "metadata" and n == 0)


def _fields(word: str, table: str | None, record: Any, put: Put) -> Iterator[MutationSite]:
    """The sites of one record; a mapping of :data:`PER_KEY` has one for each of its keys."""
    for field in _NAMES[word]:
        name, value = f"{word}.{field}", getattr(record, field)
        whole = partial(_replaced, record, field, put)
        if name in PER_KEY:
            for key in value:
                yield MutationSite(f"{PER_KEY[name]}.{key}", table, value[key], partial(_with_key, value, key, whole))
        else:
            yield MutationSite(name, table, value, whole)


class _Absent:
    """Put in place of a key's value: the key is not there."""


ABSENT = _Absent()


def _put_at(records: Sequence[Any], n: int, put: Put, value: Any) -> Evidence:
    return put((*records[:n], value, *records[n + 1 :]))


def _replaced(record: Any, name: str, put: Put, value: Any) -> Evidence:
    return put(replace(record, **{name: value}))


def _with_key(mapping: Mapping[str, Any], key: str, put: Put, value: Any) -> Evidence:
    return put({k: value if k == key else v for k, v in mapping.items() if k != key or value is not ABSENT})


def _unequal(value: Any, others: Sequence[Any]) -> list[Any]:
    return [v for v in others if v != value and v is not None]


def _values(value: Any, others: Sequence[Any], rng: Random, *, null: bool) -> Iterator[Variant]:
    if others and not isinstance(value, tuple):
        yield Variant("other", rng.choice(others))
    if isinstance(value, bool):
        yield Variant("negated", not value)
    elif isinstance(value, int):
        yield Variant("neighbour", value + rng.choice((1, -1)))
    elif isinstance(value, str):
        if value.lstrip("-").isdigit():
            yield Variant("neighbour", str(int(value) + rng.choice((1, -1))))
        yield Variant("made up", f"{value}-x")
    elif isinstance(value, list | tuple):
        yield from _elements(value, others, rng)
    elif isinstance(value, dict):
        yield from _entries(value, rng)
    if null and value is not None:
        yield Variant("null", None)


def _elements(value: list[Any] | tuple[Any, ...], others: Sequence[Any], rng: Random) -> Iterator[Variant]:
    kind = type(value)
    if not value:
        return
    n = rng.randrange(len(value))
    yield Variant("dropped", kind((*value[:n], *value[n + 1 :])))
    yield Variant("doubled", kind((*value[: n + 1], *value[n:])))
    if len(value) > 1:
        yield Variant("empty", kind())
        a = rng.randrange(len(value) - 1)
        if value[a] != value[a + 1]:
            yield Variant("exchanged", kind((*value[:a], value[a + 1], value[a], *value[a + 2 :])))
    elements = [v for o in (value, *others) if isinstance(o, kind) for v in o]
    inner = list(_values(value[n], _unequal(value[n], elements), rng, null=False))
    if inner:
        yield Variant("inside", kind((*value[:n], rng.choice(inner).value, *value[n + 1 :])))


def _entries(value: dict[str, Any], rng: Random) -> Iterator[Variant]:
    if not value:
        return
    key = rng.choice(sorted(value))
    yield Variant("dropped", {k: v for k, v in value.items() if k != key})
    inner = list(_values(value[key], (), rng, null=False))
    if inner:
        yield Variant("inside", {**value, key: rng.choice(inner).value})
