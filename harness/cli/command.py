"""A command is a frozen dataclass of its options: what Typer is told, what is refused and the line that repeats it come from its fields."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from harness.cli import estimates
from harness.cli.options import BadArgument, Value, absolute, anywhere, paths_anywhere

if TYPE_CHECKING:
    from harness.run.resolve import WorkloadFile
    from workloads.file.workload import Workload

Other = TypeVar("Other", bound="Options")

DRY_RUN = "dry_run"
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", hidden=True, help="Check the command line and the files that it names.")
]


@dataclass(frozen=True)
class Options:
    """One command, with the values of its options. Its name is that of the class, its help the docstring.

    A field is typed as Typer has it: ``Annotated[str, typer.Option(help="…")]``. A :class:`Value` behind that says what a value may be,
    and how a line that repeats the command has it.

    Attributes:
        short: what the list of all commands says of it.
    """

    short: ClassVar[str]

    def execute(self) -> int:
        """Do it; return the exit code. It is called after :meth:`prepare`."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises BadArgument: options do not go together."""

    def prepare(self) -> None:
        """Read the files that the options name, and refuse what does not fit them; nothing is started and no service is asked."""

    def look(self) -> None:
        """In a dry run, read what otherwise only :meth:`execute` reads of the files that the options name, and refuse it as that does."""

    def takes(self) -> float | None:
        """Seconds that it takes, about (:mod:`harness.cli.estimates`); None: nobody knows."""
        return None

    @property
    def how_long(self) -> str:
        """:meth:`takes` in words, for the line before something long begins."""
        return estimates.words(self.takes())

    @classmethod
    def typed_name(cls) -> str:
        """The command as it is typed: ``time-to-find`` of ``TimeToFindOptions``."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Options")).lower()

    @classmethod
    def callback(cls) -> Callable[..., int]:
        """The function that Typer registers: its signature has the fields, and the hidden ``--dry-run`` unless a field is called so."""

        def command(**given: Any) -> int:
            only_checked = DRY_RUN not in hints and given.pop(DRY_RUN)
            options = cls(**given)
            options.prepare()
            if not only_checked:
                return options.execute()
            options.look()
            typer.echo("can be typed; nothing was started")
            return 0

        hints = cls._hints()
        values = [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, annotation=hints[f.name], default=_default(f))
            for f in fields(cls)
        ]
        if DRY_RUN not in hints:
            dry = inspect.Parameter(DRY_RUN, inspect.Parameter.KEYWORD_ONLY, annotation=DryRunOption, default=False)
            values.append(dry)
        command.__doc__ = cls.__doc__
        command.__annotations__ = {p.name: p.annotation for p in values}
        command.__signature__ = inspect.Signature(values)  # type: ignore[attr-defined]
        command.options = cls  # type: ignore[attr-defined]
        return command

    @classmethod
    def _hints(cls) -> dict[str, Any]:
        hints = get_type_hints(cls, include_extras=True)
        return {f.name: hints[f.name] for f in fields(cls)}

    @classmethod
    @functools.cache
    def _fields(cls) -> tuple[tuple[Any, Value, Any], ...]:
        """Typer's parameter, the Value and the default of each field: arguments first, then options in the order of the help."""
        program = typer.Typer(add_completion=False)
        program.command(cls.typed_name())(cls.callback())
        params = {p.name: p for p in typer.main.get_command(program).params}
        found = []
        for f in fields(cls):
            values = (m for m in getattr(cls._hints()[f.name], "__metadata__", ()) if isinstance(m, Value))
            if f.name in params:  # Typer's context is a field that nobody types
                found.append((params[f.name], next(values, Value()), _default(f)))
        return tuple(sorted(found, key=lambda x: x[0].param_type_name != "argument"))

    def checked(self) -> None:
        """Raises BadArgument: some values cannot be what they are typed for (all of them), or options do not go together."""
        wrong = []
        for param, value, _ in self._fields():
            name = self.typed_name() if param.param_type_name == "argument" else param.opts[0]
            for given in _each(getattr(self, param.name)):
                try:
                    if isinstance(given, str):
                        value.check(name, given)
                    elif isinstance(given, Path):
                        force = getattr(self, "force", False)
                        value.check_path(name, given, force=force, command=self.typed_name())
                except BadArgument as e:
                    wrong.append(str(e))
        if wrong:
            raise BadArgument("; ".join(wrong))
        self.check()

    def words(self, **changes: Any) -> list[str]:
        """The words that repeat the command, in any folder; ``changes``: other values, which are said even if they are the default."""
        found, now = [self.typed_name()], replace(self, **changes)
        for param, value, default in self._fields():
            given = absolute(getattr(now, param.name))
            if param.name in changes or (value.repeat != "never" and given != absolute(default)):
                found += _typed(param, paths_anywhere(given) if value.repeat == "path" else given)
        return found

    def again(self, **changes: Any) -> str:
        """The command line of :meth:`words`."""
        return f"{anywhere()} {shlex.join(self.words(**changes))}"

    def like(self, other: type[Other], **changes: Any) -> Other:
        """Another command with the values of the options that both have, and with ``changes``."""
        both = {f.name for f in fields(self)} & {f.name for f in fields(other)}
        return other(**{name: getattr(self, name) for name in both} | changes)

    def changed(self, file: WorkloadFile, **changes: Any) -> Workload:
        """The workload of a file with those of the options that change one, and with other ``changes``. Raises BadArgument, WorkloadError."""
        from workloads.file.changes import ChangeError, Changes

        own = {f.name: getattr(self, f.name) for f in fields(Changes) if hasattr(self, f.name)}
        try:
            return file.with_(Changes(**own | changes))
        except ChangeError as e:
            raise BadArgument(str(e)) from None

    @property
    def mode(self) -> dict[str, Any]:
        """What ``--session`` and ``--cluster`` give."""
        return {k: v for k in ("session", "cluster") if (v := getattr(self, k, None)) is not None}


class Command(TyperCommand):
    """What Typer makes of a command. A path is absolute: a container, a later command and a process in another folder need it so.

    What was typed is refused as soon as it is parsed (:meth:`Options.checked`), before anything is done.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        for param in self.params:
            if param.param_type_name == "option" and param.name in ctx.params:
                ctx.params[param.name] = absolute(ctx.params[param.name])
        if not ctx.resilient_parsing:
            made = self.callback.options  # type: ignore[union-attr]
            made(**{f.name: ctx.params.get(f.name) for f in fields(made)}).checked()
        return rest


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _each(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]


def _typed(param: Any, value: Any) -> list[str]:
    """The words of one parameter with this value; none for None."""
    if value is None:
        return []
    if param.param_type_name == "argument":
        return [str(item) for item in _each(value)]
    if param.is_flag:
        return [param.opts[0]] if value else param.secondary_opts[:1]
    return [word for item in _each(value) for word in (param.opts[0], str(item))]
