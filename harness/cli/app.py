"""The command line.

Exit codes: 0 valid, 1 anomaly found, 2 unknown, 130 or 143 stopped by Ctrl-C or SIGTERM, 141 nobody reads the output any more, 254 bad
arguments or workload file, 255 the harness failed.
"""

from __future__ import annotations

import contextlib
import re
import resource
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness import __version__
from harness.cli import (
    certify,
    check,
    claims,
    compare,
    coverage,
    experiments,
    lake,
    lists,
    machine,
    model,
    names,
    run,
    serve,
    shrink,
    soak,
    stopping,
    sweep,
    timetofind,
)
from harness.cli.command import Command, Options
from harness.cli.crash import Crash
from harness.cli.failures import BAD_INPUT, explain, report_failure
from harness.cli.options import INTERRUPTED, WITHOUT_END, TyperError, help_command
from harness.cli.stopping import Stopped, Stopping

FILES = 1 << 16

app = typer.Typer(
    name="icequake",
    help="Breaks Apache Iceberg tables on purpose, with real Spark, and proves what survived.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut the names of options in a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"icequake {__version__}")
        raise typer.Exit


@app.callback()
def _all_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version of icequake.")
    ] = False,
) -> None:
    pass


COMMANDS: tuple[type[Options], ...] = (
    run.RunOptions,
    check.CheckOptions,
    names.ExplainOptions,
    check.ExportOptions,
    experiments.ProveOptions,
    shrink.ShrinkOptions,
    experiments.MatrixOptions,
    model.ModelOptions,
    certify.CertifyOptions,
    compare.CompareOptions,
    sweep.SweepOptions,
    timetofind.TimeToFindOptions,
    coverage.CoverageOptions,
    soak.SoakOptions,
    lake.LakeOptions,
    lake.QueryOptions,
    lake.TrendOptions,
    claims.ClaimsOptions,
    check.SelftestOptions,
    check.ReportOptions,
    serve.ServeOptions,
    lists.ListOptions,
    machine.DoctorOptions,
    machine.SetupOptions,
    machine.UpOptions,
    machine.DownOptions,
)
"""What can be typed, in the order of the help."""

for options in COMMANDS:
    app.command(options.typed_name(), cls=Command, short_help=options.short)(options.callback())


def main() -> None:
    """Entry point: every error becomes one line and an exit code, never a stack trace."""
    Stopping().install()
    try:
        more_files()
        code = _main()
        sys.stdout.flush()
    except BrokenPipeError:
        code = stopping.end_closed_pipe()
    except KeyboardInterrupt:  # the signal came before the command began, or while its error was said
        code = stopping.current().report()
    sys.exit(code)


def more_files() -> None:
    """Let this process have as many open files as it may, up to :data:`FILES`: the proxies need two for each connection of a writer, and
    many systems give a process 1024 unless it asks for more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):  # a system that allows less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _main() -> int:
    width = {} if sys.stdout.isatty() else {"terminal_width": WITHOUT_END}  # a log has no width
    try:
        code = app(standalone_mode=False, **width)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except Stopped as e:
        return stopping.current().report(e.line)
    except (KeyboardInterrupt, typer.Abort):
        return stopping.current().report()
    except SystemExit as e:
        if stopping.of_closed_pipe(e):
            return stopping.end_closed_pipe()
        inside = RuntimeError(f"something inside ended the program with {e.code!r}")
        inside.__cause__ = e
        return explain(Crash(inside), _help())
    except Exception as e:
        if isinstance(getattr(e, "error", e), BrokenPipeError) and stopping.output_closed():
            return stopping.end_closed_pipe()
        if isinstance(e, TyperError):
            text = plain_words(str(e.format_message()).rstrip("."))  # type: ignore[attr-defined]
            if text.startswith("Usage:"):  # no command: the message is the help
                typer.echo(e.format_message())  # type: ignore[attr-defined]
                return BAD_INPUT
            return report_failure(f"{text}{_other_use(text)}; see `{_help()}`", BAD_INPUT)
        return explain(e if isinstance(e, Crash) else Crash(e), _help())


def _other_use(message: str) -> str:
    """What the files are that the command does not take, and which command does; empty if nobody knows."""
    from workloads.file.filekinds import what

    extra = re.match(r"Got unexpected extra arguments? ?\(?s?\)? \((.*)\)", message)
    words = extra[1].split() if extra is not None else ()
    found = next(((word, use) for word in words if (use := what(Path(word))) is not None), None)
    return "" if found is None else f"; {found[0]} is {found[1]}"


_PLAIN = (
    (
        r"No such option: --docker\b.*",
        "No such option: --docker; only `run` has it. docs/docker.md has the others in containers",
    ),
    (r"Input should be a valid integer\b.*", "must be a whole number"),
    (r"Input should be greater than or equal to (\S+)", r"must be at least \1"),
    (r"Input should be less than or equal to (\S+)", r"must be at most \1"),
)


def plain_words(message: str) -> str:
    """Typer's message, in which Pydantic's words of a wrong number are ours."""
    for pattern, words in _PLAIN:
        message = re.sub(pattern, words, message)
    return message


def _help() -> str:
    return help_command(c.name for c in app.registered_commands if c.name)


if __name__ == "__main__":
    main()
