"""The class-data archive: what makes Spark's JVMs start in half the time.

A Spark driver loads some 20 000 classes before it has run its first statements, and parsing and verifying them is most of
the processor time that it takes until then. HotSpot can map them from a file instead (JEP 310, "application class-data
sharing"). Measured on two cores with JDK 17, in seconds of processor time: driver 12 to 8, executor 6 to 4, master and
worker 2.2 to 1.3; and the JVMs share the mapped memory.

One archive serves the driver, the executors, the master and the workers, which therefore all have the same class path. It
is made by running all four once, with the JVM writing down what it loads, on a small stack with the statements that
writers use, and then dumping the archive from these lists (about a minute, once per set of jars and JDK). The JVM checks
that jars and options still are those of the archive, and goes without it if not: it can be absent or stale, never wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from compose.install.ensure import SetupError, ensure
from compose.install.installation import Installation
from compose.processes.process import base_environment

_RECORD_SECONDS = 600
_DUMP_SECONDS = 600

# Every kind of statement that a writer runs, on the table layouts that load different classes.
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
    except Exception as error:  # an old release refuses format version 3; what the others load is worth having
        refused.append(error)
spark.stop()
if 2 * len(refused) > len(statements):
    raise refused[0]
"""


def spark_class_path(installation: Installation) -> str:
    """The class path of every Spark JVM, as Spark's own launcher makes it from ``extraClassPath``."""
    jars = installation.spark_home / "jars"
    return os.pathsep.join(
        [
            *map(str, installation.jars["spark"]),
            str(installation.spark_home / "conf"),
            *map(str, sorted(jars.glob("slf4j-api-*.jar"))),
            str(jars / "*"),
        ]
    )


def archive(installation: Installation) -> Path:
    """Where the archive for exactly these jars and this JDK is, or would be."""
    key = hashlib.sha256(str(installation.java.resolve()).encode())
    release = installation.java.parent.parent / "release"
    key.update(release.read_bytes() if release.exists() else b"")
    for jar in [*installation.jars["spark"], *sorted((installation.spark_home / "jars").glob("*.jar"))]:
        if jar.exists():
            stat = jar.stat()
            key.update(f"{jar} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return installation.home / f"spark-{key.hexdigest()[:12]}.jsa"


def use(installation: Installation) -> tuple[str, ...]:
    """The options by which a Spark JVM uses the archive; none if there is no archive."""
    file = archive(installation)
    if not file.exists():
        return ()
    # Mapped where it was made for, its pages are shared; anywhere else the JVM has to rewrite, and so copy, most of them.
    return (
        "-Xshare:auto",
        f"-XX:SharedArchiveFile={file}",
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",
    )


def build(installation: Installation, *, on_event: Callable[[str], None] | None = None) -> Path:
    """Make the archive if it is not there, and return it. Takes about a minute.

    Raises SetupError if it cannot be made, ServiceError if the stack does not start; nothing is left then.
    """
    say = on_event or (lambda _: None)
    final = archive(installation)
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    lists = Path(tempfile.mkdtemp(prefix=".class-data-", dir=final.parent))
    try:
        say("recording the classes that Spark loads")
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
    """The classes of several lists of -XX:DumpLoadedClassList, without the ids that hold within one list only.

    Classes of custom class loaders (``source:``) are left out: they refer to such ids.
    """
    seen: dict[str, None] = {}
    for file in sorted(lists):
        for line in file.read_text("utf-8", "replace").splitlines():
            if line and not line.startswith("#") and "source:" not in line:
                seen.setdefault(line if line.startswith("@") else line.partition(" id:")[0])
    return list(seen)


def _record(installation: Installation, lists: Path) -> None:
    from compose.processes.watchdog import Watchdog, marked_environment
    from compose.stack.sparkconf import spark_conf, writer_environment
    from compose.stack.stack import Stack

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
            raise SetupError(f"the class-data archive: no end of its statements in {_RECORD_SECONDS} s") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["nothing"])[-1]
            raise SetupError(f"the class-data archive: its driver exited with code {done.returncode}: {last}")


def _dump(installation: Installation, merged: Path, made: Path) -> None:
    command = [
        *(str(installation.java), "-Xshare:dump", f"-XX:SharedClassListFile={merged}"),
        *(f"-XX:SharedArchiveFile={made}", "-Xlog:disable", "-cp", spark_class_path(installation)),
    ]
    try:
        done = subprocess.run(
            command, env=base_environment(), capture_output=True, text=True, timeout=_DUMP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(f"the class-data archive was not written in {_DUMP_SECONDS} s") from error
    if done.returncode != 0 or not made.exists():
        raise SetupError(
            f"the class-data archive: java exited with code {done.returncode}: {done.stderr.strip()[-300:]}"
        )


def main() -> int:
    """Build it for this installation."""
    print(build(ensure(), on_event=lambda text: print(text, file=sys.stderr, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
