"""``icequake list``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.command import Options
from harness.cli.options import DEFAULT_STORE, WITHOUT_END, BadArgument, StoreOption, Value, command

Row = tuple[str, ...]
ALIASES = {"verbs": "faults"}
"""A fault of a workload file is called by its verb."""


@dataclass(frozen=True)
class ListOptions(Options):
    """List what is available: workloads, scenarios, models, operations, engines, faults, checks, levels, suites, catalogs, versions, runs."""

    short = "List what is available."

    what: Annotated[
        str,
        typer.Argument(
            help="workloads, scenarios, models, operations, engines, faults, packages, checks, levels, experiments, suites, parameters, "
            "catalogs, versions or runs."
        ),
        Value(choices=(*WHAT, *ALIASES)),
    ] = "workloads"
    store: StoreOption = DEFAULT_STORE
    wide: Annotated[
        bool, typer.Option("--wide", help="The whole text; else a terminal has what fits on a line of it.")
    ] = False

    def execute(self) -> int:
        from rich.table import Table

        from harness.cli.terminal import console

        columns, rows_of = LISTS[ALIASES.get(self.what, self.what)]
        rows = list(rows_of(self.store))
        if not rows and self.what == "runs":
            typer.echo(f"no run in {self.store}")
            return 0
        out = console(least=WITHOUT_END if self.wide else 0)
        shown = fitted([columns, *rows], out.width)
        table = Table(*shown[0], box=None, pad_edge=False)
        for row in shown[1:]:
            table.add_row(*row)
        out.print(table)
        if shown != [columns, *rows]:
            typer.echo(f"\nThis is what fits on a line; the whole text: {command()} list {self.what} --wide")
        if self.what == "operations":
            typer.echo("\nEach operation also takes the options weight, keys and tables.")
        return 0


GAP = 2
"""Columns between two of a table's, its padding among them."""
LEAST = 8
"""Columns of the terminal that each of a table's gets at least."""


def fitted(rows: list[Row], width: int) -> list[Row]:
    """The rows of a table, each so short that it is one line of a terminal of this width.

    The first column has the names, which are typed and stay whole. What is longer than the others is cut first.
    """
    from reports.drawing.words import shorten

    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
    free, widths = width - longest[0], {0: longest[0]}
    others = sorted(range(1, len(longest)), key=longest.__getitem__)
    for left, n in enumerate(others):
        share = free // (len(others) - left) - GAP
        widths[n] = max(LEAST, min(longest[n], share))
        free -= widths[n] + GAP
    return [tuple(shorten(text, widths[n]) if n else text for n, text in enumerate(row)) for row in rows]


def _workloads(_: Path) -> Iterator[Row]:
    from harness.run.resolve import read_workload
    from workloads.file import workload as schema

    for path in sorted(schema.LIBRARY.glob("*.yaml")):
        yield path.stem, read_workload(path).workload.description


def _scenarios(_: Path) -> Iterator[Row]:
    from harness.run.resolve import read_scenario
    from reports.drawing import words
    from workloads.file import scenario

    for found in map(read_scenario, scenario.paths([])):
        thread = words.link_label(found.link) if words.is_thread(found.link) else ""
        yield found.scenario, thread, found.affected, found.shows


def _models(_: Path) -> Iterator[Row]:
    from workloads.file import modelled

    for found in modelled.find([]):
        yield found.model, found.question, ", ".join(found.expect) or "every promise holds"


def _operations(_: Path) -> Iterator[Row]:
    from workloads.operations.kinds import KINDS

    return ((name, _first_line(kind), ", ".join(kind.options)) for name, kind in KINDS.items())


def _checks(_: Path) -> Iterator[Row]:
    from checkers.judge.check import ALL

    return ((c.name, _first_line(c)) for c in ALL)


def _levels(_: Path) -> Iterator[Row]:
    from checkers.clients import models
    from checkers.isolation import levels
    from harness.cli.names import LINEARIZABLE_MEANS

    means = {**levels.MEANS, models.LINEARIZABLE: LINEARIZABLE_MEANS}
    for level in (*levels.LEVELS, models.LINEARIZABLE):
        yield level, means[level], ", ".join(m for m in models.models() if level in models.levels(m))


def _packages(_: Path) -> Iterator[Row]:
    from nemesis.faults.packages import PACKAGES

    return ((p.name, p.summary, _faults_of(p)) for p in PACKAGES.values())


def _faults(_: Path) -> Iterator[Row]:
    from nemesis.faults.packages import PACKAGES
    from nemesis.faults.registry import VERBS
    from nemesis.faults.table import options

    for v in VERBS.values():
        using = [p.name for p in PACKAGES.values() if p.name != "all" and v.name in {f.verb for f in p.faults}]
        yield v.name, _plain(v.summary), ", ".join(options(v)), ", ".join(using)


def _catalogs(_: Path) -> Iterator[Row]:
    from compose.catalogs.registry import CATALOGS

    return ((c.name, c.summary, c.promise) for c in CATALOGS.values())


def _parameters(_: Path) -> Iterator[Row]:
    from workloads.file.parameters import PARAMETERS

    yield from ((p.name, p.what, p.values) for p in PARAMETERS.values())
    yield "commit.retry.num-retries, …", "a table property", "those that Iceberg takes"


def _experiments(_: Path) -> Iterator[Row]:
    from workloads.file import experiment
    from workloads.file.yamlfile import read_text

    for path in sorted(experiment.LIBRARY.glob("*.yaml")):
        found, _lines = experiment.shape(read_text(path), str(path))
        yield path.stem, "; ".join(f"{k}: {', '.join(v)}" for k, v in found.vary.items()), found.description


def _suites(_: Path) -> Iterator[Row]:
    from compose.install.progress import clock
    from harness.run.resolve import read_suite
    from workloads.file import suite

    for path in sorted(suite.LIBRARY.glob("*.yaml")):
        night = read_suite(path)
        lasts = "" if night.suite.lasts is None else clock(night.suite.lasts)
        yield path.stem, str(len(night.cells)), lasts, night.suite.description


def _versions(_: Path) -> Iterator[Row]:
    from compose.install import releases

    return map(_version_row, releases.RELEASES)


def _runs(store: Path) -> Iterator[Row]:
    from checkers.evidence import runfolder as stored

    if not store.is_dir():
        raise BadArgument(
            f"there is no store {store}; give the folder of the runs with --store, or run a workload first"
        )
    return map(_run_row, stored.runs(store))


def _engines(_: Path) -> list[Row]:
    from compose.catalogs.registry import CATALOGS
    from compose.install.cache import home
    from compose.install.engines import EXTRAS
    from harness.run.reach import reached
    from workloads.engines.engine import Foreign
    from workloads.engines.engines import ENGINES
    from workloads.operations.kinds import KINDS

    foreign = ", ".join(n for n, k in KINDS.items() if not k.in_spark)
    rows: list[Row] = []
    for engine in ENGINES.values():
        needs = engine.needs if isinstance(engine, Foreign) else None
        installed = needs is None or EXTRAS[needs].in_place(home())
        kinds = ", ".join(engine.promises) if isinstance(engine, Foreign) else f"all but {foreign}"
        catalogs = reached(engine)
        there_too = "every catalog" if len(catalogs) == len(CATALOGS) else ", ".join(catalogs)
        state = "ready" if installed else "installed at first use"
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

    where = "in the cache" if releases.in_place(release) else "downloaded at first use"
    return release.iceberg, release.spark, f"the default; {where}" if release == releases.DEFAULT else where


def _run_row(folder: Any) -> tuple[str, str, str]:
    from checkers.evidence.lenient import mapping
    from checkers.evidence.runfolder import mapping_in
    from reports.run.results import verdict_words

    try:
        words = verdict_words(mapping(mapping_in(folder.results)))
    except (OSError, ValueError):
        words = "not checked"
    return str(folder.path), str(folder.state().get("state")), words


LISTS: dict[str, tuple[Row, Callable[[Path], Iterable[Row]]]] = {
    "workloads": (("workload", "what it does"), _workloads),
    "scenarios": (("scenario", "discussed at", "affected", "what it shows"), _scenarios),
    "models": (("model", "what it asks", "what it must find"), _models),
    "operations": (("operation", "what it does", "its options"), _operations),
    "engines": (("engine", "", "what it is", "it reaches", "its operations"), _engines),
    "faults": (("fault (verb)", "what happens", "its options", "in the packages"), _faults),
    "packages": (("package", "what it stands for", "its faults"), _packages),
    "checks": (("check", "what it finds"), _checks),
    "levels": (("level", "what it promises", "histories of these models"), _levels),
    "experiments": (("experiment", "what it varies", "what it is"), _experiments),
    "suites": (("suite", "combinations", "for", "what it is"), _suites),
    "parameters": (("parameter", "what it is", "its values"), _parameters),
    "catalogs": (("catalog", "what it is", "a commit"), _catalogs),
    "versions": (("iceberg", "spark", ""), _versions),
    "runs": (("run", "state", "verdict"), _runs),
}
"""What can be listed: its columns, and its rows for a store."""
WHAT = tuple(LISTS)
