"""The table format of ``docs/extending.md``: real writers on a real MinIO, and the checkers know it from its two files alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Barrier
from types import ModuleType
from typing import Any

import pytest

from checkers import formats
from checkers.evidence import tableformat, tablelog_file
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, TableLogError
from checkers.judge.check import Results, check
from checkers.judge.runfolder import load_evidence
from compose.install.installation import Installation
from compose.processes.ports import Ports
from compose.servers.minio import ACCESS_KEY, BUCKET, SECRET_KEY, Minio
from tests.support.examples import example, write_example
from workloads.operations.keys import Keys
from workloads.operations.kind import Draw
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

OPERATIONS = 25
JUDGES = ("commits", "replay", "reads", "isolation", "linearizable")


@pytest.fixture(scope="module")
def toytable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The example's readers and writers; its format lies in ``checkers/formats/``."""
    folder, place = tmp_path_factory.mktemp("formats"), tmp_path_factory.mktemp("toytable")
    write_example("toy.py", folder)
    write_example("toytable.py", place)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(formats, "__path__", [*formats.__path__, str(folder)])
        m.syspath_prepend(str(place))
        tableformat.find.cache_clear()
        yield importlib.import_module("toytable")
    for name in ("toytable", "checkers.formats.toy"):
        sys.modules.pop(name, None)
    tableformat.find.cache_clear()


@pytest.fixture(scope="module")
def minio(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    folder = tmp_path_factory.mktemp("store")
    served = Minio(installation.minio, run_id=folder.name, ports=Ports(), data=folder / "m", log=folder / "m.log")
    with served:
        yield served


def store(toytable: ModuleType, minio: Minio) -> Any:
    return toytable.Store(minio.endpoint.partition("://")[2], BUCKET, ACCESS_KEY, SECRET_KEY)


def judged(folder: Path) -> Results:
    return check(load_evidence(folder))


def test_the_example_is_short() -> None:
    assert len(example("toy.py").splitlines()) + len(example("toytable.py").splitlines()) <= 300


def test_the_checkers_find_nothing_wrong_where_versions_are_put_if_absent(
    toytable: ModuleType, minio: Minio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    folder = tmp_path / "absent"
    toytable.main(minio.endpoint.partition("://")[2], BUCKET, str(folder))
    results = judged(folder)
    verdicts = {v.checker: v for v in results.verdicts}
    assert [(a.name, a.explanation) for v in results.verdicts for a in v.anomalies] == []
    assert {name: verdicts[name].valid for name in JUDGES} == dict.fromkeys(JUDGES, True), [
        (v.checker, v.notes) for v in results.verdicts
    ]
    log = tablelog_file.read(folder / "tablelog" / "absent.jsonl")
    assert len(log.commits) > OPERATIONS and {type(c) for c in log.commits} == {Commit}
    assert {type(m) for m in log.metadata} == {Metadata}
    assert {type(f) for c in log.commits for f in c.added_files} == {FileEntry}
    assert verdicts["metadata"].stats["tables"] == {}, "nothing of Iceberg's is there to judge"


def test_the_commits_that_are_lost_without_the_condition_are_found(
    toytable: ModuleType, minio: Minio, tmp_path: Path
) -> None:
    """Two writers have scanned the same version when they write the next one, each time."""
    rounds, meet = 5, Barrier(2, timeout=60)
    planned = [[("insert", {"ids": [2 * n + w]}) for n in range(rounds)] for w in range(2)]
    spec = TableSpec(name="anyhow")
    toytable.run(tmp_path, store(toytable, minio), spec, planned, if_absent=False, between=meet.wait)
    results = judged(tmp_path)
    commits = next(v for v in results.verdicts if v.checker == "commits")
    lost = [a for a in commits.anomalies if a.name == "lost-commit"]
    assert results.valid is False and len({a.ops[0] for a in lost}) == rounds
    assert {n for a in lost for n in a.ops[0].rpartition("-")[2]} == {*"01234"}, "one of each round"


def test_what_changes_the_table_but_leaves_no_snapshot_is_no_read(
    toytable: ModuleType, minio: Minio, tmp_path: Path
) -> None:
    spec, expiry = TableSpec(name="expiry"), KINDS["expire-snapshots"]
    assert expiry.commits and not expiry.writes
    draw = Draw(Random(0), Keys(6), 0, spec, False, {})
    planned = [[("insert", {"ids": [1]}), (expiry.name, expiry.arguments(draw))]]
    toytable.run(tmp_path, store(toytable, minio), spec, planned)
    log = tablelog_file.read(tmp_path / "tablelog" / "expiry.jsonl")
    assert [c.op for c in log.commits] == ["w0-0", "w0-1"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nowhere", r"its file would be checkers/formats/nowhere\.py, or its folder checkers/formats/nowhere"),
        ("no-where", "a format's name has only letters, digits and _"),
    ],
)
def test_a_log_of_a_format_that_is_not_there_says_which(tmp_path: Path, name: str, says: str) -> None:
    path = tmp_path / "t.jsonl"
    header = tablelog_file.header_to_json("t", "t", "t", ("id",), name)
    path.write_bytes(tablelog_file.dump(header) + tablelog_file.dump({"type": "end"}))
    with pytest.raises(TableLogError, match=rf"t\.jsonl:1: .*there is no table format '{name}'; {says}"):
        tablelog_file.read(path)
