"""``icequake coverage``: which interleavings of two operations some runs exercised."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import stopping
from harness.cli.command import Options
from harness.cli.options import (
    DEFAULT_STORE,
    BadArgument,
    ForceOption,
    StoreOption,
    Value,
    run_in,
    write_output,
)

if TYPE_CHECKING:
    from checkers.coverage.coverage import Coverage
    from checkers.evidence.runfolder import RunFolder


@dataclass(frozen=True)
class CoverageOptions(Options):
    """Which operations met which in which phase of their writes: a figure, a heat map, and what is rare."""

    short = "Show which interleavings runs exercised."

    where: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RUN|STORE|NIGHT]...",
            help="Folders of runs, or folders with runs in them at any depth; default: the store.",
            show_default=False,
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="File for the pairs and figures as JSON."),
        Value(written=("covered", "seen")),
    ] = None
    force: ForceOption = False
    page: Annotated[
        Path | None,
        typer.Option(help="File for the page; default: coverage.html in the folder, of several folders in the store."),
        Value(written=()),
    ] = None
    store: StoreOption = DEFAULT_STORE

    def execute(self) -> int:
        from checkers.coverage.coverage import union

        if not self.where and not self.store.is_dir():
            raise BadArgument(f"there is no store {self.store}; name folders of runs, or give --store")
        folders = [run_in(self.store, path) for path in self.where] if self.where else [self.store]
        stopping.current().way_on = lambda: "nothing is lost"
        unread: list[str] = []
        found = _found(folders, unread)
        if not found and not unread:
            raise BadArgument(f"{', '.join(map(str, folders))}: no run in there")
        for line in unread:
            typer.echo(f"icequake: not read: {line}", err=True)
        if not found:
            raise BadArgument(f"{', '.join(map(str, folders))}: none of the runs in there can be read")
        return self._show(union(found.values()), folders, unread)

    def _show(self, every: Coverage, folders: list[Path], unread: list[str]) -> int:
        from harness.cli.terminal import show
        from reports.coverage import page as shown
        from reports.drawing import render
        from reports.run.interleavings import PAGE

        made = shown.of(every, ", ".join(str(f) for f in folders), unread)
        if self.output is not None:
            write_output(self.output, render.data(made))
        place = self.page or (folders[0] if len(folders) == 1 else self.store) / PAGE
        write_output(place, render.html(made))
        show(made, {"page": place})
        return 0


def _found(folders: list[Path], unread: list[str]) -> dict[tuple[Path, str], Coverage]:
    """Night and name of each run, or its folder → its coverage; a sentence in ``unread`` for each that cannot be read."""
    from checkers.coverage.ledger import name_of

    found = _of_nights(folders, unread)
    for run in _runs(folders):
        if all((night, name_of(run.path)) not in found for night in run.path.parents):
            found_in_run = _coverage_of(run, unread)
            found |= {} if found_in_run is None else {(run.path, ""): found_in_run}
    return found


def _of_nights(folders: list[Path], unread: list[str]) -> dict[tuple[Path, str], Coverage]:
    """The runs that nights recorded, which need not have a folder any more: night and name of the run → its coverage."""
    from checkers.coverage import ledger
    from checkers.coverage.coverage import CoverageError
    from checkers.evidence.runfolder import files_below

    found: dict[tuple[Path, str], Coverage] = {}
    for folder in folders:
        for path in (f for f in files_below(folder.resolve()) if f.name == ledger.FILE):
            try:
                found |= {(path.parent, name): coverage for name, coverage in ledger.read(path).items()}
            except (CoverageError, OSError) as e:
                unread.append(str(e))
    return found


def _runs(folders: list[Path]) -> list[RunFolder]:
    """The runs that the folders mean, each once, by path."""
    from checkers.evidence import runfolder
    from workloads.file import filekinds

    found: dict[Path, RunFolder] = {}
    for folder in folders:
        if not folder.exists():
            raise BadArgument(f"{folder}: no such folder; `icequake list runs --store DIR` shows the runs of a store")
        if not folder.is_dir():
            if (other := filekinds.refused(folder, "the folder of a run, or one with runs in it")) is not None:
                raise BadArgument(other)
            raise BadArgument(f"{folder}: not a folder; give the folder of a run, or one with runs in it")
        for run in runfolder.below(folder.resolve()):
            found[run.path] = run
    return [found[path] for path in sorted(found)]


def _coverage_of(run: RunFolder, unread: list[str]) -> Coverage | None:
    """The coverage of a run; None, and a sentence more, if it cannot be read."""
    from checkers.coverage.coverage import of_folder
    from checkers.evidence.history import HistoryError
    from checkers.evidence.runfolder import StoreError
    from checkers.evidence.tablelog import TableLogError

    try:
        return of_folder(run.path)
    except (StoreError, HistoryError, TableLogError) as e:
        unread.append(str(e) if str(run.path) in str(e) else f"{run.path}: {e}")
        return None
