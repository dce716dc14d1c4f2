"""The failed run of a workload as the text of an issue, in Markdown: for what nobody made small, or nobody can."""

from __future__ import annotations

from collections.abc import Iterator

from checkers.judge.stories import anomalies_of
from reports.drawing import words
from reports.reproduction.script import own_build
from reports.run import statements, stories_view
from reports.run.stored import Stored
from reports.run.stories_view import StoryView

MOST_SHAPES = 6
"""Kinds of stories that are told, each by its first one."""
MOST_STATEMENTS = 12
MOST_OF_WHY = 4000
EXPECTED = """\
Each acknowledged statement takes effect once and stays, a refused one leaves nothing, and the table, its metadata and its files agree."""
TITLES = {
    "iceberg": "Apache Iceberg",
    "spark": "Apache Spark",
    "delta": "Delta Lake",
    "java": "Java",
    "python": "Python",
    "system": "on",
}
"""Keys of a plan's versions → how they are called."""
OURS = ("icequake", "iceberg-jar", "iceberg-commit")

NOTHING_EXPECTED = "No anomaly is expected."
"""What the library's workloads say of themselves; an issue is of a run that had one."""


def run_issue(run: Stored, workload: str, command: str, not_small: str) -> str:
    """The text.

    Args:
        workload: the text of the workload's file, as the run had it.
        command: what runs that file with the run's seed and release.
        not_small: why there are no fewer statements, in sentences.
    """
    shapes = stories_view.shapes(run)
    first = [shape.told[0] for shape in shapes if stories_view.mark(run, shape.told[0].story) == ""]
    told = first or [shape.told[0] for shape in shapes]
    parts = [f"# {_sentence(', '.join(stories_view.headline(run)))}"]
    about = run.plan.description.replace(NOTHING_EXPECTED, "").strip()  # the run showed one
    parts += [about] if about else []
    parts += ["## Versions", "\n".join(f"* {line}" for line in _versions(run))]
    parts += ["## Steps", *_steps(run, workload, command), f"No fewer statements are known that show it. {not_small}"]
    parts += ["## Expected", EXPECTED, "## Actual"]
    parts += [part for view in told[:MOST_SHAPES] for part in _actual(run, view)]
    more = len(shapes) - min(len(told), MOST_SHAPES)
    parts += [f"And {words.plural(more, 'more kind')} of such events."] if more > 0 else []
    remedies = dict.fromkeys(view.story.remedy for view in told if view.story.remedy)
    parts += ["## Work-around", *remedies] if remedies else []
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _versions(run: Stored) -> Iterator[str]:
    """The engines, the catalog with its summary, then everything else that the run had."""
    versions = dict(stories_view.versions(run))
    if own := own_build(versions):
        versions["iceberg"] = f"{versions.get('iceberg', 'unknown')} ({own})"
    if (catalog := run.plan.catalog) is not None:
        yield f"catalog {catalog.name}" + (f": {catalog.summary}" if catalog.summary else "")
    yield from (f"{TITLES.get(name, name)} {version}" for name, version in versions.items() if name not in OURS)


def _steps(run: Stored, workload: str, command: str) -> Iterator[str]:
    """How to make the run again."""
    file = f"{run.workload}.yaml"
    yield f"`{command}`, where `{file}` is:"
    yield _fenced("yaml", workload)
    first = "and `order` mostly" if "\norder: " in f"\n{workload}" else "not"
    yield (
        f"The seed decides which statements and faults come, {first} which of two writers is first; so it may take several runs, "
        "and other seeds show it as well."
    )


def _fenced(language: str, text: str) -> str:
    """A block that text with such a fence of its own does not end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def _actual(run: Stored, view: StoryView) -> Iterator[str]:
    """What happened once: what that means, who did it, step by step, why that may not be, and the statements."""
    s = view.story
    yield f"### {_sentence(s.headline)}"
    yield f"{s.consequence} {_sentence(stories_view.who_and_how(view))}."
    known = (f"It looks like {k.href or k.label}{f' ({k.state})' if k.state else ''}" for k in view.known)
    also = [f"Other checkers name it {', '.join(view.also)}"] if view.also else []
    yield "\n".join(f"* {text}." for text in (*view.struck, *(line.text for line in view.lines), *also, *known))
    why = next((a.explanation for a in anomalies_of(s, run.verdicts) if a.name == s.name and a.explanation), "")
    if why:
        yield _fenced("", words.shorten(why, MOST_OF_WHY))
    again = (op for step in s.repairs for op in step.ops)
    names = dict.fromkeys((*s.ops, *(op for pair in s.instead for op in pair), *again))
    involved = [o for o in run.operations if o.op in names][:MOST_STATEMENTS]
    if sql := statements.text(run, involved):
        yield _fenced("sql", sql)
