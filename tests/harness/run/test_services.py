"""Which runs have proxies, and before what."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.runfolder import RunFolder
from compose.catalogs.delta import GUARDS
from compose.endpoints import Endpoints
from compose.external.external import External
from compose.install.installation import Installation
from compose.redaction import Redaction
from harness.run.context import RunContext
from harness.run.run import Run
from harness.run.services import proxies_of
from harness.run.settings import Settings, StandingStack
from tests.support.runs import Silent
from workloads.file.workload import Workload


def run_of(folder: Path, **more: Any) -> RunContext:
    workload = Workload.model_validate(
        {"workload": "w", "tables": [{"name": "t"}], "length": {"ops": 1}, "operations": {"insert": 1}, **more}
    )
    installation = Installation.__new__(Installation)  # nothing is started here
    return RunContext(
        workload, RunFolder(folder), installation, Settings(1, "test"), Silent(), External(), Redaction(()), "x"
    )


@pytest.mark.parametrize(("writers", "proxied"), [(4, False), ({"spark": 1, "duckdb": 1}, True), ({"duckdb": 2}, True)])
def test_beside_an_engine_that_does_not_name_its_operations_the_catalog_has_proxies(
    tmp_path: Path, writers: Any, proxied: bool
) -> None:
    with contextlib.ExitStack() as stack:
        found = proxies_of(run_of(tmp_path, writers=writers), stack)
        assert (found is not None) is proxied
        assert found is None or found.store("127.0.0.1", 9) == ("127.0.0.1", 9), "none before the store"


def test_a_run_with_faults_has_them_before_the_store_as_well(tmp_path: Path) -> None:
    nemesis = {"faults": [{"verb": "delay", "seconds": "1s"}]}
    with contextlib.ExitStack() as stack:
        found = proxies_of(run_of(tmp_path, writers={"spark": 1, "duckdb": 1}, nemesis=nemesis), stack)
        assert found is not None and found.store("127.0.0.1", 9) != ("127.0.0.1", 9)


@pytest.mark.parametrize("wanted", [None, *GUARDS])
@pytest.mark.parametrize("kept", ["", *GUARDS])
def test_warm_writers_serve_only_runs_whose_delta_tables_are_guarded_as_theirs(
    tmp_path: Path, wanted: str | None, kept: str
) -> None:
    tables = [{"name": "t"} if wanted is None else {"name": "t", "format": "delta", "mode": "merge-on-read"}]
    context = run_of(tmp_path, tables=tables, **({} if wanted is None else {"guard": wanted}))
    run, socket = Run.__new__(Run), tmp_path / "w0.sock"
    run._run = replace(context, settings=Settings(1, "test", warm=(socket,)))
    at = "http://127.0.0.1:9"
    run._standing = StandingStack(Endpoints(at, "k", "s", "r", "b", "rest", at, "s3://b/w", "local[1]", guard=kept))
    assert run._warm(None) == ((socket,) if (wanted or "") == kept else ())
