"""The command line.

Exit codes: 0 valid, 1 anomaly found, 2 unknown, 130 or 143 stopped by Ctrl-C or SIGTERM, 254 bad arguments or workload file, 255 the harness
failed.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harness import __version__
from harness.cli import check, experiments, lists, machine, run, stopping
from harness.cli.crash import Crash
from harness.cli.failures import BAD_INPUT, explain, report_failure
from harness.cli.options import WITHOUT_END, command
from harness.cli.stopping import Stopped, Stopping

TYPER_INTERRUPTED = 130
"""The exit code that Typer returns in place of a KeyboardInterrupt."""

_TyperError = typer.BadParameter.__mro__[2]
"""Click's ClickException, which newer Typers carry inside and do not export."""


app = typer.Typer(
    name="icequake",
    help="Breaks Apache Iceberg tables on purpose, with real Spark, and proves what survived.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


app.command("run")(run.run)
app.command("check")(check.check)
app.command("export")(check.export)
app.command("prove")(experiments.prove)
app.command("matrix")(experiments.matrix)
app.command("compare")(experiments.compare)
app.command("selftest")(check.selftest)
app.command("report")(check.report)
app.command("list")(lists.list_)
app.command("doctor")(machine.doctor)
app.command("setup")(machine.setup)
app.command("up")(machine.up)
app.command("down")(machine.down)


def main() -> None:
    """Entry point: every error becomes one line and an exit code, never a stack trace."""
    Stopping().install()
    sys.exit(_main())


def _main() -> int:
    options = {}
    if not sys.stdout.isatty():  # a log has no width, and boxes are drawn for eyes
        app.rich_markup_mode = None
        options = {"terminal_width": WITHOUT_END}
    try:
        code = app(standalone_mode=False, **options)
        if code == TYPER_INTERRUPTED:
            raise KeyboardInterrupt
        return code if isinstance(code, int) else 0
    except Stopped as e:
        return stopping.current().report(e.line)
    except (KeyboardInterrupt, typer.Abort):
        return stopping.current().report()
    except Exception as e:
        if isinstance(e, _TyperError):
            text = str(e.format_message()).rstrip(".")  # type: ignore[attr-defined]
            if not text:  # no command: Typer has shown the help
                return BAD_INPUT
            if text.startswith("Usage:"):  # the same without rich, where the help is the message
                typer.echo(text)
                return BAD_INPUT
            return report_failure(f"{text}; see `{command()} --help`", BAD_INPUT)
        return explain(e if isinstance(e, Crash) else Crash(e))


if __name__ == "__main__":
    main()
