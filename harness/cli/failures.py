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
    from harness.lake.errors import NotWritten
    from workloads.file.workload import WorkloadError

    error = crash.error
    if isinstance(error, BadArgument):
        text, code = f"{error}; see `{help_command}`", BAD_INPUT
    elif isinstance(error, WorkloadError):
        text, code = str(error), BAD_INPUT
    elif isinstance(error, NotWritten):  # also a LakeError
        text, code = str(error), HARNESS_FAILED
    elif isinstance(error, _bad_input()):
        text, code = str(error), BAD_INPUT
    elif isinstance(error, _harness_failures()):
        text, code = str(error), HARNESS_FAILED
    elif isinstance(error, OSError) and (of_the_system := _of_the_system(error)) is not None:
        text, code = of_the_system, HARNESS_FAILED
    else:
        text, code = _internal(crash), HARNESS_FAILED
    for line in text.splitlines() if isinstance(error, WorkloadError) else [text]:
        report_failure(crash.redacted(line), code)
    return code


def _bad_input() -> tuple[type[Exception], ...]:
    """Errors of what the user gave."""
    from checkers.clients.models import ModelError
    from checkers.conflicts.measured import MatrixError
    from checkers.evidence.history import HistoryError
    from checkers.evidence.runfolder import StoreError
    from checkers.evidence.tablelog import TableLogError
    from checkers.nights.record import NightError
    from compose.external.external import ExternalError
    from compose.processes.ports import PortInUse
    from harness.certify.certify import CertifyError
    from harness.experiments.compare import CompareError
    from harness.experiments.prove import ProveError
    from harness.experiments.shrink.log import ShrinkError
    from harness.experiments.timetofind import FindError
    from harness.lake.errors import LakeError, QueryError
    from reports.timetofind import PageError

    given = ExternalError, StoreError, HistoryError, TableLogError, ModelError, LakeError, QueryError, PortInUse
    return (*given, CertifyError, CompareError, MatrixError, NightError, ShrinkError, FindError, ProveError, PageError)


def _harness_failures() -> tuple[type[Exception], ...]:
    """Errors of what the harness needs; their message says all."""
    from compose.install.ensure import SetupError
    from compose.objectstore import TableReadError
    from compose.processes.service import ServiceError
    from compose.redaction import SecretsLeft
    from harness.run.errors import RunError
    from harness.run.judging_on_spark import SparkError
    from harness.run.standing import StandingError
    from harness.writers.slot import WriterError

    services = SetupError, ServiceError, SparkError, StandingError, WriterError, TableReadError
    return (*services, RunError, SecretsLeft)


def _of_the_system(error: OSError) -> str | None:
    """What to do about a full disk or a path that cannot be used; None for another error."""
    from checkers.evidence.runfolder import FULL
    from harness.run import disk

    if error.errno in FULL:
        return disk.words(error)
    if isinstance(error, FileNotFoundError) and disk.temporary() is None:
        return (
            "no folder for temporary files can be written; free some space, or set TMPDIR to a folder on another disk"
        )
    if error.errno in _ACCESS and error.filename:
        return f"{error.filename}: {error.strerror}; check that path, its owner and its permissions"
    return None


def _internal(crash: Crash) -> str:
    try:
        hint = f"the details are in {crash.write()}"
    except OSError as e:
        hint = f"the details could not be written: {e}"
    what = next(iter(str(crash.error).splitlines()), "")  # the details have all lines
    return f"internal error: {type(crash.error).__name__}: {what}; {hint}; please report it"
