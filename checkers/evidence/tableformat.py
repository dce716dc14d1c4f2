"""What a checker asks of a table's format, beyond what every table log says.

A format is a file of ``checkers/formats/``, or a folder there whose ``__init__.py`` names its class. File or folder, and the attribute ``name``
of its class, bear the format's name, which the header of a table log says. It needs no other registration.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from checkers.evidence.problem import Problem
from checkers.evidence.record import RecordError
from checkers.evidence.tablelog import Commit, Metadata, TableLog
from workloads.backoff import RetryLimits

FOLDER = "checkers.formats"


class SnapshotDifference(msgspec.Struct, frozen=True, gc=False):
    """Which snapshots a version lists no more, and which are new."""

    drop: list[int]
    add: list[int]

    @staticmethod
    def between(before: Sequence[int], now: tuple[int, ...]) -> SnapshotDifference | None:
        """What makes the one list the other; None if that is not so simple."""
        was, are = set(before), set(now)
        add = [s for s in now if s not in was]
        plain = (*(s for s in before if s in are), *add) == now
        return SnapshotDifference([s for s in before if s not in are], add) if plain else None

    def after(self, before: tuple[int, ...]) -> tuple[int, ...]:
        """The snapshots that a version lists."""
        dropped = {*self.drop}
        return (*([s for s in before if s not in dropped] if dropped else before), *self.add)


class MetadataRecord(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="metadata"
):
    """A :class:`Metadata` as a line of the file: all of it, or what differs from the line before."""

    n: int
    location: str
    last_updated_ms: int
    current: int | None
    snapshots: tuple[int, ...] | SnapshotDifference
    refs: dict[str, int]
    problems: tuple[Problem, ...] = ()

    def after(self, previous: Metadata | None) -> Metadata:
        """The version; ``previous``: the one before it.

        Raises:
            RecordError: it is a difference and there is no ``previous``, or that lacks what did not change, or grew.
        """
        return Metadata(**self.core(previous))

    def core(self, previous: Metadata | None) -> dict[str, Any]:
        """The fields that versions of every format have."""
        return {k: getattr(self, k) for k in Metadata.__struct_fields__} | {"snapshots": self.listed(previous)}

    def listed(self, previous: Metadata | None) -> tuple[int, ...]:
        """The snapshots of the version."""
        if not isinstance(self.snapshots, SnapshotDifference):
            return self.snapshots
        if previous is None:
            raise RecordError(NO_RECORD_BEFORE)
        return self.snapshots.after(previous.snapshots)


NO_RECORD_BEFORE = "a metadata record says only what differs from the record before it, and there is none"


class Records(NamedTuple):
    """The records of a table log in which formats differ."""

    commit: type[Commit]
    metadata: type[MetadataRecord]


CORE_RECORDS = Records(Commit, MetadataRecord)
"""Those of a format that adds nothing."""


C = TypeVar("C", bound=Commit)
M = TypeVar("M", bound=Metadata)


class TableFormat(Generic[C, M]):
    """A format, with its records of commits and versions. Of one that says no more than this class, the log alone tells what happened."""

    name: ClassVar[str] = ""
    """As the header of a table log says it."""
    records: ClassVar[Records] = CORE_RECORDS
    """The lines of its table logs, with the facts that it adds."""
    title: ClassVar[str] = ""
    """As a person writes it."""
    version: ClassVar[str] = "version"
    """What a person calls a version of a table."""
    decides: ClassVar[str] = ""
    """Who accepts a commit or refuses it; empty: the catalog."""
    keeper: ClassVar[str] = ""
    """Who must let only one of two commits make a version, and is at fault if both are accepted; empty: the catalog."""
    two_made: ClassVar[str] = (
        "accepted two commits on the same version of the table, and one took the place of the other"
    )
    """What the keeper, or the catalog, did if two commits were made on one version."""
    set_back_note: ClassVar[str] = ""
    """What to do after :meth:`set_back`, with ``{tables}``; a sentence, or nothing."""
    guard: ClassVar[str] = ""
    """What to do that no commit is lost; empty: what keeps a catalog's pointer."""

    def joined(self, line: Sequence[C]) -> C:
        """The last of several commits that one operation made at once, with what the format says of all of them; rows and files are core."""
        return line[-1]

    def backoff(self, properties: Mapping[str, Any]) -> RetryLimits:
        """When its own client tries a refused commit again, with these properties of the table."""
        return RetryLimits(num_retries=0, min_wait_ms=0, max_wait_ms=0)

    def same_but_time(self, first: M, second: M) -> bool:
        """Whether two versions that list the same snapshots differ in nothing but when they were made."""
        return True

    def restored(self, m: M) -> int | None:
        """The earlier version whose rows a version says that it brings back; None if it says none."""
        return None

    def follows(self, m: M, location: str) -> M:
        """The version, which names a predecessor, with this one in its place."""
        return m

    def maker_of(self, path: str) -> str | None:
        """What the name of a file has in common with those of all files of its commit; None if names do not tell."""
        return None

    def made_on(self, c: C, parent: C | None) -> bool | None:
        """Whether what a commit says of the whole table was counted from this parent (None: the empty table); None: it says nothing of it."""
        return None

    def described(self, spec: Mapping[str, Any]) -> str:
        """What its tables differ in beside what those of every format do, of the table that a plan describes."""
        return self.title

    def set_back(self, c: C, m: M, table: str) -> str:
        """How a person sets a table back to a commit, which this version has, without reading what came later; behind a colon."""
        return "set the table back to it"

    def brought_back(self, c: C, table: str) -> str | None:
        """How the rows of a commit that is listed and not on main come into the table; None: not without its statement."""
        return None

    def misses_moved_rows(self, m: M) -> bool:
        """Whether a merge-on-read delete is documented to miss a row that a concurrent commit rewrote, in a table of this version."""
        return False


@cache
def find(name: str) -> TableFormat[Any, Any]:
    """The format of that name.

    Raises:
        LookupError: there is none.
    """
    module = f"{FOLDER}.{name}"
    if not name.isidentifier():
        raise LookupError(f"there is no table format {name!r}; a format's name has only letters, digits and _")
    if find_spec(module) is None:
        file = module.replace(".", "/")
        raise LookupError(f"there is no table format {name!r}; its file would be {file}.py, or its folder {file}")
    for c in vars(import_module(module)).values():
        if inspect.isclass(c) and issubclass(c, TableFormat) and c.name == name:
            return c()
    raise LookupError(f"{module} has no class of table format {name!r}")


def format_of(log: TableLog) -> TableFormat[Any, Any]:
    """The format of a log's table."""
    return find(log.table_format)
