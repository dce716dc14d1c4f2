"""Faults as plain values: what goes wrong, where, and how often. ``nemesis.proxy`` and ``nemesis.processes``
carry them out.

A fault of a *connection* names a verb, whose connection it is (``writers``), to which ``service``, and at which requests it
strikes. The verbs and what the writer sees of them:

==================  ====================================================================================================
``delay``           the request arrives ``seconds`` late, give or take ``jitter``
``throttle``        bodies flow at ``rate`` bytes a second, both ways
``refuse``          the connection is reset before the request was read by anybody
``drop-request``    the service never gets the request; the connection is reset
``reject``          the service never gets the request; the writer gets the error
``drop-reply``      the service carries the request out; the connection is reset in place of its reply: the lost acknowledgement
``answer``          the service carries it out; the writer gets the error in place of the reply
``cut``             the service carries it out; the connection is reset in the middle of the reply
``duplicate``       the service gets the request twice; the writer gets the second reply
``late``            the writer gets the error at once; the service gets the request ``seconds`` later: the "zombie"
``stale``           a table load is answered as it was before the table's last change, if that is known
``partition``       nothing gets through in ``direction`` until the fault ends; then the connections are reset
==================  ====================================================================================================

"The error" is an HTTP ``status`` (with ``retry_after`` seconds if given), for PostgreSQL an ErrorResponse with ``sqlstate``, for Thrift a
TApplicationException. Verbs that let the service carry the request out strike only where it did: a refused commit is passed on.

A fault of a *process* names a verb and a ``target``:

==================  ====================================================================================================
``kill``            SIGKILL; it is started again with its data when the fault ends
``pause``           SIGSTOP until the fault ends: connections stay open, nothing answers
``restart``         stopped politely and started again at once
==================  ====================================================================================================

A fault of *maintenance* names the verb ``maintain`` and the operation (``do``) that a writer of the nemesis invokes.

In a schedule (``nemesis:`` of a workload file) a fault also has a ``weight``, a ``duration``, and may strike ``one`` writer, drawn each time.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemesis.faults.lengths import Seconds

Verb = Literal[
    "delay",
    "throttle",
    "refuse",
    "drop-request",
    "reject",
    "drop-reply",
    "answer",
    "cut",
    "duplicate",
    "late",
    "stale",
    "partition",
    "kill",
    "pause",
    "restart",
    "maintain",
]
ON_PROCESSES = frozenset({"kill", "pause", "restart"})
APPLIED = frozenset({"drop-reply", "answer", "cut"})
"""The service has carried the request out when the writer learns of the fault."""

Service = Literal["catalog", "store", "database"]
"""``database``: the catalog server's own, so the connections are not a writer's but the server's."""

RequestKind = Literal[
    "commit",
    "create",
    "drop",
    "load",
    "config",
    "metrics",
    "lock",
    "unlock",
    "read",
    "write",
    "delete",
    "list",
    "other",
    "any",
]
"""What a request asks for, whatever the protocol.

``commit`` moves a table's pointer: REST ``updateTable`` and ``commitTransaction``, ``UPDATE iceberg_tables``, HMS ``alter_table…``, Nessie's
commit and merge, in the Hadoop catalog the rename to ``vN.metadata.json``. ``create``, ``drop``, ``load`` are a table's; ``lock``,
``unlock`` are of HMS; ``metrics`` is the commit report; ``read``, ``write``, ``delete``, ``list`` are of objects.
"""

Target = Literal["executor", "spark-worker", "spark-master", "driver", "catalog", "database", "store"]

Direction = Literal["both", "requests", "replies"]

_NEEDS: dict[str, tuple[str, ...]] = {"throttle": ("rate",), "delay": ("seconds",), "maintain": ("do",)}
_FOR: dict[str, frozenset[str]] = {
    "status": frozenset({"reject", "answer", "late"}),
    "sqlstate": frozenset({"reject", "answer", "late"}),
    "retry_after": frozenset({"reject", "answer", "late"}),
    "seconds": frozenset({"delay", "late"}),
    "jitter": frozenset({"delay"}),
    "rate": frozenset({"throttle"}),
    "direction": frozenset({"partition"}),
    "target": ON_PROCESSES,
    "do": frozenset({"maintain"}),
    "value": frozenset({"maintain"}),
}


class Fault(BaseModel):
    """One fault; see the module's text for verbs and their fields.

    Attributes:
        writers: whose connections; every writer's when not given.
        request: the kind of request that it strikes.
        nth: it strikes the n-th such request (from 1) since it began, and no other.
        times: it strikes at most that often.
        probability: of each such request.
        seconds: of a delay, or until a late request is sent.
        rate: bytes a second.
        value: arguments of ``do``; drawn when not given.
        whose: in a schedule: ``one`` of the writers, drawn each time, or ``all``.
        weight: in a schedule: how often it is drawn, beside the others.
        duration: in a schedule: seconds that it is on; the schedule's when not given.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    verb: Verb
    service: Service = "catalog"
    writers: tuple[Annotated[int, Field(ge=0, le=63)], ...] | None = None
    request: RequestKind = "commit"
    nth: Annotated[int, Field(ge=1)] | None = None
    times: Annotated[int, Field(ge=1)] | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    sqlstate: Annotated[str, Field(pattern=r"^[0-9A-Z]{5}$")] | None = None
    retry_after: Annotated[int, Field(ge=0, le=60)] | None = None
    seconds: Seconds | None = None
    jitter: Seconds | None = None
    rate: Annotated[int, Field(ge=1)] | None = None
    direction: Direction = "both"
    target: Target | None = None
    do: str | None = None
    value: dict[str, Any] = {}
    whose: Literal["all", "one"] = "all"
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    duration: Seconds | None = None

    @model_validator(mode="after")
    def _fits(self) -> Fault:
        for key in _NEEDS.get(self.verb, ()):
            if getattr(self, key) is None:
                raise ValueError(f"{self.verb} needs {key}")
        for key, verbs in _FOR.items():
            if key in self.model_fields_set and self.verb not in verbs:
                raise ValueError(f"{key} is for {', '.join(sorted(verbs))}, not for {self.verb}")
        if self.verb in ON_PROCESSES and self.target is None:
            raise ValueError(f"{self.verb} needs target: one of {', '.join(get_args(Target))}")
        return self

    @property
    def slug(self) -> str:
        """Its name as a word, for the history."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def on_connections(self) -> bool:
        """Whether a proxy carries it out."""
        return self.verb not in ON_PROCESSES and self.verb != "maintain"

    @property
    def name(self) -> str:
        """What people call it, such as ``drop-reply of commit`` or ``kill executor``."""
        if self.verb in ON_PROCESSES:
            return f"{self.verb} {self.target}"
        if self.verb == "maintain":
            return f"maintain: {self.do}"
        what = "" if self.request == "any" else f" of {self.request}"
        if self.verb == "partition" and self.direction != "both":
            what += f" ({self.direction})"
        place = "" if self.service == "catalog" else f" ({self.service})"
        status = f" {self.status}" if self.status else ""
        return f"{self.verb}{status}{what}{place}"

    def plain(self) -> dict[str, Any]:
        """What was given, as it goes into history and plan."""
        return self.model_dump(mode="json", exclude_defaults=True)
