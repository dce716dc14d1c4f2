"""The pointer checker: what proxies saw a catalog accept, against what the table log has."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence import proxylog
from checkers.evidence.change_requests import change_requests
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import Operation
from checkers.evidence.problem import problem_of
from checkers.evidence.proxylog import TRANSACTIONS, AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import TableLog
from checkers.judge.check import check
from checkers.judge.known import RunFacts
from checkers.pointer import Pointer
from checkers.selftest.recorded import as_seen
from checkers.timeline import explain
from checkers.verdict import Anomaly, Checker, Verdict
from nemesis.faults.fault import Fault
from tests.support.peers import Rig, Want
from tests.support.simulator import simulate
from workloads.tables import TableSpec

SPECS = [TableSpec(name="t", format_version=2, mode="merge-on-read", isolation="serializable", partitioned=False)]


def clean(seed: int = 0) -> Evidence:
    """A simulated run, and the swaps that led from each version to the next."""
    return as_seen(simulate(seed, SPECS).evidence())


def with_swaps(e: Evidence, accepted: Sequence[PointerSwap]) -> Evidence:
    return replace(e, swaps={"t": tuple(accepted)})


def names(e: Evidence) -> list[str]:
    return [a.name for a in Pointer().check(e).anomalies]


def test_the_swaps_that_made_the_history_are_no_anomaly() -> None:
    verdict = Pointer().check(clean())
    assert verdict.valid is True and verdict.stats["tables"]["t"]["swaps"] > 5


def test_a_run_without_proxies_says_nothing() -> None:
    assert Pointer().check(replace(clean(), swaps={})).valid is True


def test_two_accepted_swaps_of_one_version_are_a_lost_update() -> None:
    e = clean()
    first = e.swaps["t"][3]
    rival = replace(first, op="rival", new=first.new.replace(".metadata", "-rival.metadata"), time=first.time + 1)
    verdict = Pointer().check(with_swaps(e, [*e.swaps["t"], rival]))
    (a,) = verdict.anomalies
    assert a.name == "lost-update" and a.ops[0] == "rival" and first.op in a.ops
    assert first.base is not None
    for location in (rival.new, first.base):
        assert location.rpartition("/")[2] in a.explanation
    assert "goes on with " + first.new.rpartition("/")[2] + ", so rival is lost" in a.explanation


def test_a_lost_commit_says_why_it_is_lost() -> None:
    e = clean()
    first = e.swaps["t"][3]
    rival = replace(first, op="rival", new=first.new.replace(".metadata", "-rival.metadata"))

    class Loses(Checker):
        name = "commits"

        def check(self, _: Evidence) -> Verdict:
            found = [Anomaly("lost-commit", "commits", table, f"{op} is lost.", ops=(op,)) for table, op in LOST]
            return Verdict("commits", False, tuple(found))

    LOST = [("t", "rival"), ("t", "another"), ("u", "rival")]
    verdicts = check(with_swaps(e, [*e.swaps["t"], rival]), [Loses(), Pointer()]).verdicts
    told = [a for v in verdicts if v.checker == "commits" for a in v.anomalies]
    assert ["Why: a lost update of the table's pointer" in a.explanation for a in told] == [True, False, False]
    assert first.op in told[0].ops and told[0].ops[0] == "rival" and rival.new in told[0].files


def test_an_accepted_swap_that_the_history_does_not_have_is_lost() -> None:
    e = clean()
    log = e.logs["t"]
    lost = PointerSwap(
        5, 6, 1, "x1-1", "s3://elsewhere/v.metadata.json", log.location + "/metadata/lost.metadata.json", "ok"
    )
    verdict = Pointer().check(with_swaps(e, [*e.swaps["t"], lost]))
    (a,) = verdict.anomalies
    assert a.name == "lost-swap" and a.ops == ("x1-1",) and "lost.metadata.json" in a.explanation


def test_a_swap_that_was_answered_after_the_last_capture_is_not_missed() -> None:
    e = clean()
    log = e.logs["t"]
    assert log.captured_until is not None
    late = PointerSwap(0, log.captured_until, 1, "x1-1", None, log.location + "/metadata/late.metadata.json", "ok")
    assert names(with_swaps(e, [*e.swaps["t"], late])) == []
    assert names(with_swaps(e, [*e.swaps["t"], replace(late, end=late.end - 1)])) == ["lost-swap"]


@pytest.mark.parametrize(
    "change",
    [
        lambda log: replace(log, complete=False),
        lambda log: replace(log, problems=(problem_of("metadata file x is missing"),)),
        lambda log: replace(log, metadata=log.metadata[3:]),
        lambda log: replace(
            log,
            metadata=(
                replace(log.metadata[0], problems=(problem_of("metadata file x is corrupt: y"),)),
                *log.metadata[1:],
            ),
        ),
    ],
)
def test_a_history_with_gaps_proves_no_loss(change: Any) -> None:
    e = clean()
    log: TableLog = change(e.logs["t"])
    lost = PointerSwap(5, 6, 1, "x1-1", None, log.location + "/metadata/lost.metadata.json", "ok")
    assert names(replace(with_swaps(e, [lost]), logs={"t": log})) == []


def test_two_writers_who_wrote_the_same_version_file() -> None:
    e = clean()
    place = e.logs["t"].metadata[3].location
    both = [PointerSwap(1, 2, n, f"x{n}-0", None, place, "200", names_place=True) for n in (0, 1)]
    assert names(with_swaps(e, both)) == ["lost-update"]
    both[0] = replace(both[0], end=9)
    (a,) = Pointer().check(with_swaps(e, both)).anomalies
    assert a.evidence["lost"] == ["x1-0"], "the one that was answered first, whichever was sent first"
    again = [replace(s, op="x0-0") for s in both]
    assert names(with_swaps(e, again)) == [], "a copy that the same operation sent twice"


def test_a_swap_of_a_file_that_the_pointer_never_named() -> None:
    e = clean()
    swaps = list(e.swaps["t"])
    swaps[3] = replace(swaps[3], base=e.logs["t"].location + "/metadata/never.metadata.json")
    (a,) = Pointer().check(with_swaps(e, swaps)).anomalies
    assert a.name == "unknown-base" and a.ops[:1] == (swaps[3].op,) and "never.metadata.json" in a.explanation
    put = replace(swaps[2], op="x", base=None, new=str(swaps[3].base), end=1 << 62)
    assert "unknown-base" not in names(with_swaps(e, [*swaps, put])), "an accepted swap, though lost, put it there"


def test_a_swap_of_a_version_that_was_not_current_any_more() -> None:
    e = clean()
    swaps = list(e.swaps["t"])
    swaps[3] = replace(swaps[3], base=swaps[2].base)
    del swaps[2]  # by nobody whom the proxies saw
    (a,) = Pointer().check(with_swaps(e, swaps)).anomalies
    assert a.name == "unknown-base" and a.ops[:1] == (swaps[2].op,) and "not current any more" in a.explanation


def test_a_history_that_contradicts_its_clock_is_not_compared_with_swaps() -> None:
    e = clean()
    whole = of_operations(e, lambda s, o: replace(s, time=o.start, end=s.end if o.end is None else max(s.end, o.end)))
    n, o = next((n, o) for n, s in enumerate(whole) for o in e.history.operations() if (o.op, o.type) == (s.op, "ok"))
    assert o.end is not None and o.completed is not None
    whole[n] = replace(whole[n], time=o.end + 1, end=o.end + 2)
    late = with_swaps(e, whole)
    assert "swap-time" in names(late)
    events = [replace(x, time=x.time - 10**12) if x.index == o.completed.index else x for x in e.history.events]
    v = Pointer().check(replace(late, history=replace(e.history, events=tuple(events))))
    assert v.valid is True and "contradicts its own clock" in v.notes[0]


def of_operations(e: Evidence, f: Callable[[PointerSwap, Operation], PointerSwap]) -> list[PointerSwap]:
    operations = {o.op: o for o in e.history.operations()}
    return [f(s, operations[s.op]) if s.op in operations else s for s in e.swaps["t"]]


def test_a_swap_takes_as_long_as_its_operation_at_most() -> None:
    e = clean()
    whole = of_operations(e, lambda s, o: replace(s, time=o.start, end=s.end if o.end is None else max(s.end, o.end)))
    assert names(with_swaps(e, whole)) == []
    for n, s in enumerate(whole):
        o = next((o for o in e.history.operations() if o.op == s.op and o.type == "ok"), None)
        if o is None or o.end is None:
            continue
        for moved in (replace(s, time=o.end + 1, end=o.end + 2), replace(s, time=o.start - 2, end=o.start - 1)):
            found = Pointer().check(with_swaps(e, [*whole[:n], moved, *whole[n + 1 :]])).anomalies
            assert [a.ops for a in found if a.name == "swap-time"] == [(o.op,)]


def test_swaps_in_another_order_than_the_versions() -> None:
    e = clean()
    swaps = [replace(s, op=None, time=10 * n, end=10 * n + 5) for n, s in enumerate(e.swaps["t"])]
    assert names(with_swaps(e, swaps)) == []
    swaps[4], swaps[5] = (replace(a, time=b.time, end=b.end) for a, b in ((swaps[4], swaps[5]), (swaps[5], swaps[4])))
    (a,) = Pointer().check(with_swaps(e, swaps)).anomalies
    assert a.name == "swap-order" and swaps[4].new in a.files and swaps[5].new in a.files
    swaps[4] = replace(swaps[4], time=swaps[5].end)
    assert names(with_swaps(e, swaps)) == [], "they overlap"


def test_a_swap_by_another_operation_than_its_snapshots() -> None:
    e = clean()
    made = [n for n, s in enumerate(e.swaps["t"]) if s.op is not None]
    n, other = made[2], e.swaps["t"][made[5]].op
    swaps = [replace(s, op=other, time=0, end=1 << 62) if k == n else s for k, s in enumerate(e.swaps["t"])]
    found = [a for a in Pointer().check(with_swaps(e, swaps)).anomalies if a.name == "foreign-swap"]
    assert [a.ops for a in found] == [(other, e.swaps["t"][n].op)]


@given(st.integers(0, 30), st.data())
def test_as_brute_force_says(seed: int, data: st.DataObject) -> None:
    """Any swaps between a few places: the anomalies are the bases with two swaps, and the lone swaps to unknown places."""
    e = clean(seed % 5)
    log = e.logs["t"]
    known = [m.location for m in log.metadata[:4]]
    unknown = [f"{log.location}/metadata/x{n}.metadata.json" for n in range(3)]
    drawn = data.draw(
        st.lists(st.tuples(st.sampled_from(known), st.sampled_from(known + unknown)), unique=True, max_size=6)
    )
    accepted = [PointerSwap(n, n, 0, f"o{n}", base, new, "ok") for n, (base, new) in enumerate(drawn)]
    shared = {b for b, _ in drawn if sum(x == b for x, _ in drawn) > 1}
    told = {new for b, new in drawn if b in shared}
    lone = [new for _, new in drawn if new in unknown and new not in told]
    found = names(with_swaps(e, accepted))
    assert found.count("lost-update") == len(shared) and found.count("lost-swap") == len(lone)


# --- requests that name snapshots


def asked(e: Evidence, *more: AcceptedChange) -> Evidence:
    """The run with only these accepted requests besides its own, and no swaps."""
    return replace(e, swaps={}, accepted={"t": (*e.accepted["t"], *more)})


def a_rival(e: Evidence, **values: Any) -> tuple[AcceptedChange, AcceptedChange]:
    """One of the run's own requests, and another on the same base that no version shows."""
    own = next(c for c in e.accepted["t"][2:] if c.main is not None and c.base is not None)
    lost: dict[str, Any] = {
        "op": "rival",
        "adds": (77,),
        "main": 77,
        "what": f"POST /v1{TRANSACTIONS}",
        "answer": "204",
    }
    return own, replace(own, **(lost | values))


def test_the_requests_that_made_the_history_are_no_anomaly() -> None:
    verdict = Pointer().check(asked(clean()))
    assert verdict.valid is True and verdict.stats["tables"]["t"]["by_snapshot"] > 5
    assert verdict.stats["tables"]["t"]["swaps"] == 0


def test_a_request_that_was_answered_and_is_in_no_version_is_lost_and_the_server_is_blamed() -> None:
    e = clean()
    own, lost = a_rival(e)
    (a,) = Pointer().check(asked(e, lost)).anomalies
    assert (a.name, a.ops, a.snapshots) == ("lost-swap", ("rival", own.op), (77, own.main))
    assert a.explanation.startswith("the catalog server answered 204 at ")
    assert (
        f"to POST /v1/transactions/commit of nobody's operation, which puts main at snapshot 77 in place of snapshot {own.base}."
        in a.explanation
    )
    assert (
        "has that snapshot: the server acknowledged a commit that it did not make. The client cannot know."
        in a.explanation
    )
    assert (
        f"(answered 200 at {explain.s(own.end)}), and made that one; it must refuse the other with 409."
        in a.explanation
    )
    assert a.evidence == {"lost": ["rival"], "answer": "204", "taken": True, "endpoint": "transactions"}


@pytest.mark.parametrize("forgot", [True, False])
def test_what_came_after_the_answer_had_not_taken_the_place_of_the_commit(forgot: bool) -> None:
    """The server forgot it, and made the next commit on the version before."""
    e = clean()
    own, lost = a_rival(e)
    lost = replace(lost, time=own.time - 2, end=own.time - 1) if forgot else lost
    result = check(asked(e, lost), [Pointer()], ran=RunFacts("mine", "rest", "1.12.0"))
    (a,) = [a for v in result.verdicts for a in v.anomalies if a.name == "lost-swap"]
    assert a.evidence["taken"] is not forgot
    assert (
        "its request came after that answer: the server had forgotten what it acknowledged." in a.explanation
    ) is forgot
    assert ("it must refuse the other with 409" in a.explanation) is not forgot


def test_a_staged_snapshot_that_never_became_main_is_lost_too() -> None:
    """Of a transaction over two tables the server applies one part: the other table's snapshot stays staged."""
    e = clean()
    log = e.logs["t"]
    staged = replace(log.metadata[-1], snapshots=(*log.metadata[-1].snapshots, 77))
    e = replace(e, logs={"t": replace(log, metadata=(*log.metadata[:-1], staged))})
    _, lost = a_rival(e, adds=())
    (a,) = Pointer().check(asked(e, lost)).anomalies
    assert a.name == "lost-swap" and "has main there: the server acknowledged" in a.explanation
    assert names(asked(e, replace(lost, adds=(77,), main=None))) == [], "it is staged, as was asked"


def test_of_a_request_that_the_log_need_not_show_nothing_is_concluded() -> None:
    e = clean()
    _, lost = a_rival(e)
    until = e.logs["t"].captured_until
    assert until is not None
    assert names(asked(e, replace(lost, end=until))) == []
    gap = replace(e, logs={"t": replace(e.logs["t"], metadata=e.logs["t"].metadata[3:])})
    assert names(asked(gap, lost)) == []
    assert names(asked(e, replace(lost, adds=(), main=None))) == []


def setting(e: Evidence, name: str, snapshot: int, **values: Any) -> AcceptedChange:
    """A request that sets a branch or tag other than main, and nothing else."""
    own = next(c for c in e.accepted["t"][2:] if c.main is not None)
    return replace(
        own, **{"op": "rival", "adds": (), "main": None, "base": None, "refs": ((name, snapshot),), **values}
    )


def with_refs(e: Evidence, **refs: Sequence[int | None]) -> Evidence:
    """The run whose versions have these refs, each at one snapshot after the other, from the fourth version on; the last one stays."""
    log = e.logs["t"]

    def at(n: int) -> dict[str, int]:
        found = {name: where[min(n, len(where) - 1)] for name, where in refs.items()} if n >= 0 else {}
        return {name: s for name, s in found.items() if s is not None}

    metadata = tuple(replace(m, refs={**m.refs, **at(m.n - 3)}) for m in log.metadata)
    return replace(e, logs={"t": replace(log, metadata=metadata)})


def test_a_branch_or_tag_that_was_answered_and_is_in_no_version_is_lost() -> None:
    e = clean()
    a, b = [c.snapshot_id for c in e.logs["t"].commits[:2]]
    lost = setting(e, "audit", a)
    (said,) = Pointer().check(asked(e, lost)).anomalies
    assert (said.name, said.ops, said.snapshots) == ("lost-swap", ("rival",), (a,))
    assert f"puts the ref audit at snapshot {a}" in said.explanation and "has it there: the server" in said.explanation
    assert names(asked(with_refs(e, audit=[a]), lost)) == [], "it is there, as was asked"
    assert names(asked(with_refs(e, audit=[b]), lost)) == ["lost-swap"], "it is elsewhere"
    assert names(asked(with_refs(e, audit=[b, a, None]), lost)) == [], "it was there, and was dropped"
    until = e.logs["t"].captured_until
    assert until is not None and names(asked(e, replace(lost, end=until))) == [], "the log need not show it"
    gap = replace(e, logs={"t": replace(e.logs["t"], metadata=e.logs["t"].metadata[3:])})
    assert names(asked(gap, lost)) == []


def test_a_branch_moves_from_where_the_request_says_or_the_request_is_lost() -> None:
    e = clean()
    a, b, c = [c.snapshot_id for c in e.logs["t"].commits[:3]]
    move = setting(e, "audit", b, base=a)
    assert names(asked(with_refs(e, audit=[a, b]), move)) == []
    assert names(asked(with_refs(e, audit=[a, b]), move, move)) == [], "sent and accepted twice: one request"
    (said,) = Pointer().check(asked(with_refs(e, audit=[a, c, b]), move)).anomalies
    assert said.name == "lost-swap" and f"moves it there from snapshot {a} for it" in said.explanation
    second = replace(move, op="another")
    assert names(asked(with_refs(e, audit=[a, b]), move, second)) == ["lost-swap"], "it moved that way once"
    assert names(asked(with_refs(e, audit=[c, b]), move)) == [], "the base may be another ref's: it never was there"


def test_a_catalog_that_serves_only_the_current_snapshot_proves_no_lost_branch() -> None:
    e = clean()
    log = e.logs["t"]
    one = tuple(replace(m, snapshots=() if m.current is None else (m.current,)) for m in log.metadata)
    e = replace(e, logs={"t": replace(log, metadata=one)})
    assert "lost-swap" not in names(asked(e, setting(e, "audit", log.commits[0].snapshot_id)))


def bringing(e: Evidence) -> list[AcceptedChange]:
    """The run's requests that put main at a snapshot of their own, in place of one that they name."""
    return [c for c in e.accepted["t"] if c.main in c.adds and c.base is not None and c.op is not None]


def only(e: Evidence, requests: Sequence[AcceptedChange]) -> Evidence:
    """The run with these accepted requests, and no swaps."""
    return replace(e, swaps={}, accepted={"t": tuple(requests)})


@given(st.integers(0, 30), st.data())
def test_two_requests_that_carry_each_others_snapshot_are_foreign(seed: int, data: st.DataObject) -> None:
    e = clean(seed % 5)
    one, other = data.draw(st.lists(st.sampled_from(bringing(e)), min_size=2, max_size=2, unique_by=lambda c: c.op))
    carry = {
        one: replace(one, adds=other.adds, main=other.main),
        other: replace(other, adds=one.adds, main=one.main),
    }
    for seen in (only(e, e.accepted["t"]), e):
        assert names(seen) == []
        changed = tuple(carry.get(c, c) for c in e.accepted["t"])
        found = Pointer().check(replace(seen, accepted={"t": changed})).anomalies
        assert [a.name for a in found] == ["foreign-swap", "foreign-swap"]
        assert {a.ops for a in found} == {(one.op, other.op), (other.op, one.op)}, "who asked comes first"


@given(st.integers(0, 30), st.data())
def test_a_request_in_place_of_a_snapshot_that_main_has_left(seed: int, data: st.DataObject) -> None:
    e = clean(seed % 5)
    late = data.draw(st.sampled_from(bringing(e)[2:]))
    left = data.draw(st.sampled_from([c.main for c in bringing(e) if c.time < late.time and c.main != late.base]))
    (a,) = Pointer().check(only(e, [replace(c, base=left) if c is late else c for c in e.accepted["t"]])).anomalies
    assert (a.name, a.ops, a.snapshots) == ("unknown-base", (late.op,), (left, late.main))
    assert f"in place of snapshot {left}: it answered" in a.explanation
    assert f"Yet main went to {late.main} from snapshot {late.base}, in metadata version" in a.explanation


ROLLS = {"insert": 6, "update-counter": 3, "rollback": 3}


def rolled(seed: int) -> tuple[Evidence, list[AcceptedChange]]:
    """A simulated run with rollbacks, and its requests that were rollbacks, each of an operation."""
    e = as_seen(simulate(seed, SPECS, mix=ROLLS).evidence())
    told = [c if c.adds else replace(c, op=f"rollback-{n}") for n, c in enumerate(e.accepted["t"])]
    return only(e, told), [c for c in told if not c.adds]


@given(st.integers(0, 200), st.data())
def test_a_request_for_an_older_snapshot_is_carried_out_or_lost(seed: int, data: st.DataObject) -> None:
    e, back = rolled(seed)
    assert names(e) == []
    if not back:
        return
    own = data.draw(st.sampled_from(back))
    assert names(only(e, [*e.accepted["t"], replace(own, time=own.time + 1)])) == [], "sent and accepted twice"
    again = replace(own, op="late", time=own.time + 1)
    at = e.accepted["t"].index(own) + 1
    found = Pointer().check(only(e, [*e.accepted["t"][:at], again, *e.accepted["t"][at:]])).anomalies
    ways = [(c.base, c.main) for c in back]
    last = max(n for n, c in enumerate(back) if (c.base, c.main) == (own.base, own.main))
    assert [(a.name, a.ops[0]) for a in found] == [
        ("lost-swap", "late" if ways.count((own.base, own.main)) == 1 else back[last].op)
    ], "main went there once less than it was told to"
    went = {(c.base, c.main) for c in e.accepted["t"]}
    ever = [c.main for c in e.accepted["t"]]
    base, target = data.draw(st.sampled_from(ever)), data.draw(st.sampled_from(ever))
    never = replace(own, op="never", base=base, main=target)
    found = Pointer().check(only(e, [*e.accepted["t"], never])).anomalies
    if base == target:
        assert found == (), "main is there"
    elif (base, target) not in went:
        (a,) = found
        assert (a.name, a.ops[0], a.snapshots[0]) == ("lost-swap", "never", target)
        assert f"moves main there from snapshot {base} for it: the server acknowledged" in a.explanation


def test_requests_are_held_to_the_times_of_their_operations_and_to_the_order_of_versions() -> None:
    e = clean()
    operations = {o.op: o for o in e.history.operations()}
    requests = list(e.accepted["t"])
    acked = [n for n, c in enumerate(requests) if c in bringing(e) and operations[c.op or ""].type == "ok"]
    for n in acked:
        o = operations[requests[n].op or ""]
        assert o.end is not None
        late = replace(requests[n], time=o.end + 1, end=o.end + 2)
        found = Pointer().check(only(e, [*requests[:n], late, *requests[n + 1 :]])).anomalies
        assert [a.ops for a in found if a.name == "swap-time"] == [(o.op,)]
    apart = [replace(c, time=10 * n, end=10 * n + 5) for n, c in enumerate(requests)]
    assert "swap-order" not in names(only(e, apart))
    n, m = next((n, n + 1) for n in acked[2:] if n + 1 in acked)
    apart[n], apart[m] = (replace(a, time=b.time, end=b.end) for a, b in ((apart[n], apart[m]), (apart[m], apart[n])))
    found = [a for a in Pointer().check(only(e, apart)).anomalies if a.name == "swap-order"]
    assert [set(a.ops) for a in found][:1] == [{requests[n].op, requests[m].op}]


def test_a_request_whose_swap_is_told_as_lost_is_told_once() -> None:
    e = clean()
    _, lost = a_rival(e)
    swap = PointerSwap(
        lost.time, lost.end, lost.writer, "rival", None, e.logs["t"].location + "/metadata/x.metadata.json", "200"
    )
    both = replace(asked(e, lost), swaps={"t": (swap,)})
    assert names(both) == ["lost-swap"]


def test_a_lost_commit_says_which_request_was_not_carried_out() -> None:
    e = clean()
    _, lost = a_rival(e)

    class Loses(Checker):
        name = "commits"

        def check(self, _: Evidence) -> Verdict:
            found = Anomaly("lost-commit", "commits", "t", "rival is lost.", ops=("rival",), evidence={"seen": False})
            return Verdict("commits", False, (found,))

    result = check(asked(e, lost), [Loses(), Pointer()], ran=RunFacts("mine", "rest", "1.12.0"))
    (told,) = [a for v in result.verdicts for a in v.anomalies if a.name == "lost-commit"]
    assert told.explanation.startswith("rival is lost. Why: the catalog server answered 204") and told.ops == ("rival",)
    (story,) = result.told.stories
    assert [(s.name, s.text) for s in story.steps] == [
        ("lost-swap", "rival: the catalog server answered 204 and did not make the commit: no metadata version has it"),
        ("lost-commit", "rival: acknowledged, but in no version of the table that was read"),
    ]
    assert [k.scenario for k in story.known] == ["rest-lost-transaction"], "whoever sent it"


def test_requests_that_one_server_did_not_carry_out_are_one_story_and_known_only_by_their_endpoint() -> None:
    e = clean()
    _, lost = a_rival(e)
    two = asked(e, lost, replace(lost, op="other", adds=(78,), main=78))

    class Loses(Checker):
        name = "commits"

        def check(self, _: Evidence) -> Verdict:
            found = [Anomaly("lost-commit", "commits", "t", "lost.", ops=(op,)) for op in ("rival", "other")]
            return Verdict("commits", False, tuple(found))

    (story,) = check(two, [Loses(), Pointer()], ran=RunFacts("mine", "my.yaml", "1.12.0")).told.stories
    assert [s.count for s in story.steps] == [2, 2] and "did not make these 2 commits" in story.steps[0].text
    assert [k.scenario for k in story.known] == ["rest-lost-transaction"], "on any REST catalog"
    by_table = replace(two, accepted={"t": tuple(replace(c, what="POST /v1/x") for c in two.accepted["t"])})
    (story,) = check(by_table, [Loses(), Pointer()], ran=RunFacts("mine", "my.yaml", "1.12.0")).told.stories
    assert story.known == ()


# --- reading the proxies' log

ROOT = "s3://warehouse/rest/iq/t"


def log_at(location: str) -> TableLog:
    return replace(simulate(0, SPECS).logs["t"], location=location)


def read(tmp_path: Path, *records: dict[str, Any]) -> tuple[PointerSwap, ...]:
    path = tmp_path / "proxy.jsonl"
    base = {"time": 1_000_000, "ms": 2.5, "kind": "commit", "service": "catalog", "writer": 0, "op": "w0-1"}
    path.write_text("".join(json.dumps({**base, **r}) + "\n" for r in records) + '{"kind":"commit","torn')
    return proxylog.read(path, {"t": log_at(ROOT)}).get("t", ())


def test_a_swap_is_one_that_was_accepted_and_names_a_version(tmp_path: Path) -> None:
    new = f"{ROOT}/metadata/00002-x.metadata.json"
    (swap,) = read(tmp_path, {"new": new, "base": f"{ROOT}/metadata/00001-y.metadata.json", "status": "UPDATE 1"})
    assert (swap.new, swap.end, swap.op) == (new, 3_500_000, "w0-1")
    for status in ("UPDATE 0", "409", "no reply", "503 (nemesis)", "exception", "cut (nemesis)"):
        assert read(tmp_path, {"new": new, "status": status}) == (), status
    for status in ("200", "ok", "200 (nemesis: not told)", "UPDATE 1, told 503 (nemesis)"):
        assert len(read(tmp_path, {"new": new, "status": status})) == 1, status
    assert read(tmp_path, {"new": "7712", "status": "200"}) == (), "a snapshot's id is no place"
    assert read(tmp_path, {"new": new.replace("/t/", "/other/"), "status": "200"}) == ()
    assert read(tmp_path, {"new": new, "status": "200", "kind": "load"}) == ()


@pytest.mark.parametrize(
    "line",
    [
        '["commit"]',
        '{"kind":"commit","time":1,"ms":NaN}',
        '{"kind":"commit","time":1,"ms":1e999}',
        '{"kind":"commit","time":' + "9" * 5000 + "}",
        '"commit"' + "[" * 100_000,
    ],
)
def test_a_line_that_is_no_request_is_left_out(line: str, tmp_path: Path) -> None:
    new = f"{ROOT}/metadata/00002-x.metadata.json"
    read(tmp_path, {"new": new, "status": "200"})
    path = tmp_path / "proxy.jsonl"
    whole = line.replace('"kind":"commit",', f'"kind":"commit","new":"{new}","status":"200","service":"catalog",')
    path.write_text(f"{whole}\n{path.read_text()}")
    assert len(proxylog.read(path, {"t": log_at(ROOT)})["t"]) == 1
    assert len(change_requests(path).get("w0-1", ())) <= 1


def test_the_servers_request_to_its_database_and_the_writers_to_the_server_are_one(tmp_path: Path) -> None:
    new, base = f"{ROOT}/metadata/00002-x.metadata.json", f"{ROOT}/metadata/00001-y.metadata.json"
    records = [
        {"service": "database", "writer": None, "op": None, "new": new, "base": base, "status": "UPDATE 1"},
        {"location": new, "new": "991", "status": "200"},
    ]
    for order in (records, records[::-1]):
        (swap,) = read(tmp_path, *order)
        assert (swap.base, swap.op) == (base, "w0-1")


def accepted(tmp_path: Path, *records: dict[str, Any]) -> tuple[AcceptedChange, ...]:
    read(tmp_path, *records)
    return proxylog.accepted(tmp_path / "proxy.jsonl", {"t": log_at(ROOT)}).get("t", ())


def test_what_a_request_asked_of_a_table_is_read_if_it_was_accepted(tmp_path: Path) -> None:
    what = "POST /v1/transactions/commit"
    changes = [{"table": "u", "adds": ["1"]}, {"table": "t", "base": "5", "adds": ["6"], "refs": {"main": "6"}}]
    (one,) = accepted(tmp_path, {"what": what, "changes": changes, "status": "204"})
    assert one == AcceptedChange(1_000_000, 3_500_000, 0, "w0-1", 5, (6,), 6, what, "204")
    assert one.by_transaction and not replace(one, what="POST /v1/namespaces/db/tables/t").by_transaction
    for status in ("409", "no reply", "503 (nemesis)"):
        assert accepted(tmp_path, {"what": what, "changes": changes, "status": status}) == (), status
    refs = [{"table": "t", "adds": [], "refs": {"audit": "6", "main": "6", "keep": "5"}}]
    (two,) = accepted(tmp_path, {"what": what, "changes": refs, "status": "204"})
    assert (two.main, two.refs) == (6, (("audit", 6), ("keep", 5)))
    odd: list[Any] = [7, [7], [{"table": "t", "adds": ["x"]}], [{"table": ["t"]}], [{"table": "t", "refs": 5}], None]
    records = [{"what": what, "changes": c, "status": "204"} for c in odd]
    assert accepted(tmp_path, *records, {"what": what, "changes": changes, "status": "204"}) == (one,)
    assert proxylog.accepted(tmp_path / "none.jsonl", {}) == {}


def test_a_rename_to_the_next_version_names_the_place(tmp_path: Path) -> None:
    what = f"PUT /{ROOT.removeprefix('s3://')}/metadata/v3.metadata.json"
    found = read(tmp_path, {"what": what, "status": "200"}, {"what": what, "status": "200", "writer": 1, "op": "w1-1"})
    assert [(s.op, s.names_place) for s in found] == [("w0-1", True), ("w1-1", True)]
    assert found[0].new == f"{ROOT}/metadata/v3.metadata.json"


@pytest.mark.parametrize(
    "what",
    [
        "POST /api/v2/trees/n-w0-1%40abc/history/commit",
        "POST /iceberg/v1/main/namespaces/n/tables/t%40n-w0-1",
        "POST /iceberg/v1/main/namespaces/n/tables/t@n-w0-1",
    ],
)
def test_a_commit_to_another_branch_of_nessie_is_a_swap_if_the_branch_is_merged(what: str, tmp_path: Path) -> None:
    commit = {"new": f"{ROOT}/metadata/00002-x.metadata.json", "status": "200", "what": what}
    merge = {"what": "POST /api/v2/trees/main@abc/history/merge", "new": None, "time": 9_000_000, "ms": 4.0}
    assert read(tmp_path, commit) == ()
    assert read(tmp_path, commit, {**merge, "status": "409"}) == ()
    assert read(tmp_path, commit, {**merge, "status": "200", "op": "w1-1"}) == (), "the merge of another operation"
    (swap,) = read(tmp_path, commit, {**merge, "status": "200"})
    assert (swap.op, swap.time, swap.end) == ("w0-1", 9_000_000, 13_000_000), "main's pointer moves when it is merged"
    for main in ("POST /api/v2/trees/main%40abc/history/commit", "POST /iceberg/v1/main/namespaces/n/tables/t"):
        assert len(read(tmp_path, {**commit, "what": main})) == 1


def test_a_commit_that_the_service_got_twice_is_one_swap(tmp_path: Path) -> None:
    new = f"{ROOT}/metadata/00002-x.metadata.json"
    for first, second in (("UPDATE 1", "UPDATE 0"), ("200", "409"), ("ok", "ok")):
        twice = {"new": new, "status": second, "time": 2_000_000, "faults": ["duplicate: sent again"]}
        (swap,) = read(tmp_path, {"new": new, "status": f"{first} (nemesis: not told)"}, twice)
        assert (swap.new, swap.time, swap.answer) == (new, 1_000_000, f"{first} (nemesis: not told)")


def test_the_answer_to_a_request_without_a_snapshot_is_kept_unless_its_operation_has_other_ones(tmp_path: Path) -> None:
    what = "POST /v1/transactions/commit"
    of_snapshot = {"what": what, "op": "both", "new": "6", "changes": [{"table": "t", "adds": ["6"]}], "status": "204"}
    read(
        tmp_path,
        *({"what": what, "op": op, "status": "204"} for op in ("one", "twice", "twice", "both")),
        {"what": what, "op": "refused", "status": "409"},
        of_snapshot,
        {**of_snapshot, "op": "rows"},
    )
    found = proxylog.read_all(tmp_path / "proxy.jsonl", {"t": log_at(ROOT)}).answered
    assert found == {"one": f"204 to {what}", "twice": "", "both": "", "rows": ""}


def test_the_swap_that_a_catalog_accepted_before_it_refused_the_duplicate_is_seen(tmp_path: Path) -> None:
    new = f"{ROOT}/metadata/00002-x.metadata.json"
    put = {"type": "PUT", "key": {"elements": ["db", "t"]}, "content": {"metadataLocation": new}}
    body = json.dumps({"operations": [put]}).encode()
    head = b"POST /api/v2/trees/main@1/history/commit HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    accepted = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    refused = b"HTTP/1.1 409 Conflict\r\nContent-Length: 2\r\n\r\nno"
    with Rig("http", tmp_path / "proxy.jsonl") as rig:
        rig.board.invoked(0, "w0-1")
        rig.board.arm(Fault(verb="duplicate"))
        rig.talk([head + body, Want(refused)], [Want(head + body), accepted, Want(head + body), refused])
        rig.log()  # ends the proxies: the log is complete
    (swap,) = proxylog.read(tmp_path / "proxy.jsonl", {"t": log_at(ROOT)})["t"]
    assert (swap.op, swap.new, swap.answer) == ("w0-1", new, "200 (nemesis: not told)")
