"""A folder without secrets: each file is replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

from compose.redaction import HIDDEN, Redaction
from tests.support.files import files_of_at_most


def test_a_redacted_file_keeps_its_permissions(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("password=hunter22 and more")
    log.chmod(0o604)
    Redaction(["hunter22"]).folder(tmp_path)
    assert log.read_text() == f"password={HIDDEN} and more"
    assert log.stat().st_mode & 0o777 == 0o604


def test_a_file_that_can_be_neither_replaced_nor_overwritten_is_removed(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("hunter22 " * 10_000)
    with files_of_at_most(5_000):
        assert Redaction(["hunter22"]).folder(tmp_path) == [log]
    assert not os.listdir(tmp_path)
