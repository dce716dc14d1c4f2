"""The stories of a run, as page, terminal and JUnit file show them; and what a scenario is about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from markupsafe import Markup

from checkers.evidence.tableformat import find
from checkers.judge import by_engine as engines
from checkers.judge import stories
from checkers.judge.by_engine import Did
from checkers.judge.causes import SECOND_OPINIONS, events
from checkers.judge.known import KnownDefect, of_scenario
from checkers.judge.stories import UNREADABLE_STEP, Story, StoryStep
from checkers.names import meaning
from checkers.timeline import explain
from checkers.verdict import Anomaly
from reports.drawing import words
from reports.drawing.page import (
    Block,
    Heading,
    Pairs,
    Table,
    TableColumn,
    TableRow,
    Text,
    counted,
    joined,
    outside,
    tag,
)
from reports.run import faulted, operations
from reports.run.plan_view import table_specs
from reports.run.stored import Stored
from workloads.engines.engines import ENGINES
from workloads.operations.kinds import KINDS
from workloads.tables import ICEBERG, TableFormatName

NOT_RECORDED = "not recorded (made before icequake kept it)"
"""The version of an engine that the run's plan does not have."""
NEW = "new to icequake"
"""What is said of a story that no known defect explains."""
MOST_STRUCK = 4
MOST_TOLD_TABLES = 4


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One step of a story: its name, how often it was found, and a sentence."""

    name: str
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class KnownLine:
    """A known defect: the command that shows it, and where it is discussed (``href`` only if it is safe to follow)."""

    command: str
    href: str | None
    label: str
    headline: str = ""
    affected: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class StoryView:
    """A story, for page and terminal; ``struck``: what faults did to the requests of the operation at fault, before everything else.

    ``who`` is with its version; ``mark``: what the workload says of all its anomalies, ``expected`` or ``allowed``.
    """

    story: Story
    who: str
    mark: str
    struck: tuple[str, ...]
    lines: tuple[StoryLine, ...]
    known: tuple[KnownLine, ...]
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeView:
    """Stories of one shape: those told in full, and one line for each other, below ``alike`` (``12 more like this``)."""

    told: tuple[StoryView, ...]
    more: tuple[StoryView, ...]
    alike: str


def shapes(run: Stored) -> list[ShapeView]:
    """The stories of a run by shape, the gravest first."""

    def view(s: Story) -> StoryView:
        return StoryView(
            s,
            engines.named(s.who, s.engine, versions(run), _catalog(run)),
            mark(run, s),
            tuple(_struck(run, s)),
            tuple(_line(s.table or "", step) for step in s.steps if not _says_again(s, step)),
            tuple(map(known_line, s.known)),
            also_named(s),
        )

    return [
        ShapeView(tuple(map(view, shape.told)), tuple(map(view, shape.more)), shape.alike)
        for shape in stories.shapes(run.told.stories)
    ]


def release(who: str) -> str:
    """The release of the one who did it, of ``Spark's client (Spark 4.1.4, Iceberg 1.12.0)`` or ``DuckDB 1.5.5``; empty if it is not said."""
    within = who.partition(" (")[2].removesuffix(")")
    return within or (who if any(c.isdigit() for c in who) else "")


def affected_release(run: Stored, k: KnownLine, who: str) -> str:
    """The releases that ran here of the engines that a known defect affects; if it names none that ran, or that one did it: that of ``who``."""
    own = release(who)
    named = [e.name for e in ENGINES.values() if re.search(rf"\b{re.escape(e.title)}\b", k.affected)]
    ran = dict.fromkeys(filter(None, (engines.version_of(name, versions(run)) for name in named)))
    return own if own in ran else ", ".join(ran) or own


def who_and_how(view: StoryView) -> str:
    """``the catalog server (Iceberg's REST test fixture 1.11.0) answered 204 to the commit of DuckDB and did not make it``."""
    return f"{view.who} {view.story.how}" if view.story.how else view.who


def by_whom(view: StoryView) -> str:
    """``By Spark``, or the sentence of :func:`who_and_how` where it says what they did."""
    said = who_and_how(view)
    return f"{said[:1].upper()}{said[1:]}" if view.story.how else f"By {said}"


def mark(run: Stored, story: Story) -> str:
    """``expected`` or ``allowed`` if the workload says that of all anomalies of a story; else empty."""
    marks = {run.mark(a) for a in stories.anomalies_of(story, run.verdicts)}
    return marks.pop() if len(marks) == 1 else ""


def unmarked(run: Stored) -> list[Story]:
    """The stories that the workload does not expect or allow; all of them if it does so with each."""
    return stories.unaccepted(run.told.stories, run.verdicts, run.mark) or [*run.told.stories]


def headline(run: Stored) -> tuple[str, ...]:
    """What happened to data, counted, the gravest first; without what the workload expects or allows, if there is something else."""
    return stories.headline(unmarked(run), verbs(run))


def verbs(run: Stored) -> dict[str, str]:
    """Operation → ``INSERT``, ``ALTER`` …, of the kinds that icequake knows."""
    return {o.op: KINDS[o.f].verb.upper() for o in run.operations if o.f in KINDS}


def counted_anomalies(run: Stored) -> list[Anomaly]:
    """The anomalies that count wherever a number of them is said."""
    return events(run.anomalies)


def who(run: Stored) -> str:
    """``DuckDB 57, the catalog server 2``: who did it, by number of findings; empty for none."""
    return stories.who_words(unmarked(run))


def by_engine(run: Stored) -> tuple[Did, ...]:
    """What each engine did, and who else is blamed."""
    return engines.by_engine(run.operations, run.logs, run.told.stories, versions(run), _catalog(run))


def _catalog(run: Stored) -> str:
    return run.plan.catalog.name if run.plan.catalog else ""


def versions(run: Stored) -> dict[str, str]:
    """The versions of the plan, without those of formats that none of its tables has."""
    used = {str(s.get("format") or ICEBERG) for s in table_specs(run)} or {ICEBERG}
    return {k: v for k, v in run.plan.versions.items() if k in used or k not in get_args(TableFormatName)}


def _says_again(s: Story, step: StoryStep) -> bool:
    """Whether only checkers found it that say in other words what others find: no step on the way to what happened."""
    return step.name != s.name and bool(step.checkers) and {*step.checkers} <= SECOND_OPINIONS.keys()


def also_named(s: Story) -> tuple[str, ...]:
    """How other checkers name what happened: ``lost-update (isolation)``."""
    return tuple(f"{step.name} ({', '.join(step.checkers)})" for step in s.steps if _says_again(s, step))


def _line(table: str, step: StoryStep) -> StoryLine:
    times = (
        min(step.count, step.most) if step.most else step.count
    )  # as the headline counts, but of anomalies and not of rows
    return StoryLine(step.name, times, f"{table}: {step.text}" if step.name == UNREADABLE_STEP else step.text)


def _struck(run: Stored, story: Story) -> list[str]:
    """What faults did to the requests of the operations at fault."""
    ops = dict.fromkeys(op for step in story.steps if step.name != UNREADABLE_STEP for op in step.ops)
    found = [r for op in ops for r in run.change_requests.get(op, ()) if r.faults]
    return [faulted.happened(r) for r in sorted(found, key=lambda r: r.time)[:MOST_STRUCK]]


def _no_state(link_: str) -> str:
    if words.is_thread(link_):
        return "state not recorded"
    return "" if (how := words.how_known(link_)) == "known" else how


def known_line(k: KnownDefect) -> KnownLine:
    """A known defect, for page and terminal."""
    command = f"icequake prove {words.shorten(k.scenario, 60)}"
    return KnownLine(
        command,
        words.safe(k.link),
        words.link_label(k.link),
        words.shorten(k.headline, 200),
        words.shorten(k.affected, 200),
        words.shorten(k.state or _no_state(k.link), 200),
    )


def standing(run: Stored, s: Story) -> str:
    """Whether what happened is known: ``known: iceberg#10720``; of a defect that only icequake knows, that no report of it is recorded."""
    own = of_scenario(run.workload)
    shown = () if own is None or not {*own.anomalies} & {x.name for x in s.steps} else (own,)
    links = [k.link for k in s.known or shown]
    threads = dict.fromkeys(words.link_label(x) for x in links if words.is_thread(x))
    if threads:
        return f"known: {', '.join(threads)}"
    if links:
        return "known to icequake, no report upstream recorded"
    found = stories.anomalies_of(s, run.verdicts)
    return "documented as possible" if found and all(a.documented for a in found) else NEW


def known_words(k: KnownLine, has: str) -> str:
    """``a row came back: iceberg#10720 (open). Affected: all. Here ran Iceberg 1.12.0. `icequake prove undelete` shows it.``

    Args:
        has: the release that ran here; empty: nobody knows it.
    """
    lead = f"{k.headline}: " if k.headline else ""
    affected = f" Affected: {k.affected}." if k.affected else ""
    affected += f" Here ran {has}." if has else ""
    shows = joined((" ", tag("code", k.command), " shows it.")) if k.command else ""
    return joined((lead, outside(k.label, k.href), f" ({k.state})." if k.state else ".", affected, shows))


# --- blocks of the page -----------------------------------------------------------------------------------------------


def blocks(run: Stored) -> list[Block]:
    """What a scenario is about, and what each engine did: for the page's first screen."""
    told = any(s.remedy for s in run.told.stories)  # the answer says where it is discussed
    facts = [
        (name, outside(text, href)) for name, text, href in scenario_facts(run) if not (told and name == "discussion")
    ]
    out: list[Block] = [Pairs(facts, "about")] if facts else []
    rows = by_engine(run)
    if len(rows) > 1:
        out += [Heading("By engine"), Table(_ENGINES, [_engine(d) for d in rows], form="fit")]
    return out


_ENGINES = (
    TableColumn("who", mark="name"),
    TableColumn("version"),
    *(TableColumn(n, right=True) for n in ("operations", "failed", "conflicts", "retries", "anomalies")),
)


def _engine(d: Did) -> TableRow:
    numbers = (d.operations, d.failed, d.conflicts, d.retries, d.anomalies)
    version = d.version or ("–" if not d.operations else NOT_RECORDED)
    return TableRow([words.shorten(d.who, 60), version, *map(counted, numbers)])


def what_happened(view: StoryView) -> list[Block]:
    """The steps of a story, the cause first, if it has several, and how other checkers name it."""
    steps = len(view.lines) > 1 or bool(view.struck) or view.story.name == UNREADABLE_STEP
    also = f"also named {explain.listing(words.shorten(x, 80) for x in view.also)}" if view.also else ""
    return [
        *([Text([*view.struck, *map(_step, view.lines)], "steps")] if steps else []),
        *([Text([also], "note")] if also else []),
    ]


def _step(line: StoryLine) -> Markup:
    times = f" ×{words.grouped(line.count)} " if line.count > 1 and not line.text[:1].isdigit() else " "
    said = tag("span", operations.shortened(words.shorten(line.text, 500)), "wrap")
    return joined((term(line.name), times, said))


def term(name: str) -> Markup:
    """The name of an anomaly; who points at it reads what it means."""
    means = meaning(name)
    return tag("b", words.shorten(name, 60), "term" if means else "", title=means.sentence if means else None)


def known_defects(view: StoryView) -> list[Block]:
    """The known defects that a story looks like."""
    lines = [joined(("known: ", tag("code", k.command), ", ", outside(k.label, k.href))) for k in view.known]
    return [Text(lines, "note")] if lines else []


def in_a_line(view: StoryView) -> Markup:
    """A story that is told no further."""
    s = view.story
    about = ", ".join((*s.ops, *(f"id {k}" for k in s.keys[:2])))
    where = f" table {words.shorten(s.table, 60)}" if s.table else ""
    return joined((words.shorten(s.headline, 300), tag("span", f"{where} {words.shorten(about, 120)}", "muted")))


# --- scenarios --------------------------------------------------------------------------------------------------------


def scenario_facts(run: Stored) -> list[tuple[str, str, str | None]]:
    """What the scenario of a run is about: name, text, and link (None: no link); empty for the run of a workload."""
    told = run.scenario
    if not told:
        return []
    specs = table_specs(run)[:MOST_TOLD_TABLES]
    out: list[tuple[str, str, str | None]] = [("table", _make(s, len(specs)), None) for s in specs]
    isolation = dict.fromkeys(str(s["isolation"]) for s in specs if s.get("isolation"))
    out += [("isolation", ", ".join(isolation), None)] if isolation else []
    formats = [find(str(s.get("format") or ICEBERG)) for s in specs]
    ran = [f"{f.title} {run.plan.versions[f.name]}" for f in dict.fromkeys(formats) if f.name in run.plan.versions]
    out += [("affected releases", str(told.get("affected") or "not recorded"), None)]
    out += [("this release", ", ".join(ran), None)] if ran else []
    if isinstance(told.get("link"), str):
        out += [("discussion", words.link_label(told["link"]), words.safe(told["link"]))]
    if not any(s.remedy for s in run.told.stories):  # else they say it
        out += [("remedy", str(told.get("remedy") or ("none known" if told.get("anomalies") else "none needed")), None)]
    return [(name, words.shorten(text, 400), href) for name, text, href in out]


def _make(spec: Mapping[str, Any], tables: int) -> str:
    parts = [
        find(str(spec.get("format") or ICEBERG)).described(spec),
        str(spec.get("mode") or ""),
        "partitioned" if spec.get("partitioned") else "not partitioned",
    ]
    name = f"{spec.get('name')}: " if tables > 1 else ""
    return name + ", ".join(p for p in parts if p)
