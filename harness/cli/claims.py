"""``icequake claims``: what documents say of concurrent writers, what was measured, and the commands that measure it again."""

from __future__ import annotations

import io
import shlex
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from harness.cli import estimates, stopping
from harness.cli.command import Options
from harness.cli.crash import Crash
from harness.cli.options import (
    DEFAULT_STORE,
    INTERRUPTED,
    BadArgument,
    ForceOption,
    StoreOption,
    TyperError,
    Value,
    anywhere,
    command,
    store_words,
    write_output,
)

if TYPE_CHECKING:
    from workloads.file.claims import Claim, ClaimCommand, Claims

_SHOWN = 6
"""Last lines of a command's output that stand beside what is recorded."""


@dataclass(frozen=True)
class Again:
    """What came of a command that ran again.

    Attributes:
        typed: the command as it is typed.
        exit: its exit code; ``recorded``: the one that is recorded.
        seconds: how long it took.
        said: what it said of its result.
    """

    typed: str
    exit: int
    recorded: int
    seconds: float
    said: tuple[str, ...]

    @property
    def as_recorded(self) -> bool:
        """Whether the exit code is the recorded one."""
        return self.exit == self.recorded


def _verdicts() -> Iterable[str]:
    from workloads.file.claims import VERDICTS

    return VERDICTS


@dataclass(frozen=True)
class ClaimsOptions(Options):
    """What documents say of concurrent writers, and what was measured. With numbers: these claims in full; --again measures them."""

    short = "List claims of documents, measure them."

    ctx: typer.Context
    numbers: Annotated[
        list[int] | None, typer.Argument(help="Numbers of claims to show in full; default: list the claims.")
    ] = None
    verdict: Annotated[
        str | None,
        typer.Option(help="Only claims with this verdict: holds, holds in part, does not hold, open, later."),
        Value(choices=_verdicts, what="verdict"),
    ] = None
    anew: Annotated[
        bool, typer.Option("--again", help="Measure these claims again, after a line that says how long it takes.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show all claims in full; run nothing.")] = False
    output: Annotated[
        Path | None, typer.Option("--json", help="File for the claims as JSON."), Value(written=("counts", "claims"))
    ] = None
    force: ForceOption = False
    page: Annotated[
        Path | None, typer.Option(help="File for the page of all claims, as docs/claims.md."), Value(written=())
    ] = None
    store: StoreOption = DEFAULT_STORE

    def check(self) -> None:
        if self.anew and not self.numbers:
            raise BadArgument("--again: give the numbers of the claims to measure, such as claims 23 35 --again")

    @cached_property
    def _program(self) -> Any:
        """All commands."""
        return self.ctx.find_root().command

    def execute(self) -> int:
        from reports import claims as shown
        from workloads.file import claims as files

        found = files.load(lambda words: wrong_command(self._program, words))
        chosen = _chosen(found, self.numbers or [], self.verdict)
        measured_again: dict[int, list[Again]] = {}
        code = 0
        if self.anew and not self.dry_run:
            code = _measure(self._program, found, chosen, self.store, measured_again)
        else:
            self._show(found, chosen)
        if self.page is not None:
            write_output(self.page, shown.page(found))
        if self.output is not None:
            ran = {n: [asdict(a) for a in each] for n, each in measured_again.items()}
            write_output(self.output, shown.to_json(found, chosen, ran))
        return code

    def _show(self, found: Claims, chosen: Sequence[Claim]) -> None:
        """The claims in full with their commands, or as a table."""
        from harness.cli.terminal import console
        from reports import claims as shown
        from reports.drawing import render

        if self.numbers or self.dry_run:
            for c in chosen:
                _tell(found, c, [_complete(self._program, command, self.store) for command in c.commands])
        else:
            console(highlight=False).print(render.table(shown.table(chosen)))
        if not self.numbers:
            typer.echo(shown.total(chosen))
        elif how_long := _how_long(self._program, chosen):
            numbers = (str(c.number) for c in chosen)
            typer.echo(
                f"measuring again takes {how_long}: {command()} {shlex.join(['claims', *numbers, '--again', *store_words(self.store)])}"
            )


def wrong_command(program: Any, words: Sequence[str]) -> str | None:
    """What is wrong with the words of a command of this program; None if they can be typed."""
    from workloads.file.meant import unknown

    allowed = [name for name in program.commands if name != "claims"]
    if words[0] not in allowed:
        return unknown("command", words[0], allowed)
    try:
        with program.commands[words[0]].make_context(words[0], list(words[1:])):
            return None
    except TyperError as e:
        return f"{words[0]}: {str(e.format_message()).rstrip('.')}"  # type: ignore[attr-defined]
    except BadArgument as e:
        return f"{words[0]}: {e}"


def _how_long(program: Any, chosen: Sequence[Claim]) -> str:
    """How long the commands of claims take, each command once; empty if there is none."""
    times = [_takes(program, words) for words in dict.fromkeys(given.words for c in chosen for given in c.commands)]
    known = [t for t in times if t is not None]
    return estimates.words(sum(known) if len(known) == len(times) else None) if times else ""


def _takes(program: Any, words: Sequence[str]) -> float | None:
    """Seconds that a command of this program takes, about; None: nobody knows. Raises TyperError, BadArgument."""
    typed = program.commands[words[0]]
    made: type[Options] | None = getattr(typed.callback, "options", None)
    with typed.make_context(words[0], list(words[1:])) as ctx:
        return None if made is None else made(**{f.name: ctx.params.get(f.name) for f in fields(made)}).takes()


def _chosen(found: Claims, numbers: Sequence[int], verdict: str | None) -> list[Claim]:
    by_number = {c.number: c for c in found.all}
    for n in numbers:
        if n not in by_number:
            raise BadArgument(f"there is no claim {n}; the claims are {min(by_number)} to {max(by_number)}")
    chosen = [by_number[n] for n in dict.fromkeys(numbers)] or list(found.all)
    return [c for c in chosen if verdict in (None, c.verdict)]


def _tell(found: Claims, claim: Claim, commands: Sequence[Sequence[str]]) -> None:
    from reports import claims as shown

    first, *rest = shown.story(found, claim)
    typer.echo(_wrapped(first, "", "    "))
    for paragraph in rest:
        typer.echo(_wrapped(paragraph, "    ", "    "))
    for words in commands:
        typer.echo(f"    {command()} {shlex.join(words)}")
    typer.echo("")


def _wrapped(text: str, first: str, then: str) -> str:
    options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, 110, initial_indent=first, subsequent_indent=then, **options)


def _complete(program: Any, given: ClaimCommand, store: Path) -> list[str]:
    """The words of a command with the folder that its runs go to. A matrix begins anew: a finished one would measure nothing."""
    takes = {option for p in program.commands[given.words[0]].params for option in p.opts}
    words = list(given.words)
    if "--store" in takes and "--store" not in words:
        return [*words, *store_words(store)]
    if "--into" in takes and "--into" not in words:
        time_stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        return [*words, "--into", str(store / "claims" / f"{words[0]}-{time_stamp}")]
    return words


def _measure(
    program: Any, found: Claims, chosen: Sequence[Claim], store: Path, measured_again: dict[int, list[Again]]
) -> int:
    """Run the commands of claims, each command once, and show what came out beside what is recorded.

    Args:
        measured_again: receives what came out, by the number of the claim.

    Returns:
        The exit code: 0 if each command ended as recorded, 1 if one did not, 2 if a claim has no command, 255 if one could not run.

    Raises:
        Stopped: the user stopped it.
    """
    from reports.drawing.words import plural

    ran: dict[tuple[str, ...], Again] = {}
    stop = stopping.current()
    if how_long := _how_long(program, chosen):
        typer.echo(f"measuring {plural(len(chosen), 'claim')} again takes {how_long}")
    for n, claim in enumerate(chosen):
        others = ["claims", *(str(c.number) for c in chosen[n:]), "--again", *store_words(store)]
        remaining = f"{anywhere()} {shlex.join(others)}"
        stopped = f"{n} of {len(chosen)} claims are measured; measure the others with: {remaining}"
        for given in claim.commands:
            if given.words not in ran:
                words = _complete(program, given, store)
                typer.echo(f"claim {claim.number}: {command()} {shlex.join(words)}")
                stop.way_on = partial(str, stopped)
                try:
                    ran[given.words] = _run(program, words, given.exit)
                except (KeyboardInterrupt, typer.Abort, stopping.Stopped) as e:
                    _show(chosen[:n], measured_again)
                    own = f"{e.line}; " if isinstance(e, stopping.Stopped) else ""
                    raise stopping.Stopped(own + stopped) from e
            measured_again.setdefault(claim.number, []).append(ran[given.words])
    _show(chosen, measured_again)
    if any(a.exit not in (0, 1, 2) for a in ran.values()):
        return 255
    if not all(a.as_recorded for a in ran.values()):
        return 1
    return 0 if all(c.commands for c in chosen) else 2


def _run(program: Any, words: Sequence[str], recorded: int) -> Again:
    """Run a command of this program; an error of it is told and becomes its exit code."""
    from harness.cli.failures import explain

    began = time.monotonic()
    tee = _Tee(sys.stdout)
    with redirect_stdout(tee):
        try:
            code = program.main(list(words), prog_name="icequake", standalone_mode=False)
        except (stopping.Stopped, typer.Abort):
            raise
        except Exception as e:
            code = explain(e if isinstance(e, Crash) else Crash(e), f"{command()} {words[0]} --help")
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    code = code if isinstance(code, int) else 0
    return Again(
        f"{command()} {shlex.join(words)}", code, recorded, round(time.monotonic() - began, 1), _gist(words, tee.text)
    )


def _gist(words: Sequence[str], text: str) -> tuple[str, ...]:
    """What a command said of its result: the rows of a proof's table, else its last lines."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if words[0] == "prove":
        return tuple(line for line in lines if line[0] != " " and line.split()[0] in words)
    return tuple(lines[-_SHOWN:])


def _show(chosen: Sequence[Claim], measured_again: dict[int, list[Again]]) -> None:
    for c in chosen:
        typer.echo("\n" + _wrapped(f"claim {c.number}, {c.verdict}: {c.claim}", "", "  "))
        when = f"{c.measured.date}, {c.measured.versions}: {c.outcome}" if c.measured else f"nothing yet. {c.why}"
        typer.echo(_wrapped(f"recorded  {when}", "  ", " " * 12))
        for a in measured_again.get(c.number, []):
            as_it = "as recorded" if a.as_recorded else f"recorded was {a.recorded}"
            typer.echo(f"  now       exit code {a.exit}, {as_it}, in {a.seconds:.0f} s")
            for line in a.said:
                typer.echo(f"            {line}")
        if not c.commands:
            typer.echo("  now       no command measures it")


class _Tee(io.TextIOBase):
    """Standard output that is also kept."""

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        # Click writes bytes to find out whether a stream is text. The real stream refuses them, so they are not kept.
        written = self._out.write(text)
        self._kept.append(text)
        return written

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        return self._out.isatty()

    def fileno(self) -> int:
        return self._out.fileno()

    def writable(self) -> bool:
        return True

    @property
    def text(self) -> str:
        """All that was written."""
        return "".join(self._kept)
