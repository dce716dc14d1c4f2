"""From a recording to a scenario file: its order of requests as ``after`` and ``hold``, its faults at the gates. Pure.

Which waits enforce the order, :mod:`harness.experiments.shrink.waits` says. A scenario cannot say all that a recording says: see
:class:`Untranslatable` for what none can say, and :attr:`Translation.inexact` for what this one does not.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from compose.catalogs import user_file
from harness.experiments import prove
from harness.experiments.shrink.candidates import NEMESIS, tables_of
from harness.experiments.shrink.reduction import Pass
from harness.experiments.shrink.waits import HoldPoint, OrderedRequest, Waits, When, waits
from harness.run import ordering
from nemesis.faults.fault import Fault
from nemesis.faults.lengths import WRITTEN
from nemesis.faults.verb import AfterService, Delaying, RequestVerb, Throttling
from nemesis.order.moment import Moment
from reports.drawing.words import arguments
from workloads.engines.engines import SPARK
from workloads.file import own_kinds
from workloads.file.anomalies import Entries
from workloads.file.recording import RecordedFault, RecordedOperation, Recording
from workloads.file.scenario import AT_A_GATE, ExpectedEnd, Scenario, ScenarioStep, problems
from workloads.file.workload import BackoffSpec
from workloads.operations.kinds import KINDS

MOST_WRITERS, MOST_OPERATIONS, MOST_TABLES = 8, 50, 8
"""What a scenario may have."""


class Untranslatable(ValueError):
    """No scenario can say what the recording says; the message says what."""


@dataclass(frozen=True, slots=True)
class About:
    """What a scenario file says beside its operations: see :class:`workloads.file.scenario.Scenario`.

    Attributes:
        ends: operation of the recording → how it ended.
    """

    name: str
    headline: str
    link: str
    affected: str
    anomalies: Entries
    allow: Entries
    final: Mapping[str, Any]
    ends: Mapping[str, ExpectedEnd]
    description: str = ""
    remedy: str = ""
    seen: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Translation:
    """A scenario with the order of a recording.

    Attributes:
        names: operation of the recording → its name in the scenario.
        inexact: what of the recording the scenario does not say, one sentence each.
    """

    scenario: Scenario
    names: Mapping[str, str]
    inexact: tuple[str, ...] = ()


def translate(r: Recording, about: About) -> Translation:
    """The recording as a scenario with all waits that its order needs.

    Raises:
        Untranslatable: a scenario cannot say it.
    """
    _possible(r)
    names = step_names(r)
    inexact: list[str] = []
    gates: dict[str, HoldPoint] = {}
    faults: dict[str, Fault] = {}
    struck: dict[str, Moment] = {}
    killed: dict[str, Moment] = {}
    for f in r.faults:
        _gate_of(r, f, names, gates, faults, struck, killed, inexact)
    asked = asked_of(r)
    found = waits({o.op: o.writer for o in r.operations}, asked, gates)
    for i, k in found.lost:
        inexact.append(
            f"that {_request(r.order[i], names)} came before {_request(r.order[k], names)} is left to chance: "
            "a scenario holds each operation at one request only"
        )
    moments = struck | killed
    moments |= {op: _own(r, op)[gate.nth] for op, gate in found.gates.items() if op not in moments}
    steps = [
        _step(o, r, names, found, moments.get(o.op), faults.get(o.op), o.op in killed, about) for o in r.operations
    ]
    engines = {n: name for n, name in enumerate(r.workload.engines) if name != SPARK}
    scenario = Scenario.model_validate(
        {
            "scenario": about.name,
            "headline": about.headline,
            "description": about.description or story(r, steps),
            "link": about.link,
            "affected": about.affected,
            "remedy": about.remedy,
            "catalog": catalog_of(r),
            "catalog_properties": {k: v for k, v in r.workload.catalog_properties.items() if (k, v) not in _patient()},
            "tables": r.workload.tables,
            "engines": {n: e for n, e in engines.items() if any(s["writer"] == n for s in steps)},
            "operations": steps,
            "anomalies": about.anomalies,
            "allow": about.allow,
            "final": about.final,
            "op_timeout": r.workload.op_timeout,
            "seen": dict(about.seen),
        }
    )
    return Translation(scenario, names, tuple(dict.fromkeys(inexact)))


def catalog_of(r: Recording) -> str:
    """The catalog as a scenario file names it: of a user's own one the absolute path of its file."""
    name = r.workload.catalog
    return os.path.abspath(name) if user_file.is_file(name) else name


def _patient() -> set[tuple[str, str]]:
    """The catalog properties that `prove` and a replay set by themselves."""
    both = (prove.CLIENTS_WAIT_S, ordering.CLIENTS_WAIT_S)
    return {pair for seconds in both for pair in ordering.patience(seconds).items()}


def _possible(r: Recording) -> None:
    """Raises Untranslatable if a scenario has no place for something that the recording has."""
    w = r.workload
    writers = 1 + max((o.writer for o in r.operations), default=0)
    for has, most, what in (
        (writers, MOST_WRITERS, "writers"),
        (len(r.operations), MOST_OPERATIONS, "operations"),
        (len(w.tables), MOST_TABLES, "tables"),
    ):
        if has > most:
            raise Untranslatable(f"a scenario has at most {most} {what}, and {has} are left")
    if w.clocks:
        raise Untranslatable("a scenario does not set the clocks of writers")
    if w.swap_latency:
        raise Untranslatable("a scenario has no swap_latency")
    if w.backoff != BackoffSpec():
        raise Untranslatable(f"a scenario has no backoff, and the writers need {w.backoff.policy}")
    if w.seed_own_keys:
        raise Untranslatable("a scenario does not fill tables with rows of own keys")
    for o in r.operations:
        if o.f not in KINDS or o.f in own_kinds.origins([o.f]):
            raise Untranslatable(f"a scenario knows icequake's own operations only, not {o.f}")


def _gate_of(
    r: Recording,
    f: RecordedFault,
    names: Mapping[str, str],
    gates: dict[str, HoldPoint],
    faults: dict[str, Fault],
    struck: dict[str, Moment],
    killed: dict[str, Moment],
    inexact: list[str],
) -> None:
    """Put a fault at the gates of the operations that it struck."""
    verb = f.fault.action
    if isinstance(verb, Delaying | Throttling):
        inexact.append(f"{f.fault.name}: the scenario does not make requests slow, it only keeps their order")
        return
    if f.fault.verb == "maintain":
        return  # its operation is a step like any other
    if f.fault.verb == "kill" and f.fault.target == "driver" and f.target is not None:
        op, gate, moment = _killed(r, f)
        gates[op], killed[op] = gate, moment
        return
    if f.fault.verb not in AT_A_GATE or not f.struck:
        raise Untranslatable(f"a scenario has no {f.fault.name}: it strikes single requests, and kills writers")
    assert isinstance(verb, RequestVerb)
    for moment in f.struck:
        if moment.op in gates:
            inexact.append(f"{f.fault.name} of {_request(moment, names)} is left out: a step has one fault")
            continue
        own = _own(r, moment.op)
        places = [i for i, m in enumerate(own) if m == moment]
        if not places:  # it is no load and no commit: its place among them is not known
            before = 0 if moment.kind != "commit" else len(own)
            gates[moment.op] = HoldPoint(before, carried_out=False)
        else:
            late = verb.answers_first
            gates[moment.op] = HoldPoint(places[-1], isinstance(verb, AfterService), late and len(places) > 1)
        faults[moment.op] = at_a_gate(f.fault)
        struck[moment.op] = moment


def _killed(r: Recording, f: RecordedFault) -> tuple[str, HoldPoint, Moment]:
    """The operation that died with its writer's driver, where it is held, and the request that it is held at."""
    struck = re.match(r"w(\d+)", str(f.target))
    if struck is None:
        raise Untranslatable(f"nobody knows whose driver {f.target} is")
    writer = int(struck[1])
    upto = len(r.order) if f.after is None else max((i for i, m in enumerate(r.order) if m == f.after), default=-1) + 1
    ops = [o.op for o in r.operations if o.writer == writer]
    begun = [op for op in ops if any(m.op == op for m in r.order[:upto])]
    if not ops:
        raise Untranslatable(f"nobody knows which operation {f.fault.name} struck")
    op = (begun or ops[:1])[-1]
    own = _own(r, op)
    passed = sum(m.op == op for m in r.order[:upto])
    if passed < len(own):
        return op, HoldPoint(passed), own[passed]
    commits = sum(m.kind == "commit" for m in own)
    return op, HoldPoint(passed), Moment(op, "catalog", "commit", commits + 1)


def at_a_gate(fault: Fault) -> Fault:
    """A fault as a step has it: what it does, without when and to whom."""
    fields = fault.plain()
    keys = {"verb", *fault.action.fields, *(fault.model_extra or {})} - ({"seconds"} if fault.verb == "late" else set())
    return Fault.model_validate({k: v for k, v in fields.items() if k in keys})


def asked_of(r: Recording) -> list[OrderedRequest]:
    """The order of a recording as the waits see it. Loads that come after an operation's last commit change nothing any more, and
    concern no table."""
    tables = {o.op: frozenset(tables_of(o)) for o in r.operations}
    commits = {m.op: i for i, m in enumerate(r.order) if m.kind == "commit"}
    struck = {m.op for f in r.faults for m in f.struck}
    out = []
    for i, m in enumerate(r.order):
        idle = m.kind != "commit" and m.op not in struck and i > commits.get(m.op, len(r.order))
        out.append(OrderedRequest(m.op, frozenset() if idle else tables[m.op], m.kind == "commit"))
    return out


def _own(r: Recording, op: str) -> list[Moment]:
    """The requests of an operation, in their order."""
    return [m for m in r.order if m.op == op]


def step_names(r: Recording) -> dict[str, str]:
    """Operation → its name in the scenario: its kind, with a number where there are several."""
    total, seen = Counter(o.f for o in r.operations), Counter[str]()
    out = {}
    for o in r.operations:
        seen[o.f] += 1
        word = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "-" for c in o.f.lower())[:36]
        out[o.op] = word if total[o.f] == 1 else f"{word}-{seen[o.f]}"
    return out


def _step(
    o: RecordedOperation,
    r: Recording,
    names: Mapping[str, str],
    found: Waits,
    gate: Moment | None,
    fault: Fault | None,
    killed: bool,
    about: About,
) -> dict[str, Any]:
    def named(when: When | None) -> dict[str, str] | None:
        return None if when is None else {names[op]: moment for op, moment in when.items()}

    step: dict[str, Any] = {"name": names[o.op], "writer": o.writer, "do": o.f, "value": dict(o.value)}
    if len(r.workload.tables) > 1:
        step["table"] = o.table
    step |= {"after": named(found.after.get(o.op)), "hold": named(found.hold.get(o.op)), "kill": killed}
    if fault is not None:
        step["fault"] = fault
    if gate is not None:
        step |= {"at": gate.kind, "nth": gate.nth, "service": gate.service}
    if o.op in about.ends:
        step["expect"] = about.ends[o.op]
    return step


def _request(m: Moment, names: Mapping[str, str]) -> str:
    place = "" if m.service == "catalog" else f" to the {m.service}"
    return f"{m.kind} {m.nth}{place} of {names[m.op]}"


def story(r: Recording, steps: Sequence[Mapping[str, Any] | ScenarioStep]) -> str:
    """What the steps of a scenario do, one sentence each."""
    lines = []
    for raw in steps:
        s = (
            raw
            if isinstance(raw, ScenarioStep)
            else ScenarioStep.model_validate({k: v for k, v in raw.items() if v is not None})
        )
        nemesis = " (maintenance)" if any(o.writer == s.writer and o.phase == NEMESIS for o in r.operations) else ""
        text = f"Writer {s.writer}{nemesis} invokes {s.name}"
        text += f" of {arguments(dict(s.value))}" if s.value else ""
        text += f" on {s.table}" if s.table else ""
        waits = sentence(s)
        lines.append(text + ("" if not waits else f" {waits}" if waits.startswith("after ") else f"; {waits}") + ".")
    return " ".join(lines)


def sentence(s: ScenarioStep) -> str:
    """What a step waits for and what strikes it, in words; empty if there is nothing."""
    parts = [f"after {_when(s.after)}"] if s.after else []
    if s.gated:
        what = f"its {s.at} {s.nth}" if s.nth > 1 or s.at != "commit" else f"its {s.at}"
        what += f" is held until {_when(s.hold)}" if s.hold else ""
        struck = [f"is struck by {s.fault.verb}"] if s.fault else []
        struck += ["its writer is killed there"] if s.kill else []
        parts.append(f"{what} {'and ' if s.hold and struck else ''}{' and '.join(struck)}".rstrip())
    return "; ".join(parts)


def _when(when: Mapping[str, str] | None) -> str:
    words = {"held": "has come to its gate", "completed": "has completed"}
    return " and ".join(f"{name} {words[moment]}" for name, moment in (when or {}).items())


# -- fewer waits -----------------------------------------------------------------------------------------------------


def conditions(s: Scenario) -> Sequence[Hashable]:
    """The waits of a scenario, each by step, key and the step that is waited for."""
    return [
        (step.name, key, other)
        for step in s.operations
        for key, when in (("after", step.after), ("hold", step.hold))
        for other in when or {}
    ]


def without_conditions(s: Scenario, removed: Collection[Hashable]) -> Scenario | None:
    """The scenario without some of its waits; None if it then waits for what never comes, or makes no sense."""
    steps = []
    for step in s.operations:
        rest = {
            key: {o: m for o, m in (when or {}).items() if (step.name, key, o) not in removed} or None
            for key, when in (("after", step.after), ("hold", step.hold))
        }
        changed = step.model_copy(update=rest)
        if not changed.gated:
            changed = changed.model_copy(update={"at": "commit", "nth": 1, "service": "catalog"})
        steps.append(changed)
    fewer = s.model_copy(update={"operations": tuple(steps)})
    return None if any(problems(fewer)) else fewer


def opposite(s: Scenario, condition: Hashable) -> Scenario | None:
    """A scenario in which a step no longer waits for another one, and the other one begins when it has completed; None if it cannot run.

    A scenario without a wait can be reproduced because chance keeps the order all the same. In this one chance cannot.
    """
    assert isinstance(condition, tuple)
    name, _, other = condition
    without = without_conditions(s, [condition]) if condition in conditions(s) else s
    if without is None:
        free = [c for c in conditions(s) if isinstance(c, tuple) and {c[0], c[2]} == {name, other}]
        without = without_conditions(s, free)
    if without is None:
        return None
    steps = tuple(
        step.model_copy(update={"after": {**(step.after or {}), name: "completed"}}) if step.name == other else step
        for step in without.operations
    )
    turned = without.model_copy(update={"operations": steps})
    return None if any(problems(turned)) else turned


CONDITIONS: Pass[Scenario] = Pass("condition", conditions, without_conditions)


def described(s: Scenario, r: Recording) -> Scenario:
    """The scenario with a description of the steps that it has now."""
    return s.model_copy(update={"description": story(r, s.operations)})


# -- the file --------------------------------------------------------------------------------------------------------


def to_yaml(s: Scenario, comments: Sequence[str] = ()) -> str:
    """The text of the scenario file: a step a line, without what is the default. ``comments`` stand above it."""
    fields = s.model_dump(mode="json", exclude_defaults=True, context={WRITTEN: True})
    lines = [f"# {line}" for line in comments]
    for key, value in fields.items():
        if key in ("tables", "operations"):
            lines += [f"{key}:", *(f"  - {_flow(item)}" for item in value)]
        elif isinstance(value, dict):
            lines.append(f"{key}: {_flow({str(k): v for k, v in value.items()})}")
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**9)
    return text.removesuffix("\n").removesuffix("\n...").rstrip()
