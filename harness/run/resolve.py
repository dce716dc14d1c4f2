"""Workload and scenario files with every name in them looked up, including those of catalogs and anomalies.

``workloads.file.workload`` and ``workloads.file.scenario`` know the names of operations, tables and faults. The names of catalogs and of
anomalies are known to ``compose`` and ``checkers``, which stand above those files. So these are looked up here, and all problems of
a file are reported together.

The command line can change what a file says. A clock or a fault of a writer that ``--writers`` removed would do nothing, so the
names of a changed workload are looked up again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from checkers.judge.accepted import unknown_entries
from checkers.judge.known import of_link
from compose.catalogs import user_file
from compose.catalogs.registry import CATALOGS
from compose.install import releases
from compose.install.own_jar import OwnJarError
from harness.run.reach import unreachable
from harness.run.versions import cannot_commit, cannot_run
from workloads.file import defect as defects
from workloads.file import experiment, scenario, workload_text
from workloads.file import suite as suites
from workloads.file import workload as schema
from workloads.file.anomalies import entries_of, tables_problems
from workloads.file.changes import Changes
from workloads.file.defect import Defect
from workloads.file.experiment import Experiment
from workloads.file.meant import unknown
from workloads.file.scenario import Scenario
from workloads.file.suite import MOST_CELLS, Cell, Suite
from workloads.file.workload import Workload
from workloads.file.yamlfile import FileError, KeyPath, Lines, Problem, entries, line_of, read_text, refuse

OR_OWN_FILE = ", or a file of your own, my.yaml"


@dataclass(frozen=True)
class WorkloadFile:
    """A workload file after reading it.

    Attributes:
        workload: its content; the path of its catalog file is relative to the current folder, not to the workload file's.
        lines: the line of every key.
        path: where it is.
    """

    workload: Workload
    lines: Lines
    path: Path

    def changed(self, workload: Workload, options: str) -> Workload:
        """The file with its workload replaced by ``workload``, which command-line ``options`` changed.

        Raises:
            WorkloadError: something in the file does not fit the options.
        """
        wrong = workload_text.problems(workload)
        refuse(((key, f"with {options}: {message}") for key, message in wrong), self.lines, str(self.path))
        return workload

    def with_(self, changes: Changes) -> Workload:
        """The workload with what a command line changes. Raises ChangeError, WorkloadError: an option is wrong, or does not fit the file."""
        return self.changed(changes.on(self.workload), str(changes))


Warn = Callable[[str], object]
"""Called with one line about a file that is used nevertheless."""


def _unheard(line: str) -> None:
    pass


def read_experiment(path: Path, warn: Warn = _unheard) -> tuple[WorkloadFile, Experiment]:
    """Read an experiment file, which may be a workload file, and look up every name in it.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    text = read_text(path)
    found, lines = workload_text.shape_of(
        Experiment, text, str(path), lambda data: _names_in(data, "expect", OR_OWN_FILE)
    )
    file = _looked_up(found.plain(), lines, path, warn)
    wrong = [*experiment.problems(found)]
    for i, name in enumerate(found.catalogs):
        wrong += [(("catalogs", i), message) for _, message in _unknown_catalog(name, OR_OWN_FILE)]
    refuse(wrong, lines, str(path))
    return file, found


def read_workload(path: Path, warn: Warn = _unheard) -> WorkloadFile:
    """Read a workload file and look up every name in it.

    Args:
        warn: called with each doubt about the file, such as a table property that Iceberg does not know.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    text = read_text(path)
    if experiment.is_experiment(text):
        raise schema.WorkloadError(f"{path}: an experiment, not a workload; `icequake sweep {path}` runs it")
    workload, lines = workload_text.shape(text, str(path), lambda data: _names_in(data, "expect", OR_OWN_FILE))
    return _looked_up(workload, lines, path, warn)


def _looked_up(workload: Workload, lines: Lines, path: Path, warn: Warn) -> WorkloadFile:
    own = user_file.is_file(workload.catalog)
    catalog = _absent_file(path.parent / workload.catalog) if own else _unknown_catalog(workload.catalog, OR_OWN_FILE)
    anomalies = (*unknown_entries("expect", workload.expect), *unknown_entries("allow", workload.allow))
    refuse([*workload_text.problems(workload), *catalog, *anomalies], lines, str(path))
    _warn_of(workload_text.property_doubts(workload.tables), lines, path, warn)
    if own:
        workload = workload.model_copy(update={"catalog": _beside(path, workload.catalog)})
    return WorkloadFile(workload, lines, path)


def read_defect(path: Path, warn: Warn = _unheard) -> Defect:
    """Read a defect file and look up every name in it.

    Args:
        warn: as for :func:`read_workload`.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    found, lines = defects.shape(read_text(path), str(path), lambda data: _names_in(data, "found"))
    wrong = [*defects.problems(found), *unknown_entries("found", found.found)]
    wrong += [*unknown_entries("expect", found.expect), *unknown_entries("allow", found.allow)]
    if found.defect != path.stem:
        wrong.append((("defect",), f"defect: must be {path.stem}, as the file is called, not {found.defect}"))
    try:
        release = releases.find(found.iceberg)
        reason = cannot_run(release, found) or cannot_commit(found)
    except (releases.UnknownRelease, OwnJarError) as e:
        reason = str(e)
    if reason is not None:
        wrong.append((("iceberg",), f"iceberg: {reason}"))
    catalog = [*_unknown_catalog(found.catalog)]
    if not catalog and (missing := unreachable(found.engines, found.catalog)) is not None:
        wrong.append((("catalog",), f"catalog: {missing}"))
    refuse([*wrong, *catalog], lines, str(path))
    _warn_of(workload_text.property_doubts(found.tables), lines, path, warn)
    return found


def read_scenario(path: Path, warn: Warn = _unheard) -> Scenario:
    """Read a scenario file and look up every name in it.

    Args:
        warn: as for :func:`read_workload`.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    found, lines = scenario.shape(read_text(path), str(path), lambda data: _names_in(data, "anomalies", OR_OWN_FILE))
    anomalies = (*unknown_entries("anomalies", found.anomalies), *unknown_entries("allow", found.allow))
    own = user_file.is_file(found.catalog)
    catalog = _absent_file(path.parent / found.catalog) if own else _unknown_catalog(found.catalog, OR_OWN_FILE)
    refuse([*scenario.problems(found), *catalog, *anomalies], lines, str(path))
    _warn_of(workload_text.property_doubts(found.tables), lines, path, warn)
    return found.model_copy(update={"catalog": _beside(path, found.catalog)}) if own else found


def _beside(path: Path, name: str) -> str:
    """The path of a file that another one names, relative to the current folder."""
    return os.path.normpath(path.parent / name)


@dataclass(frozen=True)
class SuiteFile:
    """A suite file after reading it.

    Attributes:
        files: name of a workload → its file.
        workloads: cell → what its runs do, in the order of the file's lists.
        left_out: cells that cannot run, and why.
        catalogs: a user's own catalog, as the file names it → the path of its file.
    """

    suite: Suite
    path: Path
    files: Mapping[str, Path]
    workloads: Mapping[Cell, Workload]
    left_out: Mapping[Cell, str]
    catalogs: Mapping[str, str] = field(default_factory=dict)

    def catalog_of(self, cell: Cell) -> str:
        """The catalog of a cell; of a user's own one the path of its file."""
        return self.catalogs.get(cell.catalog, cell.catalog)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that can run."""
        return tuple(self.workloads)


def read_suite(path: Path, warn: Warn = _unheard) -> SuiteFile:
    """Read a suite file and the workload files that it names, and look up every name in them.

    Args:
        warn: as for :func:`read_workload`.

    Raises:
        WorkloadError: one cannot be read, or something in it is wrong, or no cell can run.
    """
    suite, lines = suites.parse(read_text(path), str(path), partial(_nameless, path))
    files, read, wrong = _workloads_of(suite, path, warn)
    own, wrong_catalogs = _catalogs_of(suite, path)
    wrong = [*suites.wrong_names(suite), *wrong, *wrong_catalogs]
    wrong += [
        p for i, number in enumerate(suite.cells.iceberg) for p in _wrong_release(("cells", "iceberg", i), number)
    ]
    tables = sorted({t.name for file in read.values() for t in file.workload.tables})
    for i, known in enumerate(suite.known):
        for place, message in (
            *unknown_entries("anomaly", known.anomaly),
            *tables_problems("anomaly", known.anomaly, tables),
        ):
            wrong.append((("known", i, *place), message))
    refuse(wrong, lines, str(path))
    for text in _incomplete(suite):
        warn(f"{path}: {text}")
    cells = suites.cells_of(suite, releases.DEFAULT.iceberg)
    if not cells:
        refuse([(("cells",), "cells: only and exclude leave none")], lines, str(path))
    if len(cells) > MOST_CELLS:
        refuse([(("cells",), f"cells: {len(cells)} are too many; at most {MOST_CELLS}")], lines, str(path))
    workloads: dict[Cell, Workload] = {}
    left_out: dict[Cell, str] = {}
    for cell in cells:
        try:
            workload = suites.workload_of(read[cell.workload].workload, cell, suite.length)
            if cell.catalog in own:
                workload = workload.model_copy(update={"catalog": own[cell.catalog]})
            if (reason := _cannot(workload, cell)) is not None:
                left_out[cell] = reason
            else:
                workloads[replace(cell, **workload.mode.given)] = workload
        except ValueError as e:
            left_out[cell] = str(e)
    if not workloads:
        why = ": ".join(next((c.name, r) for c, r in left_out.items()))
        refuse([(("cells",), f"cells: none can run; {why}")], lines, str(path))
    return SuiteFile(suite, path, files, workloads, left_out, own)


def _incomplete(suite: Suite) -> Iterator[str]:
    """Which entries of ``known`` name only a part of what the defects of the library with the same link show, a sentence each."""
    for i, known in enumerate(suite.known):
        named = {e.name for e in known.anomaly}
        listed = {e.name for other in suite.known if other.link == known.link for e in other.anomaly}
        lacking = [(sorted({*d.anomalies} - listed), d) for d in of_link(known.link) if named & {*d.anomalies}]
        if lacking and all(names for names, _ in lacking):
            names, defect = min(lacking, key=lambda found: len(found[0]))
            yield (
                f"known.{i}: {known.name}: the scenario {defect.scenario}, which has the same link, also shows {', '.join(names)}; an event "
                "that shows what no entry names is new, and fails the night"
            )


def _workloads_of(
    suite: Suite, path: Path, warn: Warn
) -> tuple[dict[str, Path], dict[str, WorkloadFile], list[Problem]]:
    """The files of a suite's workloads, what they say, and what is wrong with them."""
    files: dict[str, Path] = {}
    read: dict[str, WorkloadFile] = {}
    wrong: list[Problem] = []
    for i, word in enumerate(suite.cells.workloads):
        key: KeyPath = ("cells", "workloads", i)
        try:
            found = suites.workload_path(word, path)
            if (name := Path(word).stem) in files and files[name] != found:
                wrong.append((key, f"workloads: {found} and {files[name]} have one name; rename one of the files"))
            files[name], read[name] = found, read_workload(found, warn)
        except schema.WorkloadError as e:
            wrong += [(key, f"workloads: {line}") for line in str(e).splitlines()]
    return files, read, wrong


def _catalogs_of(suite: Suite, path: Path) -> tuple[dict[str, str], list[Problem]]:
    """The paths of the user's own catalogs in a suite, and what is wrong with its catalogs."""
    own: dict[str, str] = {}
    wrong: list[Problem] = []
    for i, name in enumerate(suite.cells.catalogs):
        key: KeyPath = ("cells", "catalogs", i)
        if user_file.is_file(name):
            own[name] = _beside(path, name)
            wrong += [(key, f"catalogs: {m}") for m in _own_problems(Path(own[name]))]
        elif name not in CATALOGS:
            wrong.append((key, f"catalogs: {unknown('catalog', name, CATALOGS)}{OR_OWN_FILE}"))
    return own, wrong


def _nameless(path: Path, data: Any) -> Iterator[Problem]:
    """Workloads, catalogs, releases and anomalies in the plain data of the suite file ``path`` that do not exist, whatever else is wrong."""
    for key, name in entries(data, "cells", "workloads", "*"):
        try:
            suites.workload_path(str(name), path)
        except schema.WorkloadError as e:
            yield key, f"workloads: {e}"
    for key, name in entries(data, "cells", "catalogs", "*"):
        if not user_file.is_file(str(name)) and name not in CATALOGS:
            yield key, f"catalogs: {unknown('catalog', name, CATALOGS)}{OR_OWN_FILE}"

    for key, number in entries(data, "cells", "iceberg", "*"):
        yield from _wrong_release(key, str(number))
    for key, name in entries(data, "known", "*", "anomaly"):
        with suppress(ValidationError):  # said with the other wrong values
            named = entries_of(*(name if isinstance(name, list) else [name]))
            yield from (((*key, *place[1:]), message) for place, message in unknown_entries("anomaly", named))


def _wrong_release(key: KeyPath, number: str) -> Iterator[Problem]:
    try:
        releases.find(number)
    except (releases.UnknownRelease, OwnJarError) as e:
        yield key, f"iceberg: {e}"


def _own_problems(path: Path) -> list[str]:
    """What is wrong with the file of a user's own catalog, a line each."""
    if not path.is_file():
        return [f"{path} does not exist; give the path of a catalog file relative to this file"]
    try:
        user_file.load(path)
    except FileError as e:
        return str(e).splitlines()
    return []


def _cannot(workload: Workload, cell: Cell) -> str | None:
    """Why a cell cannot run; None if it can."""
    release = releases.find(cell.iceberg)
    if (reason := cannot_run(release, workload)) is not None:
        return f"Iceberg {release.label}: {reason}"
    return cannot_commit(workload) or unreachable(workload.engines, workload.catalog)


def _names_in(data: Any, anomalies: str, more: str = "") -> Iterator[Problem]:
    """Catalogs and anomalies in the plain data of a file that mean nothing; ``anomalies``: the key, beside ``allow``, of the latter."""
    for _, name in entries(data, "catalog"):
        if isinstance(name, str) and not user_file.is_file(name):
            yield from _unknown_catalog(name, more)
    for key in (anomalies, "allow"):
        for _, names in entries(data, key):
            with suppress(ValidationError):  # said with the other wrong values
                yield from unknown_entries(key, entries_of(*names) if isinstance(names, list) else ())


def _warn_of(doubts: Iterable[Problem], lines: Lines, path: Path, warn: Warn) -> None:
    for key, message in doubts:
        warn(f"{path}:{line_of(key, lines)}: {message}")


def _absent_file(path: Path) -> Iterator[Problem]:
    if not path.is_file():
        yield ("catalog",), f"catalog: {path} does not exist; give the path of a catalog file relative to this file"


def _unknown_catalog(name: str, more: str = "") -> Iterator[Problem]:
    """``more``: what is allowed besides the name of a catalog."""
    if name not in CATALOGS:
        yield ("catalog",), f"{unknown('catalog', name, CATALOGS)}{more}"
