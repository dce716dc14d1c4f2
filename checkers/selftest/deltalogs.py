"""Bugs that the ``protocol`` checker must find: logs of Delta tables that break Delta's protocol.

Rows do not change, but where the bug is about rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import RowChange
from checkers.formats.delta.records import (
    DerivedFile,
    logical_file,
)
from checkers.selftest.deltafeatures import (
    at_columns,
    at_rows,
    at_time,
    watermark,
    with_column,
    with_row_id,
    with_time,
)
from checkers.selftest.deltasites import Actions, DeltaSite, creations, every_version
from checkers.selftest.plant import Plant, table
from checkers.selftest.world import GONE, Planted

DELTA_PROTOCOL = "https://github.com/delta-io/delta/blob/v4.4.0/PROTOCOL.md"


def _adding(**fields: Any) -> Callable[[DeltaSite], Planted | None]:
    """Adds an action to a version."""
    return lambda s: s.acting(lambda a: [*a, fields])


# --- versions -------------------------------------------------------------------------------------------------------------


def gap(s: DeltaSite) -> Planted:
    """A version's number is left out."""
    return s.versions(m if m.n < s.n else replace(m, version=m.version + 1) for m in s.log.metadata)


def late_start(s: DeltaSite) -> Planted:
    """The log begins at version 1."""
    return s.versions(replace(m, version=m.version + 1) for m in s.log.metadata)


def replaced(s: DeltaSite) -> Planted:
    """A writer wrote a version's file again, and another operation's commit is gone."""
    text = f"version {s.m.version} has another content than when it was read first"
    problem = Problem("written-over", text, f"_delta_log/{s.m.version:020}.json", s.m.version)
    return s.planted(replace(s.log, problems=(*s.log.problems, problem)))


def unreadable(s: DeltaSite) -> Planted | None:
    """A version's file is torn."""
    if s.c is None:
        return None
    problem = Problem("corrupt-file", "line 2 is no JSON", "x.json", s.m.version, "version")
    commits = tuple(replace(c, problems=(problem,)) if c is s.c else c for c in s.log.commits)
    return s.planted(replace(s.log, commits=commits))


# --- files ----------------------------------------------------------------------------------------------------------------


def added_and_removed(s: DeltaSite) -> Planted | None:
    """A version removes a file that it adds."""
    adds = s.named("add")
    return (
        s.acting(lambda a: [*a, {"remove": {"path": adds[0]["path"], "dataChange": True}}])
        if adds and not adds[0].get("deletionVector")
        else None
    )


def added_again(s: DeltaSite) -> Planted | None:
    """A version adds a file that is in the table."""
    removed = {f["path"] for f in s.named("remove")}
    live = [f for f in s.live_before if f["path"] not in removed]
    return s.acting(lambda a: [*a, {"add": {**live[0], "dataChange": True}}]) if live else None


def added_two_times(s: DeltaSite) -> Planted | None:
    """A version adds a file two times."""
    adds = s.named("add")
    return s.acting(lambda a: [*a, {"add": adds[-1]}]) if adds else None


def removed_before(s: DeltaSite) -> Planted | None:
    """A version removes a file that an earlier one removed."""
    removed = [f for f in s.earlier("remove") if logical_file(f) not in {logical_file(x) for x in s.live_before}]
    return s.acting(lambda a: [*a, {"remove": removed[-1]}]) if removed else None


def compacted_before(s: DeltaSite) -> Planted | None:
    """Two compactions rewrite the same file: delta-rs does not see that the other one removed it."""
    removed = [f for f in s.earlier("remove") if logical_file(f) not in {logical_file(x) for x in s.live_before}]
    return s.acting(lambda a: [*a, {"remove": {**removed[0], "dataChange": False}}]) if removed else None


def old_vector_kept(s: DeltaSite) -> Planted | None:
    """A version gives a file a vector, and does not remove its entry without it."""
    new = {f["path"] for f in s.named("add") if f.get("deletionVector")}
    return s.acting(lambda a: [x for x in a if not (x.get("remove") and x["remove"]["path"] in new)]) if new else None


def vector_too_long(s: DeltaSite) -> Planted | None:
    """A vector marks more rows than its file has."""
    if not any(f.get("deletionVector") for f in s.named("add")):
        return None

    def longer(a: Actions) -> Actions:
        for x in a:
            if x.get("add", {}).get("deletionVector"):
                x["add"]["deletionVector"]["cardinality"] = 1_000_000
        return a

    return s.acting(longer)


def row_back(s: DeltaSite) -> Planted | None:
    """A version's vector no longer has a row that an earlier one marked."""
    if s.c is None:
        return None
    hidden = [r for c in s.log.commits if c.metadata < s.n for r in c.removed or () if r.by is not None]
    if not hidden:
        return None
    back = RowChange(hidden[-1].row, hidden[-1].file, hidden[-1].pos, hidden[-1].by)
    commits = tuple(replace(c, added=(*(c.added or ()), back)) if c is s.c else c for c in s.log.commits)
    return s.planted(replace(s.log, commits=commits))


# --- protocol and metadata ------------------------------------------------------------------------------------------------


def without(name: str) -> Callable[[DeltaSite], Planted | None]:
    """Takes the actions of a name out of a version."""
    return lambda s: s.acting(lambda a: [x for x in a if name not in x])


def doubled(name: str) -> Callable[[DeltaSite], Planted | None]:
    """Repeats an action of a name in a version; of metadata and protocol, the table's."""

    def change(s: DeltaSite) -> Planted | None:
        own = s.named(name) or [*s.earlier(name)[-1:]]
        return s.acting(lambda a: [x for x in a if name not in x] + [{name: own[0]}, {name: own[0]}]) if own else None

    return change


def feature_forgotten(s: DeltaSite) -> Planted | None:
    """The protocol of a table with deletion vectors does not name the feature."""
    if not any(f.get("deletionVector") for m in s.log.metadata for f in m.of("add")):
        return None
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["appendOnly"]}
    return s.acting(lambda a: [x for x in a if "protocol" not in x] + [{"protocol": protocol}])


def feature_not_named(name: str) -> Callable[[DeltaSite], Planted | None]:
    """Turns a property on whose feature the protocol does not name."""

    def change(s: DeltaSite) -> Planted | None:
        metadata, protocol = s.earlier("metaData"), s.earlier("protocol")
        if not metadata or protocol[-1].get("minWriterVersion", 0) < 7:
            return None
        own = {**metadata[-1], "configuration": {**metadata[-1]["configuration"], name: "true"}}
        m = replace(s.m, actions=(*s.m.actions, {"metaData": own}), configuration={**s.m.configuration, name: "true"})
        return s.put(m)

    return change


def other_table(s: DeltaSite) -> Planted | None:
    """A version gives the table another id: somebody dropped the folder and made a table there again."""
    metadata = s.earlier("metaData")
    return (
        s.acting(lambda a: [*a, {"metaData": {**metadata[-1], "id": "00000000-0000-0000-0000-000000000000"}}])
        if metadata
        else None
    )


# --- commitInfo and transactions ------------------------------------------------------------------------------------------


def other_operation(s: DeltaSite) -> Planted | None:
    """``commitInfo`` says another statement than was executed."""
    return (
        s.saying(operation="RESTORE") if s.m.info.get("operation") in ("WRITE", "UPDATE", "DELETE", "MERGE") else None
    )


def miscounted(operation: str, metric: str) -> Callable[[DeltaSite], Planted | None]:
    """``commitInfo`` counts one row more."""

    def change(s: DeltaSite) -> Planted | None:
        metrics = s.m.info.get("operationMetrics") or {}
        if s.m.info.get("operation") != operation or not str(metrics.get(metric, "")).isdecimal() or s.c is None:
            return None
        return (
            None
            if operation == "WRITE" and s.c.removed
            else s.saying(operationMetrics={**metrics, metric: str(int(metrics[metric]) + 1)})
        )

    return change


def blind_rewrite(s: DeltaSite) -> Planted | None:
    """A version that removes files calls itself a blind append."""
    return s.saying(isBlindAppend=True) if s.named("remove") else None


def same_transaction(s: DeltaSite) -> Planted | None:
    """The reply of a commit was lost, and its client made the next version, too."""
    return s.saying(txnId=s.log.metadata[s.n - 1].info.get("txnId"))


def application_back(s: DeltaSite) -> Planted | None:
    """A streaming writer commits a batch that is in the table."""
    txn = {"txn": {"appId": "stream", "version": 7}}
    versions = [*s.log.metadata]
    for n in (s.n - 1, s.n):
        versions[n] = replace(versions[n], actions=(*versions[n].actions, txn))
    return s.versions(versions)


# --- what repeats the log -------------------------------------------------------------------------------------------------


def _checkpoint(s: DeltaSite, **changes: Any) -> DerivedFile:
    """A checkpoint of a version, as a correct writer makes it, with these changes."""
    after = DeltaSite(s.w, s.log, s.n + 1)
    whole = DerivedFile(
        kind="checkpoint",
        file=f"{s.m.version:020}.checkpoint.parquet",
        live=tuple(logical_file(f) for f in after.live_before),
        transactions={},
    )
    return replace(whole, **changes)


def repeating(change: Callable[[DeltaSite, DerivedFile], DerivedFile | None]) -> Callable[[DeltaSite], Planted | None]:
    """Gives a version a wrong checkpoint."""

    def plant(s: DeltaSite) -> Planted | None:
        found = change(s, _checkpoint(s))
        return None if found is None else s.derived(found)

    return plant


def torn(s: DeltaSite) -> Planted:
    """A checkpoint cannot be read."""
    put = s.derived(_checkpoint(s, problem="torn"))
    return replace(put, ops=frozenset(), culprit=None, nobody=GONE)


def _of_last(s: DeltaSite, name: str, **changes: Any) -> dict[str, Any]:
    return {**[*s.earlier(name)][-1], **changes}


def _sums(s: DeltaSite, *, files: int = 0, size: int = 0) -> DerivedFile:
    live = DeltaSite(s.w, s.log, s.n + 1).live_before
    total = sum(f["size"] for f in live)
    return DerivedFile("checksum", f"{s.m.version:020}.crc", files=len(live) + files, bytes=total + size)


PLANTS: tuple[Plant[Any], ...] = table(
    {
        "version-left-out": Plant(gap, "version-gap"),
        "log-begins-late": Plant(late_start, "version-gap", creations),
        "version-written-again": Plant(
            replaced, "version-replaced", seen="delta-io/delta#1830: two drivers, one N.json"
        ),
        "version-torn": Plant(unreadable, "version-unreadable"),
        "file-added-and-removed": Plant(
            added_and_removed, "added-and-removed", seen="delta-io/delta 4.3.0: duplicate actions are refused"
        ),
        "file-added-again": Plant(added_again, "added-twice", seen="a lost reply, and the adds are committed again"),
        "file-added-two-times": Plant(added_two_times, "added-twice"),
        "file-removed-again": Plant(removed_before, "removed-twice"),
        "file-compacted-again": Plant(
            compacted_before, "removed-twice", seen="delta-rs 1.6.6: two compactions at once"
        ),
        "old-vector-kept": Plant(old_vector_kept, "several-vectors"),
        "vector-longer-than-its-file": Plant(vector_too_long, "vector-too-long"),
        "deleted-row-visible-again": Plant(
            row_back, "vector-grows-back", seen="delta-io/delta PR 3981: OPTIMIZE misses a concurrent vector"
        ),
        "no-protocol: The first version has no protocol.": Plant(without("protocol"), "protocol-absent", creations),
        "no-metadata: The first version has no metadata.": Plant(without("metaData"), "protocol-absent", creations),
        "protocol-said-twice: A version has two protocols.": Plant(doubled("protocol"), "protocol-twice"),
        "metadata-said-twice: A version has two metadata.": Plant(doubled("metaData"), "protocol-twice"),
        "info-said-twice: A version has two commitInfo.": Plant(doubled("commitInfo"), "protocol-twice"),
        "vectors-without-feature": Plant(feature_forgotten, "feature-absent", creations),
        "row-tracking-without-feature: Row tracking is on, and the protocol does not name it.": Plant(
            feature_not_named("delta.enableRowTracking"),
            "feature-absent",
            seen="delta-io/delta PR 6106: a feature enabled meanwhile",
        ),
        "commit-times-without-feature: In-commit timestamps are on, and the protocol does not name them.": Plant(
            feature_not_named("delta.enableInCommitTimestamps"), "feature-absent"
        ),
        "change-feed-without-feature: The change feed is on, and the protocol does not name it.": Plant(
            feature_not_named("delta.enableChangeDataFeed"), "feature-absent"
        ),
        "column-without-id: A new column has no id.": Plant(at_columns(with_column(-1, id=None)), "column-mapping"),
        "column-id-no-number: A new column has an id that is a text.": Plant(
            at_columns(with_column(-1, id="101")), "column-mapping"
        ),
        "column-id-shared: A new column has the id of another one.": Plant(
            at_columns(with_column(-1, id=1, physical="col-other")), "column-mapping"
        ),
        "physical-name-shared: A new column has the physical name of another one: it shows that one's values.": Plant(
            at_columns(with_column(-1, physical="col-id")), "column-mapping"
        ),
        "column-id-given-again: A new column has an id that was given before: it shows a dropped column's values.": Plant(
            at_columns(with_column(-1, id=50)), "column-mapping"
        ),
        "physical-name-changed: A rename changes the physical name: old files have no values any more.": Plant(
            at_columns(with_column(1, physical="col-renamed")), "column-mapping"
        ),
        "largest-column-id-kept: A new column has an id above the largest one that the table says.": Plant(
            at_columns(lambda fields: None, largest=100), "column-mapping"
        ),
        "largest-column-id-no-number: The largest column id that the table says is no number.": Plant(
            at_columns(lambda fields: None, largest="101.0"), "column-mapping"
        ),
        "table-made-again": Plant(other_table, "table-id-changed"),
        "no-commit-time: A version says no in-commit timestamp.": Plant(
            at_time(lambda m: with_time(m, None)), "commit-time-absent"
        ),
        "commit-time-behind: The time of a version is not in its first action.": Plant(
            at_time(lambda m: replace(m, actions=(*m.actions[1:], m.actions[0]))), "commit-time-absent"
        ),
        "commit-time-equal: A version has the time of the one before it.": Plant(
            at_time(lambda m: with_time(m, 1_000 + 10 * (m.version - 1))), "commit-time-order"
        ),
        "commit-time-back: A version has an earlier time than the one before it.": Plant(
            at_time(lambda m: with_time(m, 1)), "commit-time-order"
        ),
        "no-row-ids: A file has no row ids.": Plant(at_rows(with_row_id(None)), "row-ids-absent"),
        "row-ids-given-again: A file has the row ids of another one.": Plant(
            at_rows(with_row_id(0)), "row-ids-shared", seen="delta-io/delta PR 7506: reassigned row ids"
        ),
        "row-ids-above-the-mark: A file has row ids above the watermark.": Plant(
            at_rows(with_row_id(1_000_000)), "row-id-watermark"
        ),
        "watermark-back: The watermark of row ids goes back.": Plant(
            at_rows(lambda a, mark: [*(x for x in a if "domainMetadata" not in x), watermark(mark - 1)]),
            "row-id-watermark",
            seen="delta-io/delta PR 7506: a stale watermark",
        ),
        "other-operation-said": Plant(other_operation, "operation-unlike"),
        "inserted-rows-miscounted: commitInfo counts a row more than was inserted.": Plant(
            miscounted("WRITE", "numOutputRows"), "metrics-unlike"
        ),
        "deleted-rows-miscounted: commitInfo counts a row more than was deleted.": Plant(
            miscounted("DELETE", "numDeletedRows"), "metrics-unlike"
        ),
        "version-read-later: A version says that it read itself.": Plant(
            lambda s: s.saying(readVersion=s.m.version), "read-version"
        ),
        "blind-rewrite": Plant(blind_rewrite, "blind-append"),
        "transaction-made-twice": Plant(
            same_transaction, "transaction-twice", seen="delta-io/delta PR 7345: lost reply of a commit"
        ),
        "batch-written-again": Plant(application_back, "application-version"),
        "checkpoint-lacks-a-file: A checkpoint lacks a file of the table.": Plant(
            repeating(lambda s, d: replace(d, live=d.live[1:]) if d.live else None),
            "checkpoint-unlike",
            seen="delta-io/delta-kernel-rs #7174: a read error leaves a short checkpoint",
        ),
        "checkpoint-keeps-a-file: A checkpoint has a file that was removed.": Plant(
            repeating(lambda s, d: replace(d, live=(*(d.live or ()), ("gone.parquet", None)))), "checkpoint-unlike"
        ),
        "checkpoint-of-other-metadata: A checkpoint has another schema than the table.": Plant(
            repeating(lambda s, d: replace(d, metadata=_of_last(s, "metaData", schemaString="{}"))), "checkpoint-unlike"
        ),
        "checkpoint-of-other-protocol: A checkpoint has another protocol than the table.": Plant(
            repeating(lambda s, d: replace(d, protocol=_of_last(s, "protocol", minWriterVersion=99))),
            "checkpoint-unlike",
        ),
        "checkpoint-forgets-a-batch: A checkpoint says another version of an application than the log.": Plant(
            repeating(lambda s, d: replace(d, transactions={"stream": 1})), "checkpoint-unlike"
        ),
        "compacted-log-lacks-a-file: A compacted log lacks a file that its versions add.": Plant(
            lambda s: (
                s.derived(_checkpoint(s, kind="compacted", since=s.m.version, live=())) if s.named("add") else None
            ),
            "compacted-unlike",
        ),
        "checksum-of-other-files: A checksum counts a file more than there is.": Plant(
            lambda s: s.derived(_sums(s, files=1)), "checksum-unlike"
        ),
        "checksum-of-other-bytes: A checksum counts other bytes than there are.": Plant(
            lambda s: s.derived(_sums(s, size=9)), "checksum-unlike"
        ),
        "checkpoint-torn": Plant(torn, ""),
    },
    "protocol",
    where=every_version,
    seen=DELTA_PROTOCOL,
    neutral=False,
)
"""Bugs of Delta's logs."""
