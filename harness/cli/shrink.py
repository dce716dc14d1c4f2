"""``icequake shrink``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import stopping
from harness.cli.check import publish
from harness.cli.crash import details_in
from harness.cli.options import (
    BadArgument,
    ClusterOption,
    RunArgument,
    SessionOption,
    StoreOption,
    anywhere,
    known_catalog,
    mode_of,
    path_anywhere,
    reachable,
    release_of,
    run_in,
    say_own_jar,
    user_services,
)

if TYPE_CHECKING:
    from harness.experiments.shrink.shrink import Failed

NOT_REPRODUCED = 2
FEW_WRITERS = 4
"""Writers that are started at once, if the run had so many: another start takes longer than they cost."""


def shrink(
    run: RunArgument = None,
    anomaly: Annotated[
        str | None, typer.Option(help="Name of the anomaly; default: the first one that the workload does not allow.")
    ] = None,
    catalog: Annotated[
        str | None,
        typer.Option(help="A catalog of `icequake list catalogs`, or your own, my.yaml; default: the run's."),
    ] = None,
    iceberg: Annotated[
        str | None,
        typer.Option(help="Release of Iceberg, or the path of a runtime jar that you built; default: the run's."),
    ] = None,
    session: SessionOption = None,
    cluster: ClusterOption = None,
    budget: Annotated[str, typer.Option(help="Time for the search: 10m, 90s.")] = "10m",
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs for the search, at most; default: as the time allows.")
    ] = None,
    tries: Annotated[
        int, typer.Option(min=1, max=100, help="Runs of a candidate until it counts as one that does not show it.")
    ] = 2,
    times: Annotated[int, typer.Option(min=1, max=100, help="Runs in which the result must show it.")] = 3,
    into: Annotated[
        Path | None,
        typer.Option(help="Folder of the shrink; an unfinished one is continued. Default: shrink/NAME of the store."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--json", help="Another file for the result as JSON.")] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Keep every run, not only those that show the anomaly.")
    ] = False,
    store: StoreOption = Path("store"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines.")] = False,
) -> int:
    """Make a failed run small: the fewest operations that show its anomaly again, as a scenario file."""
    from checkers.evidence import runfolder
    from compose import setup
    from compose.redaction import secrets_of
    from harness.cli.terminal import Voice, show
    from harness.experiments.shrink import trials
    from harness.experiments.shrink.log import Log
    from harness.experiments.shrink.shrink import SCENARIO, NothingToShrink, Shrink, failed, measure, on_catalog, shrunk
    from harness.run.hidden import revealed
    from harness.run.settings import RunError
    from nemesis.faults.lengths import seconds
    from reports import shrunk as shown
    from reports.drawing import render
    from workloads.file.recording import FILE

    try:
        length = seconds(budget)
    except ValueError as e:
        raise BadArgument(f"--budget {budget}: {e}") from None
    folder = runfolder.find(run_in(store, run))
    known_anomaly(anomaly)
    with details_in(folder.path):
        try:
            found = failed(folder, anomaly)
        except NothingToShrink as e:
            raise BadArgument(str(e)) from None
        except RunError as e:
            raise BadArgument(str(e)) from None
    at = catalog_of(found, catalog)
    external = user_services(at, None, None)
    reachable(found.recording.workload.engines, at)
    version = iceberg if iceberg is not None else recorded_release(found)
    release = release_of(version, found.recording.workload)
    found = on_catalog(found, at)
    given = mode_of(session, cluster)
    into = into or store / "shrink" / f"{found.name}-{folder.path.parent.name}-{folder.path.name}".lower()
    words = ["shrink", str(folder.path), "--anomaly", found.name, "--catalog", path_anywhere(at)]
    words += ["--iceberg", path_anywhere(iceberg)] if iceberg else []
    words += [w for k, v in given.items() for w in (f"--{k}", v)]
    words += ["--budget", budget, *(["--runs", str(runs)] if runs else [])]
    words += ["--tries", str(tries), "--times", str(times), "--into", str(into)]
    words += ["--keep-runs"] if keep_runs else []
    goes_on = shlex.join([anywhere(), *words])
    named = [] if iceberg is None else ["--iceberg", path_anywhere(iceberg)]
    proves = shlex.join([anywhere(), "prove", str(into / SCENARIO), *named])
    replays = replay_command(found, str(into / FILE), [*named, "--catalog", path_anywhere(at)])
    log = Log(into, trials.about(folder.path, found.name, at, release.label))
    hidden = (*external.secrets, *secrets_of(revealed(found.recording.workload.catalog_properties)))
    with log, Voice(quiet=quiet, unit="runs") as voice, details_in(into, hidden):
        installation = setup.ensure_release(release)
        voice.keep(f"{found.name} of {folder.path}, {measure(found.recording)}: {into}")
        say_own_jar(release, voice.say)
        runner = trials.OnBench(
            into / trials.RUNS,
            into / "logs",
            installation,
            voice,
            publish,
            catalog=at,
            external=external,
            secrets=hidden,
            mode=replace(found.recording.workload.quick_mode, **given),
            writers=min(FEW_WRITERS, found.recording.workload.writers),
            replays=replays,
            proves=proves,
        )
        with runner:
            asked = trials.Trials(runner, log, into, found.name, trials.Budget(length, runs), voice, keep=keep_runs)
            one = Shrink(found, into, asked, voice, tries=tries, times=times)
            stopping.current().way_on = lambda: _way_on(one, goes_on)
            try:
                left, minimal, said = one.shrink()
                result = shrunk(one, left, minimal, said, proves=proves, replays=replays, goes_on=goes_on)
            except KeyboardInterrupt as e:
                raise stopping.Stopped(_way_on(one, goes_on)) from e
        page = shown.of(result)
        written = render.write(page, into, *([output] if output is not None else ()))
    files = {"scenario": result.scenario, "recording": result.recording}
    kept = {name: into / file for name, file in files.items() if file is not None}
    again = result.command if result.after is not None else result.goes_on
    typer.echo()
    show(page, {"runs": shown.ran(result), **kept, "page": written, "again": again})
    return 0 if result.shown else NOT_REPRODUCED


def _way_on(one: object, goes_on: str) -> str:
    from harness.experiments.shrink.shrink import Shrink, measure
    from workloads.file.recording import FILE

    assert isinstance(one, Shrink)
    smallest = "nothing showed it so far"
    if one.smallest is not None:
        smallest = f"the smallest so far has {measure(one.smallest)}: {one.into / FILE}"
    return f"{smallest}; go on with: {goes_on}"


def known_anomaly(name: str | None) -> None:
    """Raises BadArgument if no checker finds an anomaly of this name."""
    from checkers.judge.check import ANOMALIES
    from workloads.file.meant import unknown

    if name is not None and name not in ANOMALIES:
        raise BadArgument(f"--anomaly {name}: {unknown('anomaly', name, sorted(ANOMALIES))}")


def replay_command(found: Failed, recording: str, more: Sequence[str]) -> str:
    """The command that replays a recording of a run; it takes the run's workload file."""
    words = words_of(found.folder.read_plan().command)
    file = words[words.index("run") + 1] if "run" in words[:-1] else found.recording.workload.workload
    return shlex.join([anywhere(), "run", file, "--order", f"replay {recording}", *more])


def catalog_of(found: Failed, typed: str | None) -> str:
    """The catalog that the run had, or that was typed; of the user's own the path of its file.

    Raises:
        BadArgument: the file of the user's own catalog is not known, or not there.
    """
    from compose.catalogs import user_file
    from compose.catalogs.registry import CATALOGS

    if typed is not None:
        return known_catalog(typed)
    plan = found.folder.read_plan()
    name = "" if plan.catalog is None else plan.catalog.name
    path = option_of(plan.command, "--catalog")
    if name in CATALOGS and not (path is not None and user_file.is_file(path)):
        return name
    if path is None or not user_file.is_file(path):
        raise BadArgument(f"{found.folder.plan}: catalog {name} is your own; give its file with --catalog my.yaml")
    if not Path(path).is_file():
        raise BadArgument(
            f"{found.folder.plan}: the catalog's file {path} is not there any more; give it with --catalog"
        )
    return known_catalog(path)


def words_of(command: str) -> list[str]:
    """The words of a command line; none if it cannot be read."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def option_of(command: str, option: str) -> str | None:
    """The value of an option in a command line; None if it does not have it."""
    words = words_of(command)
    for i, word in enumerate(words):
        if word == option:
            return next(iter(words[i + 1 :]), None)
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def recorded_release(found: Failed) -> str | None:
    """The release of Iceberg that the run had; the newest one if the plan does not say.

    Raises:
        BadArgument: it was a jar of the user's.
    """
    if "iceberg-jar" in found.versions:
        raise BadArgument(
            f"{found.folder.plan}: the run had a runtime jar of your own; give its path, or a release, with --iceberg"
        )
    said = found.versions.get("iceberg", "unknown")
    return said if said[:1].isdigit() else None
