"""Options and arguments that several commands take, and the checks of their values."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer


class BadArgument(ValueError):
    """An invalid argument that Typer itself cannot detect."""


INTERRUPTED = 130
"""The exit code that Typer returns in place of a KeyboardInterrupt."""

TyperError = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""Click's ClickException, which newer Typers carry inside and do not export."""


@dataclass(frozen=True)
class Value:
    """What a field of a command says of its value, besides its help.

    Attributes:
        repeat: how a line that repeats the command has it: ``path``, the file that it names by its absolute path; ``plain``, as it was
            typed; ``never``.
        unit: reads a text such as ``90s``; raises ValueError for another one.
        choices: the words that are allowed, or what gives them if one was typed.
        what: what such a word is called: ``engine``.
        several: the text has several values, separated by commas.
        folder: a path: of a folder that the command writes into.
        store: a path: of the folder of all runs, which may not be there.
        written: a path: of a file that the command writes. The keys are those of the JSON that it writes, so that it knows its own;
            ``key=text`` is a key with its value.
    """

    repeat: Literal["path", "plain", "never"] = "plain"
    unit: Callable[[str], object] | None = None
    choices: Iterable[str] | Callable[[], Iterable[str]] = ()
    what: str = "value"
    several: bool = False
    folder: bool = False
    store: bool = False
    written: tuple[str, ...] | None = None

    def check_path(self, name: str, path: Path, *, force: bool, command: str = "") -> None:
        """Raises BadArgument: the path that was typed for the option ``name`` cannot be written, or has what the command did not write.

        Args:
            force: the user wants it replaced, whatever it is.
            command: the one that was typed.
        """
        if self.store and path.exists() and not path.is_dir():
            raise BadArgument(f"{name} {path}: that is a file; give a folder that can be written")
        if self.folder:
            check_folder(name, path)
            _check_owner(name, path, command)
        if self.written is None:
            return
        if path.is_dir():
            raise BadArgument(f"{name} {path}: that is a folder; give the name of a file")
        if path.exists() and not path.is_file():
            return  # a pipe or a device, which nothing replaces
        check_folder(name, path.parent)
        if not force and path.is_file() and path.stat().st_size and not _is_json_with(path, self.written):
            raise BadArgument(
                f"{name} {path}: there is such a file, and it may not be of this command; give another name, or replace it with --force"
            )

    def check(self, name: str, text: str) -> None:
        """Raises BadArgument: the text that was typed for the option ``name`` cannot be its value; FileError: its file has errors."""
        from workloads.file.meant import unknown
        from workloads.file.yamlfile import FileError

        for item in listed(name, text) if self.several else [text]:
            allowed = list(self.choices() if callable(self.choices) else self.choices)
            if allowed and item not in allowed:
                raise BadArgument(f"{name} {shlex.join([item])}: {unknown(self.what, item, allowed)}")
            try:
                if self.unit is not None:
                    self.unit(item)
            except FileError:
                raise  # its lines name the file and say all
            except ValueError as e:
                raise BadArgument(f"{name} {item}: {e}") from None


WRITTEN_BY = {"written_by": "icequake check"}
"""By what ``check`` knows its own JSON: other programs write ``valid``, too."""


def _is_json_with(path: Path, keys: tuple[str, ...]) -> bool:
    """Whether a file is a JSON object that has these keys, one at least; of ``key=text`` with this value."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return False
    pairs = [key.partition("=") for key in keys]
    own = isinstance(found, dict) and all(k in found and (not equals or found[k] == v) for k, equals, v in pairs)
    return bool(keys) and own


def length(text: str) -> float:
    """Seconds of ``90s`` or ``5m``. Raises ValueError."""
    from nemesis.faults.lengths import seconds

    return seconds(text)


def spark_master(text: str) -> str:
    """The address of a Spark master that a run may use. Raises ValueError."""
    from compose.catalogs import addresses

    return addresses.spark_master(text)


def catalog_names() -> Iterable[str]:
    """The catalogs that icequake knows."""
    from compose.catalogs.registry import CATALOGS

    return CATALOGS


def guard_names() -> Iterable[str]:
    """The guards that icequake knows."""
    from compose.catalogs.delta import GUARDS

    return GUARDS


def engine_names() -> Iterable[str]:
    """The engines that icequake knows."""
    from workloads.engines.engines import ENGINES

    return ENGINES


def delta_releases() -> Iterable[str]:
    """The releases of Delta Lake that icequake knows."""
    from compose.install.delta import DELTA_RELEASES

    return DELTA_RELEASES


def deltalake_releases() -> Iterable[str]:
    """The releases of the package deltalake that icequake knows."""
    from workloads.engines.delta_rs import RELEASES

    return RELEASES


def catalogs_of(text: str | None) -> list[str]:
    """The catalogs of ``--catalog a,b``, those of the user's own files by their absolute paths: ``my.yaml``, ``./my.yaml`` and the line that
    continues from any folder mean one catalog. Raises BadArgument."""
    from compose.catalogs import user_file

    found = [os.path.abspath(n) if user_file.is_file(n) else n for n in listed("--catalog", text)]
    return listed("--catalog", ",".join(found)) if found else []


def catalog_name(name: str) -> str:
    """The catalog of this name, or of the user's own file. Raises ValueError, FileError."""
    from compose.catalogs import user_file
    from workloads.file.meant import suggest

    if user_file.is_file(name):
        user_file.load(Path(name))
    elif name not in (names := list(catalog_names())):
        raise ValueError(f"unknown{suggest(name, names)}; allowed: {', '.join(names)}, or a file of your own, my.yaml")
    return name


LONGEST_IN_OPS = 10_000_000
"""The longest run in operations, as in a workload file."""
LAST_SEED = 2**63 - 1
"""The last seed, as in a workload file."""
PATH, NEVER, LENGTH = Value("path"), Value("never"), Value(unit=length)
INTO, MASTER = Value(folder=True), Value(unit=spark_master)
CATALOG, CATALOGS = Value("path", unit=catalog_name), Value("path", unit=catalog_name, several=True)
OUR_CATALOG = Value(choices=catalog_names, what="catalog")
ENGINE, ENGINES = Value(choices=engine_names, what="engine"), Value(choices=engine_names, what="engine", several=True)

IcebergOption = Annotated[
    str | None,
    typer.Option(
        "--iceberg",
        help="Iceberg of the writers: a release (`list versions`), or the path of a runtime jar that you built; default: the newest release.",
    ),
    PATH,
]


WritersOption = Annotated[
    str | None,
    typer.Option(
        "--writers",
        help="Number of writers, or how many of each engine: 4, spark=3,duckdb=1 (`list engines`); overrides the file.",
    ),
]


FaultsOption = Annotated[
    str | None,
    typer.Option(
        "--faults", help="The faults of these packages (`list packages`) in place of the file's: lost-acks,crashes."
    ),
    Value(several=True),
]


OperationsOption = Annotated[
    str | None,
    typer.Option("--operations", help="Only these kinds of operations of the file: insert,delete."),
    Value(several=True),
]


SessionOption = Annotated[
    str | None,
    typer.Option(
        "--session", help="Settings of Spark's sessions: 'spark', as users have them, or 'fast' (docs/commands.md)."
    ),
    Value(choices=("spark", "fast")),
]


ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Where Spark's tasks run: 'standalone', in executors of a cluster, or 'local', in the writers' drivers (docs/commands.md).",
    ),
    Value(choices=("standalone", "local")),
]


FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="The format of all tables, partitioned, with the operations that it can do: delta."),
    Value(choices=("iceberg", "delta")),
]


GuardOption = Annotated[
    str | None,
    typer.Option("--guard", help="What guards the commits of Delta tables (docs/formats.md); overrides the file."),
    Value(choices=guard_names, what="guard"),
]


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only the last lines."), NEVER]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace a file of a name that you give, whatever is in it."), NEVER
]
NoNemesisOption = Annotated[bool, typer.Option("--no-nemesis", help="Inject no faults.")]


StoreOption = Annotated[Path, typer.Option("--store", help="Folder of all runs.", show_default=True), Value(store=True)]
DEFAULT_STORE = Path("store")
"""The default of ``--store``: a folder of the one in which the command is typed."""


def absolute(value: Any) -> Any:
    """The value of an option, in which paths, also those of a list, are absolute."""
    if isinstance(value, list):
        return [absolute(item) for item in value]
    return Path(os.path.abspath(value)) if isinstance(value, Path) else value


def store_words(store: Path) -> list[str]:
    """The option that names a store in a command that is printed; none for the default."""
    return [] if store == absolute(DEFAULT_STORE) else ["--store", str(store)]


WITHOUT_END = 10_000
"""Width in columns where output is not a terminal, such as a log; nothing is cut there."""


def command() -> str:
    """How this program was called, as a shell reads it, with what must stand before it; used in the commands that it prints."""
    return os.environ.get("ICEQUAKE_COMMAND", "icequake")


def anywhere() -> str:
    """How this program can be called from any folder: by its name if it is on the PATH, else by its absolute path."""
    program, *more = shlex.split(command())
    return shlex.join([os.path.abspath(program) if os.sep in program else program, *more])


def path_anywhere(name: str) -> str:
    """The absolute path of the file that ``name`` means; a name that is no file's stays."""
    return os.path.abspath(name) if Path(name).is_file() else name


def paths_anywhere(value: Any) -> Any:
    """The value of an option, in which :func:`path_anywhere` is said of each name, also of those that commas separate."""
    if isinstance(value, list | tuple):
        return [paths_anywhere(item) for item in value]
    if not isinstance(value, str) or Path(value).is_file():
        return path_anywhere(value) if isinstance(value, str) else value
    return ",".join(map(path_anywhere, value.split(",")))


def help_command(commands: Iterable[str]) -> str:
    """The command that shows the help of the one of ``commands`` that was typed first; of the whole program if there is none."""
    typed = sys.argv[1] if len(sys.argv) > 1 else ""
    return f"{command()} {typed} --help" if typed in commands else f"{command()} --help"


def warn(line: str) -> None:
    """Print one line about input that is used nevertheless."""
    typer.echo(f"icequake: warning: {line}", err=True)


def release_of(iceberg: str | None, workload: Any = None) -> Any:
    from compose.install import own_jar, releases
    from harness.run.versions import cannot_commit, cannot_run

    try:
        release = releases.find(iceberg)
    except (releases.UnknownRelease, own_jar.OwnJarError) as e:
        raise BadArgument(f"--iceberg: {e}") from None
    reason = None if workload is None else cannot_run(release, workload)
    if reason is not None:
        raise BadArgument(f"--iceberg {release.label}: {reason}")
    if workload is not None and (reason := cannot_commit(workload)) is not None:
        raise BadArgument(f"--catalog {workload.catalog}: {reason}")
    return release


def say_own_jar(release: Any, say: Callable[[str], object]) -> None:
    """Say what a user's runtime jar is, and which other jars the writers get beside it; nothing for a release."""
    own = release.own
    if own is None:
        return
    built = f", commit {own.commit[:12]}" if own.commit else ""
    built += f" (after {own.tag})" if own.tag else ""
    say(f"Iceberg {own.iceberg}{built}: {own.path}, sha256 {own.sha256}")
    if own.spark is None or own.scala is None:
        say(
            "  its name does not say for which Spark and Scala it was built, so those of the newest release are assumed"
        )
    say(
        f"  on Spark {release.spark}, Scala {release.scala}; beside it iceberg-aws-bundle of {release.beside}; "
        "the catalog's server keeps its own Iceberg"
    )


def write_output(path: Path, text: str) -> None:
    """Write a file that the user named, as UTF-8, and make its folder; a pipe or a device, too.

    Raises:
        BadArgument: its folder takes no file, such as one of /proc.
        OSError: which names it.
    """
    from checkers.evidence.runfolder import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            replace_file(path.resolve(), text)  # never half of it
    except FileNotFoundError:
        raise BadArgument(f"{path}: no file can be made in {path.parent}; give one in another folder") from None
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


def check_folder(option: str, path: Path) -> None:
    """Raises BadArgument: files cannot be written into this folder, or it cannot be made."""
    above = next(p for p in (path.absolute(), *path.absolute().parents) if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        what = "cannot be written by this user" if above.is_dir() else "is no folder"
        raise BadArgument(f"{option} {path}: {above} {what}; give a folder that can be written")


def _check_owner(option: str, path: Path, typed: str) -> None:
    """Raises BadArgument: the folder is that of another command than the one that was typed."""
    from harness.cli.owners import owners

    for name, commands in owners(path).items():
        if typed not in commands:
            of = " or ".join(f"`icequake {c}`" for c in commands)
            raise BadArgument(
                f"{option} {path}: this is the folder of {of}, which wrote {name} there; give `icequake {typed}` another folder, a new one"
            )


RunArgument = Annotated[
    Path | None,
    typer.Argument(help="A run's folder, or a `latest` link; default: the store's latest run.", show_default=False),
]


def run_in(store: Path, run: Path | None) -> Path:
    """The run that a command means: the store's latest one for None; a path that does not exist is looked for in the store, too.

    Raises:
        BadArgument: no run is named, and there is no store.
    """
    if run is None:
        if not store.is_dir():
            raise BadArgument(
                f"there is no store {store}; name a run's folder, or give the folder of the runs with --store"
            )
        return _begun(store / "latest")
    return run if run.exists() or not (store / run).exists() else store / run


def _begun(latest: Path) -> Path:
    """A link to the latest run. Raises BadArgument: that run never began, though others did."""
    from checkers.evidence import runfolder

    if (latest / "plan.yaml").exists() and not (latest / "history.jsonl").exists():
        began = [r.path for r in runfolder.runs(latest.parent) if (r.path / "history.jsonl").exists()]
        if began:
            last = max(began, key=lambda path: path.name)
            raise BadArgument(
                f"the latest run, {latest.resolve()}, never began; name another one: the last that did is {last}"
            )
    return latest


def listed(option: str, text: str | None) -> list[str]:
    """The comma-separated names of an option. Raises BadArgument for an empty list or a repeated name."""
    if text is None:
        return []
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise BadArgument(f"{option} {text!r}: give names separated by commas, such as a,b")
    if twice := [n for n in dict.fromkeys(names) if names.count(n) > 1]:
        raise BadArgument(f"{option} {text}: {', '.join(twice)} is given twice")
    return names
