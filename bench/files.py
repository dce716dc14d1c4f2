"""What it takes to judge a run, or another tool's history, from its files: seconds and memory of each stage, each in a process of its own.

``python -m bench.files [--sizes 10000,100000,1000000] [--before CHECKOUT] [--keep FOLDER]``

A run is made of simulated tables (``tests.support.simulator``) of 2,500 operations each, eight of them at work at any moment, with history,
table logs and the log of the proxies, as a run leaves them; the logs name the last hundred metadata files, as Iceberg's metadata does.
Only a few tables are simulated; the others are copies with names, operations, snapshots and times of their own. The history in Jepsen's EDN has
transactions of four micro-operations on ten lists at a time.

Stages of a run: *read* (files to evidence), *columns* (evidence to columns), *judge* (columns to verdicts), *exact* (every exact
checker), *whole* (files to ``results.json``, as ``icequake check``, without the page). Of a history: *read*, *judge*, and *whole*. Seconds are
those of the processor, of all threads and processes; an import of the modules is not in them. MB are the peak of the process, and of the
largest that it started, added: what these share counts twice. The growth exponent is the slope from size to size: 1
is linear. ``--before`` measures another checkout in alternation; the ratio is this one's part of it. Of the whole, the time that
passed is there as well, and the targets (:data:`TARGETS`, for an idle machine with two cores).
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import importlib
import inspect
import json
import math
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from checkers.evidence import tablelog_file
from checkers.evidence.plan import Plan
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.evidence.tablelog import TableLog
from checkers.formats.iceberg.records import iceberg_log
from tests.support.simulator import simulate
from workloads.tables import TableSpec

SIZES = (10_000, 100_000, 1_000_000)
TRANSACTIONS = 100_000
STAGES = ("read", "columns", "judge", "exact", "whole")
HISTORY_STAGES = ("read", "judge", "whole")
WRITERS, A_TABLE, KEYS, AT_ONCE = 8, 2_500, 100, 8
OTHERS = 4
"""Requests of the proxy log for each commit besides the two of the commit itself."""
NAME = "simulated"
"""Of the table, in a template."""
TARGETS: dict[str, tuple[float, float]] = {
    "run-100000": (6.0, 1000),
    "run-1000000": (60.0, 3000),
    f"append-{TRANSACTIONS}.edn": (5.0, 700),
}
"""Files → the seconds that may pass, and MB."""
EXPONENT = 1.05
"""The greatest exponent that is meant."""
KEPT = 100
"""Entries of a metadata log."""
_PROPERTIES = {"write.metadata.previous-versions-max": str(KEPT)}
SPECS = (
    TableSpec(name=NAME, seed_rows=16, properties=_PROPERTIES),
    TableSpec(name=NAME, seed_rows=16, properties=_PROPERTIES, format_version=3),
    TableSpec(name=NAME, seed_rows=16, properties=_PROPERTIES, mode="copy-on-write", partitioned=False),
)
TIMEOUT_S = 3600.0


# --- making runs ------------------------------------------------------------------------------------------------------

_OWN = re.compile(rb"w([0-7])-(?=\d)")
_SNAPSHOT = re.compile(rb"(?<!\d)\d{4}(\d{15})(?!\d)")
_UUID = re.compile(rb"(00000000-0000-4000-8000-)\d{12}")


@dataclass(frozen=True)
class _Template:
    """One simulated table; ``\\x01`` to ``\\x08`` stand for its writers, ``\\x0b`` for its name, ``\\x0c`` for the start of a snapshot's id,
    ``\\x0e`` for the end of its UUID.

    ``events``: time, process, and the rest of the line; ``requests``: time and line; ``duration``: ns.
    """

    spec: TableSpec
    events: list[tuple[int, int, bytes]]
    requests: list[tuple[int, bytes]]
    log: bytes
    duration: int

    @staticmethod
    def of(spec: TableSpec, seed: int) -> _Template:
        made = simulate(
            seed, [spec], writers=WRITERS, ops=A_TABLE // WRITERS, keys=KEYS, engines=("spark",) * WRITERS, unknown=0.01
        )
        events = []
        for e in made.history.events:
            said = {k: v for k, v in e.to_json().items() if k not in ("index", "time", "process")}
            events.append(
                (e.time, int(e.process), _marked(json.dumps(said, separators=(",", ":")).encode())[1:] + b"\n")
            )
        log = _trimmed(made.logs[NAME])
        requests = []
        of_snapshot = {c.snapshot_id: c for c in log.commits}
        for a in made.accepted[NAME]:
            n = of_snapshot[a.adds[0]].metadata
            base, new = (log.metadata[m].location for m in (n - 1, n))
            requests += [(a.time, _marked(r)) for r in _requests(a.op or "", a.base, a.adds[0], base, new)]
        text = b"".join(map(tablelog_file.dump, tablelog_file.records(log)))
        return _Template(spec, events, requests, _marked(text), made.history.events[-1].time + 1_000_000)


def _trimmed(log: TableLog) -> TableLog:
    metadata = (
        replace(m, raw={**m.raw, "metadata-log": m.raw["metadata-log"][-KEPT:]}) for m in iceberg_log(log).metadata
    )
    return replace(log, metadata=tuple(metadata))


def _requests(op: str, base: int | None, snapshot: int, old: str, new: str) -> Iterator[bytes]:
    """What the proxies wrote of a commit through a REST catalog, without the time: all but the first brace."""
    table, path = f"/v1/namespaces/sim/tables/{NAME}", f"/warehouse/{NAME}/metadata/0f1b2c3d-0000-4000-8000"
    lines: list[dict[str, Any]] = [
        {"service": "catalog", "kind": "load", "what": f"GET {table}", "table": NAME, "op": op, "location": old, "status": "200"},
        {"service": "store", "kind": "read", "what": f"GET {path}-m0.avro", "op": op, "status": "206"},
        {"service": "store", "kind": "write", "what": f"PUT {path}-m1.avro", "op": op, "status": "200"},
        {"service": "store", "kind": "write", "what": f"PUT {path}-snap.avro", "op": op, "status": "200"},
    ]  # fmt: skip
    sql = "UPDATE iceberg_tables SET metadata_location = $1 , previous_metadata_location = $2 WHERE catalog_name = $3"
    swap = {"service": "database", "kind": "commit", "what": sql, "table": NAME, "base": old, "new": new}
    change = {"table": NAME, "base": str(base), "adds": [str(snapshot)], "refs": {"main": str(snapshot)}}
    told = {"service": "catalog", "kind": "commit", "what": f"POST {table}", "table": NAME, "op": op, "base": str(base)}
    if base is None:
        del change["base"], told["base"]
    for line in lines:
        yield _line({**line, "ms": 0.0})
    yield _line({**swap, "status": "UPDATE 1", "ms": 0.0})
    yield _line({**told, "new": str(snapshot), "location": new, "status": "200", "ms": 0.0, "changes": [change]})


def _line(said: dict[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()[1:] + b"\n"


def _marked(line: bytes) -> bytes:
    line = _OWN.sub(lambda m: bytes([1 + int(m[1])]) + b"-", line)
    line = _SNAPSHOT.sub(lambda m: b"\x0c" + m[1], line)
    line = _UUID.sub(lambda m: m[1] + b"\x0e", line)
    return line.replace(NAME.encode(), b"\x0b")


def _own(text: bytes, k: int) -> bytes:
    """A template's text as the k-th table's."""
    for w in range(WRITERS):
        text = text.replace(bytes([1 + w]), b"w%d" % (k * WRITERS + w))
    return text.replace(b"\x0b", b"t%04d" % k).replace(b"\x0c", b"%d" % (1000 + k)).replace(b"\x0e", b"%012d" % k)


def make_run(folder: Path, operations: int) -> Path:
    """A run's folder with that many operations."""
    run = RunFolder(folder)
    run.tablelog.mkdir(parents=True)
    tables = max(1, operations // A_TABLE)
    templates = [_Template.of(s, seed) for seed, s in enumerate(SPECS[:tables])]
    writers = WRITERS * tables
    step = max(t.duration for t in templates) // AT_ONCE
    specs = [templates[k % len(templates)].spec.model_copy(update={"name": f"t{k:04d}"}) for k in range(tables)]
    run.write_plan(Plan.model_validate({"workload": "simulated", "tables": [s.model_dump() for s in specs]}))

    def process(n: int, k: int) -> int:
        if n >= 1000:  # seeding, and the last reads
            return (n - 900) * 1000 * writers + k
        return k * WRITERS + n % WRITERS + writers * (n // WRITERS)

    def events(k: int) -> Iterator[tuple[int, int, bytes]]:
        t = templates[k % len(templates)]
        for time, n, rest in t.events:
            yield time + k * step, process(n, k), _own(rest, k)

    def requests(k: int) -> Iterator[tuple[int, int, bytes]]:
        for time, rest in templates[k % len(templates)].requests:
            yield time + k * step, k, _own(rest, k)

    with run.history.open("wb") as file:
        file.write(b'{"format":1,"workload":"simulated","seed":0,"writers":%d}\n' % writers)
        ended = 0
        for index, (time, p, rest) in enumerate(_overlapping(tables, events, step)):
            file.write(b'{"index":%d,"time":%d,"process":%d,' % (index, time, p) + rest)
            ended += not rest.startswith(b'"type":"invoke"')
    with run.proxy.open("wb") as file:
        for time, k, rest in _overlapping(tables, requests, step):
            who = b"" if rest.startswith(b'"service":"database"') else b'"writer":%d,' % (k * WRITERS)
            file.write(b'{"time":%d,' % time + who + rest)
    for k in range(tables):
        text = _own(templates[k % len(templates)].log, k)
        (run.tablelog / f"t{k:04d}.jsonl").write_bytes(_later(text, k * step))
    run.write_state({"state": "complete", "operations": ended})
    return folder


def _later(log: bytes, by: int) -> bytes:
    """A table log whose captures came so many ns later."""

    def capture(m: re.Match[bytes]) -> bytes:
        return b'"type":"capture","time":%d' % (int(m[1]) + by)

    return re.sub(rb'"type":"capture","time":(\d+)', capture, log)


def _overlapping(tables: int, made: Any, step: int) -> Iterator[tuple[int, int, bytes]]:
    """What all tables have, by time; a table's is made when its time comes."""
    pending: list[tuple[int, int, bytes]] = []
    for k in range(tables):
        for one in made(k):
            heapq.heappush(pending, one)
        while pending and pending[0][0] < (k + 1) * step:
            yield heapq.heappop(pending)
    while pending:
        yield heapq.heappop(pending)


def make_edn(path: Path, transactions: int, seed: int = 0) -> Path:
    """A strictly serializable history of transactions over lists, as Jepsen writes it."""
    rng, clients, keys, an_epoch, steps = Random(seed), 10, 10, 500, 4
    lists: dict[int, list[str]] = {}
    index = 0
    with path.open("w", buffering=1 << 20) as file:

        def event(kind: str, process: int, value: list[str]) -> None:
            nonlocal index
            file.write(
                f"{{:type :{kind}, :f :txn, :value [{' '.join(value)}], :process {process}, "
                f":time {3_291_485_317 + 104_729 * index}, :index {index}}}\n"
            )
            index += 1

        for first in range(0, transactions, clients):
            epoch = keys * (first // an_epoch)
            drawn = []
            for client in range(clients):
                micro = [(epoch + rng.randrange(keys), rng.random() < 0.5) for _ in range(steps)]
                drawn.append(micro)
                asked = [
                    f"[:append {k} {(first + client) * steps + n}]" if writes else f"[:r {k} nil]"
                    for n, (k, writes) in enumerate(micro)
                ]
                event("invoke", client, asked)
            for client, micro in enumerate(drawn):
                done = []
                for n, (k, writes) in enumerate(micro):
                    if writes:
                        element = str((first + client) * steps + n)
                        lists.setdefault(k, []).append(element)
                        done.append(f"[:append {k} {element}]")
                    else:
                        done.append(f"[:r {k} [{' '.join(lists.get(k, ()))}]]")
                event("ok", client, done)
            if first % an_epoch == 0:
                lists = {k: v for k, v in lists.items() if k >= epoch}
    return path


# --- measuring --------------------------------------------------------------------------------------------------------


# These functions run in a process of their own, of this checkout or another: so they import what they judge with themselves, before they look
# at the clock, and nothing else but modules of STAGE_IMPORTS.


def stage(name: str, where: str) -> dict[str, Any]:
    """Execute one stage and what it needs."""
    path = Path(where)
    done = _history_stage(name, path) if path.suffix == ".edn" else _folder_stage(name, path)
    status = Path("/proc/self/status")
    if status.exists():
        done["mb"] = int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    else:
        done["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    done["mb"] += resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    done["load"] = os.getloadavg()[0]
    return done


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _optional(module: str, name: str) -> Any:
    """A function that another checkout may lack; None if it does."""
    try:
        return vars(importlib.import_module(module)).get(name)
    except ImportError:
        return None


def _history_stage(name: str, path: Path) -> dict[str, Any]:
    """A stage of another tool's history."""
    from checkers.clients import jepsen, models

    by_columns = _optional("checkers.clients.lists", "judged")
    load = _optional("checkers.clients.history_files", "load") or vars(jepsen)["load"]  # where it stood before
    done: dict[str, Any] = {}
    clock, began = time.monotonic(), _cpu_seconds()
    verdict: Any = by_columns(path, "list-append") if name == "whole" and by_columns is not None else None
    history: Any = load(path) if verdict is None else None
    if name == "judge":
        began = _cpu_seconds()
    if name != "read":
        verdict = verdict or models.judge(history, "list-append")
        done["verdict"] = hashlib.sha256(repr(verdict.to_json()).encode()).hexdigest()
        done["valid"] = verdict.valid
    return (
        done | {"seconds": _cpu_seconds() - began} | ({"passed": time.monotonic() - clock} if name == "whole" else {})
    )


def _folder_stage(name: str, path: Path) -> dict[str, Any]:
    """A stage of a run."""
    from checkers.judge.check import ALL, check
    from checkers.judge.runfolder import load_evidence, load_promises, load_ran, write_results

    by_table = _optional("checkers.judge.by_table", "judged")
    done: dict[str, Any] = {}
    clock, began = time.monotonic(), _cpu_seconds()
    if name == "whole":
        results = None if by_table is None else by_table(path)
        done["by table"] = results is not None
        results = results or check(load_evidence(path), ALL, load_promises(path), ran=load_ran(path))
        write_results(results, path / "results.json")
        verdicts = [(v.checker, v.valid, v.notes, [a.to_json() for a in v.anomalies]) for v in results.verdicts]
        done["verdict"] = hashlib.sha256(repr(verdicts).encode()).hexdigest()
        done["results"] = hashlib.sha256((path / "results.json").read_bytes()).hexdigest()
        done["valid"] = results.valid
        return done | {"seconds": _cpu_seconds() - began, "passed": time.monotonic() - clock}
    evidence = load_evidence(path)
    if name == "exact":
        done["checkers"] = {}
        for checker in ALL:
            began = _cpu_seconds()
            checker.check(evidence)
            done["checkers"][checker.name] = _cpu_seconds() - began
        return done | {"seconds": sum(done["checkers"].values())}
    if name in ("columns", "judge"):
        return _columns_stage(name, evidence)
    return done | {"seconds": _cpu_seconds() - began}


def _columns_stage(name: str, evidence: Any) -> dict[str, Any]:
    """From evidence to columns, or from columns to verdicts."""
    from checkers.columns.engine import judge_frame
    from checkers.columns.frames import frame_of
    from checkers.columns.hashing import Unordinary
    from checkers.timeline.timelines import timelines

    done: dict[str, Any] = {}
    found = timelines(evidence)[0]
    began = _cpu_seconds()
    frames = []
    for t in found:
        try:
            frames.append(frame_of(t))
        except Unordinary as e:
            done.setdefault("unordinary", []).append(f"{t.name}: {e}")
    if name == "judge":
        began = _cpu_seconds()
        judged = [judge_frame(f) for f in frames]
        done["unproven"] = [j.why for j in judged if j.why]
    return done | {"seconds": _cpu_seconds() - began}


STAGE_IMPORTS = """
import hashlib, importlib, json, os, resource, time
from pathlib import Path
from typing import Any
"""
STAGE_FUNCTIONS = (stage, _cpu_seconds, _optional, _history_stage, _folder_stage, _columns_stage)


def measured(name: str, where: Path, checkout: Path) -> dict[str, Any]:
    """What :func:`stage` says of a stage in a checkout."""
    functions = "\n\n".join(inspect.getsource(f) for f in STAGE_FUNCTIONS)
    code = f"{STAGE_IMPORTS}\n{functions}\nprint(json.dumps(stage({name!r}, {str(where)!r})))"
    env = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=checkout, env=env
    )
    if done.returncode:
        raise RuntimeError(f"bench/files: stage {name} of {where} in {checkout} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _table(where: Path, stages: tuple[str, ...], checkouts: dict[str, Path]) -> dict[str, dict[str, Any]]:
    """Measure the stages of one run or history, print a line for each, and return those of the whole."""
    last: dict[str, dict[str, Any]] = {}
    for name in stages:
        last = {which: measured(name, where, checkout) for which, checkout in checkouts.items()}
        line = f"  {name:8}"
        for which, told in last.items():
            line += f"   {which} {told['seconds']:8.2f} s {told['mb']:6.0f} MB"
        if len(last) > 1:
            now, before = last["now"], last["before"]
            line += f"   ratio {now['seconds'] / before['seconds']:.3f}"
            if "verdict" in now:
                line += f"   the same verdicts: {now['verdict'] == before['verdict']}"
                line += f", the same file: {now['results'] == before['results']}" if "results" in now else ""
        told = last["now"]
        line += f"   {told['passed']:.2f} s passed" if "passed" in told else ""
        line += f" at a load of {told['load']:.1f}" if "load" in told else ""
        line += "   table by table" if told.get("by table") else ""
        if "passed" in told and where.name in TARGETS:
            most, mb = TARGETS[where.name]
            met = told["passed"] <= most and told["mb"] <= mb
            line += f"   target {most:g} s, {mb:,.0f} MB: {'met' if met else 'missed'}"
        line += "".join(f"   {k}: {told[k]}" for k in ("valid", "unordinary", "unproven") if k in told)
        print(line, flush=True)
        for checker, took in told.get("checkers", {}).items():
            was = f"   before {last['before']['checkers'][checker]:8.2f} s" if "before" in last else ""
            print(f"    {checker:12} {took:8.2f} s{was}", flush=True)
    return last


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="bench.files")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES[:2])), help="operations of each run; 0: none")
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS, help="of the EDN history; 0: none")
    parser.add_argument("--stages", default=",".join(STAGES))
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--keep", type=Path, help="a folder for the files, used again if they are there")
    said = parser.parse_args(arguments if arguments is not None else [])
    checkouts = {"now": Path(__file__).parents[1]}
    if said.before is not None:
        checkouts = {"before": said.before.resolve(), **checkouts}
    stages = tuple(said.stages.split(","))
    with tempfile.TemporaryDirectory(prefix="icequake-bench-") as name:
        folder = said.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        last: tuple[int, float] | None = None
        for n in filter(None, map(int, said.sizes.split(","))):
            run = folder / f"run-{n}"
            if not run.exists():
                make_run(run, n)
            size = sum(f.stat().st_size for f in run.rglob("*.jsonl"))
            print(f"a run of {n:,} operations, {size / 1e6:,.0f} MB")
            whole = _table(run, stages, checkouts)["now"]["seconds"]
            if last is not None:
                print(
                    f"  growth exponent of {stages[-1]}: {math.log(whole / last[1]) / math.log(n / last[0]):.2f} (target {EXPONENT})"
                )
            last = n, whole
        if said.transactions:
            path = folder / f"append-{said.transactions}.edn"
            if not path.exists():
                make_edn(path, said.transactions)
            print(f"a history of {said.transactions:,} transactions in EDN, {path.stat().st_size / 1e6:,.0f} MB")
            _table(path, tuple(s for s in HISTORY_STAGES if s in stages), checkouts)


if __name__ == "__main__":
    main(sys.argv[1:])
