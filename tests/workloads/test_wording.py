"""What YAML, pydantic and Iceberg would say of a file is said in plain words, with the line, the key and the remedy."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import yaml

from compose.install import jars
from compose.install.cache import home
from nemesis.faults.fault import Fault
from nemesis.faults.lengths import WRITTEN
from tests.support.classfile import constants
from workloads.file import meant, scenario, tableproperties
from workloads.file.assertions import METRICS, assertion, wrong
from workloads.file.wording import of_yaml
from workloads.file.workload import WorkloadError
from workloads.file.workload_text import parse, property_doubts
from workloads.operations.kinds import KINDS

INDENTED = "is indented differently from line"
NO_KEY = "this line has no key and value; write key: value, with a space after the colon"
TAB = "this line is indented with a tab; use spaces, not tabs"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a:\n\tb: 2\n", 2, TAB),
        ("a: 1\n\tb: 2\n", 2, TAB),
        ("a: 1\n  b: 2\n", 2, f"line 2 {INDENTED} 1; give the keys of one mapping"),
        ("a:\n  b: 1\n c: 2\n", 3, f"line 3 {INDENTED} 2"),
        ("a:\n  # a comment\n  - x: 1\n\n   y: 2\n", 5, f"line 5 {INDENTED} 3"),
        ("  a: 1\nb: 2\n", 2, f"line 2 {INDENTED} 1"),
        ("a:\n  - n: b: c\n", 2, 'a value with ": " in it must be put in quotes'),
        ("a 1\nb: 2\n", 1, NO_KEY),
        ("b: 2\na 1\nc: 3\n", 2, NO_KEY),
        ("a: 1\nb:2\nc: 3\n", 2, NO_KEY),
        (
            "a: [1, 2\nb: 3\n",
            1,
            "the [ of this line is not closed by ], or a comma or quotes are missing before line 2",
        ),
        ("a: {x: 1\n", 1, "the { of this line is not closed by }"),
        ("a:\n  n: [1]]\n", 2, "this line has one ] too many"),
        ("a: 'x\nb: 3\n", 1, "the quote that begins in this line is not closed"),
        ("a:\n  n: 'it's'\n", 2, "something stands behind the closing quote"),
        ("a: {x: >5%}\n", 1, 'a value cannot begin with > in YAML; put it in quotes, such as ">…"'),
        ("a: >5%\n", 1, "> and | begin a block of text in YAML; put the value in quotes"),
        ("a: %x\n", 1, "a value cannot begin with % in YAML"),
        ("a: *b\n", 1, "a value that begins with * means another place"),
        ("a: !x 3\n", 1, "a value that begins with ! is not allowed; put it in quotes"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here (---); a file has only one"),
        ('a: "\\d"\n', 1, "a backslash in double quotes must be written twice"),
        ("a: [1,,2]\n", 1, "a value is missing here"),
        ("- a\nb: 1\n", 2, "line 2 and line 1 must both be entries of a list (- …) or both keys of a mapping"),
        ("a: 1\nb: \x01\n", 2, "a character that no text file should have (U+0001); remove it"),
        ("a: &x 1\nb: &x 2\n", 2, "the name 'x' after & is given twice"),
    ],
)
def test_what_is_not_yaml_is_said_in_plain_words(text: str, line: int, says: str) -> None:
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert str(error.value).startswith(f"w.yaml:{line}: {says}")


@pytest.mark.parametrize(
    "text", ["password hunter2\nb: 1\n", "a: {password: 'hunter2}\n", "a: 'x' hunter2\n", "a: !hunter2 x\n"]
)
def test_what_is_not_yaml_is_not_quoted(text: str) -> None:
    """It may be a secret of a catalog's file."""
    loader = yaml.SafeLoader
    with pytest.raises(yaml.YAMLError) as error:
        yaml.load(text, loader)
    assert "hunter2" not in of_yaml(error.value, text)[1]


GOOD = "workload: w\ntables: [{name: t}]\nlength: {ops: 3}\noperations: {insert: 1}\n"


@pytest.mark.parametrize(
    ("change", "line", "says"),
    [
        (("workload: w", "workload: w\nwriters: many"), 2, "writers: must be a whole number, not 'many'"),
        (("workload: w", "workload: w\nwriters: 1.5"), 2, "writers: must be a whole number, not 1.5"),
        (("workload: w", "workload: w\nwriters:"), 2, "writers: must be a whole number, not nothing"),
        (("workload: w", "workload: w\nwriters: 65"), 2, "writers: must be at most 64, not 65"),
        (
            ("workload: w", 'workload: w\nclocks: {"1": 90}'),
            2,
            "1: must be a shift of the clock with a unit, such as +1h",
        ),
        (
            ("workload: w", 'workload: w\nclocks: {"1": 2h}'),
            2,
            "1: '2h' must be a shift of the clock such as +1h or -30s",
        ),
        (("workload: w", "workload: w\nrate: 0"), 2, "rate: must be more than 0, not 0"),
        (("workload: w", "workload: w\nrate: 5/s"), 2, "rate: must be a number, not '5/s'"),
        (("{name: t}", "{name: t, partitioned: some}"), 2, "partitioned: must be true or false, not 'some'"),
        (("[{name: t}]", "[]"), 2, "tables: is empty; give at least one"),
        (("[{name: t}]", "t"), 2, "tables: must be a list, not 't'"),
        (
            ("{name: t}", "{name: t, properties: {write.wap.enabled: true}}"),
            2,
            'write.wap.enabled: must be text, not true; write it in quotes: "true"',
        ),
        (("{name: t}", "{name: t, write_mode: x}"), 2, "unknown key 'write_mode' (did you mean mode?)"),
        (("{name: t}", "{name: t, mode: mor}"), 2, "mode: 'mor' is not allowed (did you mean merge-on-read?)"),
        (
            ("{name: t}", "{name: t, isolation: snapshot-isolation}"),
            2,
            "isolation: 'snapshot-isolation' is not allowed (did you mean snapshot?); allowed: serializable, snapshot",
        ),
        (("workload: w", "workload: w\nthreads: 3"), 2, "unknown key 'threads' (did you mean writers?)"),
        (("{insert: 1}", "{insert:1}"), 4, "'insert:1' is one word; write insert: 1, with a space after the colon"),
        (
            ("{insert: 1}", "{merge: 6}"),
            4,
            "unknown operation 'merge' (did you mean merge-upsert or merge-insert or merge-update or merge-delete?)",
        ),
        (("{insert: 1}", "{compaction: 6}"), 4, "unknown operation 'compaction' (did you mean rewrite-data-files?)"),
        (
            ("workload: w", "workload: w\nnemesis: {faults: [{verb: drop-ack}]}"),
            2,
            "verb: 'drop-ack' is not allowed (did you mean drop-reply?); allowed: answer, ",
        ),
        (
            ("workload: w", "workload: w\nnemesis: {faults: [{verb: maintain, do: expire}]}"),
            2,
            "do: unknown operation 'expire' (did you mean expire-snapshots?)",
        ),
    ],
)
def test_what_pydantic_refuses_is_said_in_plain_words(change: tuple[str, str], line: int, says: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(WorkloadError) as error:
        parse(GOOD.replace(*change), "w.yaml")
    message = str(error.value)
    assert message.startswith(f"w.yaml:{line}: {says}"), message
    assert "\n" not in message and "input should" not in message and "Input" not in message


@pytest.mark.parametrize("word", [*KINDS])
def test_a_word_that_is_allowed_is_meant(word: str) -> None:
    assert meant.nearest(word, KINDS) == word


@pytest.mark.parametrize("other", sorted(meant.OTHER_WORDS))
def test_a_word_of_another_tool_means_one_that_is_there(other: str) -> None:
    for word in meant.OTHER_WORDS[other]:
        assert meant.nearest(other, [word]) == word


@pytest.mark.parametrize(
    ("word", "allowed", "says"),
    [
        ("rw", ("list-append", "rw-register", "rows"), " (did you mean rw-register?)"),
        ("merge", ("merge-insert", "read", "merge-delete"), " (did you mean merge-insert or merge-delete?)"),
        ("snapshto-isolation", ("snapshot-isolation", "serializable"), " (did you mean snapshot-isolation?)"),
        ("x", ("list-append", "rw-register"), ""),
    ],
)
def test_the_beginning_of_a_word_means_that_word(word: str, allowed: tuple[str, ...], says: str) -> None:
    assert meant.suggest(word, allowed) == says


# --- times and shares -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "line", "key"),
    [
        (("{ops: 3}", "{time: 90}"), 3, "time"),
        (("{ops: 3}", '{time: "90"}'), 3, "time"),
        (("workload: w", "workload: w\nop_timeout: 90"), 2, "op_timeout"),
        (("workload: w", "workload: w\nnemesis: {packages: [crashes], interval: 90}"), 2, "interval"),
        (("workload: w", "workload: w\nnemesis: {packages: [crashes], duration: 90}"), 2, "duration"),
        (("workload: w", "workload: w\nnemesis: {faults: [{verb: cut, duration: 90}]}"), 2, "duration"),
        (("workload: w", "workload: w\nnemesis: {faults: [{verb: delay, seconds: 90}]}"), 2, "seconds"),
        (("workload: w", "workload: w\nnemesis: {faults: [{verb: delay, seconds: 1s, jitter: 90}]}"), 2, "jitter"),
        (
            ("workload: w", "workload: w\nnemesis: {faults: [{verb: answer, status: 503, retry_after: 90}]}"),
            2,
            "retry_after",
        ),
        (("{insert: 1}", "{remove-orphan-files: {older_than: 90}}"), 4, "older_than"),
    ],
)
def test_a_time_in_a_file_needs_a_unit(change: tuple[str, str], line: int, key: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(WorkloadError) as error:
        parse(GOOD.replace(*change), "w.yaml")
    assert str(error.value) == f"w.yaml:{line}: {key}: 90 has no unit of time; write 90s, 90ms, 90m or 90h"


def test_a_time_in_a_scenario_needs_a_unit() -> None:
    text = scenario.LIBRARY.joinpath("rest-503-alone.yaml").read_text()
    assert scenario.parse(text).operations
    with pytest.raises(WorkloadError, match=r"retry_after: 1 has no unit of time; write 1s, 1ms, 1m or 1h"):
        scenario.parse(text.replace("retry_after: 1s", "retry_after: 1"))


def test_times_that_a_run_stored_are_seconds() -> None:
    fault = {"verb": "late", "status": 503, "retry_after": 1, "seconds": 2.5, "duration": 3}
    assert Fault.model_validate(fault) == Fault(**fault)
    with pytest.raises(ValueError, match="has no unit of time"):
        Fault.model_validate(fault, context={WRITTEN: True})


def test_a_wait_before_a_retry_is_whole_seconds() -> None:
    with pytest.raises(ValueError, match="must be a whole number of seconds"):
        Fault.model_validate({"verb": "answer", "retry_after": "1500ms"})


@pytest.mark.parametrize(
    ("metric", "text", "says"),
    [
        ("retry_rate", "<50%", None),
        ("retry_rate", ">=0%", None),
        ("retry_rate", "<50", 'retry_rate is a share: write "<50%"'),
        ("abort_rate", "<=0.05", 'abort_rate is a share: write "<=5%"'),
        ("retry_rate", "<101%", "retry_rate is a share and lies between 0% and 100%, so '<101%' says nothing"),
        ("ok_rate", ">5s", "ok_rate is a share: write a percentage such as \"<5%\", not '>5s'"),
        ("ok_rate", "most", "ok_rate: must be a comparison such as \"<5%\", not 'most'"),
        ("latency_p99_ms", "<2s", None),
        ("latency_p99_ms", "<500", 'latency_p99_ms is a time: write "<500ms"'),
        ("latency_p50_ms", "<5%", "latency_p50_ms is a time: write one such as \"<500ms\", not '<5%'"),
        ("operations", ">=200", None),
        ("operations", ">=50%", 'operations is a count: write ">=50"'),
        ("kinds", ">3s", 'kinds is a count: write ">3"'),
    ],
)
def test_a_threshold_has_the_unit_of_its_metric(metric: str, text: str, says: str | None) -> None:
    assert metric in METRICS
    assert wrong(metric, text) == says
    file = GOOD + f'assert: {{{metric}: "{text}"}}\n'
    if says is None:
        assert parse(file).assertions == {metric: text}
        return
    with pytest.raises(WorkloadError) as error:
        parse(file, "w.yaml")
    assert str(error.value) == f"w.yaml:5: {says}"


def test_a_threshold_is_in_the_unit_of_what_is_measured() -> None:
    assert assertion("<2s") == ("<", 2000.0, False) and assertion("<500ms") == ("<", 500.0, False)
    assert assertion("<50") == ("<", 50.0, False), "as an older plan has it"


def test_a_threshold_that_is_a_number_is_told_its_form() -> None:
    with pytest.raises(WorkloadError, match=r'operations: must be a comparison such as "<5%" or ">=200", in quotes'):
        parse(GOOD + "assert: {operations: 200}\n")


# --- table properties -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (
            "write.parquet.compression-codec",
            "zstdd",
            "'zstdd' is not allowed (did you mean zstd?); allowed: uncompressed, ",
        ),
        ("write.parquet.compression-codec", "ZSTD", None),
        ("write.delete.mode", "mor", "'mor' is not allowed (did you mean merge-on-read?)"),
        (
            "write.merge.isolation-level",
            "snapshot-isolation",
            "'snapshot-isolation' is not allowed (did you mean snapshot?)",
        ),
        ("write.format.default", "orc", None),
        ("write.format.default", "csv", "'csv' is not allowed; allowed: parquet, avro, orc"),
        ("commit.retry.num-retries", "few", "must be a whole number such as \"100\", less than 2^31, not 'few'"),
        ("commit.retry.num-retries", "2147483648", "must be a whole number"),
        ("history.expire.max-snapshot-age-ms", "2147483648", None),
        ("gc.enabled", "no", 'must be "true" or "false", not \'no\': Iceberg takes every other word for false'),
        ("gc.enabled", "False", None),
        ("write.parquet.bloom-filter-enabled.column.id", "on", 'must be "true" or "false"'),
        ("write.parquet.bloom-filter-fpp.column.id", "0.01", None),
        ("write.parquet.bloom-filter-fpp.column.id", "1%", 'must be a number such as "0.01"'),
        ("format-version", "3", "is '3' here and format_version 2; give only the key format_version"),
        ("format-version", "2", None),
        ("my.own", "anything", None),
    ],
)
def test_a_value_that_iceberg_refuses_is_an_error_of_the_file(name: str, value: str, says: str | None) -> None:
    text = GOOD.replace("tables: [{name: t}]", f'tables:\n  - name: t\n    properties:\n      {name}: "{value}"')
    if says is None:
        assert parse(text).tables[0].properties == {name: value}
        return
    with pytest.raises(WorkloadError) as error:
        parse(text, "w.yaml")
    assert str(error.value).startswith(f"w.yaml:5: {name}: {says}")


def test_a_scenario_s_properties_are_checked_too() -> None:
    text = scenario.LIBRARY.joinpath("upgrade-two-dvs.yaml").read_text()
    (line,) = [n for n, said in enumerate(text.splitlines(), 1) if "granularity: partition" in said]
    says = rf":{line}: write.delete.granularity: 'partitoin' is not allowed \(did you mean"
    with pytest.raises(WorkloadError, match=says):
        scenario.parse(text.replace("granularity: partition", "granularity: partitoin"), "s.yaml")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("write.metadata.metrics.column.id", None),
        ("write.parquet.compression-codec", None),
        ("row-lineage", None),
        (
            "write.parquet.compression-code",
            "knows no such table property (did you mean write.parquet.compression-codec?)",
        ),
        (
            "write.metadata.metrics.colum.",
            "knows no such table property (did you mean write.metadata.metrics.column.COLUMN?)",
        ),
        ("write.metadata.metrics.column.", "knows no such table property"),
        ("team", "knows no such table property; the table gets it, and Iceberg ignores it"),
        ("uuid", "writes this property itself and drops the value; leave it out"),
    ],
)
def test_a_property_that_iceberg_does_not_know_is_a_doubt(name: str, says: str | None) -> None:
    found = [message for _, message in tableproperties.doubts({name: "1"})]
    assert found == [] if says is None else f"{name}: Iceberg {says}" in found[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("commit.retry.num-retries", None),
        ("write.metadata.metrics.column.id", None),
        ("icequake.p1", None),
        ("parquet.enable.dictionary", None),
        ("comit.retry.num-retries", " (did you mean commit.retry.num-retries?)"),
        ("Commit.retry.num-retries", " (did you mean commit.retry.num-retries?)"),
        ("write.metadata.metrics.colum.id", " (did you mean write.metadata.metrics.column.COLUMN?)"),
    ],
)
def test_only_a_name_that_begins_like_iceberg_s_is_misspelt(name: str, says: str | None) -> None:
    found = tableproperties.misspelt(name)
    assert found == (None if says is None else f"Iceberg has no table property {name!r}{says}")


TYPES = {"I": "integer", "J": "long", "Z": "boolean", "D": "decimal"}


def test_the_properties_are_those_of_the_jar() -> None:
    """Every constant of Iceberg's ``TableProperties``, with the type of its default."""
    (runtime,) = (x.path(home()) for x in jars.of(["spark"], jars.read_lock()) if "iceberg-spark-runtime" in x.name)
    if not runtime.is_file():
        pytest.skip("the default release's jar is not in the cache")
    with zipfile.ZipFile(runtime) as jar:
        found = constants(jar.read("org/apache/iceberg/TableProperties.class"))
    names = {
        name: value
        for name, (kind, value) in found.items()
        if kind == "Ljava/lang/String;"
        and not name.endswith("_DEFAULT")
        and not name.startswith(("PARQUET_COMPRESSION_DEFAULT_SINCE_", "WRITE_DISTRIBUTION_MODE_"))
    }
    assert len(names) > 100
    ours = {**tableproperties.KNOWN, **tableproperties.OF_A_COLUMN}
    assert {*names.values()} <= {*ours}
    assert {*ours} - {*names.values()} == {"write.manifest-lists.enabled", "row-lineage"}, (
        "only older releases have these"
    )
    for name, value in names.items():
        default = found.get(f"{name}_DEFAULT") or found.get(f"{name.removeprefix('DELETE_')}_DEFAULT")
        if default is not None and default[0] in TYPES:
            assert ours[str(value)] == TYPES[default[0]], value


def test_every_table_of_the_library_has_properties_that_iceberg_knows() -> None:
    tables = [t for p in sorted(scenario.LIBRARY.glob("*.yaml")) for t in scenario.load(p).tables]
    tables += [t for p in sorted(Path(scenario.LIBRARY).parent.glob("*.yaml")) for t in parse(p.read_text()).tables]
    assert [*property_doubts(tuple(tables))] == []
