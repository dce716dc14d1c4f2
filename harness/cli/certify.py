"""``icequake certify``."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import estimates, stopping
from harness.cli.command import Options
from harness.cli.crash import details_in
from harness.cli.options import (
    CATALOGS,
    DEFAULT_STORE,
    INTO,
    NEVER,
    BadArgument,
    ForceOption,
    QuietOption,
    StoreOption,
    Value,
    catalogs_of,
    listed,
    write_output,
)

if TYPE_CHECKING:
    from checkers.certificate import Certificate
    from harness.certify.certify import Certify
    from harness.certify.requirement import Requirement
    from reports.drawing.page import Page


BOTO3 = "install --no-deps boto3 botocore s3transfer jmespath"
"""botocore wants another python-dateutil than the one that is pinned, and works with that one."""


@dataclass(frozen=True)
class CertifyOptions(Options):
    """Ask a catalog what its clients rely on when they race and replies get lost: a matrix of requirements, each with its wire.

    It works in namespaces of its own, iq_*, which it drops, and names the folders that may still have files. At most 64 requests are
    under way at a time, and about 20,000 are sent in all.

    Exit code 0: every MUST holds and no data is lost; 1: not so; 2: something could not be asked.
    """

    short = "Ask a catalog whether it is right."

    catalog: Annotated[
        str, typer.Option(help="Catalogs, separated by commas: of the library, or files (my.yaml)."), CATALOGS
    ] = "rest"
    only: Annotated[
        str | None,
        typer.Option(help="Requirements or groups, separated by commas.", show_default=False),
        Value(several=True),
    ] = None
    repeat: Annotated[
        int | None, typer.Option(min=1, max=1000, help="How often each requirement is asked.", show_default=False)
    ] = None
    listing: Annotated[bool, typer.Option("--list", help="List the requirements and ask nothing."), NEVER] = False
    explain: Annotated[
        str | None, typer.Option(help="Say what a requirement is, and ask nothing.", show_default=False), NEVER
    ] = None
    against: Annotated[
        Path | None, typer.Option(help="An earlier certify.json: say what changed.", show_default=False), NEVER
    ] = None
    store: StoreOption = DEFAULT_STORE
    into: Annotated[
        Path | None,
        typer.Option(help="Folder of the certificate: it gets what it lacks; if it lacks nothing, new answers."),
        INTO,
    ] = None
    output: Annotated[
        Path | None,
        typer.Option("--json", help="Another file for the certificate as JSON."),
        Value("never", written=("servers", "answers")),
    ] = None
    force: ForceOption = False
    quiet: QuietOption = False

    def prepare(self) -> None:
        from compose.catalogs import user_file
        from compose.catalogs.registry import CATALOGS as OURS

        _ = self._asked, self._before
        if self.explain is not None:
            self._named(self.explain)
        for name in self._catalogs.values():
            if user_file.is_file(name) or OURS[name].rest:
                continue
            if OURS[name].pyiceberg is None:
                raise BadArgument(
                    f"--catalog {name}: PyIceberg has no such catalog; give jdbc, jdbc-sqlite, hive, or one with a REST server"
                )
            if same := OURS[name].for_pyiceberg:
                raise BadArgument(
                    f"--catalog {name}: PyIceberg reaches it as it reaches {same}, so it is asked as {same}; give {same}"
                )
            if OURS[name].wire == "aws" and find_spec("boto3") is None:
                raise BadArgument(
                    f"--catalog {name}: PyIceberg asks it by boto3, which is not installed; type: {sys.executable} -m pip {BOTO3}"
                )

    @cached_property
    def _catalogs(self) -> dict[str, str]:
        """How each catalog is called → its name, or the path of its file. Raises FileError."""
        from compose.catalogs import user_file

        names = catalogs_of(self.catalog)
        return {user_file.load(Path(n)).name if user_file.is_file(n) else n: n for n in names}

    @property
    def _stores(self) -> set[str]:
        """The addresses of the stores that the catalogs' files name by ``s3:``."""
        from compose.catalogs import user_file
        from compose.catalogs.addresses import store_address

        named = [s3 for n in self._catalogs.values() if user_file.is_file(n) and (s3 := user_file.load(Path(n)).s3)]
        return {f"{parts.scheme}://{parts.netloc}" for parts in map(store_address, named)}

    @cached_property
    def _asked(self) -> list[Requirement]:
        from harness.certify.requirements import GROUPS, requirements

        names = listed("--only", self.only)
        for name in names:
            if name not in GROUPS:
                self._named(name, "--only", GROUPS)
        return [r for r in requirements() if not names or r.id in names or r.group in names]

    def _named(self, name: str, option: str = "--explain", groups: Sequence[str] = ()) -> Requirement:
        from harness.certify.requirements import requirements
        from workloads.file.meant import suggest

        known = {r.id: r for r in requirements()}
        if name not in known:
            meant = suggest(name, (*groups, *known))
            raise BadArgument(f"{option} {name}: unknown requirement {name!r}{meant}; --list has all")
        return known[name]

    @cached_property
    def _before(self) -> Certificate | None:
        from harness.certify.certify import CertifyError, read

        try:
            return None if self.against is None else read(self.against)
        except CertifyError as e:
            raise BadArgument(f"--against {e}") from None

    def takes(self) -> float | None:
        tries = sum((self.repeat or r.tries) / r.tries for r in self._asked)
        return len(self._catalogs) * (estimates.STACK_S + tries * estimates.REQUIREMENT_S)

    def execute(self) -> int:
        if self.listing or self.explain is not None:
            from reports.certify import FINDINGS

            group = ""
            for r in self._asked if self.explain is None else [self._named(self.explain)]:
                if self.explain is None and r.group != group:
                    group = r.group
                    typer.echo(group)
                typer.echo(f"{'' if self.explain else '  '}{r.id:<28} {r.level:<8} {r.sentence}")
                if self.explain is not None:
                    typer.echo(
                        f"\n  group   {r.group}\n  source  {r.source}\n  if not  {r.effect}\n  tries   {r.tries}"
                    )
                    for heading, text in (("asked", r.asked), ("to do", r.to_do)):
                        typer.echo(
                            textwrap.fill(text, 100, initial_indent=f"  {heading:<8}", subsequent_indent=" " * 10)
                        )
                    if r.id in FINDINGS:
                        typer.echo(f"  told in {FINDINGS[r.id].file}")
            return 0
        return self._certify()

    def _certify(self) -> int:
        from checkers.evidence import runfolder
        from compose.catalogs import user_file
        from harness.certify.certify import Certify
        from harness.certify.requirements import requirements
        from harness.certify.servers import preflight
        from harness.cli.terminal import Voice
        from reports import certify as page

        preflight(n for n in self._catalogs.values() if user_file.is_file(n))
        into = self.into or runfolder.create(self.store / "certify", "-".join(self._catalogs)).path
        goes_on = self.again(into=into, store=self.store)
        with Voice(quiet=self.quiet) as voice, details_in(into):
            some = f" of {len(requirements())}" if len(self._asked) < len(requirements()) else ""
            voice.keep(f"{len(self._asked)}{some} requirements, {', '.join(self._catalogs)}, {self.how_long}: {into}")
            stopping.current().way_on = lambda: f"continue with: {goes_on}"
            outcomes: list[tuple[Certificate, Page, Path]] = []
            whole = Certify(
                self._catalogs,
                self._asked,
                into,
                voice,
                self.repeat,
                finished=lambda a: voice.keep(page.line_of(a)),
                complete=lambda: outcomes.append(self._write(whole, into)),
            )
            try:
                whole.go()
            except KeyboardInterrupt as e:
                so_far = (
                    f"{whole.remaining} of {len(self._asked) * len(self._catalogs)} requirements are still to be asked"
                )
                raise stopping.Stopped(f"{so_far}; continue with: {goes_on}") from e
        return self._show(whole, into, *outcomes[-1])

    def _write(self, whole: Certify, into: Path) -> tuple[Certificate, Page, Path]:
        """Write what comes out into the folder; return the page's path, too."""
        from reports import certify as page
        from reports.drawing import render

        only = self._held(whole)
        certificate = whole.certificate(published(self.words(into=None, store=None, catalog=self.catalog, **only)))
        made = page.of(certificate, {r.id for r in self._asked})
        written = render.write(made, into)
        for name in self._catalogs:
            badge = json.dumps(page.badge_json(certificate, name)) + "\n"
            write_output(into / (f"badge-{name}.json" if len(self._catalogs) > 1 else "badge.json"), badge)
        if self.output is not None:
            write_output(self.output, render.data(made))
        return certificate, made, written

    def _beyond(self, whole: Certify) -> set[str]:
        """What an earlier command asked into this folder is on the page, too."""
        return {a.id for a in whole.answers} - {r.id for r in self._asked}

    def _held(self, whole: Certify) -> dict[str, str | None]:
        """The option ``--only`` by which a command asks all that the folder has answers to; empty if it is the one that was typed."""
        from harness.certify.requirements import requirements

        if not self._beyond(whole):
            return {}
        asked = {r.id for r in self._asked} | {a.id for a in whole.answers}
        ids = [r.id for r in requirements()]
        return {"only": None if asked.issuperset(ids) else ",".join(id for id in ids if id in asked)}

    def _show(self, whole: Certify, into: Path, certificate: Certificate, made: Page, written: Path) -> int:
        from checkers.certificate import Conclusion, compared
        from harness.certify.certify import LEFT
        from harness.cli.terminal import show

        beyond = self._beyond(whole)
        only = self._held(whole)
        typer.echo()
        ends = {"page": written, "json": written.with_suffix(".json"), "again": self.again(into=None, **only)}
        left = {"left": left_over(places, into / LEFT, self._stores)} if (places := whole.left()) else {}
        stay = [a.conclusion for a in certificate.answers if a.id in beyond]
        failed = f"{stay.count(Conclusion.FAIL)} fail" if Conclusion.FAIL in stay else "none fails"
        others = {"others": f"{len(stay)} other answers of this folder stay: {failed} ({written.name})"} if stay else {}
        show(made, others | ends | left)
        for line in () if self._before is None else compared(str(self.against), self._before, certificate):
            typer.echo(f"  {line}")
        return certificate.exit_code


def published(words: Sequence[str]) -> str:
    """A command as others read it: of a path the file's name alone, because the folders are those of one machine."""
    return shlex.join(["icequake", *(",".join(Path(part).name for part in word.split(",")) for word in words)])


def left_over(places: Sequence[str], file: Path, stores: Collection[str] = ()) -> str:
    """Where the files of dropped tables may be, and how they are removed.

    Args:
        places: the folders of these tables.
        file: it has them, a line each.
        stores: the addresses that their stores are known by; of several none is said, because one command reaches one.
    """
    named = shlex.quote(str(file))
    steps = zip(*(place.split("/") for place in places), strict=False)
    below = "/".join(step[0] for step in takewhile(lambda step: len(set(step)) == 1, steps))
    at = f" --endpoint-url {shlex.quote(next(iter(stores)))}" if len(stores) == 1 else ""
    each = f"tr '\\n' '\\0' < {named} | xargs -0 -n1"  # a path may have blanks and quotes, at which xargs alone would cut it
    remove = [f"{each} aws s3 rm --recursive{at}"] if all(p.startswith("s3:") for p in places) else []
    remove += [f"{each} rm -r --"] if not any("://" in p for p in places) else []
    how = f"; remove them: {remove[0]}" if remove else ""
    how += " (aws: the AWS CLI, which icequake does not install)" if " aws " in how else ""
    return f"{len(places)} folders of dropped tables below {below} may have files: {file}{how}"
