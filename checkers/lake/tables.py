"""The lake's tables: each column with its type, its unit and where it comes from. ``docs/lake.md`` is made from this file.

All tables have ``run`` and ``day``. ``run`` names a run: ``<workload>/<time>``, the last two parts of its folder. ``day`` is the UTC day on
which the run started, by which every table is partitioned. A run is in the lake if ``runs`` has it: its row there is written last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

VERSION = 1
"""Of these tables. A lake of another version is neither read nor written."""

TEXT, WHOLE, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
DAY, MOMENT = pa.date32(), pa.timestamp("us", "UTC")
TEXTS, WHOLES = pa.list_(TEXT), pa.list_(WHOLE)

WORDS = {
    TEXT: "string",
    WHOLE: "long",
    NUMBER: "double",
    FLAG: "boolean",
    DAY: "date",
    MOMENT: "timestamp, UTC",
    TEXTS: "list of string",
    WHOLES: "list of long",
}
"""Arrow's type → its name in Iceberg and Spark."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        unit: ``ms``, ``ns``, ``s``, ``rows``, ``bytes``, …; empty for a name or a number without unit.
        text: what it is, and from which file of the run's folder.
        null: whether it may be null; ``text`` says when.
    """

    name: str
    type: pa.DataType
    unit: str
    text: str
    null: bool = True


@dataclass(frozen=True)
class TableSchema:
    """One table."""

    name: str
    one: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Of its rows in Arrow."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.null) for c in self.columns])


def _table(name: str, one: str, *columns: Column) -> TableSchema:
    return TableSchema(name, one, (*KEYS, *columns))


KEYS = (
    Column("run", TEXT, "", "the run: `<workload>/<time>`, the last two parts of its folder", null=False),
    Column("day", DAY, "", "the UTC day on which the run started; the partition", null=False),
)

RUNS = _table(
    "runs", "a run",
    Column("night", DAY, "", "`night` of `plan.yaml`; without it the date of the last noon (UTC) before the run started", null=False),
    Column("started", MOMENT, "", "`run.json`, or the time in the folder's name", null=False),
    Column("finished", MOMENT, "", "`run.json`; null if the run did not come to its end"),
    Column("seconds", NUMBER, "s", "from the first invocation of the workload's phases to the last completion"),
    Column("suite", TEXT, "", "`suite` of `plan.yaml`: which experiment the run belongs to; null if none is given"),
    Column("workload", TEXT, "", "`plan.yaml`"),
    Column("scenario", TEXT, "", "`plan.yaml`; null for the run of a workload"),
    Column("catalog", TEXT, "", "`plan.yaml`; the name of the catalog"),
    Column("guard", TEXT, "", "`plan.yaml`: how the catalog guards against concurrent commits"),
    Column("seed", WHOLE, "", "`plan.yaml`"),
    Column("writers", WHOLE, "", "`plan.yaml`: their number"),
    Column("engines", TEXT, "", "`plan.yaml`: the writers' engines and how many of each, `spark=3,duckdb=1`"),
    Column("faults", TEXT, "", "`plan.yaml`: packages and verbs of the nemesis, separated by commas; empty for none"),
    Column("setup", TEXT, "", "`plan.yaml`: a hash of the work; runs that differ in seed and versions only have the same", null=False),
    Column("iceberg", TEXT, "", "`plan.yaml`: the release of the writers"),
    Column("iceberg_commit", TEXT, "", "`plan.yaml`: the commit that a user's runtime jar was built from; else null"),
    Column("spark", TEXT, "", "`plan.yaml`"),
    Column("java", TEXT, "", "`plan.yaml`"),
    Column("icequake", TEXT, "", "`plan.yaml`"),
    Column("state", TEXT, "", "`run.json`: complete, interrupted, failed, incomplete, running"),
    Column("verdict", TEXT, "", "`results.json`: valid, invalid, unknown; null if the run is not judged"),
    Column("outcome", TEXT, "", "`results.json`: what came of the scenario; null for the run of a workload"),
    Column("operations", WHOLE, "operations", "in the workload's phases"),
    Column("ok", WHOLE, "operations", "of these, acknowledged"),
    Column("failed", WHOLE, "operations", "of these, failed for certain"),
    Column("unknown", WHOLE, "operations", "of these, of unknown outcome"),
    Column("commits", WHOLE, "operations", "of these, acknowledged and with a snapshot on main"),
    Column("anomalies", WHOLE, "", "anomalies, without those that only confirm another one; null if the run is not judged"),
    Column("undocumented", WHOLE, "", "of these, those that Iceberg does not document as possible; null if the run is not judged"),
    Column("namespace", TEXT, "", "`plan.yaml`: of the run's tables; no other run has it"),
    Column("folder", TEXT, "", "where the run's folder was when it was added"),
    Column("command", TEXT, "", "`plan.yaml`: the command that repeats the run"),
    Column("added", MOMENT, "", "when the run was added to the lake", null=False),
)  # fmt: skip

OPERATIONS = _table(
    "operations", "an operation",
    Column("op", TEXT, "", "`history.jsonl`: the id of the operation", null=False),
    Column("process", TEXT, "", "`history.jsonl`: the logical client", null=False),
    Column("writer", WHOLE, "", "the writer, from the operation's id; null if the id names none"),
    Column("engine", TEXT, "", "`history.jsonl`: which engine executed it", null=False),
    Column("f", TEXT, "", "`history.jsonl`: its kind", null=False),
    Column("table", TEXT, "", "`history.jsonl`; null for an operation without a table"),
    Column("phase", TEXT, "", "`history.jsonl`: `setup` and `final-reads` stand around the workload's own phases"),
    Column("workload", FLAG, "", "whether its phase is one of the workload's", null=False),
    Column("writes", FLAG, "", "whether its kind can commit", null=False),
    Column("invoke_ns", WHOLE, "ns", "`history.jsonl`: its invocation, since the start of the run", null=False),
    Column("complete_ns", WHOLE, "ns", "`history.jsonl`: its completion; null if the run ended first"),
    Column("latency_ms", NUMBER, "ms", "from invocation to completion"),
    Column("outcome", TEXT, "", "`history.jsonl`: ok, fail, info (unknown)", null=False),
    Column("error", TEXT, "", "the most specific exception class; null if it was acknowledged or never completed"),
    Column("message", TEXT, "", "the pattern of that exception's message: ids and numbers are …"),
    Column("conflict", TEXT, "", "the class by which a concurrent commit aborted it; null for any other end"),
    Column("attempts", WHOLE, "attempts", "of its commit: as it recorded them, else by the name of the manifest list; null if not known"),
    Column("committed", FLAG, "", "whether it left a snapshot on main (`tablelog/`)", null=False),
    Column("in_fault", FLAG, "", "whether a fault was active at any time between invocation and completion", null=False),
)  # fmt: skip

ATTEMPTS = _table(
    "attempts", "an attempt to commit, of engines that record them ([sweep.md](sweep.md#one-commit-taken-apart))",
    Column("op", TEXT, "", "`history.jsonl`: the operation", null=False),
    Column("attempt", WHOLE, "", "its number, from 1", null=False),
    *(Column(f"{name}_ms", NUMBER, "ms", text, null=False) for name, text in (
        ("data", "data files were written before the first attempt"),
        ("wait", "backoff before it"),
        ("refresh", "the table's pointer and metadata were loaded again"),
        ("validate", "conflicts with other commits were looked for"),
        ("manifests", "manifests and the manifest list were written"),
        ("metadata", "the client wrote the metadata file"),
        ("swap", "the request that asks the catalog for the commit"),
    )),
    Column("reads", WHOLE, "requests", "to the object store", null=False),
    Column("read_bytes", WHOLE, "bytes", "read from it", null=False),
    Column("writes", WHOLE, "requests", "to the object store", null=False),
    Column("written_bytes", WHOLE, "bytes", "written to it", null=False),
    Column("parent", TEXT, "", "cold if another one had committed since the client last read the metadata; else hot", null=False),
    Column("outcome", TEXT, "", "committed, refused, invalid, unknown, error", null=False),
)  # fmt: skip

COMMITS = _table(
    "commits", "a snapshot of a table log",
    Column("table", TEXT, "", "`tablelog/`: the table's name in the workload file", null=False),
    Column("snapshot", WHOLE, "", "`tablelog/`: its id", null=False),
    Column("parent", WHOLE, "", "`tablelog/`: the id of its parent; null for the first"),
    Column("sequence_number", WHOLE, "", "`tablelog/`", null=False),
    Column("committed", MOMENT, "", "`tablelog/`: its time stamp, by the writer's clock", null=False),
    Column("operation", TEXT, "", "`tablelog/`: append, overwrite, replace, delete", null=False),
    Column("op", TEXT, "", "`tablelog/`: the operation that made it; null if it names none"),
    Column("f", TEXT, "", "the kind of that operation"),
    Column("attempts", WHOLE, "attempts", "`tablelog/`: the winning one included; null if not known"),
    Column("main", FLAG, "", "whether it is on main", null=False),
    Column("metadata", WHOLE, "", "`tablelog/`: number of the metadata version that first shows it", null=False),
    Column("added_data_files", WHOLE, "files", "`tablelog/`", null=False),
    Column("removed_data_files", WHOLE, "files", "`tablelog/`", null=False),
    Column("added_delete_files", WHOLE, "files", "`tablelog/`: position and equality deletes, deletion vectors", null=False),
    Column("removed_delete_files", WHOLE, "files", "`tablelog/`", null=False),
    Column("added_rows", WHOLE, "rows", "`tablelog/`: net; null if the rows could not be read"),
    Column("removed_rows", WHOLE, "rows", "`tablelog/`: net; null if the rows could not be read"),
    Column("added_bytes", WHOLE, "bytes", "`tablelog/`: of the files that it added", null=False),
)  # fmt: skip

REQUESTS = _table(
    "requests", "a request that passed a proxy ([nemesis.md](nemesis.md#what-is-recorded)); none without proxies",
    Column("time_ns", WHOLE, "ns", "`proxy.jsonl`: since the start of the run", null=False),
    Column("ms", NUMBER, "ms", "`proxy.jsonl`: how long it took"),
    Column("writer", WHOLE, "", "`proxy.jsonl`; null for a server's own request"),
    Column("service", TEXT, "", "`proxy.jsonl`: catalog, store, database"),
    Column("kind", TEXT, "", "`proxy.jsonl`: commit, create, load, read, write, …"),
    Column("what", TEXT, "", "`proxy.jsonl`: method and path, or the statement"),
    Column("table", TEXT, "", "`proxy.jsonl`"),
    Column("op", TEXT, "", "`proxy.jsonl`: the operation"),
    Column("base", TEXT, "", "`proxy.jsonl`: what a commit builds on: a snapshot id, or a metadata file"),
    Column("new", TEXT, "", "`proxy.jsonl`: what replaces it"),
    Column("status", TEXT, "", "`proxy.jsonl`: the answer"),
    Column("faults", TEXTS, "", "`proxy.jsonl`: the faults that struck it; null for none"),
)  # fmt: skip

ANOMALIES = _table(
    "anomalies", "an anomaly",
    Column("name", TEXT, "", "`results.json`", null=False),
    Column("checker", TEXT, "", "`results.json`: who found it", null=False),
    Column("table", TEXT, "", "`results.json`; null if it concerns none or all"),
    Column("explanation", TEXT, "", "`results.json`", null=False),
    Column("documented", TEXT, "", "`results.json`: a link, if Iceberg documents it as possible; else null"),
    Column("same_as", TEXT, "", "`results.json`: the anomaly of another checker that it only confirms; else null"),
    Column("expected", FLAG, "", "whether the workload expects it", null=False),
    Column("allowed", FLAG, "", "whether the workload allows it", null=False),
    Column("ops", TEXTS, "", "`results.json`: the operations involved, the offender first", null=False),
    Column("snapshots", WHOLES, "", "`results.json`: in commit order", null=False),
    Column("keys", WHOLES, "", "`results.json`: ids of the rows involved", null=False),
    Column("files", TEXTS, "", "`results.json`", null=False),
)  # fmt: skip

FAULTS = _table(
    "faults", "a time during which a fault was active",
    Column("name", TEXT, "", "`history.jsonl`: the fault", null=False),
    Column("start_ns", WHOLE, "ns", "`history.jsonl`: since the start of the run", null=False),
    Column("end_ns", WHOLE, "ns", "`history.jsonl`; of a fault that nothing ended, the last event", null=False),
    Column("ended", FLAG, "", "whether something ended it", null=False),
    Column("verb", TEXT, "", "`history.jsonl`: what it does"),
    Column("target", TEXT, "", "`history.jsonl`: the process that it strikes; null for a fault of requests"),
    Column("hits", WHOLE, "", "`history.jsonl`: how many requests or processes it struck; null if not recorded"),
    Column("missed", WHOLE, "", "`history.jsonl`: how often there was nothing to strike; null if not recorded"),
)  # fmt: skip

METRICS = _table(
    "metrics", "a number of a run ([compare.md](compare.md))",
    Column("name", TEXT, "", "a figure of `compare`, `requests` (for each commit), or `conflicts`", null=False),
    Column("value", NUMBER, "", "the number, in `unit`", null=False),
    Column("unit", TEXT, "", "ms, s, share (0 to 1), rate (a second), count", null=False),
    Column("better", TEXT, "", "less or more", null=False),
    Column("service", TEXT, "", "of `requests`: the service; else null"),
    Column("kind", TEXT, "", "of `requests`: the kind of request; of `conflicts`: the kind of operation that met one"),
    Column("by", TEXT, "", "of `conflicts`: the kind of operation whose commit it met; else null"),
)  # fmt: skip

TABLES: tuple[TableSchema, ...] = (OPERATIONS, ATTEMPTS, COMMITS, REQUESTS, ANOMALIES, FAULTS, METRICS, RUNS)
"""All tables, in the order in which a run's rows are written: ``runs`` last."""
BY_NAME = {t.name: t for t in TABLES}


def documented() -> str:
    """The tables as Markdown, for ``docs/lake.md``."""
    parts = []
    for t in (RUNS, *TABLES[:-1]):
        lines = [
            f"### `{t.name}`",
            "",
            f"One row for {t.one}.",
            "",
            "| column | type | unit | what it is |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{c.name}` | {WORDS[c.type]} | {c.unit} | {c.text} |" for c in t.columns]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
