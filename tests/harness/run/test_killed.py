"""``kill -9`` at random moments of a campaign: no line is lost, nothing stays running, and the result is that of an undisturbed one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.campaigns import KINDS
from tests.support.runs import ROOT, environment

KILLS = int(os.environ.get("ICEQUAKE_KILLS", "3"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_campaign_that_is_killed_again_and_again_comes_to_the_same(kind: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed", kind, str(tmp_path), str(KILLS), str(len(kind))],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment(),
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{kind}: killed {KILLS} times" in done.stdout
