"""Flink: a streaming engine. Each writer is a Flink cluster in one JVM, with a standing job for each table and mode (``FlinkWorker.java``).

An operation is its rows and one checkpoint. It is acknowledged when Iceberg has committed that checkpoint, so an acknowledged operation must
be in the table exactly once, whenever the worker dies. The checkpoints outlive the worker: the one that replaces it restores the jobs from
the last complete checkpoint, and commits what that one holds and the table lacks. So of an operation during which the worker dies, either all
or nothing is committed, at the latest when its replacement is ready.

Flink's own writers have no transactions over what they read: they append, or they replace rows by equality deletes, which apply to
everything that is older than their commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from nemesis.operation_key import OPERATION_KEY
from workloads.engines.engine import Access, CommitRules, Guest, GuestError, Promise
from workloads.operations.kind import Arguments, new_rows
from workloads.tables import TableSpec

FLINK_HEAP_MB = 512
RESOLVE_S = 40
"""Seconds within which a job that Flink restarts must have committed, before the operation's outcome is unknown."""
RESTART_MS = 500
NOT_HANDED_OVER = "icequake.flink.NotHandedOver"
"""Stands first in an error if the job has not got any row of the operation."""
POINTS = ("during-write", "before-checkpoint", "before-commit", "after-commit")
"""Where a worker can die on purpose (``KillPoints.java``)."""
KILL_EVERY = 4
_PACKAGES = ("java.lang", "java.util", "java.net", "java.nio", "sun.nio.ch", "java.util.concurrent")

Sink = Literal["v1", "v2"]
"""``v1``: FlinkSink, which Flink SQL uses by default; ``v2``: IcebergSink, on Flink's sink interface of version 2."""


def kill_point(op: str) -> str | None:
    """Where the worker dies in an operation of a writer of ``flink-kills``: in every fourth one, at each point in turn."""
    n = int(op.rpartition("-")[2])
    return POINTS[n // KILL_EVERY % len(POINTS)] if n % KILL_EVERY == KILL_EVERY - 1 else None


class _Worker:
    """The JVM, which is a child of this process and ends with it.

    Raises:
        GuestError: it did not start.
    """

    def __init__(self, access: Access, sink: Sink, kills: bool) -> None:
        self._kills = kills
        scratch = Path(access.scratch)
        settings = scratch / "flink.json"
        settings.touch(mode=0o600)  # it holds a catalog's credentials
        fields = {
            "catalog": dict(access.properties),
            "hadoop": {
                k.removeprefix("spark.hadoop."): v for k, v in access.spark.items() if k.startswith("spark.hadoop.")
            },
            "state": str(scratch / "jobs"),
            "scratch": str(scratch / "tmp"),
            "sink": sink,
            "label": OPERATION_KEY,
            "resolve_s": RESOLVE_S,
            "restart_ms": RESTART_MS,
            "kill_points": kills,
        }
        settings.write_text(json.dumps(fields))
        command = [
            *(
                access.files["java"],
                f"-Xmx{FLINK_HEAP_MB}m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ),
            *("-Duser.timezone=UTC", "-Dorg.apache.logging.log4j.level=WARN"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES),
            *("-cp", access.files["class_path"], access.files["main"], str(settings)),
        ]
        self._jvm = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
        if not self._answer():
            raise GuestError([["icequake.flink.WorkerDied", "the Flink worker did not start; see the writer's log"]])

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        upsert = f == "upsert"
        request = {
            "op": op,
            "table": ".".join(identifier),
            "mode": "upsert" if upsert else "append",
            "equality": (["id", "part"] if table.partitioned else ["id"]) if upsert else [],
            "rows": [row._asdict() for row in new_rows(value, op, table)],
            "kill": kill_point(op) if self._kills else None,
        }
        assert self._jvm.stdin is not None
        try:
            self._jvm.stdin.write(json.dumps(request).encode() + b"\n")
            self._jvm.stdin.flush()
        except OSError:
            self._jvm.kill()
        answer = self._answer()
        if answer.get("ok"):
            return {key: answer[key] for key in ("job", "checkpoint", "snapshot", "restarts")}
        chain = answer.get("error") or [["icequake.flink.WorkerDied", "the Flink worker died"]]
        if answer and not answer["handed_over"]:
            chain = [[NOT_HANDED_OVER, f"{identifier[1]}: the job does not run"], *chain]
        raise GuestError(chain)

    def alive(self) -> bool:
        return self._jvm.poll() is None

    def close(self) -> None:
        self._jvm.kill()
        self._jvm.wait()
        for pipe in (self._jvm.stdin, self._jvm.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was left in it has no reader
                    pipe.close()

    def _answer(self) -> dict[str, Any]:
        """The next line; empty if the JVM has ended."""
        assert self._jvm.stdout is not None
        line = self._jvm.stdout.readline()
        if not line:
            self._jvm.kill()  # it ends by itself, or it is of no use
            self._jvm.wait()
            return {}
        answer = json.loads(line)
        assert isinstance(answer, dict)
        return answer


class Flink(Guest):
    """Flink's streaming writer with FlinkSink."""

    name = "flink"
    title = "Flink"
    software: ClassVar[Mapping[str, str]] = {"Flink": "flink", "Iceberg": "flink-iceberg"}
    needs = "flink"
    marks = True
    sink: ClassVar[Sink] = "v1"
    kills: ClassVar[bool] = False
    catalogs = frozenset({"rest", "jdbc", "nessie"})
    promises: ClassVar[Mapping[str, Promise]] = {
        "insert": Promise(
            "serializable", source="apache-iceberg-1.11.0, IcebergFilesCommitter.commitDeltaTxn: newAppend"
        ),
        "upsert": Promise(
            "serializable",
            at_commit=True,
            source="apache-iceberg-1.11.0, IcebergFilesCommitter.commitDeltaTxn: newRowDelta without validations; equality "
            "deletes apply to all data of smaller sequence numbers",
        ),
    }
    commits: ClassVar[Mapping[str, CommitRules]] = {
        "insert": CommitRules(
            "appends", source="apache-iceberg-1.11.0, IcebergFilesCommitter.commitDeltaTxn: newAppend"
        ),
        "upsert": CommitRules(
            "equality deletes",
            source="apache-iceberg-1.11.0, IcebergFilesCommitter.commitDeltaTxn: newRowDelta without validations",
        ),
    }
    definite = frozenset({NOT_HANDED_OVER})
    conflicts = frozenset(
        {
            "org.apache.iceberg.exceptions.CommitFailedException",
            "org.apache.iceberg.exceptions.ValidationException",
        }
    )

    def open(self, access: Access) -> _Worker:
        return _Worker(access, self.sink, self.kills)


class FlinkV2(Flink):
    """Flink's streaming writer with IcebergSink, which Iceberg's documentation calls experimental."""

    name = "flink-v2"
    title = "Flink (IcebergSink)"
    sink = "v2"


class FlinkKills(Flink):
    """Flink whose worker dies in every fourth operation, at one named point after the other; the next one restores its jobs."""

    name = "flink-kills"
    title = "Flink (dying)"
    kills = True


class FlinkV2Kills(FlinkV2):
    """Flink with IcebergSink whose worker dies in every fourth operation, as that of flink-kills."""

    name = "flink-v2-kills"
    title = "Flink (IcebergSink, dying)"
    kills = True
