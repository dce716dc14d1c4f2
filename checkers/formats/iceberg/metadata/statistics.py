"""Whether what manifests say of the values in files is true: planners read only those whose bounds and counts leave room for what they seek.

Each entry of a file has, for each column, a lower and an upper bound and numbers of values, nulls and NaN; each line of a manifest list has
bounds of the partitions of its manifest's files. The reader keeps them beside what the files have. Bounds may be wider than the values, never
narrower, so truncation needs no rule of its own: a truncated lower bound is a prefix, which is lower, and the last character of a truncated
upper bound is raised. Wider bounds cost time; they are counted, unless they are as wide as truncation makes them. Texts are compared by their
UTF-8 bytes, which have the order of code points.

**Planners skip a file** (``InclusiveMetricsEvaluator``; of manifests ``ManifestEvaluator``) whose bounds exclude the value; for ``IS NULL``, if
it has 0 nulls; for anything else, if nulls are all its values; for NaN likewise. A manifest they also skip if it has no bound at all, as then
all its partitions are null. Position delete files they match to data files by the bounds of ``file_path``, equality delete files by those of
their columns (``DeleteFileIndex``): what such a file deletes is there again. DELETE and COUNT trust the same numbers.

Only numbers are NaN: an entry that says so of another column is wrong whatever the file has. Planners ask for the count, not for the type.
Deletes they look for only in the manifests that the list says are of deletes, and data files only in the others.

**Not decided** are: a column of which the entry, or the log, says nothing; values without an order here (UUID, nested columns, nanoseconds); a
bound whose bytes do not fit its type, or that is NaN, which readers ignore; the sign of a zero, as ``-0.0 = 0.0`` in SQL although bounds have
an order there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.metadata.seen import VersionSeen
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.statistics import (
    VALUE_KINDS,
    Bound,
    ColumnStatistics,
    ManifestLine,
    PartitionSummary,
    columns,
    fields,
)
from checkers.timeline import explain

RESERVED_COLUMNS: Mapping[int, str] = {2147483546: "file_path", 2147483545: "pos", 2147483540: "_row_id"}
"""Names of columns that no schema has (spec, "Reserved Field IDs")."""

NEVER_NAN = frozenset({*VALUE_KINDS} - {"f"})
"""Kinds of values that are never NaN."""


def check_statistics(chain: Chain, seen: VersionSeen) -> None:
    """The statistics of every entry and every line of a manifest list that the log has."""
    names: dict[int, str] = {}
    for c in chain.log.commits:
        for f in (*c.added_files, *(c.kept_files or ())):
            if f.columns is None or f.exact is None or f.columns == f.exact:
                continue
            try:
                listed, found = columns(f.columns), columns(f.exact)
            except ValueError:
                seen.doubt(f"{explain.snapshot(c)}: what it says of the columns of {f.path} could not be read")
                continue
            _check_file(chain, seen, c, f, names or _names_into(names, chain), listed, found)
        for line in c.manifests or ():
            if line.partitions and line.found and line.partitions != line.found:
                _check_line(chain, seen, c, line)
        if c.manifests:
            _check_contents(chain, seen, c, c.manifests)


def _names_into(names: dict[int, str], chain: Chain) -> dict[int, str]:
    """Names of the columns, by field id, as the newest schema that has them says."""
    names |= RESERVED_COLUMNS
    for m in chain.log.metadata:
        for schema in m.raw.get("schemas") or ():
            for x in (schema.get("fields") or ()) if isinstance(schema, Mapping) else ():
                if isinstance(x, Mapping) and isinstance(x.get("id"), int):
                    names[x["id"]] = str(x.get("name"))
    return names


# --- files --------------------------------------------------------------------------------------------------------------


def _check_file(
    chain: Chain,
    seen: VersionSeen,
    c: Commit,
    f: FileEntry,
    names: Mapping[int, str],
    listed: Mapping[int, ColumnStatistics],
    found: Mapping[int, ColumnStatistics],
) -> None:
    skipped, wrong, loose = [], [], 0
    for id, s in listed.items():
        has = found.get(id)
        if has is None or s == has:
            continue
        if has.nans is None and has.kind in NEVER_NAN:
            has = has._replace(nans=0)
        name = names.get(id, f"of field id {id}")
        why = [*_skips(s, has)]
        skipped += [f"column {name}: {x}" for x in why]
        if not why:
            wrong += [f"column {name}: {x}" for x in _miscounts(s, has)]
        loose += _wider(s.lower, s.upper, has.lower, has.upper)
    if loose:
        seen.count("loose_statistics", loose)
    who = f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} says of {f.path}, {explain.listing([*skipped, *wrong])}"
    rule, text = "pruned-rows", f"{who}. {_vanish(chain, c, f, names, listed)}"
    if not skipped:
        rule, text = "column-count", f"{who}."
    if skipped or wrong:
        ops = () if c.op is None else (c.op,)
        seen.findings.append(BrokenRule(rule, text, ops=ops, snapshots=(c.snapshot_id,), files=(f.path,)))


def _skips(s: ColumnStatistics, has: ColumnStatistics) -> Iterator[str]:
    """Why a planner skips the file although it has what is looked for, in words."""
    yield from _narrow(s.kind, s.lower, s.upper, has.lower, has.upper)
    for what, n, real in (("nulls", s.nulls, has.nulls), ("NaN", s.nans, has.nans)):
        if n is None or real is None or has.values is None:
            continue
        if n == 0 and real > 0:
            yield f"it has no {what}, but there {'is' if real == 1 else 'are'} {real}"
        elif n == s.values and real < has.values:
            yield f"its {n} values are all {what}, but {has.values - real} of {has.values} are not"


def _narrow(
    kind: str, lower: Bound | None, upper: Bound | None, least: Bound | None, most: Bound | None
) -> Iterator[str]:
    if (pair := _comparable(kind, lower, least)) is not None and pair[0] > pair[1]:
        yield f"its lower bound is {_shown(lower)}, but it has {_shown(least)}"
    if (pair := _comparable(kind, upper, most)) is not None and pair[0] < pair[1]:
        yield f"its upper bound is {_shown(upper)}, but it has {_shown(most)}"


def _comparable(kind: str, bound: Bound | None, value: Bound | None) -> tuple[Any, Any] | None:
    """Both as they are ordered; None: they cannot be compared. NaN is neither above nor below."""
    if bound is None or value is None:
        return None
    if isinstance(bound, str) and isinstance(value, str):
        return bound.encode("utf-8", "surrogateescape"), value.encode("utf-8", "surrogateescape")
    if isinstance(bound, bytes) or isinstance(value, bytes):
        return (bound, value) if kind == "b" and type(bound) is type(value) else None
    return None if isinstance(bound, str) or isinstance(value, str) else (bound, value)


def _shown(value: Bound | None) -> str:
    return value.hex() if isinstance(value, bytes) else repr(value)


def _miscounts(s: ColumnStatistics, has: ColumnStatistics) -> Iterator[str]:
    """Numbers that are not those of the file, in words."""
    for what, n, real in (("values", s.values, has.values), ("nulls", s.nulls, has.nulls), ("NaN", s.nans, has.nans)):
        if n is not None and real is not None and n != real:
            yield f"it has {n} {what}, but there are {real}"


def _wider(lower: Bound | None, upper: Bound | None, least: Bound | None, most: Bound | None) -> int:
    """How many of the bounds are wider than the values, but for the truncation of texts and bytes."""
    pairs = ((lower, least, 0), (upper, most, 1))
    return sum(a is not None and b is not None and a != b and not _truncated(a, b, upwards) for a, b, upwards in pairs)


def _truncated(bound: Bound, value: Bound, raised: int) -> bool:
    """Whether a bound is the start of a longer value, with its last character raised by so much."""
    if isinstance(bound, str) and isinstance(value, str):
        a, b = [*map(ord, bound)], [*map(ord, value)]
    elif isinstance(bound, bytes) and isinstance(value, bytes):
        a, b = [*bound], [*value]
    else:
        return False
    return 0 < len(a) < len(b) and a == [*b[: len(a) - 1], b[len(a) - 1] + raised]


def _vanish(
    chain: Chain, c: Commit, f: FileEntry, names: Mapping[int, str], listed: Mapping[int, ColumnStatistics]
) -> str:
    """What follows, in words; the rows that vanish, as far as the log has them."""
    if f.role == "deletes":
        return "A planner skips it for data files or rows that it is for, and what it deletes is there again."
    place = {
        id: chain.log.columns.index(name) for id, name in names.items() if name in chain.log.columns and id in listed
    }
    vanished = [
        r.row
        for r in c.added or ()
        if r.file == f.path and any(_outside(listed[id], r.row[n]) for id, n in place.items())
    ]
    which = f"its rows {explain.rows(vanished)}" if vanished else "such rows"
    return f"A planner skips the file when it looks for them, and a scan misses {which}."


def _outside(s: ColumnStatistics, value: Any) -> bool:
    """Whether a planner that looks for a row's value skips the file."""
    if value is None:
        return s.nulls == 0
    if s.nulls is not None and s.nulls == s.values:
        return True
    ordered = isinstance(value, str) if s.kind == "t" else s.kind in ("i", "f") and isinstance(value, int | float)
    return ordered and any(_narrow(s.kind, s.lower, s.upper, value, value))


# --- manifests ----------------------------------------------------------------------------------------------------------


def _check_line(chain: Chain, seen: VersionSeen, c: Commit, line: ManifestLine) -> None:
    try:
        listed, found = fields(line.partitions or ""), fields(line.found or "")
    except ValueError:
        seen.doubt(f"{explain.snapshot(c)}: what it says of the partitions of {line.path} could not be read")
        return
    if len(listed) != len(found):
        return
    names = _partition_names(chain, line.spec_id, len(listed))
    wrong, loose = [], 0
    for name, s, has in zip(names, listed, found, strict=True):
        wrong += [f"partition field {name}: {x}" for x in _skips_manifest(s, has)]
        loose += _wider(s.lower, s.upper, has.lower, has.upper)
    if loose:
        seen.count("loose_statistics", loose)
    if wrong:
        files = [f.path for f in c.added_files if f.manifest is not None and (c.manifests or ())[f.manifest] is line]
        examples = f", such as those of {explain.listing(files)}" if files else ""
        seen.findings.append(
            BrokenRule(
                "pruned-rows",
                f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} says in its manifest list of {line.path}, "
                f"{explain.listing(wrong)}. A planner skips the manifest when it looks for them, and a scan misses rows of its "
                f"files{examples}.",
                ops=() if c.op is None else (c.op,),
                snapshots=(c.snapshot_id,),
                files=(line.path,),
            )
        )


def _check_contents(chain: Chain, seen: VersionSeen, c: Commit, lines: Sequence[ManifestLine]) -> None:
    """Manifests that are listed as those of deletes and have data files, or the other way round."""
    wrong: dict[int, list[FileEntry]] = {}
    for f in (*c.added_files, *(c.kept_files or ())):
        n = f.manifest
        if n is not None and 0 <= n < len(lines) and lines[n].deletes != (f.role == "deletes"):
            wrong.setdefault(n, []).append(f)
    for n, files in wrong.items():
        listed, has = ("deletes", "data files") if lines[n].deletes else ("data files", "deletes")
        misses = "a scan misses the rows of" if lines[n].deletes else "what is deleted is there again by"
        seen.findings.append(
            BrokenRule(
                "pruned-rows",
                f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} says in its manifest list that {lines[n].path} is a manifest of "
                f"{listed}, but its entries are {has}. A planner looks for {has} only in manifests of {has}, and {misses} "
                f"{explain.listing(f.path for f in files)}.",
                ops=() if c.op is None else (c.op,),
                snapshots=(c.snapshot_id,),
                files=(lines[n].path, *(f.path for f in files)),
            )
        )


def _skips_manifest(s: PartitionSummary, has: PartitionSummary) -> Iterator[str]:
    yield from _narrow(s.kind, s.lower, s.upper, has.lower, has.upper)
    if has.lower is not None and (s.lower is None or s.upper is None):
        yield f"it has no bound, as if all were null, but there is {_shown(has.lower)}"
    for what, listed, is_there in (("null", s.nulls, has.nulls), ("NaN", s.nans, has.nans)):
        if listed is False and is_there:
            yield f"it contains no {what}, but there is one"


def _partition_names(chain: Chain, spec_id: int, n: int) -> Sequence[str]:
    for m in reversed(chain.log.metadata):
        for spec in m.raw.get("partition-specs") or ():
            if isinstance(spec, Mapping) and spec.get("spec-id") == spec_id and len(spec.get("fields") or ()) == n:
                return [str(x.get("name")) for x in spec["fields"]]
    return [str(k + 1) for k in range(n)]
