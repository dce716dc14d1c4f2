"""Parameters of a sweep: what each changes in a workload, and what they refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import generator
from workloads.backoff import POLICIES
from workloads.file.parameters import LAYOUTS, PARAMETERS, ParameterError, applied
from workloads.file.workload import LIBRARY, Workload
from workloads.file.workload_text import MIN_WAIT, parse, problems
from workloads.operations.keys import owner

FILE = """\
workload: w
writers: {committer: 4}
length: {time: 5s}
tables: [{name: t, properties: {commit.retry.num-retries: "7", commit.retry.min-wait-ms: "20"}}]
operations: {insert: {rows: 2}, update-counter: 1}
"""


@pytest.fixture
def workload() -> Workload:
    return parse(FILE)


EXAMPLES = {
    "format": ("iceberg",),
    "layout": tuple(LAYOUTS),
    "partitions": ("1", "9"),
    "keys": ("1", "64"),
    "isolation": ("serializable", "snapshot"),
    "mode": ("copy-on-write", "merge-on-read"),
    "format-version": ("2",),
    "session": ("spark", "fast"),
    "cluster": ("standalone", "local"),
    "append": ("fast", "merge"),
    "writers": ("1", "50"),
    "interval": ("0s", "500ms"),
    "swap-latency": ("0ms", "250ms"),
    "backoff": tuple(POLICIES),
    "commit.retry.num-retries": ("0", "32"),
}


def test_every_parameter_has_an_example_here() -> None:
    assert PARAMETERS.keys() <= EXAMPLES.keys()


@given(st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in EXAMPLES.items()}))
def test_any_values_together_give_a_workload_that_a_file_could_hold(varied: dict[str, str]) -> None:
    changed = applied(parse(FILE), tuple(varied.items()))
    assert not [*problems(changed)]
    assert Workload.model_validate(changed.model_dump(mode="json", by_alias=True, exclude_defaults=True)) == changed


@pytest.mark.parametrize(
    ("varied", "says"),
    [
        (("backof", "linear"), "unknown parameter 'backof' (did you mean backoff?)"),
        (("backoff", "foo"), "backoff=foo: unknown value 'foo'; allowed: none, linear"),
        (("writers", "0"), "writers=0: must be a whole number from 1 to 64, not '0'"),
        (("writers", "65"), "writers=65: must be a whole number from 1 to 64, not '65'"),
        (("swap-latency", "50"), "swap-latency=50: "),
        (("swap-latency", "2h"), "swap-latency=2h: must be a time from 0s to 60s"),
        (("isolation", "snapshots"), "isolation=snapshots: unknown value 'snapshots' (did you mean snapshot?)"),
        (("layout", "one"), "layout=one: unknown value 'one'"),
        (("commit.retry.num-retries", "many"), "commit.retry.num-retries=many: "),
    ],
)
def test_what_is_wrong_is_said_with_what_is_allowed(workload: Workload, varied: tuple[str, str], says: str) -> None:
    with pytest.raises(ParameterError) as error:
        applied(workload, (varied,))
    assert str(error.value).startswith(says) and "\n" not in str(error.value)


def test_spark_cannot_follow_a_policy() -> None:
    spark = parse(FILE.replace("{committer: 4}", "2"))
    with pytest.raises(ParameterError, match="spark cannot follow linear"):
        applied(spark, (("backoff", "linear"),))
    assert applied(spark, (("backoff", "iceberg"),)) == spark


def test_retries_and_waits_stay_whoever_waits(workload: Workload) -> None:
    driven = applied(workload, (("backoff", "linear"),))
    assert driven.tables[0].properties[MIN_WAIT] == "0", "Iceberg itself does not wait"
    followed = driven.backoff.of(driven.tables[0].properties)
    assert (followed.policy, followed.retries.num_retries, followed.retries.min_wait_ms) == ("linear", 7, 20)
    own = applied(driven, (("backoff", "iceberg"),))
    assert own.tables[0].properties[MIN_WAIT] == "20" and own.tables[0].properties["commit.retry.num-retries"] == "7"
    assert own.backoff.policy == "iceberg"


def test_properties_of_retries_are_varied_with_a_policy_as_without(workload: Workload) -> None:
    driven = applied(workload, (("backoff", "exponential"), ("commit.retry.num-retries", "32")))
    assert driven.backoff.of(driven.tables[0].properties).retries.num_retries == 32
    waits = applied(driven, ((MIN_WAIT, "40"), ("commit.retry.max-wait-ms", "900")))
    retries = waits.backoff.of(waits.tables[0].properties).retries
    assert (retries.min_wait_ms, retries.max_wait_ms) == (40, 900)
    assert waits.tables[0].properties[MIN_WAIT] == "0"


def test_own_keys_have_rows_where_the_mix_changes_them(workload: Workload) -> None:
    [filled] = generator.seed_rows(applied(workload, (("layout", "own-partition"), ("writers", "3"))))
    assert {owner(i) for i in filled.value["ids"]} == {None, 0, 1, 2}
    [shared] = generator.seed_rows(workload)
    assert {owner(i) for i in shared.value["ids"]} == {None}


def test_without_partitions_each_writer_has_a_file_of_its_own(workload: Workload) -> None:
    shared, *own = generator.seed_rows(applied(workload, (("layout", "sorted"), ("writers", "3"))))
    assert {owner(i) for i in shared.value["ids"]} == {None}
    assert [{owner(i) for i in p.value["ids"]} for p in own] == [{0}, {1}, {2}]


def test_more_writers_keep_the_pace_of_each(workload: Workload) -> None:
    paced = applied(workload, (("interval", "2s"),))
    assert paced.rate == 2.0
    more = applied(workload, (("interval", "2s"), ("writers", "8")))
    assert (more.writers, more.rate) == (8, 4.0)
    assert applied(paced, (("writers", "8"),)).rate == 4.0


def test_layouts_lay_rows_where_they_say(workload: Workload) -> None:
    def keys(w: Workload) -> set[str]:
        return {spec.keys for spec in w.operations.values()}

    one, own, row, bucketed, in_order = (
        applied(workload, (("layout", name),))
        for name in ("one-partition", "own-partition", "one-row", "bucketed", "sorted")
    )
    assert one.tables[0].partitions == 1 and keys(one) == {"shared"}
    assert own.tables[0].partitioned and keys(own) == {"own"}
    assert row.keys.space == 1 and row.operations["insert"].rows == 1
    assert bucketed.tables[0].partitions == 16 and keys(bucketed) == {"shared"}
    assert not in_order.tables[0].partitioned and keys(in_order) == {"own"}


def test_formats_are_compared_on_equal_tables_by_the_operations_that_both_can_do() -> None:
    spec = parse((LIBRARY / "quick.yaml").read_text())
    iceberg, delta = (applied(spec, (("format", f),)) for f in ("iceberg", "delta"))
    assert {t.format for t in delta.tables} == {"delta"} and {t.format for t in iceberg.tables} == {"iceberg"}
    facts = [[(t.name, t.partitioned, t.isolation) for t in w.tables] for w in (iceberg, delta)]
    assert facts[0] == facts[1] and all(partitioned for _, partitioned, _ in facts[0])
    assert {*iceberg.operations} - {*delta.operations} == {"rewrite-data-files"}
    assert {*delta.operations} - {*iceberg.operations} == {"optimize"}
    assert sum(s.weight for s in iceberg.operations.values()) == sum(s.weight for s in delta.operations.values())
