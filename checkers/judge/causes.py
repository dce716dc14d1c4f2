"""Which anomalies have one cause: the groups that a run's stories are told of.

Each anomaly is in exactly one group. Anomalies of one table belong together if

* the operation at fault is the same. It is the one that a ``false-failure`` or ``duplicate-commit`` names first, the one that wrote a missing
  file, the one that removed another's commit from main (``lost-commit``), and of any other the one that it names first; or
* the same commit is lost; or
* the same file is missing; or
* both are requests that the catalog server accepted and did not carry out.

Two sorts of anomalies join a group and never connect two: what a lost commit did to its rows (it names its operation and one of its rows), and
a second opinion (``isolation`` and ``linearizable``: the same rows or first operation). If they
find no group, they are one by their own operation.

Who wrote a manifest or manifest list, its name says (``SnapshotProducer``: ``<commit UUID>-m0.avro`` and
``snap-<snapshot>-<attempt>-<commit UUID>.avro``); later snapshots use the same manifests. Of other files it is the operation that the
``missing-file`` names first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from checkers import pointer
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.tableformat import format_of
from checkers.verdict import Anomaly, own_findings

AT_FAULT = ("false-failure", "duplicate-commit")
"""Anomalies whose first operation is the one at fault."""
SECOND_OPINIONS: Mapping[str, int] = {"isolation": 1, "linearizable": 2}
"""Checkers that say in other words what others find, and more; which of them is asked first."""
MISSING = frozenset({"missing-file", "missing-metadata-file"})


def events(found: Sequence[Anomaly]) -> list[Anomaly]:
    """The anomalies that are counted, wherever a number of them is said: each event once.

    Left out is what only confirms another (``same_as``), the lost swap or update of the pointer of a commit that is said to be lost, too, and
    the missing file that another checker has found already.
    """
    lost = {(a.table, op) for a in found if a.name == "lost-commit" for op in a.ops[:2]}

    def repeats(a: Anomaly) -> bool:
        named = a.evidence.get(pointer.LOST_SWAPS) or () if a.checker == pointer.Pointer.name else ()
        return bool(named) and a.name in ("lost-swap", "lost-update") and all((a.table, op) in lost for op in named)

    missed: dict[tuple[str | None, str], str] = {}

    def missed_again(a: Anomaly) -> bool:
        if a.name not in MISSING or not a.files:
            return False
        files = [(a.table, _file(f)) for f in a.files]
        first = [checker for f in files if (checker := missed.get(f)) is not None and checker != a.checker]
        for f in files:
            missed.setdefault(f, a.checker)
        return bool(first)

    return [a for a in own_findings(found) if not repeats(a) and not missed_again(a)]


@dataclass(frozen=True, slots=True)
class Facts:
    """Snapshot → its operation, what names a commit's files → its operation, operation → its rows' ids, and snapshot → the first metadata
    version that shows it, of one table."""

    makers: Mapping[int, str]
    commits: Mapping[str, str]
    maker_of: Callable[[str], str | None]
    keys: Mapping[str, frozenset[int]]
    shown: Mapping[int, int]

    @staticmethod
    def of(evidence: Evidence, table: str | None, operations: Iterable[Operation]) -> Facts:
        """What a table's log says, and its operations."""
        keys = {o.op: _asked(o.value) for o in operations}
        log = evidence.logs.get(table) if table is not None else None
        if log is None:
            return Facts({}, {}, lambda _: None, keys, {})
        made = [(c, c.op) for c in log.commits if c.op is not None]
        maker_of = format_of(log).maker_of
        by_files = {who: op for c, op in made for f in c.own_files if (who := maker_of(f)) is not None}
        id_column = log.columns.index("id") if "id" in log.columns else 0
        for c, op in made:
            rows = (x.row for x in (*(c.added or ()), *(c.removed or ())) if len(x.row) > id_column)
            keys[op] = keys.get(op, frozenset()) | {k for r in rows if isinstance(k := r[id_column], int)}
        shown = {c.snapshot_id: c.metadata for c in log.commits}
        return Facts({c.snapshot_id: op for c, op in made}, by_files, maker_of, keys, shown)

    def victim(self, a: Anomaly) -> str | None:
        """The operation whose commit a ``lost-commit`` says is lost: the maker of its first snapshot, or the only operation."""
        made = self.makers.get(a.snapshots[0]) if a.snapshots else None
        return made or (a.ops[0] if a.ops else None)

    def at_fault(self, a: Anomaly) -> frozenset[str]:
        """The operations at fault, where the name says that."""
        if a.name in AT_FAULT:
            return frozenset(a.ops[:1])
        if a.name == "missing-file":
            wrote = {self.commits.get(self.maker_of(f) or "") for f in a.files} - {None}
            return frozenset(op for op in wrote if op is not None) or frozenset(a.ops[:1])
        if a.name == "lost-commit":
            return frozenset(a.ops) - {self.victim(a)}
        return frozenset()

    def lost(self, a: Anomaly) -> frozenset[str]:
        """The operations whose commits are lost."""
        if a.name == "lost-commit":
            return frozenset(op for op in (self.victim(a),) if op is not None)
        if a.name == "lost-metadata-change":
            return frozenset(a.ops[:1])
        if a.name in ("lost-update", "lost-swap") and a.checker == pointer.Pointer.name:
            named = a.evidence.get(pointer.LOST_SWAPS, a.ops[:1] if a.name == "lost-swap" else ())
            return frozenset(map(str, named))
        return frozenset()

    def set_back(self, a: Anomaly) -> bool:
        """Whether a commit is lost because the table went back to one that was made before it."""
        lost, now = (self.shown.get(s) for s in a.snapshots[:2]) if len(a.snapshots) > 1 else (None, None)
        return a.name == "lost-commit" and lost is not None and now is not None and now < lost

    def instead(self, a: Anomaly) -> list[tuple[str, str]]:
        """Each operation whose commit an anomaly says is lost, and one whose commit took its place, if it names one."""
        if a.evidence.get(pointer.TAKEN) is False:  # the server forgot it, and the other one came later
            return []
        lost = self.lost(a)
        others = [op for op in a.ops if op not in lost]
        return [(op, other) for op in a.ops if op in lost for other in others[:1]]

    def causes(self, a: Anomaly) -> set[Hashable]:
        """What an anomaly has in common with others of the same cause."""
        lost = self.lost(a)
        found: set[Hashable] = {("at fault", op) for op in self.at_fault(a)}
        found |= {("lost", op) for op in lost}
        if a.name in MISSING:
            found |= {("file", _file(f)) for f in a.files}
        if a.name == "lost-swap" and pointer.ANSWER in a.evidence:
            found.add(("answered",))
        if not found and a.ops:
            found.add(("at fault", a.ops[0]))
        elif not found and a.snapshots:
            found.add(("snapshot", a.snapshots[0]))
        return found


def _file(path: str) -> str:
    """The name of a file, which a checker may say with its folder, another one with its store."""
    return path.rpartition("/")[2]


def _asked(value: object) -> frozenset[int]:
    """The ids that an operation's arguments name."""
    id_lists = (value.get("ids"), [value.get("id")]) if isinstance(value, Mapping) else ()
    return frozenset(k for ids in id_lists if isinstance(ids, list) for k in ids if isinstance(k, int))


def groups(found: Sequence[Anomaly], facts_of: Callable[[str | None], Facts]) -> list[list[int]]:
    """The places of the anomalies in groups of one cause: each is in exactly one. Groups and their places are in the order of ``found``."""
    union, index = _Union(len(found)), _Index(found, facts_of)
    lost = {(a.table, op): i for i, a in enumerate(found) if a.keys for op in facts_of(a.table).lost(a)}
    joins: list[int] = []
    for i, a in enumerate(found):
        facts = facts_of(a.table)
        if a.checker in SECOND_OPINIONS or _shows_a_loss(a, facts, lost, found):
            joins.append(i)
        else:
            union.add(i, ((a.table, c) for c in facts.causes(a)))
            index.add(i)
    for i in sorted(joins, key=lambda i: SECOND_OPINIONS.get(found[i].checker, 0)):
        a = found[i]
        place = index.best(a) if a.checker in SECOND_OPINIONS else _loser(a, lost, found)
        if place is not None:
            union.join(i, place)
            continue
        union.add(i, [(a.table, ("other words", a.ops[0]))] if a.ops else ())
        index.add(i)
    out: dict[int, list[int]] = {}
    for i in range(len(found)):
        out.setdefault(union.root(i), []).append(i)
    return list(out.values())


def _shows_a_loss(
    a: Anomaly, facts: Facts, lost: Mapping[tuple[str | None, str], int], found: Sequence[Anomaly]
) -> bool:
    return not facts.at_fault(a) and not facts.lost(a) and _loser(a, lost, found) is not None


def _loser(a: Anomaly, lost: Mapping[tuple[str | None, str], int], found: Sequence[Anomaly]) -> int | None:
    """The place of the lost commit that an anomaly shows: it names its operation and one of its rows."""
    losses = (lost.get((a.table, op)) for op in a.ops)
    return next((i for i in losses if i is not None and {*found[i].keys} & {*a.keys}), None)


class _Union:
    """Numbers that hang together, by what they have in common."""

    def __init__(self, n: int) -> None:
        self._parent = list(range(n))
        self._first: dict[Hashable, int] = {}

    def root(self, i: int) -> int:
        while self._parent[i] != i:
            self._parent[i] = self._parent[self._parent[i]]
            i = self._parent[i]
        return i

    def join(self, i: int, j: int) -> None:
        a, b = sorted((self.root(i), self.root(j)))
        self._parent[b] = a

    def add(self, i: int, causes: Iterable[Hashable]) -> None:
        for cause in causes:
            self.join(i, self._first.setdefault(cause, i))


class _Index:
    """Which anomaly says first what a second opinion says, by its table, rows and first operation."""

    def __init__(self, found: Sequence[Anomaly], facts_of: Callable[[str | None], Facts]) -> None:
        self._found, self._facts_of = found, facts_of
        self._by_key: dict[tuple[str | None, int | str | tuple[str, str]], list[int]] = {}

    def add(self, i: int) -> None:
        """Remember an anomaly, by its rows and by those that its operation changed."""
        a = self._found[i]
        facts = self._facts_of(a.table)
        ops = facts.at_fault(a) or facts.lost(a) or a.ops[:1]
        rows = {*a.keys, *(k for op in ops for k in facts.keys.get(op, ()))}
        keys: list[int | str | tuple[str, str]] = [*rows, *a.ops[:1], *(("lost", op) for op in facts.lost(a))]
        for k in keys:
            self._by_key.setdefault((a.table, k), []).append(i)

    def best(self, a: Anomaly) -> int | None:
        """The anomaly with the same rows, the same first operation, or the lost commit of one of them, that says the same: by its name if
        that is told, and by its operations."""
        keys: list[int | str | tuple[str, str]] = [*a.keys, *a.ops[:1], *(("lost", op) for op in a.ops)]
        near = dict.fromkeys(i for k in keys for i in self._by_key.get((a.table, k), ())[:_NEAR])
        ops = {*a.ops}

        def fit(i: int) -> tuple[bool, int, bool]:
            b = self._found[i]
            return (b.name == a.same_as, len(ops & {*b.ops[:2]}), bool({*a.keys} & {*b.keys}))

        return max(near, key=lambda i: (fit(i), -i), default=None)


_NEAR = 64
"""Anomalies of one row that a second opinion is compared with."""
