"""``icequake time-to-find``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import estimates
from harness.cli.command import Options
from harness.cli.frame import framed
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    DEFAULT_STORE,
    INTO,
    LAST_SEED,
    LENGTH,
    NEVER,
    PATH,
    BadArgument,
    ClusterOption,
    ForceOption,
    QuietOption,
    SessionOption,
    StoreOption,
    Value,
    length,
    listed,
    warn,
    write_output,
)
from harness.cli.publish import publish

if TYPE_CHECKING:
    from checkers.costs.defectsearch import DefectSearch
    from harness.experiments.timetofind import SearchPlan, TimeToFind
    from workloads.file.defect import Defect

ORDERS = "free,priority(3),coverage"


def _order(text: str) -> str:
    from workloads.file import order as orders

    found = orders.parse(text)
    if found.kind == "replay":
        raise ValueError("a search replays no run; give free, priority(D) or coverage")
    return str(found)


@dataclass(frozen=True)
class TimeToFindOptions(Options):
    """Measure how fast random workloads find known defects, by each order of requests."""

    short = "Measure how fast known defects are found."

    defects: Annotated[
        list[str] | None,
        typer.Argument(help="Defects of the library, or defect files; default: the whole library.", show_default=False),
        PATH,
    ] = None
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of searches of each defect and order.")] = 5
    seed: Annotated[int, typer.Option(min=0, max=LAST_SEED, help="The first seed; the others follow it.")] = 1
    order: Annotated[
        str,
        typer.Option(help="Who decides the order of requests, several with commas."),
        Value(unit=_order, several=True),
    ] = ORDERS
    budget: Annotated[
        str, typer.Option(help="Load of one search, at most: 120s; its last run is made whole."), LENGTH
    ] = "120s"
    without: Annotated[
        str | None,
        typer.Option(help="Defects that are left out, with commas.", show_default=False),
        Value(several=True),
    ] = None
    session: SessionOption = None
    cluster: ClusterOption = None
    report: Annotated[bool, typer.Option("--report", help="Run nothing: write what the folders have."), NEVER] = False
    also: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of another measurement whose searches are reported, too; repeatable.", show_default=False
        ),
        NEVER,
    ] = None
    doc: Annotated[
        Path | None,
        typer.Option(help="Markdown page that gets the tables, between its marks.", show_default=False),
        NEVER,
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="Write all searches as JSON."),
        Value("never", written=("budget", "searches")),
    ] = None
    force: ForceOption = False
    store: StoreOption = DEFAULT_STORE
    lake: LakeOption = None
    into: Annotated[
        Path | None, typer.Option(help="Folder of the measurement; an unfinished one is continued."), INTO
    ] = None
    quiet: QuietOption = False

    def check(self) -> None:
        if self.report and self.into is None:
            raise BadArgument("--report: give the folder of the measurement with --into")
        if self.doc is not None and not self.doc.is_file():
            raise BadArgument(f"--doc {self.doc}: there is no such page")

    def prepare(self) -> None:
        place_of(self.lake, self.store)
        if not self._chosen:
            raise BadArgument("time-to-find: no defect is left")

    @cached_property
    def _paths(self) -> list[Path]:
        from workloads.file import defect as files

        return [files.find(d) for d in dict.fromkeys(self.defects)] if self.defects else files.paths()

    @cached_property
    def _chosen(self) -> tuple[Defect, ...]:
        """The defects that are looked for. Raises BadArgument."""
        from harness.run.resolve import read_defect

        skipped = listed("--without", self.without)
        read = {d.defect: d.model_copy(update=self.mode) for d in (read_defect(p, warn) for p in self._paths)}
        for name in skipped:
            if name not in read:
                raise BadArgument(f"--without {name}: is not among the defects: {', '.join(read)}")
        return tuple(d for d in read.values() if d.defect not in skipped)

    @cached_property
    def _orders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(_order, listed("--order", self.order))))

    def takes(self) -> float:
        """If all were in vain."""
        searches = len(self._chosen) * len(self._orders) * self.seeds
        return estimates.STACK_S + searches * estimates.SEARCH * length(self.budget)

    def _once(self, defect: Defect, seed: int, order: str) -> str:
        """The command that makes one search alone."""
        from workloads.file import defect as files

        path = next(p for p in self._paths if p.stem == defect.defect)
        name = defect.defect if path.parent == files.LIBRARY else os.path.abspath(path)
        options = self.like(TimeToFindOptions, defects=[name], without=None, lake=None, into=None)
        return options.again(seeds=1, seed=seed, order=order, budget=self.budget)

    def execute(self) -> int:
        from harness.experiments import timetofind as finding

        into = self.into or finding.new_folder(self.store)
        goes_on = self.again(
            seeds=self.seeds,
            seed=self.seed,
            order=",".join(self._orders),
            budget=self.budget,
            store=self.store,
            into=into,
        )
        seeds = tuple(range(self.seed, self.seed + self.seeds))
        plan = finding.SearchPlan(self._chosen, self._orders, seeds, length(self.budget), self._once)
        self._measure(plan, into, goes_on)
        return self._show(into, goes_on)

    def _measure(self, plan: SearchPlan, into: Path, goes_on: str) -> None:
        from harness.experiments.timetofind import TimeToFind
        from reports import timetofind as page
        from reports.drawing.words import plural

        kept_in = place_of(self.lake, self.store)
        with framed(into, f"continue with: {goes_on}", quiet=self.quiet) as frame:
            voice = frame.voice
            keeps = keeping(kept_in, publish, voice.say)
            whole = TimeToFind(plan, into, voice, keeps, finished=lambda search: voice.keep(page.line_of(search)))
            if self.report:
                return
            searches = plural(len(plan.searches()), "search", "searches")
            voice.keep(
                f"{plural(len(self._chosen), 'defect')}, {searches}, {self.how_long} if none finds anything: {into}"
            )
            frame.so_far = lambda: self._so_far(whole)
            whole.measure()

    def _so_far(self, whole: TimeToFind) -> str:
        from reports import timetofind as page

        done = whole.searches()
        if whole.path.exists():
            page.write(done, length(self.budget), whole.into)
        return f"{len(done)} of {len(whole.order.searches())} searches are made"

    def _show(self, into: Path, goes_on: str) -> int:
        from checkers.costs import defectsearch
        from harness.cli.terminal import console
        from harness.experiments.timetofind import together
        from reports import timetofind as page
        from reports.drawing import render

        searches, budgeted = together([into, *(self.also or ())], self._chosen)
        written = page.write(searches, budgeted, into)
        if self.output is not None:
            write_output(self.output, page.dumped(searches, budgeted))
        if self.doc is not None:
            self._write_doc(self.doc, searches, budgeted)
        typer.echo()
        console(highlight=False).print(render.table(page.table(defectsearch.together(searches))))
        typer.echo(f"\n  page   {written}\n  json   {into / page.JSON}\n  again  {goes_on}")
        return 0 if searches and all(s.reason is None for s in searches) else 255

    def _write_doc(self, doc: Path, searches: Sequence[DefectSearch], budgeted: float) -> None:
        from reports import timetofind as page
        from workloads.file import defect as files

        parts = {
            "definitions": page.definitions(self._chosen),
            "unreached": page.reasons(files.unreached()),
            "results": page.results(searches, budgeted),
        }
        doc.write_text(page.written(doc.read_text(encoding="utf-8"), parts, str(doc)), encoding="utf-8")
