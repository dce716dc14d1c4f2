"""The model finds what is known to break, nothing where nothing breaks, and its reductions lose no log."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from checkers.conflicts.validations import Rule, refusals, spark_rules
from checkers.formats.iceberg.model.draw import draw
from checkers.formats.iceberg.model.logtree import Bound, Explored, Log, LogEntry, logs, version_after
from checkers.formats.iceberg.model.operations import ModelOperation, Work, attempt, committed, work
from checkers.formats.iceberg.model.scenario import scenario
from checkers.formats.iceberg.model.search import search
from checkers.formats.iceberg.model.table import TableVersion, seeded
from harness.cli import model as model_cli
from workloads.file import modelled
from workloads.file.modelled import COMPACTION, OWN_SEQUENCE
from workloads.file.scenario import parse

COW, MOR = "copy-on-write", "merge-on-read"
TWO = (("update-register", MOR), ("delete", MOR))
ALL = (
    ("insert", ""),
    ("update-register", COW),
    ("update-register", MOR),
    ("delete", COW),
    ("delete", MOR),
    ("delete-partition", ""),
    (COMPACTION, ""),
)
EVERY = Bound(ALL, writes=3, compactions=1, keys=2)


def test_two_writers_of_one_row_undelete_it_at_snapshot_isolation_and_not_at_serializable() -> None:
    lax = search(Bound(TWO, writes=3, serializable=False))
    assert lax.found == {
        "undelete": (
            LogEntry(ModelOperation("update-register", 0, MOR), 0),
            LogEntry(ModelOperation("delete", 0, MOR), 0),
        )
    }
    assert search(Bound(TWO, writes=3)).found == {}


@pytest.mark.parametrize(
    ("version", "without", "shortest"),
    [
        (2, "added data", {"undelete": 2}),
        (2, "replaced files", {"compaction-changed-rows": 3, "duplicate-row": 3, "resurrected-row": 2, "undelete": 3}),
        (2, "deletes of replaced files", {"resurrected-row": 2}),
        (2, "position deletes of replaced files", {"compaction-changed-rows": 3}),
        (2, "referenced files", {"duplicate-row": 3, "resurrected-row": 2}),
        (2, "referenced files, rewritten", {"undelete": 3}),
        (2, "new deletes", {"resurrected-row": 2}),
        (2, "replaced delete files", {}),  # "new deletes" refuses first whatever it would refuse
        (
            3,
            "added data",
            {},
        ),  # a deletion vector of each file is refused by the others; what is left can be put in order
        (3, "new deletes", {}),  # "deletion vectors" refuses the same
        (3, "deletion vectors", {"several-dvs": 2}),
    ],
)
def test_what_each_validation_is_for(version: int, without: Rule, shortest: dict[str, int]) -> None:
    found = search(replace(EVERY, format_version=version, without=frozenset({without}))).found
    rows = {name: len(log) for name, log in found.items() if name != "dangling-dv"}
    assert rows == shortest, found


@pytest.mark.parametrize(
    ("version", "first", "second", "shortest"),
    [
        (2, "added data", "deletes of replaced files", {"duplicate-row": 2, "resurrected-row": 2, "undelete": 2}),
        (2, "added data", "referenced files", {"duplicate-row": 2, "resurrected-row": 2, "undelete": 2}),
        (2, "added data", "new deletes", {"duplicate-row": 2, "resurrected-row": 2, "undelete": 2}),
        (2, "new deletes", "replaced delete files", {"resurrected-row": 2}),  # as without the first alone
        (3, "added data", "deletes of replaced files", {"duplicate-row": 2, "resurrected-row": 2, "undelete": 2}),
        (3, "added data", "referenced files, rewritten", {"undelete": 2}),
        (3, "added data", "deletion vectors", {"several-dvs": 2, "undelete": 2}),
        (3, "new deletes", "deletion vectors", {"resurrected-row": 2, "several-dvs": 2}),
    ],
)
def test_what_two_validations_are_for_together(
    version: int, first: Rule, second: Rule, shortest: dict[str, int]
) -> None:
    found = search(replace(EVERY, format_version=version, without=frozenset({first, second}))).found
    assert {name: len(log) for name, log in found.items() if name != "dangling-dv"} == shortest


def test_every_validation_of_a_whole_exploration_fires() -> None:
    for version in (2, 3):
        found = search(replace(EVERY, format_version=version))
        assert {*found.fired} == {
            "added data",
            "replaced files",
            "deletes of replaced files",
            "position deletes of replaced files",
            "referenced files",
            "referenced files, rewritten",
            "new deletes",
            "replaced delete files",
            *(["deletion vectors"] if version == 3 else []),
        }


def test_a_vector_beside_a_delete_of_its_partition_dangles_and_harms_no_row() -> None:
    assert {*search(replace(EVERY, format_version=3)).found} == {"dangling-dv"}


def test_two_deletes_that_scanned_a_row_before_another_took_its_place_can_both_come_first() -> None:
    bound = Bound((("insert", ""), ("delete", MOR)), writes=4, serializable=False)
    assert search(bound).found == {}


def by_writers(bound: Bound, writers: int) -> set[Log]:
    """The logs that so many writers can make, step by step: scan, refresh and validate, compare and swap. Shares no search with ``search``."""
    start = (tuple[LogEntry, ...](), tuple[tuple[ModelOperation, int, int | None], ...]())
    seen, todo, found = {start}, [start], set[Log]()
    while todo:
        log, busy = todo.pop()
        for state in _steps(bound, writers, log, busy):
            if state not in seen:
                seen.add(state)
                todo.append(state)
                found.add(state[0])
    return found - {()}


Busy = tuple[tuple[ModelOperation, int, int | None], ...]


def _steps(bound: Bound, writers: int, log: Log, busy: Busy) -> Iterator[tuple[Log, Busy]]:
    now = len(log)
    if len(busy) < writers and now + len(busy) < bound.writes:
        for o in bound.operations():
            yield log, tuple(sorted((*busy, (o, now, None)), key=repr))
    for i, (o, scan, validated) in enumerate(busy):
        others = busy[:i] + busy[i + 1 :]
        if validated is None:
            used = now if o.at_commit else scan
            done = _work(bound, log, o, used)
            if done is None or _refused(bound, log, o, used, done):
                yield log, others
            else:
                yield log, tuple(sorted((*others, (o, used, now)), key=repr))
        elif validated == now:
            yield (*log, LogEntry(o, scan)), others
        else:
            yield log, tuple(sorted((*others, (o, scan, None)), key=repr))


def _work(bound: Bound, log: Log, o: ModelOperation, scan: int) -> Work | None:
    return work(o, version_after(bound, log[:scan]), len(log) + 1, bound.partitions)


def _refused(bound: Bound, log: Log, o: ModelOperation, scan: int, done: Work) -> bool:
    wanted = attempt(
        o, done, serializable=bound.serializable, format_version=bound.format_version, without=bound.without
    )
    works = [w for n, e in enumerate(log) if (w := _work(bound, log[:n], e.operation, e.scan)) is not None]
    live = {name: f.bounds for name, f in seeded(bound.keys, bound.partitions).files.items()}
    live |= {name: f.bounds for w in works for name, f in w.added.items()}
    return bool(refusals(wanted, [w.effect for w in works[scan:]], live))


@pytest.mark.parametrize(
    "kinds", [(*TWO, ("insert", "")), (("update-register", COW), ("delete-partition", ""), ("delete", MOR))]
)
@pytest.mark.parametrize("serializable", [True, False])
def test_the_tree_has_the_logs_that_writers_can_make_step_by_step(
    kinds: tuple[tuple[str, str], ...], serializable: bool
) -> None:
    """Up to the first broken promise of a log, after which the tree does not go on."""
    bound = Bound(kinds, writes=3, serializable=serializable)
    tree = dict(logs(bound))
    ended = {log for log, name in tree.items() if name not in (None, "dangling-dv")}
    step_by_step = {log for log in by_writers(bound, 3) if not any(log[:n] in ended for n in range(1, len(log)))}
    assert {*tree} == step_by_step


def test_logs_that_differ_by_the_names_of_two_keys_are_one() -> None:
    """Each log of a search without symmetry is one of the tree's, or becomes one by exchanging the keys."""
    bound = Bound((*TWO, ("update-register", COW), ("insert", "")), writes=2, keys=2)
    tree = {log for log, _ in logs(bound)}
    exchanged = {
        tuple(replace(e, operation=replace(e.operation, key=1 - e.operation.key)) for e in log) for log in tree
    }
    assert tree | exchanged == by_writers(bound, 2)


def test_a_broken_promise_is_found_at_its_shortest_log() -> None:
    out = Explored()
    long, short = (LogEntry(ModelOperation("insert", 0), 0),) * 3, (LogEntry(ModelOperation("insert", 0), 0),) * 2
    for log in (long, short, long):
        out.add("undelete", log)
    assert out.found == {"undelete": short} and len(out.each()) == 1


def test_every_log_becomes_a_scenario_that_can_end() -> None:
    """``parse`` refuses steps that wait for each other."""
    bound = Bound((*TWO, ("insert", ""), (COMPACTION, "")), writes=3, compactions=1, keys=2, serializable=False)
    exported = 0
    for log, _ in logs(bound):
        text, why = scenario(bound, log, "undelete", version_after(bound, log), "drawn")
        assert text, why
        assert len(parse(text).operations) == len(log)
        exported += 1
    assert exported > 100


def test_a_scenario_cannot_write_one_kind_in_two_modes() -> None:
    log = (LogEntry(ModelOperation("delete", 0, COW), 0), LogEntry(ModelOperation("delete", 1, MOR), 0))
    text, why = scenario(EVERY, log, "undelete", TableVersion({}, {}), "both")
    assert (text, why) == ("", "a kind of operation writes in both modes, a table has one for each")


def test_the_library_asks_each_question_once_and_knows_its_kinds() -> None:
    found = modelled.find([])
    assert len({m.question for m in found}) == len(found) >= 5
    assert all(m.model == p.stem for m, p in zip(found, sorted(modelled.LIBRARY.glob("*.yaml")), strict=True))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kinds: {delete: []}", "m.yaml:3: kinds: delete: write the modes in which it writes"),
        ("kinds: {insert: [merge-on-read]}", "insert writes in one way only; write []"),
        ("kinds: {delte: [merge-on-read]}", "no such operation (did you mean delete?)"),
        ("kinds: {set-property: []}", "set-property: the model does not know it"),
        ("kinds: {rollback: []}", "kinds: rollback: write upkeep: 1 or more"),
        ("kinds: {insert: []}\nupkeep: 1", "upkeep: no kind of expire-snapshots, rollback"),
        ("kinds: {rollback: []}\nupkeep: 1\ncatalog: jdbc", "does not know it; write compares: instead"),
        ("kinds: {rollback: [], merge-insert: []}\nupkeep: 1", "beside rollback the model knows insert"),
        ("kinds: {publish: []}\nupkeep: 1", "nothing is staged that it could publish; add stage"),
        ("kinds: {upgrade: []}\nupkeep: 1\nformat_version: 3", "the table has version 3 already"),
        ("kinds: {trino delete: []}", "kinds: trino delete: no such engine"),
        ("kinds: {flink delete: []}", "the model knows no such kind of flink; it knows insert, upsert"),
        ("kinds: {duckdb delete: [copy-on-write]}", "the engine has one way to write; write []"),
        ("kinds: {pyiceberg delete: []}\nformat_version: 3", "pyiceberg cannot do that in version 3"),
        ("kinds: {rewrite-position-delete-files: []}\nformat_version: 3", "in version 3 there are vectors"),
        ("kinds: {overwrite-where: []}\ncatalog: jdbc", "a model with a catalog does not know it"),
        ("kinds: {insert: []}\nwithout: [checks]", "m.yaml:4: 'checks' is not allowed; allowed: main, added data"),
    ],
)
def test_a_wrong_file_names_the_line_and_the_remedy(text: str, says: str) -> None:
    with pytest.raises(modelled.WorkloadError, match=r"m\.yaml") as e:
        modelled.parse(f"model: m\nquestion: What?\n{text}\nwrites: 2\n", "m.yaml")
    assert says in str(e.value)


def test_a_merge_with_only_an_insert_duplicates_a_key_under_serializable_isolation() -> None:
    """And the shortest way of each mix is found, but no mix of which a part breaks the promise, too."""
    found = search(Bound((("delete", MOR), ("merge-insert", ""), ("insert", ""), ("overwrite-where", "")), writes=4))
    mixes = {tuple(e.operation.kind for e in log) for _, log in found.each()}
    assert mixes == {
        ("delete", "merge-insert", "merge-insert"),
        ("delete", "overwrite-where", "merge-insert"),
    }
    assert {name for name, _ in found.each()} == {"write-skew"}


@pytest.mark.parametrize("model", ["kinds-v2", "kinds-v3-snapshot"])
def test_drawn_logs_become_scenarios_whose_last_operations_are_refused_as_the_rules_say(model: str) -> None:
    (m,) = modelled.find([model])
    bound = model_cli.bound_of(m)
    messages = Counter[str]()
    for n in range(30):
        log, refused, final = draw(bound, Random(n))
        text, why = scenario(bound, log, None, final, "drawn", refused)
        assert text, why
        steps = parse(text).operations
        assert [s.expect.type for s in steps] == ["ok"] * len(log) + ["fail"] * len(refused)
        assert all(s.hold == {steps[len(log) - 1].name: "completed"} for s in steps[len(log) :])
        messages.update(s.expect.message for s in steps[len(log) :])
        assert final.rows == version_after(bound, log).rows
    assert len(messages) >= 4


@pytest.mark.parametrize(
    ("merge_on_read", "kind", "first", "last"),
    [
        (True, "update-register", "referenced files", "replaced delete files"),
        (True, "delete", "referenced files, rewritten", "deletion vectors"),
        (False, "update-register", "added data", "replaced files"),
        (True, COMPACTION, "position deletes of replaced files", "replaced files"),
    ],
)
def test_the_first_rule_that_is_broken_says_the_message(
    merge_on_read: bool, kind: str, first: Rule, last: Rule
) -> None:
    """The order is Iceberg's: ``validate``, then ``apply``. Drawn logs on real Spark showed that it was another one here."""
    rules = spark_rules(kind, merge_on_read=merge_on_read, serializable=True, format_version=3, again=False)
    assert (rules[0], rules[-1]) == (first, last)


def test_a_committed_compaction_keeps_the_rows() -> None:
    table = seeded(2, 1)
    deleted = work(ModelOperation("delete", 0, MOR), table, 1, 1)
    assert deleted is not None
    table = committed(table, deleted, vectors=True)
    compacted = work(ModelOperation(COMPACTION, 0), table, 2, 1)
    assert compacted is not None
    after = committed(table, compacted, vectors=True)
    assert after.rows == table.rows and after.deletes == {} and len(after.files) == 1


def test_a_scenario_names_the_engine_of_each_writer() -> None:
    log = (
        LogEntry(ModelOperation("upsert", 0, engine="flink"), 0),
        LogEntry(ModelOperation("delete", 1, COW, "pyiceberg"), 0),
    )
    text, why = scenario(EVERY, log, "resurrected-row", version_after(EVERY, log), "engines")
    assert not why
    made = parse(text)
    assert [made.engines.get(n) for n in range(2)] == ["flink", "pyiceberg"]
    assert [s.hold for s in made.operations] == [None, {"upsert-1": "completed"}]


def test_a_compaction_drops_an_equality_delete_that_came_meanwhile_and_one_with_its_own_sequence_number_is_refused() -> (
    None
):
    kinds = (("insert", ""), ("equality-delete", ""))
    kept = search(Bound((*kinds, (COMPACTION, "")), writes=3, compactions=1, keys=2))
    assert [f"{e.operation} {e.scan}" for e in kept.found["compaction-changed-rows"]] == [
        "equality-delete of key 0 0",
        "equality-delete of key 1 1",
        "insert of key 0 2",  # newer than the delete before it, so that is dropped
        "rewrite-data-files 1",
    ]
    assert len(kept.found) == 1 and not kept.fired
    own = Bound((*kinds, (COMPACTION, OWN_SEQUENCE)), writes=3, compactions=1, keys=2)
    refused = search(own)
    assert not refused.found and {*refused.fired} == {"deletes of replaced files"}
    assert {*search(replace(own, without=frozenset(refused.fired))).found} == {"compaction-changed-rows"}


@pytest.mark.parametrize(("version", "found"), [(2, {"compaction-changed-rows"}), (3, set[str]())])
def test_a_compaction_that_removes_vectors_looks_through_no_other_delete_manifest(
    version: int, found: set[str]
) -> None:
    """Real Spark taught it: in version 3 the equality delete beside a vector stays."""
    kinds = (("delete", MOR), ("equality-delete", ""), ("rewrite-data-files", ""))
    log = [("delete", MOR, 0, 0), ("equality-delete", "", 1, 1), ("equality-delete", "", 0, 2), (COMPACTION, "", 0, 1)]
    entries = tuple(LogEntry(ModelOperation(kind, key, mode), scan) for kind, mode, key, scan in log)
    bound = Bound(kinds, writes=3, compactions=1, keys=2, format_version=version)  # type: ignore[arg-type]
    assert {name for entry, name in logs(bound) if entry == entries and name} == found
    table = version_after(bound, entries)
    assert {e.key for e in table.equality} == ({0, 1} if version == 3 else {0})


def test_an_engine_that_cannot_read_equality_deletes_does_nothing_after_one() -> None:
    """PyIceberg refuses such a table (https://github.com/apache/iceberg/issues/6568); it may have scanned it before."""
    kinds = (("flink upsert", ""), ("pyiceberg delete", COW))
    found = [[(e.operation.engine, e.scan) for e in log] for log, _ in logs(Bound(kinds, writes=2, keys=2))]
    assert [("flink", 0), ("pyiceberg", 0)] in found and [("flink", 0), ("pyiceberg", 1)] not in found
