"""JUnit XML for CI servers: one test case for each checker.

The schema is Jenkins' (junit-10.xsd). A violated checker is a failure, unless the workload expects or allows all that it found; an
unknown one is skipped (with the reason); a run that did not reach its end or was never checked is an error of the case ``run``.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

from checkers.costs import figures
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import replace_file
from checkers.verdict import Verdict
from reports.drawing import words
from reports.drawing.page import JUnitCase, JUnitSuite
from reports.drawing.render import JUNIT, junit
from reports.run import banner, stored, stories_view
from reports.run.results import unmet_expectations
from reports.run.stored import Stored

MOST_EXPLAINED = 20
MOST_TEXT = 2000


def _explained(v: Verdict, run: Stored) -> str:
    out = []
    for a in v.anomalies[:MOST_EXPLAINED]:
        mark = f" ({run.mark(a)})" if run.mark(a) else ""
        where = f" on {a.table}" if a.table else ""
        out.append(f"{a.name}{where}{mark}: {words.shorten(a.explanation, MOST_TEXT)}")
        if a.ops:
            out.append(f"  operations: {', '.join(a.ops[:20])}")
        if a.documented:
            out.append(f"  documented: {a.documented}")
    if len(v.anomalies) > MOST_EXPLAINED:
        out.append(
            f"and {words.plural(len(v.anomalies) - MOST_EXPLAINED, 'more anomaly', 'more anomalies')}, in results.json"
        )
    return "\n".join(out)


def suite(run: Stored) -> JUnitSuite:
    """A case for the run itself, then one for each checker."""
    total = figures.tally("all", run.operations)
    at = run.started
    return JUnitSuite(
        f"icequake.{run.workload}",
        run.end_ns / 1e9,
        {
            "verdict": banner.banner(run).headline,
            "anomalies": len(stories_view.counted_anomalies(run)),
            "who": stories_view.who(run) or None,
            "seed": run.plan.seed,
            "command": run.command,
            "operations": total.count,
            "ok": total.ok,
            "fail": total.fail,
            "info": total.info,
        },
        [_run(run), *(_checker(v, run) for v in run.verdicts)],
        at if at is None or at.tzinfo is None else at.astimezone(UTC),
    )


def _run(run: Stored) -> JUnitCase:
    """Whether the run reached its end and was checked."""
    verdict, problems = banner.banner(run), "\n".join(run.problems)
    told = [
        f"{s.headline}{f', on {s.table}' if s.table else ''}. {s.consequence} By {s.who}{f', which {s.how}' if s.how else ''}."
        for s in stories_view.unmarked(run)
    ]
    more = [f"and {words.plural(len(told) - MOST_EXPLAINED, 'more event')}"] if len(told) > MOST_EXPLAINED else []
    said = [
        *told[:MOST_EXPLAINED],
        *more,
        *run.notes,
        *(f"{a.key}: {a}" for a in run.accepted.swallowed(run.anomalies)),
    ]
    case = JUnitCase("run", out="\n".join(said), seconds=f"{run.end_ns / 1e9:.3f}")
    if not run.complete or run.results is None:
        message = f"{verdict.headline}: {verdict.sentence}"
        return replace(case, outcome="error", message=message, text=problems, type="incomplete")
    if run.valid is False and not any(v.valid is False for v in run.verdicts):
        return replace(case, outcome="failure", message=verdict.sentence, text=problems, type="verdict")
    return case


def _checker(v: Verdict, run: Stored) -> JUnitCase:
    """What a checker says; what the workload expects or allows does not fail it."""
    if v.valid is False and not (v.anomalies and all(map(run.mark, v.anomalies))):
        names = stored.anomaly_names(v.anomalies)
        message = ", ".join(f"{name} ×{n}" for name, n in names.items()) or "violated"
        if unmet := unmet_expectations(v.anomalies):
            if run.excused:
                return JUnitCase(v.checker, "skipped", run.did_not_come)
            message = f"expected {', '.join(unmet)}, not seen"
        return JUnitCase(v.checker, "failure", message, _explained(v, run), type=" ".join(names) or "violated")
    said = "\n".join(filter(None, (_explained(v, run), *v.notes)))
    if v.valid == "unknown":
        return JUnitCase(v.checker, "skipped", "unknown: " + ("; ".join(v.notes) or "no reason given"), out=said)
    return JUnitCase(v.checker, out=said)


def render(run_folder: Path | Stored) -> str:
    """The XML of the run in ``run_folder``.

    Raises:
        FileNotFoundError: the folder does not exist. Anything missing or broken in it becomes an error of the case
        ``run``.
    """
    return junit(suite(stored.of(run_folder)))


def write(run_folder: Path | Stored) -> Path:
    """Save :func:`render` as ``junit.xml`` in the folder and return its path."""
    run = stored.of(run_folder)
    path = run.folder / JUNIT
    replace_file(path, render(run))
    return path
