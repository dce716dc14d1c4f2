"""The store of runs: ``<store>/<workload>/<time>/`` with ``latest`` links, as in Jepsen.

A run's folder holds ``plan.yaml``, ``run.json`` (state: running, complete, failed, interrupted), ``history.jsonl``, ``tablelog/``,
``logs/``, ``results.json``, ``report.html``, ``junit.xml``. Everything is written so that a run that dies keeps what it recorded.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from checkers.evidence.lenient import strings
from checkers.evidence.plan import Plan, wrong_key
from workloads.file import filekinds, own_kinds, plainyaml
from workloads.file.opened import DEPTH, document, opened, too_deep
from workloads.operations.kinds import KindError

GONE = "missing, and the run wrote it: it was removed; restore it from a copy"
"""Of a file of evidence."""
NO_STATE = (
    "missing, so it is not known whether the run came to its end, and it counts as stopped; restore it from a copy"
)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk that is full, of a quota, and of a file that may not grow."""


UNREADABLE = "unreadable"
"""Key of :meth:`RunFolder.state`."""
EVIDENCE = "evidence"
"""Key of ``run.json``: the files of evidence that the run wrote beside plan and history, relative to its folder."""


class StoreError(ValueError):
    """A store or run folder is unusable; the message is one line with the remedy."""


def mapping_in(path: Path, *, words: bool = False) -> dict[str, Any]:
    """A document of a run's folder, JSON or (any other name) YAML, that is a mapping.

    Args:
        words: of YAML, numbers and the like stay words.

    Raises:
        StoreError: it cannot be read, or is no such document; names file and line.
        FileNotFoundError: there is none.
    """
    try:
        content = document(path)
        text = content.decode()
        if path.suffix == ".json":
            if too_deep(content):
                raise StoreError(f"{path}: nested deeper than {DEPTH} levels")
            value = json.loads(text)
        else:
            value = plainyaml.value_of(text, words=words)
    except (FileNotFoundError, StoreError):
        raise
    except OSError as e:
        raise StoreError(f"{path}: cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise StoreError(f"{path}: not UTF-8 text: byte {e.start + 1} is no part of a character") from None
    except json.JSONDecodeError as e:
        raise StoreError(f"{path}:{e.lineno}: not JSON from here on") from None
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        wrong = e.problem if isinstance(e, plainyaml.TooMuch) else "not YAML from here on"
        line = "" if mark is None else f":{min(mark.line, text.count(chr(10))) + 1}"  # the loader in C counts one on
        raise StoreError(f"{path}{line}: {wrong}") from None
    except yaml.YAMLError:
        raise StoreError(f"{path}: not YAML: it has a character that YAML does not allow") from None
    except (RecursionError, ValueError):  # such as a date of the 13th month
        raise StoreError(f"{path}: it has a value that cannot be read") from None
    if not isinstance(value, dict):
        raise StoreError(f"{path}: must be a mapping{', the plan of a run' if path.name == 'plan.yaml' else ''}")
    return value


def replace_file(path: Path, text: str | bytes, *, mode: int = 0o666) -> None:
    """Write the whole file ``path`` in one step: the old file stays until the new one is complete and on disk.

    Neither a full disk nor a kill leaves half a file. A link is replaced, not followed.

    Args:
        text: characters are written as UTF-8.
        mode: its permissions from the first byte on, reduced by the process's umask.

    Raises:
        OSError: it cannot be written; names ``path``. The old file is unchanged and no temporary file is left.
    """
    content = text.encode() if isinstance(text, str) else text
    new = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    try:
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


def append(path: Path, text: str) -> None:
    """Append whole lines and have them on disk; the file is made if it does not exist. If that fails, it is as before.

    Raises:
        OSError: it cannot be written; names ``path``.
    """
    content = text.encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            before, done = os.fstat(handle).st_size, 0
            try:
                while done < len(content):
                    done += os.write(handle, content[done:])
                os.fsync(handle)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, before)
                    if not before:
                        path.unlink()
                raise
        finally:
            os.close(handle)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(path)) from e


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of one run."""

    path: Path

    @property
    def plan(self) -> Path:
        """The resolved workload, versions, seed."""
        return self.path / "plan.yaml"

    @property
    def run(self) -> Path:
        """State, times, memory."""
        return self.path / "run.json"

    @property
    def history(self) -> Path:
        """The history."""
        return self.path / "history.jsonl"

    @property
    def tablelog(self) -> Path:
        """The folder of table logs, one per table."""
        return self.path / "tablelog"

    @property
    def proxy(self) -> Path:
        """The proxy log, one line of JSON per request; absent if there were no proxies."""
        return self.path / "proxy.jsonl"

    @property
    def kinds(self) -> Path:
        """The modules of operation kinds from outside icequake; absent if there were none."""
        return self.path / "kinds"

    @property
    def logs(self) -> Path:
        """The logs of services and writers."""
        return self.path / "logs"

    @property
    def results(self) -> Path:
        """The verdicts."""
        return self.path / "results.json"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    @property
    def began(self) -> bool:
        """Whether the history has an event."""
        try:
            with opened(self.history) as file:
                return bool(file.readline() and file.readline())
        except OSError:
            return False

    def require_history(self) -> None:
        """Raises StoreError: there is no history, and the run's state says that it had operations."""
        counted = self.state().get("operations")
        if not self.history.exists() and isinstance(counted, int) and counted:
            raise StoreError(
                f"{self.history}: missing, but run.json counts {counted} operations: it was removed; restore it from a copy"
            )

    def state(self) -> dict[str, Any]:
        """``run.json``; a run that says running but whose process is gone is ``incomplete``.

        So is one without that file. If the run wrote it, and it is gone or cannot be read, :data:`UNREADABLE` says so; of other files of
        evidence that the run wrote, too.
        """
        try:
            state = mapping_in(self.run)
        except FileNotFoundError:
            lost = {UNREADABLE: f"{self.run.name}: {NO_STATE}"} if self._by_command else {}
            return {"state": "incomplete", **lost}
        except StoreError as e:
            return {"state": "incomplete", UNREADABLE: str(e).replace(f"{self.path}/", "")}
        if state.get("state") == "running" and not _alive(state):
            state["state"] = "incomplete"
        gone = [name for name in strings(state.get(EVIDENCE)) if not os.path.exists(self.path / name)]
        return {**state, UNREADABLE: "; ".join(f"{name}: {GONE}" for name in gone)} if gone else state

    @property
    def evidence(self) -> list[str]:
        """The files of evidence that are there beside plan and history, as :data:`EVIDENCE` has them."""
        there = (self.proxy, *sorted(self.tablelog.glob("*.jsonl")), *sorted(self.kinds.glob("*.py")))
        return [path.relative_to(self.path).as_posix() for path in there if path.exists()]

    @property
    def _by_command(self) -> bool:
        """Whether a command made the run: that writes ``run.json`` before the plan."""
        try:
            return bool(self.read_plan().command)
        except StoreError:
            return False

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Replace ``run.json`` in one step."""
        known = {k: v for k, v in state.items() if k != UNREADABLE}
        replace_file(self.run, json.dumps(known, indent=1) + "\n")

    def write_plan(self, plan: Plan) -> None:
        """Write ``plan.yaml``."""
        replace_file(self.plan, yaml.safe_dump(plan.to_yaml(), sort_keys=False, allow_unicode=True, width=120))

    def read_plan(self) -> Plan:
        """Read ``plan.yaml``.

        Raises:
            StoreError: it is absent or not a plan; names the key.
        """
        try:
            plan = mapping_in(self.plan)
        except FileNotFoundError as e:
            raise StoreError(
                f"{self.plan}: cannot be read: {e.strerror}; is {self.path} the folder of a run?"
            ) from None
        try:
            return Plan.model_validate(plan)
        except ValidationError as e:
            raise StoreError(f"{self.plan}: {wrong_key(e)}") from None


def save_kinds(run: RunFolder, names: Iterable[str]) -> dict[str, str]:
    """Save the modules of operation kinds from outside icequake; return the plan's value of ``kinds``.

    Raises:
        OSError: they cannot be written.
    """
    origins = own_kinds.origins(names)
    for origin in origins.values():
        path = run.kinds / origin.file
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, origin.text)
    return {name: origin.where for name, origin in origins.items()}


def load_kinds(run: RunFolder, plan: Mapping[str, Any]) -> None:
    """Import a run's operation kinds from outside icequake: those under ``kinds`` in the plan.

    Raises:
        StoreError: one cannot be imported.
    """
    kinds = plan.get("kinds") or {}
    if not isinstance(kinds, dict) or not all(isinstance(x, str) for pair in kinds.items() for x in pair):
        raise StoreError(f"{run.plan}: kinds: must be names, each with module:Class")
    try:
        own_kinds.load_recorded(kinds, run.kinds)
    except KindError as e:
        raise StoreError(f"{run.plan}: kinds: {e}") from None


def _started(pid: int) -> float | None:
    import psutil

    try:
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, ValueError, OverflowError):  # no such process, or not a valid pid
        return None


def identity() -> dict[str, Any]:
    """This process, so that a later one can tell whether it still lives: pid and start time."""
    return {"pid": os.getpid(), "pid_started": _started(os.getpid())}


def _alive(state: Mapping[str, Any]) -> bool:
    pid, started = state.get("pid"), state.get("pid_started")
    return isinstance(pid, int) and started is not None and _started(pid) == started


def create(store: Path, workload: str) -> RunFolder:
    """Make the folder of a new run and point the ``latest`` links at it.

    Raises:
        StoreError: the store cannot be written; the message has a remedy.
        OSError: its disk is full (:data:`FULL`); names the folder.
    """
    now = datetime.now(UTC)
    for _ in range(1000):
        stamp = now.strftime("%Y%m%dT%H%M%S.") + f"{now.microsecond // 1000:03d}Z"
        folder = store / workload / stamp
        try:
            folder.mkdir(parents=True)
            break
        except FileExistsError:
            now = datetime.now(UTC)
        except OSError as e:
            if e.errno in FULL:
                raise
            raise StoreError(f"{folder}: cannot be made: {e.strerror}; give another folder with --store") from None
    else:
        raise StoreError(f"{store / workload}: no free name for a run")
    run = RunFolder(folder)
    try:
        run.tablelog.mkdir()
        run.logs.mkdir()
        _link(store / workload / "latest", Path(stamp))
        _link(store / "latest", Path(workload) / stamp)
    except OSError as e:
        if e.errno in FULL:
            raise OSError(e.errno, e.strerror, str(folder)) from None
        raise StoreError(f"{folder}: cannot be written: {e.strerror}; give another folder with --store") from None
    return run


def _link(link: Path, target: Path) -> None:
    new = link.with_name(f".{link.name}.{os.getpid()}.{threading.get_ident()}")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(target)
    new.replace(link)


def relink(gone: Path) -> None:
    """Let the ``latest`` links that led to a run's folder, which is gone, lead to the newest run that is left; remove them if none is."""
    for place, runs in ((gone.parent, "*"), (gone.parent.parent, "*/*")):
        link = place / "latest"
        if link.is_symlink() and not link.exists():
            link.unlink()
            found = (p.parent for p in place.glob(f"{runs}/history.jsonl") if not p.parent.is_symlink())
            if (newest := max(found, key=lambda p: p.name, default=None)) is not None:
                _link(link, newest.relative_to(place))


_RUNS_BELOW = ("*", "*/*", "runs/*/*")
"""Where a workload's folder, a store and a night have runs."""


def find(path: Path) -> RunFolder:
    """The run that ``path`` means: a run's folder, a file in it, or a ``latest`` link.

    Raises:
        StoreError: there is none.
    """
    folder = path if path.is_dir() else path.parent
    if not path.exists():
        raise StoreError(f"{path}: no such run; `icequake list runs --store DIR` shows the runs of a store")
    if not (folder / "history.jsonl").exists() and (folder / "latest").exists():
        folder = folder / "latest"
    if not (folder / "history.jsonl").exists() and not (folder / "plan.yaml").exists():
        below = next(
            (
                p.parent
                for where in _RUNS_BELOW
                for p in sorted(folder.glob(f"{where}/plan.yaml"))
                if not p.parent.is_symlink()
            ),
            None,
        )
        if path.is_file() and (other := filekinds.refused(path, "the folder of a run")) is not None:
            raise StoreError(other)
        more = "" if below is None else f"; it has runs in it: name one, such as {below}"
        raise StoreError(f"{path}: not the folder of a run (no plan.yaml, no history.jsonl){more}")
    return RunFolder(folder.resolve())


def below(folder: Path) -> Iterator[RunFolder]:
    """The runs in a folder at any depth, the folder itself included, by path. Links are not followed, and no run is looked for in a run."""
    for place, folders, files in os.walk(folder):
        if "history.jsonl" in files or "plan.yaml" in files:
            folders.clear()
            yield RunFolder(Path(place))
        folders.sort()


def files_below(folder: Path) -> list[Path]:
    """The files in a folder at any depth, by path. Links to folders are not followed; what is removed meanwhile is passed over."""
    return sorted(Path(place) / name for place, _, names in os.walk(folder) for name in names)


def runs(store: Path) -> list[RunFolder]:
    """All runs of a store, oldest first."""
    stamp = re.compile(r"\d{8}T\d{6}\.\d{3}Z")
    found = [p for p in store.glob("*/*") if not p.is_symlink() and p.is_dir() and stamp.fullmatch(p.name)]
    return [RunFolder(p) for p in sorted(found, key=lambda p: (p.name, p.parent.name))]
