"""The good runs that the self-test damages: real runs, recorded on Spark, as stored.

``recorded/*.zip`` are the folders of runs without logs and pages: plan, history, table logs. Four PySpark writers on a standalone
cluster, Iceberg's REST catalog on PostgreSQL (``atomicity``: Nessie by its own API), MinIO; three tables: copy-on-write v2, merge-on-read
v2, merge-on-read v3.
"""

from __future__ import annotations

import tempfile
import zipfile
from importlib.resources import as_file, files
from pathlib import Path

from checkers.evidence.evidence import Evidence
from checkers.judge.runfolder import load_evidence
from checkers.selftest.lostswaps import as_seen

PARTS = ("plan.yaml", "run.json", "history.jsonl", "tablelog/")
"""The files of a run's folder to keep."""


def names() -> list[str]:
    """The recorded runs."""
    return sorted(
        p.name.removesuffix(".zip")
        for p in files(__package__).joinpath("recorded").iterdir()
        if p.name.endswith(".zip")
    )


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


def pack(run: Path, into: Path) -> None:
    """Record a run's folder; the same run gives the same bytes."""
    kept = [p for p in sorted(run.rglob("*")) if p.is_file() and p.relative_to(run).as_posix().startswith(PARTS)]
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for p in kept:
            entry = zipfile.ZipInfo(p.relative_to(run).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, p.read_bytes())
