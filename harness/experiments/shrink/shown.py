"""What is shown of a shrink, and its scenario file."""

from __future__ import annotations

import contextlib
from pathlib import Path

from checkers.evidence.runfolder import replace_file
from checkers.judge.check import ALL, check
from checkers.judge.known import of_scenario
from checkers.judge.runfolder import load_evidence, load_promises, load_ran
from harness.campaign.errors import TOLD
from harness.experiments.shrink.candidates import NEMESIS, measure
from harness.experiments.shrink.shrink import Failed, RecordedScenario, Shrink, told_of
from harness.experiments.shrink.translate import (
    Translation,
    sentence,
    to_yaml,
)
from reports.shrunk import RemainingOperation, Shrunk, WhatIsLeft
from workloads.file.recording import FILE as RECORDING
from workloads.file.recording import Recording

SCENARIO = "scenario.yaml"


def described_operations(r: Recording, found: RecordedScenario) -> tuple[RemainingOperation, ...]:
    """The operations that are left, with what they wait for in the scenario if there is one."""
    steps = {} if found.translation is None else {s.name: s for s in found.translation.scenario.operations}
    names = {} if found.translation is None else found.translation.names
    out = []
    for o in r.operations:
        step = steps.get(names.get(o.op, ""))
        struck = [f"{f.fault.name} strikes {m.kind} {m.nth}" for f in r.faults for m in f.struck if m.op == o.op]
        waits = sentence(step) if step is not None else "; ".join(struck)
        ended = "" if step is None else step.expect.type + (f" ({step.expect.error})" if step.expect.error else "")
        kind = f"{o.f} (of the nemesis)" if o.phase == NEMESIS else o.f
        out.append(
            RemainingOperation(o.op, names.get(o.op, o.op), o.writer, kind, o.table, dict(o.value), waits, ended)
        )
    return tuple(out)


def shrunk(
    s: Shrink,
    recording: Recording | None,
    minimal: bool | None,
    found: RecordedScenario,
    *,
    proves: str,
    replays: str,
    goes_on: str,
) -> Shrunk:
    """Everything of a shrink that is shown; writes its scenario file.

    Args:
        proves: the command that runs the scenario file; ``replays``: the recording.
    """
    run = s.run
    replayed = None
    not_said = [*found.not_said]
    text = ""
    if recording is not None and found.translation is None:
        replayed = s.replayed(recording)
    if found.translation is not None:
        text = _scenario_text(run, found.translation)
        replace_file(s.into / SCENARIO, text)
        not_said += found.translation.inexact
    shown = None if recording is None else s.rare.shown if s.rare is not None else s.shown(recording)
    what = WhatIsLeft(run.found[0].explanation)
    best = None
    if shown is not None and shown.folder is not None:
        best = shown.folder
        with contextlib.suppress(*TOLD):
            what = _left(s.into / best, run) or what
    return Shrunk(
        run=str(run.folder.path),
        workload=run.recording.workload.workload,
        catalog=run.recording.catalog,
        versions=dict(run.versions),
        anomaly=run.name,
        explanation=what.explanation,
        known=what.known,
        documented=run.found[0].documented,
        before=measure(run.recording),
        after=None if recording is None else measure(recording),
        operations=() if recording is None else described_operations(recording, found),
        steps=s.steps,
        minimal=minimal,
        runs=len(s.trials),
        seconds=round(sum(t.seconds for t in s.trials), 1),
        replayed=None if replayed is None else str(replayed),
        scenario=SCENARIO if found.translation is not None else None,
        reproduced=str(found.tries) if found.translation is not None and found.tries.runs else None,
        waits=found.waits,
        waits_needed=found.waits_needed,
        not_said=tuple(not_said),
        recording=RECORDING if recording is not None else None,
        best=best,
        command=proves if found.translation is not None else replays,
        goes_on=goes_on,
        text=text,
        rate=None if s.rare is None else s.rare.rate,
    )


def _scenario_text(run: Failed, found: Translation) -> str:
    name = f"{run.folder.path.parent.name}/{run.folder.path.name}"
    comment = [f"Found by {name} and reduced by icequake shrink", f"from {measure(run.recording)}."]
    return to_yaml(found.scenario, comment)


def _left(folder: Path, run: Failed) -> WhatIsLeft | None:
    """The anomaly in a smaller run, whose operations and rows are fewer: what is in no known story first."""
    evidence = load_evidence(folder)
    results = check(evidence, ALL, load_promises(folder), ran=load_ran(folder))
    told = told_of(results)
    own = [(a, s.known if (s := told.get(id(a))) else ()) for a in results.anomalies if a.name == run.name]
    if not own:
        return None
    a, known = min(own, key=lambda found: bool(found[1]))
    if of_scenario(run.recording.workload.workload) is not None or results.told.problem:
        return WhatIsLeft(a.explanation)
    return WhatIsLeft(a.explanation, tuple(k.scenario for k in known))
