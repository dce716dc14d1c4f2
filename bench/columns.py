"""A long clean run of one table as columns, made at once: many clients, every operation by key, reads of keys and of the whole table.

Operation i takes effect at time i, is invoked up to four before and answered up to four after it; eight clients take turns. Of the writes a
tenth are refused and a hundredth end without an answer, half of which took effect. A key has one row or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkers.columns.facts import Bools
from checkers.columns.frames import IDS, WHOLE, TableFrame
from checkers.columns.hashing import I64, NEVER_CAME, U64, appended, hash_rows, mix
from workloads.tables import TableSpec

CLIENTS = 8
A_KEY = 20
"""Operations a key, on average."""
FULL_READS = 0.001
MIX = {
    "insert": 0.1,
    "update-register": 0.15,
    "update-counter": 0.15,
    "update-append": 0.15,
    "merge-upsert": 0.1,
    "delete": 0.05,
    "read-key": 0.3,
}
CODES = {name: n for n, name in enumerate((*MIX, "read"))}
"""Kind → its number in the frame."""
SCALE = 64
"""Steps of a clock between two operations."""
SPREAD = int(3.9 * SCALE)
"""Most steps from an operation's invocation to its effect, and from there to its answer."""


def frame(operations: int, name: str = "t", seed: int = 0) -> TableFrame:
    """A frame of that many operations, in which nothing is wrong."""
    keys = _Keys(max(1, operations // A_KEY), TableSpec(name=name, partitions=16))
    return _made(keys, operations, seed)


class _Keys:
    """The row of each key."""

    def __init__(self, keys: int, spec: TableSpec) -> None:
        self.spec = spec
        self.alive = np.zeros(keys, np.bool_)
        self.val, self.log = np.zeros(keys, np.uint64), np.zeros(keys, np.uint64)
        self.cnt = np.zeros(keys, np.int64)

    def hashes(self, ids: I64) -> U64:
        return hash_rows(ids, self.val[ids], self.cnt[ids], self.log[ids], ids % self.spec.partitions)

    def bear(self, ids: I64, makers: U64) -> None:
        """Make the rows of keys that have none; ``makers``: the names of the operations."""
        self.alive[ids] = True
        self.val[ids], self.cnt[ids] = makers, 0
        self.log[ids] = appended(np.zeros(len(ids), np.uint64), makers)

    def change(self, ids: I64, makers: U64, kind: I64, changes: Bools) -> None:
        """Update the rows of those of the keys that change; ``makers``, ``kind``: of the operation on each key."""
        upsert = kind == CODES["merge-upsert"]
        sets = changes & (upsert | (kind == CODES["update-register"]))
        self.val[ids[sets]] = makers[sets]
        self.cnt[ids[changes & (upsert | (kind == CODES["update-counter"]))]] += 1
        appends = changes & (upsert | (kind == CODES["update-append"]))
        self.log[ids[appends]] = appended(self.log[ids[appends]], makers[appends])


class _Drawn(NamedTuple):
    """What was drawn of each operation, by its number."""

    kind: I64
    key: I64
    full: Bools
    """It reads the whole table."""
    is_read: Bools
    outcome: I64
    takes_effect: Bools
    name: U64
    invoked: I64
    completed: I64

    @property
    def position(self) -> I64:
        """The position of main after it."""
        return np.cumsum(self.takes_effect)


def _made(keys: _Keys, n: int, seed: int) -> TableFrame:
    drawn = _drawn(len(keys.alive), n, seed)
    seen, rows = _applied(keys, drawn)
    seen[drawn.full] = _whole_tables(rows, drawn.position[drawn.full])
    return _framed(keys.spec, drawn, seen, rows)


def _drawn(keys: int, n: int, seed: int) -> _Drawn:
    rng = np.random.default_rng((seed, 0))
    chosen = rng.choice(len(MIX), n, p=np.array(list(MIX.values())) / sum(MIX.values()))
    kind = np.array([CODES[k] for k in MIX], np.int64)[chosen]
    key = rng.integers(0, keys, n)
    full = rng.random(n) < FULL_READS
    kind[full] = CODES["read"]
    is_read = (kind == CODES["read-key"]) | full
    fate = rng.random(n)
    outcome = np.where(is_read | (fate >= 0.11), 0, np.where(fate < 0.1, 1, 2))
    takes_effect = ~is_read & ((outcome == 0) | ((outcome == 2) & (fate < 0.105)))
    time = np.arange(n)
    name = mix((time + 1).astype(np.uint64) * np.uint64(977) + np.uint64(seed))

    # Operations whose events are near have different remainders by 8, so no index is there twice.
    early, late = rng.integers(0, SPREAD, (2, n))
    origin = 4 * SCALE
    invoked = (origin + time * SCALE - early) * 16 + time % 8 * 2
    completed = (origin + time * SCALE + late) * 16 + time % 8 * 2 + 1
    completed = np.where(outcome == 2, NEVER_CAME, completed)
    return _Drawn(kind, key, full, is_read, outcome, takes_effect, name, invoked, completed)


class _Rows(NamedTuple):
    """The rows that the operations added and removed, by position."""

    position: I64
    sign: I64
    id: I64
    val: U64
    cnt: I64
    log: U64
    part: I64


def _applied(keys: _Keys, drawn: _Drawn) -> tuple[U64, _Rows]:
    """What each read of a key saw, and what each operation does to its key, all keys at once: the first operation of each, then the second, …

    An insert of what is there would make a second row, so it becomes an update, in ``drawn`` too.
    """
    order = np.argsort(drawn.key, kind="stable")
    used_keys, first, count = np.unique(drawn.key[order], return_index=True, return_counts=True)
    seen, position = np.zeros(len(order), np.uint64), drawn.position
    rows: list[tuple[I64, ...]] = []

    def note(sign: int, ops: I64, ids: I64) -> None:
        own = (keys.val[ids], keys.cnt[ids], keys.log[ids], ids % keys.spec.partitions)
        rows.append((position[ops], np.full(len(ops), sign), ids, *own))  # type: ignore[arg-type]

    for turn in range(int(count.max(initial=0))):
        going = np.flatnonzero(count > turn)
        ids = used_keys[going]
        ops = order[first[going] + turn]
        alive = keys.alive[ids]
        what = drawn.kind[ops]
        reads = (what == CODES["read-key"]) & alive
        seen[ops[reads]] = keys.hashes(ids[reads])
        acts = drawn.takes_effect[ops]
        what = np.where((what == CODES["insert"]) & alive, CODES["update-register"], what)
        drawn.kind[ops] = np.where(drawn.is_read[ops], drawn.kind[ops], what)
        upsert = what == CODES["merge-upsert"]
        born = acts & ~alive & ((what == CODES["insert"]) | upsert)
        dies = acts & alive & (what == CODES["delete"])
        changes = acts & alive & (upsert | np.isin(what, [CODES[k] for k in MIX if k.startswith("update")]))
        note(-1, ops[dies | changes], ids[dies | changes])
        keys.alive[ids[dies]] = False
        keys.bear(ids[born], drawn.name[ops[born]])
        keys.change(ids, drawn.name[ops], what, changes)
        note(1, ops[born | changes], ids[born | changes])

    columns = [np.concatenate(c) for c in zip(*rows, strict=True)]
    by_position = np.argsort(columns[0], kind="stable")
    return seen, _Rows(*(c[by_position] for c in columns))


def _whole_tables(rows: _Rows, positions: I64) -> U64:
    """The hash of the whole table at each of the positions."""
    hashes = hash_rows(rows.id, rows.val, rows.cnt, rows.log, rows.part)
    signed = np.where(rows.sign > 0, hashes, np.uint64(0) - hashes)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(signed, dtype=np.uint64)])
    return running[np.searchsorted(rows.position, positions, "right")]


def _framed(spec: TableSpec, drawn: _Drawn, seen: U64, rows: _Rows) -> TableFrame:
    n = len(seen)
    order = np.argsort(drawn.invoked)
    number = np.empty(n, np.int64)
    number[order] = np.arange(n)
    keyed = order[~drawn.full[order]]
    none = np.full(n, -1, np.int64)
    return TableFrame(
        spec=spec,
        kinds=tuple(CODES),
        kind=drawn.kind[order],
        outcome=drawn.outcome[order].astype(np.int64),
        process=_processes(np.arange(n), drawn.outcome == 2)[order],
        invoked=drawn.invoked[order],
        completed=drawn.completed[order],
        name=drawn.name[order],
        seen=seen[order],
        past_position=none,
        since=none,
        until=none,
        form=np.where(drawn.full, WHOLE, IDS)[order],
        part=none,
        parity=none,
        arg_op=number[keyed],
        arg_id=drawn.key[keyed],
        commit_op=number[np.flatnonzero(drawn.takes_effect)],
        position=rows.position,
        sign=rows.sign,
        id=rows.id,
        val=rows.val,
        cnt=rows.cnt,
        log=rows.log,
        row_part=rows.part,
    )


def _processes(time: I64, lost: Bools) -> I64:
    """Clients take turns; one whose operation had no answer goes on as a new process."""
    out = np.empty(len(time), np.int64)
    for client in range(CLIENTS):
        turns = time % CLIENTS == client
        mine = lost[turns]
        out[turns] = client + CLIENTS * (np.cumsum(mine) - mine)
    return out
