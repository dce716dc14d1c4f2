"""The kinds of verbs. A verb is a class of its own in ``nemesis/faults/verbs``; ``nemesis.faults.registry`` finds it there.

A verb derives from the class below that says when it acts:

===================  ===================================================================================================
``BeforeService``    on one request, in place of passing it on
``AfterService``     on one request that the service has carried out, in place of passing the reply on
``Delaying``         on any number of requests, which wait and then pass
``Throttling``       on any number of requests, which pass slowly
``ProcessVerb``      on a process
``PacketVerb``       on the packets between a service and its clients
``MaintenanceVerb``  on the table: an additional writer invokes an operation
===================  ===================================================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from random import Random
from typing import Any

from nemesis.faults.fields import Direction, FaultFields, OwnFields
from nemesis.faults.packets import Packets
from nemesis.faults.relay import Relay, ServiceReply
from nemesis.faults.suspects import READY_SECONDS, NoTarget, StackServer, Suspect, Undo, contained


class Verb(ABC):
    """What a fault does.

    Attributes:
        name: what people write after ``verb:``.
        summary: what happens, one line, for the documentation.
        production: what does the same where nobody injects faults; empty: nobody said.
        fields: those of ``VERB_FIELDS`` that it takes.
        needs: those of ``fields`` that must be given.
        own: the fields that only this verb has.
        one_request: it strikes a single request and nothing else, so a scenario may use it on a commit.
        remembers_loads: the proxies must keep the replies to table loads while it may strike.
        lasts: it is on for the ``duration`` of the fault; if not, it is over at once.
    """

    name: str
    summary: str
    production: str = ""
    fields: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    own: type[OwnFields] = OwnFields
    one_request: bool = False
    remembers_loads: bool = False
    lasts: bool = True

    @abstractmethod
    def title(self, fault: FaultFields) -> str:
        """What people call the fault, such as ``drop-reply of commit`` or ``kill executor``."""


class ConnectionVerb(Verb):
    """A verb that a proxy carries out."""

    def title(self, fault: FaultFields) -> str:
        what = "" if fault.request == "any" else f" of {fault.request}"
        place = "" if fault.service == "catalog" else f" ({fault.service})"
        status = f" {fault.status}" if fault.status else ""
        return f"{self.name}{status}{what}{self.detail(fault)}{place}"

    def detail(self, fault: FaultFields) -> str:
        """What the title says beside verb, status, request and service."""
        return ""

    def shuts(self, fault: FaultFields, way: Direction) -> bool:
        """Whether no byte passes in this direction while the fault is on, of whatever request."""
        return False


class RequestVerb(ConnectionVerb):
    """A verb that decides what becomes of a request.

    Attributes:
        answers_first: the client has its answer before the service has the request. A gate then holds only what the service gets.
    """

    answers_first: bool = False


class BeforeService(RequestVerb):
    """A verb that acts before the service has the request."""

    @abstractmethod
    async def strike(self, relay: Relay) -> bool:
        """Do it, and note that it was done. Returns whether the connection goes on; raises Reset to reset it."""


class AfterService(RequestVerb):
    """A verb that acts when the service has carried the request out. It does not strike a request that the service refused.

    Attributes:
        sends_again: it forwards the request a second time, so the proxy keeps the request in memory.
    """

    sends_again: bool = False

    @abstractmethod
    async def strike(self, relay: Relay, reply: ServiceReply) -> bool:
        """Do something with the reply, all of which has come. Returns whether the connection goes on; raises Reset to reset it."""


class Delaying(ConnectionVerb):
    """A verb that makes requests wait."""

    @abstractmethod
    def wait(self, fault: FaultFields, rng: Random) -> float:
        """Seconds that the next request waits."""


class Throttling(ConnectionVerb):
    """A verb that makes requests and replies flow slowly."""

    @abstractmethod
    def bytes_per_second(self, fault: FaultFields) -> int | None:
        """The rate; None: full speed."""


class ProcessVerb(Verb):
    """A verb that strikes the process ``target``.

    Attributes:
        targets: the targets that it can strike; empty: all.
        contained: it strikes services in containers only.
    """

    fields: tuple[str, ...] = ("target",)
    needs: tuple[str, ...] = ("target",)
    targets: tuple[str, ...] = ()
    contained = False

    def title(self, fault: FaultFields) -> str:
        return f"{self.name} {fault.target}"

    @abstractmethod
    def strike(self, suspect: Suspect) -> Undo:
        """Strike a process that others start again: a driver (its writer replaces it) or an executor (its worker does)."""

    def strike_server(self, server: StackServer) -> Undo:
        """Strike a service of the stack. Raises ServiceError."""
        return self.strike(server)


class PacketVerb(ProcessVerb):
    """A verb that strikes the packets between the service ``target`` and its clients: of a container in the container's own network, of a
    process by the proxies before it, which do what the clients would notice of it."""

    targets = ("catalog", "database", "store")

    def title(self, fault: FaultFields) -> str:
        return f"{self.name} of {fault.target}{self.detail(fault)}"

    def detail(self, fault: FaultFields) -> str:
        """What the title says beside verb and target."""
        return ""

    @abstractmethod
    def packets(self, fault: FaultFields) -> Packets:
        """What becomes of the packets."""

    @abstractmethod
    def by_proxies(self, fault: FaultFields) -> Mapping[str, Any]:
        """The fault of connections by which proxies do the same: its fields, without ``service`` and ``request``."""

    def strike(self, suspect: Suspect) -> Undo:
        raise NoTarget(f"{self.name} strikes services only, and {suspect.name} is none")

    def strike_packets(self, server: StackServer, fault: FaultFields) -> Undo:
        """Strike a service in a container. Raises ServiceError."""
        struck = contained(server, self.name)
        struck.hamper(self.packets(fault))

        def let_pass() -> None:
            struck.let_pass()
            struck.ready(READY_SECONDS)

        return let_pass


class MaintenanceVerb(Verb):
    """A verb that makes an additional writer invoke the operation ``do``."""

    def title(self, fault: FaultFields) -> str:
        return f"{self.name}: {fault.do}"
