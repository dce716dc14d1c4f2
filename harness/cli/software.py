"""What is known of an engine or a catalog, for ``icequake explain``: its version here, its promise, its known defects, how it is run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from compose.catalogs.catalog import Catalog
from compose.install.cache import home
from compose.install.engines import EXTRAS
from compose.install.releases import DEFAULT
from harness.cli.options import command
from harness.run.reach import reached
from harness.run.versions import of_engines
from reports.drawing import words
from workloads.engines.engine import Engine, Foreign
from workloads.engines.engines import SPARK
from workloads.file.scenario import SOFTWARE_TITLES, Scenario
from workloads.operations.kinds import KINDS
from workloads.tables import ICEBERG

Facts = Iterator[tuple[str, str]]
DEFECT, OF_CLIENTS, DOCUMENT, VERSION, REACHES, PROMISE, RUN = (
    "known defect",
    "any REST catalog",
    "more words",
    "version here",
    "it reaches",
    "it promises",
    "run it",
)
MOST_DEFECTS = 12
_PAGES: Mapping[str, str] = {
    "spark": "docs/matrix.md",
    "merging-committer": "docs/engines/committer.md",
    "flink-v2": "docs/engines/flink.md",
    "flink-kills": "docs/engines/flink.md",
    "flink-v2-kills": "docs/engines/flink.md",
}
"""Pages of engines that do not have their name."""
_OF_PROPERTIES = (
    "what the table's properties write.{delete,update,merge}.isolation-level say (serializable if they say nothing)"
)


def engine_facts(engine: Engine, library: Iterable[Scenario]) -> Facts:
    """Of an engine: version, promise, reach, known defects, commands, page."""
    yield VERSION, _version(engine)
    yield PROMISE, _promise(engine)
    yield REACHES, ", ".join(reached(engine))
    yield from _defects([s for s in library if _is_about(engine.name, s)])
    only = next((f" --format {f}" for f in engine.formats if ICEBERG not in engine.formats), "")
    yield RUN, f"{command()} run quick{only}" + ("" if engine.name == SPARK else f" --writers spark=1,{engine.name}=1")
    yield DOCUMENT, _PAGES.get(engine.name, f"docs/engines/{engine.name}.md")


def catalog_facts(catalog: Catalog, library: Iterable[Scenario]) -> Facts:
    """Of a catalog: known defects, those of Iceberg's client on every REST catalog, commands, page."""
    library = [*library]
    yield from _defects([s for s in library if _names_catalog(s) and s.catalog == catalog.name])
    if catalog.rest:
        names = [s.scenario for s in library if s.anomalies and _of_every_rest_catalog(s)]
        yield OF_CLIENTS, f"has these of Iceberg's client, where an answer is lost or wrong: {', '.join(names)}"
    yield RUN, f"{command()} run quick --catalog {catalog.name}"
    yield DOCUMENT, f"docs/catalogs/{catalog.name}.md"


def _version(engine: Engine) -> str:
    needs = engine.needs if isinstance(engine, Foreign) else None
    if needs is not None and not EXTRAS[needs].in_place(home()):
        return f"installed at first use, or by {command()} setup --engine {needs}"
    titles = {name: title for title, name in engine.software.items()}
    found = [f"{titles.get(name, name)} {version}" for name, version in of_engines([engine.name], {}).items()]
    return ", ".join(found) or f"Spark {DEFAULT.spark}, Iceberg {DEFAULT.iceberg}; another one by --iceberg"


def _promise(engine: Engine) -> str:
    """The levels, each with its kinds if there are several."""
    by_level: dict[str, list[str]] = {}
    for kind, promise in engine.promises.items():
        by_level.setdefault(promise.level or _OF_PROPERTIES, []).append(kind)
    if len(by_level) < 2:
        return next(iter(by_level), _OF_PROPERTIES)
    return "; ".join(f"{level}: {', '.join(kinds)}" for level, kinds in by_level.items())


def _is_about(engine: str, s: Scenario) -> bool:
    """Whether a scenario shows a defect of an engine; of Spark, those with no other writer and on no catalog in particular."""
    if engine == SPARK:
        return {*s.by_writer} == {SPARK} and not _names_catalog(s) and not _of_every_rest_catalog(s)
    return engine in s.by_writer


def _names_catalog(s: Scenario) -> bool:
    """Whether it is about the catalog that it has: it says so, or looks into the server."""
    inside = any(o.service == "database" or KINDS[o.do].by_transaction for o in s.operations)
    return "catalog" in s.model_fields_set or inside


def _of_every_rest_catalog(s: Scenario) -> bool:
    """Whether it strikes a request to a REST catalog, whichever it is: that is about Iceberg's client."""
    struck = any(o.fault is not None and o.service == "catalog" for o in s.operations)
    return struck and not _names_catalog(s) and {*s.by_writer} == {SPARK}


def _defects(scenarios: Iterable[Scenario]) -> Facts:
    """The scenarios that show a defect, with their threads, and the command that shows them."""
    found = [s for s in scenarios if s.anomalies]
    for s in found[:MOST_DEFECTS]:
        thread = words.link_label(s.link) if words.is_thread(s.link) else "no report known"
        state = s.state or (f"fixed in {SOFTWARE_TITLES[s.software]} {s.fixed}" if s.fixed else "")
        yield DEFECT, f"{s.scenario}: {s.shows} ({thread}{f', {state}' if state else ''})"
    if len(found) > MOST_DEFECTS:
        yield DEFECT, f"{len(found) - MOST_DEFECTS} more: {', '.join(s.scenario for s in found[MOST_DEFECTS:])}"
    if found:
        yield RUN, f"{command()} prove {' '.join(s.scenario for s in found[:MOST_DEFECTS])}"
    else:
        yield DEFECT, "none in the library of scenarios"
