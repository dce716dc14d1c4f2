"""The good runs that the self-test damages: real runs, recorded on Spark, as stored.

``recorded/*.zip`` are the folders of runs without logs and pages: plan, history, table logs. Four PySpark writers on a standalone
cluster, Iceberg's REST catalog on PostgreSQL (``atomicity``: Nessie by its own API), MinIO; three tables: copy-on-write v2, merge-on-read
v2, merge-on-read v3. Those in the folder ``delta`` are on three Delta tables, two with deletion vectors, guarded by ``s3-conditional``.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

from checkers.evidence.evidence import Evidence
from checkers.evidence.proxylog import AcceptedChange, PointerSwap
from checkers.evidence.replace import replace
from checkers.judge.runfolder import load_evidence

RUN_FILES = ("plan.yaml", "run.json", "history.jsonl", "tablelog/")
"""The files of a run's folder to keep."""
TABLE_COMMIT = "POST /v1/namespaces/db/tables/t"


DELTA_RUNS = "delta"
"""The folder of the recorded runs on tables of Delta Lake."""


def names(folder: str = "") -> list[str]:
    """The recorded runs, with ``folder`` those in a folder of their own; their names begin with it."""
    place = files(__package__).joinpath("recorded", folder)
    found = (p.name.removesuffix(".zip") for p in place.iterdir() if p.name.endswith(".zip"))
    return sorted(f"{folder}/{name}" if folder else name for name in found)


def load(name: str) -> Evidence:
    """The evidence of a recorded run, with the pointer swaps that proxies would have seen.

    Raises:
        StoreError, HistoryError, TableLogError: as :func:`checkers.judge.runfolder.load_evidence`.
    """
    with (
        as_file(files(__package__).joinpath("recorded", f"{name}.zip")) as path,
        tempfile.TemporaryDirectory() as folder,
    ):
        with zipfile.ZipFile(path) as z:
            z.extractall(folder)
        return as_seen(load_evidence(Path(folder)))


def as_seen(e: Evidence) -> Evidence:
    """The evidence with what proxies in front of the catalog would have seen: swaps, and the snapshots in accepted requests.

    A recorded run has no proxy log. One accepted swap from each metadata version to the next follows from the table logs, as early as the
    operations that made the versions so far allow.
    """
    operations = {o.op: o for o in e.history.operations()}
    swaps: dict[str, tuple[PointerSwap, ...]] = {}
    accepted: dict[str, tuple[AcceptedChange, ...]] = {}
    for table, log in e.logs.items():
        made = {c.metadata: c.op for c in log.commits if c.op is not None}
        found, changes = [], []
        time = 0
        for before, m in pairwise(log.metadata):
            o = operations.get(made.get(m.n, ""))
            time = time if o is None else max(time, o.start)
            op = made.get(m.n)
            found.append(PointerSwap(time, time, None, op, before.location, m.location, "200"))
            adds = tuple(s for s in m.snapshots if s not in before.snapshots)
            main = m.current if m.current != before.current else None
            if adds or main is not None:
                changes.append(AcceptedChange(time, time, None, op, before.current, adds, main, TABLE_COMMIT, "200"))
        swaps[table], accepted[table] = tuple(found), tuple(changes)
    return replace(e, swaps=swaps, accepted=accepted)


def pack(run: Path, into: Path) -> None:
    """Record a run's folder; the same run gives the same bytes."""
    kept = [p for p in sorted(run.rglob("*")) if p.is_file() and p.relative_to(run).as_posix().startswith(RUN_FILES)]
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for p in kept:
            entry = zipfile.ZipInfo(p.relative_to(run).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, p.read_bytes())
