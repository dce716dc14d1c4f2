"""The set-up: nothing unverified is used, nothing is done twice, and every error names what to do."""

import ast
import fcntl
import hashlib
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from compose import setup
from compose.catalogs.moto import MOTO_LOCK
from compose.install import (
    bootstrap,
    cache,
    doctor,
    ensure,
    installation,
    jars,
    jdk,
    minio_build,
    postgres_files,
    releases,
)
from compose.install.cache import SetupError
from compose.install.progress import ProgressLines, Step, for_stream, sizes
from tests.support.runs import environment
from workloads.file.workload import WorkloadError

CHECKOUT = Path(__file__).parents[2]
SPARKS = [f"compose/install/{lock.name}" for lock in sorted((CHECKOUT / "compose" / "install").glob("pyspark-*.lock"))]


def empty_jar(comment: bytes) -> bytes:
    """An archive that holds nothing but a comment: its end record, as a whole."""
    return b"PK\x05\x06" + bytes(16) + len(comment).to_bytes(2, "little") + comment


JARS = {"one-1.0.jar": empty_jar(b"first"), "two-2.0-tests.jar": empty_jar(b"second")}
OTHER = empty_jar(b"fIrst")


def jar(name: str, content: bytes, confs: tuple[str, ...] = ("spark", "rest")) -> jars.Jar:
    artifact, version, *classifier = name.removesuffix(".jar").split("-")
    return jars.Jar(
        confs, "org.example", artifact, version, "".join(classifier), len(content), hashlib.sha256(content).hexdigest()
    )


LOCKED = tuple(jar(name, content) for name, content in JARS.items())


class Registry:
    """Delivers what it is told to, and remembers what it was asked for."""

    def __init__(self, **instead: bytes | None) -> None:
        self.instead = instead
        self.asked: list[list[str]] = []

    def __call__(self, wanted: Sequence[jars.Jar], staging: Path, step: Step) -> None:
        self.asked.append([one.name for one in wanted])
        for one in wanted:
            content = self.instead.get(one.artifact, JARS[one.name])
            if content is not None:
                (staging / one.staged).parent.mkdir(parents=True, exist_ok=True)
                (staging / one.staged).write_bytes(content)


@pytest.fixture
def silent() -> ProgressLines:
    return ProgressLines(io.StringIO())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    monkeypatch.setenv("ICEQUAKE_HOME", str(place))
    return place


# --- the locks -------------------------------------------------------------------------------------------------------


def test_the_jar_lock_names_what_a_run_loads_once_and_completely() -> None:
    locked = jars.read_lock()
    names = [one.coordinates for one in locked]
    assert len(names) == len(set(names))
    assert {"iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle", "postgresql"} == {
        one.artifact for one in jars.of(["spark"], locked)
    }
    assert len(jars.of(["rest"], locked)) > 30


@pytest.mark.parametrize("lock", ["requirements.lock", "compose/install/jars.lock", "compose/install/go.lock", *SPARKS])
def test_a_lock_says_what_and_never_from_where(lock: str) -> None:
    lines = [line for line in (CHECKOUT / lock).read_text().splitlines() if not line.startswith("#")]
    assert not [line for line in lines if "://" in line or line.startswith("-") or "@" in line]


@pytest.mark.parametrize("lock", ["requirements.lock", "compose/install/go.lock", *SPARKS])
def test_every_pinned_package_has_a_hash(lock: str) -> None:
    pins = re.split(r"\n(?=[A-Za-z])", (CHECKOUT / lock).read_text())
    assert not [
        pin for pin in pins if not pin.startswith("#") and not re.search(r"==.*--hash=sha256:[0-9a-f]{64}", pin, re.S)
    ]


def test_a_line_with_an_extension_names_an_archive(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text(f"server org.example:one:1.0:bin:tar.gz 12 {'0' * 64}\nserver org.example:one:1.0 12 {'0' * 64}\n")
    archive, one = jars.read_lock(lock)
    assert (archive.name, archive.coordinates) == ("one-1.0-bin.tar.gz", "org.example:one:1.0:bin:tar.gz")
    assert (one.name, one.coordinates) == ("one-1.0.jar", "org.example:one:1.0")


def test_a_bad_line_of_the_lock_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text("# fine\nspark org.example:one:1.0 12 nothex\n")
    with pytest.raises(SetupError, match=r"jars\.lock:2: expected"):
        jars.read_lock(lock)


def test_an_unknown_configuration_is_named() -> None:
    with pytest.raises(SetupError, match="no such jar configuration: florp"):
        jars.of(["spark", "florp"], LOCKED)


# --- jars ------------------------------------------------------------------------------------------------------------


def test_a_jar_with_another_hash_is_refused_by_name(home: Path, silent: ProgressLines) -> None:
    with pytest.raises(SetupError) as refused:
        jars.provide(LOCKED, home, Registry(one=OTHER), silent)
    message = str(refused.value)
    assert "one-1.0.jar" in message and "org.example:one:1.0" in message
    assert LOCKED[0].sha256 in message and hashlib.sha256(OTHER).hexdigest() in message
    assert "Run the same command again" in message
    assert not LOCKED[0].path(home).exists()


def test_a_torn_jar_is_refused_and_the_next_attempt_asks_for_it_alone(home: Path, silent: ProgressLines) -> None:
    with pytest.raises(SetupError, match="expected 28 bytes, got 5 bytes"):
        jars.provide(LOCKED, home, Registry(two=b"secon"), silent)
    registry = Registry()
    jars.provide(LOCKED, home, registry, silent)
    assert registry.asked == [["two-2.0-tests.jar"]]
    assert [one.path(home).read_bytes() for one in LOCKED] == list(JARS.values())


def test_a_jar_that_was_not_delivered_is_named(home: Path, silent: ProgressLines) -> None:
    with pytest.raises(SetupError, match=r"org\.example:one:1\.0 was not delivered"):
        jars.provide(LOCKED, home, Registry(one=None), silent)


def test_jars_in_place_are_not_fetched_again(home: Path, silent: ProgressLines) -> None:
    registry = Registry()
    for _ in range(3):
        jars.provide(LOCKED, home, registry, silent)
    assert len(registry.asked) == 1


def test_a_touched_jar_is_read_again_and_a_damaged_one_fetched_again(home: Path, silent: ProgressLines) -> None:
    registry = Registry()
    jars.provide(LOCKED, home, registry, silent)
    one, two = (jar.path(home) for jar in LOCKED)
    os.utime(one, ns=(0, 0))
    two.write_bytes(b"something!")
    assert not any(jars.in_place(jar, home) for jar in LOCKED)
    jars.provide(LOCKED, home, registry, silent)
    assert registry.asked[1:] == [["two-2.0-tests.jar"]]
    assert all(jars.in_place(jar, home) for jar in LOCKED)


class LocalRepository:
    """A folder that Ivy resolves from, laid out and named as the user's own settings may do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.settings = folder / "ivysettings.xml"
        self.settings.parent.mkdir(parents=True, exist_ok=True)
        pattern = f"{self.folder}/[artifact]-[revision](-[classifier]).[ext]"
        self.settings.write_text(
            f"""<ivysettings><settings defaultResolver="mine"/>
            <property name="ivy.checksums" value=""/>
            <resolvers><filesystem name="mine"><artifact pattern="{pattern}"/></filesystem></resolvers></ivysettings>"""
        )

    def hold(self, **content: bytes) -> None:
        self.folder.mkdir(exist_ok=True)
        for name, original in JARS.items():
            (self.folder / name).write_bytes(content.get(name[:3], original))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalRepository:
    local = LocalRepository(tmp_path / "local")
    local.hold()
    monkeypatch.setenv("ICEQUAKE_IVYSETTINGS", str(local.settings))
    return local


def ivy(home: Path) -> jars.Ivy:
    return jars.Ivy(jdk.pick().java, installation.spark_home(), home, attempts=1)


def test_pysparks_ivy_fetches_by_the_users_settings(
    home: Path, silent: ProgressLines, repository: LocalRepository
) -> None:
    jars.provide(LOCKED, home, ivy(home), silent)
    assert [one.path(home).read_bytes() for one in LOCKED] == list(JARS.values())
    assert not jars.ivy_cache(home).exists()  # every jar is kept once


def test_ivy_also_fetches_an_archive(home: Path, silent: ProgressLines, repository: LocalRepository) -> None:
    content = b"no matter what"
    (repository.folder / "three-3.0-bin.tar.gz").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    archive = jars.Jar(("server",), "org.example", "three", "3.0", "bin", len(content), digest, "tar.gz")
    jars.provide((*LOCKED, archive), home, ivy(home), silent)
    assert archive.path(home).read_bytes() == content
    assert [one.path(home).read_bytes() for one in LOCKED] == list(JARS.values())


def test_a_wrong_file_is_not_remembered_by_ivy(home: Path, silent: ProgressLines, repository: LocalRepository) -> None:
    repository.hold(two=OTHER + b"!")
    with pytest.raises(SetupError, match=r"two-2\.0-tests\.jar"):
        jars.provide(LOCKED, home, ivy(home), silent)
    repository.hold()
    jars.provide(LOCKED, home, ivy(home), silent)
    assert all(jars.in_place(one, home) for one in LOCKED)


def test_a_jar_that_no_repository_has_is_named(home: Path, silent: ProgressLines, repository: LocalRepository) -> None:
    (repository.folder / "two-2.0-tests.jar").unlink()
    with pytest.raises(SetupError, match=r"could not fetch org\.example:two:2\.0:tests; the reason is in .*ivy\.log"):
        jars.provide(LOCKED, home, ivy(home), silent)


def test_settings_that_do_not_exist_are_named(
    home: Path, silent: ProgressLines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICEQUAKE_IVYSETTINGS", "/no/such/ivysettings.xml")
    with pytest.raises(SetupError, match=r"\$ICEQUAKE_IVYSETTINGS names /no/such/ivysettings.xml"):
        jars.provide(LOCKED, home, ivy(home), silent)


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        ({"https_proxy": "http://proxy:3128"}, ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128"]),
        (
            {"HTTP_PROXY": "proxy:80", "no_proxy": "localhost,.corp"},
            ["-Dhttp.proxyHost=proxy", "-Dhttp.proxyPort=80", "-Dhttp.nonProxyHosts=localhost|*.corp"],
        ),
    ],
)
def test_java_is_told_of_the_proxy_in_its_own_words(environment: dict[str, str], options: list[str]) -> None:
    assert jars.proxy_options(environment) == options


# --- the JDK ---------------------------------------------------------------------------------------------------------


def fake_jdk(folder: Path, version: str) -> Path:
    for program in ("java", "javac"):
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / program).write_text("#!/bin/sh\n")
        (folder / "bin" / program).chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder.resolve()


@pytest.fixture
def no_jdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(jdk, "_usual_homes", lambda: iter(()))


@pytest.mark.usefixtures("no_jdk")
def test_without_a_jdk_the_message_says_how_to_get_one() -> None:
    with pytest.raises(
        SetupError, match=r"Spark 4\.1 needs a JDK 17 or 21, found none; get one: .*install-jdk"
    ) as missing:
        jdk.pick()
    assert "\n" not in str(missing.value)


@pytest.mark.usefixtures("no_jdk")
def test_a_jdk_that_spark_cannot_use_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_jdk(tmp_path / "jdk-25", "25.0.3")))
    with pytest.raises(SetupError, match=r"found only 25 in .*jdk-25"):
        jdk.pick()


@pytest.mark.usefixtures("no_jdk")
def test_a_java_home_that_is_not_used_is_said_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = jdk.Jdk(fake_jdk(tmp_path / "jdk-17", "17.0.1"), 17)
    assert jdk.ignored(used) is None
    for home, why in (
        (used.home, None),
        (tmp_path / "none", "no bin/javac"),
        (fake_jdk(tmp_path / "jdk-25", "25.0.3"), "is a JDK 25 and"),
    ):
        monkeypatch.setenv("JAVA_HOME", str(home))
        said = jdk.ignored(used)
        if why is None:
            assert said is None
        else:
            assert (
                said is not None and f"JAVA_HOME={home} " in said and why in said and f"JDK 17 in {used.home}" in said
            )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(SetupError, match=r"found none \(JAVA_HOME=.*none has no bin/javac"):
        jdk.pick()


def test_a_cache_that_cannot_be_made_is_said_with_its_variable_and_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = subprocess.run(
        [sys.executable, bootstrap.__file__, "icequake", "--version"],
        env=environment(ICEQUAKE_HOME=str(file)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 255
    assert (
        f"the cache {file} (set by ICEQUAKE_HOME) cannot be used: File exists; set ICEQUAKE_HOME to a folder"
        in done.stderr
    )


@pytest.mark.usefixtures("no_jdk")
def test_of_several_jdks_the_chosen_one_wins_if_it_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = {version: fake_jdk(tmp_path / f"jdk-{version}", f"{version}.0.1") for version in (25, 21, 17)}
    monkeypatch.setattr(jdk, "_usual_homes", lambda: iter(homes.values()))
    assert jdk.pick().home == homes[17]
    monkeypatch.setenv("JAVA_HOME", str(homes[21]))
    assert jdk.pick().home == homes[21]
    monkeypatch.setenv("JAVA_HOME", str(homes[25]))
    assert jdk.pick().home == homes[17]
    assert jdk.pick([21, 25], purpose="Nessie").home == homes[25]


@pytest.mark.usefixtures("no_jdk")
def test_a_runtime_without_a_compiler_is_no_jdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake_jdk(tmp_path / "jre", "17.0.1") / "bin" / "javac").unlink()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jre"))
    assert list(jdk.installed()) == []


# --- MinIO -----------------------------------------------------------------------------------------------------------


def fake_go(folder: Path, script: str) -> Path:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(0o755)
    return go


def test_other_source_than_the_known_one_is_not_built(tmp_path: Path) -> None:
    go = fake_go(tmp_path, """echo '{"Dir": "/x", "Sum": "h1:other="}'""")
    with pytest.raises(SetupError, match="has sum h1:other=, expected h1:deu0m9B") as refused:
        minio_build.verified_source(go, tmp_path, dict(os.environ))
    assert "GOPROXY" in str(refused.value)


def test_a_download_of_source_that_fails_says_why(tmp_path: Path) -> None:
    go = fake_go(tmp_path, """echo '{"Error": "no route to host"}'; exit 1""")
    with pytest.raises(
        SetupError, match="cannot download MinIO's source: no route to host; run the same command again"
    ):
        minio_build.verified_source(go, tmp_path, dict(os.environ))


@pytest.mark.parametrize(
    ("version", "usable"), [("go1.23.9", False), ("go1.24", True), ("go1.26.8", True), ("", False)]
)
def test_go_is_taken_from_the_path_if_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, usable: bool
) -> None:
    fake_go(tmp_path, f"echo {version}")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert (minio_build.go_tool() is not None) == usable


def test_a_build_that_fails_leaves_no_binary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: ProgressLines
) -> None:
    (tmp_path / "source").mkdir()
    go = fake_go(
        tmp_path,
        f"""case "$1" in
        mod) echo '{{"Dir": "{tmp_path}/source", "Sum": "{minio_build.SUM}"}}';;
        list) echo main;;
        build) echo "cmd/x.go: out of memory"; exit 1;;
        esac""",
    )
    monkeypatch.setattr(minio_build, "go_tool", lambda: go)
    with pytest.raises(SetupError, match="out of memory; run the same command again"):
        minio_build.provide(tmp_path / "home", silent)
    assert list((tmp_path / "home" / "bin").iterdir()) == []


@pytest.fixture
def slow_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a ``go`` on PATH whose build opens the pipe ``began``, and ends when somebody opens ``go-on``."""
    (tmp_path / "source").mkdir()
    for pipe in ("began", "go-on"):
        os.mkfifo(tmp_path / pipe)
    fake_go(
        tmp_path,
        f"""case "$1" in
        env) echo go1.26.8;;
        mod) echo '{{"Dir": "{tmp_path}/source", "Sum": "{minio_build.SUM}"}}';;
        list) echo main;;
        build) echo built > {tmp_path}/began; while [ "$1" != -o ]; do shift; done; read line < {tmp_path}/go-on; echo "$line" > "$2";;
        esac""",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def test_minio_is_built_by_the_process_that_began_it(slow_go: Path, home: Path) -> None:
    shown = []

    class Releases:
        """Lets the build end as soon as somebody is seen to wait for it."""

        @contextmanager
        def step(self, name: str, total: float | None, unit: str = "items") -> Iterator[Step]:
            shown.append(name)
            yield self

        def move_to(self, done: float, note: str = "") -> None:
            shown.append(note)
            (slow_go / "go-on").write_text("the server\n")

    with bootstrap.begin_minio(home) as child:
        assert (slow_go / "began").read_text() == "built\n"
        built = minio_build.provide(home, Releases())
        assert child.wait() == 0
    assert built.read_text() == "the server\n"
    assert shown[:2] == ["MinIO, built in the background", "building MinIO ..."]
    assert "removing what the build of MinIO needed" in bootstrap.minio_log(home).read_text()


def test_a_build_of_minio_ends_with_the_process_that_began_it(slow_go: Path, home: Path) -> None:
    begin = "import sys, pathlib; from compose.install.bootstrap import begin_minio; begin_minio(pathlib.Path(sys.argv[1])); input()"
    command = [sys.executable, "-W", "ignore", "-c", begin, str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) as starter:
        assert (slow_go / "began").read_text() == "built\n"
        starter.kill()
    with (home / "minio.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the build has ended
    assert not minio_build.binary(home).exists()


def test_the_first_minio_is_begun_before_the_packages_are_there(slow_go: Path, home: Path) -> None:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "minio-RELEASE").touch()
    assert bootstrap.begin_first_minio(home) is None
    (home / "bin" / "minio-RELEASE").unlink()
    child = bootstrap.begin_first_minio(home)
    assert child is not None
    with child:
        assert (slow_go / "began").read_text() == "built\n"
        (slow_go / "go-on").write_text("the server\n")
    assert minio_build.binary(home).read_text() == "the server\n"


def test_a_build_of_minio_that_failed_in_the_background_is_tried_again(
    slow_go: Path, home: Path, silent: ProgressLines
) -> None:
    fake_go(slow_go, "case $1 in env) echo go1.26.8;; *) exit 1;; esac")
    with bootstrap.begin_minio(home) as child:
        assert child.wait() == 255
    with pytest.raises(SetupError, match="cannot download MinIO's source: no reason given"):
        minio_build.provide(home, silent)
    assert "cannot download MinIO's source" in bootstrap.minio_log(home).read_text()


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


def test_postgres_runs_as_the_user_that_will_run_it(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    user = postgres_files.run_as()
    if user:  # pytest's folders are closed to everyone else
        for folder in (shared, *list(shared.parents)[:4]):
            if folder.stat().st_mode & 0o777 == 0o700:
                folder.chmod(0o711)
    postgres = postgres_files.provide(shared) / "postgres"
    uid, gid = user or (None, None)
    said = subprocess.run(
        [postgres, "--version"], user=uid, group=gid, cwd="/", capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("postgres (PostgreSQL) 18")
    assert postgres_files.find(shared) == postgres.parent


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a copy")
def test_a_copy_that_others_may_write_to_is_not_trusted(tmp_path: Path) -> None:
    postgres = postgres_files.provide(tmp_path) / "postgres"
    postgres.chmod(0o757)
    assert postgres_files.find(tmp_path) is None
    with pytest.raises(SetupError, match="is not safe to use, because other users may write to it; remove it: rm -rf"):
        postgres_files.provide(tmp_path)


# --- all of it -------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(home: Path, tmp_path: Path, repository: LocalRepository, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine whose jars, Java classes and MinIO are small; returns the log of what was made."""
    made: list[str] = []
    java = tmp_path / "java"
    java.mkdir()
    (java / "Hello.java").write_text("class Hello {}")

    def minio(place: Path, _: object) -> Path:
        binary = minio_build.binary(place)
        if not binary.exists():
            made.append("minio")
            binary.parent.mkdir(parents=True, exist_ok=True)
            binary.touch()
        return binary

    resolve = jars.Ivy.__call__

    def counted(self: jars.Ivy, wanted: Sequence[jars.Jar], staging: Path, step: Step) -> None:
        made.append("jars")
        resolve(self, wanted, staging, step)

    monkeypatch.setattr(jars, "read_lock", lambda: LOCKED)
    monkeypatch.setattr(ensure, "JAVA", java)
    monkeypatch.setattr(minio_build, "provide", minio)
    monkeypatch.setattr(ensure, "begin_minio", lambda _: subprocess.Popen(["true"]))
    monkeypatch.setattr(jars.Ivy, "__call__", counted)
    return made


@pytest.mark.slow
def test_ensure_makes_everything_once(machine: list[str], silent: ProgressLines) -> None:
    first = ensure.ensure(progress=silent)
    assert (first.rest_classes / "Hello.class").is_file()
    assert all(path.is_file() for conf in ("spark", "rest") for path in first.jars[conf])
    assert any("hadoop-client-api" in path.name for path in first.jars["rest"])
    assert first.java.is_file() and first.minio.is_file() and (first.postgres_bin / "initdb").is_file()
    assert (first.spark_home / "bin" / "spark-class").is_file()
    assert ensure.ensure(progress=silent) == first
    assert machine == ["jars", "minio"]


@pytest.mark.slow
def test_two_calls_at_once_wait_for_each_other(machine: list[str], silent: ProgressLines) -> None:
    results: list[installation.Installation] = []
    threads = [threading.Thread(target=lambda: results.append(ensure.ensure(progress=silent))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 and results[0] == results[1] == results[2]
    assert machine == ["jars", "minio"]


@pytest.mark.slow
def test_what_a_killed_set_up_left_is_swept_away(machine: list[str], silent: ProgressLines, home: Path) -> None:
    for scrap in (home / "jars" / ".arriving-x", home / ".arriving-classes-y"):
        scrap.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin" / ".arriving-minio").touch()
    ensure.ensure(progress=silent)
    assert not list(home.rglob(".arriving-*"))


def test_a_folder_arrives_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), cache.arriving(tmp_path / "part") as scratch:
        (scratch / "half").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_the_size_of_what_arrives_can_be_asked_while_files_and_folders_go(tmp_path: Path) -> None:
    (tmp_path / "pip-unpack").mkdir()
    for name in ("a.tar.gz", "b.tar.gz", "notes", "pip-unpack/c.tar.gz"):
        (tmp_path / name).write_bytes(b"12345")
    assert list(sizes(tmp_path, ".tar.gz")) == [5, 5, 5]
    asked = sizes(tmp_path, ".tar.gz")
    assert next(asked) == 5
    shutil.rmtree(tmp_path / "pip-unpack")
    for file in tmp_path.glob("*.tar.gz"):
        file.unlink()
    assert list(asked) == []


def test_progress_is_lines_unless_a_person_is_watching() -> None:
    stream = io.StringIO()
    with for_stream(stream).step("jars", 2e6, "bytes") as step:
        step.move_to(1e6)
    assert stream.getvalue() == "icequake: jars (2 MB) ...\nicequake: jars: done in 0 s\n"


def test_progress_is_bars_for_a_person_and_lines_for_a_ci_job(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = os.openpty()
    with open(controller, "rb", buffering=0) as screen, open(terminal, "w") as stream:
        monkeypatch.delenv("CI", raising=False)
        with for_stream(stream).step("jars", 2e6, "bytes") as step:
            step.move_to(1e6, "one.jar")
        shown = b""
        while b"2.0/2.0 MB" not in shown:  # what a terminal shows comes in pieces; at the end of a step its bar is full
            shown += screen.read(4096)
        assert b"jars" in shown
        monkeypatch.setenv("CI", "true")
        with for_stream(stream).step("jars", 2e6, "bytes"):
            pass
        while b"icequake: jars (2 MB) ..." not in shown:
            shown += screen.read(4096)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize(("code", "after"), [(0, True), (1, True), (130, False), (255, False)])
def test_make_run_makes_the_class_data_after_the_verdict(tmp_path: Path, code: int, after: bool) -> None:
    """And ends as the run ended. A run that never came to a verdict has nothing after it."""
    log, script = tmp_path / "log", tmp_path / "bootstrap"
    script.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$1" != icequake ] || exit {code}\n')
    script.chmod(0o755)
    made = subprocess.run(["make", "run", f"BOOTSTRAP={script}", "WORKLOAD=w"], cwd=CHECKOUT, capture_output=True)
    assert (made.returncode == 0) == (code == 0)
    asked = ["setup --no-class-data", "icequake run w", *(["setup --class-data-after"] if after else [])]
    assert log.read_text().splitlines() == asked


# --- the doctor ------------------------------------------------------------------------------------------------------

PARTS = {
    *("python", "packages", "jdk", "make", "go", "minio", "postgres", "disk: cache", "disk: store", "memory"),
    *("open files", "loopback", "docker", "jars: spark", "jars: rest"),
}


def test_in_a_container_that_is_thrown_away_nothing_is_told_to_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEQUAKE_COMMAND", "docker run --rm -v icequake-store:/store icequake:0.1.0")
    assert doctor.setup_command("nessie") == (
        "an image of your own with `RUN /opt/icequake/app/icequake setup nessie` (docs/docker.md)"
    )


def test_the_doctor_looks_at_every_part_and_changes_nothing(home: Path, tmp_path: Path) -> None:
    findings = {finding.name: finding for finding in doctor.examine(store=tmp_path / "store")}
    assert set(findings) >= PARTS
    for part in ("minio", "jars: spark", "jars: rest"):
        assert findings[part].state == "missing" and findings[part].required
        assert findings[part].remedy == "icequake setup"
    assert findings["jars: nessie"].remedy == "icequake setup nessie"
    assert findings["jars: spark-1.10.1"].remedy == "icequake setup --iceberg 1.10.1"
    default = releases.DEFAULT
    assert findings["jars: spark"].detail.startswith(
        f"Iceberg {default.iceberg} on Spark {default.spark}, the default release: "
    )
    assert findings["jars: spark-1.10.1"].detail.startswith("Iceberg 1.10.1: ")
    assert findings["python"].state == findings["loopback"].state == "ok"
    assert not home.exists() and not (tmp_path / "store").exists()


def test_the_doctor_finds_a_damaged_jar(home: Path, silent: ProgressLines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "read_lock", lambda: LOCKED)
    jars.provide(LOCKED, home, Registry(), silent)
    assert [finding.state for finding in doctor.jar_configurations(home)] == ["ok", "ok"]
    LOCKED[1].path(home).write_bytes(b"something!")
    finding = next(iter(doctor.jar_configurations(home)))
    assert finding.state == "wrong" and "two-2.0-tests.jar" in finding.detail


def test_the_doctor_counts_the_packages_that_are_pinned_for_this_machine() -> None:
    """Also those with a condition that this machine fulfils; each of them is installed."""
    pinned = set(re.findall(r"^([\w.-]+)==", (CHECKOUT / "requirements.lock").read_text(), re.MULTILINE))
    installed = {d.metadata["Name"].lower().replace("_", "-") for d in importlib.metadata.distributions()}
    (finding,) = doctor.packages()
    assert finding.detail.startswith(f"{len(pinned & installed)} as pinned in "), finding


def test_the_doctor_compares_a_pin_with_a_condition_if_this_machine_fulfils_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lock = "pytest==0.1 ; python_version >= '3.11' \\\n    --hash=sha256:0\nnot-there==1 ; sys_platform == 'plan9' \\\n"
    (tmp_path / "requirements.lock").write_text(lock)
    monkeypatch.setattr(doctor, "CHECKOUT", tmp_path)
    (finding,) = doctor.packages()
    assert finding.state == "wrong" and finding.detail.endswith(f": pytest is {pytest.__version__}, pinned 0.1")


@pytest.mark.usefixtures("no_jdk", "home")
def test_the_doctor_goes_on_when_a_part_cannot_be_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[doctor.Examined]:
        raise OSError("no such device")

    monkeypatch.setattr(doctor, "memory", broken)
    findings = {finding.name: finding for finding in doctor.examine()}
    assert findings["memory"].state == "wrong" and "no such device" in findings["memory"].detail
    assert findings["jdk"].state == "missing" and "install-jdk" in findings["jdk"].remedy
    assert "docker" in findings


# --- bootstrap -------------------------------------------------------------------------------------------------------


def test_an_old_python_can_read_bootstrap_as_far_as_the_sentence_about_it() -> None:
    ast.parse((CHECKOUT / "compose" / "install" / "bootstrap.py").read_text(), feature_version=(3, 6))


CACHES = "Library/Caches" if sys.platform == "darwin" else ".cache"


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, f"~/{CACHES}/icequake"),
        ({"ICEQUAKE_HOME": "~/quake"}, "~/quake"),
        pytest.param(
            {"XDG_CACHE_HOME": "/x/cache"},
            "/x/cache/icequake",
            marks=pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no XDG folders"),
        ),
    ],
)
def test_the_folder_is_the_users_choice_or_the_platforms(
    variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("XDG_CACHE_HOME", "ICEQUAKE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    assert ensure.home() == Path(place.replace("~", str(tmp_path)))


def test_another_lock_is_another_environment(tmp_path: Path) -> None:
    assert bootstrap.venv_path(tmp_path, b"a==1") == bootstrap.venv_path(tmp_path, b"a==1")
    assert bootstrap.venv_path(tmp_path, b"a==1") != bootstrap.venv_path(tmp_path, b"a==2")


def test_an_unknown_tool_is_a_usage_error_before_anything_is_made(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(CHECKOUT / "compose" / "install" / "bootstrap.py"), "florp"],
        env={**os.environ, "ICEQUAKE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 254
    assert "usage: python3 compose/install/bootstrap.py icequake|setup|" in result.stderr
    assert not (tmp_path / "home").exists()


def test_tools_run_the_code_of_their_own_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/spark/python")
    monkeypatch.delenv("ICEQUAKE_COMMAND", raising=False)
    monkeypatch.chdir(CHECKOUT)
    environment = bootstrap.tool_environment(Path("/venv/bin/python"))
    assert environment["PYTHONPATH"] == str(CHECKOUT)
    assert environment["ICEQUAKE_COMMAND"] == "./icequake"
    monkeypatch.chdir("/")
    assert bootstrap.tool_environment(Path("/venv/bin/python"))["ICEQUAKE_COMMAND"] == str(CHECKOUT / "icequake")


def test_pip_options_that_lead_elsewhere_are_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PIP_CERT", "/my/certificates")
    environment = bootstrap.pip_environment()
    assert "PIP_TARGET" not in environment and environment["PIP_CERT"] == "/my/certificates"


def fake_venv(monkeypatch: pytest.MonkeyPatch, made: list[Path], fail: bool = False) -> None:
    def create(venv: Path) -> None:
        made.append(venv)
        (venv / "bin").mkdir(parents=True)
        (venv / "bin" / "python").touch()

    def fill(_: Path) -> None:
        if fail:
            raise bootstrap.BootstrapError("no network")

    monkeypatch.setattr(bootstrap, "create", create)
    monkeypatch.setattr(bootstrap, "install", fill)


def test_what_the_first_command_installs_is_said_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_venv(monkeypatch, [], fail=True)
    with pytest.raises(bootstrap.BootstrapError):
        bootstrap.ensure(tmp_path)
    first = capsys.readouterr().err.splitlines()[0]
    assert "1.2 GB" in first and "only once" in first and "minutes" in first and str(tmp_path) in first
    fake_venv(monkeypatch, [])
    bootstrap.ensure(tmp_path)
    capsys.readouterr()
    bootstrap.ensure(tmp_path)
    assert capsys.readouterr().err == ""


def test_an_environment_is_used_only_when_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    fake_venv(monkeypatch, made, fail=True)
    with pytest.raises(bootstrap.BootstrapError):
        bootstrap.ensure(tmp_path)
    fake_venv(monkeypatch, made)
    python = bootstrap.ensure(tmp_path)
    assert bootstrap.ensure(tmp_path) == python
    assert len(made) == 2


def test_two_bootstraps_at_once_make_one_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []
    fake_venv(monkeypatch, made)
    threads = [threading.Thread(target=bootstrap.ensure, args=(tmp_path,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_set_up_takes_configurations_catalogs_and_suites(tmp_path: Path) -> None:
    assert setup.needed(["nessie", "hive4"]) == (["hive4", "nessie"], [])
    assert setup.needed(["dynamodb", "glue"]) == ([], [MOTO_LOCK])
    assert setup.needed(["smoke"]) == ([], []), "what every run needs is enough for rest and jdbc"
    confs, locks = setup.needed(["nightly"])
    assert {*confs} == {"hadoop", "nessie"} and locks == [MOTO_LOCK]
    with pytest.raises(WorkloadError, match="no such suite"):
        setup.needed(["nightlie"])
