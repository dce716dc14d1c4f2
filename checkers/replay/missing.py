"""Files that main needs but the store no longer has."""

from __future__ import annotations

from collections.abc import Iterator

from checkers.timeline import explain
from checkers.timeline.timeline import Timeline
from checkers.verdict import Anomaly


def missing_files(t: Timeline, checker: str) -> Iterator[Anomaly]:
    """Missing files that main needs: one anomaly for the pointer's metadata, one for each commit that added some."""
    last = t.log.captures[-1] if t.log.captures else None
    if last is not None and last.metadata is not None and not t.read_to_pointer:
        said = next((p.why for p in t.log.problems if p.file == last.metadata), "it cannot be read")
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"the catalog points at {last.metadata}, and nobody can read the table: {said}.",
            files=(last.metadata,),
        )
    main = {c.snapshot_id for c in t.main}
    listed = set(t.log.metadata[-1].snapshots) if t.log.metadata else set()
    gone = {f.path: [s for s in f.snapshots if s in main] for f in t.log.missing_files}
    gone = {path: needed for path, needed in gone.items() if needed}
    groups: dict[int, dict[str, None]] = {}
    for c in t.main:
        mine = [f.path for f in c.added_files if f.path in gone]
        mine += [c.manifest_list] if c.manifest_list in gone else []
        for path in mine:
            groups.setdefault(c.snapshot_id, {})[path] = None
        if not c.readable and c.snapshot_id in listed and any(p.code == "missing-file" for p in c.problems):
            groups.setdefault(c.snapshot_id, {})
    named = {path for paths in groups.values() for path in paths}
    for path, needed in sorted(gone.items()):
        if path not in named:  # such as a manifest, which the log assigns to no commit
            groups.setdefault(min(needed, key=lambda s: t.position[s]), {})[path] = None
    for snapshot in sorted(groups, key=lambda s: t.position[s]):
        c, paths = t.snapshots[snapshot], sorted(groups[snapshot])
        o = t.everything.get(c.op or "")
        needed = sorted({s for p in paths for s in gone.get(p, ())}, key=lambda s: t.position[s]) or [snapshot]
        what = explain.listing(paths) if paths else "; ".join(p.why for p in c.problems)
        said = f", {explain.outcome(o)}," if o is not None else ""
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"{explain.snapshot(c)} of {explain.maker(c, t.everything)}{said} is on main and still listed, but {what} "
            f"{'is' if len(paths) == 1 else 'are' if paths else ':'} not in the store{'' if paths else ' (as the log says)'}: "
            f"{len(needed)} snapshots of main need it, and every read that does fails.",
            ops=(o.op,) if o is not None else (),
            events=o.indices if o is not None else (),
            snapshots=tuple(needed[:20]),
            files=tuple(paths[:20]),
            keys=(),
        )
