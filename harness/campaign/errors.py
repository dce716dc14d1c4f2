"""What ends one job of a campaign: any error. The job's line says why, and the others go on; only a full disk ends them all."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from checkers.evidence.history import HistoryError
from checkers.evidence.runfolder import FULL, StoreError
from checkers.evidence.tablelog import TableLogError
from compose.external.external import ExternalError
from compose.install.cache import SetupError
from compose.objectstore import TableReadError
from compose.processes.service import ServiceError
from compose.redaction import Redaction
from harness.campaign.stacks import StackError
from harness.run.errors import RunError
from harness.writers.slot import WriterError
from workloads.file.yamlfile import FileError

TOLD = (
    SetupError,
    ServiceError,
    ExternalError,
    FileError,
    RunError,
    WriterError,
    StackError,
    StoreError,
    TableReadError,
    HistoryError,
    TableLogError,
)
"""Errors whose message is all that a person needs; any other one is a defect of icequake, or of what it stands on."""
DETAILS = "harness-error.log"
"""The file in a run's logs with the traceback of any other error."""


def is_full(error: BaseException | None) -> bool:
    """Whether it says that a disk is full: then no other job can be done, either."""
    return isinstance(error, OSError) and error.errno in FULL


def why(error: BaseException, hide: Redaction | None = None) -> str:
    """One line on an error, without secrets."""
    words = " ".join(str(error).split())
    text = words if isinstance(error, TOLD) else f"{type(error).__name__}: {words}"
    return text if hide is None else hide.text(text)


@contextlib.contextmanager
def dispensable(what: str, say: Callable[[str], None]) -> Iterator[None]:
    """For what a job can do without, such as a figure: an error inside is said, and the job goes on. Raises OSError: the disk is full."""
    try:
        yield
    except Exception as e:
        if is_full(e):
            raise
        say(f"{what}: {why(e)}")


def keep_details(error: BaseException, logs: Path, hide: Redaction) -> None:
    """Write the traceback of an error that nobody expects into the logs of its run, without secrets."""
    if isinstance(error, TOLD):
        return
    text = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError), (logs / DETAILS).open("a", encoding="utf-8") as file:
        file.write(hide.text(text))
