"""Which runs have proxies, and before what."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from checkers.evidence.runfolder import RunFolder
from compose.external.external import External
from compose.install.installation import Installation
from compose.redaction import Redaction
from harness.run.context import RunContext
from harness.run.services import proxies_of
from harness.run.settings import Settings
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
