"""What an engine is to icequake: which operations it can do, what it promises of them, and how they are executed.

An engine writes to the same tables as all others, through the same catalog. One file of this folder says everything of one engine, and
two sides use it. The orchestrator and the checkers ask for facts: :attr:`Engine.promises`, :meth:`Engine.outcome`. A process of its own for
each writer (``harness.writers.engine_session``) calls :meth:`Guest.open` and executes operations; only there is the engine's library imported.

An operation means the same whoever executes it (``workloads.operations``). What differs is the promise: the isolation level that an
operation may rely on beside concurrent ones. A checker holds each operation to its own engine's promise, so one engine's
broken promise is never laid on another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal, Protocol

from workloads.backoff import Backoff
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import ICEBERG, TableFormatName, TableSpec

Level = Literal["serializable", "snapshot"]
ErrorChain = Sequence[Sequence[str]]
"""``[[class, message], ...]``, outermost first."""


class GuestError(Exception):
    """An engine's error with a chain of its own, such as that of a Java exception in another process."""

    def __init__(self, chain: ErrorChain) -> None:
        super().__init__("; ".join(f"{name}: {text}" for name, text in chain))
        self.chain = chain


@dataclass(frozen=True, slots=True)
class Promise:
    """What an engine promises operations of one kind, on a table that other writers change meanwhile.

    Attributes:
        level: the isolation level; None: the one that the table's own properties name.
        at_commit: it is evaluated on the snapshot that it commits on, because it scans nothing before.
        blind_append: it validates nothing although it read the table.
        source: where this is written: a class or function of the engine's code at a tag, or its documentation.
    """

    level: Level | None = None
    at_commit: bool = False
    blind_append: bool = False
    source: str = ""


Writes = Literal["appends", "rewritten files", "position deletes", "equality deletes"]
"""How a commit changes rows: it adds data files only; it replaces the data files that held them; or it hides them by delete files."""
Rule = Literal[
    "main",
    "added data",
    "removed data",
    "new deletes",
    "replaced files",
    "deletes of replaced files",
    "position deletes of replaced files",
    "replaced delete files",
    "referenced files",
    "referenced files, rewritten",
    "replaced manifests",
    "deletion vectors",
    "history",
    "scanned snapshot",
    "format version",
    "row ids",
    "target snapshot",
    "not published",
    "retained refs",
    "schema",
    "metadata",
]
"""What a commit validates against the commits that it did not read, if the catalog tells it that there are some:

* ``main``: there are none at all: whatever moved main makes it give up.
* ``added data``: none added a data file that may have a row that it selects; under snapshot isolation this is not validated.
* ``removed data``: none removed a data file that may have such a row.
* ``new deletes``: none added a delete file that may apply to such a row.
* ``replaced files``: the data files that it replaces are still there.
* ``deletes of replaced files``: none added a delete file for one of these.
* ``position deletes of replaced files``: the same, but equality deletes do not count.
* ``replaced delete files``: the delete files that it replaces or drops are still there.
* ``referenced files``: the data files that its position deletes name are still there.
* ``referenced files, rewritten``: the same, but who only deleted them does not count.
* ``replaced manifests``: the manifests that it replaces are still there.
* ``deletion vectors``: none added a deletion vector for a data file for which it adds one.

And of what changes a table's metadata:

* ``history``: main still leads back to the snapshot that it scanned, snapshot by snapshot.
* ``scanned snapshot``: that snapshot itself was not expired.
* ``format version``: none raised the format version above that of the delete files that it has written.
* ``row ids``: none raised it to 3 since the attempt, whose snapshot then has no row ids.
* ``target snapshot``: the snapshot to which it points a branch or a tag is still there.
* ``not published``: the staged snapshot that it publishes is not on main already.
* ``retained refs``: no branch or tag points to a snapshot that it expires.
* ``schema``: none changed the schema.
* ``metadata``: there are none at all, of any kind: whatever changed the metadata makes it give up.
"""


@dataclass(frozen=True, slots=True)
class CommitRules:
    """How an engine commits operations of one kind, on a table that other writers change meanwhile.

    The engine matrix predicts from it what a concurrent commit does to the operation (``checkers.conflicts.predicted``).

    Attributes:
        writes: how it changes rows.
        validates: each rule → how the message of the error begins by which it gives up. Empty: it validates nothing.
        retries: whether it tries again by itself after the catalog refused it. An engine that validates only ``main`` does not.
        source: where this is written: a class or function of the engine's code at a tag.
    """

    writes: Writes
    validates: Mapping[Rule, str] = field(default_factory=dict)
    retries: bool = True
    source: str = ""


class Client(Protocol):
    """One connection of an engine to a catalog, in a writer's process. One operation at a time."""

    def execute(self, op: str, f: str, value: Arguments, table: TableSpec, identifier: tuple[str, str]) -> Any:
        """Execute one operation and return its result, as ``Kind`` defines it; None if it has none.

        Args:
            op: the operation's id; its snapshots carry it if the engine lets one set their properties.
            f: name of its kind, one of :attr:`Engine.promises`.
            identifier: namespace and table.

        Raises:
            Exception: whatever the engine raises; :meth:`Engine.outcome` says what it means.
        """

    def alive(self) -> bool:
        """Whether it can execute further operations."""

    def close(self) -> None:
        """End it, and every process that it started."""


@dataclass(frozen=True, slots=True)
class Access:
    """How an engine reaches the stack, in plain values.

    Attributes:
        catalog: name of the catalog (``compose.catalogs``), or of the user's own.
        properties: of Iceberg's Java client for that catalog, such as ``type`` and ``uri``.
        pyiceberg: of ``pyiceberg.catalog.load_catalog``; None if PyIceberg has no such catalog.
        s3: URL of the object store; ``access_key``, ``secret_key``, ``region``: for it.
        warehouse: where tables lie, ``s3://…``.
        delta: the folder of the namespaces of Delta tables, ``s3a://…`` or ``file:///…``; empty: the run has none.
        spark: all properties of a Spark session that reaches the stack.
        scratch: a folder for this writer only, which outlives its replacements.
        files: what :mod:`compose.install.engines` installed for this engine, by name: folders, class paths, programs.
    """

    catalog: str
    properties: Mapping[str, str]
    pyiceberg: Mapping[str, str] | None
    s3: str
    access_key: str
    secret_key: str
    region: str
    warehouse: str
    spark: Mapping[str, str]
    scratch: str
    files: Mapping[str, Any]
    delta: str = ""


class Engine:
    """The facts of one engine. Stateless."""

    name: ClassVar[str]
    """As in ``writers:`` of a workload file."""
    title: ClassVar[str]
    """As in sentences."""
    tracker: ClassVar[str] = "https://github.com/apache/iceberg/issues"
    """Where a defect of its code is reported."""
    properties: ClassVar[frozenset[str]] = frozenset()
    """Catalog properties that begin with its name, if only these mean something; one that ends with a dot is how any begins."""
    software: ClassVar[Mapping[str, str]] = {}
    """What it consists of → its name among the versions of a run's plan; the engine itself first."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Those of these names that are packages of icequake's own environment, and have their version there."""
    promises: ClassVar[Mapping[str, Promise]] = {}
    """Kind → what it promises: the kinds that it can do."""
    commits: ClassVar[Mapping[str, CommitRules]] = {}
    """Kind → how it commits it. A kind without an entry is measured by the engine matrix, but not predicted. Spark's depends on the table:
    ``checkers.conflicts.predicted``."""
    formats: ClassVar[frozenset[TableFormatName]] = frozenset({ICEBERG})
    """Formats of the tables that it can use."""
    marks: ClassVar[bool] = False
    """Whether its snapshots carry the operation's id in their summary."""
    several: ClassVar[bool] = False
    """Whether one commit of it can add several snapshots, of which only the last is ever current."""
    catalogs: ClassVar[frozenset[str] | None] = None
    """Values of ``type`` in the properties of Iceberg's Java client that it can reach; None: every catalog."""
    definite: ClassVar[frozenset[str]] = frozenset()
    """Classes of errors that mean that an operation had no effect."""
    conflicts: ClassVar[frozenset[str]] = frozenset()
    """Classes by which it gives up because of a concurrent commit."""

    def can(self, f: str, table: TableSpec) -> bool:
        """Whether it can do operations of a kind on a table."""
        return f in self.promises and table.format in self.formats

    def writes_equality_deletes(self, f: str) -> bool:
        """Whether its operations of a kind leave equality deletes in the table."""
        own = self.commits.get(f)
        return KINDS[f].equality_deletes if own is None else own.writes == "equality deletes"

    def reads_equality_deletes(self, table: TableSpec) -> bool:
        """Whether it can read a table that has equality deletes."""
        return True

    def promise(self, f: str, table: TableSpec) -> Promise:
        """What it promises of a kind on a table; the default promise for a kind that it does not know."""
        return self.promises.get(f, Promise())

    def outcome(self, f: str, error: ErrorChain) -> Literal["fail", "info"]:
        """What an error says of an operation's effect: certainly none (``fail``), or unknown, which is the default."""
        kind = KINDS.get(f)
        if kind is not None and not kind.commits:
            return "fail"
        return "fail" if any(name in self.definite for name, _ in error) else "info"

    def conflict(self, error: ErrorChain) -> str | None:
        """The class, without its package, by which a concurrent commit made it give up; None for another error."""
        found = [name for name, _ in error if name in self.conflicts]
        return found[-1].rsplit(".", 1)[-1] if found else None


class Foreign(Engine):
    """An engine beside Spark's batch writers."""

    needs: ClassVar[str | None] = None
    """What ``compose.install.engines`` installs for it when it is first needed; None: it runs with what every run has."""

    def needs_with(self, properties: Mapping[str, str]) -> str | None:
        """The same in a run with these catalog properties, by which an engine may let its release be chosen."""
        return self.needs


class Guest(Foreign, ABC):
    """An engine of which each writer is a process of its own, which opens a client and executes operations with it."""

    imports_pyspark: ClassVar[bool] = False
    """Whether its process imports pyspark, which must be that of the run's Iceberg release."""

    @abstractmethod
    def open(self, access: Access) -> Client:
        """Connect; called in the writer's process."""


class Pooled(Foreign, ABC):
    """An engine whose writers share one process, so that many fit on a machine: each has a thread and a connection of its own.

    A fault that kills one of them kills them all.
    """

    @abstractmethod
    def request(
        self,
        op: str,
        f: str,
        value: Arguments,
        table: TableSpec,
        identifier: tuple[str, str],
        backoff: Backoff,
        rng: Random,
    ) -> dict[str, Any]:
        """What the process is asked for one operation, as plain values.

        Args:
            op, f, value, table, identifier: as for :meth:`Client.execute`.
            backoff: when it tries again after the catalog refused its commit.
            rng: for the waits between its attempts.
        """
