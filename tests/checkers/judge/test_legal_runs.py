"""Nobody is accused in a legal run of any make, and what stays unknown has one of three reasons.

500 runs by fixed seeds belong to every ``make test``. ``make test-all`` judges 10,000 more, other ones every night: ten nights are 100,000
(``docs/ci.md``). To judge the run of one seed again: ``legal(seed)``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from checkers.evidence.evidence import Evidence
from checkers.judge.check import check
from checkers.judge.runfolder import Results
from checkers.selftest.recorded import TABLE_COMMIT
from tests.checkers.judge.test_clean_histories import told
from tests.support.amount import many
from tests.support.examples import kinds_of_its_own
from tests.support.judging import UNREDUCED
from tests.support.legal import legal, on_iceberg, own
from workloads.operations.kinds import KINDS, register

pytestmark = pytest.mark.slow

RUNS = many(500)
BATCHES = 10
NIGHTS, A_NIGHT, SHARDS = 10, 10_000, 20
"""After so many nights the seeds begin again; seeds of one night; tests that share them."""
ENOUGH = tuple(c for c in UNREDUCED if c.name != "load")
"""In so short a run ``load`` rightly says that nothing was tested."""


@pytest.fixture(autouse=True, scope="module")
def own_kinds() -> Iterator[None]:
    with kinds_of_its_own():
        for kind in own():
            register(kind)
        yield


def why_unknown(e: Evidence) -> set[str]:
    """What evidence can leave undecided, of the reasons that a legal run has."""
    out = set()
    if any(c.op is None for log in e.logs.values() for c in log.commits):
        out.add("a snapshot that names no operation, by a stranger or by an engine that cannot name it")
    if any(o.f == "rollback" and o.type != "fail" for o in e.history.operations()):
        # A commit whose request is still on its way may be applied once more, which sets main back as a rollback does.
        out.add("a rollback beside a commit of unknown outcome, or one itself, whose requests no proxy saw")
    return out


def given_up(results: Results) -> set[str]:
    """What a search leaves undecided that ended at its bound."""
    notes = (note for v in results.verdicts for note in v.notes)
    return (
        {"an order that was not found within the steps of a search"}
        if any("search was given up" in n for n in notes)
        else set()
    )


def judge(seeds: Iterable[int]) -> Counter[str]:
    """Judge runs; how many had which verdict, and why they are unknown."""
    found: Counter[str] = Counter()
    for seed in seeds:
        e = legal(seed)
        results: Results = check(e, ENOUGH)
        assert results.valid is not False, (seed, told(results))
        reasons = why_unknown(e) | given_up(results)
        assert results.valid is True or reasons, (seed, told(results))
        found.update([str(results.valid), *(reasons if results.valid == "unknown" else ())])
    return found


def seeds_of_the_night() -> Iterator[range]:
    """One range for each of its tests."""
    first = int(os.environ.get("ICEQUAKE_NIGHT", "0")) % NIGHTS * A_NIGHT
    size = A_NIGHT // SHARDS
    yield from (range(first + n * size, first + (n + 1) * size) for n in range(SHARDS))


ALWAYS = [range(n * RUNS // BATCHES, (n + 1) * RUNS // BATCHES) for n in range(BATCHES)]


@pytest.mark.parametrize(
    "seeds",
    [
        *(pytest.param(seeds, id=f"batch {n}") for n, seeds in enumerate(ALWAYS)),
        *(
            pytest.param(seeds, id=f"shard {n}", marks=pytest.mark.nightly)
            for n, seeds in enumerate(seeds_of_the_night())
        ),
    ],
)
def test_nobody_is_accused_in_a_legal_run(seeds: range) -> None:
    found = judge(seeds)
    assert found["True"] > 0.7 * len(seeds), found


def test_the_legal_runs_are_worth_judging() -> None:
    """They have every kind, acknowledged, and what surrounds the writers."""
    acknowledged, seen = set(), Counter[str]()
    for seed in range(500):
        e = legal(seed)
        acknowledged |= {o.f for o in e.history.operations() if o.type == "ok"}
        seen["lost acknowledgements"] += any(o.type == "info" for o in e.history.operations())
        seen["swaps"] += bool(e.swaps)
        seen["requests"] += any(a.what == TABLE_COMMIT for some in e.accepted.values() for a in some)
        seen["several engines"] += e.history.mixed
        for log in e.logs.values():
            times = [c.timestamp_ms for c in log.commits]
            stamped = {m.n: m.last_updated_ms for m in log.metadata}
            seen["clocks that go back"] += times != sorted(times)
            seen["a server's clock"] += any(stamped[c.metadata] != c.timestamp_ms for c in log.commits)
            seen["strangers"] += any(c.op is None for c in log.commits) and not e.history.mixed
            seen["staged snapshots"] += any("wap.id" in c.summary for c in log.commits)
            seen["picked snapshots"] += any("source-snapshot-id" in c.summary for c in log.commits)
            seen["tags"] += any(len(m.refs) > 1 for m in log.metadata)
            seen["other partitions"] += len(log.metadata[-1].raw["partition-specs"]) > 1
            seen["made again"] += sum(c.parent_id is None for c in log.commits) > 1
            seen["expired"] += len(log.metadata[-1].snapshots) < len(log.commits)
    assert acknowledged == {*filter(on_iceberg, KINDS)}
    assert min(seen.values()) >= 20, seen
