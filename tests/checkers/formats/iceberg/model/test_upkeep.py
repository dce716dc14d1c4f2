"""The model with expiry, rollback, tags, staged commits, columns, the upgrade and the removal of orphan files."""

from dataclasses import replace
from typing import get_args

import pytest

from checkers.conflicts.validations import LACKING, METADATA_MESSAGES, Compares, Rule, lacking
from checkers.formats.iceberg.model.logtree import Bound, Log, LogEntry
from checkers.formats.iceberg.model.operations import ModelOperation
from checkers.formats.iceberg.model.scenario import scenario, steps_text
from checkers.formats.iceberg.model.search import rules_of, search, table_after
from tests.checkers.formats.iceberg.model.test_model import COW, MOR
from workloads.file.modelled import COMPACTION, RuleSet
from workloads.file.scenario import parse

UPDATE, DELETE, INSERT = ("update-register", COW), ("delete", MOR), ("insert", "")
EXPIRE, ROLLBACK, TAG = ("expire-snapshots", ""), ("rollback", ""), ("create-tag", "")
STAGE, PUBLISH, UPGRADE, ORPHANS = ("stage", ""), ("publish", ""), ("upgrade", ""), ("remove-orphan-files", "")
EXPIRE_ROLLBACK = Bound((UPDATE, DELETE, EXPIRE, ROLLBACK), writes=2, upkeep=2)
EXPIRE_TAG = Bound((UPDATE, EXPIRE, TAG), writes=2, upkeep=2)
PUBLISHED = Bound((UPDATE, ("delete", COW), EXPIRE, STAGE, PUBLISH), writes=2, upkeep=3, keys=2)
UPGRADED = Bound((("update-register", MOR), DELETE, UPGRADE), writes=2, upkeep=1, keys=2)
PARTITIONED = Bound(
    (UPDATE, DELETE, ("delete-partition", ""), (COMPACTION, ""), ROLLBACK),
    writes=3,
    compactions=1,
    upkeep=1,
    keys=2,
    partitions=2,
)


def shortest(bound: Bound) -> dict[str, str]:
    return {name: "; ".join(steps_text(log)) for name, log in search(bound).found.items()}


def test_a_stream_that_starts_again_finds_its_epoch_unless_it_expired() -> None:
    kinds = (INSERT, ("delete", COW), ("restart-stream", ""))
    assert shortest(Bound((*kinds, EXPIRE), writes=3, upkeep=2)) == {
        "duplicate-commit": "1. delete (copy-on-write) of key 0; 2. insert of key 0; 3. delete (copy-on-write) of key 0; "
        "4. expire-snapshots; 5. restart-stream of key 0"
    }
    # The epoch that a rollback took out of the history is committed again, rightly, and once.
    unexpired = search(Bound((*kinds, ROLLBACK), writes=3, upkeep=2))
    assert not unexpired.found and unexpired.committed["restart-stream"]


@pytest.mark.parametrize(
    ("bound", "compares", "found"),
    [
        (
            EXPIRE_ROLLBACK,
            "requirements",
            {
                "lost-commit": "1. update-register (copy-on-write) of key 0; 2. rollback; 3. expire-snapshots, which has scanned commit 1"
            },
        ),
        (EXPIRE_ROLLBACK, "location", {}),
        (
            EXPIRE_TAG,
            "requirements",
            {
                "lost-tag": "1. update-register (copy-on-write) of key 0; 2. create-tag; 3. expire-snapshots, which has scanned commit 1"
            },
        ),
        (EXPIRE_TAG, "location", {}),
        (
            PUBLISHED,
            "requirements",
            {
                "lost-commit": "1. delete (copy-on-write) of key 0; 2. stage of key 0; 3. publish; "
                "4. expire-snapshots, which has scanned commit 2",
                "missing-file": "1. delete (copy-on-write) of key 0; 2. stage of key 0; 3. update-register (copy-on-write) of key 1; "
                "4. expire-snapshots; 5. publish, which has scanned commit 3",
            },
        ),
        (PUBLISHED, "location", {}),
        (UPGRADED, "requirements", {}),
        (UPGRADED, "location", {}),
    ],
)
def test_what_an_expiry_takes_from_whoever_points_to_a_snapshot_meanwhile(
    bound: Bound, compares: Compares, found: dict[str, str]
) -> None:
    """A REST catalog compares nothing for it; where the location is compared, the second attempt finds the ref."""
    assert shortest(replace(bound, compares=compares)) == found


def test_orphan_files_are_those_of_a_slow_writer() -> None:
    bound = Bound((INSERT, UPDATE, DELETE, ORPHANS), writes=2, upkeep=1)
    assert {*search(bound).found} == {"missing-file"}
    assert (
        shortest(bound)["missing-file"]
        == "1. remove-orphan-files; 2. update-register (copy-on-write) of key 0, which has scanned the start"
    )
    insert = (DELETE, INSERT, ORPHANS)
    assert {*search(replace(bound, kinds=insert)).found} == {"missing-file"}, "an INSERT has no scan, but files"


def test_a_partition_delete_that_remembers_what_it_dropped_brings_a_row_back_after_a_rollback() -> None:
    found = search(PARTITIONED).found
    assert {*found} == {"resurrected-row"}
    *_, rollback, last = found["resurrected-row"]
    assert (rollback.operation.kind, last.operation.kind, last.scan) == ("rollback", "delete-partition", 3)


@pytest.mark.parametrize(
    ("bound", "compares", "without", "breaks"),
    [
        (EXPIRE_ROLLBACK, "location", "retained refs", "lost-commit"),
        (EXPIRE_TAG, "location", "retained refs", "lost-tag"),
        (EXPIRE_ROLLBACK, "requirements", "target snapshot", "missing-file"),
        (EXPIRE_TAG, "requirements", "target snapshot", "missing-file"),
        (EXPIRE_TAG, "location", "metadata", "missing-file"),
        (PUBLISHED, "location", "target snapshot", "missing-file"),
        (PUBLISHED, "requirements", "not published", "duplicate-row"),
        (EXPIRE_ROLLBACK, "requirements", "history", "undelete"),
        (UPGRADED, "requirements", "format version", "position-deletes-in-v3"),
        (UPGRADED, "location", "format version", "position-deletes-in-v3"),
        (replace(UPGRADED, rule_set="iceberg-1.10", writes=1), "requirements", "row ids", "position-deletes-in-v3"),
        (UPGRADED, "requirements", "deletion vectors", "several-dvs"),
    ],
)
def test_what_each_validation_of_the_metadata_is_for(
    bound: Bound, compares: Compares, without: Rule, breaks: str
) -> None:
    given = replace(bound, compares=compares)
    before = search(given)
    assert breaks not in before.found and before.fired[without]
    assert breaks in search(replace(given, without=frozenset({without}))).found


def test_who_did_not_see_an_upgrade_has_no_row_ids_and_is_refused_by_the_server() -> None:
    """So the operation must have been refused once, by another commit, before it can write what version 3 forbids."""
    found = search(replace(UPGRADED, rule_set="iceberg-1.10")).found["position-deletes-in-v3"]
    assert found[0].operation.kind == "upgrade" and len(found) == 3 and found[-1].scan == 0
    alone = replace(UPGRADED, rule_set="iceberg-1.10", writes=1)
    assert not search(alone).found and search(alone).fired["row ids"]


def test_every_validation_of_the_metadata_refuses_something() -> None:
    kinds = (UPDATE, ("update-register", MOR), EXPIRE, ROLLBACK, TAG, UPGRADE, ("add-column", ""))
    fired: set[Rule] = set()
    for compares in ("requirements", "location"):
        bound = Bound(kinds, writes=2, upkeep=2, compares=compares)
        out = search(bound)
        fired |= {*out.fired}
        assert rules_of(bound) >= {*out.fired}
    fired |= {*search(PUBLISHED).fired, *search(UPGRADED).fired}
    assert {*METADATA_MESSAGES} - {"scanned snapshot"} <= fired
    assert "scanned snapshot" in search(replace(EXPIRE_ROLLBACK, compares="location")).fired


@pytest.mark.parametrize(("bound", "name"), [(EXPIRE_ROLLBACK, "lost-commit"), (PARTITIONED, "resurrected-row")])
def test_a_counterexample_of_the_metadata_is_a_scenario(bound: Bound, name: str) -> None:
    log = search(bound).found[name]
    text, why = scenario(bound, log, name, table_after(bound, log), "drawn")
    assert not why
    steps = parse(text).operations
    assert len(steps) == len(log) and steps[-1].hold is not None


def test_what_a_broken_promise_leaves_is_not_asked_where_the_model_does_not_have_the_rows() -> None:
    bound = replace(UPGRADED, rule_set="iceberg-1.10")
    log = search(bound).found["position-deletes-in-v3"]
    text, why = scenario(bound, log, "position-deletes-in-v3", table_after(bound, log), "drawn")
    assert not why and parse(text).final == {"t": "unchecked"}


def test_the_table_after_an_expiry_that_took_main_has_no_row() -> None:
    log: Log = tuple(
        LogEntry(ModelOperation(kind, 0, mode), scan)
        for (kind, mode), scan in ((UPDATE, 0), (ROLLBACK, 1), (EXPIRE, 1))
    )
    assert table_after(EXPIRE_ROLLBACK, log) is None
    assert table_after(EXPIRE_ROLLBACK, log[:2]) is not None


@pytest.mark.parametrize(
    ("rule_set", "found"),
    [
        ("iceberg-1.8", {"position-deletes-in-v3"}),
        ("iceberg-1.10", {"position-deletes-in-v3"}),
        ("iceberg-1.12", set()),
        ("specification", {"undelete", "duplicate-row", "resurrected-row"}),
    ],
)
def test_what_each_release_lacks_lets_through(rule_set: str, found: set[str]) -> None:
    assert {*search(replace(UPGRADED, rule_set=rule_set)).found} == found


def test_a_rule_set_is_a_release_of_the_specification_and_names_what_it_lacks() -> None:
    assert lacking("iceberg-1.8", "update-register") == {"format version", "replaced delete files"}
    assert lacking("iceberg-1.8", "rewrite-position-delete-files") == {"format version"}
    assert "replaced files" not in lacking("specification", "update-register")
    assert {*LACKING} == {*get_args(RuleSet)}


def test_what_a_rollback_takes_away_is_not_there_to_be_replaced() -> None:
    """Also for an engine that does not ask for the history."""
    bound = Bound((UPDATE, ROLLBACK), writes=2, upkeep=1, without=frozenset({"history"}))
    out = search(bound)
    assert (
        not out.found
        and out.fired["replaced files"] > search(replace(bound, kinds=(UPDATE,), upkeep=0)).fired["replaced files"]
    )
