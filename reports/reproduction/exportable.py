"""Which scenarios can be written as a script that runs without icequake, and why the others cannot."""

from __future__ import annotations

import shlex

from reports.reproduction.tested import untested
from workloads.engines.engines import SPARK
from workloads.file.scenario import Scenario, ScenarioStep
from workloads.operations.kind import STAGES
from workloads.operations.kinds import KINDS
from workloads.tables import ICEBERG

REST, NESSIE, JDBC = "rest", "nessie", "jdbc"
EXPORTABLE_CATALOGS = {REST: "", NESSIE: "CATALOG_URI names the server", JDBC: ""}
"""The catalogs that a script can start or be given, and what it needs to be told."""
OLDEST = (1, 10, 0)
"""What was fixed up to here needs Spark 3.5."""
PYICEBERG, DUCKDB = "pyiceberg", "duckdb"
EXPORTABLE_ENGINES = (SPARK, PYICEBERG, DUCKDB)
_CATALOGS = {
    "hadoop": "the moment that counts is a request to an object store",
    "hadoop-conditional": "the moment that counts is a request to an object store",
    "hadoop-locked": "it needs DynamoDB and a request to an object store",
    "hive": "it needs a proxy of Thrift",
    "hive-cas": "it needs a proxy of Thrift",
    "hive-nolock": "it needs a proxy of Thrift",
    "hive4": "it needs a proxy of Thrift",
    "glue": "it needs a server with Glue's interface",
    "glue-cas": "it needs a server with Glue's interface",
    "dynamodb": "it needs DynamoDB",
    "nessie-native": "it needs a proxy of Nessie's own interface",
}
_ENGINES = {
    "flink": "it needs Flink and a job of its own",
    "stream": "it needs a standing streaming query in a process of its own",
}


def form_of(scenario: Scenario, spark: str = "") -> tuple[str, str]:
    """How a scenario is exported, and what its file's name ends in: as a script, or where it cannot be one as the text for a tracker."""
    return ("script", "py") if why_not(scenario, spark) is None else ("issue", "md")


def export_line(program: str, what: str, form: str, file: str) -> str:
    """The command that writes a scenario's file.

    A program that another one calls, as in ``docker run …``, may not see the user's folder: the user's shell writes the file then.
    """
    called = len(shlex.split(program)) > 1
    return f"{program} {shlex.join(['export', what, '--as', form])} {'>' if called else '-o'} {shlex.quote(file)}"


def why_not(scenario: Scenario, spark: str = "") -> str | None:
    """Why a scenario cannot be written as a script, as a clause; None if it can. ``spark``: the version that the script would be for."""
    if scenario.catalog not in EXPORTABLE_CATALOGS:
        return _CATALOGS.get(scenario.catalog, "it needs a catalog of your own")
    if (
        scenario.software == "iceberg"
        and scenario.fixed is not None
        and tuple(map(int, scenario.fixed.split("."))) <= OLDEST
    ):
        return f"it needs a release before {scenario.fixed}, which no script has been seen to work with"
    if any(t.format != ICEBERG for t in scenario.tables):
        return "it needs Delta Lake, and a request to an object store"
    if scenario.repeat > 1:
        return "it shows rarely, among many operations"
    for name in scenario.by_writer:
        if name not in EXPORTABLE_ENGINES:
            return _ENGINES.get(name, f"it needs a writer of {name}")
    if (why := next((why for s in scenario.operations if (why := _step(scenario, s)) is not None), None)) is not None:
        return why
    if (why := untested(scenario)) is not None:
        return why
    return f"it needs Spark {spark}, which no script has been seen to work with" if spark.startswith("3.") else None


def _step(scenario: Scenario, step: ScenarioStep) -> str | None:
    kind = KINDS[step.do]
    if step.service == "database" or (step.gated and scenario.catalog == JDBC):
        return "it needs a proxy of PostgreSQL's protocol"
    if step.service != "catalog" or step.at not in ("commit", "load"):
        return "it holds a request to the object store"
    if step.kill:
        return "it kills a writer's process"
    if step.fault is not None and step.fault.action.remembers_loads:
        return "it needs a proxy that keeps old answers"
    if step.fault is not None and step.fault.times is not None:
        return "it faults several requests of a statement"
    if kind.by_transaction or kind.two_tables:
        return f"it commits by the endpoint for transactions ({step.do})"
    if any(STAGES in t.properties for t in scenario.tables):
        return "it stages commits"
    return None
