"""Rules about the files that versions add and remove, and about what repeats the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.formats.delta.protocol.rules import BrokenProtocol
from checkers.formats.delta.records import DeltaMetadata, DerivedFile, LogicalFile, logical_file

Live = dict[LogicalFile, Mapping[str, Any]]


class LogReplay:
    """The log, action by action: what is in the table, and what breaks a rule on the way.

    Args:
        rows: data file → the number of its rows.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._rows = rows
        self.live: Live = {}
        self.metadata: Mapping[str, Any] = {}
        self.protocol: Mapping[str, Any] = {}
        self.transactions: dict[str, int] = {}
        self._paths: Counter[str] = Counter()

    def take(self, m: DeltaMetadata) -> Iterator[BrokenProtocol]:
        """Apply a version."""
        v, adds, removes = (m.version,), [*m.of("add")], [*m.of("remove")]
        both = {logical_file(f) for f in adds} & {logical_file(f) for f in removes}
        for path, _ in sorted(both, key=str):
            yield BrokenProtocol("added-and-removed", f"version {m.version} adds and removes {path}", v, (path,))
        changed = {str(f.get("path")) for f in (*adds, *removes)}
        for fields in removes:
            yield from self._removed(m, fields)
        seen: set[LogicalFile] = set()
        for fields in adds:
            yield from self._added(m, fields, seen)
        for path in sorted(changed):
            if self._paths[path] > 1:
                text = f"after version {m.version} {path} is in the table {self._paths[path]} times, each with another deletion vector"
                yield BrokenProtocol("several-vectors", text, v, (path,))
        self.metadata = next(m.of("metaData"), self.metadata)
        self.protocol = next(m.of("protocol"), self.protocol)

    def _removed(self, m: DeltaMetadata, fields: Mapping[str, Any]) -> Iterator[BrokenProtocol]:
        file = logical_file(fields)
        if self.live.pop(file, None) is not None:
            self._paths[file[0]] -= 1
        else:
            verb = "removes" if fields.get("dataChange", True) else "rewrites"
            text = f"version {m.version} {verb} {_named(file)}, which is not in the table then"
            yield BrokenProtocol("removed-twice", text, (m.version,), file[:1])

    def _added(self, m: DeltaMetadata, fields: Mapping[str, Any], seen: set[LogicalFile]) -> Iterator[BrokenProtocol]:
        file, vector = logical_file(fields), fields.get("deletionVector")
        if file in seen or (file in self.live and fields.get("dataChange", True)):
            text = f"version {m.version} adds {_named(file)}, which is in the table already"
            yield BrokenProtocol("added-twice", text, (m.version,), file[:1])
        seen.add(file)
        if file not in self.live:
            self._paths[file[0]] += 1
        self.live[file] = fields
        rows = self._rows.get(file[0])
        if vector and rows is not None and vector.get("cardinality", 0) > rows:
            text = f"version {m.version} gives {file[0]}, which has {rows} rows, a deletion vector of {vector['cardinality']}"
            yield BrokenProtocol("vector-too-long", text, (m.version,), file[:1])


def _named(file: LogicalFile) -> str:
    return file[0] if file[1] is None else f"{file[0]} with the deletion vector {file[1]}"


def repeated(replay: LogReplay, m: DeltaMetadata) -> Iterator[BrokenProtocol]:
    """Checkpoints and checksums of a version that say something else than the versions up to it."""
    for d in m.derived:
        if d.problem is None and d.kind != "compacted":
            name = f"{d.kind}-unlike"
            for what in _differences(d, replay):
                yield BrokenProtocol(name, f"{d.file} {what}", (m.version,), (d.file,))


def _differences(d: DerivedFile, replay: LogReplay) -> Iterator[str]:
    """In which respects it differs from the log."""
    if d.live is not None:
        derived, live = {*d.live}, {*replay.live}
        if lacking := sorted(live - derived, key=str):
            yield f"lacks {len(lacking)} of the {len(live)} files of the table, such as {_named(lacking[0])}"
        if more := sorted(derived - live, key=str):
            yield f"has {len(more)} files that are not in the table, such as {_named(more[0])}"
    if d.files is not None and d.files != len(replay.live):
        yield f"says {d.files} files, and the table has {len(replay.live)}"
    sizes = [f.get("size") for f in replay.live.values()]
    if d.bytes is not None and all(isinstance(n, int) for n in sizes):
        total = sum(n for n in sizes if isinstance(n, int))
        if d.bytes != total:
            yield f"says {d.bytes} bytes, and the files of the table have {total}"
    if d.metadata is not None and (key := _first_unlike(d.metadata, replay.metadata)) is not None:
        yield f"has another {key} than the table's metaData"
    if d.protocol is not None and (key := _first_unlike(d.protocol, replay.protocol)) is not None:
        yield f"has another {key} than the table's protocol"
    if d.transactions is not None and d.transactions != replay.transactions:
        yield f"says the versions of applications {d.transactions}, and the log {replay.transactions}"


def _first_unlike(derived: Mapping[str, Any], live: Mapping[str, Any]) -> str | None:
    """The first key in which two actions differ, where lists are sets and what is empty is absent."""

    def plain(value: Any) -> Any:
        return (sorted(value, key=str) if isinstance(value, list | tuple) else value) or None

    return next((k for k in derived if plain(derived[k]) != plain(live.get(k))), None)


def compacted(versions: Sequence[DeltaMetadata]) -> Iterator[BrokenProtocol]:
    """Compacted logs that have other files than their own versions leave."""
    for m in versions:
        for d in m.derived:
            if d.kind != "compacted" or d.problem is not None or d.since is None or d.live is None:
                continue
            own = LogReplay({})
            for other in versions:
                if d.since <= other.version <= m.version:
                    [*own.take(other)]
            if {*d.live} != {*own.live}:
                text = f"{d.file} has {len(d.live)} files, and the versions {d.since} to {m.version} leave {len(own.live)} of theirs"
                yield BrokenProtocol("compacted-unlike", text, (m.version,), (d.file,))
