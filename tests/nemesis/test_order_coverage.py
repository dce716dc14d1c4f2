"""By coverage: the rarest interleaving first, as small clients of one catalog see it; nobody waits for ever."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from nemesis.order.coverage import LOADS, Phase, Rarest
from nemesis.order.moment import Moment
from nemesis.order.policy import HeldRequest


class Rare:
    """Operations ``<kind>-…`` on one table; what was seen is counted by kinds."""

    def __init__(self, seen: dict[tuple[str, Phase, str], int] | None = None) -> None:
        self.seen = Counter(seen or {})

    def kind(self, op: str) -> str | None:
        kind = op.split("-")[0]
        return None if kind == "read" else kind

    def table(self, op: str) -> str:
        return "t"

    def rarity(self, first: str, phase: Phase, second: str) -> float:
        return 1 / (1 + self.seen[self._key(first, phase, second)])

    def happened(self, first: str, phase: Phase, second: str) -> None:
        self.seen[self._key(first, phase, second)] += 1

    def _key(self, first: str, phase: Phase, second: str) -> tuple[str, Phase, str]:
        return first.split("-")[0], phase, second.split("-")[0]


class World:
    """Writers that each make the requests of their operations one after the other; a catalog that compares versions; a clock."""

    def __init__(self, policy: Rarest, programs: list[list[str]], computes: dict[int, float] | None = None) -> None:
        self.policy = policy
        self.now = 0.0
        self.left = [list(p) for p in programs]
        self.computes = computes or {}
        self.number = 0
        self.version = 0
        self.op: list[str | None] = [None] * len(programs)
        self.base = [0] * len(programs)
        self.script: list[list[str]] = [[] for _ in programs]
        self.nth: list[Counter[str]] = [Counter() for _ in programs]
        self.due: list[float] = [0.0] * len(programs)
        self.held: dict[int, tuple[int, HeldRequest]] = {}
        self.commits: list[str] = []
        self.waited = 0.0

    def run(self, longest: float = 1_000.0) -> World:
        while self._active():
            assert self.now < longest, "somebody waits for ever"
            self._advance()
            for held in self.policy.decide(self.now):
                self._serve(held)
            self.now += 0.02
        return self

    def _active(self) -> bool:
        return bool(self.held) or any(self.left) or any(op is not None for op in self.op)

    def _advance(self) -> None:
        for w in range(len(self.left)):
            if w in self.held or self.now < self.due[w]:
                continue
            if self.op[w] is None:
                if not self.left[w]:
                    continue
                op = self.left[w].pop(0)
                self.op[w], self.nth[w] = op, Counter()
                self.script[w] = ["load"] * LOADS + ([] if op.startswith("read") else ["commit"])
                self.policy.invoked(w, op, self.now)
                self.due[w] = self.now + self.computes.get(w, 0.01)
                continue
            if not self.script[w]:
                op, self.op[w] = str(self.op[w]), None
                self.policy.completed(w, op, self.now)
                if not self.left[w]:
                    self.policy.finished(w, self.now)
                continue
            kind = self.script[w].pop(0)
            self.nth[w][kind] += 1
            self.number += 1
            held = HeldRequest(self.number, w, Moment.parse(f"{self.op[w]} {kind} {self.nth[w][kind]}"), self.now)
            self.held[w] = (self.number, held)
            self.policy.arrives(held)

    def _serve(self, held: HeldRequest) -> None:
        w = held.writer
        assert self.held.pop(w)[1] == held, "a request goes once, and one that came"
        self.waited = max(self.waited, self.now - held.since)
        if held.moment.kind == "load":
            self.base[w] = self.version
        elif self.base[w] == self.version:
            self.version += 1
            self.commits.append(str(self.op[w]))
        else:
            self.script[w] = ["load", "commit"]
        self.policy.passed(held, self.now)
        self.due[w] = self.now + self.computes.get(w, 0.01)


PROGRAMS = st.lists(
    st.lists(st.sampled_from(["delete", "update", "insert", "read"]), max_size=4), min_size=1, max_size=4
)


def named(programs: list[list[str]]) -> list[list[str]]:
    return [[f"{kind}-{w}-{n}" for n, kind in enumerate(p)] for w, p in enumerate(programs)]


@given(PROGRAMS, st.integers(0, 2**31), st.dictionaries(st.integers(0, 3), st.floats(0, 3), max_size=4))
def test_everybody_comes_to_an_end(programs: list[list[str]], seed: int, computes: dict[int, float]) -> None:
    policy = Rarest(len(programs), Rare(), seed)
    world = World(policy, named(programs), computes).run()
    writes = [op for p in named(programs) for op in p if not op.startswith("read")]
    assert sorted(world.commits) == sorted(writes)
    assert world.waited <= 10.1  # the longest wait, and one step of the clock


@given(PROGRAMS, st.integers(0, 2**31))
def test_the_same_seed_decides_the_same(programs: list[list[str]], seed: int) -> None:
    one, other = (World(Rarest(len(programs), Rare(), seed), named(programs)).run() for _ in range(2))
    assert one.commits == other.commits and one.now == other.now


def made(seen: dict[tuple[str, Phase, str], int], seed: int) -> Counter[tuple[str, Phase, str]]:
    """What a delete and an update make that run beside each other, beyond what was seen."""
    rare = Rare(seen)
    World(Rarest(2, rare, seed), [["delete-0"], ["update-1"]]).run()
    return rare.seen - Counter(seen)


def test_what_was_seen_often_gives_way_to_what_was_not() -> None:
    every: list[Phase] = ["before scan", "scanned", "commit", "refused", "retry", "after"]
    kinds = (("delete", "update"), ("update", "delete"))
    for first, second in kinds:
        for phase in ("before scan", "scanned", "commit"):
            seen = {(a, p, b): 1000 for a, b in kinds for p in every if (a, p) != (first, phase)}
            for seed in range(10):
                assert made(seen, seed)[first, phase, second] == 1, (first, phase, seed)


def test_one_run_after_the_other_makes_what_is_missing() -> None:
    seen: Counter[tuple[str, Phase, str]] = Counter()
    for seed in range(6):
        seen += made(dict(seen), seed)
    phases = {(a, p) for a, p, _ in seen}
    assert phases >= {(k, p) for k in ("delete", "update") for p in ("before scan", "scanned", "commit")}


def test_a_read_waits_for_nobody() -> None:
    policy = Rarest(2, Rare(), 1)
    policy.invoked(0, "read-0", 0.0)
    held = HeldRequest(1, 0, Moment.parse("read-0 load 1"), 0.0)
    policy.arrives(held)
    assert policy.decide(0.0) == [held]


def test_a_commit_that_loses_a_rare_moment_waits_for_a_statement_that_computes_but_not_longer_than_its_patience() -> (
    None
):
    policy = Rarest(2, Rare({("update", "before scan", "delete"): 1000}), 1, grace=0.25, patience=2.0)
    policy.invoked(0, "delete-0", 0.0)
    policy.invoked(1, "update-1", 0.0)
    for n, kind in enumerate(("load", "load"), 1):
        held = HeldRequest(n, 0, Moment.parse(f"delete-0 {kind} {n}"), 0.0)
        policy.arrives(held)
        assert policy.decide(3.0 * n) == [held]
        policy.passed(held, 3.0 * n)
    commit = HeldRequest(3, 0, Moment.parse("delete-0 commit 1"), 6.0)
    policy.arrives(commit)
    assert policy.decide(6.5) == () and policy.decide(7.9) == ()
    assert policy.decide(8.1)[0].number == commit.number and policy.blind
