"""A Chromium for the tests that look at pages: from the distribution's packages, where this user may install them.

A run needs none, so ``setup`` does not bring one. ``make test-all`` calls this; without a browser its tests are skipped, and one line says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
APT_SECONDS = 600.0
BROWSER_REMEDY = (
    "no Chromium is on the path, so the tests of pages in a browser are skipped; on Debian: apt install chromium"
)


def found() -> str | None:
    """Where a browser is; None: nowhere on the path."""
    return next((where for name in NAMES if (where := shutil.which(name)) is not None), None)


def ensure() -> str | None:
    """Where a browser is, installed if need be; None if it cannot be had here."""
    if (where := found()) is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return where
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", "chromium"]):
        try:
            subprocess.run(["apt-get", *words], env=environment, check=True, stdout=sys.stderr, timeout=APT_SECONDS)
        except (subprocess.SubprocessError, OSError):
            return None
    return found()


if __name__ == "__main__":
    if ensure() is None:
        print(BROWSER_REMEDY)
