"""JUnit XML of a night for CI servers: one test case for each cell.

A new anomaly is a failure. A cell whose runs were all errors is an error. A cell without a run, or with undecided runs, is skipped, with
the reason. What is known stands in ``system-out``.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from checkers.evidence.runfolder import replace_file
from checkers.nights.night import Night
from reports.drawing import words
from reports.soak import words as soakwords

FILE = "junit.xml"
MOST = 20
"""Runs that one case names."""


def render(night: Night, again: str) -> str:
    """The XML. ``again``: the command that continues the night."""
    seconds = f"{night.used:.3f}"
    root = ET.Element("testsuites", name="icequake", time=seconds)
    suite = ET.SubElement(root, "testsuite", name=f"icequake.soak.{night.suite.suite}", time=seconds)
    properties = ET.SubElement(suite, "properties")
    b = soakwords.banner(night)
    for key, value in (("verdict", b.headline), ("seed", night.seed), ("command", again), ("runs", len(night.runs))):
        ET.SubElement(properties, "property", name=key, value=words.printable(str(value)))
    failures = errors = skipped = 0
    for cell in (*night.cells, *night.left_out):
        name = words.printable(cell.name)
        mine = night.by_cell.get(cell, [])
        took = f"{sum(x.took for x in mine):.3f}"
        case = ET.SubElement(suite, "testcase", name=name, classname=f"icequake.soak.{night.suite.suite}", time=took)
        counts = night.counts(cell)
        told = [text for x in mine if (text := soakwords.line_of(night, x)) is not None][:MOST]
        worst = night.worst(cell)
        if cell in night.left_out:
            skipped += 1
            _put(case, "skipped", f"cannot run: {night.left_out[cell]}")
        elif worst == "new":
            failures += 1
            names: dict[str, int] = {}
            for x in mine:
                for anomaly, n in night.new_of(x).items():
                    names[anomaly] = names.get(anomaly, 0) + n
            told += [soakwords.find_of(f) for x in mine for f in soakwords.finds_of(night, x)]
            _put(case, "failure", f"{soakwords.tally(names)} in {counts['new']} of {len(mine)} runs", "\n".join(told))
            told = []
        elif counts["error"] and counts["error"] == len(mine):
            errors += 1
            _put(case, "error", next((x.reason for x in mine if x.reason), "no reason given"), "\n".join(told))
            told = []
        elif worst == "not run":
            skipped += 1
            _put(case, "skipped", "the night ended before its turn")
        elif worst in ("unknown", "error") and not counts["valid"]:
            skipped += 1
            _put(case, "skipped", f"unknown: {next((x.reason for x in mine if x.reason), 'no reason given')}")
        if told:
            ET.SubElement(case, "system-out").text = words.printable("\n".join(told))
    total = {"tests": len(night.cells) + len(night.left_out), "failures": failures, "errors": errors}
    for element in (root, suite):
        for key, count in total.items():
            element.set(key, str(count))
    suite.set("skipped", str(skipped))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _put(case: ET.Element, tag: str, message: str, text: str = "") -> None:
    ET.SubElement(case, tag, message=words.printable(words.shorten(message, 500))).text = words.printable(text)


def write(night: Night, again: str) -> Path:
    """Save :func:`render` in the night's folder; return its path."""
    path = night.folder / FILE
    replace_file(path, render(night, again))
    return path
