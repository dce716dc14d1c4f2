"""A moment: one request of an operation at the gate. The order of a run is a sequence of moments."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from nemesis.faults.fields import RequestKind, Service

ORDERED: tuple[RequestKind, ...] = ("load", "commit", "lock")
"""The kinds of requests to the catalog whose order is recorded and decided. ``lock``: the Hive Metastore gives a table to who asks first."""

OF_FILES: tuple[RequestKind, ...] = ("read", "delete")
"""The kinds of requests to the object store that a replay can order, where the recording has them: who met a deleted file is luck otherwise."""

POLLS = ("check_lock", "heartbeat")
"""Procedures of the Hive Metastore of the kind ``lock`` that ask after a lock. Time decides how many there are, so they are no moments."""

_TEXT = re.compile(r"(?P<op>\S+)(?: (?P<service>[a-z]+))? (?P<kind>[a-z]+) (?P<nth>[1-9]\d{0,8})")


@dataclass(frozen=True, slots=True)
class Moment:
    """One request of an operation.

    As text ``w3-17 commit 2``; a service other than the catalog stands before the kind: ``w3-17 store write 4``.

    Attributes:
        op: the id of the operation in the recorded run.
        service: ``catalog`` also where the object store decides commits (the Hadoop catalog).
        nth: from 1, among the operation's requests of that kind to that service.
    """

    op: str
    service: Service
    kind: RequestKind
    nth: int

    @property
    def ordered(self) -> bool:
        """Whether it has a place in the order of every run."""
        return self.service == "catalog" and self.kind in ORDERED

    @property
    def can_be_ordered(self) -> bool:
        """Whether the order of a recording may have it."""
        return self.ordered or (self.service == "store" and self.kind in OF_FILES)

    def __str__(self) -> str:
        place = "" if self.service == "catalog" else f"{self.service} "
        return f"{self.op} {place}{self.kind} {self.nth}"

    @staticmethod
    def parse(text: str) -> Moment:
        """The inverse of ``str``. Raises ValueError, with an example, if the text has another form."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ValueError(f"must be a request such as 'w3-17 commit 2', not {text!r}")
        service = next((s for s in get_args(Service) if s == (found["service"] or "catalog")), None)
        kind = next((k for k in get_args(RequestKind) if k == found["kind"]), None)
        if service is None:
            raise ValueError(f"{text!r}: no service is called {found['service']!r}; allowed: catalog, database, store")
        if kind is None:
            raise ValueError(f"{text!r}: no request is of the kind {found['kind']!r}; such as load, commit, write")
        return Moment(found["op"], service, kind, int(found["nth"]))
