"""Made recordings, and a machine that plays a scenario in every order that its waits allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from harness.experiments.shrink.candidates import tables_of
from harness.experiments.shrink.translate import About
from nemesis.faults.fault import Fault
from nemesis.faults.verb import AfterService
from nemesis.order.moment import Moment
from workloads.file.recording import RecordedFault, RecordedOperation, Recording
from workloads.file.scenario import Scenario
from workloads.file.workload_text import parse

WORKLOAD = parse(
    "workload: made\ntables: [{name: a, seed_rows: 4}, {name: b, seed_rows: 4}]\nwriters: 4\nlength: {time: 5s}\n"
    "operations: {update-register: 1, delete: 1, read: 1}\n"
)


def recording(
    writers: Mapping[str, int],
    order: Sequence[str],
    tables: Mapping[str, str] | None = None,
    faults: Sequence[RecordedFault] = (),
    kinds: Mapping[str, str] | None = None,
) -> Recording:
    """A recording of these operations; ``order``: such as ``a load 1``. Operations are updates of table ``a`` unless it is said."""
    operations = tuple(
        RecordedOperation(
            op, n, (kinds or {}).get(op, "update-register"), (tables or {}).get(op, "a"), {"ids": [1]}, "main"
        )
        for op, n in writers.items()
    )
    return Recording(WORKLOAD, 0, "rest", operations, tuple(Moment.parse(m) for m in order), tuple(faults))


def about(**more: object) -> About:
    """What the scenario of a made recording says."""
    said: dict[str, object] = {
        "name": "made",
        "headline": "made",
        "link": "https://example.org/1",
        "affected": "none",
        "anomalies": (),
        "allow": (),
        "final": {"a": "unchecked"},
        "ends": {},
    }
    return About(**{**said, **more})  # type: ignore[arg-type]


@st.composite
def recordings(draw: st.DrawFn, faults: bool = True) -> Recording:
    """Two to four operations of one to three writers, with one to three requests each, in any order; sometimes a struck commit."""
    writers = {f"o{n}": draw(st.integers(0, 2)) for n in range(draw(st.integers(2, 4)))}
    tables = {op: draw(st.sampled_from(["a", "a", "b"])) for op in writers}
    kinds = {op: draw(st.lists(st.sampled_from(["load", "commit"]), min_size=1, max_size=3)) for op in writers}
    left = {w: [(op, kind) for op, n in writers.items() if n == w for kind in kinds[op]] for w in {*writers.values()}}
    seen: dict[tuple[str, str], int] = {}
    order: list[str] = []
    while any(left.values()):
        w = draw(st.sampled_from(sorted(w for w, rest in left.items() if rest)))
        op, kind = left[w].pop(0)
        seen[op, kind] = nth = seen.get((op, kind), 0) + 1
        order.append(f"{op} {kind} {nth}")
    struck = []
    commits = [m for m in order if " commit " in m]
    if faults and commits and draw(st.booleans()):
        verb = draw(st.sampled_from(["drop-reply", "drop-request"]))
        struck = [RecordedFault(Fault(verb=verb), struck=(Moment.parse(draw(st.sampled_from(commits))),))]
    return recording(writers, order, tables, struck)


def conflicting(r: Recording) -> Iterator[tuple[int, int]]:
    """The pairs of requests, by place, whose order matters. A load after its operation's last commit does not, unless a fault struck
    the operation."""
    tables = {o.op: {*tables_of(o)} for o in r.operations}
    struck = {m.op for f in r.faults for m in f.struck}
    last = {m.op: i for i, m in enumerate(r.order) if m.kind == "commit"}
    idle = {i for i, m in enumerate(r.order) if m.kind == "load" and m.op not in struck and i > last.get(m.op, i)}
    for i, a in enumerate(r.order):
        for k in range(i + 1, len(r.order)):
            b = r.order[k]
            if a.op != b.op and "commit" in (a.kind, b.kind) and tables[a.op] & tables[b.op] and not {i, k} & idle:
                yield i, k


class Machine:
    """A scenario whose operations make the requests of a recording. A state: how many requests of each operation have passed."""

    def __init__(self, r: Recording, scenario: Scenario, names: Mapping[str, str]) -> None:
        self.steps = {names[o.op]: s for o, s in zip(r.operations, scenario.operations, strict=True)}
        self.ops = list(self.steps)
        self.mine = {names[o.op]: [m for m in r.order if m.op == o.op] for o in r.operations}
        self.place = {m: i for i, m in enumerate(r.order)}
        self.gate: dict[str, int] = {}
        for name, s in self.steps.items():
            if s.gated:
                (at,) = [i for i, m in enumerate(self.mine[name]) if (m.kind, m.nth) == (s.at, s.nth)]
                self.gate[name] = at

    def came(self, state: tuple[int, ...], name: str, moment: str) -> bool:
        """Whether an operation has come to a moment."""
        done = state[self.ops.index(name)]
        if done > len(self.mine[name]):
            return True
        if moment == "completed" or name not in self.gate:
            return False
        carried_out = self._carried_out(name)
        return done > self.gate[name] + carried_out

    def _carried_out(self, name: str) -> bool:
        fault = self.steps[name].fault
        return fault is not None and isinstance(fault.action, AfterService)

    def following(self, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The states that can come next. 0: not invoked; n + 1: n requests have passed; one more: completed."""
        for i, name in enumerate(self.ops):
            done, s = state[i], self.steps[name]
            if done > len(self.mine[name]):
                continue
            if done == 0:
                before = [n for n in self.ops[:i] if self.steps[n].writer == s.writer]
                ready = all(self.came(state, n, "completed") for n in before)
                ready = ready and all(self.came(state, n, m) for n, m in (s.after or {}).items())
            else:
                held_at = self.gate.get(name)
                waits = held_at is not None and done == held_at + 1 + self._carried_out(name)
                ready = not waits or all(self.came(state, n, m) for n, m in (s.hold or {}).items())
            if ready:
                yield (*state[:i], done + 1, *state[i + 1 :])

    def states(self) -> set[tuple[int, ...]]:
        """Every state that can be reached."""
        found = {tuple(0 for _ in self.ops)}
        queue = [*found]
        while queue:
            for state in self.following(queue.pop()):
                if state not in found:
                    found.add(state)
                    queue.append(state)
        return found

    def passed(self, state: tuple[int, ...]) -> set[int]:
        """The requests, by their places in the recording, that have passed."""
        return {
            self.place[m]
            for name, done in zip(self.ops, state, strict=True)
            for m in self.mine[name][: max(0, done - 1)]
        }

    def reversed_pairs(self, pairs: Sequence[tuple[int, int]]) -> set[tuple[int, int]]:
        """The pairs whose second request can pass before the first one."""
        return {(i, k) for state in self.states() for i, k in pairs if k in (p := self.passed(state)) and i not in p}
