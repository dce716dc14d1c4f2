"""Versions in which the rules find nothing, recognised by a few comparisons: most commits add one snapshot and change nothing else.

In a long run nearly every version is such a one, and most values of it are the same objects as in the version before it: the reader of
a table log makes what did not change the same object. So it is enough to look at what a commit must change.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.listed import LISTED_PARTS, REQUIRED, SCHEMAS, STATISTICS, ids_of
from checkers.formats.iceberg.metadata.logs import previous_versions
from checkers.formats.iceberg.metadata.times import ONE_MINUTE
from checkers.formats.iceberg.records import IcebergMetadata as Metadata

UNCHANGED = tuple(
    dict.fromkeys(
        (
            *REQUIRED,
            *(key for x in LISTED_PARTS for key in (x.key, x.default)),
            "properties",
            "location",
            "refs",
            *STATISTICS,
        )
    )
)
"""What a plain version says as its predecessor does: all that rules compare, besides the fields of :class:`Metadata` and the two logs."""


class PlainVersions:
    """Recognises versions that add one snapshot to their predecessor, move main to it and write that into the two logs.

    In such a version, each rule about versions finds nothing and counts nothing:

    * it lists what its predecessor lists and one new snapshot more, which is main's; there is no other ref;
    * its counters do not go down, and its last sequence number is one that the snapshot or its predecessor explains;
    * its schemas, specs, properties and so on are the very objects that its predecessor has, and the snapshot is of the current schema;
    * each log is its predecessor's and one entry: of the predecessor, and of the snapshot. Of the ``metadata-log``, only as many old
      entries are left out as the property allows. The last entry has the time of what it names; it, the one before it and the version are
      in the order of their times.

    It does not know what was due instead of a wrong version: its caller asks only as long as none was found.
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._listed: tuple[tuple[int, ...], set[int]] = (), set()
        """The last version's snapshots, as they are there and as a set."""
        self._last: tuple[Metadata | None, tuple[Any, ...]] = None, ()
        """The last version, and what it says of :data:`UNCHANGED`."""
        self._schemas: tuple[Any, frozenset[int]] = None, frozenset()
        """The last schemas, and their ids."""
        self._most: tuple[Any, int] = (), 0
        """The last properties, and how many entries they let the ``metadata-log`` have."""

    def __call__(self, step: Step) -> bool:
        """Whether it is one."""
        before, m = step.before, step.after
        made = self._chain.commits_of.get(m.n, ())
        if before is None or step.repeated or step.gap or step.passed or m.problems or len(made) != 1:
            return False
        (c,) = made
        new, last = c.snapshot_id, before.last_sequence_number
        if not (
            before.snapshots
            and m.snapshots == (*before.snapshots, new)
            and new == m.current != before.current
            and self._chain.snapshots.get(new) is c
            and m.refs == {"main": new}
            and len(before.refs) == 1
            and "main" in before.refs
            and last <= m.last_sequence_number <= max(c.sequence_number, last + 1)
            and c.sequence_number <= m.last_sequence_number
            and before.format_version == m.format_version
            and (before.next_row_id is None or (m.next_row_id is not None and before.next_row_id <= m.next_row_id))
        ):
            return False
        listed = self._listed[1] if self._listed[0] is before.snapshots else {*before.snapshots}
        listed.add(new)
        self._listed = m.snapshots, listed
        if len(listed) != len(m.snapshots):
            return False
        latest, get = self._last, m.raw.get
        says = tuple(map(get, UNCHANGED))
        self._last = m, says
        return (
            all(map(is_, says, latest[1] if latest[0] is before else map(before.raw.get, UNCHANGED)))
            and (c.schema_id is None or self._current(m, c.schema_id))
            and self._logged(before, m, c.timestamp_ms)
        )

    def _current(self, m: Metadata, schema: int) -> bool:
        schemas = m.raw.get(SCHEMAS.key)
        if self._schemas[0] is not schemas:
            self._schemas = schemas, ids_of(m.raw, SCHEMAS)
        return schema == m.raw.get(SCHEMAS.default) and schema in self._schemas[1]

    def _logged(self, before: Metadata, m: Metadata, snapshot_ms: int) -> bool:
        """Whether each log is the predecessor's and the entry that is due, in the order of times."""
        versions, old = m.raw.get("metadata-log"), before.raw.get("metadata-log")
        snapshots, last = m.raw.get("snapshot-log"), before.raw.get("snapshot-log")
        if not type(versions) is type(old) is type(snapshots) is type(last) is list or not versions or not snapshots:
            return False
        left_out = len(old) + 1 - len(versions)
        if (
            left_out < 0
            or versions[:-1] != old[left_out:]
            or snapshots[:-1] != last
            or (left_out and len(versions) < self._previous_versions(m))
        ):
            return False
        return _entry(versions, "metadata-file", before.location, before.last_updated_ms, m) and _entry(
            snapshots, "snapshot-id", m.current, snapshot_ms, m
        )

    def _previous_versions(self, m: Metadata) -> int:
        properties = m.raw.get("properties")
        if self._most[0] is not properties:
            self._most = properties, previous_versions(m)
        return self._most[1]


def _entry(log: list[Any], key: str, name: Any, due: int, m: Metadata) -> bool:
    """Whether the last entry names this with its time, and it and the version are no older than what came before, but for clocks."""
    last, earlier = log[-1], log[-2] if len(log) > 1 else log[-1]
    if type(last) is not dict or type(earlier) is not dict or last.get(key) != name:
        return False
    time, than = last.get("timestamp-ms"), earlier.get("timestamp-ms")
    return (
        type(time) is type(than) is int
        and time == due
        and time >= than - ONE_MINUTE
        and m.last_updated_ms >= time - ONE_MINUTE
    )
