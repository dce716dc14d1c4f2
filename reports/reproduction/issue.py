"""A scenario as the text of an issue, in Markdown, for the tracker of the project whose code it is about."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from checkers.verdict import Anomaly
from compose.catalogs.delta import GUARDS
from compose.catalogs.registry import CATALOGS
from compose.install.delta import DELTA_RELEASES
from compose.install.releases import Release
from compose.redaction import Redaction, secrets_of
from nemesis.faults.fields import FaultFields
from reports.drawing import words
from reports.reproduction.expected import afterwards, ends, ids_said, meanings, rules
from reports.reproduction.exportable import NESSIE, why_not
from reports.reproduction.script import (
    FIXED,
    OWN_JAR,
    fixed_by,
    headline,
    installs,
    own_build,
    pinned,
    release_for,
    statements_of,
    tables_of,
)
from workloads.engines.engine import Engine
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.scenario import Scenario, ScenarioStep
from workloads.tables import DELTA, ICEBERG

NOWHERE = "https://iceberg.apache.org/docs/latest/reliability/"
"""The link of a scenario whose anomaly nobody is known to have discussed: what Iceberg promises to concurrent writers."""
NESSIE_TRACKER = "https://github.com/projectnessie/nessie/issues"
BOUND_MEANS = {
    "snapshot": "the version or snapshot that is asked for",
    "since": "an earlier version, here the first one with rows",
    "older_than": "the time of the newest snapshot",
    "time": "a time between the version that is asked for and the next one",
}
"""What a statement takes from one before it → what it is."""
_NTH = {2: "second", 3: "third"}


def issue(
    scenario: Scenario,
    versions: Mapping[str, str] | None = None,
    typed: str | None = None,
    seen: Mapping[str, str] = MappingProxyType({}),
    name: str = "",
) -> str:
    """The text.

    Args:
        versions: what a run of it had; None: what a script of it pins.
        typed: what `icequake export` makes the script of: the scenario's file or a run's folder; None: the scenario's name.
        seen: name of an anomaly → what was seen of it in a run.
        name: of the script that goes with it, without its ending; empty: the scenario's.
    """
    release, seen = release_for(scenario, versions), seen or scenario.seen
    versions = versions or {"iceberg": release.iceberg, "spark": release.spark}
    parts = [f"# {headline(scenario)}", scenario.description, "## Versions", _versions(scenario, versions)]
    parts += ["## Affected", f"{_affected(scenario)}. {_where(scenario)}"]
    parts += ["## Steps", "\n".join(_steps(scenario))]
    parts += ["## Expected", _expected(scenario), "## Actual", "\n".join(_actual(scenario, seen))]
    remedy = scenario.remedy or " ".join(dict.fromkeys(m.remedy for _, m in meanings(scenario)))
    parts += ["## Work-around", remedy] if remedy else []
    made_of, file = typed or scenario.scenario, f"{name or scenario.scenario}.py"
    parts += ["## Reproduction", _reproduction(scenario, release, own_build(versions), made_of, shlex.quote(file))]
    return "\n\n".join(parts) + "\n"


def seen_of(anomalies: Iterable[Anomaly]) -> dict[str, str]:
    """Name of an anomaly → what was seen of the first one: its explanation, and all snapshots and files that it names."""
    found: dict[str, str] = {}
    for a in anomalies:
        places = [f"snapshot {n}" for n in a.snapshots] + [f"file {path}" for path in a.files]
        where = [p for p in places if p.partition(" ")[2] not in a.explanation]
        documented = f" It is documented as possible: {a.documented}" if a.documented else ""
        found.setdefault(a.name, a.explanation + (f" It is about {', '.join(where)}." if where else "") + documented)
    return found


def tracker(scenario: Scenario) -> str:
    """Where the defect is reported: the tracker of the project of its thread, else of the engine beside Spark, else of the catalog's server."""
    if thread := re.match(r"https://github\.com/[^/]+/[^/]+/(?=issues|pull)", scenario.link):
        return f"{thread[0]}issues"
    guests = {ENGINES[e].tracker for e in scenario.by_writer if e != SPARK}
    if len(guests) == 1:
        return guests.pop()
    if any(t.format == DELTA for t in scenario.tables):
        return "https://github.com/delta-io/delta/issues"
    return NESSIE_TRACKER if scenario.catalog.startswith(NESSIE) else Engine.tracker


def _where(scenario: Scenario) -> str:
    """Where it is discussed, if anywhere, and where it is reported."""
    place = tracker(scenario)
    if words.is_thread(scenario.link):
        return f"See {scenario.link}"
    about = "" if scenario.link in (place, NOWHERE) else f"See {scenario.link}. "
    return f"{about}The tracker of this code: {place} (look there for an older report first)"


def _affected(scenario: Scenario) -> str:
    """The affected releases, without the word that nobody has reported it: this is the report."""
    reports = "; ".join(part for part in scenario.affected.split("; ") if not part.startswith("no report"))
    return f"{reports[:1].upper()}{reports[1:]}"


def _versions(scenario: Scenario, versions: Mapping[str, str]) -> str:
    own = own_build(versions)
    iceberg = f"{versions.get('iceberg', 'unknown')}{f' ({own})' if own else ''}"
    formats, spark = {t.format for t in scenario.tables}, f"Apache Spark {versions.get('spark', 'unknown')}"
    tables = [f"Apache Iceberg {iceberg}"] if ICEBERG in formats else []
    tables += [f"Delta Lake {versions.get('delta', next(iter(DELTA_RELEASES)))}"] if DELTA in formats else []
    lines = [f"* {', '.join([*tables, spark])}"]
    for name in sorted(set(scenario.by_writer) - {SPARK}):
        packages = [p for p in pinned(scenario) if p.startswith(name)]
        lines.append(f"* {getattr(ENGINES[name], 'title', name)}" + (f": {', '.join(packages)}" if packages else ""))
    lines += [f"* catalog: {scenario.catalog}"] if ICEBERG in formats else []
    lines += [f"* log store: {GUARDS[scenario.guard].summary}"] if DELTA in formats else []
    return "\n".join(lines)


def _steps(scenario: Scenario) -> Iterator[str]:
    yield "```sql"
    yield from (f"{sql};" for sql in tables_of(scenario))
    yield "```"
    yield ""
    for n, step in enumerate(scenario.operations, 1):
        engine = scenario.by_writer[step.writer]
        yield f"{n}. **{step.name}** (writer {step.writer}, {getattr(ENGINES[engine], 'title', 'Spark')}){_waits(step, scenario)}:"
        texts = statements_of(scenario, step) or [f"{step.do} {step.value}"]
        yield from (f"   `{sql}`" for sql in texts)
        bound = [name for name in BOUND_MEANS if any(f"{{{name}}}" in sql for sql in texts)]
        yield from (f"   where `{{{name}}}` is {BOUND_MEANS[name]}" for name in bound)


def _told(fault: FaultFields, catalog: str) -> str:
    """Which error a fault tells a writer in place of an answer."""
    wire = CATALOGS[catalog].wire if catalog in CATALOGS else None
    if wire == "postgres":
        return f"by PostgreSQL's error {fault.sqlstate or '08006'}"
    return "by an exception" if wire == "thrift" else str(fault.status or 503)


def _waits(step: ScenarioStep, scenario: Scenario) -> str:
    """What a step waits for and what strikes it, in words that follow its name."""
    delta = scenario.table(step).format == DELTA
    server, catalog = ("object store" if delta else "catalog"), scenario.catalog
    conditions = [f"begins when {_moments(step.after)}"] if step.after else []
    request = {"commit": "write of its version" if delta else "commit", "load": "load of the table"}.get(
        step.at, f"{step.at} request"
    )
    which = request if step.nth == 1 else f"{_NTH.get(step.nth, f'{step.nth}th')} {request}"
    conditions += [f"its {which} is held until {_moments(step.hold)}"] if step.hold else []
    if step.fault is not None:
        verb, status = step.fault.verb, _told(step.fault, catalog)
        conditions.append(
            {
                "answer": f"the {server} applies the {which}, and the writer is answered {status}",
                "reject": f"the {server} never gets the {which}, and the writer is answered {status}",
                "late": f"the writer is answered {status}, and the {server} gets the {which} afterwards",
                "duplicate": f"the {which} is sent twice, and the writer gets the second answer",
                "drop-reply": f"the {server} applies the {which}, and the connection breaks before the answer",
                "drop-request": f"the connection breaks before the {server} gets the {which}",
                "stale": f"the {which} is answered from before the table's last change, one with an ETag of then by 304",
            }.get(verb, verb)
        )
        conditions += [f"so are the next {n - 1} such requests"] if (n := step.fault.times or 1) > 1 else []
    conditions += ["its process is killed then"] if step.kill else []
    return f", {'; '.join(conditions)}" if conditions else ""


def _moments(when: Mapping[str, str]) -> str:
    return " and ".join(f"{name} is {'held' if moment == 'held' else 'over'}" for name, moment in when.items())


def _expected(scenario: Scenario) -> str:
    legal = afterwards(scenario)
    kept = (f"{r.promise[:1].upper()}{r.promise[1:]} ({r.link or r.section})." for r in rules(scenario))
    broken = list(dict.fromkeys(kept))
    if broken:
        return "\n".join(f"* {line}" for line in (*broken, *([_rows_expected(legal)] if legal else ())))
    if not legal:
        return "The acknowledged operations take effect, the refused ones do not, and the table and its metadata agree."
    return _rows_expected(legal)


def _rows_expected(legal: Mapping[str, list[list[int]]]) -> str:
    expectations = [f"`{t}` has the ids {' or '.join(map(ids_said, found))}" for t, found in legal.items()]
    return f"{'; '.join(expectations)}: what the acknowledged operations leave, one after the other in any order."


def _actual(scenario: Scenario, seen: Mapping[str, str]) -> Iterator[str]:
    yield from (f"* {end}" for end in ends(scenario))
    for table, rows in scenario.final.items():
        if rows == "unreadable":
            yield f"* nobody can read `{table}`"
        elif rows != "unchecked":
            yield f"* `{table}` has the ids {ids_said(rows)}"
    for name, told in meanings(scenario):
        yield f"* {told.sentence} (icequake's name: `{name}`)"
        if name in seen:
            yield textwrap.indent(f"\n<details><summary>one run of it</summary>\n\n{seen[name]}\n</details>\n", "  ")


def _reproduction(scenario: Scenario, release: Release, own: str, typed: str, script: str) -> str:
    file = Path(typed)
    # The folders of its user's disk are nobody else's, but a run is found by its folder in the store.
    last = "/".join(file.parts[-3:]) if re.match(r"\d{8}T", file.name) else file.name  # STORE/NAME/TIME
    shown = shlex.quote(last if file.is_absolute() else typed)
    if (why := why_not(scenario, release.spark)) is not None:
        # A file of a night only its user has; one of the library comes with icequake.
        said = f"`icequake prove {shown}` shows it. It is no script of its own: {why}."
        if not file.is_file():
            return said
        whole = Redaction(secrets_of(scenario.catalog_properties)).text(file.read_text())
        return f"{said} The file:\n\n```yaml\n{whole.rstrip()}\n```"
    line = f"icequake export {shown} --as script -o {script}"
    made = f"The attached script, made by `{line}`, exits with 0 if it came as written here"
    how = f"With `{given}`" if (given := fixed_by(scenario)) else "With the fix installed"
    fix = f". {how} and `--expect {FIXED}` it tests a fix, and exits with 0 if the defect is gone"
    made += f"{fix if scenario.anomalies else ''}:"
    jar = f"{OWN_JAR}=FILE " if own else ""
    return f"{made}\n\n```\n{installs(scenario, release)}\n{jar}python -I {script}\n```"
