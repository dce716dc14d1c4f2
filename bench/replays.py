"""Replays against luck: random runs are recorded, and each is replayed once with its order forced and run once more freely with its seed.

Of each replay: how many requests went in their recorded place, whether its commits came in the recorded order, and which of the recorded
run's anomalies it showed again. The runs share one warm stack a catalog. Each run that is over is one line of ``replays.jsonl``, and
the same command goes on where the last one ended.

    python -m bench.replays [--seeds quick=10,lost-acks-jdbc=10] [--ops 30] [--minutes 120] [--into store/replays]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.silent import Silent
from checkers.evidence import runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.runfolder import RunFolder
from compose.install.ensure import ensure
from harness.campaign.errors import TOLD
from harness.experiments.replay import replay_once
from harness.experiments.shrink.trials import names_of
from harness.run.bench import Bench
from harness.run.judged import judge_run
from harness.run.recorded import describe, recording_of
from harness.run.resolve import read_workload
from nemesis.order.replay import first_difference
from workloads import generator
from workloads.file import workload as schema
from workloads.file.workload import Length, Workload

SEEDS = {"quick": 10, "lost-acks-jdbc": 10}
OPERATIONS, MINUTES, INTO = 30, 120.0, Path("store/replays")
RUN_S = 300.0
"""Seconds after which a run is asked to end."""
MOST_PROBLEMS = 3
"""Runs in succession that fail for reasons of the harness; then the bench ends."""
RECORDED, FORCED, FREE = WAYS = ("recorded", "forced", "free")
LOG = "replays.jsonl"


@dataclass(frozen=True, slots=True)
class Line:
    """A run that is over; a line of ``replays.jsonl``.

    Attributes:
        way: one of :data:`WAYS`.
        run: its folder, below that of the bench.
        anomalies: the names of what its checkers found.
        requests: recorded: in its order. In a replay: in their recorded place; None: nobody forced one.
        commits: recorded: in its order. In a replay: in the recorded order until the first difference.
        difference: of a replay: the first one in the order of its commits, in a sentence; None: there is none.
        unforced: what could not be forced.
        ended: whether it was asked to end, because it took too long.
    """

    workload: str
    seed: int
    operations: int
    way: str
    run: str
    seconds: float
    anomalies: tuple[str, ...]
    requests: int | None
    commits: int
    difference: str | None = None
    unforced: tuple[str, ...] = ()
    ended: bool = False


Lines = dict[tuple[str, int, str], Line]
"""(workload, seed, way) → the run."""


def read(log: Path, operations: int) -> Lines:
    """The runs of so many operations that are over; a last line that is torn is not there. Raises ValueError: the file is no such log."""
    found: Lines = {}
    texts = log.read_text("utf-8").split("\n") if log.exists() else []
    for n, text in enumerate(texts[:-1], 1):  # every whole line ends
        try:
            said = json.loads(text)
            line = Line(**said | {k: tuple(said[k]) for k in ("anomalies", "unforced")})
        except (ValueError, TypeError, KeyError):
            raise ValueError(f"{log}:{n}: not a line of a replay; name another folder with --into") from None
        if line.operations == operations:
            found[line.workload, line.seed, line.way] = line
    return found


def keep(log: Path, line: Line) -> None:
    """Add a run that is over; what is left of a line that was torn goes."""
    data = log.read_bytes() if log.exists() else b""
    with log.open("r+b" if data else "wb") as file:
        file.truncate(data.rfind(b"\n") + 1)
        file.seek(0, 2)
        file.write(json.dumps(asdict(line)).encode() + b"\n")


def workload(name: str, operations: int) -> Workload:
    """A workload of the library, short, and with its order recorded."""
    found = read_workload(schema.find(name)).workload
    return found.model_copy(update={"length": Length(ops=operations), "phases": (), "order": "free"})


@contextlib.contextmanager
def ends_in_time(seconds: float = RUN_S) -> Iterator[threading.Event]:
    """An event that is set after so many seconds."""
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        timer.join()


def _unpublished(folder: RunFolder, evidence: Evidence) -> None:
    """The bench needs no pages."""


def one(bench: Bench, spec: Workload, seed: int, way: str, of: Line | None, into: Path) -> Line:
    """One run on a warm stack.

    Args:
        of: the recorded run, of a replay.

    Raises:
        RunError, WriterError, ServiceError, TableReadError, HistoryError, TableLogError: it could not run or be judged.
    """
    began = time.monotonic()
    recorded = None if of is None else recording_of(RunFolder(into / of.run))
    with ends_in_time() as stop:
        if way == FORCED:
            assert recorded is not None
            again = replay_once(bench, recorded, into, _unpublished, lambda _: "bench replays", stop=stop)
            path, anomalies, difference = again.folder, names_of(again.results), again.difference
            requests: int | None = again.forced
            unforced = again.unforced
        else:
            folder = runfolder.create(into, spec.workload)
            bench.run(spec, folder, generator.operations, command="bench replays", seed=seed, stop=stop)
            path, anomalies = folder.path, names_of(judge_run(folder, _unpublished).results)
            requests, difference, unforced = None, None, ()
        ended = stop.is_set()
    order = recording_of(RunFolder(path)).order
    commits = sum(m.kind == "commit" for m in order)
    if recorded is None:
        requests = len(order)
    elif way == FREE:
        difference = first_difference(recorded.order, order)
    if difference is not None and of is not None:
        commits = common(difference, of.commits, commits)
    return Line(
        spec.workload,
        seed,
        spec.resolved_phases()[0].length.ops or 0,
        way,
        str(path.relative_to(into)),
        round(time.monotonic() - began, 1),
        anomalies,
        requests,
        commits,
        difference,
        unforced,
        ended,
    )


def common(difference: str, recorded: int, replayed: int) -> int:
    """How many commits two orders begin with in common, by the sentence of :func:`nemesis.order.replay.first_difference`."""
    word, number, *_ = difference.split()
    return int(number) - 1 if word == "commit" and number.isdecimal() else min(recorded, replayed)


def words(line: Line, of: Line | None, about: str = "") -> str:
    """What is printed of a run."""
    found = ", ".join(line.anomalies) or "none"
    took = f"{line.seconds:.0f} s" + (", asked to end" if line.ended else "")
    if of is None:
        return f"{line.workload}, seed {line.seed}: {about}, {line.commits} commits; anomalies: {found} ({took})"
    said = [] if line.requests is None else [f"{line.requests} of {of.requests} requests in their place"]
    same = "the same" if line.difference is None else f"not the same: {line.difference}"
    again = f"{len({*line.anomalies} & {*of.anomalies})} of {len(of.anomalies)} again"
    said += [f"order of commits {same}", f"anomalies: {found}, {again}"]
    return f"  {line.way}: {'; '.join(said)} ({took})"


def totals(lines: Mapping[tuple[str, int, str], Line], names: Sequence[str]) -> Iterator[str]:
    """What is printed at the end, of the runs that have both replays; first of each workload, then of all."""
    for name in (*names, None) if len(names) > 1 else names:
        whole = [
            tuple(lines[w, seed, way] for way in WAYS)
            for w, seed, way in sorted(lines)
            if way == RECORDED and (name or w) == w and w in names and all((w, seed, x) in lines for x in WAYS)
        ]
        if not whole:
            continue
        yield f"{name or 'all'}: {len(whole)} runs, {sum(r.commits for r, *_ in whole)} commits"
        requests = sum(r.requests or 0 for r, *_ in whole)
        placed = sum(f.requests or 0 for _, f, _ in whole)
        yield f"  forced: {placed:,} of {requests:,} requests in their place ({_share(placed, requests)})"
        for k, way in ((1, FORCED), (2, FREE)):
            same = sum(runs[k].difference is None for runs in whole)
            before = sum(min(runs[k].commits, runs[0].commits) for runs in whole)
            due = sum(len(runs[0].anomalies) for runs in whole)
            again = sum(len({*runs[k].anomalies} & {*runs[0].anomalies}) for runs in whole)
            new = sum(len({*runs[k].anomalies} - {*runs[0].anomalies}) for runs in whole)
            yield (
                f"  {way}: the same order of commits in {same} of {len(whole)} runs ({_share(same, len(whole))}), {before} commits before the "
                f"first difference; anomalies again {again} of {due} ({_share(again, due)}), others {new}"
            )


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def measure(seeds: Mapping[str, int], operations: int, minutes: float, into: Path) -> int:
    """Do the runs that are missing, print each and the totals; returns how many are still missing."""
    into.mkdir(parents=True, exist_ok=True)
    log, deadline = into / LOG, time.monotonic() + 60 * minutes
    done = read(log, operations)
    installation, problems = ensure(), 0
    for name, count in seeds.items():
        spec = workload(name, operations)
        wanted = [(name, seed, way) for seed in range(1, count + 1) for way in WAYS]
        with contextlib.ExitStack() as inside:
            bench: Bench | None = None
            for key in wanted:
                _, seed, way = key
                of = None if way == RECORDED else done.get((name, seed, RECORDED))
                if key not in done:
                    if problems >= MOST_PROBLEMS or time.monotonic() > deadline or (way != RECORDED and of is None):
                        continue
                    try:
                        if bench is None:
                            made = Bench(installation, spec.writers, into / "logs", Silent(), catalog=spec.catalog)
                            bench = inside.enter_context(made)
                        done[key] = one(bench, spec, seed, way, of, into)
                    except TOLD as e:
                        problems += 1
                        print(f"{name}, seed {seed}, {way}: it could not be run or judged: {e}", flush=True)
                        continue
                    problems = 0
                    keep(log, done[key])
                about = "" if of else describe(recording_of(RunFolder(into / done[key].run)))
                print(words(done[key], of, about), flush=True)
    for text in totals(done, [*seeds]):
        print(text)
    missing = sum(
        (name, seed, way) not in done for name, n in seeds.items() for seed in range(1, n + 1) for way in WAYS
    )
    if missing:
        print(f"{missing} runs are missing; the same command goes on")
    return missing


def main(told: Sequence[str] = ()) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="bench.replays", description="Replays against luck.")
    default = ",".join(f"{k}={n}" for k, n in SEEDS.items())
    parser.add_argument("--seeds", default=default, help="how many of each workload: quick=10,lost-acks-jdbc=10")
    parser.add_argument("--ops", type=int, default=OPERATIONS, help="operations of a run")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="no run begins later")
    parser.add_argument("--into", type=Path, default=INTO, help="the folder of the runs and of replays.jsonl")
    given = parser.parse_args(told)
    try:
        seeds = {k: int(n) for k, n in (x.split("=") for x in given.seeds.split(","))}
    except ValueError:
        parser.error(f"--seeds: must be as {default}, not {given.seeds!r}")
    if given.ops < 1 or any(n < 0 for n in seeds.values()):
        parser.error("--seeds and --ops: numbers of runs and operations")
    try:
        measure(seeds, given.ops, given.minutes, given.into)
    except ValueError as e:
        parser.error(str(e))


if __name__ == "__main__":
    main(sys.argv[1:])
