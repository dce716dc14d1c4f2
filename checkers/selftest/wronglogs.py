"""Bugs that the ``metadata`` checker must find: wrong logs of a table, main that does not move, expiry of what is young, missing versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Metadata, TableLog
from checkers.selftest.mutation import Mutation, Plant, mutation
from checkers.selftest.world import GONE, Planted, World
from checkers.selftest.wrongmetadata import can_have_made, positions, with_versions

Entries = list[dict[str, Any]]
Damage = Callable[[World, Entries], Entries]


# --- the logs ---------------------------------------------------------------------------------------------------------------


def _log(does: str, log: str, least: int, damage: Damage) -> Plant:
    """The log is damaged in one version; often, later versions go on with it."""

    def plant(w: World) -> Planted | None:
        for t, k in positions(w):
            n = t.at(k)
            # The logs of the last versions are all that says whether the table's writers keep one.
            entries = t.log.metadata[n].raw.get(log) or []
            if len(entries) < least or n == len(t.log.metadata) - 1:
                continue
            damaged = damage(w, list(entries))
            carried = w.rng.random() < 0.5

            def change(
                m: Metadata, n: int = n, old: Entries = entries, new: Entries = damaged, on: bool = carried
            ) -> Metadata:
                if m.n != n and (not on or m.raw[log][: len(old)] != old):
                    return m
                return replace(m, raw={**m.raw, log: [*new, *m.raw[log][len(old) :]]})

            return w.planted(t.op(k).op, log=with_versions(t, n, len(t.log.metadata), change))
        return None

    plant.__doc__ = does
    return plant


def _hole(w: World, entries: Entries) -> Entries:
    n = w.rng.randrange(1, len(entries) - 1)
    return [*entries[:n], *entries[n + 1 :]]


def _twice(w: World, entries: Entries) -> Entries:
    n = w.rng.randrange(len(entries))
    return [*entries[: n + 1], *entries[n:]]


def _stranger(w: World, entries: Entries) -> Entries:
    n = w.rng.randrange(len(entries))
    return [*entries[:n], {**entries[n], "snapshot-id": w.rng.randrange(1, 2**62)}, *entries[n + 1 :]]


LOGS: tuple[Mutation, ...] = tuple(
    mutation(name, "metadata", *finds, seen=seen)(_log(does, log, least, damage))
    for name, log, least, does, damage, finds, seen in (
        (
            "metadata-log-truncated",
            "metadata-log",
            3,
            "A version forgets the oldest versions before it, though its log is not full.",
            lambda w, x: x[w.rng.randrange(1, len(x)) :],
            ("metadata-log-mismatch",),
            "https://github.com/apache/iceberg/issues/16942: replace forgets the previous metadata",
        ),
        (
            "metadata-log-with-a-hole",
            "metadata-log",
            3,
            "A version's metadata-log lacks one of the versions before it.",
            _hole,
            ("metadata-log-mismatch",),
            "https://github.com/trinodb/trino/issues/31213: a version that is not in the log counts as never committed",
        ),
        (
            "metadata-log-empty",
            "metadata-log",
            2,
            "A version names no version before it.",
            lambda w, x: [],
            ("metadata-log-mismatch",),
            "https://github.com/apache/iceberg/issues/16942",
        ),
        (
            "metadata-log-doubled",
            "metadata-log",
            2,
            "A version's metadata-log has an entry twice.",
            _twice,
            ("metadata-log-mismatch",),
            "a commit that a client sent twice",
        ),
        (
            "snapshot-log-empty",
            "snapshot-log",
            2,
            "A version has forgotten which snapshots were current.",
            lambda w, x: [],
            ("snapshot-log",),
            "https://github.com/projectnessie/nessie/issues/9634: the server shows the history of one snapshot",
        ),
        (
            "snapshot-log-without-its-last-entry",
            "snapshot-log",
            2,
            "A version's snapshot-log does not say that its snapshot became current.",
            lambda w, x: x[:-1],
            ("snapshot-log",),
            "https://github.com/apache/iceberg/pull/4090: intermediate snapshots in the log",
        ),
        (
            "snapshot-log-with-a-hole",
            "snapshot-log",
            3,
            "A version's snapshot-log lacks a snapshot that was current, so that time travel returns an older one.",
            _hole,
            ("snapshot-log",),
            "TableMetadata.updateSnapshotLog: history gaps cause incorrect time travel",
        ),
        (
            "snapshot-log-of-strangers",
            "snapshot-log",
            2,
            "A version's snapshot-log names a snapshot that never was.",
            _stranger,
            ("snapshot-log",),
            "https://github.com/apache/iceberg/pull/4090",
        ),
        (
            "snapshot-log-reversed",
            "snapshot-log",
            2,
            "A version's snapshot-log is in the opposite order.",
            lambda w, x: x[::-1],
            ("snapshot-log",),
            "TableMetadata: Expected sorted snapshot log entries",
        ),
    )
)


# --- main -------------------------------------------------------------------------------------------------------------------


@mutation(
    "main-left-at-the-parent",
    "metadata",
    "main-not-moved",
    seen="SnapshotProducer.stageOnly: a snapshot that is added and not made current",
)
def main_left(w: World) -> Planted | None:
    """A version adds an acknowledged snapshot and leaves main at its parent; the next commit's version has both."""
    for t, k in positions(w):
        if k == len(t.main) or t.op(k).type != "ok":
            continue
        s, parent, child = t.main[k - 1].snapshot_id, t.main[k - 2].snapshot_id, t.at(k + 1)

        def change(m: Metadata, s: int = s, parent: int = parent, child: int = child) -> Metadata:
            log = [x for x in m.raw.get("snapshot-log") or () if x["snapshot-id"] != s]
            m = replace(m, raw={**m.raw, "snapshot-log": log})
            return m if m.n >= child else replace(m, current=parent, refs={**m.refs, "main": parent})

        return w.planted(t.op(k).op, log=with_versions(t, t.at(k), len(t.log.metadata), change))
    return None


# --- expiry -----------------------------------------------------------------------------------------------------------------


@mutation(
    "expired-too-young",
    "metadata",
    "retention",
    seen="https://github.com/apache/iceberg-go/pull/716: expiry and the table it saw",
)
def expired_too_young(w: World) -> Planted | None:
    """Expiry removes snapshots that are not older than it was told."""
    cuts = ((t, v.metadata.n) for t in w.tables for v in t.versions if v.dropped and v.commit is None)
    for t, n in w.shuffled(cuts):
        gone = [c for c in t.main if c.snapshot_id in t.versions[n].dropped]
        expiries = [o for o in w.operations.values() if o.f == "expire-snapshots" and o.table == t.name]
        age = min((c.timestamp_ms for c in w.rng.sample(gone, min(3, len(gone)))), default=None)
        if age is None:
            continue
        said = datetime.fromtimestamp(age / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        mine = {o.op for o in expiries}
        events = [
            replace(e, extra={**e.extra, "older_than": said}) if e.op in mine and e.type == "invoke" else e
            for e in w.events
        ]
        culprits = [o.op for o in expiries if can_have_made(t, o, n)]
        if len(culprits) == 1:
            return w.planted(culprits[0], events=events)
    return None


@mutation(
    "expired-snapshot-is-back",
    "metadata",
    "returned-snapshot",
    seen="a commit from a cached version of the table, after an expiry: https://github.com/apache/iceberg/issues/16232",
)
def expired_is_back(w: World) -> Planted | None:
    """A write lists a snapshot again that an expiry had dropped; often, only in its own version."""
    for t, k in positions(w):
        n = t.at(k)
        gone = [s for v in t.versions[:n] for s in v.dropped]
        if gone:
            back = w.rng.choice(gone)
            last = n if w.rng.random() < 0.5 else len(t.log.metadata)
            change = lambda m, s=back: replace(m, snapshots=(s, *m.snapshots))  # noqa: E731
            return w.planted(t.op(k).op, log=with_versions(t, n, last, change))
    return None


# --- times ------------------------------------------------------------------------------------------------------------------


def _times(does: str, log: str, damage: Damage) -> Plant:
    """A log has other times from a version on, or in that version only."""

    def plant(w: World) -> Planted | None:
        for t, k in positions(w):
            n = t.at(k)
            entries = t.log.metadata[n].raw.get(log) or []
            if len(entries) < 3 or n == len(t.log.metadata) - 1:
                continue
            entry = entries[0]
            (other,) = damage(w, [entry])
            change = lambda m, a=entry, b=other: replace(  # noqa: E731
                m, raw={**m.raw, log: [b if x == a else x for x in m.raw[log]]}
            )
            last = n if w.rng.random() < 0.5 else len(t.log.metadata)
            return w.planted(t.op(k).op, log=with_versions(t, n, last, change))
        return None

    plant.__doc__ = does
    return plant


def _later(w: World, entries: Entries) -> Entries:
    return [{**x, "timestamp-ms": x["timestamp-ms"] + w.rng.randrange(1, 5000)} for x in entries]


SORTED = "TableMetadata: Expected sorted snapshot log entries"
TIMES: tuple[Mutation, ...] = tuple(
    mutation(name, "metadata", "timestamp-order", seen=SORTED)(_times(does, log, _later))
    for name, log, does in (
        (
            "snapshot-log-entry-of-another-time",
            "snapshot-log",
            "A version says another time for when an old snapshot became current: a query AS OF a time finds another snapshot.",
        ),
        (
            "metadata-log-entry-of-another-time",
            "metadata-log",
            "A version says another time for a version before it.",
        ),
    )
)


@mutation("version-before-its-time", "metadata", "timestamp-order", seen="TableMetadata: Invalid update timestamp")
def version_before(w: World) -> Planted | None:
    """A version is stamped more than a minute before the last entries of its logs: no reader accepts it."""
    for t, k in positions(w):
        n = t.at(k)
        entries = t.log.metadata[n].raw.get("metadata-log") or []
        if entries:
            time = entries[-1]["timestamp-ms"] - 60_000 - w.rng.randrange(1, 10**6)
            return w.planted(t.op(k).op, log=with_versions(t, n, n, lambda m: replace(m, last_updated_ms=time)))  # noqa: B023
    return None


# --- evidence that is gone --------------------------------------------------------------------------------------------------


@mutation("snapshot-without-a-commit", "metadata", seen="a table log of which lines are lost")
def snapshot_without_commit(w: World) -> Planted | None:
    """A version lists a snapshot that the table log does not describe."""
    for t, k in positions(w):
        if k == len(t.main):
            nowhere = w.rng.randrange(1, 2**62)
            change = lambda m: replace(m, snapshots=(*m.snapshots, nowhere))  # noqa: B023, E731
            return w.planted(log=with_versions(t, t.at(k), len(t.log.metadata), change), nobody=GONE)
    return None


@mutation("version-missing-from-the-log", "metadata", seen="a table log of which lines are lost")
def version_missing(w: World) -> Planted | None:
    """A version between two others is not in the table log, which says that it is complete."""
    for t, k in positions(w):
        n = t.at(k)
        if 0 < n < len(t.log.metadata) - 1 and t.log.metadata[n + 1].raw.get("metadata-log"):
            return w.planted(log=_without(t.log, n), nobody=GONE)
    return None


def _without(log: TableLog, n: int) -> TableLog:
    """The log without a version; its snapshot is first shown by the next one."""
    metadata = tuple(replace(m, n=m.n - (m.n > n)) for m in log.metadata if m.n != n)
    return replace(
        log, metadata=metadata, commits=tuple(replace(c, metadata=c.metadata - (c.metadata > n)) for c in log.commits)
    )


MUTATIONS: tuple[Mutation, ...] = (
    *LOGS,
    main_left,
    expired_too_young,
    expired_is_back,
    *TIMES,
    version_before,
    snapshot_without_commit,
    version_missing,
)
