"""``icequake lake``, ``query`` and ``trend``: the numbers of all runs, kept as Iceberg tables."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.failures import HARNESS_FAILED, report_failure
from harness.cli.options import (
    DEFAULT_STORE,
    INTO,
    PATH,
    BadArgument,
    ForceOption,
    StoreOption,
    Value,
    command,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from checkers.costs.trend import Trend
    from checkers.evidence.evidence import Evidence
    from checkers.evidence.runfolder import RunFolder
    from harness.lake.place import Place
    from harness.run.judged import Publish

T = TypeVar("T")
ACTIONS = ("init", "add", "show", "compact")
LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        help="Keep the runs' numbers in a lake: yes (the store's, made if missing), no, or your own catalog, my.yaml; "
        "default: the store's lake if it has one.",
        show_default=False,
    ),
    PATH,
]
WhichOption = Annotated[
    str | None,
    typer.Option("--lake", help="Your own catalog, my.yaml; default: the lake of the store.", show_default=False),
]
SparkOption = Annotated[str, typer.Option(help="Spark master: local[4], spark://host:7077.")]


def place_of(option: str | None, store: Path) -> Place | None:
    """The lake that ``--lake`` means for runs of a store; None: they are not kept."""
    from harness.lake import place

    return place.chosen(option, store)


def _place_of(option: str | None, store: Path) -> Place:
    """The lake that a command reads or changes."""
    from harness.lake import place

    if option in ("yes", "no"):
        raise BadArgument(f"--lake {option}: give your own catalog, my.yaml, or leave it out for the lake of --store")
    return place.embedded(store) if option is None else place.chosen(option, store) or place.embedded(store)


def keeping(
    place: Place | None, publish: Publish[T], say: Callable[[str], object], rows: Path | None = None
) -> Publish[T]:
    """As ``publish``, which writes what people read of a judged run; the run then goes into the lake, if there is one.

    ``rows``: the folder that has its rows until a lake has them; None: nothing is kept for later.
    """
    if place is None and rows is None:
        return publish
    from harness.lake.folders import keep_apart, kept

    def both(folder: RunFolder, evidence: Evidence) -> T:
        shown = publish(folder, evidence)
        if place is not None:
            kept(place, folder, evidence, say, rows)
        elif rows is not None:
            keep_apart(rows, folder, evidence, say)
        return shown

    return both


@dataclass(frozen=True)
class LakeOptions(Options):
    """Keep the numbers of all runs in Iceberg tables: make a lake, add stored runs, show what it has, compact it."""

    short = "Keep the numbers of all runs."

    action: Annotated[str, typer.Argument(help="init, add, show or compact."), Value(choices=ACTIONS, what="action")]
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Of add: stores, nights, or folders of runs; default: the store.", show_default=False),
    ] = None
    store: StoreOption = DEFAULT_STORE
    where: WhichOption = None
    anew: Annotated[bool, typer.Option("--again", help="Of add: also runs that are in; their rows are replaced.")] = (
        False
    )
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last line.")] = False

    def check(self) -> None:
        if self.action != "add" and (self.paths or self.anew):
            raise BadArgument(f"lake {self.action}: takes no folders and no --again; did you mean lake add?")

    def execute(self) -> int:
        from harness.lake.lake import opened

        place, add = _place_of(self.where, self.store), self.action == "add"
        folders = _folders(self.paths, self.store, of_store=self.where is None) if add else []
        makes = self.action in ("init", "add")
        with details_in(self.store, place.secrets), opened(place, make=makes) as found:
            if add:
                return _add(found, folders, replace_rows=self.anew, quiet=self.quiet)
            if self.action == "compact":
                return _compact(found)
            _show(found)
            return 0


def _compact(found: Any) -> int:
    from harness.lake.upkeep import every_day, tend

    done = tend(found, every_day(found), most_files=1)
    typer.echo(f"{done.days} {'day' if done.days == 1 else 'days'} of tables rewritten in {found.place.name}")
    for line in done.ended:
        report_failure(line, HARNESS_FAILED)
    return HARNESS_FAILED if done.ended else 0


def _folders(paths: list[Path] | None, store: Path, *, of_store: bool) -> list[RunFolder]:
    """The runs to add. They are looked for before the lake is made: a mistyped store gets none. Raises BadArgument, StoreError.

    Args:
        of_store: whether they go into the lake of the store.
    """
    from harness.lake.folders import folders_in, is_night, left_of_night

    if not store.is_dir() and (not paths or of_store):
        way = "name stores or folders of runs, or give --store" if not paths else "`lake init --store DIR` makes one"
        raise BadArgument(f"there is no store {store}; {way}")
    found = folders_in(paths or [store])
    if paths and not found:
        raise BadArgument(f"lake add: no run in {', '.join(map(str, paths))}")
    for night in filter(is_night, paths or []):
        remaining, ran = left_of_night(night)
        if remaining < ran:
            text = f"the folders of {ran - remaining} of its {ran} runs are gone, so the lake gets {remaining}"
            warn(
                f"{night}: {text}; the night kept the others in a lake of its own, or was run with --lake no or by an older icequake"
            )
    return found


def _add(found: Any, folders: list[RunFolder], *, replace_rows: bool, quiet: bool) -> int:
    from harness.cli.terminal import Voice
    from harness.lake.folders import add_all

    with Voice(quiet=quiet, unit="runs") as voice:
        out = add_all(
            found,
            folders,
            replace_rows=replace_rows,
            say=lambda line: typer.echo(f"icequake: {line}", err=True),
            progress=voice.progress,
        )
    parts = [f"{len(out.added)} added", f"{len(out.present)} already there", f"{len(out.skipped)} skipped"]
    typer.echo(f"{found.place.name}: {', '.join(parts)}")
    return 0


def _show(found: Any) -> None:
    from rich.table import Table

    from checkers.lake.tables import LAKE_VERSION
    from harness.cli.terminal import console
    from harness.lake.lake import summary

    table = Table("table", box=None, pad_edge=False)
    for name in ("rows", "files", "KiB", "snapshots"):
        table.add_column(name, justify="right")
    for name, (rows, files, size, snapshots) in summary(found).items():
        table.add_row(name, f"{rows:,}", f"{files:,}", f"{size / 1024:,.0f}", f"{snapshots:,}")
    console(highlight=False).print(table)
    typer.echo(f"\n  lake  {found.place.name}, version {LAKE_VERSION}")


@dataclass(frozen=True)
class QueryOptions(Options):
    """Ask the lake by Spark SQL; it is read only."""

    short = "Ask the lake by SQL."

    sql: Annotated[str, typer.Argument(help="SELECT …, WITH …, SHOW … or DESCRIBE …; the tables: SHOW VIEWS.")]
    store: StoreOption = DEFAULT_STORE
    where: WhichOption = None
    spark: SparkOption = "local[2]"
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON, one a line.")] = False
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the rows as CSV, with a header.")] = False
    limit: Annotated[int, typer.Option(min=1, help="Rows of a printed table; --json and --csv have all.")] = 200

    def check(self) -> None:
        if self.as_json and self.as_csv:
            raise BadArgument("--json and --csv: give one of them")

    def prepare(self) -> None:
        from harness.lake.views import readable

        readable(self.sql)  # before Spark starts

    def execute(self) -> int:
        from harness.lake.lake import opened
        from harness.lake.views import ask, failed, session

        place = _place_of(self.where, self.store)
        with (
            details_in(self.store, place.secrets),
            opened(place) as found,
            session(_installation(), found, self.spark) as running,
        ):
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            frame = ask(running, self.sql)
            try:
                if self.as_json or self.as_csv:
                    _write(frame, as_json=self.as_json)
                else:
                    _print(frame, self.limit)
            except (PySparkException, Py4JError) as e:  # while it computes
                raise failed(e) from None
        return 0


def _installation() -> Any:
    from compose.install import ensure

    return ensure.ensure()


def _write(frame: Any, *, as_json: bool) -> None:
    rows = frame.toLocalIterator()
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row.asDict(recursive=True), default=_word, ensure_ascii=False))
        return
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(frame.columns)
    for row in rows:
        out.writerow(
            ["" if v is None else json.dumps(v, default=_word) if isinstance(v, list | dict) else _word(v) for v in row]
        )


def _word(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _print(frame: Any, limit: int) -> None:
    from rich.table import Table
    from rich.text import Text

    from harness.cli.terminal import console

    rows = frame.limit(limit + 1).collect()
    numbers = {
        n
        for n, (_, kind) in enumerate(frame.dtypes)
        if kind.startswith(("int", "bigint", "double", "float", "decimal", "smallint"))
    }
    table = Table(box=None, pad_edge=False)
    for n, name in enumerate(frame.columns):
        table.add_column(Text(name), justify="right" if n in numbers else "left")
    for row in rows[:limit]:
        table.add_row(*(Text(_cell(v)) for v in row))
    console(highlight=False).print(table)
    if len(rows) > limit:
        typer.echo(f"… the first {limit} rows; --limit shows more, --csv and --json have all")


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return str(value)


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a date, such as 2026-11-22") from None


@dataclass(frozen=True)
class TrendOptions(Options):
    """Compare the newest night with the nights before it: throughput, latency, retries, anomalies, of every workload, catalog and release."""

    short = "Compare a night with those before."

    store: StoreOption = DEFAULT_STORE
    where: WhichOption = None
    nights: Annotated[int, typer.Option(min=1, max=1000, help="Earlier nights to compare with.")] = 14
    night: Annotated[
        str | None, typer.Option(help="The night to compare, 2026-11-22; default: the newest."), Value(unit=_date)
    ] = None
    suite: Annotated[
        str | None, typer.Option(help="Only runs of this suite; default: that of the last night; '*': all runs.")
    ] = None
    spark: SparkOption = "local[2]"
    into: Annotated[Path | None, typer.Option(help="Folder of the page; default: STORE/trend."), INTO] = None
    output: Annotated[
        Path | None, typer.Option("--json", help="File for the numbers as JSON."), Value(written=("nights", "missing"))
    ] = None
    force: ForceOption = False
    fail_on_regression: Annotated[
        bool,
        typer.Option("--fail-on-regression", help="Exit code 1 if anything is worse than before, or without figures."),
    ] = False

    def execute(self) -> int:
        from checkers.verdict import exit_code
        from harness.cli.terminal import show
        from reports.drawing import render
        from reports.trend import page

        place = _place_of(self.where, self.store)
        with details_in(self.store, place.secrets):
            found, into = self._trend(place), self.into or self.store / "trend"
            into.mkdir(parents=True, exist_ok=True)
            made = page.of(found)
            written = render.write(made, into)
            if self.output is not None:
                write_output(self.output, render.data(made))
        show(made, {"page": written, "json": written.with_suffix(".json")})
        if not found.ran:
            return exit_code("unknown")  # with or without the option: it was to compare this night
        if self.fail_on_regression and found.worse:
            of = f"the night of {found.newest}{f', suite {found.suite}' if found.suite else ''}"
            typer.echo(f"  --fail-on-regression: {of}, fails because of {page.worse(found)}: {written}")
            return exit_code(False)
        return exit_code(True)

    def _trend(self, place: Place) -> Trend:
        """What the nights in the lake say. Raises BadArgument: there is none."""
        from checkers.costs.trend import trend
        from harness.lake.lake import opened
        from harness.lake.views import BEHIND, session

        night = None if self.night is None else _date(self.night)
        with opened(place) as found, session(_installation(), found, self.spark) as running:
            tables = {n: running.table(f"{BEHIND}{n}") for n in ("operations", "metrics", "anomalies")}
            answer = trend({"runs": running.table("runs"), **tables}, last=self.nights, night=night, suite=self.suite)
        if not answer.nights:
            raise BadArgument(f"trend: {no_runs(place.name, answer)}")
        return answer


def no_runs(lake: str, found: Trend) -> str:
    """That a lake has no run to compare, and what there is instead."""
    of = f" of suite {found.suite}" if found.suite else ""
    if found.latest is None:
        return f"{lake} has no runs{of}; add some with `{command()} lake add`"
    wanted = f"no run{of} in the night of {found.newest}, nor in an earlier one"
    return f"{lake} has {wanted}; its newest night is {found.latest}: --night {found.latest}"
