"""What the tests on real Spark share: one installation, one bench of warm writers, one stack and one Spark session for the test session."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import zipfile
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from checkers.selftest import recorded
from compose.catalogs import nessie
from compose.external.external import External
from compose.install import jdk
from compose.install.cache import SetupError
from compose.install.ensure import ensure
from compose.install.installation import Installation
from compose.stack.sparkconf import spark_conf, writer_environment
from compose.stack.stack import Stack
from harness.run.bench import Bench
from tests.support import store
from tests.support.logs import ends_of_logs
from tests.support.runs import Silent
from tests.support.sharing import Sharing
from tests.support.stacks import alone
from workloads.file.mode import QUICK

LOCAL = "local[2]"
"""Spark's master in the tests that have no cluster."""

# The tests are called by their environment's launcher, which says how; they say it themselves where it matters.
os.environ.pop("ICEQUAKE_COMMAND", None)
# The same examples each time, so that a run of the tests says something of the code; ICEQUAKE_EXPLORE=1 looks for new ones.
settings.register_profile("steady", derandomize=True, deadline=None)  # a loaded machine is slow, and no wrong
settings.load_profile("default" if os.environ.get("ICEQUAKE_EXPLORE") else "steady")


def pytest_configure() -> None:
    """A program started in the background of a shell ignores Ctrl-C, and so do its children; the tests send it to theirs.

    The bootstrap script says how the user called it, for messages; here nobody called anything, whichever way the tests were started.
    """
    os.environ.pop("ICEQUAKE_COMMAND", None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    store.forbid()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and collected stays to the end: to look for garbage in it takes a third of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist loadgroup`` tests that share what they start run in one process."""
    return Sharing(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure that names a log file, such as that of a writer that died, shows the end of it."""
    report = yield
    if report.failed:
        report.sections += [(f"end of {name}", end) for name, end in ends_of_logs(report.longreprtext)]
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nessie's server wants a newer Java than Spark: where there is none, its tests are skipped, and say so."""
    try:
        jdk.pick(nessie.JAVA, purpose="Nessie")
    except SetupError as e:
        for item in items:
            if "nessie" in item.nodeid and item.get_closest_marker("spark") is not None:
                item.add_marker(pytest.mark.skip(reason=str(e)))


@pytest.fixture(scope="session", params=recorded.names())
def recorded_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on real Spark, one test for each that is recorded; nobody changes it."""
    folder = tmp_path_factory.mktemp(request.param)
    with zipfile.ZipFile(Path(recorded.__file__).with_name("recorded") / f"{request.param}.zip") as z:
        z.extractall(folder)
    return folder


@pytest.fixture(scope="session")
def installation() -> Installation:
    """Everything that a run needs, from the cache."""
    return ensure()


@pytest.fixture(scope="session")
def bench(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A running stack with four warm writers: for every test that is not about the start or the end of a stack, or about Spark's cluster."""
    with Bench(installation, 2, tmp_path_factory.mktemp("bench"), Silent(), groups=2, mode=QUICK) as running:
        yield running


@pytest.fixture(scope="session")
def stack(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """MinIO, PostgreSQL and a REST catalog, without a Spark cluster: for every test that needs nothing else than ``spark`` beside them."""
    with alone(installation, tmp_path_factory.mktemp("stack"), External(master=LOCAL)) as running:
        yield running


@pytest.fixture(scope="session")
def spark(installation: Installation, stack: Stack) -> Iterator[Any]:
    """A fast Spark session in this process alone, on the stack's catalog, which is called ``c``."""
    from pyspark.sql import SparkSession

    scratch = Path(tempfile.mkdtemp(prefix="icequake-test-spark-"))
    kept = dict(os.environ)
    os.environ.update(writer_environment(installation, stack.endpoints))
    builder = SparkSession.builder.appName("icequake tests")
    conf = spark_conf(installation, replace(stack.endpoints, session="fast"), scratch=scratch)
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
        os.environ.clear()
        os.environ.update(kept)
        shutil.rmtree(scratch, ignore_errors=True)
