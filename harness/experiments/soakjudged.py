"""What stays of a run of a night once it is judged: its line, the columns of its tables, and what it exercised."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from checkers.columns.dataset import write as write_columns
from checkers.columns.frames import frame_of
from checkers.columns.hashing import Unordinary
from checkers.costs import measures
from checkers.coverage.coverage import of_folder
from checkers.coverage.ledger import Ledger, name_of
from checkers.evidence.evidence import Evidence
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge import stories
from checkers.judge.known import unlike
from checkers.judge.runfolder import load_ran
from checkers.nights import record
from checkers.nights.happened import happened
from checkers.nights.record import Ended, NightRun
from checkers.timeline.sql import sql_of
from checkers.timeline.timelines import timelines
from harness.campaign.errors import dispensable
from harness.run.judged import JudgedRun
from reports.run import load_view


def judged_line(line: NightRun, folder: RunFolder, judged: JudgedRun[object]) -> NightRun:
    """The line with what the checkers say. A run that was cut short is an error, unless it certainly shows an anomaly."""
    results, evidence = judged.results, judged.evidence
    operations = {o.op: o for o in evidence.history.operations()}
    order = {op: o.start for op, o in operations.items()}
    ran = load_ran(folder.path)
    measured = measures.measure(evidence, results, measures.requests(folder.proxy))
    seen, versions = record.failing(results), dict(folder.read_plan().versions)

    def why(story: stories.Story) -> str:
        beside = [a for v in results.verdicts for a in v.anomalies if a.table == story.table]
        return unlike(ran, stories.anomalies_of(story, results.verdicts), evidence, beside)

    def asked(op: str) -> str:
        return "; ".join(sql_of(operations[op], evidence.tables)) if op in operations else ""

    unaccepted = stories.unaccepted(results.told.stories, results.verdicts, results.accepted.mark)
    ended: Ended = "unknown" if results.valid == "unknown" else "valid" if results.valid else "invalid"
    if ended != "invalid" and (line.reason is not None or not results.complete):
        ended = "error"
    reason = line.reason
    if ended == "unknown":
        reason = next(
            (f"{v.checker}: {v.notes[0]}" for v in results.verdicts if v.valid == "unknown" and v.notes), None
        )
    if ended == "error" and reason is None:
        reason = f"the run is {folder.state().get('state')}"
    return replace(
        line,
        ended=ended,
        reason=reason,
        anomalies=record.tally(seen),
        seen=seen,
        headline=stories.headline(unaccepted),
        who=stories.who_words(unaccepted),
        happened=happened(unaccepted, results.told.stories, versions, line.cell.catalog, why, order, asked),
        versions=versions,
        untested=tuple(load_view.idle(results.verdicts)),
        operations=measured.operations,
        commits=measured.commits,
        figures=record.figures_of(measured),
        seconds=measured.seconds,
    )


def keep_coverage(book: Ledger, folder: RunFolder, evidence: Evidence, say: Callable[[str], None]) -> None:
    """Add what a run exercised to the night's coverage; without it nothing is missing but a figure."""
    with dispensable(f"the coverage of {folder.path.name} is not kept", say):
        book.append(name_of(folder.path), of_folder(folder.path, evidence))


def keep_columns(place: Path, folder: RunFolder, evidence: Evidence, say: Callable[[str], None]) -> None:
    """Keep the columns of the tables of a valid run that have some; without them nothing is missing but a second judgement."""
    frames = []
    with dispensable(f"the columns of {folder.path.name} are not kept", say):
        for t in timelines(evidence)[0]:
            with contextlib.suppress(Unordinary):
                frames.append((folder.path.name, frame_of(t)))
        if frames:
            path = place / folder.path.name
            path.mkdir(parents=True)
            write_columns(frames, path)
