"""``icequake list``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import BadArgument, StoreOption


def list_(
    what: Annotated[
        str, typer.Argument(help="workloads, scenarios, operations, faults, verbs, checks, catalogs, versions or runs.")
    ] = "workloads",
    store: StoreOption = Path("store"),
) -> int:
    """List what is available: workloads, scenarios, operations, faults, verbs, checks, catalogs, versions, runs."""
    from rich.table import Table

    from harness.cli.terminal import console

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    if what == "workloads":
        from harness.run.resolve import read_workload
        from workloads.file import workload as schema

        loaded = [(p, read_workload(p).workload) for p in sorted(schema.LIBRARY.glob("*.yaml"))]
        columns = ("workload", "what it does")
        rows = [(p.stem, w.description) for p, w in loaded]
    elif what == "scenarios":
        from harness.run.resolve import read_scenario
        from workloads.file import scenario

        columns = ("scenario", "what it shows")
        rows = [(x.scenario, x.description) for x in map(read_scenario, scenario.paths([]))]
    elif what == "operations":
        from workloads.operations.kinds import KINDS

        columns, rows = ("operation", "what it does"), [(n, (k.__doc__ or "").split("\n")[0]) for n, k in KINDS.items()]
    elif what == "checks":
        from checkers.judge.check import ALL

        columns = ("check", "what it finds")
        rows = [(c.name, (type(c).__doc__ or "").strip().split("\n")[0]) for c in ALL]
    elif what == "faults":
        from nemesis.faults.packages import PACKAGES

        columns = ("package", "what it stands for", "its faults")
        rows = [(p.name, p.summary, ", ".join(dict.fromkeys(f.name for f in p.faults))) for p in PACKAGES.values()]
    elif what == "verbs":
        from nemesis.faults.registry import VERBS
        from nemesis.faults.table import options

        columns = ("verb", "what happens", "its options")
        rows = [(v.name, v.summary.replace("`", ""), ", ".join(options(v))) for v in VERBS.values()]
    elif what == "catalogs":
        from compose.catalogs.registry import CATALOGS

        columns, rows = (
            ("catalog", "what it is", "a commit"),
            [(c.name, c.summary, c.promise) for c in CATALOGS.values()],
        )
    elif what == "versions":
        from compose.install import releases

        columns, rows = ("iceberg", "spark", ""), [_version_row(r) for r in releases.RELEASES]
    elif what == "runs":
        from checkers.evidence import runfolder as stored

        columns, rows = ("run", "state", "verdict"), [_run_row(r) for r in stored.runs(store)]
    else:
        raise BadArgument(
            f"list {what}: allowed: workloads, scenarios, operations, faults, verbs, checks, catalogs, versions, runs"
        )
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
    return 0


def _version_row(release: Any) -> tuple[str, str, str]:
    from compose.install import releases

    there = "in the cache" if releases.in_place(release) else "downloaded at first use"
    return release.iceberg, release.spark, f"the default; {there}" if release == releases.DEFAULT else there


def _run_row(folder: Any) -> tuple[str, str, str]:
    import json

    from reports.run.results import mapping, verdict_words

    try:
        said = verdict_words(mapping(json.loads(folder.results.read_text())))
    except (OSError, ValueError):
        said = "not checked"
    return str(folder.path), str(folder.state().get("state")), said
