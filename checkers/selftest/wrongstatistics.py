"""Bugs that the ``metadata`` checker must find in what manifests say of the values in files: readers prune by it, and miss rows.

Only the entry, or the line of the manifest list, is wrong; the file is as it should be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from checkers.evidence.replace import replace
from checkers.formats.iceberg.records import IcebergFile as FileEntry
from checkers.formats.iceberg.statistics import (
    Bound,
    ColumnStatistics,
    ManifestLine,
    PartitionSummary,
    columns,
    columns_text,
    fields,
    fields_text,
)
from checkers.selftest.plant import Plant, Plants, table
from checkers.selftest.sites import CommitSite, later, live, pick
from checkers.selftest.world import Planted

PRUNED = "planners skip files by bounds and counts: https://iceberg.apache.org/spec/#scan-planning"
FILE_PATH = 2147483546
"""Field id of the path in a position delete file."""


class EntryColumn(NamedTuple):
    """A column of a file that a commit adds: what the entry says."""

    file: FileEntry
    id: int
    statistics: ColumnStatistics

    def changed(self, **fields: object) -> FileEntry:
        """The file with an entry that says something else of the column."""
        every = columns(self.file.columns or "") | {self.id: self.statistics._replace(**fields)}  # type: ignore[arg-type]
        return replace(self.file, columns=columns_text(every.items()))


def of_files(*contents: str) -> Callable[[CommitSite], Iterator[EntryColumn]]:
    """The columns with both bounds of the files that the commit adds."""

    def columns_there(p: CommitSite) -> Iterator[EntryColumn]:
        for f in p.c.added_files:
            if f.content in contents and f.columns is not None and f.exact is not None:
                known = columns(f.exact)
                for id, statistics in columns(f.columns).items():
                    if id in known and statistics.lower is not None and statistics.upper is not None:
                        yield EntryColumn(f, id, statistics._replace(kind=known[id].kind))

    return columns_there


data = of_files("data")


def entry(p: CommitSite, x: EntryColumn, **fields: object) -> Planted:
    """The run in which an entry says something else."""
    wrong = x.changed(**fields)
    return p.changed(added_files=tuple(wrong if f is x.file else f for f in p.c.added_files))


def above(value: Bound) -> Bound:
    """A value that is greater."""
    return f"{value}~" if isinstance(value, str) else value + b"\xff" if isinstance(value, bytes) else value + 1


def below(value: Bound) -> Bound:
    """A value that is less; the same if there is none."""
    return value[:-1] if isinstance(value, str | bytes) else value - 1


def raised(p: CommitSite, x: EntryColumn) -> Planted | None:
    """The lower bound of a column in a data file is above its least value."""
    return None if x.statistics.lower is None else entry(p, x, lower=above(x.statistics.lower))


def lowered(p: CommitSite, x: EntryColumn) -> Planted | None:
    """The upper bound of a column in a data file is below its greatest value."""
    upper = x.statistics.upper
    return None if upper is None or below(upper) == upper else entry(p, x, upper=below(upper))


def elsewhere(p: CommitSite, x: EntryColumn) -> Planted | None:
    """The bounds of a column are those of another file, and have no value of this one."""
    return entry(p, x, lower=1000, upper=2000) if x.statistics.kind == "i" else None


def all_null(p: CommitSite, x: EntryColumn) -> Planted | None:
    """An entry says that all values of a column are null, so that only scans for nulls read the file."""
    return entry(p, x, nulls=x.statistics.values) if x.statistics.values and not x.statistics.nulls else None


def no_null(p: CommitSite, x: EntryColumn) -> Planted | None:
    """A column of a data file has a null, and its entry says that it has none, so that scans for nulls skip the file."""
    known = columns(x.file.exact or "")
    with_null = known | {x.id: known[x.id]._replace(nulls=1)}
    wrong = replace(x.changed(nulls=0), exact=columns_text(with_null.items()))
    return p.changed(added_files=tuple(wrong if f is x.file else f for f in p.c.added_files))


def miscounted(p: CommitSite, x: EntryColumn) -> Planted | None:
    """An entry counts more values in a column than the file has."""
    return entry(p, x, values=x.statistics.values + p.w.rng.randint(1, 3)) if x.statistics.values else None


def all_nan(p: CommitSite, x: EntryColumn) -> Planted | None:
    """An entry says that all values of a column are NaN although the column has no such numbers, so that no scan reads the file."""
    return entry(p, x, nans=x.statistics.values) if x.statistics.values and x.statistics.kind not in ("", "f") else None


def other_path(p: CommitSite, x: EntryColumn) -> Planted | None:
    """The bounds of a position delete file are the path of another data file, so that readers do not apply it."""
    others = [f for f in live(p.t.main[: p.k]).values() if f.content == "data" and f.columns is not None]
    other = p.w.choose(f"{p.t.log.location}/{f.path}" for f in others if not str(x.statistics.lower).endswith(f.path))
    return entry(p, x, lower=other, upper=other) if other is not None and x.id == FILE_PATH else None


def retold(p: CommitSite) -> Planted | None:
    """A manifest that is written anew copies the entry of an older file with another lower bound."""
    here = [f for f in live(p.t.main[: p.k - 1]).values() if f.content == "data" and f.columns and f.exact]
    removed = {f.path for f in p.c.removed_files}
    f = p.w.choose(f for f in here if f.path not in removed)
    if f is None or not p.c.manifests:
        return None
    statistics = columns(f.columns or "")
    id = p.w.choose(id for id, c in statistics.items() if c.lower is not None)
    if id is None or (lower := statistics[id].lower) is None:
        return None
    return p.changed(kept_files=(EntryColumn(f, id, statistics[id]).changed(lower=above(lower)),))


# --- manifests ----------------------------------------------------------------------------------------------------------


def partitioned(p: CommitSite) -> Iterator[ManifestLine]:
    """The lines that the commit adds to the manifest list, of manifests with a file in a partition."""
    return (m for m in p.c.manifests or () if m.partitions and m.found and fields(m.found)[0].lower is not None)


def line(p: CommitSite, m: ManifestLine, summary: PartitionSummary, found: PartitionSummary | None = None) -> Planted:
    """The run in which a line of the manifest list says something else of its first partition field."""
    has = fields(m.found or "")
    wrong = replace(
        m,
        partitions=fields_text([summary, *fields(m.partitions or "")[1:]]),
        found=fields_text([found or has[0], *has[1:]]),
    )
    return p.changed(manifests=tuple(wrong if x is m else x for x in p.c.manifests or ()))


def of_no_partition(p: CommitSite, m: ManifestLine) -> Planted:
    """A manifest list says partitions of a manifest that none of its files has."""
    return line(p, m, fields(m.partitions or "")[0]._replace(lower=77, upper=78))


def without_the_last(p: CommitSite, m: ManifestLine) -> Planted | None:
    """A manifest list says partitions of a manifest, and leaves the highest out."""
    summaries = fields(m.partitions or "")[0]
    return line(p, m, summaries._replace(upper=below(summaries.upper))) if isinstance(summaries.upper, int) else None


def without_bounds(p: CommitSite, m: ManifestLine) -> Planted:
    """A manifest list says no bounds of a manifest's partitions, as if all were null."""
    return line(p, m, fields(m.partitions or "")[0]._replace(lower=None, upper=None))


def without_null(p: CommitSite, m: ManifestLine) -> Planted:
    """A manifest has a file whose partition is null, and the manifest list says that it has none."""
    listed, found = (fields(x or "")[0] for x in (m.partitions, m.found))
    return line(p, m, listed._replace(nulls=False), found._replace(nulls=True))


def of_other_content(p: CommitSite, m: ManifestLine) -> Planted:
    """A manifest list says of a manifest of deletes that it is one of data files, or the other way round."""
    return p.changed(manifests=tuple(replace(m, deletes=not m.deletes) if x is m else x for x in p.c.manifests or ()))


def with_new_files(p: CommitSite) -> Iterator[ManifestLine]:
    """The lines that the commit adds to the manifest list, of manifests with a file that it adds."""
    used = {f.manifest for f in p.c.added_files}
    return (m for n, m in enumerate(p.c.manifests or ()) if n in used)


STATISTICS_PLANTS: Plants = {
    "lower-bound-raised": Plant(pick(data, raised)),
    "upper-bound-lowered": Plant(pick(data, lowered)),
    "bounds-of-another-file": Plant(pick(data, elsewhere)),
    "all-values-null": Plant(pick(data, all_null)),
    "no-null-counted": Plant(pick(data, no_null)),
    "all-values-nan": Plant(
        pick(data, all_nan),
        seen="planners skip files by NaN counts, whatever the column's type (InclusiveMetricsEvaluator.containsNaNsOnly)",
    ),
    "values-miscounted": Plant(
        pick(data, miscounted),
        "column-count",
        seen="COUNT is answered from the counts of columns (Spark's aggregate push-down)",
    ),
    "deletes-of-another-path": Plant(
        pick(of_files("position-deletes"), other_path),
        seen="delete files are matched to data files by the bounds of their paths (DeleteFileIndex)",
    ),
    "older-file-told-otherwise": Plant(retold, seen="manifests are merged and filtered (ManifestMergeManager)"),
    "manifest-of-other-content": Plant(
        pick(with_new_files, of_other_content),
        seen="planners look for deletes in manifests of deletes alone (Snapshot.deleteManifests)",
    ),
    "partition-summary-elsewhere": Plant(pick(partitioned, of_no_partition)),
    "partition-summary-too-narrow": Plant(pick(partitioned, without_the_last)),
    "partition-summary-without-bounds": Plant(pick(partitioned, without_bounds)),
    "partition-summary-without-null": Plant(pick(partitioned, without_null)),
}

PLANTS = table(STATISTICS_PLANTS, "metadata", names="pruned-rows", where=later(), seen=PRUNED)
