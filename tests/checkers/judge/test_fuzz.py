"""Broken, cut, shuffled and hostile files: a clear error that names the file, or a verdict that does not claim more than was there.

109,000 inputs: small histories (own lines, EDN, logs) and table logs in which bytes and lines were changed at random, all from seeds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from checkers.clients import history_files
from checkers.clients.models import ModelError, judge
from checkers.evidence import history, tablelog_file
from checkers.evidence.history import HistoryError
from checkers.evidence.plan import Plan
from checkers.evidence.runfolder import RunFolder, StoreError
from checkers.evidence.tablelog import TableLogError
from checkers.judge.check import check
from checkers.judge.runfolder import load_evidence
from tests.support.judging import UNREDUCED
from tests.support.simulator import CLEAN, Defects, Simulation, simulate
from workloads.tables import TableSpec

pytestmark = pytest.mark.slow

PYTHON = re.compile(
    r"(Key|Type|Value|Index|Attribute|Unicode|Decode|Recursion)Error|Traceback|__\w+__|\bNone|\b(True|False)\b|argument"
    r"|'(str|int|dict|list|float|bool)'|object is not|Expecting|codec|subscript|iterable|attribute|out of range|Unterminated"
    r"|Extra data|unpack|recursion|Input should"
)
"""Words of Python's own messages, and of its libraries."""
SPEC = TableSpec(name="a", partitions=2, seed_rows=2)
HOSTILE = (
    b"\x00", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"[" * 3000, b"{" * 3000, b'"', b"\\", b"\\u", b"1e999", b"-", b"NaN",
    b"9" * 25, b"9" * 5000, b"-0", b"null", b"nil", b"true", b"{}", b"[]", b'""', b"##Inf", b"#_", b"#", b":", b"^", b"\n", b"\r\n", b"\n\n",
    b'{"index":0}', b'"op":null', b'"process":true', b'"time":-1', b'"index":1.0', b'"type":"ok"', b"1/0", b"\\newline",
)  # fmt: skip

EDN = """\
{:index 0 :type :invoke, :process 0, :f :txn, :value [[:append :x 1] [:r :y nil]]}
{:index 1 :type :invoke, :process 1, :f :txn, :value [[:append :y 1] [:r :x nil]]}
{:index 2 :type :ok, :process 0, :f :txn, :value [[:append :x 1] [:r :y []]]}
{:index 3 :type :info, :process 1, :f :txn, :value [[:append :y 1] [:r :x nil]], :error [:timeout "late"]}
{:index 4 :type :invoke, :process 0, :f :txn, :value [[:r :x nil] [:r :y nil]]}
{:index 5 :type :ok, :process 0, :f :txn, :value [[:r :x [1]] [:r :y [1]]]}
"""
LOG = """\
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 1\t:invoke\t:cas\t[1 4]
INFO  jepsen.util - 0\t:ok\t:read\t3
INFO  jepsen.util - 1 :info :cas :timed-out
INFO  jepsen.util - 2\t:invoke\t:write\t2
INFO  jepsen.util - 2\t:fail\t:write\t2
"""


def run(defects: Defects = CLEAN, seed: int = 5) -> Simulation:
    return simulate(seed, [SPEC], writers=2, ops=6, keys=2, defects=defects)


def stored(made: Simulation, into: Path) -> RunFolder:
    """A run's folder, as the harness leaves it."""
    folder = RunFolder(into)
    folder.tablelog.mkdir(parents=True)
    folder.write_plan(Plan(workload="fuzz", tables=(SPEC,)))
    operations = sum(e.op is not None and e.type != "invoke" for e in made.history.events)
    folder.write_state({"state": "complete", "operations": operations})
    lines = [{"format": 1, **made.history.header}, *(e.to_json() for e in made.history.events)]
    folder.history.write_text("".join(json.dumps(x) + "\n" for x in lines))
    for name, log in made.logs.items():
        tablelog_file.write(log, folder.tablelog / f"{name}.jsonl")
    return folder


def changed(text: bytes, rng: Random) -> bytes:
    """The text with one to three changes of bytes or lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        lines = text.split(b"\n")
        a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
        at = rng.randrange(len(text) + 1)
        what = rng.randrange(9)
        if what == 0:
            text = text[:at]
        elif what == 1:
            text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
        elif what == 2:
            text = text[:at] + rng.choice(HOSTILE) + text[at + rng.randrange(4) :]
        elif what == 3:
            text = text[:at] + text[at + rng.randint(1, 40) :]
        elif what == 4:
            text = text[:at] + text[at : at + rng.randint(1, 60)] + text[at:]
        else:
            if what == 5:
                lines[a], lines[b] = lines[b], lines[a]
            elif what == 6:
                del lines[a]
            elif what == 7:
                lines.insert(b, lines[a])
            else:
                lines[a] = lines[a][: len(lines[a]) // 2] + lines[b][len(lines[b]) // 2 :]
            text = b"\n".join(lines)
    return text


def anew(file: Path, content: bytes) -> None:
    """Write a file as a new one: ext4 puts a file that was cut to nothing and written again on the disk at once, for milliseconds each."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


def tried(
    name: str, block: int, n: int, text: bytes, read: Callable[[bytes], object], errors: tuple[type[Exception], ...]
) -> None:
    """Reads n changed texts; whatever is not read must be one of these errors, in one line or a few, that names the file."""
    refused = 0
    for seed in range(n):
        broken = changed(text, Random(f"{name}/{block}/{seed}"))
        try:
            read(broken)
        except errors as e:
            refused += 1
            assert "broken" in str(e) and len(str(e)) < 2000, (seed, e)
            assert not PYTHON.search(str(e)), (seed, e)
    assert 0.2 * n < refused < n


@pytest.mark.parametrize("block", range(5))
def test_edn(block: int, tmp_path: Path) -> None:
    file = tmp_path / "broken.edn"

    def read(text: bytes) -> None:
        anew(file, text)
        h = history_files.load(file)
        if len(text) % 3 == 0:
            try:
                verdict = judge(h)
            except (ModelError, HistoryError) as e:
                assert str(e)
            else:
                assert verdict.valid in (True, False, "unknown")

    tried("edn", block, 8_000, EDN.encode(), read, (HistoryError,))


@pytest.mark.parametrize("block", range(2))
def test_logs_of_other_tools(block: int, tmp_path: Path) -> None:
    def read(text: bytes) -> None:
        h = history_files.from_log(text.decode("utf-8", "replace"), "broken.log")
        try:
            judge(h)
        except (ModelError, HistoryError) as e:
            assert str(e)

    tried("log", block, 8_000, LOG.encode(), read, (HistoryError,))


@pytest.mark.parametrize("block", range(4))
def test_own_histories(block: int, tmp_path: Path) -> None:
    folder = stored(run(), tmp_path / "run")
    file = tmp_path / "broken.jsonl"
    text = b"\n".join(folder.history.read_bytes().split(b"\n")[:16]) + b"\n"

    def read(text: bytes) -> None:
        anew(file, text)
        h = history.read(file)
        try:
            h.operations()
        except HistoryError as e:
            assert "event" in str(e) and not PYTHON.search(str(e)), e

    tried("history", block, 9_000, text, read, (HistoryError,))


@pytest.mark.parametrize("block", range(3))
def test_table_logs(block: int, tmp_path: Path) -> None:
    folder = stored(run(), tmp_path / "run")
    file = tmp_path / "broken.jsonl"
    text = b"\n".join((folder.tablelog / "a.jsonl").read_bytes().split(b"\n")[:8]) + b"\n"

    def read(text: bytes) -> None:
        anew(file, text)
        tablelog_file.read(file)

    tried("tablelog", block, 5_000, text, read, (TableLogError,))


@pytest.mark.parametrize("block", range(4))
def test_runs_are_judged_or_refused_and_never_wrongly_true(block: int, tmp_path: Path) -> None:
    """Of a run with a bug that is found, nothing that is left is valid, unless the change is to the very values that show the bug."""
    made = next(
        r
        for s in range(100)
        if (r := run(Defects(forget=0.4), s)).injected and check(r.evidence(), UNREDUCED).valid is False
    )
    folder = stored(made, tmp_path / "run")
    whole = {p: p.read_bytes() for p in (folder.history, folder.tablelog / "a.jsonl")}
    told = {"error": 0, "unknown": 0, "false": 0}
    for seed in range(500):
        rng = Random(f"run/{block}/{seed}")
        path = rng.choice(sorted(whole))
        lines = whole[path].split(b"\n")
        a, b = rng.randrange(1, len(lines)), rng.randrange(1, len(lines))
        kind = rng.randrange(4)
        if kind == 0:  # cut
            broken = whole[path][: rng.randrange(len(whole[path]) - 1)]
        elif kind == 1:  # shuffled
            lines[a], lines[b] = lines[b], lines[a]
            broken = b"\n".join(lines)
        elif kind == 2:  # a line lost
            broken = b"\n".join(lines[:a] + lines[a + 1 :])
        else:  # a line twice
            broken = b"\n".join([*lines[:a], lines[a], *lines[a:]])
        if broken.rstrip(b"\n") == whole[path].rstrip(b"\n"):
            continue
        anew(path, broken)
        try:
            valid = check(load_evidence(folder.path), UNREDUCED).valid
        except (HistoryError, TableLogError, StoreError) as e:
            told["error"] += 1
            assert str(path) in str(e), e
            assert not PYTHON.search(str(e)), e
        else:
            assert valid is not True, (seed, path, kind)
            told["false" if valid is False else "unknown"] += 1
        finally:
            anew(path, whole[path])
    assert all(told.values()), told
