"""``icequake list``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import BadArgument, StoreOption

WHAT = (
    "workloads",
    "scenarios",
    "operations",
    "engines",
    "faults",
    "packages",
    "checks",
    "experiments",
    "suites",
    "parameters",
    "catalogs",
    "versions",
    "runs",
)


def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="workloads, scenarios, operations, engines, faults, packages, checks, experiments, suites, catalogs, versions or runs."
        ),
    ] = "workloads",
    store: StoreOption = Path("store"),
) -> int:
    """List what is available: workloads, scenarios, operations, engines, faults, packages, checks, suites, catalogs, versions, runs."""
    from rich.table import Table

    from harness.cli.terminal import console
    from workloads.file.meant import suggest

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

        columns = ("operation", "what it does", "its options")
        rows = [(n, _first_line(k), ", ".join(k.options)) for n, k in KINDS.items()]
    elif what == "engines":
        columns, rows = ("engine", "", "what it is", "it reaches", "its operations"), _engine_rows()
    elif what == "checks":
        from checkers.judge.check import ALL

        columns = ("check", "what it finds")
        rows = [(c.name, _first_line(c)) for c in ALL]
    elif what == "packages":
        from nemesis.faults.packages import PACKAGES

        columns = ("package", "what it stands for", "its faults")
        rows = [(p.name, p.summary, _faults_of(p)) for p in PACKAGES.values()]
    elif what in ("faults", "verbs"):  # a fault of a workload file is called by its verb
        from nemesis.faults.packages import PACKAGES
        from nemesis.faults.registry import VERBS
        from nemesis.faults.table import options

        columns = ("fault (verb)", "what happens", "its options", "in the packages")
        using = {
            v: [p.name for p in PACKAGES.values() if p.name != "all" and v in {f.verb for f in p.faults}] for v in VERBS
        }
        rows = [(v.name, _plain(v.summary), ", ".join(options(v)), ", ".join(using[v.name])) for v in VERBS.values()]
    elif what == "catalogs":
        from compose.catalogs.registry import CATALOGS

        columns, rows = (
            ("catalog", "what it is", "a commit"),
            [(c.name, c.summary, c.promise) for c in CATALOGS.values()],
        )
    elif what == "parameters":
        from workloads.file.parameters import PARAMETERS

        columns, rows = (
            ("parameter", "what it is", "its values"),
            [
                *((p.name, p.what, p.values) for p in PARAMETERS.values()),
                ("commit.retry.num-retries, …", "a table property", "those that Iceberg takes"),
            ],
        )
    elif what == "experiments":
        from workloads.file import experiment
        from workloads.file.yamlfile import read_text

        columns, rows = ("experiment", "what it varies", "what it is"), []
        for path in sorted(experiment.LIBRARY.glob("*.yaml")):
            found, _ = experiment.shape(read_text(path), str(path))
            varies = "; ".join(f"{k}: {', '.join(v)}" for k, v in found.vary.items())
            rows.append((path.stem, varies, found.description))
    elif what == "suites":
        from harness.run.resolve import read_suite
        from workloads.file import suite

        columns, rows = ("suite", "cells", "for", "what it is"), []
        for path in sorted(suite.LIBRARY.glob("*.yaml")):
            night = read_suite(path)
            lasts = "" if night.suite.lasts is None else _clock(night.suite.lasts)
            rows.append((path.stem, str(len(night.cells)), lasts, night.suite.description))
    elif what == "versions":
        from compose.install import releases

        columns, rows = ("iceberg", "spark", ""), [_version_row(r) for r in releases.RELEASES]
    elif what == "runs":
        from checkers.evidence import runfolder as stored

        if not store.is_dir():
            raise BadArgument(
                f"there is no store {store}; give the folder of the runs with --store, or run a workload first"
            )
        columns, rows = ("run", "state", "verdict"), [_run_row(r) for r in stored.runs(store)]
        if not rows:
            typer.echo(f"no run in {store}")
            return 0
    else:
        raise BadArgument(f"list {what}: unknown{suggest(what, WHAT)}; allowed: {', '.join(WHAT)}")
    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console().print(table)
    if what == "operations":
        typer.echo("\nEach operation also takes the options weight, keys and tables.")
    return 0


def _clock(seconds: float) -> str:
    from compose.install.progress import clock

    return clock(seconds)


def _engine_rows() -> list[tuple[str, ...]]:
    from compose.catalogs.registry import CATALOGS
    from compose.install.cache import home
    from compose.install.engines import EXTRAS
    from harness.run.reach import reached
    from workloads.engines.engine import Foreign
    from workloads.engines.engines import ENGINES
    from workloads.operations.kinds import KINDS

    foreign = ", ".join(n for n, k in KINDS.items() if not k.in_spark)
    rows: list[tuple[str, ...]] = []
    for engine in ENGINES.values():
        needs = engine.needs if isinstance(engine, Foreign) else None
        there = needs is None or EXTRAS[needs].in_place(home())
        kinds = ", ".join(engine.promises) if isinstance(engine, Foreign) else f"all but {foreign}"
        catalogs = reached(engine)
        there_too = "every catalog" if len(catalogs) == len(CATALOGS) else ", ".join(catalogs)
        state = "ready" if there else "installed at first use"
        rows.append((engine.name, state, _first_line(engine), there_too, kinds))
    return rows


def _first_line(thing: object) -> str:
    """The first line of its docstring."""
    return _plain((type(thing).__doc__ or "").strip().split("\n")[0])


def _plain(text: str) -> str:
    """Without the backticks around code; the name of an option or argument stands in quotes."""
    return re.sub(r"`+([a-z_]+)`+", r"'\1'", text).replace("`", "")


def _faults_of(package: Any) -> str:
    if package.name == "all":
        return "those of all packages"
    return ", ".join(dict.fromkeys(fault.name for fault in package.faults))


def _version_row(release: Any) -> tuple[str, str, str]:
    from compose.install import releases

    there = "in the cache" if releases.in_place(release) else "downloaded at first use"
    return release.iceberg, release.spark, f"the default; {there}" if release == releases.DEFAULT else there


def _run_row(folder: Any) -> tuple[str, str, str]:
    from checkers.evidence.lenient import mapping
    from checkers.evidence.runfolder import mapping_in
    from reports.run.results import verdict_words

    try:
        said = verdict_words(mapping(mapping_in(folder.results)))
    except (OSError, ValueError):
        said = "not checked"
    return str(folder.path), str(folder.state().get("state")), said
