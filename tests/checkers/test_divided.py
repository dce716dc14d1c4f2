"""A table in buckets, and its commits and reads in the order of events, show what the screen of the whole table shows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from bench import columns as made
from checkers.columns import Frame, Unordinary, bykey, dataset, frame_of, inorder, screen
from checkers.columns import divided as stages
from checkers.columns.engine import MOST
from checkers.columns.external import Sorting
from checkers.columns.facts import Bools, KindFacts
from checkers.columns.frames import COPY, I64, IDS, NEVER, PARTS, WHERE, WHOLE
from checkers.columns.screen import part_of, proving
from checkers.evidence.replace import replace
from checkers.timeline.timeline import timelines
from tests.support.simulator import MIX, UPSERTING, Defects, simulate
from workloads.tables import TableSpec

SPECS = [
    TableSpec(name="a", mode="merge-on-read", partitions=2, seed_rows=4),
    TableSpec(name="b", format_version=3, isolation="snapshot", partitioned=False, partitions=2, seed_rows=4),
]
DEFECTS = [
    Defects(),
    Defects(stale_read=0.6),
    Defects(undelete=0.6),
    Defects(overwrite=0.6, skew=0.5),
    Defects(drop_rows=0.7, resurrect=0.5),
    Defects(fractured_read=0.5, wrong_travel=0.3),
    Defects(early=0.3),
    Defects(stale_overwrite=0.5),
]
OF_COMMITS = {"lost-commit", "duplicate-commit", "false-failure", "unknown-commit", "unknown-kind"}
"""Reasons that need neither buckets nor order."""


def frames() -> list[Frame]:
    """Ordinary tables of simulated runs, clean and broken."""
    out = []
    for seed in range(6):
        for n, defects in enumerate(DEFECTS):
            mix = UPSERTING if (seed + n) % 3 == 0 else MIX
            for t in timelines(simulate(seed, SPECS, ops=20, mix=mix, defects=defects).evidence())[0]:
                try:
                    out.append(frame_of(t))
                except Unordinary:
                    continue
    return out


def with_proofs() -> list[tuple[Frame, Frame]]:
    """Tables with time travels, and the same whose expiries prove a little more than was asked for when they were acknowledged."""
    out = []
    for f in frames():
        facts = KindFacts.of(f.kinds)
        expiries = np.flatnonzero((f.kind == f.kinds.index("expire-snapshots")) & (f.outcome == 0))
        if not (facts.travels[f.kind] & (f.outcome == 0)).any() or not len(expiries) or (f.commit_op < 0).any():
            continue
        at = f.at.copy()
        reached = np.maximum.accumulate(f.invoked[f.commit_op])
        at[expiries] = (
            np.searchsorted(reached, f.completed[expiries]) + 3
        )  # may be beyond main, as in a damaged dataset
        out.append((f, replace(f, at=at)))
    return out


def divided(f: Frame, buckets: int, chunk: int) -> dict[str, list[int]]:
    """Reason → operations, from buckets and the pass."""
    facts, n = KindFacts.of(f.kinds), f.operations
    ok = f.outcome == 0
    travels = ok & facts.travels[f.kind]
    reads = ok & facts.reads[f.kind] & ~travels
    keyed = reads & (f.form == IDS)
    whole = reads & (f.form != IDS)
    asked = bool(whole.any() or travels.any())
    found = [
        rows
        for k in range(buckets)
        for rows in bykey.screen_bucket(_bucket(f, facts, keyed, np.arange(buckets) == k), f.spec, f.kinds, whole=asked)
    ]
    c = f.commit_op
    answered = np.where(ok[c], f.completed[c], NEVER)
    flags = facts.dml[f.kind[c]] * inorder.DML + facts.told[f.kind[c]] * inorder.TOLD
    at = np.arange(1, len(c) + 1)
    found.append(inorder.rows(inorder.COMMIT, f.invoked[c], position=at, op=c, a=answered, b=flags))
    proofs = proving(f.at, ok, facts.travels[f.kind])
    found.append(inorder.rows(inorder.PROOF, f.invoked[proofs], position=f.at[proofs], a=f.completed[proofs]))
    for what, chosen in ((inorder.WHOLE, whole), (inorder.TRAVEL, travels), (inorder.RANGE, travels)):
        ops = np.flatnonzero(chosen)
        about: dict[str, I64] = {"op": ops, "a": f.completed[ops]}
        if what == inorder.RANGE:
            about |= {"b": f.since[ops], "c": f.until[ops] + 1}
        else:
            about |= {"b": f.seen[ops].view(np.int64), "position": f.at[ops]}
        found.append(inorder.rows(what, np.full(len(ops), -1) if what == inorder.TRAVEL else f.invoked[ops], **about))
    events = in_order(found)
    passing = inorder.InOrder(chunk=chunk)
    for start in range(0, events.shape[1], chunk):
        passing.feed(events[:, start : start + chunk])
    out: dict[str, set[int]] = {}
    for reason, ops_of in passing.end():
        out.setdefault(reason, set()).update(ops_of.tolist())
    assert n == len(f.kind)
    return {reason: sorted(ops) for reason, ops in sorted(out.items())}


def in_order(found: list[I64]) -> I64:
    """Rows of the pass, sorted by event."""
    rows = np.concatenate(found, axis=1)
    return rows[:, np.argsort(rows[0], kind="stable")]


def _bucket(f: Frame, facts: KindFacts, keyed: Bools, mine: Bools) -> dict[int, I64]:
    """The rows of one bucket: of the ids that belong to it by their remainder."""
    k, own = int(np.flatnonzero(mine)[0]), len(mine)
    rows: dict[int, list[I64]] = {}

    def add(what: int, **columns: I64) -> None:
        size = len(columns["id"]) if "id" in columns else len(columns["position"])
        told = [columns.get(name, np.zeros(size, np.int64)) for name in bykey.COLUMNS[what]]
        rows.setdefault(what, []).append(np.stack(told))

    def of(ops: I64) -> dict[str, I64]:
        answered = np.where(f.outcome[ops] == 0, f.completed[ops], NEVER)
        told = {"kind": f.kind, "form": f.form, "in_part": f.part, "parity": f.parity, "invoked": f.invoked}
        columns = {name: column[ops] for name, column in told.items()}
        return {**columns, "op": ops, "name": f.name[ops].view(np.int64), "completed": answered}

    position = {int(op): p for p, op in enumerate(f.commit_op, 1)}
    at = np.array([position.get(int(op), 0) for op in f.arg_op], np.int64)
    arg = np.arange(len(at))
    named = np.flatnonzero((f.arg_id % own == k) & (at > 0) & (f.form[f.arg_op] != COPY))
    ops = f.arg_op[named]
    add(
        bykey.NAMED,
        **{
            **of(ops),
            "id": f.arg_id[named],
            "number": arg[named],
            "position": at[named],
        },
    )
    first = np.flatnonzero((f.form[f.arg_op] == COPY) & (at > 0))[::2]
    first = first[f.arg_id[first] % own == k]
    ops = f.arg_op[first]
    add(
        bykey.NAMED,
        **{
            **of(ops),
            "id": f.arg_id[first],
            "number": f.arg_id[first + 1],
            "position": at[first],
        },
    )
    read = np.flatnonzero((f.arg_id % own == k) & keyed[f.arg_op])
    ops = f.arg_op[read]
    told = {"completed": f.completed[ops], "seen": f.seen[ops].view(np.int64)}
    add(bykey.READ, **{**of(ops), "id": f.arg_id[read], **told})
    changed = np.flatnonzero(f.id % own == k)
    add(
        bykey.CHANGED,
        position=f.position[changed],
        sign=f.sign[changed],
        id=f.id[changed],
        val=f.val[changed].view(np.int64),
        cnt=f.cnt[changed],
        log=f.log[changed].view(np.int64),
        row_part=f.row_part[changed],
    )
    removes = facts.removes[f.kind[f.commit_op]]
    taking = np.flatnonzero(removes & np.isin(f.form[f.commit_op], (WHERE, WHERE + 1, WHOLE)))
    add(bykey.TAKEN, **{**of(f.commit_op[taking]), "position": taking + 1})
    several = np.flatnonzero((f.form[f.arg_op] == PARTS) & (at > 0) & facts.removes[f.kind[f.arg_op]])
    pairs = np.unique(np.stack([at[several], part_of(f.arg_id[several], f.spec.partitions)]), axis=1)
    ops = f.commit_op[pairs[0] - 1]
    add(bykey.TAKEN, **{**of(ops), "position": pairs[0], "id": pairs[1]})
    return {what: np.concatenate(each, axis=1) for what, each in rows.items()}


def of_screen(f: Frame) -> dict[str, list[int]]:
    found = screen(f).suspects
    return {reason: ops.tolist() for reason, ops in sorted(found.items()) if reason not in OF_COMMITS}


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_buckets_and_order_show_what_the_screen_shows(chunk: int) -> None:
    reasons: set[str] = set()
    proven = 0
    for n, f in enumerate(frames()):
        if (f.commit_op < 0).any() or len(np.unique(f.commit_op)) < len(f.commit_op):
            continue
        wanted = of_screen(f)
        assert divided(f, 1 + n % 4, chunk) == wanted, n
        reasons |= wanted.keys()
        proven += not wanted
    assert proven >= 10 and reasons >= {"wrong-rows", "no-state-read", "maintenance-changed-rows"}, (proven, reasons)


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_what_expiries_prove_bounds_reads_in_buckets_too(chunk: int, tmp_path: Path) -> None:
    bounded = 0
    for n, (f, proven) in enumerate(with_proofs()):
        if len(np.unique(f.commit_op)) < len(f.commit_op):
            continue
        wanted = of_screen(proven)
        assert divided(proven, 1 + n % 4, chunk) == wanted, n
        first = {reason: ops.tolist()[:MOST] for reason, ops in sorted(screen(proven).suspects.items())}
        assert staged(written(proven, tmp_path / str(n)), (20, 200, 10_000)[n % 3], n) == first, n
        bounded += wanted != of_screen(f)
    assert bounded >= 3, bounded


@pytest.mark.parametrize("chunk", [500, 1 << 20])
def test_long_tables_are_proven_in_buckets_too(chunk: int) -> None:
    f = made.frame(20_000)
    assert screen(f).proven and divided(f, 5, chunk) == {}


def test_a_wrong_value_is_found_in_buckets_too() -> None:
    f = made.frame(5_000, seed=3)
    val = f.val.copy()
    val[1000] += np.uint64(1)
    wrong = replace(f, val=val)
    assert divided(wrong, 4, 600) == of_screen(wrong) != {}


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_read_takes_the_first_range_that_real_time_allows(chunk: int) -> None:
    """An id is there, gone, there again: a read of nothing is at a later position than a commit or read before it."""
    flags = inorder.DML + inorder.TOLD
    commits = inorder.rows(
        inorder.COMMIT,
        np.array([0, 2, 4, 20]),
        position=np.arange(1, 5),
        op=np.arange(4),
        a=np.array([1, 3, 5, 21]),
        b=np.full(4, flags),
    )

    def read(op: int, invoked: int, completed: int, *ranges: tuple[int, int]) -> I64:
        whole = [np.full(len(ranges), x) for x in (invoked, op, completed)]
        since, until = np.array(ranges).T
        return inorder.rows(inorder.RANGE, whole[0], op=whole[1], a=whole[2], b=since, c=until)

    gone = ((0, 1), (2, 3), (4, NEVER))
    reads = (
        read(10, 6, 22, *gone),  # position 3 was acknowledged before it: not before position 4
        read(11, 7, 12, *gone),  # position 4 was invoked after it had ended
        read(12, 8, 9, (3, 4)),
        read(13, 23, 24, (3, 4)),  # position 4 was acknowledged before it
        read(14, 25, 26, (-1, -1)),
    )
    events = in_order([commits, *reads])
    passing = inorder.InOrder(chunk=chunk)
    for row in range(events.shape[1]):
        passing.feed(events[:, row : row + 1])
    found = [(reason, op) for reason, ops in passing.end() for op in ops.tolist()]
    assert sorted(found) == [("no-state-read", 11), ("no-state-read", 13), ("no-state-read", 14)]


def staged(folder: Path, bucket: int, seed: int) -> dict[str, list[int]]:
    """Reason → operations, from the stages that Spark's tasks run, for the first table of a dataset; blocks arrive in any order."""
    slices = dataset.slices_of(folder, 0)
    parts = {0: dataset.parts_of(folder)[0]}
    seen = stages.gathered_seen(parts, (x for s in slices for x in stages.scan(s, {0: parts[0].kinds})))
    tables = stages.planned(parts, seen, {0: dataset.rows_of(folder, 0)}, bucket)
    found = list(seen[0].strange or seen[0].suspects)
    rng = np.random.default_rng(seed)

    def arrived(sent: Iterable[stages.Sent]) -> dict[int, list[stages.Sent]]:
        out: dict[int, list[stages.Sent]] = {}
        for block in sent:
            out.setdefault(block[0], []).append(block)
        return {to: [blocks[n] for n in rng.permutation(len(blocks))] for to, blocks in out.items()}

    if tables:
        in_order = list(tables.values())
        read = arrived(x for s in slices for x in stages.read_operations(s, tables))
        placed = [x for n, blocks in read.items() for x in stages.place(n, iter(blocks), in_order)]
        rows = arrived([*placed, *(x for s in slices for x in stages.read_changes(s, tables))])
        shown = arrived(x for n, blocks in rows.items() for x in stages.screen_ids(n, iter(blocks), in_order))
        found += [suspect for n, blocks in shown.items() for _, suspect in stages.go_through(n, iter(blocks))]
    out: dict[str, list[int]] = {}
    for s in found:
        out.setdefault(s.reason, []).extend(s.first.tolist())
        assert s.count >= len(s.first)
    return {reason: sorted(ops)[:MOST] for reason, ops in sorted(out.items())}


def written(f: Frame, folder: Path) -> Path:
    dataset.write([("run", f)], folder)
    return folder


def test_the_stages_show_what_the_screen_shows(tmp_path: Path) -> None:
    reasons: set[str] = set()
    proven = 0
    for n, f in enumerate(frames()[::2]):
        wanted = {reason: ops.tolist()[:MOST] for reason, ops in sorted(screen(f).suspects.items())}
        assert staged(written(f, tmp_path / str(n)), (20, 200, 10_000)[n % 3], n) == wanted, n
        reasons |= wanted.keys()
        proven += not wanted
    assert proven >= 5 and reasons >= {"wrong-rows", "no-state-read", "commit-order"}, (proven, reasons)


def test_the_stages_find_what_is_planted_in_a_long_table(tmp_path: Path) -> None:
    f = made.frame(5_000, seed=3)
    assert staged(written(f, tmp_path / "clean"), 2_000, 0) == {}
    commits = f.commit_op.copy()
    commits[[7, 70]] = -1
    assert staged(written(replace(f, commit_op=commits), tmp_path / "nobody"), 2_000, 0) == {
        "unknown-commit": [-71, -8]
    }
    kind = f.kind.copy()
    kind[5] = 99
    assert staged(written(replace(f, kind=kind), tmp_path / "strange"), 2_000, 0) == {"unknown-kind": [5]}
    outcome = f.outcome.copy()
    failed, made_by = np.flatnonzero(outcome == 1)[:3], f.commit_op[:4]
    outcome[failed], outcome[made_by] = 0, 1
    assert staged(written(replace(f, outcome=outcome), tmp_path / "told"), 2_000, 0) == {
        "false-failure": sorted(made_by.tolist()),
        "lost-commit": failed.tolist(),
    }


@pytest.mark.parametrize("held", [1, 7, 100, 10_000])
def test_rows_come_back_sorted_however_many_fit_into_memory(held: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(held)
    sorting = Sorting(tmp_path, 3, held=held)
    added = [np.stack([rng.integers(-1, 50, n), *rng.integers(0, 1 << 60, (2, n))]) for n in rng.integers(0, 90, 20)]
    for rows in added:
        sorting.add(rows)
    blocks = list(sorting.merged())
    found = np.concatenate(blocks, axis=1)
    assert (np.diff(found[0]) >= 0).all()
    assert sorted(map(tuple, found.T.tolist())) == sorted(map(tuple, np.concatenate(added, axis=1).T.tolist()))
    assert held > 1000 or len(blocks) > 1


def test_nothing_sorted_is_nothing(tmp_path: Path) -> None:
    assert list(Sorting(tmp_path, 3).merged()) == []
