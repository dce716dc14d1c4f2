"""Who made a version of a table's metadata, and whether that explains what changed in it.

**What explains what.** A version that is the first to show a snapshot was made by the operation that made the snapshot: a commit is one
change of the pointer. Another version may name its maker: a property that it changes has the operation's id as its value, or a column that
it changes has that as its comment, and the operation was under way. Any other version can have been made by each operation of the
table that was under way (``Chain.under_way``), and by those that explain all that it changes (``Contents``) if there are some.
What an operation may change or take away is a fact of its kind (``Kind.changes``, ``Kind.takes_away``). An operation of an unknown kind
explains whatever changed: that can hide a change by nobody, but is never a false alarm. Nor is a change on a table to which others write,
whose operations the history does not have: it cannot be decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from checkers.evidence.history import Operation
from checkers.formats.iceberg.metadata.chain import IcebergChain as Chain
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.derived import Maker, columns, current_schema, properties, signs
from checkers.formats.iceberg.records import IcebergCommit as Commit
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.makers import by_strangers
from checkers.timeline.timeline import kind_of
from checkers.timeline.version_order import FOREVER
from workloads.operations.kind import PARTS, Kind, Lost, Part


@dataclass
class Responsible:
    """The operations that can have made the versions of one table."""

    chain: Chain
    _last: tuple[Step, list[Operation]] | None = field(default=None, init=False, repr=False)
    _kinds: tuple[Step, list[Kind | None]] | None = field(default=None, init=False, repr=False)
    _named: dict[int, list[Operation]] = field(default_factory=dict, init=False, repr=False)
    _settled: dict[int, list[Operation]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def strangers(self) -> bool:
        """Whether others wrote to the table as well: a snapshot names no operation of the history."""
        return any(c.op not in self.chain.by_op for c in self.chain.log.commits)

    @cached_property
    def certain_strangers(self) -> bool:
        """Whether such a snapshot cannot be one of an engine that does not name its operations."""
        return bool(by_strangers(self.chain.log.commits, self.chain.by_op.values()))

    def makers(self, step: Step) -> list[Operation]:
        """The operations that the version names as its makers: by the snapshots that it is the first to show, or else by their ids in a
        property or a comment; none if versions before it may be missing."""
        if step.gap:
            return []
        made = [self.chain.by_op[o] for o in self.chain.makers(step.after) if o in self.chain.by_op]
        return made or self._names(step)

    def _names(self, step: Step) -> list[Operation]:
        n = step.after.n
        if n not in self._named:
            quiet = step.before is None or step.repeated or step.after.n in self.chain.commits_of
            self._named[n] = [] if quiet else self._signed(step)
        return self._named[n]

    def _signed(self, step: Step) -> list[Operation]:
        """The operations under way whose ids stand in a property or in a comment that the version changes."""
        assert step.before is not None
        old, new = step.before.raw, step.after.raw
        if all(old.get(k) is new.get(k) for k in ("properties", "schemas")):
            return []
        comments = {f.get("doc") for f in columns(current_schema(new)).values()}
        parts: tuple[tuple[Part, set[Any]], ...] = (
            ("property", {v for v in properties(step.after).values() if isinstance(v, str)}),
            ("schema", comments),
        )
        before = signs(step.before)
        named = {(part, op) for part, ids in parts for op in ids - before if op in self.chain.by_op}
        if not named:
            return []
        return [o for o in self.under_way(step) if any((p, o.op) in named and Maker((o,)).may(p) for p in PARTS)]

    def settle(self, step: Step, makers: list[Operation]) -> None:
        """Say that only these can have made the version, because of what it says."""
        self._settled[step.after.n] = makers

    def candidates(self, step: Step) -> list[Operation]:
        """The operations that can have made the version."""
        return self.makers(step) or self._settled.get(step.after.n) or self.under_way(step)

    def under_way(self, step: Step) -> list[Operation]:
        """As ``Chain.under_way``; the answer for the last version is kept."""
        if self._last is None or self._last[0] is not step:
            self._last = step, self.chain.under_way(step)
        return self._last[1]

    def kinds_under_way(self, step: Step) -> list[Kind | None]:
        """The kinds of the operations under way, each once; None: one that this version does not know."""
        if self._kinds is None or self._kinds[0] is not step:
            one_of_each = {o.f: o for o in self.under_way(step)}
            self._kinds = step, [kind_of(o) for o in one_of_each.values()]
        return self._kinds[1]

    def at_work(self, step: Step) -> list[Operation]:
        """Those under way that had not failed before. A failed request may still arrive and so explains a change, but accuses nobody."""
        return [o for o in self.under_way(step) if o.type != "fail" or o.end is None or o.end >= step.earliest]

    def explained(self, step: Step, part: Part) -> bool:
        """Whether an operation that can have made the version may change a part, or nobody knows what it changes."""
        return self.unknown_kind(step) or any(
            (k := kind_of(o)) is not None and part in k.changes for o in self.candidates(step)
        )

    def taken_away(self, step: Step, lost: Lost | None) -> bool:
        """Whether an operation that can have made the version explains a loss. None: what no known kind takes away."""
        if lost is None or not (made := self.makers(step) or self._settled.get(step.after.n)):
            return any(k is None or lost in k.takes_away for k in self.kinds_under_way(step))
        return self.unknown_kind(step) or Maker(tuple(made)).takes(lost)

    def unknown_kind(self, step: Step) -> bool:
        """Whether an operation of an unknown kind was under way when the version was made."""
        return self._some_unknown and None in self.kinds_under_way(step)

    @cached_property
    def _some_unknown(self) -> bool:
        return any(kind_of(o) is None for o in self.chain.of_table)

    def accused(self, step: Step) -> tuple[str, ...]:
        """The operations that made the version; without a snapshot, those under way that change metadata and leave none.

        Nobody for the version with which a table begins: the run's set-up creates the tables, by no operation of the history.
        """
        if created(step.after):
            return ()
        made = [o.op for o in self.makers(step)]
        if made:
            return tuple(dict.fromkeys(made))
        likely = self._settled.get(step.after.n, [])
        quiet = (o for o in self.at_work(step) if (k := kind_of(o)) is None or (k.commits and not k.writes))
        first = (*self.chain.makers(step.after), *(o.op for o in likely))
        return tuple(dict.fromkeys((*first, *(o.op for o in quiet))))[: explain.MOST_IN_A_SENTENCE]

    def made_by(self, m: Metadata) -> str:
        """``the commit of insert of id 7 (w1-3, process 1)``."""
        makers = self.chain.makers(m) or [o.op for o in self._named.get(m.n, ())]
        if not makers:
            return "the table's creation" if created(m) else "a commit that added no snapshot"
        return "the commit of " + explain.listing(
            explain.operation(self.chain.by_op[o]) if o in self.chain.by_op else f"operation {o}"
            for o in dict.fromkeys(makers)
        )

    def of(self, c: Commit) -> str:
        """`` of the insert of id 7 (w1-3, process 1)``; empty for a snapshot that names no operation."""
        return "" if c.op is None else f" of {explain.maker(c, self.chain.by_op)}"

    def around(self, step: Step, does: Literal["changes", "removes"], asked: Sequence[Operation] = ()) -> str:
        """A sentence on who cannot have done it; ``asked``: who asked for something like it."""
        if asked:
            how = "made it" if self.makers(step) else "was under way and explains most of it"
            return f"{explain.listing(explain.operation(o) for o in asked)}, which {how}, asked for something else."
        if makers := self.makers(step):
            return f"{explain.listing(explain.operation(o) for o in makers)}, which made it, {does} no such thing."
        if likely := self._settled.get(step.after.n):
            return (
                f"{explain.listing(explain.operation(o) for o in likely)}, under way, explains most of what the version changes, but {does} no "
                "such thing."
            )
        end = explain.s(step.latest) if step.latest < FOREVER else "the end of the run"
        under_way = explain.listing(o.op for o in self.at_work(step)) or "none"
        return (
            f"No operation that {does} such a thing was under way between {explain.s(step.earliest)} and {end}; under way were "
            f"{under_way}."
        )

    @staticmethod
    def named(c: Commit, m: Metadata) -> dict[str, Any]:
        """What an anomaly names: a snapshot, its operation and a version."""
        return {"ops": () if c.op is None else (c.op,), "snapshots": (c.snapshot_id,), "files": (m.location,)}


def created(m: Metadata) -> bool:
    """Whether a version is that with which its table began: the log's first, without snapshot and without a version before it."""
    return m.n == 0 and not m.snapshots and m.predecessor is None
