"""From the folders of runs into the lake: one run after it is judged, or all that a store has."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.evidence import runfolder
from checkers.evidence.evidence import Evidence
from checkers.evidence.lenient import mapping, mappings
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder, mapping_in
from checkers.judge.proof import PROOF_WORDS
from checkers.judge.runfolder import Results, ScenarioOutcome, load_evidence
from checkers.lake.requests import requests_of
from checkers.lake.rows import Rows, RunContents, name_of, rows_of, started_of
from checkers.lake.tables import LAKE_TABLES, RUNS_TABLE
from checkers.nights import record
from checkers.nights.record import ROWS, RUNS
from checkers.verdict import Verdict
from harness.lake.errors import Collision
from harness.lake.lake import Lake, opened
from harness.lake.place import Place
from harness.lake.upkeep import Tended, tend
from reports.run.results import accepted_from_json
from workloads.file.opened import opened as opened_file
from workloads.tables import TableSpec

PARQUET = ".parquet"
RUNS_PER_COMMIT = 32
"""Runs that one commit of each table has when a store is added."""


def read(folder: RunFolder, evidence: Evidence | None = None) -> Rows:
    """The rows of a run's folder.

    Args:
        evidence: what the folder has, if that was read already.

    Raises:
        StoreError, HistoryError, TableLogError, NotARun, OSError: a file in it cannot be read.
    """
    if evidence is None:
        if (apart := rows_apart(folder.path)) is not None:
            return apart
        evidence = load_evidence(folder.path)
    plan = folder.read_plan()
    found = results_of(folder.results, plan.tables or (), complete=evidence.complete)
    stories = {} if found is None else known_stories(mapping_in(folder.results))
    contents = RunContents(folder.path, plan, folder.state(), evidence, found, requests_of(folder.proxy), stories)
    return rows_of(contents, datetime.now(UTC))


def results_of(path: Path, tables: Iterable[TableSpec], *, complete: bool) -> Results | None:
    """What a ``results.json`` says; None without one, or if it is not one: the run is not judged.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        with opened_file(path):
            pass  # what is there and cannot be read is not taken for none
        fields = mapping_in(path)
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(fields.get("checkers"), list):
        return None
    valid = fields.get("valid")
    results = Results(
        tuple(Verdict.from_json(v) for v in fields["checkers"] if isinstance(v, Mapping)),
        valid if isinstance(valid, bool) else "unknown",
        complete,
        accepted_from_json(fields, tables),
    )
    state: Any = mapping(fields.get("scenario")).get("state")
    return replace(results, scenario=ScenarioOutcome(state)) if state in PROOF_WORDS else results


def known_stories(results: Mapping[str, Any]) -> dict[tuple[str, int], str]:
    """Anomaly, by its checker and its place in that one's verdict → where the known defect is discussed that its story looks like, by a
    ``results.json``."""
    out: dict[tuple[str, int], str] = {}
    for story in mappings(results.get("stories")):
        link = next((str(k["link"]) for k in mappings(story.get("known")) if k.get("link")), None)
        places = said if isinstance(said := story.get("anomalies"), list) else []
        if link is not None:
            out |= {
                (str(p[0]), p[1]): link for p in places if isinstance(p, list) and len(p) == 2 and isinstance(p[1], int)
            }
    return out


def keep(place: Place, folder: RunFolder, evidence: Evidence | None = None) -> Tended:
    """Put a judged run into the lake, which is made if it is missing; then tend the lake, and return what came of that.

    Raises:
        LakeError: the lake cannot be written; the run is not in it.
        StoreError, HistoryError, TableLogError, NotARun, OSError: a file of the run cannot be read.
    """
    rows = read(folder, evidence)
    with opened(place, make=True) as lake:
        lake.add([rows])
        return tend(lake, rows["runs"]["day"].to_pylist())


def kept(
    place: Place, folder: RunFolder, evidence: Evidence, say: Callable[[str], object], rows: Path | None = None
) -> bool:
    """Put a judged run into the lake; if it cannot be written, say so, with the command that adds the run later. Whether it is in.

    A lake that could not be tended has the run all the same; what that met is said, too.

    Args:
        rows: a night's folder of rows. The night removes folders of runs, so what the lake did not take is kept there.
    """
    name = name_of(folder.path)
    try:
        tended = keep(place, folder, evidence)
    except Exception as e:  # whatever a broken file of the lake makes its readers raise: a run loses nothing by it
        of_night = rows is not None and keep_apart(rows, folder, evidence, say)
        adds = adding(place, rows.parent if rows is not None and of_night else folder.path)
        say(f"{name} is not in the lake: {e}; add it with: {adds}")
        return False
    for line in tended.ended:
        say(f"{name} is in the lake, but {line}")
    return True


def adding(place: Place, path: Path) -> str:
    """The command that adds a run or a night to a lake."""
    own = place.folder is None
    where = f"--lake {shlex.quote(place.name)}" if own else f"--store {shlex.quote(str(Path(place.name).parent))}"
    return f"icequake lake add {shlex.quote(str(path))} {where}"


def unusable(place: Place) -> str | None:
    """Why a lake takes no run now, such as that it was moved; None if it is there, or could be made."""
    try:
        with opened(place, make=True):
            return None
    except Exception as e:  # whatever a broken file of the lake makes its readers raise
        return str(e)


def keep_apart(place: Path, folder: RunFolder, evidence: Evidence, say: Callable[[str], object]) -> bool:
    """Keep the rows of a night's judged run in its folder ``place``, from which a lake takes them when the run's own is gone.

    Returns whether they are there. If that fails, it is said. A run of a shrink is none of the night's.
    """
    if folder.path.parent.parent != place.parent / "runs":
        return False
    into = place / name_of(folder.path)
    try:
        rows = read(folder, evidence)
        into.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place) as scratch:
            for name, table in rows.items():
                pq.write_table(table, Path(scratch) / f"{name}{PARQUET}", compression="zstd")
            Path(scratch).rename(into)  # a run that is there is there whole
            Path(scratch).mkdir()
    except Exception as e:  # whatever is wrong with it, the run loses nothing
        say(f"no lake can have {name_of(folder.path)} once its folder is gone: {e}")
        return False
    return True


def rows_apart(path: Path) -> Rows | None:
    """The rows that :func:`keep_apart` kept; None if the folder is another one."""
    if not (path / f"{RUNS_TABLE.name}{PARQUET}").is_file():
        return None
    rows = {t.name: pq.read_table(path / f"{t.name}{PARQUET}", schema=t.schema) for t in LAKE_TABLES}
    runs = rows[RUNS_TABLE.name]
    now = pa.array([datetime.now(UTC)] * runs.num_rows, runs.schema.field("added").type)
    index = runs.schema.get_field_index("added")
    return {**rows, RUNS_TABLE.name: runs.set_column(index, runs.schema.field(index), now)}


@dataclass
class AddResult:
    """What came of adding folders.

    Attributes:
        added: names of runs that were added.
        present: names of runs that were in the lake before.
        skipped: folder → why it cannot be added.
    """

    added: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    skipped: dict[Path, str] = field(default_factory=dict)


def folders_in(paths: Iterable[Path]) -> list[RunFolder]:
    """The runs that paths mean: stores, nights of a soak, and folders of runs; each once.

    Raises:
        StoreError: a path is neither.
    """
    found: dict[Path, RunFolder] = {}
    for path in paths:
        if not path.is_dir():
            raise runfolder.StoreError(f"{path}: no such folder; give stores, nights, or folders of runs")
        runs_here = (
            [runfolder.find(path)] if (path / "plan.yaml").exists() or (path / "history.jsonl").exists() else None
        )
        for run in runs_here or (_of_night(path) if is_night(path) else _resolved(path)):
            found.setdefault(run.path, run)
    return list(found.values())


def _resolved(path: Path) -> list[RunFolder]:
    return [RunFolder(r.path.resolve()) for r in runfolder.runs(path)]


def _of_night(night: Path) -> list[RunFolder]:
    """The runs of a night: those whose folders are there, then those of which it kept the rows alone."""
    runs = _resolved(night / "runs")
    names = {name_of(r.path) for r in runs}
    kept = (p.parent.resolve() for p in sorted((night / ROWS).glob(f"*/*/{RUNS_TABLE.name}{PARQUET}")))
    return [*runs, *(RunFolder(p) for p in kept if name_of(p) not in names)]


def is_night(folder: Path) -> bool:
    """Whether a folder is that of a soak's night, which keeps its runs in a folder of their own."""
    return (folder / RUNS).is_file()


def left_of_night(night: Path) -> tuple[int, int]:
    """Of a night's runs, how many a lake can have, and how many runs there were. Raises NightError."""
    return len(folders_in([night])), len(record.read(night)[1])


def add_all(
    lake: Lake,
    folders: Sequence[RunFolder],
    *,
    replace_rows: bool = False,
    say: Callable[[str], object] = lambda _: None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> AddResult:
    """Add the runs of folders that the lake does not have; a folder that is no run, or is broken, is said and skipped.

    Args:
        replace_rows: add those that it has, too: their rows are replaced.

    Raises:
        LakeError: the lake cannot be written.
    """
    adding, held = _Adding(lake, say), lake.held()
    days = set()
    for n, folder in enumerate(folders):
        progress(n, len(folders))
        name = name_of(folder.path)
        if name in held and not replace_rows and _same(folder, held[name].namespace):
            adding.out.present.append(name)
            continue
        if name in adding.names:
            adding.flush()
        if folder.state().get("state") == "running":
            adding.skip(folder, "it is still running")
            continue
        try:
            started_of(folder.path, folder.state())
            rows = read(folder)
        except Exception as e:  # whatever is wrong with one folder, the others are added
            adding.skip(folder, str(e) if isinstance(e, ValueError | OSError) else f"{type(e).__name__}: {e}")
            continue
        adding.add(folder, rows)
        days |= {*rows["runs"]["day"].to_pylist()}
    adding.flush()
    progress(len(folders), len(folders))
    for line in tend(lake, days).ended:
        say(line)
    return adding.out


class _Adding:
    """Runs on their way into a lake, several in a commit.

    Attributes:
        out: what became of the folders so far.
    """

    def __init__(self, lake: Lake, say: Callable[[str], object]) -> None:
        self._lake = lake
        self._say = say
        self._batch: list[tuple[RunFolder, Rows]] = []
        self.out = AddResult()

    @property
    def names(self) -> set[str]:
        """The runs that wait for the next commit."""
        return {name_of(folder.path) for folder, _ in self._batch}

    def add(self, folder: RunFolder, rows: Rows) -> None:
        """Add a run with the next commit."""
        self._batch.append((folder, rows))
        if len(self._batch) == RUNS_PER_COMMIT:
            self.flush()

    def skip(self, folder: RunFolder, why: str) -> None:
        """Say why a folder is not added."""
        self.out.skipped[folder.path] = why
        self._say(f"skipped {folder.path}: {why}")

    def flush(self) -> None:
        """Commit the runs that wait. If the commit collides with a run of the lake, each gets a commit of its own."""
        try:
            self._lake.add([rows for _, rows in self._batch])
            self.out.added += [name_of(folder.path) for folder, _ in self._batch]
        except Collision:  # of one of them
            for folder, rows in self._batch:
                try:
                    self._lake.add([rows])
                    self.out.added.append(name_of(folder.path))
                except Collision as e:
                    self.skip(folder, str(e))
        self._batch.clear()


def _same(folder: RunFolder, namespace: str | None) -> bool:
    """Whether the run that the lake has is this one, as far as its plan can be read."""
    try:
        apart = rows_apart(folder.path)
        own = folder.read_plan().namespace if apart is None else apart[RUNS_TABLE.name]["namespace"][0].as_py()
    except (runfolder.StoreError, OSError, ValueError):
        return False
    return not own or namespace is None or own == namespace
