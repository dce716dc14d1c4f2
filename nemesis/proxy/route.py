"""Where a listener's connections lead, and what is spoken on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from nemesis.faults.fields import Service
from nemesis.wires.aws import AwsJson
from nemesis.wires.http import CatalogHttp, StoreHttp
from nemesis.wires.postgres import PostgresWire
from nemesis.wires.thrift import Thrift
from nemesis.wires.wire import Request, Wire

WireName = Literal["http", "aws", "s3", "postgres", "thrift", "tcp"]
WIRES: dict[WireName, Callable[[], Wire] | None] = {
    "http": CatalogHttp,
    "aws": AwsJson,
    "s3": StoreHttp,
    "postgres": PostgresWire,
    "thrift": Thrift,
    "tcp": None,
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where connections lead.

    Attributes:
        service: the service at their end.
        writer: whose connections they are; None: those of a catalog server, to its database.
        protocol: what is spoken on them.
        upstream: host and port of the service.
    """

    service: Service
    writer: int | None
    protocol: WireName
    upstream: tuple[str, int]

    def serves(self, request: Request) -> Service:
        """The service that a request is for: where the object store decides commits (the Hadoop catalog), a commit is for the catalog."""
        return "catalog" if self.service == "store" and request.kind == "commit" else self.service

    def key(self, request: Request) -> str:
        """The same for all requests that ask the same service for the same thing."""
        return f"{self.service} {request.key}"
