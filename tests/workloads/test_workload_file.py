"""A workload file is understood, or its error names file, line, key and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from nemesis.faults.lengths import seconds
from workloads.file import plainyaml
from workloads.file.assertions import assertion
from workloads.file.changes import ChangeError, Changes
from workloads.file.mode import AS_USERS, QUICK
from workloads.file.scenario import Scenario
from workloads.file.workload import LIBRARY, Workload, WorkloadError, find
from workloads.file.workload_text import load, parse
from workloads.file.yamlfile import FileError, read_text, validated
from workloads.operations.kinds import KINDS

GOOD = """\
workload: small
tables:
  - name: orders
    format_version: 3
length: {ops: 10}
operations:
  insert: 2
  delete: {weight: 1, keys: own}
"""


def test_a_file_that_is_no_text_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_bytes(b"workload: w\nseed: \xff\n")
    with pytest.raises(
        FileError, match=r"w\.yaml:2: not UTF-8 text: byte 19 is no part of a character; give a text file"
    ):
        read_text(path)


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_workload_of_the_library_is_valid_and_says_what_it_does(path: Path) -> None:
    workload = load(path)
    assert workload.workload == path.stem
    assert len(workload.description) > 20


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("duckdb.attach.disable_multi_table_comit", "(did you mean duckdb.attach.disable_multi_table_commit?)"),
        (
            "duckdb.atach.read_only",
            "unknown property of DuckDB 'duckdb.atach.read_only' (did you mean duckdb.attach.read_only?)",
        ),
        ("duckdb.set.", "unknown property of DuckDB 'duckdb.set.'"),
        ("duckdb.memory", "unknown property of DuckDB 'duckdb.memory'"),
        ("delta-rs.relase", "unknown property of delta-rs 'delta-rs.relase' (did you mean delta-rs.release?)"),
        ("duckdb.attach.read_only", None),
        ("duckdb.attach.DISABLE_MULTI_TABLE_COMMIT", None),  # DuckDB asks for no case
        ("duckdb.set.http_retries", None),
        ("delta-rs.release", None),
        ("pyiceberg.anything", None),
        ("cache-enabled", None),
    ],
)
def test_a_property_that_its_engine_does_not_read_is_refused_with_line_and_remedy(key: str, says: str | None) -> None:
    text = GOOD + f"catalog_properties:\n  cache-enabled: 'false'\n  {key}: '1.6.3'\n"
    if key == "cache-enabled":
        text = GOOD + "catalog_properties: {cache-enabled: 'false'}\n"
    if says is None:
        assert key in parse(text, "w.yaml").catalog_properties
        return
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert "w.yaml:11: catalog_properties: unknown property of " in str(error.value) and says in str(error.value)


def test_both_loaders_find_the_same_values_on_the_same_lines() -> None:
    """The fast one reads; the other one says what is wrong, and where."""

    def told(text: str, *, wordy: bool) -> list[tuple[int, str, object]]:
        reader = plainyaml.reader_of(text, wordy=wordy)
        left, out = [plainyaml.composed(reader)], []
        while left:
            node = left.pop()
            inside = isinstance(node, yaml.CollectionNode)
            assert isinstance(node, yaml.Node)
            out.append((node.start_mark.line, node.tag, None if inside else node.value))
            if isinstance(node, yaml.MappingNode):
                left += [n for pair in node.value for n in pair]
            elif inside:
                left += node.value
        return out

    for path in LIBRARY.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert told(text, wordy=False) == told(text, wordy=True), path


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("free", "free"),
        ("priority", "priority(3)"),
        ("priority( 5 )", "priority(5)"),
        ("replay  a/b c", "replay a/b c"),
    ],
)
def test_the_order_that_a_file_asks_for(written: str, means: str) -> None:
    assert parse(GOOD).order is None
    assert parse(f"{GOOD}order: {written}\n").order == means


def test_what_is_not_said_has_a_default() -> None:
    workload = parse(GOOD)
    assert workload.mode == AS_USERS
    (phase,) = workload.resolved_phases()
    assert (phase.name, phase.length.ops, phase.writers) == ("main", 10, 4)
    assert workload.tables[0].isolation == "serializable"
    assert workload.operations["insert"].weight == 2


def test_a_driver_may_be_killed_where_the_tasks_run_in_it() -> None:
    faults = "nemesis: {faults: [{verb: kill, target: driver}]}"
    assert parse(f"{GOOD}session: fast\ncluster: local\n{faults}\n").mode == QUICK


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (("workload: small\n", ""), 1, "missing key 'workload'"),
        (("format_version: 3", "format_version: 4"), 4, "format_version: 4 is not allowed; allowed: 2, 3"),
        (("format_version", "formatversion"), 4, "unknown key 'formatversion' (did you mean format_version?)"),
        (("length:", "lenght:"), 5, "unknown key 'lenght' (did you mean length?)"),
        (("{ops: 10}", "{ops: many}"), 5, "ops: must be a whole number, not 'many'"),
        (
            ("{ops: 10}", "{ops: 10}\norder: chaos"),
            6,
            "order: must be free, priority(D) with D from 1 to 100, coverage, or replay",
        ),
        (("{ops: 10}", "{ops: 10}\norder: priority(101)"), 6, "order: priority(101): the depth must be from 1 to 100"),
        (("{ops: 10}", "{ops: 10}\norder: replay"), 6, "order: replay needs a run: replay RUN"),
        (("{ops: 10}", "{ops: 10}\norder: [free]"), 6, "order: must be free"),
        (("{ops: 10}", "{ops: 10}\nsession: quick"), 6, "session: 'quick' is not allowed; allowed: spark, fast"),
        (("{ops: 10}", "{ops: 10}\ncluster: yarn"), 6, "cluster: 'yarn' is not allowed; allowed: standalone, local"),
        (
            ("{ops: 10}", "{ops: 10}\ncluster: local\nnemesis:\n  packages: [lost-acks, crashes]"),
            8,
            "packages: crashes strikes executor and spark-master and spark-worker, and cluster: local has none; write cluster: standalone, or "
            "leave it out",
        ),
        (
            ("{ops: 10}", "{ops: 10}\ncluster: local\nnemesis:\n  faults:\n    - {verb: kill, target: executor}"),
            9,
            "target: kill executor strikes executor, and cluster: local has none; write cluster: standalone, or leave it out",
        ),
        (("{ops: 10}", "{ops: 0}"), 5, "ops: must be at least 1, not 0"),
        (("{ops: 10}", "{time: 3 parsecs}"), 5, "time: must be a length of time such as 500ms, 90s, 2m or 1h"),
        (("{ops: 10}", "{ops: 10, time: 2m}"), 5, "needs exactly one of: ops, time"),
        (("length: {ops: 10}\n", ""), 1, "needs length"),
        (("insert: 2", "insrt: 2"), 7, "unknown operation 'insrt' (did you mean insert?); allowed: insert, "),
        (("insert: 2", "insert: lots"), 7, "insert: must be a mapping with the keys weight, keys, tables"),
        (("insert: 2", "insert: -1"), 7, "insert: must be at least 0, not -1"),
        (("insert: 2", "insert: 0\n  insert-select: 0"), 6, None),
        (("weight: 1, keys: own", "weight: 1, keys: mine"), 8, "keys: 'mine' is not allowed; allowed: shared, own"),
        (("weight: 1, keys: own", "tables: [order]"), 8, "tables: unknown table 'order'; allowed: orders"),
        (
            ("weight: 1, keys: own", "retain_last: 3"),
            8,
            "retain_last: delete has no such option; allowed: weight, keys",
        ),
        (
            ("- name: orders", "- name: Orders"),
            3,
            "name: 'Orders' must be a name of a-z, 0-9 and _, beginning with a letter",
        ),
        (("insert: 2", "insert: 2\n  insert: 3"), 8, "key 'insert' is given twice"),
        (("length:", "extra: 3\nlength:"), 5, "unknown key 'extra'"),
        (
            ("operations:", "assert: {retry: '<5%'}\noperations:"),
            6,
            "unknown metric 'retry' (did you mean retry_rate?)",
        ),
        (
            ("operations:", "assert: {retry_rate: '5'}\noperations:"),
            6,
            'retry_rate: must be a comparison such as "<5%"',
        ),
        (
            ("operations:", "expect: [undelete]\nallow: [stale-read, undelete]\noperations:"),
            7,
            "allow: undelete is in expect, too; keep it in expect if it must be found, in allow if it may be",
        ),
        (("length:", "stop_wen: unreadable\nlength:"), 5, "unknown key 'stop_wen' (did you mean stop_when?)"),
        (
            ("length:", "stop_when: unreadble\nlength:"),
            5,
            "stop_when: 'unreadble' is not allowed (did you mean unreadable?); allowed: unreadable",
        ),
        (
            ("{ops: 10}", "{ops: 10"),
            5,
            "the { of this line is not closed by }, or a comma or quotes are missing before line 6",
        ),
    ],
)
def test_an_error_names_line_key_and_remedy(change: tuple[str, str], line: int, says: str | None) -> None:
    text = GOOD.replace(*change)
    assert text != GOOD
    if says is None:
        parse(text, "w.yaml")
        return
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    message = str(error.value)
    assert message.startswith(f"w.yaml:{line}: "), message
    assert says in message
    assert "\n" not in message


def test_a_misspelt_option_is_found_beside_a_wrong_value() -> None:
    with pytest.raises(WorkloadError) as error:
        parse(GOOD.replace("weight: 1, keys: own", "wieght: 1, keys: mine"), "w.yaml")
    lines = str(error.value).splitlines()
    assert [line.partition(";")[0] for line in sorted(lines)] == [
        "w.yaml:8: keys: 'mine' is not allowed",
        "w.yaml:8: wieght: delete has no such option (did you mean weight?)",
    ]


THREE = GOOD.replace("format_version: 3", "format_version: 4").replace("length:", "writers: 0\nlength:")


def test_everything_that_is_wrong_is_said_in_the_order_of_the_file() -> None:
    with pytest.raises(WorkloadError) as error:
        parse("seeed: 3\n" + THREE, "w.yaml")
    assert [line.split(": ")[:2] for line in str(error.value).splitlines()] == [
        ["w.yaml:1", "unknown key 'seeed' (did you mean seed?); allowed"],
        ["w.yaml:5", "format_version"],
        ["w.yaml:6", "writers"],
    ]


def test_every_name_that_means_nothing_is_said() -> None:
    text = GOOD.replace("insert: 2", "insrt: 2").replace("keys: own", "tables: [order]") + 'clocks: {"9": +1h}\n'
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert [line.partition(": ")[0] for line in str(error.value).splitlines()] == ["w.yaml:7", "w.yaml:8", "w.yaml:9"]


def test_every_key_that_is_there_twice_is_said() -> None:
    with pytest.raises(WorkloadError) as error:
        parse(GOOD + "  insert: 1\nlength: {ops: 1, ops: 2}\n", "w.yaml")
    assert [line.split(";")[0] for line in str(error.value).splitlines()] == [
        "w.yaml:9: key 'insert' is given twice",
        "w.yaml:10: key 'length' is given twice",
    ]


def test_a_misspelt_key_is_not_said_to_be_missing_as_well() -> None:
    with pytest.raises(WorkloadError) as error:
        parse(GOOD.replace("workload:", "workloda:"), "w.yaml")
    assert str(error.value).startswith("w.yaml:1: unknown key 'workloda' (did you mean workload?)")
    assert "\n" not in str(error.value)


def whole_numbers(model: type[BaseModel], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a file of this model has a whole number: the keys on the way, ``0`` for the first of a list, ``insert`` for a mapping's."""
    for name, field in model.model_fields.items():
        yield from _inside(field.annotation, (*at, field.alias or name))


def _inside(annotation: Any, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if annotation is int:
        yield at
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from whole_numbers(annotation, at)
    elif get_origin(annotation) is dict:
        yield from _inside(get_args(annotation)[1], (*at, "insert"))
    elif get_origin(annotation) is tuple:
        yield from _inside(get_args(annotation)[0], (*at, "0"))
    elif get_origin(annotation) is not Literal:
        for a in get_args(annotation)[: 1 if get_origin(annotation) is Annotated else None]:
            yield from _inside(a, at)


def with_true(at: tuple[str, ...]) -> Any:
    """``true`` at that place."""
    if not at:
        return True
    return [with_true(at[1:])] if at[0] == "0" else {at[0]: with_true(at[1:])}


@pytest.mark.parametrize(
    ("model", "at"),
    [
        pytest.param(model, at, id=".".join((model.__name__, *at)))
        for model in (Workload, Scenario)
        for at in whole_numbers(model)
    ],
)
def test_true_is_no_whole_number(model: type[BaseModel], at: tuple[str, ...]) -> None:
    with pytest.raises(WorkloadError) as error:
        validated(model, yaml.safe_dump(with_true(at)), "w.yaml")
    key = "" if at[-1] == "0" else f"{at[-1]}: "
    assert f"{key}must be a number, not true" in str(error.value)


def test_the_numbers_of_a_file_are_found() -> None:
    found = {*whole_numbers(Workload)}
    assert {
        ("phases", "0", "writers"),
        ("tables", "0", "partitions"),
        ("nemesis", "faults", "0", "writers", "0"),
    } <= found
    assert {("operations", "0", "writer"), ("final", "insert", "0")} <= {*whole_numbers(Scenario)}


def test_all_weights_zero_is_an_error() -> None:
    with pytest.raises(WorkloadError, match="every weight is 0"):
        parse(GOOD.replace("insert: 2", "insert: 0").replace("weight: 1", "weight: 0"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a list\n", "just words", "[" * 5000, "a: &a [*a]", "\x00"])
def test_what_is_no_workload_at_all_is_one_clear_line(text: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert str(error.value).startswith("w.yaml") and "\n" not in str(error.value)


@given(st.text(max_size=300))
def test_any_text_is_a_workload_or_a_workload_error(text: str) -> None:
    try:
        parse(text)
    except WorkloadError:
        pass


@given(st.integers(0, len(GOOD) - 1), st.text(max_size=5))
def test_a_damaged_workload_is_a_workload_or_a_workload_error(at: int, scribble: str) -> None:
    try:
        parse(GOOD[:at] + scribble + GOOD[at + 1 :])
    except WorkloadError:
        pass


def test_a_name_means_a_file_of_the_library_and_a_wrong_one_lists_them() -> None:
    assert find("quick") == LIBRARY / "quick.yaml"
    with pytest.raises(WorkloadError, match=r"did you mean quick\?.*in the library: .*mixed"):
        find("quik")


@pytest.mark.parametrize(("kind", "option"), [(k.name, option) for k in KINDS.values() for option in k.options])
def test_a_kind_s_options_can_be_given(kind: str, option: str) -> None:
    flags = {"partial_progress": "true", "starting_sequence": "false", "validated": "true", "types": "[int]"}
    value = {"strategy": "sort", "older_than": "2m", **flags}.get(option, "2")
    writers = "" if KINDS[kind].in_spark else "writers: {flink: 1}\n"
    head = GOOD.partition("operations:")[0]
    if "iceberg" not in KINDS[kind].formats:
        head = head.replace("    format_version: 3", "    format: delta")
    text = f"{head}{writers}operations:\n  {kind}: {{{option}: {value}}}\n"
    assert option in parse(text, "w.yaml").operations[kind].options()


def test_an_operation_that_no_writer_can_do_is_refused_with_the_engines_that_can() -> None:
    head, _, _ = GOOD.partition("operations:")
    with pytest.raises(WorkloadError) as error:
        parse(f"{head}operations:\n  insert: 1\n  upsert: 1\n", "w.yaml")
    assert "operations: no writer of phase main can do upsert on orders; engines that can: flink" in str(error.value)
    assert parse(f"{head}operations:\n  insert: 1\n  upsert: 0\n", "w.yaml")


def test_the_nemesis_cannot_do_what_spark_cannot() -> None:
    faults = "nemesis: {faults: [{verb: maintain, do: upsert}]}\n"
    with pytest.raises(WorkloadError, match="do: the nemesis's own writer is Spark's, which cannot do upsert"):
        parse(GOOD + faults, "w.yaml")


def test_the_nemesis_s_operation_has_all_its_arguments_or_none() -> None:
    faults = "nemesis:\n  faults:\n  - {verb: maintain, do: expire-snapshots, value: {retain-last: 1}}\n"
    with pytest.raises(
        WorkloadError,
        match=r"value: not the arguments of expire-snapshots: retain_last is missing; write such as value: {retain_last: ",
    ):
        parse(GOOD + faults, "w.yaml")
    assert parse(GOOD + faults.replace("retain-last", "retain_last"))
    assert parse(GOOD + faults.replace(", value: {retain-last: 1}", ""))


def test_mixed_uses_every_operation_but_those_that_need_more_and_those_that_take_acknowledged_commits_back() -> None:
    """Those on two tables need two; those by transaction need a REST catalog; Spark cannot do upsert; a compaction or a copy-on-write
    statement can bring back the rows of an equality delete; its tables are Iceberg's. Others came later, and a seed of mixed still means
    what it meant."""
    others = {"rollback", "remove-orphan-files", "replace-table", "transfer", "read-both"}
    others |= {k for k, kind in KINDS.items() if kind.by_transaction or not kind.in_spark}
    others |= {k for k, kind in KINDS.items() if "iceberg" not in kind.formats}
    others |= {"equality-delete", "equality-upsert"}
    others |= {k for k in KINDS if k.startswith("side-")}
    others |= {
        "rename-column",
        "drop-column",
        "create-tag",
        "drop-tag",
        "update-counter-by-expression",
        "delete-by-expression",
    }
    assert set(KINDS) - set(load(find("mixed")).operations) == others


@pytest.mark.parametrize(("text", "value"), [("90s", 90), ("2m", 120), ("1.5h", 5400), ("500ms", 0.5), (7, 7)])
def test_lengths_of_time(text: object, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "m", "-3s", 0, "0s", "7", True, None, "1d", float("nan"), float("inf")])
def test_no_lengths_of_time(text: object) -> None:
    with pytest.raises(ValueError):
        seconds(text)


def test_assertions_compare_numbers_and_percentages() -> None:
    assert assertion("<5%") == ("<", 0.05, True)
    assert assertion(" >= 200 ") == (">=", 200.0, False)


STAGED = 'properties: {write.wap.enabled: "true"}'


@pytest.mark.parametrize(
    ("tables", "operations", "says"),
    [
        (["a", "b"], "transfer: 1", None),
        (["a", "b"], "read-both: 1", None),
        (["a"], "transfer: 1", "transfer: needs two tables, and has only a; give it two or more"),
        (["a", "b"], "read-both: {tables: [b]}", "read-both: needs two tables, and has only b"),
        (
            ["a", "b", "c!"],
            "transfer: 1",
            "transfer: table c cannot stage a commit; give it properties: {write.wap.enabled",
        ),
        (["a", "b", "c!"], "transfer: {tables: [a, b]}", None),
        (["a!", "b!"], "read-both: 1", None),
    ],
)
def test_an_operation_on_two_tables_has_two_that_can_stage(
    tables: list[str], operations: str, says: str | None
) -> None:
    each = [f"  - {{name: {t[0]}{'' if t.endswith('!') else ', ' + STAGED}}}" for t in tables]
    text = "\n".join(["workload: w", "tables:", *each, "length: {ops: 3}", "operations:", f"  {operations}"])
    if says is None:
        assert parse(text, "w.yaml")
        return
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert str(error.value).startswith(f"w.yaml:{len(tables) + 5}: {says}")


class TestDelta:
    """Tables of Delta Lake in a workload file."""

    def test_a_table_says_its_format_and_a_plan_only_says_another_one_than_icebergs(self) -> None:
        both = parse(GOOD.replace("    format_version: 3", "    format: delta"))
        assert (parse(GOOD).delta_guard, both.delta_guard) == (None, "s3-conditional")
        assert "format" not in parse(GOOD).tables[0].model_dump() and both.tables[0].model_dump()["format"] == "delta"

    def test_an_isolation_level_that_delta_refuses_is_refused_here(self) -> None:
        with pytest.raises(WorkloadError, match="isolation: Delta refuses every other level; write serializable"):
            parse(GOOD.replace("    format_version: 3", "    format: delta\n    isolation: snapshot"))

    def test_an_operation_that_delta_cannot_do_is_refused(self) -> None:
        said = "no writer of phase main can do rewrite-manifests on orders.*; it is for tables of format iceberg"
        with pytest.raises(WorkloadError, match=said):
            parse(GOOD.replace("    format_version: 3", "    format: delta") + "  rewrite-manifests: 1\n")

    def test_the_option_makes_every_table_one_and_leaves_out_what_delta_cannot_do(self) -> None:
        quick = load(LIBRARY / "quick.yaml")
        changed = Changes(format="delta", guard="s3-single-driver").on(quick)
        assert {(t.format, t.partitioned) for t in changed.tables} == {("delta", True)}
        assert changed.delta_guard == "s3-single-driver"
        assert {*quick.operations} - {*changed.operations} == {
            "expire-snapshots",
            "rewrite-data-files",
            "rewrite-manifests",
            "rewrite-position-delete-files",
        }
        assert changed.operations["optimize"].weight == quick.operations["rewrite-data-files"].weight
        assert len(changed.operations) >= 12

    def test_the_option_refuses_what_leaves_nothing_to_do(self) -> None:
        only = parse(
            GOOD.replace("  insert: 2\n", "  rewrite-manifests: 1\n").replace("  delete: {weight: 1, keys: own}\n", "")
        )
        with pytest.raises(ChangeError, match="--format delta: leaves phase main without any operation"):
            Changes(format="delta").on(only)
