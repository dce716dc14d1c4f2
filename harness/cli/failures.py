"""How a command fails: one line with a remedy, and an exit code."""

from __future__ import annotations

import errno
import sys

from harness.cli.crash import Crash
from harness.cli.options import BadArgument

BAD_INPUT, HARNESS_FAILED = 254, 255

_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""Errors of a file or folder that cannot be used: no permission, or another kind of file has its name."""


def report_failure(message: str, code: int) -> int:
    """Print the message on standard error; return ``code``."""
    print(f"icequake: {message}", file=sys.stderr)
    return code


def explain(crash: Crash, help_command: str) -> int:
    """Print why a command ended, without secrets; return the exit code.

    Args:
        help_command: the command that shows what may be typed.
    """
    from checkers.clients.models import ModelError
    from checkers.conflicts.measured import MatrixError
    from checkers.evidence.history import HistoryError
    from checkers.evidence.runfolder import FULL, StoreError
    from checkers.evidence.tablelog import TableLogError
    from checkers.nights.record import NightError
    from compose.external.external import ExternalError
    from compose.processes.ports import PortInUse
    from harness.experiments.compare import CompareError
    from harness.experiments.prove import ProveError
    from harness.experiments.shrink.log import ShrinkError
    from harness.experiments.timetofind import FindError
    from harness.lake.errors import LakeError, NotWritten, QueryError
    from harness.run import disk
    from reports.timetofind import PageError
    from workloads.file.workload import WorkloadError

    error = crash.error

    def fail(message: str, code: int) -> int:
        return report_failure(crash.redacted(message), code)

    bad_input = (
        ExternalError
        | StoreError
        | HistoryError
        | TableLogError
        | ModelError
        | CompareError
        | MatrixError
        | NightError
        | LakeError
        | QueryError
        | PortInUse
        | ShrinkError
        | FindError
        | ProveError
        | PageError
    )
    if isinstance(error, BadArgument):
        return fail(f"{error}; see `{help_command}`", BAD_INPUT)
    if isinstance(error, WorkloadError):
        for line in str(error).splitlines():
            fail(line, BAD_INPUT)
        return BAD_INPUT
    if isinstance(error, NotWritten):
        return fail(str(error), HARNESS_FAILED)
    if isinstance(error, bad_input):
        return fail(str(error), BAD_INPUT)
    if isinstance(error, OSError) and error.errno in FULL:
        return fail(disk.words(error), HARNESS_FAILED)
    if isinstance(error, FileNotFoundError) and disk.temporary() is None:
        return fail(
            "no folder for temporary files can be written; free some space, or set TMPDIR to a folder on another disk",
            HARNESS_FAILED,
        )
    if isinstance(error, OSError) and error.errno in _ACCESS and error.filename:
        return fail(
            f"{error.filename}: {error.strerror}; check that path, its owner and its permissions", HARNESS_FAILED
        )
    from compose.install.ensure import SetupError
    from compose.objectstore import TableReadError
    from compose.processes.service import ServiceError
    from compose.redaction import SecretsLeft
    from harness.run.cluster import SparkError
    from harness.run.settings import RunError
    from harness.run.standing import StandingError
    from harness.writers.slot import WriterError

    if isinstance(
        error,
        SetupError | ServiceError | SparkError | StandingError | RunError | WriterError | TableReadError | SecretsLeft,
    ):
        return fail(str(error), HARNESS_FAILED)
    try:
        hint = f"the details are in {crash.write()}"
    except OSError as e:
        hint = f"the details could not be written: {e}"
    what = next(iter(str(error).splitlines()), "")  # the details have all lines
    return fail(f"internal error: {type(error).__name__}: {what}; {hint}; please report it", HARNESS_FAILED)
