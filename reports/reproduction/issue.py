"""A scenario as the text of an issue, in Markdown, for the tracker of the project whose code it is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reports.reproduction.expected import afterwards, ids_said
from reports.reproduction.exportable import why_not
from reports.reproduction.script import headline, pinned, release_for, statements_of, tables_of
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.scenario import Scenario, ScenarioStep


def issue(scenario: Scenario, versions: Mapping[str, str] | None = None) -> str:
    """The text.

    Args:
        versions: what a run of it had; None: what a script of it pins.
    """
    release = release_for(scenario)
    versions = versions or {"iceberg": release.iceberg, "spark": release.spark}
    parts = [f"# {headline(scenario)}", scenario.description, "## Versions", _versions(scenario, versions)]
    parts += ["## Affected", f"{_affected(scenario)}. See {scenario.link}"]
    parts += ["## Steps", "\n".join(_steps(scenario))]
    parts += ["## Expected", _expected(scenario), "## Actual", "\n".join(_actual(scenario))]
    parts += ["## Work-around", scenario.remedy] if scenario.remedy else []
    parts += ["## Reproduction", _reproduction(scenario)]
    return "\n\n".join(parts) + "\n"


def _affected(scenario: Scenario) -> str:
    """The affected releases, without the word that nobody has reported it: this is the report."""
    reports = "; ".join(part for part in scenario.affected.split("; ") if not part.startswith("no report"))
    return f"{reports[:1].upper()}{reports[1:]}"


def _versions(scenario: Scenario, versions: Mapping[str, str]) -> str:
    lines = [f"* Apache Iceberg {versions.get('iceberg', 'unknown')}, Apache Spark {versions.get('spark', 'unknown')}"]
    for name in sorted(set(scenario.by_writer) - {SPARK}):
        packages = [p for p in pinned(scenario) if p.startswith(name)]
        lines.append(f"* {getattr(ENGINES[name], 'title', name)}" + (f": {', '.join(packages)}" if packages else ""))
    return "\n".join([*lines, f"* catalog: {scenario.catalog}"])


def _steps(scenario: Scenario) -> Iterator[str]:
    yield "```sql"
    yield from (f"{sql};" for sql in tables_of(scenario))
    yield "```"
    yield ""
    for n, step in enumerate(scenario.operations, 1):
        engine = scenario.by_writer[step.writer]
        yield f"{n}. **{step.name}** (writer {step.writer}, {getattr(ENGINES[engine], 'title', 'Spark')}){_waits(step)}:"
        yield from (f"   `{sql}`" for sql in statements_of(scenario, step) or [f"{step.do} {step.value}"])


def _waits(step: ScenarioStep) -> str:
    """What a step waits for and what strikes it, in words that follow its name."""
    conditions = [f"begins when {_moments(step.after)}"] if step.after else []
    which = {"commit": "its commit", "load": "its load of the table"}.get(step.at, f"its {step.at} request")
    conditions += [f"{which} is held until {_moments(step.hold)}"] if step.hold else []
    if step.fault is not None:
        verb, status = step.fault.verb, step.fault.status or 503
        conditions.append(
            {
                "answer": f"the catalog applies the commit, and the writer is answered {status}",
                "reject": f"the catalog never gets the commit, and the writer is answered {status}",
                "late": f"the writer is answered {status}, and the catalog gets the commit afterwards",
                "duplicate": "the commit is sent twice, and the writer gets the second answer",
                "drop-reply": "the catalog applies the commit, and the connection breaks before the answer",
                "drop-request": "the connection breaks before the catalog gets the commit",
            }.get(verb, verb)
        )
    conditions += ["its process is killed then"] if step.kill else []
    return f", {'; '.join(conditions)}" if conditions else ""


def _moments(when: Mapping[str, str]) -> str:
    return " and ".join(f"{name} is {'held' if moment == 'held' else 'over'}" for name, moment in when.items())


def _expected(scenario: Scenario) -> str:
    legal = afterwards(scenario)
    if not legal:
        return "The acknowledged operations take effect, the refused ones do not, and the table and its metadata agree."
    expectations = [f"`{t}` has the ids {' or '.join(map(ids_said, found))}" for t, found in legal.items()]
    return f"{'; '.join(expectations)}: what the acknowledged operations leave, one after the other in any order."


def _actual(scenario: Scenario) -> Iterator[str]:
    for step in scenario.operations:
        if step.expect.type != "ok":
            what = f" with `{step.expect.error}`" if step.expect.error else ""
            message = f" ({step.expect.message})" if step.expect.message else ""
            yield f"* {step.name} {'fails' if step.expect.type == 'fail' else 'ends with an error that leaves it open'}{what}{message}"
    for table, rows in scenario.final.items():
        if rows == "unreadable":
            yield f"* nobody can read `{table}`"
        elif rows != "unchecked":
            yield f"* `{table}` has the ids {ids_said(rows)}"
    if scenario.anomalies:
        yield f"* found: {', '.join(f'`{a}`' for a in scenario.anomalies)}"


def _reproduction(scenario: Scenario) -> str:
    name = scenario.scenario
    if (why := why_not(scenario)) is not None:
        return f"`icequake prove {name}` shows it. It is no script of its own: {why}."
    made = (
        f"The attached script, made by `icequake export {name} --as script`, exits with 0 if it came as written here:"
    )
    return f"{made}\n\n```\npip install {' '.join(pinned(scenario))}\npython -I {name}.py\n```"
