"""Chromium for the tests of pages: it is looked for on the path, and what cannot be had is said in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compose.install import browser
from tests.test_docs import ROOT


def program(place: Path, text: str) -> None:
    """An executable file."""
    place.write_text(f"#!/bin/sh\n{text}\n")
    place.chmod(0o755)


def asked(path: Path) -> subprocess.CompletedProcess[str]:
    """What ``make test-all`` calls, with only the programs of a folder on the path."""
    environment = {**os.environ, "PATH": str(path)}
    return subprocess.run(
        [sys.executable, "-m", "compose.install.browser"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_browser_on_the_path_is_taken(tmp_path: Path) -> None:
    program(tmp_path / "chromium", "exit 1")
    done = asked(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may install packages")
def test_a_browser_is_installed_from_the_distributions_packages(tmp_path: Path) -> None:
    made = f"[ $1 = update ] || {{ printf '#!/bin/sh\\n' > {tmp_path}/chromium; /bin/chmod 755 {tmp_path}/chromium; }}"
    program(tmp_path / "apt-get", f"echo $@ >> {tmp_path}/called; {made}")
    done = asked(tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "called").read_text().splitlines()[-1] == "install -q -y --no-install-recommends chromium"


@pytest.mark.parametrize("apt", [None, "exit 100"])
def test_where_none_can_be_had_one_line_says_so(tmp_path: Path, apt: str | None) -> None:
    if apt is not None:
        program(tmp_path / "apt-get", apt)
    done = asked(tmp_path)
    assert (done.returncode, done.stdout.splitlines()) == (0, [browser.BROWSER_REMEDY])
