"""The fields that a fault may have, and the words that they may hold. Each verb says which of ``VERB_FIELDS`` it takes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from nemesis.faults.lengths import Seconds, WholeSeconds

Service = Literal["catalog", "store", "database"]
"""``database``: the database of the catalog server. Its connections belong to that server, not to a writer."""

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
"""What a request asks for, in every protocol.

``commit`` moves a table's pointer: REST ``updateTable`` and ``commitTransaction``, ``UPDATE iceberg_tables`` or Nessie's
``refs2``, HMS ``alter_table…``, Nessie's
commit and merge, in the Hadoop catalog the rename to ``vN.metadata.json``, of a Delta table the write of
``_delta_log/N.json``. ``create``, ``drop`` and ``load`` concern a table; ``lock`` and
``unlock`` belong to HMS; ``metrics`` is the commit report; ``read``, ``write``, ``delete`` and ``list`` concern objects.
"""

Target = Literal["executor", "spark-worker", "spark-master", "driver", "catalog", "database", "store"]

OF_A_CLUSTER: frozenset[Target] = frozenset(("executor", "spark-worker", "spark-master"))
"""Processes that there are only where Spark's tasks run outside of the drivers."""

Direction = Literal["both", "requests", "replies"]

VERB_FIELDS = (
    "status",
    "sqlstate",
    "retry_after",
    "seconds",
    "jitter",
    "rate",
    "direction",
    "target",
    "do",
    "value",
)
"""The fields that only some verbs take. Every verb takes the others."""


class OwnFields(BaseModel):
    """The fields that a single verb declares for itself, beside those of ``FaultFields``. This one has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Own = TypeVar("Own", bound=OwnFields)


class FaultFields(BaseModel):
    """A fault as its verb sees it.

    Attributes:
        verb: the name of the verb.
        writers: whose connections it strikes; every writer's when not given.
        request: the kind of request that it strikes.
        nth: it strikes only the n-th such request (from 1) since it began.
        after: so many such requests pass first; it strikes those that come then.
        times: it strikes at most this many requests.
        probability: the probability that it strikes such a request.
        seconds: how long a delay lasts, or after how long a late request is sent.
        rate: bytes a second.
        value: the arguments of ``do``; drawn at random when not given.
        whose: in a schedule: ``one`` of the writers, drawn each time, ``all``, or those of one engine, by its name.
        weight: in a schedule: how often it is drawn, compared with the others.
        duration: in a schedule: how many seconds it lasts; the schedule's duration when not given.
    """

    model_config = ConfigDict(extra="allow", frozen=True)  # the verb checks the fields that are its own

    verb: str
    service: Service = "catalog"
    writers: tuple[Annotated[int, Field(ge=0, le=63)], ...] | None = None
    request: RequestKind = "commit"
    nth: Annotated[int, Field(ge=1)] | None = None
    after: Annotated[int, Field(ge=1)] | None = None
    times: Annotated[int, Field(ge=1)] | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 1.0
    status: Annotated[int, Field(ge=400, le=599)] | None = None
    sqlstate: Annotated[str, Field(pattern=r"^[0-9A-Z]{5}$")] | None = None
    retry_after: Annotated[WholeSeconds, Field(ge=0, le=60)] | None = None
    seconds: Seconds | None = None
    jitter: Seconds | None = None
    rate: Annotated[int, Field(ge=1)] | None = None
    direction: Direction = "both"
    target: Target | None = None
    do: str | None = None
    value: dict[str, Any] = {}
    whose: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")] = "all"
    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    duration: Seconds | None = None

    def own(self, fields: type[Own], context: Any = None) -> Own:
        """The values of the fields that the verb declares for itself. Raises ValidationError if they do not fit ``fields``.

        Args:
            context: pydantic's, such as ``{lengths.WRITTEN: True}`` for a fault that a person wrote.
        """
        return fields.model_validate(self.model_extra or {}, context=context)
