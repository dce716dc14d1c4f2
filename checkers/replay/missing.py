"""Files that main needs but the store no longer has, by the operation that wrote them.

A data or delete file is its snapshot's, as the log says. A manifest is in no record of the log, and may be older than every snapshot that needs
it: its name has the UUID of the commit that wrote it (``TableFormat.maker_of``). Where neither tells, no operation is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from checkers.evidence.tableformat import format_of
from checkers.timeline import explain
from checkers.timeline.timeline import Timeline
from checkers.verdict import Anomaly


def missing_files(t: Timeline, checker: str) -> Iterator[Anomaly]:
    """Missing files that main needs: one anomaly for the pointer's metadata, one for each commit that wrote some."""
    last = t.log.captures[-1] if t.log.captures else None
    if last is not None and last.metadata is not None and not t.read_to_pointer:
        why = next((p.why for p in t.log.problems if p.file == last.metadata), "it cannot be read")
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"the catalog points at {last.metadata}, and nobody can read the table: {why}.",
            files=(last.metadata,),
        )
    main = {c.snapshot_id for c in t.main}
    listed = set(t.log.metadata[-1].snapshots) if t.log.metadata else set()
    missing = {f.path: [s for s in f.snapshots if s in main] for f in t.log.missing_files}
    missing = {path: needed for path, needed in missing.items() if needed}
    maker_of = format_of(t.log).maker_of
    writers = {who: c.snapshot_id for c in t.log.commits for f in c.own_files if (who := maker_of(f)) is not None}
    groups: dict[int | None, dict[str, None]] = {}
    for c in t.main:
        own = [f.path for f in c.added_files if f.path in missing]
        own += [f for f in c.own_files if f in missing]
        for path in own:
            groups.setdefault(c.snapshot_id, {})[path] = None
        if not c.readable and c.snapshot_id in listed and any(p.code == "missing-file" for p in c.problems):
            groups.setdefault(c.snapshot_id, {})
    named = {path for paths in groups.values() for path in paths}
    for path in sorted(missing):
        if path not in named:
            groups.setdefault(writers.get(maker_of(path) or ""), {})[path] = None
    unwritten = groups.pop(None, {})
    if unwritten:
        yield _by_nobody(t, checker, sorted(unwritten), _users(t, unwritten, missing))
    order = {c.snapshot_id: n for n, c in enumerate(t.log.commits)}
    for snapshot in sorted((s for s in groups if s is not None), key=lambda s: (t.position.get(s, 0), order[s])):
        c, paths = t.snapshots[snapshot], sorted(groups[snapshot])
        o = t.everything.get(c.op or "")
        needed = _users(t, paths, missing) or [snapshot]
        what = explain.listing(paths) if paths else "; ".join(p.why for p in c.problems)
        why = f", {explain.outcome(o)}," if o is not None else ""
        present = (
            "is on main and still listed" if snapshot in listed and snapshot in main else "wrote what main still needs"
        )
        yield Anomaly(
            "missing-file",
            checker,
            t.name,
            f"{explain.snapshot(c)} of {explain.maker(c, t.everything)}{why} {present}, but {what} "
            f"{'is' if len(paths) == 1 else 'are' if paths else ':'} not in the store{'' if paths else ' (as the log says)'}: "
            f"{len(needed)} snapshots of main need it, and every read that does fails.",
            ops=(o.op,) if o is not None else (),
            events=o.indices if o is not None else (),
            snapshots=tuple(needed[:20]),
            files=tuple(paths[:20]),
            keys=(),
        )


def _users(t: Timeline, paths: Iterable[str], missing: Mapping[str, Sequence[int]]) -> list[int]:
    """The snapshots of main that need any of the files, oldest first."""
    return sorted({s for p in paths for s in missing.get(p, ())}, key=lambda s: t.position[s])


def _by_nobody(t: Timeline, checker: str, paths: Sequence[str], needed: Sequence[int]) -> Anomaly:
    """Missing files of which neither the log nor their names say who wrote them."""
    pronoun = "it" if len(paths) == 1 else "them"
    return Anomaly(
        "missing-file",
        checker,
        t.name,
        f"{explain.listing(paths)} {'is' if len(paths) == 1 else 'are'} not in the store: {len(needed)} snapshots of main need {pronoun}, "
        f"and every read that does fails. No commit of the log wrote {pronoun}, so no operation is named.",
        snapshots=tuple(needed[:20]),
        files=tuple(paths[:20]),
    )
