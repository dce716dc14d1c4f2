"""A scenario as one Python file that runs without icequake: the tables, the statements, who waits for whom, and what must come of it.

The file is made of the parts in ``templates/reproduction``. One part starts Iceberg's own REST catalog on SQLite and local files, one is a
proxy before it for each writer, which holds or strikes one request. So every scenario on a REST catalog has the same form.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any

from checkers.names import meaning
from compose.install.jars import read_lock
from compose.install.releases import DEFAULT, RELEASES, Release
from compose.redaction import masked
from reports.reproduction.expected import afterwards, observed, read_by, required
from reports.reproduction.exportable import DUCKDB, JDBC, NESSIE, PYICEBERG, REST, why_not
from reports.reproduction.tested import BY_COLUMN, IN_METADATA, KEPT_ROW_ID
from workloads import ddl
from workloads.engines.duckdb import ATTACH, SET, translated
from workloads.engines.engines import SPARK
from workloads.engines.pyiceberg import DELETES, OWN_PREFIX, READS, selected
from workloads.file.scenario import Scenario, ScenarioStep
from workloads.operations.kind import ROWS, Statement, new_row, new_rows, row_values
from workloads.operations.kinds import KINDS
from workloads.tables import SQL_COLUMNS, TableSpec

OWN_JAR, OWN_EXTENSION = "ICEBERG_JAR", "DUCKDB_ICEBERG"
"""The variables that name a runtime jar, and an Iceberg extension of DuckDB, of one's own for a script."""
WRITTEN, FIXED = "written", "fixed"
"""What a script may be asked to expect: what its scenario says, or that a fix keeps the defect away."""
PLACE = "c.repro"
"""Catalog and namespace of every script's tables."""
LINE_WIDTH = 110
LASTS = "It takes about a minute on a free machine, and two to four on a busy one; the first time it also fetches about 130 MB of jars"
"""Measured of four scripts: 117 to 202 s on two cores at a load of 13 to 17."""
PINNED = ("pyiceberg[pyarrow,sql-sqlite]==0.12.0",)
DUCKDBS = tuple(
    f"{p}==1.5.5" for p in ("duckdb", "duckdb-extension-httpfs", "duckdb-extension-avro", "duckdb-extension-iceberg")
)


class NotExportable(ValueError):
    """A scenario needs more than a script can bring with it; the message is one sentence that says what."""


def script(scenario: Scenario, versions: Mapping[str, str] | None = None, name: str = "") -> str:
    """The text of the file.

    Args:
        name: of the file, without its ending; empty: the scenario's.
        versions: what a run of it had, whose release the script takes; None: the newest one that shows it.

    Raises:
        NotExportable: it cannot be one.
    """
    # Others get it; CATALOG_PROPERTIES gives it one's own secrets.
    scenario = scenario.model_copy(update={"catalog_properties": masked(scenario.catalog_properties)})
    release = release_for(scenario, versions)
    if (why := why_not(scenario, release.spark)) is not None:
        raise NotExportable(f"{scenario.scenario} cannot be exported as a script: {why}")
    engines = set(scenario.by_writer)
    rest = scenario.catalog != JDBC
    own = own_build(versions or {})
    parts = [
        _about(scenario, release, own, shlex.quote(f"{name or scenario.scenario}.py")),
        _imports(engines, rest, installs(scenario, release)),
        _constants(scenario, release),
        _part("steps"),
        *_steps(scenario),
    ]
    parts += [_part("equality")] if "equality_delete(" in "".join(parts) else []
    parts += [_part(name) for name in ("proxy",) if rest]
    parts += (
        [_part("server").replace("@SERVER@", textwrap.fill(" ".join(_server()), LINE_WIDTH, break_on_hyphens=False))]
        if rest
        else []
    )
    parts += [_part("jars"), _part("spark"), *(_part(e) for e in (PYICEBERG, DUCKDB) if e in engines)]
    parts += [_part("metadata")] if _names(scenario) & {*IN_METADATA} else []
    parts += [_properties(scenario, engines), _part("run"), _main(scenario, rest, _must(release, own))]
    return "\n\n\n".join(p.strip("\n") for p in parts).replace("@ATTACH@", _attach(scenario)) + "\n"


def release_for(scenario: Scenario, versions: Mapping[str, str] | None = None) -> Release:
    """The release of the run that had these versions; else the newest one that shows what the scenario says.

    Of a run on a build of one's own it has the build's number, and what is beside it.
    """
    ran = (versions or {}).get("iceberg", "")
    if versions is not None and own_build(versions):
        beside = [r for r in RELEASES if r.spark == versions.get("spark")] or [DEFAULT]
        return replace(beside[0], iceberg=ran)
    shown = next((r for r in RELEASES if _shows(scenario, r)), DEFAULT)
    return next((r for r in RELEASES if r.iceberg == ran), shown)


def own_build(versions: Mapping[str, str]) -> str:
    """What is known of the build of one's own that a run had, in words; empty if it had a release."""
    if "iceberg-jar" not in versions:
        return ""
    commit = versions.get("iceberg-commit")
    sha256 = versions["iceberg-jar"].removeprefix("sha256:")
    return f"a build of one's own{f' of commit {commit}' if commit else ''}, its jar has the SHA-256 {sha256}"


def fixed_by(scenario: Scenario) -> str:
    """What a script is given to test a fix of the engine at fault, before its command; empty: a package that is installed."""
    engines = set(scenario.by_writer)
    own = OWN_JAR if engines == {SPARK} else OWN_EXTENSION if DUCKDB in engines else ""
    return f"{own}=FILE" if own else ""


def _shows(scenario: Scenario, release: Release) -> bool:
    tested, own = _number(release.iceberg), scenario.software == "iceberg"
    version, fixed = (scenario.since, scenario.fixed) if own else (None, None)
    newest = max(t.format_version for t in scenario.tables)
    return (
        (version is None or tested >= _number(version))
        and (fixed is None or tested < _number(fixed))
        and release.newest_format >= newest
    )


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def pinned(scenario: Scenario, release: Release | None = None) -> tuple[str, ...]:
    """The packages that a script needs, with their versions; ``release``: if not the newest one that shows what the scenario says."""
    engines = set(scenario.by_writer)
    more = (PINNED if PYICEBERG in engines else ()) + (DUCKDBS if DUCKDB in engines else ())
    return (f"pyspark=={(release or release_for(scenario)).spark}", *more)


def _part(name: str) -> str:
    return resources.files("reports").joinpath(f"templates/reproduction/{name}.txt").read_text(encoding="utf-8")


def _server() -> Iterator[str]:
    """The jars of Iceberg's REST server, without the drivers of other databases and stores."""
    needless = ("postgresql", "iceberg-aws-bundle", "iceberg-aws")
    for jar in read_lock():
        if REST in jar.confs and jar.artifact not in needless:
            yield jar.coordinates
    yield next(j.coordinates for j in read_lock() if j.artifact == "sqlite-jdbc")


def _runtime(scenario: Scenario, release: Release) -> list[str]:
    """The jars of Spark's driver, the runtime first."""
    conf = release.conf
    runtime = next(j for j in read_lock() if conf in j.confs and j.artifact.startswith("iceberg-spark-runtime"))
    found = [j for j in read_lock() if j.artifact == "sqlite-jdbc" and scenario.catalog == JDBC]
    found += [
        j for j in read_lock() if j.artifact == "iceberg-aws-bundle" and conf in j.confs and scenario.catalog == NESSIE
    ]
    return [":".join((*runtime.coordinates.split(":")[:2], release.iceberg)), *(j.coordinates for j in found)]


def headline(scenario: Scenario) -> str:
    """What it shows, as a sentence without its stop.

    A scenario that ``shrink`` wrote says the name of its anomaly; those who read a tracker do not know the name, so they get its meaning.
    """
    first = re.split(r",? (?:with|rarely)\b", scenario.shows)[0]
    if first in _names(scenario) and (found := meaning(first)) is not None:
        return found.sentence.rstrip(".")
    return scenario.shows[:1].upper() + scenario.shows[1:]


def installs(scenario: Scenario, release: Release) -> str:
    """The command of the shell that installs what a script needs."""
    return f"pip install {' '.join(map(_shell, pinned(scenario, release)))}"


def _about(scenario: Scenario, release: Release, own: str, file: str) -> str:
    lines = [headline(scenario) + ".", scenario.description, f"Affected: {scenario.affected}.", scenario.link]
    lines += [f"Remedy: {scenario.remedy}"] if scenario.remedy else []
    lines += [f"What must come: {required(scenario)}", f"What comes:     {observed(scenario)}"]
    jar = f"{OWN_JAR}=FILE " if own else ""
    lines.append(f"    {installs(scenario, release)}\n    {jar}python -I {file}")
    comes = "comes from Maven Central, or from the folder JARS if that is set"
    comes = f"is {own}: {OWN_JAR} names the file. What is beside it {comes}" if own else comes
    needs = f"Needs Java 17 or 21. Iceberg {release.iceberg} {comes}"
    here = "; the catalog, SQLite and the files are in a temporary folder"
    lasts = f". {LASTS}"
    codes = ". Exit code 0 if it came as written here, 1 if not, 2 if it could not be tested."
    how = f"{fixed_by(scenario) or 'install it, and'} python -I {file} --expect {FIXED}"
    fixed = f" To test a fix: {how}. Exit code 0 then means that the defect is gone." if scenario.anomalies else ""
    fixed += _OTHERS[fixed_by(scenario).partition("=")[0]] if fixed else ""
    lines.append(needs + (here if scenario.catalog in (REST, JDBC) else "") + lasts + codes + fixed)
    if scenario.catalog not in (REST, JDBC):
        lines.append(_compose(scenario.catalog))
    text = "\n\n".join(
        s
        if s.startswith("    ") or "\n  " in s
        else textwrap.fill(s, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
        for s in lines
    )
    return '"""' + text.replace("\\", "\\\\").replace('"""', "'''") + '\n"""'


_OTHERS = {
    OWN_JAR: " A jar for another Spark wants that pyspark: iceberg-spark-runtime-4.0_2.13-….jar wants pip install 'pyspark==4.0.*'.",
    OWN_EXTENSION: " The file is iceberg.duckdb_extension, built for the duckdb that is installed. For a released fix, install that release "
    "of duckdb and of the packages duckdb-extension-… instead.",
    "": "",
}
"""What fixes a defect → what must be installed for it."""


def _compose(catalog: str) -> str:
    return (
        f"CATALOG_URI is the address of {catalog.capitalize()}'s REST endpoint, and CATALOG_PROPERTIES more properties of the catalog as JSON. "
        f"A compose file, and what to set with it:\n\n{_part(catalog).rstrip()}"
    )


def _shell(package: str) -> str:
    return f"'{package}'" if "[" in package else package


def _imports(engines: set[str], rest: bool, install: str) -> str:
    names = {
        "argparse",
        "contextlib",
        "importlib.metadata",
        "json",
        "os",
        "re",
        "shutil",
        "signal",
        "socket",
        "struct",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "traceback",
        "zipfile",
    }
    lines = [f"import {n}" for n in sorted(names if rest else names - {"socket", "struct"})]
    lines.insert(len(lines), "from datetime import datetime, timezone")
    lines += (
        [
            "from http.client import HTTPConnection",
            "from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer",
        ]
        if rest
        else []
    )
    lines += ["from pathlib import Path", "from types import SimpleNamespace"]
    lines += ["from urllib.parse import urlsplit", "from urllib.request import urlopen"] if rest else []
    packages = ["import duckdb"] if DUCKDB in engines else []
    packages += ["import pyarrow as pa"] if PYICEBERG in engines else []
    packages += ["import pyspark", "from py4j.java_gateway import JavaClass"]
    packages += ["from pyiceberg.catalog import load_catalog"] if PYICEBERG in engines else []
    packages += ["from pyspark import SparkContext", "from pyspark.sql import SparkSession"]
    # Python's own end would be exit code 1, which says that it did not come as written.
    absent = [
        "except ImportError as e:",
        f'    print(f"NOT TESTED: {{e}}: {install}", file=sys.stderr)',
        "    sys.exit(2)",
    ]
    return "\n".join([*lines, "", "try:", *(f"    {line}" for line in packages), *absent])


def _constants(scenario: Scenario, release: Release) -> str:
    lines = [f"HEADLINE = {_quoted(scenario.shows)}", f'PYSPARK = "{release.spark}"']
    lines += [f"RUNTIME = {_list(_runtime(scenario, release))}", f"WRITERS = {_list(scenario.by_writer)}", "TABLES = ["]
    lines += [textwrap.indent(_quoted(sql) + ",", "    ") for sql in tables_of(scenario)]
    expect = [WRITTEN, *([FIXED] if scenario.anomalies else [])]
    return "\n".join([*lines, "]", f"CATALOG = {_catalog(scenario)}", f"EXPECT = {_list(expect)}"])


def _catalog(scenario: Scenario) -> str:
    """The expression that names the catalog of a script."""
    if scenario.catalog == JDBC:
        return _quoted("Iceberg's JDBC catalog on SQLite")
    server = next(j.version for j in read_lock() if REST in j.confs and j.artifact == "iceberg-core")
    own = _quoted(f"Iceberg's REST server {server} on SQLite")
    return f'os.environ.get("CATALOG_URI") or {own}'


def tables_of(scenario: Scenario) -> Iterator[str]:
    """The statements of Spark that make the tables and fill them."""
    for table in scenario.tables:
        full_name = f"{PLACE}.{table.name}"
        needless = [k for k in ddl.defaults(table, _commands(scenario)) if k not in table.properties]
        yield f"CREATE TABLE {full_name} ({SQL_COLUMNS}) {ddl.definition(table, without=needless).format()}"
        if table.seed_rows:
            rows = row_values(new_row(i, "seed", table) for i in range(table.seed_rows))
            yield f"INSERT INTO {full_name} ({ROWS}) VALUES {rows}"


def _commands(scenario: Scenario) -> frozenset[str]:
    """The commands of the ``write.<command>.…`` properties that its statements are: delete, update, merge."""
    texts = [sql for s in scenario.operations for sql in statements_of(scenario, s)]
    return frozenset(c for c in ddl.COMMANDS if any(re.match(rf"\s*{c}\b", sql, re.IGNORECASE) for sql in texts))


def statements_of(scenario: Scenario, step: ScenarioStep) -> list[str]:
    """The statements of a step as text; none if it is no statement."""
    statements = KINDS[step.do].statements(step.value, step.name, scenario.table(step))
    return [_text(s, scenario.table(step)) for s in statements if s.action is None]


def _list(words: list[str] | tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{w}"' for w in words) + "]"


def _quoted(text: str, f: str = "") -> str:
    """A Python string, over several lines if it is long."""
    mark = "'" if '"' in text and "'" not in text else '"'
    if mark in text or "\\" in text:
        return f + repr(text)
    if len(text) <= LINE_WIDTH:
        return f"{f}{mark}{text}{mark}"
    pieces = textwrap.wrap(text, LINE_WIDTH, drop_whitespace=False, break_long_words=False, break_on_hyphens=False)
    return "(\n" + "\n".join(f"    {f}{mark}{p}{mark}" for p in pieces) + "\n)"


# --- the operations ----------------------------------------------------------------------------------------------------


def _steps(scenario: Scenario) -> Iterator[str]:
    for step in scenario.operations:
        engine = scenario.by_writer[step.writer]
        body = {SPARK: _in_spark, PYICEBERG: _in_pyiceberg, DUCKDB: _in_duckdb}[engine](scenario, step)
        client = {SPARK: "spark", PYICEBERG: "catalog", DUCKDB: "client"}[engine]
        lines = textwrap.indent("\n".join(body), "    ")
        yield f"@step({_step_call(scenario, step)})\ndef _({client}):\n{lines}"


def _step_call(scenario: Scenario, step: ScenarioStep) -> str:
    arguments = [f'"{step.name}"', f"writer={step.writer}"]
    arguments += [f"{k}={_mapping(v)}" for k, v in (("after", step.after), ("hold", step.hold)) if v]
    if step.fault is not None:
        fault: dict[str, Any] = {"verb": step.fault.verb}
        fault |= {"status": step.fault.status} if step.fault.status is not None else {}
        text = _mapping(fault)
        if step.fault.retry_after is not None:
            text = f'{text[:-1]}, "headers": {{"Retry-After": "{step.fault.retry_after}"}}}}'
        arguments.append(f"fault={text}")
    arguments += [f'at="{step.at}"'] if step.at != "commit" else []
    arguments += [f"nth={step.nth}"] if step.nth != 1 else []
    if step.expect.type != "ok":
        arguments.append(f"fails={_quoted(step.expect.message or step.expect.error or '')}")
    rows = read_by(scenario, step)
    arguments += [f"reads={rows}"] if rows is not None and step.expect.type == "ok" else []
    text = ", ".join(arguments)
    return text if len(text) < LINE_WIDTH + 20 else "\n    " + ",\n    ".join(arguments) + ",\n"


def _mapping(value: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f'"{k}": "{v}"' if isinstance(v, str) else f'"{k}": {v}' for k, v in value.items()) + "}"


BOUND = {name: f"{{{name}}}" for name in ("snapshot", "older_than", "first", "second", "again", "since", "time")}
"""What a statement takes from one before it; in a script an f-string fills it in."""


def _text(statement: Statement, table: TableSpec) -> str:
    """Its SQL, with the places of what is bound."""
    placeholders = {
        "table": f"{PLACE}.{table.name}",
        "identifier": f"repro.{table.name}",
        "catalog": "c",
        "namespace": "repro",
    }
    return statement.sql.format_map(placeholders | BOUND)


def _in_spark(scenario: Scenario, step: ScenarioStep) -> Iterator[str]:
    table = scenario.table(step)
    kind = KINDS[step.do]
    if scenario.operations[-1] is step and KEPT_ROW_ID in _names(scenario):
        yield f'BEFORE.update({{r.id: r._row_id for r in spark.sql("SELECT id, _row_id FROM {PLACE}.{table.name}").collect()}})'
    for statement in kind.statements(step.value, step.name, table):
        sql = _text(statement, table)
        text = _quoted(sql, "f" if any(v in sql for v in BOUND.values()) else "")
        if "{older_than}" in sql:
            yield 'older_than = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")'
        for key, value in statement.settings.items():
            yield f'spark.conf.set("{key}", "{value}")'
        if statement.action is not None:
            yield from _action(statement.action, f"{PLACE}.{table.name}")
        elif statement.bind is not None:
            yield f"{statement.bind} = spark.sql({text}).collect()[-1][0]"
        else:
            yield f"{'return ' if kind.verb == 'read' else ''}spark.sql({text}).collect()"


def _action(action: Mapping[str, Any], table: str) -> Iterator[str]:
    if action["name"] == "equality-delete":
        more = f", rows={action['rows']}" if action["rows"] else ""
        more += ", validated=True" if action["validated"] else ""
        yield f'equality_delete(spark, "{table}", keys={action["keys"]}{more})'
        return
    yield "spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)"
    yield "iceberg = spark._jvm.org.apache.iceberg.spark"
    yield f'table = iceberg.Spark3Util.loadIcebergTable(spark._jsparkSession, "{table}")'
    yield "orphans = iceberg.actions.SparkActions.get(spark._jsparkSession).deleteOrphanFiles(table)"
    yield f"orphans.olderThan(int(time.time() * 1000) - {1000 * action['older_than_s']}).execute()"


def _in_pyiceberg(scenario: Scenario, step: ScenarioStep) -> Iterator[str]:
    table, op = scenario.table(step), step.name
    yield f'table = catalog.load_table("repro.{table.name}")'
    taken = selected(step.do, step.value, table)
    if step.do in READS:
        yield 'return [(i,) for i in table.scan(selected_fields=("id",)).to_arrow()["id"].to_pylist()]'
        return
    yield "change = table.transaction()"
    made = [r._asdict() for r in new_rows(step.value, op, table)] if "ids" in step.value else []
    if step.do == "insert":
        yield f"change.append(arrow({made}))"
    elif step.do == "upsert":
        yield f'change.upsert(arrow({made}), join_cols=["id"])'
    elif step.do == "overwrite-partitions":
        yield f"change.dynamic_partition_overwrite(arrow({made}))"
    elif step.do in DELETES:
        yield f'change.delete("{taken}")'
    else:
        column, new = {"counter": ("cnt", 'r["cnt"] + 1'), "register": ("val", f'"{op}"')}.get(
            step.do.removeprefix("update-").removesuffix("-where"), ("log", f'r["log"] + ",{op}"')
        )
        yield f'rows = [{{**r, "{column}": {new}}} for r in table.scan(row_filter="{taken}").to_arrow().to_pylist()]'
        yield f'change.overwrite(arrow(rows), "{taken}")'
    yield "change.commit_transaction()"


def _in_duckdb(scenario: Scenario, step: ScenarioStep) -> Iterator[str]:
    table, kind = scenario.table(step), KINDS[step.do]
    for statement in kind.statements(step.value, step.name, table):
        text = translated(statement.sql).format(table=f"{PLACE}.{table.name}")
        back = "return " if kind.verb == "read" else ""
        yield f"{back}client.execute({_quoted(text)}).fetchall()"


# --- catalog, and what must have come ----------------------------------------------------------------------------------


def _properties(scenario: Scenario, engines: set[str]) -> str:
    own = {k: v for k, v in scenario.catalog_properties.items() if not k.startswith((OWN_PREFIX, ATTACH, SET))}
    if scenario.catalog == JDBC:
        spark = {"type": "jdbc", "jdbc.schema-version": "V1", **own}
        place = '"uri": f"jdbc:sqlite:{address}/catalog.db", "warehouse": f"file:{address}/warehouse"'
    else:
        spark, place = (
            {"type": "rest", **own},
            '"uri": address, **json.loads(os.environ.get("CATALOG_PROPERTIES", "{}"))',
        )
    lines = ["def properties(address):", f"    return {{{_mapping(spark)[1:-1]}, {place}}}"]
    if PYICEBERG in engines:
        own_properties = {
            k.removeprefix(OWN_PREFIX): v for k, v in scenario.catalog_properties.items() if k.startswith(OWN_PREFIX)
        }
        location = (
            '"uri": f"sqlite:///{address}/catalog.db", "warehouse": f"file:{address}/warehouse"'
            if scenario.catalog == JDBC
            else '"uri": address'
        )
        kind = "sql" if scenario.catalog == JDBC else "rest"
        lines += [
            "",
            "",
            "def pyiceberg_properties(address):",
            f'    return {{"type": "{kind}", {location}{"".join(f", {_mapping({k: v})[1:-1]}" for k, v in own_properties.items())}}}',
        ]
    if DUCKDB in engines:
        settings = [
            f"SET {k.removeprefix(SET)} = '{v}'" for k, v in scenario.catalog_properties.items() if k.startswith(SET)
        ]
        lines += ["", "", f"DUCKDB_SETTINGS = {_list(settings)}"]
    opens = ['"spark": lambda spark, address: session(spark, properties(address))']
    opens += [f'"{e}": open_{e}' for e in (PYICEBERG, DUCKDB) if e in engines]
    return "\n".join([*lines, "", "", f"OPEN = {{{', '.join(opens)}}}", "BEFORE = {}"])


def _attach(scenario: Scenario) -> str:
    given = {k.removeprefix(ATTACH): v for k, v in scenario.catalog_properties.items() if k.startswith(ATTACH)}
    return "".join(f", {k} '{v}'" for k, v in given.items())


def _names(scenario: Scenario) -> set[str]:
    return {a.name for a in scenario.anomalies}


def _main(scenario: Scenario, rest: bool, must: str) -> str:
    text = _part("main").replace("@CHECKS@", textwrap.indent("\n".join(_checks(scenario)), "    "))
    more = f", {OWN_EXTENSION} (an Iceberg extension of DuckDB that you built)" if DUCKDB in scenario.by_writer else ""
    more += ", CATALOG_URI and CATALOG_PROPERTIES (a REST catalog of your own)" if rest else ""
    text = text.replace("@URI@", more)
    text = text.replace("@CODES@", "\n".join(_codes(scenario))).replace("@MUST@\n", textwrap.indent(must, "    "))
    if not rest:
        text = text.replace("catalog_server(folder, started)", "folder").replace(
            "at = proxy(catalog)", "at = SimpleNamespace(address=catalog)"
        )
    return text


def _must(release: Release, own: str) -> str:
    """The lines that end a script without the jar that it is about; ``own``: as :func:`own_build`."""
    if not own:
        return ""
    wants = _quoted(f"{OWN_JAR} must name the jar of Iceberg {release.iceberg}, {own}")
    return f'if "{OWN_JAR}" not in os.environ:\n    print({wants}, file=sys.stderr)\n    sys.exit(2)\n'


def _codes(scenario: Scenario) -> Iterator[str]:
    """What the exit codes of a script mean."""
    if not scenario.anomalies:
        yield "  0: it came as written here (REPRODUCED)    1: it did not    2: it could not be tested    130, 143: stopped"
        return
    yield "  --expect written   0: it came as written here (REPRODUCED)    1: it did not (NOT REPRODUCED)    2: it could not be tested"
    yield "  --expect fixed     0: NOT REPRODUCED, and the defect is gone  1: it still shows                 2: it could not be tested"
    yield "  130, 143: stopped"


def _checks(scenario: Scenario) -> Iterator[str]:
    """The lines that compare. ``shown`` gets whether the table itself shows the defect, ``rows`` whether its rows do."""
    names, legal = _names(scenario), afterwards(scenario)
    told = (
        bool(legal) or "unreadable" in scenario.final.values() or bool(names & {*IN_METADATA, *BY_COLUMN, KEPT_ROW_ID})
    )
    for table, ids in scenario.final.items():
        if ids == "unreadable":
            yield f'good.append(check("{table} can be read", readable(after, "{table}"), False))'
            yield "shown.append(good[-1])"
        elif ids != "unchecked":
            should = legal.get(table)
            yield f'good.append(check("ids in {table}", came := ids(after, "{table}"), {list(ids)}{f", {should}" if should else ""}))'
            if should:
                yield f"rows.append(came not in {should})"
            elif not told:
                yield "rows.append(good[-1])"
    if not told:
        yield "rows += reads"
    for step in scenario.operations:
        if step.do == "add-column" and step.expect.type == "ok" and "unreadable" not in scenario.final.values():
            has_column = "vanished-schema" not in names
            full_name, column = f"{PLACE}.{scenario.table(step).name}", step.value["column"]
            yield f'good.append(check("{column} is a column", "{column}" in after.table("{full_name}").columns, {has_column}))'
            if not has_column:
                yield "shown.append(good[-1])"
    if numbered := [name for name in IN_METADATA if name in names]:
        yield f"tables = [in_files(after, table) for table in {[t.name for t in scenario.tables]}]"
    for name in numbered:
        means = meaning(name)
        told_as = name if means is None else f"{means.sentence.rstrip('.')} ({name})"
        yield f"good.append(differs({_quoted(told_as)}, {IN_METADATA[name]}, tables))"
        yield "shown.append(good[-1])"
    table = f"{PLACE}.{scenario.tables[0].name}"
    if KEPT_ROW_ID in names:
        yield f'now = {{r.id: r._row_id for r in after.sql("SELECT id, _row_id FROM {table}").collect()}}'
        yield 'good.append(check("rows that were there have another row id", any(now[i] != BEFORE[i] for i in BEFORE), True))'
        yield "shown.append(good[-1])"
