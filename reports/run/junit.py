"""JUnit XML for CI servers: one test case for each checker.

The schema is Jenkins' (junit-10.xsd). A violated checker is a failure, unless the workload expects or allows all that it found; an
unknown one is skipped (with the reason); a run that did not reach its end or was never checked is an error of the case ``run``.
"""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from xml.etree import ElementTree as ET

from checkers.costs import figures
from checkers.evidence.runfolder import replace_file
from checkers.verdict import Verdict
from reports.drawing import words
from reports.run import banner, stored
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


def _case(suite: ET.Element, name: str, run: Stored) -> ET.Element:
    return ET.SubElement(
        suite, "testcase", name=words.printable(name), classname=words.printable(f"icequake.{run.workload}"), time="0"
    )


def _put(case: ET.Element, tag: str, message: str, text: str = "", type: str | None = None) -> None:
    attributes = {"message": words.printable(words.shorten(message, 500))}
    if type is not None:
        attributes["type"] = words.printable(words.shorten(type, 200))
    ET.SubElement(case, tag, attributes).text = words.printable(text)


def render(run_folder: Path | Stored) -> str:
    """The XML of the run in ``run_folder``.

    Raises:
        FileNotFoundError: the folder does not exist. Anything missing or broken in it becomes an error of the case
        ``run``.
    """
    run = stored.of(run_folder)
    verdict = banner.banner(run)
    seconds = f"{run.end_ns / 1e9:.3f}"
    root = ET.Element("testsuites", name="icequake", time=seconds)
    suite = ET.SubElement(root, "testsuite", name=words.printable(f"icequake.{run.workload}"), time=seconds)
    if run.started is not None:
        at = run.started if run.started.tzinfo is None else run.started.astimezone(UTC)
        suite.set("timestamp", at.strftime("%Y-%m-%dT%H:%M:%S"))
    total = figures.tally("all", run.operations)
    properties = ET.SubElement(suite, "properties")
    for key, value in (
        ("verdict", verdict.headline),
        ("seed", run.plan.seed),
        ("command", run.command),
        ("operations", total.count),
        ("ok", total.ok),
        ("fail", total.fail),
        ("info", total.info),
    ):
        if value is not None:
            ET.SubElement(properties, "property", name=key, value=words.printable(str(value)))
    failures = errors = skipped = 0
    case = _case(suite, "run", run)
    case.set("time", seconds)
    if not run.complete or run.results is None:
        errors += 1
        _put(case, "error", f"{verdict.headline}: {verdict.sentence}", "\n".join(run.problems), "incomplete")
    elif run.valid is False and not any(v.valid is False for v in run.verdicts):
        failures += 1
        _put(case, "failure", verdict.sentence, "\n".join(run.problems), "verdict")
    said = [*run.notes, *(f"{a.key}: {a}" for a in run.accepted.swallowed(run.anomalies))]
    if said:
        ET.SubElement(case, "system-out").text = words.printable("\n".join(said))
    for v in run.verdicts:
        case = _case(suite, v.checker, run)
        fails = v.valid is False and not (v.anomalies and all(map(run.mark, v.anomalies)))
        if fails:
            failures += 1
            names = stored.anomaly_names(v.anomalies)
            message = ", ".join(f"{name} ×{n}" for name, n in names.items()) or "violated"
            if unmet := unmet_expectations(v.anomalies):
                message = f"expected {', '.join(unmet)}, not seen"
            _put(case, "failure", message, _explained(v, run), " ".join(names) or "violated")
        elif v.valid == "unknown":
            skipped += 1
            _put(case, "skipped", "unknown: " + ("; ".join(v.notes) or "no reason given"))
        if not fails and (v.anomalies or v.notes):
            text = "\n".join(filter(None, (_explained(v, run), *v.notes)))
            ET.SubElement(case, "system-out").text = words.printable(text)
    counts = {"tests": str(len(run.verdicts) + 1), "failures": str(failures), "errors": str(errors)}
    for element in (root, suite):
        for key, count in counts.items():
            element.set(key, count)
    suite.set("skipped", str(skipped))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def write(run_folder: Path | Stored) -> Path:
    """Save :func:`render` as ``junit.xml`` in the folder and return its path."""
    run = stored.of(run_folder)
    path = run.folder / "junit.xml"
    replace_file(path, render(run))
    return path
