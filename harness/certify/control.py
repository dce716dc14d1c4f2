"""What only the operator of a server can do: stand between it and its database, end it, start another one beside it, look into its store."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema

from checkers.certificate import Absent
from compose.objectstore import ObjectStore
from compose.processes.ports import LOOPBACK
from harness.certify.exchanges import NotApplicable
from harness.certify.scan import write_scan
from harness.run.bench import Bench
from nemesis.faults.fault import Fault

IN_BLOCKS = frozenset({"nessie"})
"""Catalogs whose swap is in a transaction block: while its COMMIT waits, a rival waits for the row's lock, and neither is before the other."""


class HeldCommit(Protocol):
    """A commit between a server and its database.

    Attributes:
        reached: set when it is there; with a fault: when the database has made it.
    """

    @property
    def reached(self) -> threading.Event:
        """See above."""

    def release(self) -> None:
        """Let it go on; before it came: let it pass without a halt."""


class ServerControl(Protocol):
    """A server that somebody runs, with its database and its store."""

    def held(self, verb: str | None = None, **fields: str) -> AbstractContextManager[HeldCommit]:
        """Hold the next request that moves a table's pointer in the database; at the end of the block it goes on.

        Args:
            verb: the fault (``nemesis.faults``) that strikes its reply, such as ``drop-reply``; None: it waits before the database.
            fields: of the fault.
        """

    def kill(self) -> None:
        """End the server at once, as SIGKILL does."""

    def start(self) -> None:
        """Start it again at its address, with what its database has; return when it answers."""

    def twin(self) -> AbstractContextManager[str]:
        """Host and port of another server on the same database."""

    def has(self, location: str) -> bool:
        """Whether a file is in the store."""

    def write_scan(self, schema: Mapping[str, Any], snapshot: Mapping[str, Any], files: Iterable[str]) -> None:
        """Write the manifest list of a snapshot, so that these are its data files."""


class StackControl:
    """The server of a catalog of the library, which a bench has started.

    Args:
        bench: its first group's board decides what happens between the server and its database.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._board = bench.groups[0].board
        self._numbers = itertools.count()
        self._server = next(s for s in bench.groups[0].services.values() if s.role == "catalog")
        e = bench.endpoints
        self._keys = {
            "s3.endpoint": e.s3,
            "s3.region": e.region,
            "s3.access-key-id": e.access_key,
            "s3.secret-access-key": e.secret_key,
        }
        self._store = ObjectStore(endpoint=e.s3, access_key=e.access_key, secret_key=e.secret_key, region=e.region)

    @contextlib.contextmanager
    def held(self, verb: str | None = None, **fields: Any) -> Iterator[HeldCommit]:
        """See :meth:`ServerControl.held`. Raises NotApplicable: it cannot be held before the swap."""
        if verb is None and self._bench.catalog in IN_BLOCKS:
            raise NotApplicable(Absent.NO_DATABASE)
        op = f"certify-{next(self._numbers)}"
        fault = None if verb is None else Fault(verb=verb, service="database", **fields)
        self._board.invoked(0, op)
        try:
            yield self._board.hold(op, fault, service="database", kind="commit")
        finally:
            self._board.heal()

    def kill(self) -> None:
        """See :meth:`ServerControl.kill`."""
        self._server.kill()

    def start(self) -> None:
        """See :meth:`ServerControl.start`."""
        self._server.start()
        self._server.ready()

    @contextlib.contextmanager
    def twin(self) -> Iterator[str]:
        """See :meth:`ServerControl.twin`."""
        with self._bench.stack.twin(self._server.name) as server:
            yield f"{LOOPBACK}:{server.port()}"

    def has(self, location: str) -> bool:
        """See :meth:`ServerControl.has`."""
        return self._store.exists(location)

    def write_scan(self, schema: Mapping[str, Any], snapshot: Mapping[str, Any], files: Iterable[str]) -> None:
        """See :meth:`ServerControl.write_scan`."""
        write_scan(load_file_io(self._keys, snapshot["manifest-list"]), Schema.model_validate(schema), snapshot, files)
