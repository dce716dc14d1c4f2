"""``icequake model``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.command import Options
from harness.cli.options import DEFAULT_STORE, PATH, BadArgument, ForceOption, StoreOption, check_folder, write_output

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Sequence

    from checkers.formats.iceberg.model.lanes import Found
    from checkers.formats.iceberg.model.logtree import Bound, Explored, Log
    from checkers.formats.iceberg.model.ways import Faulty, Way, WaySearchResult
    from workloads.file.modelled import Modelled


REPLAYED_WITH = {"iceberg-1.8": "1.8.1", "iceberg-1.10": "1.10.1"}
"""Rule set of a model → the release with which its counterexamples are replayed; the newest one otherwise."""


_KEPT = 8
"""Letters of a model's name that are in the name of its scenarios at least: the longest anomaly of a model has 23, and what is cut 6 to 9."""
_OF_HASH = 4


def _ours(path: Path) -> bool:
    """Whether a file is empty or a scenario that the model wrote."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "a folder"
    return not text or any(f"\ndescription: 'A {what} of the model: " in text for what in ("log", "way"))


@dataclass(frozen=True)
class ModelOptions(Options):
    """Explore a model of Iceberg's commits: does any order of these operations break a promise?

    Exit code 0: each model found what its file expects, and nothing else, and with --replay real Spark confirmed it; 1: one did not.

    With --accept, stored runs are judged instead: did Iceberg's validations let through each of their commits, and give each abort?
    """

    short = "Explore all orders of commits."

    names: Annotated[
        list[str] | None,
        typer.Argument(help="Models of the library, or files; the whole library by default.", show_default=False),
        PATH,
    ] = None
    scenarios: Annotated[
        Path | None,
        typer.Option(help="Write each counterexample as a scenario file into this folder, for `icequake prove`."),
    ] = None
    replay: Annotated[
        bool, typer.Option("--replay", help="Run each counterexample on real Spark: is it confirmed or refuted?")
    ] = False
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="With --scenarios or --replay: one for every mix of operations, not the shortest only."
        ),
    ] = False
    draw: Annotated[
        int,
        typer.Option(
            min=0,
            help="Also replay so many random valid logs with refused operations, to check that Spark agrees with the model.",
        ),
    ] = 0
    seed: Annotated[int, typer.Option(help="Seed of --draw.")] = 0
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="Search in so many processes; by default one for each core.", show_default=False),
    ] = None
    page: Annotated[
        bool, typer.Option("--page", help="Also draw each counterexample on a page, as lanes, in the store.")
    ] = False
    store: StoreOption = DEFAULT_STORE
    force: ForceOption = False

    accept: Annotated[
        list[Path] | None,
        typer.Option(help="Instead, judge these runs, or all in these folders, by the rules of the model."),
    ] = None

    def takes(self) -> float:
        from harness.cli.estimates import MODEL_S

        return MODEL_S * len(self._models)  # what --replay takes, `prove` says when it begins

    def prepare(self) -> None:
        if self.accept is not None and (self.names or self.scenarios is not None or self.replay):
            raise BadArgument(
                "--accept judges stored runs: name no model with it, and neither --scenarios nor --replay"
            )
        if (self.every or self.draw) and self._folder is None:
            option = "--all" if self.every else "--draw"
            raise BadArgument(f"{option} says which logs become scenarios: add --scenarios FOLDER or --replay")
        if self._folder is not None:
            check_folder("--store" if self.scenarios is None else "--scenarios", self._folder)
            for path in () if self.force else sorted(self._folder.glob("*.yaml")):
                if any(m.model[:_KEPT] in path.stem for m in self._models) and not _ours(path):
                    raise BadArgument(
                        f"--scenarios {self._folder}: {path} may get the name of a counterexample, and the model did not write it; "
                        "give another folder, or replace it with --force"
                    )
        _ = self._models

    @cached_property
    def _models(self) -> list[Modelled]:
        from workloads.file import modelled

        return list(modelled.find(self.names or []))

    def execute(self) -> int:
        if self.accept is not None:
            return _accept(self.accept)
        from checkers.formats.iceberg.model.lanes import of_log, of_way

        if len(self._models) > 1:
            typer.echo(f"icequake: {len(self._models)} models, {self.how_long}", err=True)
        as_expected, of_release = True, dict[str | None, list[Path]]()
        for m in self._models:
            if m.catalog is not None:
                faulty, found_ways, lines, expected = _step_by_step(m)
                as_expected = as_expected and expected
                if self.page:
                    self._draw(
                        m,
                        [of_way(name, way, faulty.operations()) for name, way in sorted(found_ways.found.items())],
                        lines,
                    )
                if self._folder is not None:
                    of_release.setdefault(None, []).extend(
                        _ways_written(m, faulty, found_ways, self._folder, self.every)
                    )
                continue
            bound = bound_of(m)
            found = _explored(m, bound, self.processes)
            wrong = _wrong(m, bound, found)
            as_expected = as_expected and not wrong
            typer.echo(f"{m.model}: {m.question}")
            for line in (*_lines(found), *wrong):
                typer.echo(f"  {line}")
            if self.page:
                self._draw(m, [of_log(name, log) for name, log in sorted(found.found.items())], _lines(found))
            if self._folder is not None:
                written = of_release.setdefault(REPLAYED_WITH.get(m.engine), [])
                written += _written(m, bound, found, self._folder, self.every)
                written += _drawn(m, bound, self.draw, self.seed, self._folder)
        for release, paths in of_release.items():
            if self.replay and paths:
                as_expected = self._replayed(paths, release) and as_expected
        return 0 if as_expected else 1

    def _draw(self, m: Modelled, found: Sequence[Found], lines: Sequence[str]) -> None:
        """Write a model's page, and say where it is."""
        from checkers.formats.iceberg.model.lanes import told
        from reports import clients
        from reports.drawing import render

        verdict, history = told(m.model, m.isolation, found, [m.question, *lines])
        folder = self.store / "models" / m.model
        folder.mkdir(parents=True, exist_ok=True)
        page = render.write(clients.of(m.model, verdict, history), folder)
        typer.echo(f"  page  {page}")

    @property
    def _folder(self) -> Path | None:
        """Where scenarios are written; None: nowhere."""
        return self.scenarios if self.scenarios is not None or not self.replay else self.store / "models"

    def _replayed(self, scenarios: list[Path], release: str | None) -> bool:
        """Run the scenarios on Spark, with a release of Iceberg or the newest one. Whether each showed what the model says."""
        from harness.cli.experiments import ProveOptions

        names = [str(p) for p in scenarios]
        return not ProveOptions(names=names, iceberg=release, store=self.store, quiet=len(scenarios) > 3).execute()


def _explored(m: Modelled, bound: Bound, processes: int | None) -> Explored:
    """Search, and say on standard error how far it is."""
    from checkers.formats.iceberg.model.search import SearchProgress, search, usable_cores
    from harness.cli.terminal import Voice

    with Voice(unit="logs") as voice:
        due = 0.0

        def tell(progress: SearchProgress) -> None:
            nonlocal due
            if progress.seconds >= due:
                due = progress.seconds + voice.live_every
                voice.live(f"{m.model}: {progress}")

        return search(bound, processes or usable_cores(), tell)


def _accept(paths: list[Path]) -> int:
    """A line for each run that is not accepted, and what all were held to; 1 if there is any that is refused."""
    from checkers.evidence import runfolder
    from checkers.formats.iceberg.model.accept import AcceptedCommits, Runs
    from checkers.judge.check import verdict_of
    from checkers.judge.runfolder import load_evidence

    found = Runs()
    for folder in (run for path in paths for run in runfolder.below(path)):
        try:
            verdict = verdict_of(AcceptedCommits(), load_evidence(folder.path))
        except ValueError as e:  # a run that ended before its first operation, or of an unknown format
            typer.echo(f"{folder.path}: not judged: {e}")
            continue
        found.add(verdict)
        for sentence in (*verdict.notes, *(f"{a.name}: {a.explanation}" for a in verdict.anomalies)):
            typer.echo(f"{folder.path}: {sentence}")
    for line in found.lines():
        typer.echo(line)
    return int(found.refused > 0 or not found.judged)


def _step_by_step(m: Modelled) -> tuple[Faulty, WaySearchResult, list[str], bool]:
    """Search with a catalog and its faults, and say what was found. The search, its result, that in lines, and whether it is as expected."""
    from checkers.formats.iceberg.model import faults, transactions
    from checkers.formats.iceberg.model.catalogs import MODEL_CATALOGS
    from checkers.formats.iceberg.model.ways import Faulty
    from harness.cli.terminal import Voice

    assert m.catalog is not None
    catalog = MODEL_CATALOGS[m.catalog]
    only = frozenset(m.only) or None
    search = faults.search if catalog.together is None else transactions.search
    faulty = Faulty(bound_of(m), catalog, m.writers, m.retries, m.faults, only, m.repeats)
    with Voice(unit="states") as voice:
        found = search(
            faulty, lambda states, depth, seconds: voice.live(_so_far(m, states, depth, seconds)), voice.live_every
        )
    wrong = _wrong_steps(m, faulty, found)
    typer.echo(f"{m.model}: {m.question}")
    lines = [f"{found.states:,} states, at most {found.depth} steps, in {found.seconds:.1f} s of processor time"]
    lines.append(f"{m.catalog}: {catalog.source}")
    lines += [f"{name}: " + "; ".join(map(str, steps)) for name, steps in sorted(found.found.items())]
    if not found.found:
        lines.append("every promise holds")
    counted: dict[str, Counter[Any]] = {"began": found.began, "steps": found.fired, "faults": found.faults}
    if catalog.together is None:  # a transfer is held to requirements, and to no validation
        counted["refused by"] = found.refused
    for what, counts in counted.items():
        lines.append(f"{what}: " + (", ".join(f"{name} {n:,}" for name, n in counts.most_common()) or "none"))
    for line in (*lines, *wrong):
        typer.echo(f"  {line}")
    return faulty, found, lines, not wrong


def _so_far(m: Modelled, states: int, depth: int, seconds: float) -> str:
    return f"{m.model}: {states:,} states, {states / seconds:,.0f} a second, {depth} steps deep"


def _wrong_steps(m: Modelled, faulty: Faulty, found: WaySearchResult) -> list[str]:
    """What of a search step by step is not as the file expects, or did not happen at all."""
    from checkers.formats.iceberg.model.logtree import rules_of

    transactions = faulty.catalog.together is not None
    after = faulty.catalog.after
    wanted = [] if not m.faults else [f for f in after if faulty.only is None or f in faulty.only]
    wrong = [f"NOT EXPECTED: {name}" for name in sorted({*found.found} - {*m.expect})]
    wrong += [f"NOT FOUND: {name}" for name in m.expect if name not in found.found]
    idle: list[str] = [f for f in wanted if not found.faults[f]]
    wrong += [f"NEVER CAME: {f}: the answer says nothing of it; raise the bound, or leave it out of only" for f in idle]
    wrong += [f"NO FAULT OF THIS CATALOG: {f}" for f in m.only if f not in after]
    rules = [r for r in (() if transactions else rules_of(faulty.bound)) if r not in (*found.refused, *m.never)]
    wrong += [
        f"NEVER FIRED: {r}: the answer says nothing of it; raise the bound, or list it under never" for r in rules
    ]
    return wrong + [
        f"NEVER BEGAN: {kind}: leave it out, or raise the bound" for kind in m.kinds if not found.began[kind]
    ]


def bound_of(m: Modelled) -> Bound:
    """What a file asks to be explored."""
    from checkers.formats.iceberg.model.logtree import Bound
    from workloads.file.modelled import modes_of

    return Bound(
        tuple((kind, mode) for kind, modes in m.kinds.items() for mode in modes_of(kind, modes)),
        m.writes,
        m.compactions,
        m.keys,
        m.partitions,
        m.isolation == "serializable",
        m.format_version,
        frozenset(m.without),
        m.upkeep,
        m.compares,
        m.engine,
    )


def _lines(found: Explored) -> list[str]:
    """What the search found, and how much there was to find it in."""
    from checkers.formats.iceberg.model.scenario import steps_text

    out = [f"{found.logs:,} logs of commits in {found.seconds:.1f} s of processor time"]
    out += ["every promise holds"] if not found.found else []
    for name, log in sorted(found.found.items()):
        out.append(f"{name}: " + "; ".join(steps_text(log)))
    committed = ", ".join(f"{kind} {times:,}" for kind, times in found.committed.most_common())
    refused = ", ".join(f"{rule} {times:,}" for rule, times in found.fired.most_common())
    return [*out, f"committed: {committed or 'nothing'}", f"refused by: {refused or 'nothing'}"]


def _wrong(m: Modelled, bound: Bound, found: Explored) -> list[str]:
    """What is not as the file expects."""
    from checkers.formats.iceberg.model.search import rules_of

    out = [f"NOT EXPECTED: {name}" for name in sorted({*found.found} - {*m.expect})]
    out += [f"NOT FOUND: {name}" for name in m.expect if name not in found.found]
    idle = [r for r in rules_of(bound) if r not in (*found.fired, *m.never)]
    out += [f"NEVER FIRED: {r}: the answer says nothing of it; raise the bound, or list it under never" for r in idle]
    out += [f"FIRED: {r}, which the file lists under never" for r in m.never if r in found.fired]
    idle_kinds = [kind for kind in m.kinds if kind not in found.committed]
    return out + [f"NEVER COMMITTED: {kind}: leave it out, or raise the bound" for kind in idle_kinds]


def _written(m: Modelled, bound: Bound, found: Explored, folder: Path, every: bool) -> list[Path]:
    """Write each counterexample as a scenario, and say so."""
    from checkers.formats.iceberg.model.scenario import scenario, steps_text
    from checkers.formats.iceberg.model.search import table_after

    def text(name: str, log: Log) -> Callable[[str], tuple[str, str]]:
        return lambda called: scenario(bound, log, name, table_after(bound, log), called)

    logs = found.each() if every else sorted(found.found.items())
    return _files(m, [(name, "; ".join(steps_text(log)), text(name, log)) for name, log in logs], folder, every)


def _ways_written(m: Modelled, faulty: Faulty, found: WaySearchResult, folder: Path, every: bool) -> list[Path]:
    """The same of a search step by step."""
    from checkers.formats.iceberg.model.scenario import of_way
    from checkers.formats.iceberg.model.transactions import of_transfers

    text_of = of_way if faulty.catalog.together is None else of_transfers

    def text(name: str, way: Way) -> Callable[[str], tuple[str, str]]:
        return lambda called: text_of(faulty, called, name, way)

    ways = [(name, way) for name, _, way in found.mixes] if every else sorted(found.found.items())
    return _files(m, [(name, "; ".join(map(str, way)), text(name, way)) for name, way in ways], folder, every)


def _called(name: str, number: str = "") -> str:
    """The name of a scenario. One that is too long is cut and gets letters of its hash, since models share their first words."""
    from workloads.file.scenario import MOST_NAME

    if len(name + number) > MOST_NAME:
        own = f"-{sha256(name.encode()).hexdigest()[:_OF_HASH]}{number}"
        return name[: MOST_NAME - len(own)].rstrip("-") + own
    return name + number


def _files(
    m: Modelled, found: Sequence[tuple[str, str, Callable[[str], tuple[str, str]]]], folder: Path, every: bool
) -> list[Path]:
    """Write the scenarios of anomalies, each with its words."""
    out = []
    for n, (name, words, text_of) in enumerate(found):
        number = f"-{n}" if every else ""
        called = _called(f"{name}-{m.model}", number)
        text, why = text_of(called)
        if not text:
            typer.echo(f"  {name} cannot be written as a scenario: {why}" + (f": {words}" if every else ""))
            continue
        path = folder / f"{called}.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        write_output(path, text)
        typer.echo(f"  icequake prove {path}" + (f"  {words}" if every else ""))
        out.append(path)
    return out


def _drawn(m: Modelled, bound: Bound, number: int, seed: int, folder: Path) -> list[Path]:
    """Write so many drawn logs as scenarios."""
    from random import Random

    from checkers.formats.iceberg.model.draw import draw
    from checkers.formats.iceberg.model.scenario import scenario

    out = []
    for n in range(number):
        log, refused, final = draw(bound, Random(f"{seed} {m.model} {n}"))
        called = _called(m.model, f"-drawn-{seed}-{n}")
        text, why = scenario(bound, log, None, final, called, refused)
        if not text:
            typer.echo(f"  {called} cannot be written as a scenario: {why}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        write_output(folder / f"{called}.yaml", text)
        out.append(folder / f"{called}.yaml")
    if out:
        typer.echo(f"  {len(out)} drawn logs: icequake prove {folder}/{m.model}-drawn-*.yaml")
    return out
