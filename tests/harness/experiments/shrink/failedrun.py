"""A failed run on real Spark, as it was stored: two writers, a DELETE and an UPDATE of one row, and the row is still there."""

from __future__ import annotations

import zipfile
from pathlib import Path

import yaml

ZIP = Path(__file__).with_name("undelete.zip")


def failed_run(folder: Path, **changes: object) -> Path:
    """The run in ``folder/two/STAMP``, with changes to its plan."""
    run = folder / "two" / "20261122T145309.000Z"
    run.mkdir(parents=True)
    with zipfile.ZipFile(ZIP) as z:
        z.extractall(run)
    if changes:
        plan = yaml.safe_load((run / "plan.yaml").read_text())
        (run / "plan.yaml").write_text(yaml.safe_dump({**plan, **changes}, sort_keys=False))
    return run
