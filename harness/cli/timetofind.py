"""``icequake time-to-find``."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.lake import LakeOption, keeping, place_of
from harness.cli.options import (
    BadArgument,
    ClusterOption,
    SessionOption,
    StoreOption,
    anywhere,
    listed,
    mode_of,
    path_anywhere,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from checkers.costs.timetofind import Search
    from workloads.file.defect import Defect

ORDERS = "free,priority(3),coverage"


def time_to_find(
    defects: Annotated[
        list[str] | None,
        typer.Argument(help="Defects of the library, or defect files; default: the whole library.", show_default=False),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Number of searches of each defect and order.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; the others follow it.")] = 1,
    order: Annotated[str, typer.Option(help="Who decides the order of requests, several with commas.")] = ORDERS,
    budget: Annotated[
        str, typer.Option(help="Load of one search, at most: 120s; its last run is made whole.")
    ] = "120s",
    without: Annotated[
        str | None, typer.Option(help="Defects that are left out, with commas.", show_default=False)
    ] = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    report: Annotated[bool, typer.Option("--report", help="Run nothing: write what the folders have.")] = False,
    also: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of another measurement whose searches are reported, too; repeatable.", show_default=False
        ),
    ] = None,
    doc: Annotated[
        Path | None, typer.Option(help="Markdown page that gets the tables, between its marks.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Write all searches as JSON.")] = None,
    store: StoreOption = Path("store"),
    lake: LakeOption = None,
    into: Annotated[
        Path | None, typer.Option(help="Folder of the measurement; an unfinished one is continued.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Measure how fast random workloads find known defects, by each order of requests."""
    from checkers.costs import timetofind
    from harness.cli.terminal import Voice, console
    from harness.experiments import timetofind as finding
    from harness.run.resolve import read_defect
    from nemesis.faults.lengths import seconds
    from reports import timetofind as page
    from reports.drawing import render
    from workloads.file import defect as files

    skipped = listed("--without", without)
    paths = [files.find(d) for d in dict.fromkeys(defects)] if defects else files.paths()
    given = mode_of(session, cluster)
    read = {d.defect: d.model_copy(update=given) for d in (read_defect(p, warn) for p in paths)}
    for name in skipped:
        if name not in read:
            raise BadArgument(f"--without {name}: is not among the defects: {', '.join(read)}")
    chosen = tuple(d for d in read.values() if d.defect not in skipped)
    if not chosen:
        raise BadArgument("time-to-find: no defect is left")
    orders = tuple(dict.fromkeys(map(_order, _split(order))))
    try:
        bound = seconds(budget)
    except ValueError as e:
        raise BadArgument(f"--budget {budget}: {e}") from None
    if bound <= 0:
        raise BadArgument(f"--budget {budget}: must be more than nothing")
    if report and into is None:
        raise BadArgument("--report: give the folder of the measurement with --into")
    if doc is not None and not doc.is_file():
        raise BadArgument(f"--doc {doc}: there is no such page")
    into = into or finding.new_folder(store)
    kept_in = place_of(lake, store)
    options = ["--seeds", str(seeds), "--seed", str(seed), "--order", ",".join(orders), "--budget", budget]
    options += ["--without", ",".join(skipped)] if skipped else []
    mode = [w for k, v in given.items() for w in (f"--{k}", v)]
    options += mode
    options += ["--lake", path_anywhere(lake)] if lake is not None else []
    ends = ["--into", str(into), "--store", str(store)]
    words = ["time-to-find", *map(path_anywhere, defects or ()), *options, *ends]
    goes_on = shlex.join([anywhere(), *words])

    def again(d: Defect, seed: int, order: str) -> str:
        path = next(p for p in paths if p.stem == d.defect)
        name = d.defect if path.parent == files.LIBRARY else os.path.abspath(path)
        own = ["--seeds", "1", "--seed", str(seed), "--order", order, "--budget", budget, *mode]
        return shlex.join([anywhere(), "time-to-find", name, *own])

    plan = finding.Order(chosen, orders, tuple(range(seed, seed + seeds)), bound, again)

    def told(search: Search) -> None:
        voice.keep(page.line_of(search))

    with Voice(quiet=quiet) as voice, details_in(into):
        whole = finding.TimeToFind(plan, into, voice, keeping(kept_in, publish, voice.say), said=told)
        if not report:
            voice.keep(f"{len(chosen)} defects, {len(plan.searches())} searches: {into}")
            stopping.current().way_on = lambda: f"continue with: {goes_on}"
            try:
                whole.measure()
            except KeyboardInterrupt as e:
                done = whole.searches()
                if whole.path.exists():
                    page.write(done, bound, into)
                so_far = f"{len(done)} of {len(plan.searches())} searches are made"
                raise stopping.Stopped(f"{so_far}; continue with: {goes_on}") from e
    searches, budgeted = finding.together([into, *(also or ())], chosen)
    written = page.write(searches, budgeted, into)
    if output is not None:
        write_output(output, page.dumped(searches, budgeted))
    if doc is not None:
        parts = {
            "definitions": page.definitions(chosen),
            "unreached": page.reasons(files.unreached()),
            "results": page.results(searches, budgeted),
        }
        doc.write_text(page.written(doc.read_text(encoding="utf-8"), parts, str(doc)), encoding="utf-8")
    typer.echo()
    console(highlight=False).print(render.table(page.table(timetofind.together(searches))))
    typer.echo(f"\n  page   {written}\n  json   {into / page.JSON}\n  again  {goes_on}")
    return 0 if searches and all(s.reason is None for s in searches) else 255


def _split(text: str) -> list[str]:
    found = listed("--order", text)
    if not found:
        raise BadArgument(f"--order: give at least one, such as {ORDERS}")
    return found


def _order(text: str) -> str:
    from workloads.file import order as orders

    try:
        found = orders.parse(text)
    except ValueError as e:
        raise BadArgument(f"--order: {e}") from None
    if found.kind == "replay":
        raise BadArgument("--order: a search replays no run; give free, priority(D) or coverage")
    return str(found)
