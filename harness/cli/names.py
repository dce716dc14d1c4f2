"""``icequake explain``."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import Options
from harness.cli.options import BadArgument, command

if TYPE_CHECKING:
    from workloads.file.scenario import Scenario

_WIDTH = 100
LINEARIZABLE = "linearizable"
LINEARIZABLE_MEANS = "Each operation takes effect at one moment between its invocation and its acknowledgement."
_LINEARIZABLE = (
    f"{LINEARIZABLE_MEANS} A table at serializable is held to that; at snapshot a statement may scan at one moment and commit at a later one, "
    "while a read still has one moment."
)


@dataclass(frozen=True)
class ExplainOptions(Options):
    """Explain a name: an anomaly, a scenario, a fault or a package of faults, an operation kind, an isolation level, a checker, a catalog, an
    engine, an outcome such as unknown, an error such as ValidationException, a word of a page such as known, or the number or address of an
    issue that a scenario shows.

    All words are in docs/glossary.md, all anomalies in docs/anomalies.md; `icequake list` lists scenarios, operations, faults, packages,
    checks, catalogs and engines.
    """

    short = "Explain a name that a run or page shows."

    name: Annotated[
        str,
        typer.Argument(
            help="An anomaly, a scenario, a fault, an operation kind, a level, a checker, a catalog, an engine, or the number of an issue."
        ),
    ] = ""

    def execute(self) -> int:
        from workloads.file import filekinds
        from workloads.file.meant import suggest

        if not self.name:
            raise BadArgument(
                f"say what to explain: `{command()} explain undelete` an anomaly, `{command()} explain snapshot-isolation` a level, "
                f"`{command()} explain w0-1` a word of a page; `{command()} list` lists scenarios, operations, faults and others"
            )
        spellings = dict.fromkeys((self.name, self.name.replace(" ", "-"), self.name.replace("-", " ")))
        found = ([line for look_up in _BOOKS for line in look_up(name)] for name in spellings)
        lines = next(filter(None, found), [])
        if not lines:
            if (file := filekinds.what(Path(self.name))) is not None:
                raise BadArgument(f"{self.name} is no name but a file or folder, {file}")
            raise BadArgument(
                f"nothing is called {self.name!r}{suggest(self.name, _known())}; docs/glossary.md has the words of pages and terminal, "
                "docs/anomalies.md the anomalies, and `icequake list scenarios`, or operations, faults, packages, checks, catalogs, engines, "
                "the others"
            )
        for line in lines:
            typer.echo(line)
        return 0


def _library() -> list[Scenario]:
    from workloads.file import scenario

    return scenario.find([])


def _scenario(name: str) -> Iterator[str]:
    found = next((s for s in _library() if s.scenario == name), None)
    if found is not None:
        facts = [
            ("its anomalies", ", ".join(dict.fromkeys(e.name for e in found.anomalies)) or "none: it is a promise"),
            ("affected", found.affected),
            ("what to do", found.remedy),
            (_COMMAND, f"{command()} prove {name}"),
            ("discussed at", found.link),
        ]
        sentence = found.headline or " ".join(found.description.split())
        yield from _entry(f"{name}: a scenario", sentence[:1].upper() + sentence[1:], facts)


def _issue(name: str) -> Iterator[str]:
    from workloads.file import scenario

    found = scenario.of_issue(name)
    for link in dict.fromkeys(s.link for s in found):
        of_it = [s for s in found if s.link == link]
        each = [("scenario", f"{s.scenario}: {s.shows}") for s in of_it]
        anomalies = ", ".join(dict.fromkeys(e.name for s in of_it for e in s.anomalies))
        releases: dict[str, list[str]] = {}
        for s in of_it:
            releases.setdefault(s.affected, []).append(s.scenario)
        alone = len(releases) == 1
        affected = [("affected", text if alone else f"{', '.join(names)}: {text}") for text, names in releases.items()]
        run = f"{command()} prove {' '.join(s.scenario for s in of_it)}"
        facts = [*each, ("its anomalies", anomalies or "none: it is a promise"), *affected, (_COMMAND, run)]
        yield from _entry(f"{name}: {link}", "", facts)


def _word(name: str) -> Iterator[str]:
    from reports import glossary

    found = glossary.explained(name)
    if found is not None:
        own = f"docs/{name}.md"
        pages = [own] if (Path(__file__).parents[2] / own).is_file() else []
        yield from _entry(
            f"{name}: a word of icequake", found.meaning, [("more words", ", ".join([*pages, "docs/glossary.md"]))]
        )


def _workload(name: str) -> Iterator[str]:
    from harness.run.resolve import read_workload
    from workloads.file import workload

    path = workload.LIBRARY / f"{name}.yaml"
    if path.parent == workload.LIBRARY and path.is_file():
        told = " ".join(read_workload(path).workload.description.split())
        yield from _entry(f"{name}: a workload", told, [(_COMMAND, f"{command()} run {name}")])


def _anomaly(name: str) -> Iterator[str]:
    from reports import names

    found = names.explained(name, _library()) if name in names.names() or name.startswith("G") else None
    if found is not None:
        yield from _entry(f"{name}: an anomaly", found.meaning.sentence, found.facts())


def _level(name: str) -> Iterator[str]:
    from checkers.isolation import levels

    if name in levels.LEVELS:
        weaker = levels.IMPLIES.get(name, ())
        implied = ", ".join(weaker) + (
            f", and what {'these imply' if len(weaker) > 1 else 'it implies'}" if weaker else "nothing"
        )
        every = levels.forbidden(name)
        names = [x for x in every if not any(x.startswith(f"{y}-") for y in every)]
        orders = [s for s in ("-process", "-realtime") if any(x.endswith(s) for x in every)]
        forbidden = ", ".join(names) + (f"; also with {' or '.join(orders)} behind the name" if orders else "")
        facts = [*_examples(name), ("forbids", forbidden), ("implies", implied)]
        yield from _entry(f"{name}: an isolation level", levels.MEANS[name], facts)
    if name == LINEARIZABLE:
        facts = [*_examples(name), ("compare", "strict-serializable")]
        yield from _entry(f"{name}: a level of single operations", _LINEARIZABLE, facts)


_OF_TABLES = {
    "snapshot-isolation": "a table at snapshot (write.delete.isolation-level and the two others) is held to "
    "strong-session-snapshot-isolation. Iceberg itself keeps less there: a merge-on-read DELETE may leave its row (undelete).",
    "strong-session-snapshot-isolation": "what a table at snapshot (write.delete.isolation-level and the two others) is held to.",
    "serializable": "a table at serializable (write.delete.isolation-level and the two others; Iceberg's default) is held to "
    "strict-serializable.",
    "strict-serializable": "what a table at serializable (write.delete.isolation-level and the two others; Iceberg's default) is held to.",
}
"""Level → which tables have to do with it."""


def _examples(level: str) -> Iterator[tuple[str, str]]:
    from checkers.isolation import levels

    if level in levels.EXAMPLES:
        yield from zip(("allows", "does not allow"), levels.EXAMPLES[level], strict=True)
    yield "of a table", _OF_TABLES.get(level, "")


def _model(name: str) -> Iterator[str]:
    from checkers.clients import models

    if name in models.models():
        facts = [
            ("its operations", models.OPERATIONS_OF[name]),
            ("its levels", ", ".join(models.levels(name))),
            ("more words", "docs/history.md"),
        ]
        yield from _entry(f"{name}: a model of a history (check FILE --model {name})", "", facts)


def _fault(name: str) -> Iterator[str]:
    from nemesis.faults.packages import PACKAGES
    from nemesis.faults.registry import VERBS
    from nemesis.faults.table import options

    if name in VERBS:
        using = ", ".join(p.name for p in PACKAGES.values() if name in {f.verb for f in p.faults})
        facts = [
            ("in production", VERBS[name].production),
            ("its options", ", ".join(options(VERBS[name]))),
            ("in the packages", using),
        ]
        yield from _entry(f"{name}: a fault", VERBS[name].summary, facts)


def _package(name: str) -> Iterator[str]:
    from nemesis.faults.packages import PACKAGES

    if name in PACKAGES:
        facts = [("its faults", ", ".join(dict.fromkeys(f.name for f in PACKAGES[name].faults)))]
        yield from _entry(f"{name}: a package of faults", PACKAGES[name].summary, facts)


def _kind(name: str) -> Iterator[str]:
    from workloads.operations.kinds import KINDS

    if name in KINDS:
        facts = [("its options", ", ".join(KINDS[name].options))]
        yield from _entry(f"{name}: an operation", _first(KINDS[name]), facts)


def _checker(name: str) -> Iterator[str]:
    from checkers.judge.check import ALL

    for c in ALL:
        if c.name == name:
            facts = [("its anomalies", ", ".join(sorted(c.names)))]
            yield from _entry(f"{name}: a checker", _first(c), facts)


def _catalog(name: str) -> Iterator[str]:
    from compose.catalogs.registry import CATALOGS
    from harness.cli.software import catalog_facts

    if name in CATALOGS:
        facts = [("a commit", CATALOGS[name].promise), *catalog_facts(CATALOGS[name], _library())]
        yield from _entry(f"{name}: a catalog", CATALOGS[name].summary, facts)


def _engine(name: str) -> Iterator[str]:
    from harness.cli.software import engine_facts
    from workloads.engines.engines import ENGINES

    if name in ENGINES:
        yield from _entry(f"{name}: an engine", _first(ENGINES[name]), engine_facts(ENGINES[name], _library()))


_OUTCOMES = {
    "ok": "The writer was told that the operation took effect.",
    "failed": "The writer was told that the operation did not take effect, so the table must not show it.",
    "unknown": "The writer was not told whether the operation took effect: a timeout, a broken connection, a killed writer. It may have or may "
    "not have, so the checkers look for it in the table's files. An unknown outcome is no anomaly.",
}
"""What a run's last lines count."""
_ERRORS = {
    "ValidationException": "Iceberg's client read what was committed since it began, found that by the table's isolation level its change no "
    "longer applies (another one changed the same row), and gave up. The operation has no effect; run it again.",
    "CommitFailedException": "Another commit came first each time that Iceberg's client tried (commit.retry.num-retries), or the catalog "
    "refused the commit. The operation has no effect; run it again, or give the table more retries.",
    "CommitStateUnknownException": "The client does not know whether its commit took effect, because the catalog's answer got lost. Look at "
    "the table before you run the operation again.",
    "NoSuchKeyException": "The object store has no object of this name (S3's 404). If a snapshot names the file, the table cannot be read: "
    "look for `missing-file` in the run's verdict. A fault, or a cleanup of files that were in use, may have removed it.",
    "NotFoundException": "A file that the table's metadata names is not in the store; see NoSuchKeyException.",
    "NoSuchTableException": "The catalog has no table of this name: it was dropped, renamed, or never made.",
    "ServiceFailureException": "The catalog server answered with an error of its own (5xx). After a commit nobody knows whether it took "
    "effect.",
    "SparkException": "Spark's frame around another error: the last one named is the cause.",
    "TransactionException": "DuckDB's error for a commit that the catalog refused because another one came first. DuckDB does not try again: "
    "run the operation again.",
}
"""Errors of engines that a run's last lines name."""


def _outcome(name: str) -> Iterator[str]:
    if name in _OUTCOMES:
        yield from _entry(f"{name}: an outcome of an operation", _OUTCOMES[name], [])


def _error(name: str) -> Iterator[str]:
    own = name.rpartition(".")[2]
    if own in _ERRORS:
        yield from _entry(f"{own}: an error of an operation", _ERRORS[own], [])


def _first(thing: object) -> str:
    """The first paragraph of its documentation."""
    return (type(thing).__doc__ or "").strip().split("\n\n")[0]


_BOOKS: tuple[Callable[[str], Iterator[str]], ...] = (
    _anomaly,
    _level,
    _model,
    _fault,
    _package,
    _kind,
    _checker,
    _catalog,
    _engine,
    _outcome,
    _error,
    _scenario,
    _issue,
    _workload,
    _word,
)
"""A name of several of them, such as ``read-your-writes``, is explained as each."""


def _known() -> Iterator[str]:
    from checkers.clients.models import models
    from checkers.isolation import levels
    from checkers.judge.check import ALL
    from compose.catalogs.registry import CATALOGS
    from nemesis.faults.packages import PACKAGES
    from nemesis.faults.registry import VERBS
    from reports import glossary, names
    from workloads.engines.engines import ENGINES
    from workloads.file import workload
    from workloads.operations.kinds import KINDS

    checkers = (c.name for c in ALL)
    yield from dict.fromkeys(
        [
            *names.names(),
            *levels.LEVELS,
            LINEARIZABLE,
            *models(),
            *VERBS,
            *PACKAGES,
            *KINDS,
            *checkers,
            *CATALOGS,
            *ENGINES,
            *_OUTCOMES,
            *_ERRORS,
            *(s.scenario for s in _library()),
            *(path.stem for path in workload.LIBRARY.glob("*.yaml")),
            *(word for words in glossary.WORDS.values() for word in words),
        ]
    )


def _entry(title: str, sentence: str, facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A title, a sentence, and facts with their headings on the left. Names and commands stay whole, so that they can be copied."""
    yield title
    if sentence:
        yield _filled(_whole(sentence), "  ", "  ")
    for heading, text in facts:
        if heading == _COMMAND:
            yield f"  {heading:<17} {text}"
        elif text:
            yield _filled(_plain(text) if heading in _LISTS else _whole(text), f"  {heading:<17} ", " " * 20)


_COMMAND = "run it"
"""The fact that is a command: it is never broken into lines."""

_LISTS = (
    "forbidden by",
    "found by",
    "shown by",
    "forbids",
    "implies",
    "compare",
    "its options",
    "its levels",
    "in the packages",
    "its faults",
    "its anomalies",
    "discussed at",
    "more words",
    "known defect",
    "any REST catalog",
    "version here",
    "it promises",
    "it reaches",
)
"""Facts that are names; the others are sentences."""


def _filled(text: str, first: str, then: str) -> str:
    lines = textwrap.wrap(
        text, _WIDTH, initial_indent=first, subsequent_indent=then, break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines)


def _whole(text: str) -> str:
    """A sentence with its full stop."""
    plain = _plain(text)
    return plain if plain.endswith((".", "?")) else f"{plain}."


def _plain(text: str) -> str:
    """Without backticks, on one line; a link to another page of docs/ is that page's path."""
    text = re.sub(r"\[[^\]]*\]\(([\w/-]+\.md)[^)]*\)", r"docs/\1", text)
    return " ".join(text.replace("`", "").split())
