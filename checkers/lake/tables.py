"""The lake's tables: each column with its type, its unit and where it comes from. ``docs/lake.md`` is made from this file.

All tables have ``run`` and ``day``. ``run`` names a run: ``<workload>/<time>``, the last two parts of its folder. ``day`` is the UTC day on
which the run started, by which every table is partitioned. A run is in the lake if ``runs`` has it: its row there is written last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

LAKE_VERSION = 1
"""Of these tables. A lake of another version is neither read nor written."""

TEXT, WHOLE, NUMBER, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
DAY, MOMENT = pa.date32(), pa.timestamp("us", "UTC")
TEXTS, WHOLES = pa.list_(TEXT), pa.list_(WHOLE)

TYPE_WORDS = {
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
class LakeColumn:
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
    row_of: str
    columns: tuple[LakeColumn, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """Of its rows in Arrow."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.null) for c in self.columns])


def _table(name: str, record: str, *columns: LakeColumn) -> TableSchema:
    return TableSchema(name, record, (*RUN_KEYS, *columns))


RUN_KEYS = (
    LakeColumn("run", TEXT, "", "the run: `<workload>/<time>`, the last two parts of its folder", null=False),
    LakeColumn("day", DAY, "", "the UTC day on which the run started; the partition", null=False),
)

RUNS_TABLE = _table(
    "runs", "a run",
    LakeColumn("night", DAY, "", "`night` of `plan.yaml`; without it the date of the last noon (UTC) before the run started", null=False),
    LakeColumn("started", MOMENT, "", "`run.json`, or the time in the folder's name", null=False),
    LakeColumn("finished", MOMENT, "", "`run.json`; null if the run did not come to its end"),
    LakeColumn("seconds", NUMBER, "s", "from the first invocation of the workload's phases to the last completion"),
    LakeColumn("suite", TEXT, "", "`suite` of `plan.yaml`: which experiment the run belongs to; null if none is given"),
    LakeColumn("workload", TEXT, "", "`plan.yaml`"),
    LakeColumn("scenario", TEXT, "", "`plan.yaml`; null for the run of a workload"),
    LakeColumn("catalog", TEXT, "", "`plan.yaml`; the name of the catalog"),
    LakeColumn("guard", TEXT, "", "`plan.yaml`: how the catalog guards against concurrent commits"),
    LakeColumn("seed", WHOLE, "", "`plan.yaml`"),
    LakeColumn("writers", WHOLE, "", "`plan.yaml`: their number"),
    LakeColumn("engines", TEXT, "", "`plan.yaml`: the writers' engines and how many of each, `spark=3,duckdb=1`"),
    LakeColumn("faults", TEXT, "", "`plan.yaml`: packages and verbs of the nemesis, separated by commas; empty for none"),
    LakeColumn("setup", TEXT, "", "`plan.yaml`: a hash of the work; runs that differ in seed and versions only have the same", null=False),
    LakeColumn("iceberg", TEXT, "", "`plan.yaml`: the release of the writers"),
    LakeColumn("iceberg_commit", TEXT, "", "`plan.yaml`: the commit that a user's runtime jar was built from; else null"),
    LakeColumn("spark", TEXT, "", "`plan.yaml`"),
    LakeColumn("java", TEXT, "", "`plan.yaml`"),
    LakeColumn("icequake", TEXT, "", "`plan.yaml`"),
    LakeColumn("state", TEXT, "", "`run.json`: complete, interrupted, failed, incomplete, running"),
    LakeColumn("verdict", TEXT, "", "`results.json`: valid, invalid, unknown; null if the run is not judged"),
    LakeColumn("outcome", TEXT, "", "`results.json`: what came of the scenario; null for the run of a workload"),
    LakeColumn("operations", WHOLE, "operations", "in the workload's phases"),
    LakeColumn("ok", WHOLE, "operations", "of these, acknowledged"),
    LakeColumn("failed", WHOLE, "operations", "of these, failed for certain"),
    LakeColumn("unknown", WHOLE, "operations", "of these, of unknown outcome"),
    LakeColumn("commits", WHOLE, "operations", "of these, acknowledged and with a snapshot on main"),
    LakeColumn("anomalies", WHOLE, "", "anomalies, without those that only confirm another one; null if the run is not judged"),
    LakeColumn("undocumented", WHOLE, "", "of these, those that Iceberg does not document as possible; null if the run is not judged"),
    LakeColumn("namespace", TEXT, "", "`plan.yaml`: of the run's tables; no other run has it"),
    LakeColumn("folder", TEXT, "", "where the run's folder was when it was added"),
    LakeColumn("command", TEXT, "", "`plan.yaml`: the command that repeats the run"),
    LakeColumn("added", MOMENT, "", "when the run was added to the lake", null=False),
)  # fmt: skip

OPERATIONS_TABLE = _table(
    "operations", "an operation",
    LakeColumn("op", TEXT, "", "`history.jsonl`: the id of the operation", null=False),
    LakeColumn("process", TEXT, "", "`history.jsonl`: the logical client", null=False),
    LakeColumn("writer", WHOLE, "", "the writer, from the operation's id; null if the id names none"),
    LakeColumn("engine", TEXT, "", "`history.jsonl`: which engine executed it", null=False),
    LakeColumn("f", TEXT, "", "`history.jsonl`: its kind", null=False),
    LakeColumn("table", TEXT, "", "`history.jsonl`; null for an operation without a table"),
    LakeColumn("phase", TEXT, "", "`history.jsonl`: `setup` and `final-reads` stand around the workload's own phases"),
    LakeColumn("workload", FLAG, "", "whether its phase is one of the workload's", null=False),
    LakeColumn("writes", FLAG, "", "whether its kind can commit", null=False),
    LakeColumn("invoke_ns", WHOLE, "ns", "`history.jsonl`: its invocation, since the start of the run", null=False),
    LakeColumn("complete_ns", WHOLE, "ns", "`history.jsonl`: its completion; null if the run ended first"),
    LakeColumn("latency_ms", NUMBER, "ms", "from invocation to completion"),
    LakeColumn("outcome", TEXT, "", "`history.jsonl`: ok, fail, info (unknown)", null=False),
    LakeColumn("error", TEXT, "", "the most specific exception class; null if it was acknowledged or never completed"),
    LakeColumn("message", TEXT, "", "the pattern of that exception's message: ids and numbers are …"),
    LakeColumn("conflict", TEXT, "", "the class by which a concurrent commit aborted it; null for any other end"),
    LakeColumn("attempts", WHOLE, "attempts", "of its commit: as it recorded them, else by the name of the manifest list; null if not known"),
    LakeColumn("committed", FLAG, "", "whether it left a snapshot on main (`tablelog/`)", null=False),
    LakeColumn("in_fault", FLAG, "", "whether a fault was active at any time between invocation and completion", null=False),
)  # fmt: skip

ATTEMPTS = _table(
    "attempts", "an attempt to commit, of engines that record them ([sweep.md](sweep.md#one-commit-taken-apart))",
    LakeColumn("op", TEXT, "", "`history.jsonl`: the operation", null=False),
    LakeColumn("attempt", WHOLE, "", "its number, from 1", null=False),
    *(LakeColumn(f"{name}_ms", NUMBER, "ms", text, null=False) for name, text in (
        ("data", "data files were written before the first attempt"),
        ("wait", "backoff before it"),
        ("refresh", "the table's pointer and metadata were loaded again"),
        ("validate", "conflicts with other commits were looked for"),
        ("manifests", "manifests and the manifest list were written"),
        ("metadata", "the client wrote the metadata file"),
        ("swap", "the request that asks the catalog for the commit"),
    )),
    LakeColumn("reads", WHOLE, "requests", "to the object store", null=False),
    LakeColumn("read_bytes", WHOLE, "bytes", "read from it", null=False),
    LakeColumn("writes", WHOLE, "requests", "to the object store", null=False),
    LakeColumn("written_bytes", WHOLE, "bytes", "written to it", null=False),
    LakeColumn("parent", TEXT, "", "cold if another one had committed since the client last read the metadata; else hot", null=False),
    LakeColumn("outcome", TEXT, "", "committed, refused, invalid, unknown, error", null=False),
)  # fmt: skip

COMMITS_TABLE = _table(
    "commits", "a snapshot of a table log",
    LakeColumn("table", TEXT, "", "`tablelog/`: the table's name in the workload file", null=False),
    LakeColumn("snapshot", WHOLE, "", "`tablelog/`: its id", null=False),
    LakeColumn("parent", WHOLE, "", "`tablelog/`: the id of its parent; null for the first"),
    LakeColumn("sequence_number", WHOLE, "", "`tablelog/`", null=False),
    LakeColumn("committed", MOMENT, "", "`tablelog/`: its time stamp, by the writer's clock", null=False),
    LakeColumn("operation", TEXT, "", "`tablelog/`: append, overwrite, replace, delete", null=False),
    LakeColumn("op", TEXT, "", "`tablelog/`: the operation that made it; null if it names none"),
    LakeColumn("f", TEXT, "", "the kind of that operation"),
    LakeColumn("attempts", WHOLE, "attempts", "`tablelog/`: the winning one included; null if not known"),
    LakeColumn("main", FLAG, "", "whether it is on main", null=False),
    LakeColumn("metadata", WHOLE, "", "`tablelog/`: number of the metadata version that first shows it", null=False),
    LakeColumn("added_data_files", WHOLE, "files", "`tablelog/`", null=False),
    LakeColumn("removed_data_files", WHOLE, "files", "`tablelog/`", null=False),
    LakeColumn("added_delete_files", WHOLE, "files", "`tablelog/`: position and equality deletes, deletion vectors", null=False),
    LakeColumn("removed_delete_files", WHOLE, "files", "`tablelog/`", null=False),
    LakeColumn("added_rows", WHOLE, "rows", "`tablelog/`: net; null if the rows could not be read"),
    LakeColumn("removed_rows", WHOLE, "rows", "`tablelog/`: net; null if the rows could not be read"),
    LakeColumn("added_bytes", WHOLE, "bytes", "`tablelog/`: of the files that it added", null=False),
)  # fmt: skip

REQUESTS = _table(
    "requests", "a request that passed a proxy ([nemesis.md](nemesis.md#what-is-recorded)); none without proxies",
    LakeColumn("time_ns", WHOLE, "ns", "`proxy.jsonl`: since the start of the run", null=False),
    LakeColumn("ms", NUMBER, "ms", "`proxy.jsonl`: how long it took"),
    LakeColumn("writer", WHOLE, "", "`proxy.jsonl`; null for a server's own request"),
    LakeColumn("service", TEXT, "", "`proxy.jsonl`: catalog, store, database"),
    LakeColumn("kind", TEXT, "", "`proxy.jsonl`: commit, create, load, read, write, …"),
    LakeColumn("what", TEXT, "", "`proxy.jsonl`: method and path, or the statement"),
    LakeColumn("table", TEXT, "", "`proxy.jsonl`"),
    LakeColumn("op", TEXT, "", "`proxy.jsonl`: the operation"),
    LakeColumn("base", TEXT, "", "`proxy.jsonl`: what a commit builds on: a snapshot id, or a metadata file"),
    LakeColumn("new", TEXT, "", "`proxy.jsonl`: what replaces it"),
    LakeColumn("status", TEXT, "", "`proxy.jsonl`: the answer"),
    LakeColumn("faults", TEXTS, "", "`proxy.jsonl`: the faults that struck it; null for none"),
)  # fmt: skip

ANOMALIES = _table(
    "anomalies", "an anomaly",
    LakeColumn("name", TEXT, "", "`results.json`", null=False),
    LakeColumn("checker", TEXT, "", "`results.json`: who found it", null=False),
    LakeColumn("table", TEXT, "", "`results.json`; null if it concerns none or all"),
    LakeColumn("explanation", TEXT, "", "`results.json`", null=False),
    LakeColumn("documented", TEXT, "", "`results.json`: a link, if Iceberg documents it as possible; else null"),
    LakeColumn("same_as", TEXT, "", "`results.json`: the anomaly of another checker that it only confirms; else null"),
    LakeColumn("expected", FLAG, "", "whether the workload expects it", null=False),
    LakeColumn("allowed", FLAG, "", "whether the workload allows it", null=False),
    LakeColumn("ops", TEXTS, "", "`results.json`: the operations involved, the offender first", null=False),
    LakeColumn("snapshots", WHOLES, "", "`results.json`: in commit order", null=False),
    LakeColumn("keys", WHOLES, "", "`results.json`: ids of the rows involved", null=False),
    LakeColumn("files", TEXTS, "", "`results.json`", null=False),
    LakeColumn("known", TEXT, "", "where the known defect that it is is discussed (`plan.yaml`, `results.json`); null if it is new"),
)  # fmt: skip

FAULTS = _table(
    "faults", "a time during which a fault was active",
    LakeColumn("name", TEXT, "", "`history.jsonl`: the fault", null=False),
    LakeColumn("start_ns", WHOLE, "ns", "`history.jsonl`: since the start of the run", null=False),
    LakeColumn("end_ns", WHOLE, "ns", "`history.jsonl`; of a fault that nothing ended, the last event", null=False),
    LakeColumn("ended", FLAG, "", "whether something ended it", null=False),
    LakeColumn("verb", TEXT, "", "`history.jsonl`: what it does"),
    LakeColumn("target", TEXT, "", "`history.jsonl`: the process that it strikes; null for a fault of requests"),
    LakeColumn("hits", WHOLE, "", "`history.jsonl`: how many requests or processes it struck; null if not recorded"),
    LakeColumn("missed", WHOLE, "", "`history.jsonl`: how often there was nothing to strike; null if not recorded"),
)  # fmt: skip

METRICS_TABLE = _table(
    "metrics", "a number of a run ([compare.md](compare.md))",
    LakeColumn("name", TEXT, "", "a figure of `compare`, `requests` (for each commit), or `conflicts`", null=False),
    LakeColumn("value", NUMBER, "", "the number, in `unit`", null=False),
    LakeColumn("unit", TEXT, "", "ms, s, share (0 to 1), rate (a second), count", null=False),
    LakeColumn("better", TEXT, "", "less or more", null=False),
    LakeColumn("service", TEXT, "", "of `requests`: the service; else null"),
    LakeColumn("kind", TEXT, "", "of `requests`: the kind of request; of `conflicts`: the kind of operation that met one"),
    LakeColumn("by", TEXT, "", "of `conflicts`: the kind of operation whose commit it met; else null"),
)  # fmt: skip

LAKE_TABLES: tuple[TableSchema, ...] = (
    OPERATIONS_TABLE,
    ATTEMPTS,
    COMMITS_TABLE,
    REQUESTS,
    ANOMALIES,
    FAULTS,
    METRICS_TABLE,
    RUNS_TABLE,
)
"""All tables, in the order in which a run's rows are written: ``runs`` last."""
BY_NAME = {t.name: t for t in LAKE_TABLES}


def documented() -> str:
    """The tables as Markdown, for ``docs/lake.md``."""
    parts = []
    for t in (RUNS_TABLE, *LAKE_TABLES[:-1]):
        lines = [
            f"### `{t.name}`",
            "",
            f"One row for {t.row_of}.",
            "",
            "| column | type | unit | what it is |",
            "|---|---|---|---|",
        ]
        lines += [f"| `{c.name}` | {TYPE_WORDS[c.type]} | {c.unit} | {c.text} |" for c in t.columns]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def array_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Values as Arrow has them. JSON may have half a character (``\\ud800``), which no text of Arrow's can: it becomes a question mark."""
    try:
        return pa.array(values, type_)
    except UnicodeEncodeError:
        return pa.array([[*map(_whole, v)] if isinstance(v, list) else _whole(v) for v in values], type_)


def _whole(value: object) -> object:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
