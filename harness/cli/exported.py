"""``icequake export``: a run's history for other tools, or for ``icequake check`` on another machine; or what a project's maintainers need."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from checkers.clients import derived, jepsen
from checkers.clients.models import TABLES_KEY
from checkers.evidence import history, runfolder
from checkers.evidence.lenient import mapping, mappings
from checkers.evidence.plan import Plan
from checkers.evidence.runfolder import RunFolder
from checkers.judge.proof import PLANNED, shows
from checkers.judge.runfolder import load_evidence
from checkers.nights import finds
from checkers.verdict import Anomaly, Verdict, own_findings
from compose.catalogs.registry import CATALOGS
from harness.cli.options import BadArgument, anywhere, command, run_in
from harness.experiments.shrink.shrink import ANOTHER
from harness.run.errors import RunError
from harness.run.recorded import workload_of
from nemesis.faults.lengths import WRITTEN
from reports.drawing.words import plural
from reports.reproduction.exportable import export_line, form_of
from reports.reproduction.issue import issue, seen_of
from reports.reproduction.runissue import run_issue
from reports.reproduction.script import FIXED, script
from reports.run import stored, stories_view
from workloads.file import scenario as scenarios
from workloads.file.order import FREE
from workloads.file.scenario import Scenario

NOT_SHOWN = "this run did not show it"
SCRIPT, ISSUE = "script", "issue"
SCENARIOS = (SCRIPT, ISSUE)
"""The forms of a scenario; the others are forms of a run's history."""


def exported(folder: RunFolder, form: str | None, key: str | None, say: Callable[[str], object]) -> str:
    """The text of the file.

    Args:
        form: one of ``derived.FORMS``; None: the history itself, with the run's tables in its header.
        key: the only key of the form ``register``.
        say: told what the file shows of the run, and what it leaves out.

    Raises:
        DerivedError: there is no such form or key, or the run has nothing of the form.
        HistoryError, TableLogError: the run cannot be read.
    """
    if form is None:
        if key is not None:
            raise derived.DerivedError(f"--key {key}: give --as {derived.REGISTER} with it")
        events = history.read(folder.history)
        tables = [t.model_dump(mode="json", exclude_defaults=True) for t in folder.read_plan().tables or ()]
        return jepsen.to_edn(history.History({**events.header, TABLES_KEY: tables}, events.events, events.problems))
    if form in SCENARIOS:
        raise derived.DerivedError(f"--key {key}: give --as {derived.REGISTER} with it")
    found = derived.derive(load_evidence(folder.path), form, key)
    shown, total = found.operations
    keys = len(found.keys) if key is None else 1
    say(f"{shown} of {total} operations, {plural(keys, 'key')}")
    for text in found.left_out:
        say(f"left out: {text}")
    if form == derived.REGISTER:
        say(
            "Knossos' model: cas-register"
            + ("; values are [key value]: one key alone with --key" if key is None else "")
        )
    else:
        say(f"Elle's consistency model: {found.level}; for icequake check: --level {found.level}")
    return jepsen.to_edn(found.history, header=False)


def reproduction(store: Path, what: Path | None, form: str, say: Callable[[str], object], name: str = "") -> str:
    """The script or the issue of a scenario, or of the scenario that a run is of; of the run of a workload the issue alone.

    Args:
        say: told that what a script shows did not come in the run.
        name: of the script's file, without its ending; empty: the scenario's.

    Raises:
        BadArgument: a script of the run of a workload; an issue would report what the run did not show.
        NotExportable: a script cannot show it.
        StoreError, WorkloadError: it does not exist, or cannot be read.
    """
    if what is not None and is_scenario(what):
        (found,) = scenarios.find([str(what)])
        return (
            script(found, name=name)
            if form == SCRIPT
            else issue(found, typed=None if what.parent == scenarios.LIBRARY else str(what), name=name)
        )
    folder = runfolder.find(run_in(store, what))
    plan = folder.read_plan()
    planned = (plan.model_extra or {}).get(PLANNED)
    if planned is None:
        if form == ISSUE:
            return _issue_of_workload(folder, plan)
        raise BadArgument(f"{folder.path} is the run of a workload, and a script shows a scenario; {_way(folder)}")
    found, versions = Scenario.model_validate(planned), dict(plan.versions or {})
    seen = _seen(folder)
    shown = shows(found, mapping(_results(folder).get("scenario")).get("state"), seen)
    if form == SCRIPT:
        if found.anomalies and not shown:
            say(
                f"{NOT_SHOWN}, so with its versions the script ends with NOT REPRODUCED (--expect {FIXED} wants that); for a script with a "
                f"release that shows it: {export_command(found, found.scenario)}"
            )
        return script(found, versions, name)
    if not shown:
        _judged(folder)
        raise BadArgument(f"{NOT_SHOWN}: nothing to report; export the scenario by its name, or a run that showed it")
    return issue(found, versions, str(folder.path), seen, name)


def _seen(folder: RunFolder) -> dict[str, str]:
    """Name of an anomaly → what was seen of the first one in a run's results; empty without them."""
    verdicts = map(Verdict.from_json, mappings(_results(folder).get("checkers")))
    return seen_of(a for v in verdicts for a in v.anomalies)


def _results(folder: RunFolder) -> dict[str, Any]:
    """A run's results; empty without them."""
    try:
        return mapping(json.loads(folder.results.read_bytes()))
    except (OSError, ValueError):
        return {}


def is_scenario(what: Path) -> bool:
    """Whether this is the name of a scenario, or of a file of one, and no run's folder."""
    return what.suffix == ".yaml" or (scenarios.LIBRARY / f"{what}.yaml").is_file()


def _judged(folder: RunFolder) -> None:
    """Raises BadArgument: nobody judged the run."""
    if not _results(folder):
        raise BadArgument(f"{folder.path} was not judged; judge it with: {command()} check {folder.path}")


def _way(folder: RunFolder) -> str:
    """What to do with the run of a workload, so that there is a script."""
    shrunk = f"reduce it to one with: {_shrinks(folder)}"
    results = _results(folder)
    if results.get("valid") is not True:
        return f"{shrunk}; or write the text for a tracker of the run itself: --as {ISSUE}"
    if allowed := _findings(folder):
        of_op = f" --op {shlex.quote(allowed[0].ops[0])}" if allowed[0].ops else ""
        return f"{shrunk} --anomaly {allowed[0].name}{of_op}"
    return (
        f"the run is valid, so there is nothing to reproduce: {ANOTHER}; or name a scenario (icequake list scenarios)"
    )


def _shrinks(folder: RunFolder) -> str:
    return f"{command()} shrink {shlex.quote(str(folder.path))}"


def _findings(folder: RunFolder) -> list[Anomaly]:
    """The anomalies that the results of a run have as its own."""
    verdicts = map(Verdict.from_json, mappings(_results(folder).get("checkers")))
    return own_findings([a for v in verdicts for a in v.anomalies])


def _issue_of_workload(folder: RunFolder, plan: Plan) -> str:
    """The issue of a failed run itself: its workload's file and seed instead of a few statements."""
    _judged(folder)
    if not _findings(folder):
        raise BadArgument(f"{folder.path}: no checker found an anomaly, so there is nothing to report: {ANOTHER}")
    run = stored.load(folder.path)  # with its own kinds of operations
    try:
        made = workload_of(plan, folder)
    except RunError as e:
        raise BadArgument(f"{e}, so nobody could make the run again from an issue") from None
    order = str((plan.model_extra or {}).get("order", FREE))
    if not order.startswith(
        (FREE, "replay")
    ):  # `free` only records, and what a replay names is a file of its user's disk
        made = made.model_copy(update={"order": order})
    workload = made.model_dump(mode="json", by_alias=True, exclude_defaults=True, context={WRITTEN: True})
    file = yaml.safe_dump(workload, sort_keys=False, allow_unicode=True, width=100)
    words = ["icequake", "run", f"{plan.workload}.yaml", "--seed", str(plan.seed or 0)]
    if version := plan.versions.get("iceberg"):
        words += ["--iceberg", "ICEBERG.jar" if "iceberg-jar" in plan.versions else version]
    words += [] if made.catalog in CATALOGS else ["--catalog", "CATALOG.yaml"]
    return run_issue(run, file, shlex.join(words), _not_small(folder, run))


def _not_small(folder: RunFolder, run: stored.Stored) -> str:
    """Why nothing smaller than a run shows what it found: what its night says of it, else what of the library is it, or that nobody tried."""
    tried = [f for f in finds.of_run(folder.path) if f.why_no_scenario]
    known = [k.scenario for shape in stories_view.shapes(run) for k in shape.told[0].story.known if k.scenario]
    if not tried and known:
        return f"`icequake export {known[0]} --as issue` is the same defect in a fixed order."
    if not tried:
        return "Nobody has made the run small; `icequake shrink` of its folder tries that."
    return " ".join(f"{f.anomaly} was {f.why_no_scenario.rstrip('.')}." for f in tried)


def export_command(scenario: Scenario, typed: str, spark: str = "") -> str:
    """The line that makes a script of a scenario, or the text for a tracker where it cannot be one.

    Args:
        typed: its name or file, or the folder of a run of it, whose release the script then has.
        spark: version of that run's Spark.
    """
    form, ending = form_of(scenario, spark)
    return export_line(anywhere(), typed, form, f"{scenario.scenario}.{ending}")
