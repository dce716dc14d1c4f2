"""Which snapshots a version lists, and whether main moved to those that it adds.

What is listed stays listed unless an operation of the history can have removed it. An expiry removes only what its arguments let it:
``RemoveSnapshots.computeBranchSnapshotsToRetain`` walks main from its end and keeps a snapshot while it has fewer than ``retain_last``, or
if it is not older than ``older_than``; the first that is neither ends the walk. Of the snapshots on no branch and no tag it keeps those that
are not older (``unreferencedSnapshotsToRetain``). So a clock that is behind can make a young snapshot expire with its older child: that is no
anomaly.

A snapshot that a version lists and its predecessor does not is new: whoever adds one must give it a sequence number above the table's last
(``TableMetadata.Builder.addSnapshot``). So a snapshot that an expiry dropped never comes back, and its files may be deleted.

A commit moves its branch to its snapshot in the same version that adds it (``SnapshotProducer.commit``: ``setBranchSnapshot``, unless it is
only staged, which ``wap.id`` in its summary says). So a snapshot that neither main nor another ref reaches in that version was
acknowledged and is in no reader's table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from checkers.evidence.history import Operation
from checkers.evidence.problem import METADATA
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of

STAGED = "wap.id"
"""The key of a staged snapshot's summary (``SnapshotSummary.STAGED_WAP_ID_PROP``)."""


class Snapshots(Judging):
    """The lists of snapshots of one table."""

    def step(self, step: Step, longer: bool) -> None:
        """Judge one version; ``longer``: it lists what its predecessor lists, and perhaps more."""
        self._missing_versions(step)
        self._unknown_snapshots(step, longer)
        if step.before is not None:
            self._returned(step, step.before, longer)
            if not longer:
                self._vanished_snapshots(step, step.before)
            self._main_moved(step, step.before)

    # --- what the log lacks

    def _missing_versions(self, step: Step) -> None:
        if not step.gap:
            return
        m, predecessor = step.after, step.after.predecessor
        reported = any(p.code in METADATA or p.code in ("metadata-log", "fork") for p in m.problems)
        if step.before is not None and predecessor is not None and not reported:
            self.seen.doubt(
                f"version {m.n} ({m.location}) says that it follows {predecessor}, which the log does not have: what that version changed, and "
                "what it showed first, was not judged"
            )

    def _unknown_snapshots(self, step: Step, longer: bool) -> None:
        m = step.after
        known = len(step.before.snapshots) if longer and step.before is not None else 0
        unknown = [s for s in m.snapshots[known:] if s not in self.chain.snapshots]
        if unknown:
            self.seen.doubt(
                f"version {m.n} ({m.location}) lists {_words(unknown)}, of which the log has no commit: what it changed was not judged"
            )

    # --- what is back

    @cached_property
    def _back(self) -> set[int]:
        """Snapshots that came back, told once: whoever drops them again does what is due."""
        return set()

    def _returned(self, step: Step, before: Metadata, longer: bool) -> None:
        """Snapshots that are listed again, though the version's predecessor does not list them any more."""
        m = step.after
        own = {c.snapshot_id for c in self.chain.commits_of.get(m.n, ())}
        if longer and len(m.snapshots) <= len(before.snapshots) + len(own):
            return
        known = self.chain.snapshots
        listed = own.union(before.snapshots, self._back)
        back = tuple(
            s
            for s in m.snapshots
            if s not in listed and s in known and 0 < known[s].sequence_number <= before.last_sequence_number
        )
        repeated = {
            p.snapshot for p in m.problems if p.code == "snapshot-changed"
        }  # committed again, as another snapshot
        back = tuple(s for s in back if s not in repeated)
        if not back or step.gap or m.format_version < 2 or self._only_current() or self.makers.explained(step, "logs"):
            return
        self._back.update(back)
        self.found(
            "returned-snapshot",
            f"version {m.n} ({m.location}), {self.makers.made_by(m)}, lists {_words(back)}. Version {before.n} ({before.location}), from "
            f"which it was made, does not, and its last sequence number is {before.last_sequence_number}; "
            f"{explain.listing(f'{s} has {known[s].sequence_number}' for s in back)}: no commit can have added that now.",
            ops=self.makers.accused(step),
            snapshots=back,
            files=(before.location, m.location),
        )

    # --- what is gone

    def _only_current(self) -> bool:
        return len(self.chain.log.commits) > 1 and all(len(m.snapshots) <= 1 for m in self.chain.log.metadata)

    def _vanished_snapshots(self, step: Step, before: Metadata) -> None:
        m = step.after
        listed = set(m.snapshots)
        dropped = tuple(s for s in before.snapshots if s not in listed and s not in self._back)
        if not dropped:
            return
        self.seen.count("dropped_snapshots", len(dropped))
        if self._only_current():
            if not any("only the current" in n for n in self.seen.notes):
                self.seen.notes.append(
                    "the catalog's metadata lists only the current snapshot, so missing older ones were not judged"
                )
            return
        if not self.makers.taken_away(step, "snapshot"):
            self.vanished("vanished-snapshot", step, before, _words(dropped), dropped)
            return
        expiries = [
            o for o in self.makers.under_way(step) if (k := kind_of(o)) is not None and "snapshot" in k.takes_away
        ]
        if (
            expiries and not self.makers.taken_away(step, None) and not self.makers.certain_strangers
        ):  # who may expire, too
            self._retention(step, before, dropped, expiries)

    def _retention(self, step: Step, before: Metadata, dropped: tuple[int, ...], expiries: Sequence[Operation]) -> None:
        m = step.after
        asked = [o.value.get("retain_last") if isinstance(o.value, Mapping) else None for o in expiries]
        numbers = [n for n in asked if isinstance(n, int)]
        if len(numbers) != len(asked):
            return
        retain = max(1, min(numbers))
        more: dict[str, Any] = {"ops": tuple(o.op for o in expiries), "files": (before.location, m.location)}
        listed = set(m.snapshots)
        count = sum(1 for _ in self.chain.ancestors(m.current, listed.union(before.snapshots)))
        kept = sum(1 for _ in self.chain.ancestors(m.current, listed))
        if kept < min(retain, count):
            who = explain.listing(explain.operation(o) for o in expiries)
            self.found(
                "retention",
                f"version {before.n} lists {count} snapshots of main's ancestry, version {m.n} ({m.location}) only {kept}, though "
                f"{who} asked to retain the last {retain}; gone: {explain.listing(dropped)}.",
                snapshots=dropped,
                **more,
            )
            return
        ages = [older_than(o) for o in expiries]
        known = [ms for ms in ages if ms is not None]
        if len(known) != len(ages):
            return
        age = max(known)
        due = self._retained(before, retain, age)
        young = tuple(s for s in dropped if s in due)
        if young:
            who = explain.listing(explain.operation(o) for o in expiries)
            heads = ", ".join(
                f"{s} is of {_utc(self.chain.snapshots[s].timestamp_ms)}" for s in young[: explain.MOST_IN_A_SENTENCE]
            )
            self.found(
                "retention",
                f"version {before.n} lists {_words(young)}, version {m.n} ({m.location}) no longer, though {who} asked to expire only what is "
                f"older than {_utc(age)}, and not the last {retain}; {heads}.",
                snapshots=young,
                **more,
            )

    def _retained(self, base: Metadata, retain: int, age: int) -> set[int]:
        """What an expiry on this version must keep; nothing that hangs on a branch or tag other than main is judged."""
        known = self.chain.snapshots
        kept: set[int] = set()
        for s in self.chain.ancestors(base.current, base.snapshots):
            if len(kept) >= retain and known[s].timestamp_ms < age:
                break
            kept.add(s)
        reached = {s for head in (base.current, *base.refs.values()) for s in self.chain.ancestors(head)}
        reached |= set(base.refs.values())
        kept |= {s for s in base.snapshots if s not in reached and s in known and known[s].timestamp_ms >= age}
        return kept

    # --- main

    def _main_moved(self, step: Step, before: Metadata) -> None:
        m = step.after
        if step.gap or (m.current is not None and m.current not in m.snapshots):
            return  # the latter is told as a ref to nowhere
        reached: set[int] | None = None
        for c in self.chain.commits_of.get(m.n, ()):
            o = self.chain.by_op.get(c.op or "")
            kind = None if o is None else kind_of(o)
            if o is None or kind is None or not kind.writes or c.snapshot_id == m.current or STAGED in c.summary:
                continue
            if any(p.code == "outside-chain" for p in c.problems):
                continue
            if reached is None:
                reached = {s for head in (m.current, *m.refs.values()) for s in self.chain.ancestors(head)}
            if c.snapshot_id not in reached:
                stayed = "stayed" if m.current == before.current else "is"
                self.found(
                    "main-not-moved",
                    f"version {m.n} ({m.location}) adds {explain.snapshot(c)} of the {explain.operation(o)}, {explain.outcome(o)}, and main "
                    f"{stayed} at {'no snapshot' if m.current is None else f'snapshot {m.current}'}: whoever reads this version does "
                    "not see the commit.",
                    ops=(o.op,),
                    snapshots=tuple(s for s in (c.snapshot_id, m.current) if s is not None),
                    files=(m.location,),
                )


def older_than(o: Operation) -> int | None:
    """The age that an expiry was given (``older_than`` of its invocation), ms since 1970; None when it is not said."""
    limit = o.invoked.extra.get("older_than")
    if not isinstance(limit, str):
        return None
    try:
        return int(datetime.fromisoformat(limit).replace(tzinfo=UTC).timestamp() * 1000 + 0.5)
    except ValueError:
        return None


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _words(ids: Sequence[int]) -> str:
    return f"snapshot{'s' if len(ids) > 1 else ''} {explain.listing(ids)}"
