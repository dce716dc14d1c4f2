"""The writer's side: one PySpark driver process that executes one operation at a time for the orchestrator.

Started as ``python -m harness.writers.session CONF.json SOCKET``. It makes a Spark session from the properties in CONF.json, listens on
the Unix socket, and serves one connection after the other, so a kept ("warm") writer can be used by run after run. Requests
and answers are lines of JSON:

* ``{"op", "statements": [{"sql", "bind", "result", "settings", "action"}], "names": {...}}``
  → ``{"ok": true, "result": rows | null, "bound": {...}}`` or ``{"ok": false, "error": [[class, message], ...]}``. Every
  snapshot the statements make carries ``icequake-op = op`` (``EnvironmentContext``: the only way that marks DML, metadata deletes and
  procedures alike).
* ``{"hello": true}`` → ``{"ok": true, "pid": n}``, if the session is usable; a run that takes over a warm writer asks this first.
* ``{"session": {property: value}}`` → ``{"ok": true}``: from now on a new session with these properties of catalogs in place of those
  that the driver was started with. So a warm writer can serve one catalog after the other.
* ``{"loop": [request, ...]}`` → ``{"ok": true, "seconds": s, "failed": n}``: run the requests back to back without recording;
  the baseline for the harness's own overhead.

If the orchestrator hangs up before the answer, the driver kills itself and its JVM: its operation must not commit during another run.

The JVM under the session can die alone (the kernel's OOM killer picks it), or its context can be stopped. Python would keep running and
answer every request with an error, so the process exits without an answer instead: the orchestrator then sees a dead writer.

It imports only pyspark, the standard library and modules that do the same, so it runs in an environment of any Spark version.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from harness.writers import by_transaction, delta_writes, equality_deletes, side_tables, two_tables
from nemesis.operation_key import OPERATION_KEY

CATALOG_PREFIX = "spark.sql.catalog."
"""Prefix of the properties of the session's catalogs."""
MAX_CAUSES = 30
"""Of one error, which the history keeps for every operation that failed."""
NOISE = "org.apache.spark.util.Utils$OriginalTryStackTraceException"
"""Spark's ``Try`` adds this suppressed exception to every exception that crosses it; it carries no information."""


def java_chain(throwable: Any) -> list[list[str]]:
    """``[[class, message], ...]`` of a Java throwable, its causes and suppressed exceptions, outermost first; the length is limited."""
    chain: list[list[str]] = []
    queue = [throwable]
    seen = set()
    while queue and len(chain) < MAX_CAUSES:
        t = queue.pop(0)
        if t is None:
            continue
        identity = t.toString()
        name = t.getClass().getName()
        if (name, identity) in seen or name == NOISE:
            continue
        seen.add((name, identity))
        chain.append([name, (t.getMessage() or "")[:2000]])
        queue.append(t.getCause())
        queue += list(t.getSuppressed())
    return chain


def error_chain(error: BaseException) -> list[list[str]]:
    """The exception chain of an error from PySpark: the Java chain if there is one, else the Python chain."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if origin is not None:
        with contextlib.suppress(Exception):
            return java_chain(origin)
    return [[f"{type(error).__module__}.{type(error).__qualname__}", str(error)[:2000]]]


class Session:
    """A Spark session that executes operations."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._catalogs: dict[str, str] | None = None
        self._context = spark._jvm.org.apache.iceberg.EnvironmentContext

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one operation's statements in order; the module's docstring defines request and answer."""
        names = dict(request["names"])
        result: list[Any] | None = None
        bound: dict[str, Any] = {}
        try:
            self._context.put(OPERATION_KEY, request["op"])
            for s in request["statements"]:
                with self._settings(s.get("settings") or {}):
                    text = s["sql"].format_map(names)
                    rows = self._act(text, s["action"], names) if s.get("action") else self._spark.sql(text).collect()
                if s.get("bind"):
                    value = rows[-1][0] if rows else None
                    names[s["bind"]] = bound[s["bind"]] = value
                if s.get("result"):
                    result = [list(r) for r in rows]
        except Exception as e:
            return {"ok": False, "error": error_chain(e), "bound": bound}
        return {"ok": True, "result": result, "bound": bound}

    def _act(self, table: str, action: dict[str, Any], names: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Perform an action through Java calls.

        ``remove-orphan-files`` returns the locations that it deleted, one per row; ``current-snapshot`` the table's current snapshot;
        ``earlier-version`` the newest versions of a Delta table without the one that created it, the oldest last; ``time-of-version`` the
        time of the version that is bound as its ``version`` says, to the millisecond, in the session's time zone;
        ``stream-append`` and ``replace-where``, which write to a Delta table (``harness.writers.delta_writes``), nothing;
        ``transfer``, statements on two tables (``harness.writers.two_tables``), how it was committed; ``by-transaction`` the rows of its
        statement, which commits by another endpoint (``harness.writers.by_transaction``); ``equality-delete`` nothing
        (``harness.writers.equality_deletes``); ``side-append`` and ``side-read`` what ``harness.writers.side_tables`` says.

        Raises:
            ValueError: the action is unknown.
        """
        if action["name"] == "current-snapshot":
            return [(two_tables.current_snapshot(self._spark, table),)]
        if action["name"] == "earlier-version":
            newest = self._spark.sql(f"DESCRIBE HISTORY {table} LIMIT {action['most']}").collect()
            return [(row[0],) for row in newest if row[0] > 0]
        if action["name"] == "time-of-version":
            whole = self._spark.sql(f"DESCRIBE HISTORY {table}").where(f"version = {names[action['version']]}")
            return list(whole.selectExpr("date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS')").collect())
        if action["name"] == "stream-append":
            delta_writes.stream_append(self._spark, table, action["rows"], action["op"], action["starts"])
            return []
        if action["name"] == "replace-where":
            delta_writes.replace_where(self._spark, table, action["rows"], action["where"])
            return []
        if action["name"] == "transfer":
            parts = [(t.format_map(names), sql.format_map(names)) for t, sql in action["parts"]]
            return [(two_tables.transfer(self._spark, names["catalog"], action["op"], parts, action["needs"]),)]
        if action["name"] == "by-transaction":
            place = f"{by_transaction.catalog(self._spark, names['catalog'])}.{names['identifier']}"
            return list(self._spark.sql(action["statement"].format_map({**names, "table": place})).collect())
        if action["name"] == "equality-delete":
            keys, rows, validated = action["keys"], action["rows"], action["validated"]
            equality_deletes.equality_delete(self._spark, table, keys, rows, validated=validated)
            return []
        if action["name"] == "side-append":
            return [(side_tables.append(self._spark, table),)]
        if action["name"] == "side-read":
            return side_tables.read(self._spark, table)
        if action["name"] != "remove-orphan-files":
            raise ValueError(f"unknown action {action['name']!r}")
        iceberg, session = self._spark._jvm.org.apache.iceberg.spark, self._spark._jsparkSession
        orphans = iceberg.actions.SparkActions.get(session).deleteOrphanFiles(
            iceberg.Spark3Util.loadIcebergTable(session, table)
        )
        before = int(time.time() * 1000) - 1000 * action["older_than_s"]
        # S3FileIO lists by prefix itself; otherwise Iceberg uses Hadoop's file systems, which do not support s3://.
        done = orphans.usePrefixListing(True).olderThan(before).execute()
        return [(location,) for location in done.orphanFileLocations()]

    @contextlib.contextmanager
    def _settings(self, settings: dict[str, str]) -> Iterator[None]:
        """Set properties of the session inside ``with``, then restore them."""
        before = {k: self._spark.conf.get(k, None) for k in settings}
        try:
            for k, v in settings.items():
                self._spark.conf.set(k, v)
            yield
        finally:
            for k, v in before.items():
                if v is None:
                    self._spark.conf.unset(k)
                else:
                    self._spark.conf.set(k, v)

    def alive(self) -> bool:
        """Whether the JVM still answers and its context is not stopped."""
        try:
            return not self._spark.sparkContext._jsc.sc().isStopped()
        except Exception:
            return False

    def renew(self, properties: dict[str, str]) -> dict[str, Any]:
        """Replace the session by one with these catalogs, unless it already has them."""
        if properties == self._catalogs:
            return {"ok": True}
        fresh = self._spark.newSession()
        for key in fresh.conf.getAll:
            if key.startswith(CATALOG_PREFIX):
                fresh.conf.unset(key)
        for key, value in properties.items():
            fresh.conf.set(key, value)
        before, self._spark, self._catalogs = self._spark, fresh, properties
        _close_catalogs(before)
        return {"ok": True}

    def loop(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Run requests back to back; return the seconds taken and the number of failures."""
        started = time.monotonic()
        failed = sum(not self.execute(r)["ok"] for r in requests)
        return {"ok": True, "seconds": time.monotonic() - started, "failed": failed}


def _close_catalogs(spark: Any) -> None:
    """Close the Iceberg catalogs that a session has loaded. Spark never does, and each keeps connections to its server and its store, for
    which the proxies between keep two file descriptors each."""
    manager = spark._jsparkSession.sessionState().catalogManager()
    for row in spark.sql("SHOW CATALOGS").collect():
        with contextlib.suppress(Exception):  # of another kind, or its server is gone
            catalog = manager.catalog(row[0]).icebergCatalog()
            if catalog.getClass().getName() == "org.apache.iceberg.CachingCatalog":
                inner = catalog.getClass().getDeclaredField("catalog")
                inner.setAccessible(True)
                catalog = inner.get(catalog)
            catalog.close()


class Serving(Protocol):
    """What answers requests: a :class:`Session`, or a client of another engine."""

    def execute(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one operation."""

    def alive(self) -> bool:
        """Whether it can run further operations."""

    def renew(self, properties: dict[str, str]) -> dict[str, Any]:
        """Continue with other catalogs."""

    def loop(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Run requests back to back."""


class Hangup:
    """Calls ``end`` when the other side of a connection hangs up while an operation is under way. Use in ``with``."""

    def __init__(self, connection: socket.socket, end: Callable[[], None]) -> None:
        self._connection = connection
        self._end = end
        self._lock = threading.Lock()
        self._busy = False
        self._thread = threading.Thread(target=self._watch, name="hangup", daemon=True)

    def __enter__(self) -> Hangup:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()

    @contextlib.contextmanager
    def operation(self) -> Iterator[None]:
        """Mark an operation as under way.

        Raises:
            ConnectionError: the other side had already hung up.
        """
        with self._lock:
            if self._hung_up(0):
                raise ConnectionError("the other side has hung up")
            self._busy = True
        try:
            yield
        finally:
            with self._lock:
                self._busy = False

    def _watch(self) -> None:
        self._hung_up(None)
        with self._lock:
            if self._busy:
                self._end()

    def _hung_up(self, wait: float | None) -> bool:
        poll = select.poll()
        poll.register(self._connection, 0)  # hang-ups are always reported, also with an empty mask
        return bool(poll.poll(wait))


def end_process() -> None:
    """End this process and its JVM at once, as ``kill -9`` does."""
    if os.getpgrp() == os.getpid():  # the JVM is in the driver's group
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # its JVM ends when this end of its standard input is closed


def serve(session: Serving, listener: socket.socket, end: Callable[[], None] = end_process) -> None:
    """Serve connections, one at a time, until the process is killed.

    Args:
        end: called by another thread when the other side hangs up while an operation is under way.

    Raises:
        SystemExit: the session is dead; the request that showed it is left without an answer.
    """
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream, Hangup(connection, end) as hangup:
            with contextlib.suppress(ConnectionError):
                for line in stream:
                    with hangup.operation():
                        answer = _answer(session, json.loads(line))
                    if not answer["ok"] and not session.alive():
                        raise SystemExit(f"the session is dead: {answer['error']}")
                    stream.write(json.dumps(answer, default=str).encode() + b"\n")
                    stream.flush()


def _answer(session: Serving, request: dict[str, Any]) -> dict[str, Any]:
    if "hello" in request:
        return {"ok": True, "pid": os.getpid()} if session.alive() else {"ok": False, "error": [["", "no session"]]}
    if "session" in request:
        return session.renew(request["session"])
    return session.loop(request["loop"]) if "loop" in request else session.execute(request)


def main(conf_file: str, socket_path: str) -> None:
    """Make the session, then serve. The socket gets its name only when the session is ready."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in json.loads(Path(conf_file).read_text()).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(socket_path + ".new")
    listener.listen(1)
    os.rename(socket_path + ".new", socket_path)
    serve(Session(spark), listener)


if __name__ == "__main__":
    main(*sys.argv[1:3])
