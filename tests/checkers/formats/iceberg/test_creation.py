"""The version with which a table begins: what its creation asked for and the specification requires; and what is well formed by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from checkers.evidence.evidence import Evidence
from checkers.evidence.plan import Plan
from checkers.evidence.replace import replace
from checkers.formats.iceberg.metadata.checker import MetadataRules as Checker
from checkers.formats.iceberg.metadata.wellformed import REQUIRED_KEYS
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.formats.iceberg.records import iceberg_log
from checkers.selftest import recorded, trial, wrongcreation
from checkers.selftest.plant import Plant
from checkers.selftest.world import World
from checkers.verdict import Anomaly, Verdict
from tests.checkers.formats.iceberg.test_metadata import A, Drawing, bend, data, three

Raw = dict[str, Any]


@pytest.fixture(scope="module")
def good() -> Evidence:
    return recorded.load("quick-120")


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [World(recorded.load(n), Random(0)) for n in recorded.names()]


def table_of(e: Evidence, format_version: int = 2, *, partitioned: bool = True) -> str:
    found = (n for n, t in e.tables.items() if (t.format_version, t.partitioned) == (format_version, partitioned))
    return next(found)


def changed(e: Evidence, table: str, change: Callable[[Metadata], Metadata], *, last: int = 0) -> Evidence:
    """The run in which the versions of a table up to one are others."""
    log = iceberg_log(e.logs[table])
    metadata = tuple(change(m) if m.n <= last else m for m in log.metadata)
    return replace(e, logs={**e.logs, table: replace(log, metadata=metadata)})


def with_keys(e: Evidence, table: str, change: Callable[[Raw], Mapping[str, Any]], *, last: int = 0) -> Evidence:
    return changed(e, table, lambda m: replace(m, raw={**m.raw, **change(m.raw)}), last=last)


def verdict(e: Evidence) -> Verdict:
    return Checker().check(e)


def told(e: Evidence) -> list[Anomaly]:
    return list(verdict(e).anomalies)


EVER = 1 << 30
"""Up to the last version."""


# --- what its creation asked for ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("plant", wrongcreation.PLANTS, ids=lambda p: p.name)
def test_a_table_that_begins_otherwise_is_told_and_no_operation_is_accused(
    plant: Plant[Any], worlds: list[World]
) -> None:
    for n in range(8):
        bug = plant.plant(worlds[n % len(worlds)].with_rng(Random(n))) or plant.plant(worlds[1].with_rng(Random(n)))
        assert bug is not None and bug.culprit is None and bug.nobody == wrongcreation.CREATED
        said = Checker().check(bug.evidence)
        assert trial.detects(plant, bug, said), (n, said)
        first = said.anomalies[0]
        assert first.name in ("not-as-created", *plant.finds) and first.ops == () and first.table in bug.evidence.logs


def test_who_goes_on_with_what_was_due_is_not_accused(good: Evidence) -> None:
    t = table_of(good)
    (a,) = told(with_keys(good, t, lambda r: {"properties": {**r["properties"], "write.delete.mode": "other"}}))
    assert (a.name, a.ops) == ("not-as-created", ()) and "write.delete.mode is other, not" in a.explanation


def test_all_that_differs_is_told_at_once(good: Evidence) -> None:
    t = table_of(good)
    e = with_keys(good, t, lambda r: {"properties": {}, "partition-specs": [{"spec-id": 0, "fields": []}]}, last=EVER)
    first = told(e)[0]
    assert "partitioned by nothing, not by identity of the column part as part" in first.explanation
    assert first.explanation.count("the property ") == 7


@pytest.mark.parametrize(
    "more",
    [
        {"owner": "somebody", "write.parquet.compression-codec": "zstd"},
        {"gc.enabled": "false", "write.metadata.delete-after-commit.enabled": "false"},
        {"created-at": "2026-11-24T12:20:23.421497463Z", "nessie.catalog.content-id": "x"},
        {"write.object-storage.enabled": "true", "history.expire.max-snapshot-age-ms": "1"},
    ],
)
def test_properties_that_engines_and_catalogs_add_are_silent(good: Evidence, more: Mapping[str, str]) -> None:
    for t in good.tables:
        e = with_keys(good, t, lambda r: {"properties": {**r["properties"], **more}}, last=EVER)
        assert verdict(e).valid is True


def test_a_table_that_was_created_in_two_steps_is_silent(good: Evidence) -> None:
    """The catalog makes a table, and then sets its properties: the log has two versions before the first operation."""
    t = table_of(good)
    log = iceberg_log(good.logs[t])
    first, *rest = log.metadata
    bare = replace(first, raw={**first.raw, "properties": {}})
    entry = {"timestamp-ms": bare.last_updated_ms, "metadata-file": bare.location}
    second = replace(first, n=1, location=f"{first.location}.2", raw={**first.raw, "metadata-log": [entry]})

    def moved(m: Metadata) -> Metadata:
        entries = [entry, *m.raw["metadata-log"]]
        entries[1] = {"timestamp-ms": second.last_updated_ms, "metadata-file": second.location}
        return replace(m, n=m.n + 1, raw={**m.raw, "metadata-log": entries})

    commits = tuple(replace(c, metadata=c.metadata + 1) for c in log.commits)
    two = replace(log, metadata=(bare, second, *map(moved, rest)), commits=commits)
    assert [a.explanation for a in told(replace(good, logs={**good.logs, t: two}))] == []


def test_a_table_whose_log_begins_late_is_not_held_to_its_creation(good: Evidence) -> None:
    t = table_of(good)
    log = iceberg_log(good.logs[t])

    def other(m: Metadata) -> Metadata:
        before = {"timestamp-ms": log.metadata[0].last_updated_ms, "metadata-file": "s3://w/older.metadata.json"}
        entries = [before, *m.raw["metadata-log"]]
        properties = {**m.raw["properties"], "write.delete.mode": "other"}
        return replace(m, raw={**m.raw, "metadata-log": entries, "properties": properties})

    late = replace(log, metadata=tuple(map(other, log.metadata)))
    assert told(replace(good, logs={**good.logs, t: late})) == []


def test_without_a_plan_nothing_is_due(good: Evidence) -> None:
    t = table_of(good)
    e = with_keys(good, t, lambda r: {"properties": {}}, last=EVER)
    assert told(replace(e, tables={n: s for n, s in e.tables.items() if n != t})) == []


def test_a_log_that_keeps_nothing_of_what_versions_say_is_not_judged(good: Evidence) -> None:
    t = table_of(good)
    assert told(changed(good, t, lambda m: replace(m, raw={}), last=EVER)) == []


def test_ids_that_are_not_counted_from_one_are_undecided(good: Evidence) -> None:
    """The specification does not say which ids a new table gives its columns."""
    t = table_of(good, partitioned=False)

    def other(r: Raw) -> Mapping[str, Any]:
        schemas = [{**s, "fields": [{**f, "id": f["id"] + 10} for f in s["fields"]]} for s in r["schemas"]]
        return {"schemas": schemas, "last-column-id": r["last-column-id"] + 10}

    v = verdict(with_keys(good, t, other, last=EVER))
    assert v.valid == "unknown" and v.anomalies == () and "gives its columns the ids 11, 12, 13, 14" in v.notes[0]


def test_what_a_catalogs_own_property_overrides_is_what_is_due() -> None:
    plan = Plan.model_validate(
        {
            "catalog_properties": {
                "table-override.write.delete.mode": "merge-on-read",
                "table-default.a": "b",
                "uri": "x",
            },
            "tables": [{"name": "t", "properties": {"c": "d"}}, {"name": "u"}],
        }
    )
    assert {n: t.properties for n, t in plan.promised.items()} == {
        "t": {"c": "d", "write.delete.mode": "merge-on-read"},
        "u": {"write.delete.mode": "merge-on-read"},
    }


def test_metadata_that_lies_where_a_property_says_is_silent(good: Evidence) -> None:
    t = table_of(good)
    where = {"write.metadata.path": good.logs[t].metadata[0].location.rpartition("/")[0]}
    e = with_keys(
        good,
        t,
        lambda r: {"location": f"{r['location']}-elsewhere", "properties": {**r["properties"], **where}},
        last=EVER,
    )
    assert told(e) == []


def test_a_release_that_writes_no_next_row_id_is_silent_and_one_that_writes_it_later_is_not(good: Evidence) -> None:
    t = table_of(good, 3)
    (a,) = told(changed(good, t, lambda m: replace(m, next_row_id=None)))
    assert (a.name, a.ops) == ("next-row-id", ()) and "the table's creation" in a.explanation
    old = changed(good, t, lambda m: replace(m, next_row_id=None), last=EVER)
    assert "next-row-id" not in {x.name for x in told(old)}


# --- well formed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "key"), [(v, k) for v in (1, 2, 3) for k in REQUIRED_KEYS[min(v, 2)]])
def test_each_key_that_a_format_version_requires_is_missed(version: int, key: str) -> None:
    for gone in (lambda r: {k: x for k, x in r.items() if k != key}, lambda r: {**r, key: None}):
        d = three(format_version=version)
        for n in range(4):
            bend(d, n, raw=gone(d.versions[n].raw))
        found = [a for a in d.check().anomalies if a.name == "missing-field"]
        assert [a.ops for a in found] == [()], "told once"
        assert f"lacks {key}, which format version {version} requires" in found[0].explanation


def test_keys_that_another_format_version_requires_are_not_missed() -> None:
    d = three(format_version=1)
    for n in range(4):
        keep = (*REQUIRED_KEYS[1], "properties", "metadata-log", "schemas", "current-schema-id", "table-uuid")
        bend(d, n, raw={k: x for k, x in d.versions[n].raw.items() if k in keep})
    assert d.names() == []


def later(**keys: Any) -> Drawing:
    """A table whose third version, by the operation ``op-2``, and those after it say something else."""
    d = three()
    for n in (2, 3):
        bend(d, n, raw={**d.versions[n].raw, **{k.replace("_", "-"): v for k, v in keys.items()}})
    return d


COLUMN = {"id": 1, "name": "id", "type": "long", "required": False}
PLAIN = {"schema-id": 0, "type": "struct", "fields": [COLUMN]}


def schemas(*fields: Any, **more: Any) -> list[Any]:
    return [PLAIN, {**PLAIN, "schema-id": 1, "fields": [COLUMN, *fields], **more}]


def spec(*fields: Any) -> list[Any]:
    first = {"spec-id": 0, "fields": [{"name": "part", "transform": "day", "source-id": 1, "field-id": 1000}]}
    return [first, {"spec-id": 1, "fields": list(fields)}]


def by(id: int, transform: str = "bucket[4]", source: int = 1) -> Raw:
    return {"name": f"f{id}{transform}", "transform": transform, "source-id": source, "field-id": id}


def order(source: int) -> list[Any]:
    field = {"transform": "identity", "source-id": source, "direction": "asc", "null-order": "nulls-first"}
    return [{"order-id": 0, "fields": []}, {"order-id": 1, "fields": [field]}]


def typed(type: Any) -> Raw:
    return {"id": 2, "name": "more", "type": type, "required": False}


ILL = {
    "listed-twice": [
        {"schemas": [PLAIN, PLAIN]},
        {"partition_specs": [*spec()[:1], *spec()[:1]]},
        {"sort_orders": [{"order-id": 0, "fields": []}] * 2},
    ],
    "unknown-type": [
        {"schemas": schemas(typed(t)), "last_column_id": 2}
        for t in ("varchar", "decimal(39,2)", "fixed[0]", {"type": "tuple"}, {"type": "list"}, 7)
    ],
    "field-id": [
        {"schemas": schemas({**typed("int"), "name": "id"}), "last_column_id": 2},
        {"partition_specs": spec(by(1001), by(1001, "void")), "last_partition_id": 1001},
        {"partition_specs": spec(by(1000)), "last_partition_id": 1001},
        {"partition_specs": spec(by(1001))},
        {"last_partition_id": 999},
    ],
    "dangling-id": [
        {"partition_specs": spec(by(1001, source=9)), "last_partition_id": 1001},
        {"sort_orders": order(9)},
        {"schemas": schemas(**{"identifier-field-ids": [9]})},
    ],
}


@pytest.mark.parametrize(("name", "keys"), [(n, k) for n, all in ILL.items() for k in all])
def test_a_version_that_is_not_well_formed_is_told_once_of_who_made_it(name: str, keys: Mapping[str, Any]) -> None:
    found = [a for a in later(**keys).check().anomalies if a.name == name]
    assert [a.ops for a in found] == [("op-2",)]


@pytest.mark.parametrize(
    "keys",
    [
        {"partition_specs": spec(by(1000, "void")), "last_partition_id": 1000},
        {"partition_specs": [*spec(), {"spec-id": 2, "fields": spec()[0]["fields"]}]},
        {"sort_orders": order(1)},
        {"schemas": schemas(**{"identifier-field-ids": [1]})},
        *(
            {"schemas": schemas(typed(t)), "last_column_id": 9}
            for t in (
                *(
                    "boolean",
                    "timestamptz_ns",
                    "variant",
                    "geometry(OGC:CRS84)",
                    "decimal(9, 2)",
                    "fixed[16]",
                    "Unknown",
                ),
                {"type": "list", "element-id": 3, "element": "string", "element-required": False},
                {"type": "map", "key-id": 4, "key": "string", "value-id": 5, "value": "long", "value-required": True},
                {"type": "struct", "fields": [{"id": 6, "name": "x", "type": "int", "required": False}]},
            )
        ),
    ],
)
def test_what_is_well_formed_is_silent(keys: Mapping[str, Any]) -> None:
    assert not {*later(**keys).names()} & {*ILL, "missing-field"}


def test_types_of_version_3_are_none_of_version_2() -> None:
    d = three(format_version=2)
    bend(d, 0, raw={**d.versions[0].raw, "schemas": schemas(typed("variant")), "last-column-id": 2})
    assert "unknown-type" in d.names()


def test_a_spec_may_outlive_its_column() -> None:
    """The column is dropped, later its schema too; files of the old spec are still there."""
    d = Drawing()
    d.commit(1, add=[A])
    d.commit(2, add=[data("data/b")], change={"schemas": [{**PLAIN, "fields": [typed("int")]}], "last_column_id": 2})
    d.commit(3, add=[data("data/c")], change={"partition_specs": spec(by(1001, source=2)), "last_partition_id": 1001})
    assert "dangling-id" not in d.names()


# --- the time of the last version -----------------------------------------------------------------------------------------


def last_at(e: Evidence, table: str, ahead: int) -> Evidence:
    """The run in which the last version of a table is stamped later by some ms."""
    log = iceberg_log(e.logs[table])
    *others, last = log.metadata
    late = replace(last, last_updated_ms=last.last_updated_ms + ahead)
    return replace(e, logs={**e.logs, table: replace(log, metadata=(*others, late))})


@pytest.mark.parametrize("ahead", [2 * 86_400_000, 365 * 86_400_000])
def test_a_last_version_that_is_stamped_ahead_of_every_clock_is_told_of_who_made_it(good: Evidence, ahead: int) -> None:
    for t, log in good.logs.items():
        made = [c.op for c in log.commits if c.metadata == log.metadata[-1].n]
        found = told(last_at(good, t, ahead))
        assert [a.name for a in found] == ["timestamp-order"] * bool(made)
        assert [list(a.ops) for a in found] == [made] * bool(made)


def test_a_last_version_within_a_day_of_the_clock_that_is_furthest_ahead_is_silent(good: Evidence) -> None:
    """The clock of its host may have been set just then."""
    for t in good.logs:
        assert told(last_at(good, t, 3_600_000)) == []


def test_a_clock_that_was_ahead_all_the_time_explains_the_last_version(good: Evidence) -> None:
    """One writer's clock is an hour ahead: it stamps its snapshots so, and the versions that it makes."""
    t, hour = table_of(good), 3_600_000
    log = iceberg_log(good.logs[t])
    op = next(c.op for c in log.commits if c.metadata == log.metadata[-1].n)
    assert op is not None
    writer = op.rpartition("-")[0]
    commits = tuple(
        replace(c, timestamp_ms=c.timestamp_ms + hour) if (c.op or "").startswith(f"{writer}-") else c
        for c in log.commits
    )
    e = last_at(replace(good, logs={**good.logs, t: replace(log, commits=commits)}), t, hour)
    assert not [a for a in told(e) if "the last, says" in a.explanation]


def test_a_last_version_of_a_writer_whose_clock_is_not_known_is_silent(good: Evidence) -> None:
    t = table_of(good)
    log = iceberg_log(good.logs[t])
    commits = tuple(replace(c, op="stranger-1") if c.metadata == log.metadata[-1].n else c for c in log.commits)
    e = last_at(replace(good, logs={**good.logs, t: replace(log, commits=commits)}), t, 10**9)
    assert not [a for a in told(e) if a.name == "timestamp-order"]
