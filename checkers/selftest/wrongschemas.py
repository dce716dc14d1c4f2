"""Bugs that the ``metadata`` checker must find: an operation changes the schema or a property, and not as it was asked.

The recorded runs have no such operations, so each bug brings its own: well done ones and one that is not, the culprit. All are invoked when the
version before theirs is made, and their versions come one after the other. Besides, one is under way that never gets done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from checkers.evidence.history import Event
from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.selftest import edits
from checkers.selftest.goodtable import GoodVersion
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import CommitSite, has, later
from checkers.selftest.world import Planted

Raw = dict[str, Any]
Fields = list[dict[str, Any]]
Wrong = Callable[[Fields], Fields]
CULPRIT = "culprit"
SEEN = "a second adversary's damage; apache/iceberg#14093: a stale schema overwrites a newer one"


class SchemaStep(NamedTuple):
    """One operation, and what its version changes; ``wrong`` bends the columns that it leaves."""

    f: str
    value: Mapping[str, str]
    op: str
    wrong: Wrong = list
    drops: bool = False
    """Whether its version lists the oldest snapshot no more."""
    sets_back: bool = False
    """Whether main is at its parent in its version."""


def current(raw: Raw) -> Fields:
    """The columns of a version."""
    return [dict(f) for s in raw["schemas"] if s["schema-id"] == raw["current-schema-id"] for f in s["fields"]]


def done(raw: Raw, s: SchemaStep) -> Raw:
    """What a version says that an operation makes from one that says this."""
    if s.f == "set-property":
        return {"properties": {**raw["properties"], s.value["property"]: s.op}}
    fields, name = current(raw), s.value["column"]
    if s.f == "add-column":
        type = s.value.get("type", "int").replace("bigint", "long")
        id = 1 + raw["last-column-id"]
        fields.append({"id": id, "name": name, "required": False, "type": type, "doc": s.op})
    elif s.f == "drop-column":
        fields = [f for f in fields if f["name"] != name]
    else:
        new = {"name": s.value["to"]} if s.f == "rename-column" else {"type": "long"}
        fields = [{**f, **new} if f["name"] == name else f for f in fields]
    fields = s.wrong(fields)
    id = 1 + max(x["schema-id"] for x in raw["schemas"])
    schema = {"type": "struct", "schema-id": id, "fields": fields}
    last = max(raw["last-column-id"], *(f["id"] for f in fields))
    return {"schemas": [*raw["schemas"], schema], "current-schema-id": id, "last-column-id": last}


def altered(*steps: SchemaStep) -> Callable[[CommitSite], Planted | None]:
    """The run with these operations, each with a version, after that of a commit."""

    def change(p: CommitSite) -> Planted | None:
        before = p.m
        dropped = before.snapshots[:1] if any(s.drops for s in steps) else ()
        if p.last or dropped == before.snapshots:
            return None

        def without_dropped(raw: Raw) -> list[Any]:
            return [x for x in raw["snapshot-log"] if x["snapshot-id"] not in dropped]

        raw, where, more, entries = before.raw, before.location, [], []
        for n, s in enumerate(steps):
            entries.append({"timestamp-ms": before.last_updated_ms, "metadata-file": where})
            where = f"{before.location.rpartition('/')[0]}/{p.n:05d}-{n}-{s.op}.metadata.json"
            raw = {**raw, **done(raw, s), "metadata-log": [*raw["metadata-log"], entries[-1]]}
            raw["snapshot-log"] = without_dropped(raw) if s.drops else raw["snapshot-log"]
            main = p.c.parent_id if s.sets_back else None
            if main is not None:
                back = {"timestamp-ms": before.last_updated_ms, "snapshot-id": main}
                raw["snapshot-log"] = [*raw["snapshot-log"], back]
            version = replace(before, location=where, raw=raw)
            more.append(GoodVersion(version, dropped=dropped if s.drops else (), main=main))
        parts = {k: raw[k] for k in ("schemas", "current-schema-id", "last-column-id", "properties")}
        entries = [*entries[1:], {"timestamp-ms": before.last_updated_ms, "metadata-file": where}]
        log = p.t.after(p.n, *more)

        def follows(m: Metadata) -> Metadata:
            found = m.raw["metadata-log"]
            place = next(n for n, x in enumerate(found) if x["metadata-file"] == before.location) + 1
            logs = {"metadata-log": [*found[:place], *entries, *found[place:]], "snapshot-log": without_dropped(m.raw)}
            return replace(m, raw={**m.raw, **parts, **logs})

        first = p.n + len(more) + 1
        after = tuple(m if m.n < first else follows(m) for m in log.metadata)
        return p.w.planted(CULPRIT, log=replace(log, metadata=after), events=_asked(p, steps))

    return change


def _asked(p: CommitSite, steps: tuple[SchemaStep, ...]) -> list[Event]:
    """The history in which the operations are under way from the commit's invocation on; they are answered at the end."""
    events, process = list(p.w.events), edits.fresh(p.w.events)
    asked = [SchemaStep("set-property", {"property": "icequake.p9"}, "idle"), *steps]
    for n, s in enumerate(asked):
        invoke = Event(0, 0, "invoke", process + n, s.f, p.t.name, dict(s.value), s.op)
        events = edits.inserted(events, p.o.invoked.index + 1 + n, [invoke])
    answers = [Event(0, 0, "ok", process + n, s.f, p.t.name, [], s.op) for n, s in enumerate(asked) if s.op != "idle"]
    return edits.inserted(events, len(events), answers)


def on(name: str, /, **changes: Any) -> Wrong:
    """A column is told differently."""
    return lambda fields: [{**f, **changes} if f["name"] == name else f for f in fields]


def exchanged(fields: Fields) -> Fields:
    """Two columns of one type exchange their ids, so that each reads the other's values."""
    a, b = [f for f in fields if f["type"] == "string"][:2]
    ids = {a["name"]: b["id"], b["name"]: a["id"]}
    return [{**f, "id": ids.get(f["name"], f["id"])} for f in fields]


def other_renamed(fields: Fields) -> Fields:
    """Another column than the asked one gets the new name."""
    back = [{**f, "name": "extra_1"} if f["name"] == "extra_2" else f for f in fields]
    return on("log", name="extra_2")(back)


def with_more(fields: Fields) -> Fields:
    """One column more than was asked for."""
    return [*fields, {"id": 1 + max(f["id"] for f in fields), "name": "more", "required": False, "type": "int"}]


ONE, TWO = {"column": "extra_1"}, {"column": "extra_2"}
TO_TWO = {**ONE, "to": "extra_2"}
FIRST, SECOND = SchemaStep("add-column", ONE, "first"), SchemaStep("add-column", TWO, "second")


def add(wrong: Wrong, **value: str) -> Callable[[CommitSite], Planted | None]:
    """An operation adds a column, and something else."""
    return altered(SchemaStep("add-column", {**ONE, **value}, CULPRIT, wrong))


ADDED: Plants = {
    "ids-exchanged-beside-a-new-column: A new schema has the column that was asked for, and two others exchange their ids.": Plant(
        add(exchanged)
    ),
    "column-of-another-type: A column is added with another type than the one that was asked for.": Plant(
        add(on("extra_1", type="double"), type="bigint")
    ),
    "column-of-another-name: A column is added under another name than the one that was asked for.": Plant(
        add(on("extra_1", name="extra_7"))
    ),
    "column-required-without-default: A column is added as required, so rows that are there have no value.": Plant(
        add(on("extra_1", required=True))
    ),
    "default-of-nobody: A column is added with an initial-default that nobody gave, so old rows have a value.": Plant(
        add(on("extra_1", **{"initial-default": 7}))
    ),
    "second-column-of-nobody: A new schema has the column that was asked for, and another one.": Plant(add(with_more)),
    "column-moved-beside-a-new-one: A new schema has the column that was asked for, and others in another order.": Plant(
        add(lambda f: [*f[:-2], f[-1], f[-2]])
    ),
    "column-of-another-type-then-widened: A column is added as a string and not as an int, and a later operation widens it.": Plant(
        altered(
            SchemaStep("add-column", ONE, CULPRIT, on("extra_1", type="string")),
            SchemaStep("widen-column", ONE, "later"),
        )
    ),
    "id-of-a-dropped-column: A column is added with the id of one that was dropped, whose values files still have.": Plant(
        altered(
            FIRST,
            SchemaStep("drop-column", ONE, "drop"),
            SchemaStep("add-column", TWO, CULPRIT, lambda f: [*f[:-1], {**f[-1], "id": f[-1]["id"] - 1}]),
        )
    ),
}


RESHAPED: Plants = {
    "other-column-renamed: Another column than the asked one gets the new name.": Plant(
        altered(FIRST, SchemaStep("rename-column", TO_TWO, CULPRIT, other_renamed))
    ),
    "renamed-with-another-id: A column gets another name and another id, so that its values are gone.": Plant(
        altered(FIRST, SchemaStep("rename-column", TO_TWO, CULPRIT, lambda f: on("extra_2", id=1 + f[-1]["id"])(f))),
        "vanished-schema schema-changed",
    ),
    "two-columns-widened: Another column is widened beside the asked one.": Plant(
        altered(FIRST, SECOND, SchemaStep("widen-column", ONE, CULPRIT, on("extra_2", type="long")))
    ),
    "widened-to-another-type: A column is widened to another type than the one that was asked for.": Plant(
        altered(FIRST, SchemaStep("widen-column", ONE, CULPRIT, on("extra_1", type="string"))), "schema-evolution"
    ),
    "other-column-dropped: Another column than the asked one is dropped.": Plant(
        altered(
            FIRST,
            SECOND,
            SchemaStep(
                "drop-column",
                ONE,
                CULPRIT,
                lambda f: [*f[:-1], {"id": f[-1]["id"] - 1, "name": "extra_1", "required": False, "type": "int"}],
            ),
        ),
        "vanished-schema",
    ),
}


BESIDE: Plants = {
    "snapshot-dropped-with-a-property: A version sets a property and lists a snapshot no more.": Plant(
        altered(SchemaStep("set-property", {"property": "icequake.p0"}, CULPRIT, drops=True)), "vanished-snapshot"
    ),
    "snapshot-dropped-with-a-column: A version adds a column and lists a snapshot no more.": Plant(
        altered(SchemaStep("add-column", ONE, CULPRIT, drops=True)), "vanished-snapshot"
    ),
    "main-set-back-with-a-property: A version sets a property, and main is at an older snapshot.": Plant(
        altered(SchemaStep("set-property", {"property": "icequake.p0"}, CULPRIT, sets_back=True)), "ref-changed"
    ),
}


PLANTS = (
    *table(
        {**ADDED, **RESHAPED, **BESIDE},
        "metadata",
        names="schema-changed",
        where=later(has("schemas", "current-schema-id", "last-column-id", "properties", "metadata-log")),
        seen=SEEN,
    ),
)
