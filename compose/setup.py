"""The complete set-up: every part that a run needs, then the class-data archive.

    python -m compose.setup [--no-class-data | --class-data-after] [WHAT ...]

``WHAT`` is a configuration of jars.lock, a catalog, or a suite, which stands for its catalogs: a night of it then downloads nothing.

To make the archive (``compose.servers.classdata``), Spark's driver, executor, master and worker run once on a small stack, with the
statements that writers use, while each JVM lists the classes that it loads; then java writes the archive from these lists. This takes about a
minute, once per set of jars and JDK. It is the only part of the set-up that runs a stack, so this file stands above the rest of ``compose``.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from compose.catalogs.catalog import Catalog
from compose.catalogs.registry import CATALOGS
from compose.install import ensure, jars, releases
from compose.install.cache import SetupError
from compose.install.installation import Installation
from compose.install.progress import Progress
from compose.install.releases import Release
from compose.processes.process import base_environment
from compose.processes.service import ServiceError
from compose.processes.watchdog import Watchdog, marked_environment
from compose.servers import classdata
from compose.stack.sparkconf import spark_conf, writer_environment
from compose.stack.stack import Stack
from workloads.file import suite
from workloads.file.workload import WorkloadError

NO_CLASS_DATA, CLASS_DATA_AFTER = "--no-class-data", "--class-data-after"
_RECORD_SECONDS = 600
_DUMP_SECONDS = 600

_STATEMENTS = (
    "CREATE NAMESPACE c.warm",
    *(
        statement
        for name, version, mode in (
            ("v2mor", 2, "merge-on-read"),
            ("v2cow", 2, "copy-on-write"),
            ("v3mor", 3, "merge-on-read"),
        )
        for table in [f"c.warm.{name}"]
        for statement in (
            f"CREATE TABLE {table} (id bigint, val string, cnt bigint, log string, part int) USING iceberg"
            f" PARTITIONED BY (part) TBLPROPERTIES ('format-version'='{version}', 'write.delete.mode'='{mode}',"
            f" 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}')",
            f"INSERT INTO {table} VALUES (1, 'a', 0, '', 0), (2, 'b', 0, '', 1)",
            f"INSERT INTO {table} SELECT id + 10, val, cnt, log, part FROM {table}",
            f"UPDATE {table} SET cnt = cnt + 1, log = concat(log, ',x') WHERE id = 1",
            f"MERGE INTO {table} t USING (SELECT 2L AS id, 'c' AS val) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET val = s.val"
            " WHEN NOT MATCHED THEN INSERT (id, val, cnt, log, part) VALUES (s.id, s.val, 0, '', 0)",
            f"DELETE FROM {table} WHERE id = 11",
            f"DELETE FROM {table} WHERE part = 1",
            f"SELECT * FROM {table} ORDER BY id",
            f"CALL c.system.rewrite_data_files(table => 'c.warm.{name}', options => map('rewrite-all', 'true'))",
        )
    ),
    "CALL c.system.rewrite_manifests(table => 'c.warm.v2mor')",
    "CALL c.system.expire_snapshots(table => 'c.warm.v2mor', retain_last => 1)",
    "SELECT * FROM c.warm.v2mor.snapshots",
)
"""Every kind of statement that a writer runs, on the table layouts that load different classes."""

_DRIVER = """
import json, sys
from pyspark.sql import SparkSession
conf, statements = json.loads(sys.stdin.read())
builder = SparkSession.builder.appName("icequake class data")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
refused = []
for statement in statements:
    try:
        spark.sql(statement).collect()
    except Exception as error:  # an old release refuses format version 3; the classes of the other statements still help
        refused.append(error)
spark.stop()
if 2 * len(refused) > len(statements):
    raise refused[0]
"""


def ensure_release(release: Release, *, progress: Progress | None = None) -> Installation:
    """``releases.ensure``; at the first use of a release other than the default one, also its class-data archive. Raises SetupError.

    A user's jar gets none: it takes a minute and 250 MB, and the next build of the jar could not use it.
    """
    first = release != releases.DEFAULT and release.own is None and not releases.in_place(release)
    ready = releases.ensure(release, progress=progress)
    if first:
        share_class_data(ready)
    return ready


def share_class_data(ready: Installation) -> None:
    """Make the class-data archive if it is missing. A run works without it, so a failure is only reported."""
    if classdata.archive(ready).exists():
        return
    try:
        build(ready, on_event=lambda text: print(f"icequake: {text}", file=sys.stderr, flush=True))
    except (SetupError, ServiceError, OSError, subprocess.SubprocessError) as error:
        print(f"icequake: no class-data archive, so Spark starts slower: {error}", file=sys.stderr)


def build(installation: Installation, *, on_event: Callable[[str], None] | None = None) -> Path:
    """Make the class-data archive if it is missing, and return its path. Takes about a minute.

    Raises SetupError if it cannot be made, ServiceError if the stack does not start; both leave nothing behind.
    """
    say = on_event or (lambda _: None)
    final = classdata.archive(installation)
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    lists = Path(tempfile.mkdtemp(prefix=".class-data-", dir=final.parent))
    try:
        say(
            "recording the classes that Spark loads, so that it starts in half the time from now on; you may stop here (Ctrl-C)"
        )
        _record(installation, lists)
        say("writing the class-data archive")
        merged = lists / "merged"
        merged.write_text("".join(f"{line}\n" for line in merge(lists.glob("*.classes"))))
        made = lists / final.name
        _dump(installation, merged, made)
        made.rename(final)
    finally:
        shutil.rmtree(lists, ignore_errors=True)
    return final


def merge(lists: Iterable[Path]) -> list[str]:
    """The classes of several lists of -XX:DumpLoadedClassList, without the ids, which are valid within one list only.

    Classes of custom class loaders (``source:``) are left out, because they refer to such ids.
    """
    seen: dict[str, None] = {}
    for file in sorted(lists):
        for line in file.read_text("utf-8", "replace").splitlines():
            if line and not line.startswith("#") and "source:" not in line:
                seen.setdefault(line if line.startswith("@") else line.partition(" id:")[0])
    return list(seen)


def _record(installation: Installation, lists: Path) -> None:
    def record(role: str) -> Sequence[str]:
        return (f"-XX:DumpLoadedClassList={lists / role}.classes",)

    run_id = f"class-data-{secrets.token_hex(4)}"
    data = Path(tempfile.mkdtemp(prefix="icequake-class-data-"))
    data.chmod(0o711)
    with (
        Watchdog(run_id, remove=[data]),
        Stack(
            installation, run_id=run_id, data=data / "services", logs=data / "logs", workers=1, jvm_options=record
        ) as stack,
    ):
        scratch = data / "driver"
        scratch.mkdir()
        conf = spark_conf(installation, stack.endpoints, scratch=scratch, jvm_options=record)
        try:
            done = subprocess.run(
                [str(installation.python), "-c", _DRIVER],
                env=marked_environment(writer_environment(installation, stack.endpoints), run_id),
                cwd=scratch,
                input=json.dumps([conf, _STATEMENTS]),
                capture_output=True,
                text=True,
                timeout=_RECORD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SetupError(
                f"the class-data archive: its statements did not end within {_RECORD_SECONDS} s"
            ) from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise SetupError(f"the class-data archive: its driver exited with code {done.returncode}: {last}")


def _dump(installation: Installation, merged: Path, made: Path) -> None:
    command = [
        *(str(installation.java), "-Xshare:dump", f"-XX:SharedClassListFile={merged}"),
        *(f"-XX:SharedArchiveFile={made}", "-Xlog:disable", "-cp", classdata.spark_class_path(installation)),
    ]
    try:
        done = subprocess.run(
            command, env=base_environment(), capture_output=True, text=True, timeout=_DUMP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"the class-data archive was not written within {_DUMP_SECONDS} s") from error
    if done.returncode != 0 or not made.exists():
        raise SetupError(
            f"the class-data archive: java exited with code {done.returncode}: {done.stderr.strip()[-300:]}"
        )


def needed(names: Iterable[str]) -> tuple[list[str], list[Path]]:
    """The configurations of ``jars.lock``, and the pins of Python environments, that configurations, catalogs and suites stand for.

    Raises WorkloadError: a name is none of them.
    """
    catalogs, confs = list[Catalog](), list[str]()
    configurations = {conf for jar in jars.read_lock() for conf in jar.confs}
    for name in names:
        if name in CATALOGS:
            catalogs.append(CATALOGS[name])
        elif name in configurations:
            confs.append(name)
        else:
            cells = suite.parse(suite.locate(name).read_text(encoding="utf-8"))[0].cells
            catalogs += [CATALOGS[c] for c in cells.catalogs if c in CATALOGS]
    confs += [conf for c in catalogs for conf in (*c.jars, *c.server_jars)]
    locks = [server.lock for c in catalogs for server in c.servers if server.lock is not None]
    return list(dict.fromkeys(confs)), list(dict.fromkeys(locks))


def main(arguments: Sequence[str]) -> int:
    """Set up the default configurations of ``jars.lock`` and what is named; return the exit code.

    ``--no-class-data`` skips the class-data archive, which a run does not require. ``--class-data-after`` makes it after a run, and prints
    nothing if it exists.
    """
    options = {NO_CLASS_DATA, CLASS_DATA_AFTER}.intersection(arguments)
    try:
        confs, locks = needed(name for name in arguments if name not in options)
        ready = ensure.ensure(confs=(*ensure.CONFS, *confs))
        for lock in locks:
            releases.environment(ready.home, lock)
        if NO_CLASS_DATA not in options:
            share_class_data(ready)
    except (SetupError, WorkloadError) as error:
        print(f"icequake: {error}", file=sys.stderr)
        return 255
    except KeyboardInterrupt:
        print("icequake: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    if CLASS_DATA_AFTER not in options:
        print(f"icequake: everything is ready in {ready.home}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
