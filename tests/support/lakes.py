"""Lakes for tests: the store of a recorded run, and adding it from another process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from checkers.evidence.runfolder import RunFolder
from checkers.lake.tables import BY_NAME
from harness.lake.lake import Lake
from tests.support.runs import environment

ADDER = """
import sys
from pathlib import Path
from checkers.evidence.runfolder import RunFolder
from harness.lake.folders import keep
from harness.lake.place import embedded
store, *folders = map(Path, sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
for folder in folders:
    keep(embedded(store), RunFolder(folder))
"""


def copied(run: Path, store: Path, stamp: str = "20261120T223951.000Z", workload: str = "quick") -> RunFolder:
    """A run's folder in a store; its times are those of its name, and its namespace is its own."""
    folder = store / workload / stamp
    shutil.copytree(run, folder)
    plan = (folder / "plan.yaml").read_text()
    lines = [f"namespace: iq_{stamp}" if x.startswith("namespace:") else x for x in plan.splitlines()]
    (folder / "plan.yaml").write_text("\n".join(lines) + "\n")
    state = json.loads((folder / "run.json").read_text())
    state.pop("started")
    (folder / "run.json").write_text(json.dumps(state))
    return RunFolder(folder)


def adding(store: Path, folders: list[Path]) -> subprocess.Popen[str]:
    """Another process that puts runs into the lake of a store, one after the other, when it gets a line."""
    command = [sys.executable, "-c", ADDER, str(store), *map(str, folders)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment())


def content(lake: Lake, name: str, *without: str) -> list[dict[str, object]]:
    """All rows of a table, in an order of their own."""
    rows: pa.Table = lake.table(name).scan().to_arrow().cast(BY_NAME[name].schema)
    found = [{k: v for k, v in row.items() if k not in without} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def files_on_disk(lake: Lake, name: str) -> set[str]:
    """The files of a table in the embedded lake: data, manifests and manifest lists."""
    location = Path(lake.table(name).location().removeprefix("file://"))
    return {str(p) for p in location.rglob("*") if p.suffix in (".parquet", ".avro")}
