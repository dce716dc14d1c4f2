"""A long clean run of one table as columns, made at once: many clients, every operation by key, reads of keys and of the whole table.

Operation i takes effect at time i, is invoked up to four before and answered up to four after it; eight clients take turns. Of the writes a
tenth are refused and a hundredth end without an answer, half of which took effect. A key has one row or none.
"""

from __future__ import annotations

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


def _made(keys: _Keys, n: int, seed: int) -> TableFrame:
    rng = np.random.default_rng((seed, 0))
    chosen = rng.choice(len(MIX), n, p=np.array(list(MIX.values())) / sum(MIX.values()))
    kind = np.array([CODES[k] for k in MIX], np.int64)[chosen]
    key = rng.integers(0, len(keys.alive), n)
    full = rng.random(n) < FULL_READS
    kind[full] = CODES["read"]
    is_read = (kind == CODES["read-key"]) | full
    fate = rng.random(n)
    outcome = np.where(is_read | (fate >= 0.11), 0, np.where(fate < 0.1, 1, 2))
    takes_effect = ~is_read & ((outcome == 0) | ((outcome == 2) & (fate < 0.105)))
    time = np.arange(n)
    names = mix((time + 1).astype(np.uint64) * np.uint64(977) + np.uint64(seed))

    # Operations whose events are near have different remainders by 8, so no index is there twice.
    early, late = rng.integers(0, SPREAD, (2, n))
    origin = 4 * SCALE
    invoked = (origin + time * SCALE - early) * 16 + time % 8 * 2
    completed = (origin + time * SCALE + late) * 16 + time % 8 * 2 + 1
    completed = np.where(outcome == 2, NEVER_CAME, completed)
    position = np.cumsum(takes_effect)

    # What each operation does to its key, all keys at once: the first operation of each, then the second, …
    order = np.argsort(key, kind="stable")
    there_are, first, count = np.unique(key[order], return_index=True, return_counts=True)
    seen = np.zeros(n, np.uint64)
    rows: list[tuple[I64, ...]] = []

    def note(sign: int, ops: I64, ids: I64) -> None:
        own = (keys.val[ids], keys.cnt[ids], keys.log[ids], ids % keys.spec.partitions)
        rows.append((position[ops], np.full(len(ops), sign), ids, *own))  # type: ignore[arg-type]

    alive, val, cnt, log = keys.alive, keys.val, keys.cnt, keys.log
    for turn in range(int(count.max(initial=0))):
        going = np.flatnonzero(count > turn)
        ids = there_are[going]
        ops = order[first[going] + turn]
        there = alive[ids]
        what = kind[ops]
        reads = (what == CODES["read-key"]) & there
        seen[ops[reads]] = keys.hashes(ids[reads])
        acts = takes_effect[ops]
        # An insert of what is there would make a second row: it becomes an update.
        what = np.where((what == CODES["insert"]) & there, CODES["update-register"], what)
        kind[ops] = np.where(is_read[ops], kind[ops], what)
        upsert = what == CODES["merge-upsert"]
        born = acts & ~there & ((what == CODES["insert"]) | upsert)
        dies = acts & there & (what == CODES["delete"])
        changes = acts & there & (upsert | np.isin(what, [CODES[k] for k in MIX if k.startswith("update")]))
        note(-1, ops[dies | changes], ids[dies | changes])
        alive[ids[dies]] = False
        alive[ids[born]] = True
        by = names[ops]
        new = ids[born]
        val[new], cnt[new] = by[born], 0
        log[new] = appended(np.zeros(len(new), np.uint64), by[born])
        sets = changes & (upsert | (what == CODES["update-register"]))
        val[ids[sets]] = by[sets]
        counts = changes & (upsert | (what == CODES["update-counter"]))
        cnt[ids[counts]] += 1
        appends = changes & (upsert | (what == CODES["update-append"]))
        log[ids[appends]] = appended(log[ids[appends]], by[appends])
        note(1, ops[born | changes], ids[born | changes])

    columns = [np.concatenate(c) for c in zip(*rows, strict=True)]
    by_position = np.argsort(columns[0], kind="stable")
    at, sign, id, row_val, row_cnt, row_log, part = (c[by_position] for c in columns)
    hashes = hash_rows(id, row_val, row_cnt, row_log, part)
    signed = np.where(sign > 0, hashes, np.uint64(0) - hashes)
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(signed, dtype=np.uint64)])
    whole = np.flatnonzero(full)
    seen[whole] = running[np.searchsorted(at, position[whole], "right")]
    invoked_order = np.argsort(invoked)
    number = np.empty(n, np.int64)
    number[invoked_order] = np.arange(n)
    keyed = invoked_order[~full[invoked_order]]
    none = np.full(n, -1, np.int64)
    return TableFrame(
        spec=keys.spec,
        kinds=tuple(CODES),
        kind=kind[invoked_order],
        outcome=outcome[invoked_order].astype(np.int64),
        process=_processes(time, outcome == 2)[invoked_order],
        invoked=invoked[invoked_order],
        completed=completed[invoked_order],
        name=names[invoked_order],
        seen=seen[invoked_order],
        past_position=none,
        since=none,
        until=none,
        form=np.where(full, WHOLE, IDS)[invoked_order],
        part=none,
        parity=none,
        arg_op=number[keyed],
        arg_id=key[keyed],
        commit_op=number[np.flatnonzero(takes_effect)],
        position=at,
        sign=sign,
        id=id,
        val=row_val,
        cnt=row_cnt,
        log=row_log,
        row_part=part,
    )


def _processes(time: I64, lost: Bools) -> I64:
    """Clients take turns; one whose operation had no answer goes on as a new process."""
    out = np.empty(len(time), np.int64)
    for client in range(CLIENTS):
        turns = time % CLIENTS == client
        mine = lost[turns]
        out[turns] = client + CLIENTS * (np.cumsum(mine) - mine)
    return out
