"""Bugs that the ``metadata`` checker must find: wrong logs of a table, main that does not move, expiry of what is young, missing versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.formats.iceberg.records import iceberg_log
from checkers.selftest.plant import Plant, Plants, table, whole
from checkers.selftest.sites import CommitSite, later, pick
from checkers.selftest.world import GONE, Planted, World

YEAR = 365 * 24 * 3600 * 1000
"""In ms."""
SORTED = "TableMetadata: Expected sorted snapshot log entries"
Entries = list[dict[str, Any]]
Damage = Callable[[Random, Entries], Entries]


# --- the logs ---------------------------------------------------------------------------------------------------------------


def log_with(log: str, least: int, damage: Damage) -> Callable[[CommitSite], Planted | None]:
    """The log is damaged in one version; often, later versions go on with it."""

    def plant(p: CommitSite) -> Planted | None:
        # The logs of the last versions are all that says whether the table's writers keep one.
        old = p.m.raw.get(log) or []
        if len(old) < least or p.n == len(p.t.log.metadata) - 1:
            return None
        new = damage(p.w.rng, list(old))
        carried = p.w.rng.random() < 0.5

        def change(m: Metadata) -> Metadata:
            if m.n != p.n and (not carried or m.raw[log][: len(old)] != old):
                return m
            return replace(m, raw={**m.raw, log: [*new, *m.raw[log][len(old) :]]})

        return p.versions(change)

    return plant


def hole(rng: Random, entries: Entries) -> Entries:
    """One in the middle is missing."""
    n = rng.randrange(1, len(entries) - 1)
    return [*entries[:n], *entries[n + 1 :]]


def twice(rng: Random, entries: Entries) -> Entries:
    """One is there twice."""
    n = rng.randrange(len(entries))
    return [*entries[: n + 1], *entries[n:]]


def stranger(rng: Random, entries: Entries) -> Entries:
    """One names another snapshot."""
    n = rng.randrange(len(entries))
    return [*entries[:n], {**entries[n], "snapshot-id": rng.randrange(1, 2**62)}, *entries[n + 1 :]]


def time_of_the_first(log: str) -> Callable[[CommitSite], Planted | None]:
    """The first entry of a log has another time from a version on, or in that version only."""

    def plant(p: CommitSite) -> Planted | None:
        entries = p.m.raw.get(log) or []
        if len(entries) < 3 or p.n == len(p.t.log.metadata) - 1:
            return None
        a = entries[0]
        b = {**a, "timestamp-ms": a["timestamp-ms"] + p.w.rng.randrange(1, 5000)}

        def change(m: Metadata) -> Metadata:
            return replace(m, raw={**m.raw, log: [b if x == a else x for x in m.raw[log]]})

        return p.versions(change, until=p.often())

    return plant


def version_before(p: CommitSite) -> Planted | None:
    """A version is stamped more than a minute before the last entries of its logs: no reader accepts it."""
    entries = p.m.raw.get("metadata-log")
    if not entries:
        return None
    time = entries[-1]["timestamp-ms"] - 60_000 - p.w.rng.randrange(1, 10**6)
    return p.version(lambda m: replace(m, last_updated_ms=time))


def snapshot_of_another_year(p: CommitSite) -> Planted | None:
    """A snapshot is stamped a year before or after its entry in the log."""
    if p.t.log.metadata[p.n].raw.get("snapshot-log", [{}])[-1].get("snapshot-id") != p.c.snapshot_id:
        return None
    return p.changed(timestamp_ms=p.c.timestamp_ms + p.w.rng.choice([-YEAR, YEAR]))


def entry_before_its_operation(p: CommitSite) -> Planted | None:
    """The entry of a new snapshot is half a minute early, from its version on or in that only."""

    def changed(x: dict[str, Any]) -> dict[str, Any]:
        return {**x, "timestamp-ms": x["timestamp-ms"] - 30_000} if x["snapshot-id"] == p.c.snapshot_id else x

    def change(m: Metadata) -> Metadata:
        return replace(m, raw={**m.raw, "snapshot-log": [*map(changed, m.raw["snapshot-log"])]})

    return p.versions(change, until=p.often()) if p.m.raw.get("snapshot-log") else None


def version_of_next_year(p: CommitSite) -> Planted | None:
    """A version is stamped a year ahead; the one that was made from it says in its log what it was."""
    after = p.t.log.metadata[p.n + 1 : p.n + 2]
    if not after or not after[0].raw.get("metadata-log"):
        return None
    return p.version(lambda m: replace(m, last_updated_ms=m.last_updated_ms + YEAR))


def moved_in_time(p: CommitSite) -> Planted | None:
    """A snapshot and its version are an hour ahead, and all later versions repeat it: what follows is before it."""
    if not p.m.raw.get("metadata-log") or not p.m.raw.get("snapshot-log") or p.k < 4 or p.last:
        return None
    hour = YEAR // 365 // 24

    def later(x: dict[str, Any]) -> dict[str, Any]:
        own = p.c.snapshot_id == x.get("snapshot-id") or p.m.location == x.get("metadata-file")
        return {**x, "timestamp-ms": x["timestamp-ms"] + hour} if own else x

    def change(m: Metadata) -> Metadata:
        logs = {log: [*map(later, m.raw[log])] for log in ("metadata-log", "snapshot-log")}
        return replace(m, raw={**m.raw, **logs}, last_updated_ms=m.last_updated_ms + (hour if m.n == p.n else 0))

    log = p.t.with_versions(p.n, len(p.t.log.metadata), change)
    c = replace(p.c, timestamp_ms=p.c.timestamp_ms + hour)
    commits = tuple(c if x.snapshot_id == c.snapshot_id else x for x in log.commits)
    return p.planted(log=replace(log, commits=commits))


def last_version_of_next_year(p: CommitSite) -> Planted | None:
    """The last version is stamped far ahead, and no later one repeats its time."""
    if p.n != len(p.t.log.metadata) - 1:
        return None
    ahead = p.w.rng.choice([YEAR, p.w.rng.randrange(YEAR // 100, 10 * YEAR)])
    return p.version(lambda m: replace(m, last_updated_ms=m.last_updated_ms + ahead))


def entry_of_the_version_before(p: CommitSite) -> Planted | None:
    """A version gives the one from which it was made another time than that has, and later ones go on with it or do not."""
    entries = p.m.raw.get("metadata-log")
    if not entries:
        return None
    (*_, a) = entries
    b = {**a, "timestamp-ms": a["timestamp-ms"] + p.w.rng.choice([-1, 1]) * p.w.rng.randrange(1, 5000)}

    def change(m: Metadata) -> Metadata:
        return replace(m, raw={**m.raw, "metadata-log": [b if x == a else x for x in m.raw["metadata-log"]]})

    return p.versions(change, until=p.often())


METADATA_LOGS: Plants = {
    "metadata-log-truncated: A version forgets the oldest versions before it, though its log is not full.": Plant(
        log_with("metadata-log", 3, lambda rng, x: x[rng.randrange(1, len(x)) :]),
        seen="apache/iceberg#16942: replace forgets the previous metadata",
    ),
    "metadata-log-with-a-hole: A version's metadata-log lacks one of the versions before it.": Plant(
        log_with("metadata-log", 3, hole),
        seen="trinodb/trino#31213: a version that is not in the log counts as never committed",
    ),
    "metadata-log-empty: A version names no version before it.": Plant(
        log_with("metadata-log", 2, lambda rng, x: []), seen="apache/iceberg#16942"
    ),
    "metadata-log-doubled: A version's metadata-log has an entry twice.": Plant(
        log_with("metadata-log", 2, twice), seen="a commit that a client sent twice"
    ),
}

SNAPSHOT_LOGS: Plants = {
    "snapshot-log-empty: A version has forgotten which snapshots were current.": Plant(
        log_with("snapshot-log", 2, lambda rng, x: []),
        seen="projectnessie/nessie#9634: the server shows the history of one snapshot",
    ),
    "snapshot-log-without-its-last-entry: A version's snapshot-log does not say that its snapshot became current.": Plant(
        log_with("snapshot-log", 2, lambda rng, x: x[:-1]),
        seen="apache/iceberg#4090: intermediate snapshots in the log",
    ),
    "snapshot-log-with-a-hole: A version's snapshot-log lacks a snapshot that was current, so that time travel returns an older one.": Plant(
        log_with("snapshot-log", 3, hole),
        seen="TableMetadata.updateSnapshotLog: history gaps cause incorrect time travel",
    ),
    "snapshot-log-of-strangers: A version's snapshot-log names a snapshot that never was.": Plant(
        log_with("snapshot-log", 2, stranger), seen="apache/iceberg#4090"
    ),
    "snapshot-log-reversed: A version's snapshot-log is in the opposite order.": Plant(
        log_with("snapshot-log", 2, lambda rng, x: x[::-1]), seen=SORTED
    ),
}

TIMES: Plants = {
    "snapshot-log-entry-of-another-time": Plant(
        time_of_the_first("snapshot-log"),
        does="A version says another time for when an old snapshot became current: a query AS OF a time finds another snapshot.",
    ),
    "metadata-log-entry-of-another-time: A version says another time for a version before it.": Plant(
        time_of_the_first("metadata-log")
    ),
    "version-before-its-time": Plant(version_before, seen="TableMetadata: Invalid update timestamp"),
    "snapshot-of-another-year: A snapshot is stamped a year before or after it became current: expiry by age takes it, or never does.": Plant(
        snapshot_of_another_year, seen="TableMetadata.Builder.setRef: the entry of a new snapshot has its time"
    ),
    "snapshot-log-entry-before-its-operation": Plant(
        entry_before_its_operation,
        does="A snapshot became current half a minute before it was made: a query AS OF a time returns rows that nobody had written.",
        seen="TableMetadata.Builder.setRef: the entry of a new snapshot has its time",
    ),
    "version-of-next-year: A version is stamped a year ahead, and the next one's log has its right time.": Plant(
        version_of_next_year, seen="TableMetadata: Invalid update timestamp"
    ),
    "snapshot-an-hour-ahead": Plant(
        moved_in_time, seen="a writer whose clock jumps; TableMetadata: Invalid update timestamp"
    ),
    "last-version-of-next-year": Plant(last_version_of_next_year, seen="TableMetadata: Invalid update timestamp"),
    "metadata-log-entry-of-another-time-than-its-version: A version says another time for the one from which it was made.": Plant(
        entry_of_the_version_before, seen="TableMetadata.addPreviousFile: the last-updated-ms of the base"
    ),
}


# --- main, and expiry -------------------------------------------------------------------------------------------------------


def main_left(p: CommitSite) -> Planted:
    """A version adds an acknowledged snapshot and leaves main at its parent; the next commit's version has both."""
    s, parent, child = p.c.snapshot_id, p.parent.snapshot_id, p.t.version_of(p.k + 1)

    def change(m: Metadata) -> Metadata:
        log = [x for x in m.raw.get("snapshot-log") or () if x["snapshot-id"] != s]
        m = replace(m, raw={**m.raw, "snapshot-log": log})
        return m if m.n >= child else replace(m, current=parent, refs={**m.refs, "main": parent})

    return p.versions(change)


def expired_too_young(w: World) -> Planted | None:
    """Expiry removes snapshots that are not older than it was told."""
    cuts = ((t, v) for t in w.tables for v in t.versions if v.dropped and v.commit is None)
    for t, v in w.shuffled(cuts):
        dropped = [c for c in t.main if c.snapshot_id in v.dropped]
        age = min((c.timestamp_ms for c in w.rng.sample(dropped, min(3, len(dropped)))), default=None)
        culprits = t.expiries_at(v.metadata.n)
        if age is None or len(culprits) != 1:
            continue
        limit = datetime.fromtimestamp(age / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        expiries = {o.op for o in t.expiries}
        events = [
            replace(e, extra={**e.extra, "older_than": limit}) if e.op in expiries and e.type == "invoke" else e
            for e in w.events
        ]
        return w.planted(culprits[0], events=events)
    return None


MAIN_PLANTS: Plants = {
    "main-left-at-the-parent": Plant(
        main_left,
        "main-not-moved",
        where=later(lambda p: not p.last and p.o.type == "ok"),
        seen="SnapshotProducer.stageOnly: a snapshot that is added and not made current",
    ),
    "expired-too-young": Plant(
        expired_too_young, "retention", where=whole, seen="apache/iceberg-go#716: expiry and the table it saw"
    ),
    "expired-snapshot-is-back: A write lists a snapshot again that an expiry had dropped; often, only in its own version.": Plant(
        pick(
            lambda p: (s for v in p.t.versions[: p.n] for s in v.dropped),
            lambda p, s: p.versions(lambda m: replace(m, snapshots=(s, *m.snapshots)), until=p.often()),
        ),
        "returned-snapshot",
        where=later(),
        seen="a commit from a cached version of the table, after an expiry: apache/iceberg#16232",
    ),
}


# --- evidence that is gone --------------------------------------------------------------------------------------------------


def without_commit(p: CommitSite) -> Planted:
    """A version lists a snapshot that the table log does not describe."""
    nowhere = p.w.rng.randrange(1, 2**62)
    bug = p.versions(lambda m: replace(m, snapshots=(*m.snapshots, nowhere)))
    return p.w.planted(log=iceberg_log(bug.evidence.logs[p.t.name]), nobody=GONE)


def version_missing(p: CommitSite) -> Planted | None:
    """A version between two others is not in the table log, which says that it is complete."""
    n, log = p.n, p.t.log
    if not 0 < n < len(log.metadata) - 1 or not log.metadata[n + 1].raw.get("metadata-log"):
        return None
    metadata = tuple(replace(m, n=m.n - (m.n > n)) for m in log.metadata if m.n != n)
    commits = tuple(replace(c, metadata=c.metadata - (c.metadata > n)) for c in log.commits)  # shown by the next one
    return p.w.planted(log=replace(log, metadata=metadata, commits=commits), nobody=GONE)


LINES: Plants = {
    "snapshot-without-a-commit": Plant(without_commit, where=later(lambda p: p.last)),
    "version-missing-from-the-log": Plant(version_missing, where=later()),
}


PLANTS = (
    *table(METADATA_LOGS, "metadata", names="metadata-log-mismatch", where=later()),
    *table(SNAPSHOT_LOGS, "metadata", names="snapshot-log", where=later()),
    *table(MAIN_PLANTS, "metadata"),
    *table(TIMES, "metadata", names="timestamp-order", where=later(), seen=SORTED),
    *table(LINES, "metadata", names="", seen="a table log of which lines are lost"),
)
