"""A failure shows the end of each log that it names."""

from __future__ import annotations

from pathlib import Path

from tests.support.logs import LINES, ends_of_logs


def test_the_end_of_each_named_log_once(tmp_path: Path) -> None:
    log = tmp_path / "writer-0.log"
    log.write_text("".join(f"line {n}\n" for n in range(LINES)) + "the cause\n")
    failure = f"writer w0 died while starting; see {log}\nagain {log}, and {tmp_path / 'gone.log'}"
    assert ends_of_logs(failure) == [(str(log), "\n".join([*(f"line {n}" for n in range(1, LINES)), "the cause"]))]
