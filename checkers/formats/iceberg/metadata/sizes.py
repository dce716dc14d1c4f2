"""How many bytes files have: what entries, manifest lists and the table's statistics say, against the objects in the store.

Readers look for the footer of a file where its size says that it ends, so a wrong one makes the file unreadable. The log has each object's
size from when it was read, and of those that had another one at the end of the run, or were not read, from the listing of the end. An object
is written once: one whose size changed was written over, and nothing says by whom. Logs of earlier releases do not have these sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.entries import MOST_FILES_LISTED
from checkers.formats.iceberg.metadata.listed import STATISTICS
from checkers.formats.iceberg.metadata.rules import BrokenRule
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.timeline import explain


def check_sizes(chain: Chain) -> Iterator[BrokenRule]:
    """All of them; a commit's files in one."""
    at_the_end = {o.path: o.size for o in chain.log.sizes}
    read: set[str] = set()
    sizes: dict[str, int] = {}
    for c in chain.log.commits:
        wrong: dict[str, str] = {}
        for path, size, stored in _sizes(c):
            if stored is None:
                stored = at_the_end.get(path)
            else:
                read.add(path)
            if stored is not None and size is not None and size != stored and sizes.get(path) != size:
                wrong[path] = f"{path} has {size:,} bytes, and the object has {stored:,}"
                sizes[path] = size
        if wrong:
            yield BrokenRule(
                "file-size",
                f"{explain.snapshot(c)} of {explain.maker(c, chain.by_op)} says that {explain.listing(wrong.values())}.",
                ops=() if c.op is None else (c.op,),
                snapshots=(c.snapshot_id,),
                files=tuple(wrong)[:MOST_FILES_LISTED],
            )
        if c.manifest_list:
            read.add(c.manifest_list)
    yield from _statistics(chain, at_the_end)
    over = sorted(read & at_the_end.keys())
    if over:
        yield BrokenRule(
            "corrupt-file",
            f"{explain.listing(over)} {'have' if len(over) > 1 else 'has'} another size at the end of the run than when the log was read: "
            f"{explain.listing(f'{at_the_end[p]:,} bytes' for p in over)}.",
            files=tuple(over[:MOST_FILES_LISTED]),
        )


def _sizes(c: Commit) -> Iterator[tuple[str, int | None, int | None]]:
    """Path, the size that is said, and that of the object when it was read."""
    for f in (*c.added_files, *(c.kept_files or ())):
        yield f.path, f.size, f.stored
    for line in c.manifests or ():
        yield line.path, line.length, line.stored


def _statistics(chain: Chain, at_the_end: Mapping[str, int]) -> Iterator[BrokenRule]:
    """The table's statistics files, of the last version: nothing reads them, so their sizes are those of the end."""
    location = chain.log.location.rstrip("/") + "/"
    last = chain.log.metadata[-1:]
    for x in (x for m in last for key in STATISTICS for x in m.raw.get(key) or () if isinstance(x, Mapping)):
        path, size = str(x.get("statistics-path")).removeprefix(location), x.get("file-size-in-bytes")
        if path in at_the_end and isinstance(size, int) and size != at_the_end[path]:
            yield BrokenRule(
                "file-size",
                f"version {last[0].n} ({last[0].location}) says that {path}, statistics of snapshot {x.get('snapshot-id')}, has {size:,} "
                f"bytes, and the object has {at_the_end[path]:,}.",
                files=(path,),
            )
