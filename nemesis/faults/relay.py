"""What the verb of a connection can do with the request that it strikes. The proxy implements it (``nemesis.proxy.faulted``)."""

from __future__ import annotations

from typing import Protocol

from nemesis.faults.fields import FaultFields

NOT_TOLD = " (nemesis: not told)"
"""What follows the service's status in the log when the writer does not get the reply to a request that was carried out."""


class Reset(Exception):
    """Raised by a verb: the proxy resets the client's connection."""


class ServiceReply(Protocol):
    """The reply of the service."""

    @property
    def ok(self) -> bool:
        """Whether the service did what it was asked."""

    @property
    def status(self) -> str:
        """Its status, as the log shows it."""

    @property
    def last(self) -> bool:
        """Whether the service closes the connection after it."""

    async def whole(self) -> bytes:
        """All its bytes. Raises NotSpoken or Gone when they do not all come."""


class Relay(Protocol):
    """A request on its way from the client to the service, in the hands of a verb.

    Attributes:
        status: what the log will say about the request's outcome.
    """

    status: str

    @property
    def fault(self) -> FaultFields:
        """The fault that strikes the request."""

    @property
    def session(self) -> bool:
        """Whether the connection has a session, so that the service and the client must not use it at the same time."""

    async def swallow(self) -> None:
        """Read the rest of the request from the client; the service never gets it."""

    async def forward(self) -> ServiceReply:
        """Send the request to the service, and read the beginning of its reply."""

    async def pass_reply(self) -> bool:
        """Send the client the service's last reply. Returns whether the connection goes on."""

    async def pass_on(self) -> bool:
        """Forward the request and pass the reply on, as if there were no fault. Returns whether the connection goes on."""

    async def say(self, data: bytes) -> None:
        """Send the client these bytes."""

    async def answer_error(self) -> bool:
        """Send the client the error that the fault describes; reset the connection if the protocol has no errors. Returns True: it goes on."""

    async def send_later(self, seconds: float, label: str) -> None:
        """Send the request to the service ``seconds`` from now (of a held operation: on its release), on a connection that the client no
        longer uses. ``label`` is what the log's line of that request says under ``faults``. Notes the strike."""

    def begin_line(self, label: str) -> None:
        """Log the request as it stands, and begin another line for what happens next; ``label`` is what that line says under ``faults``."""

    def older_reply(self) -> bytes | None:
        """The reply to the same request from before the table's last change; None if it is not known."""

    def unchanged(self, of: bytes | None = None) -> bytes | None:
        """The reply that tells the client that the answer which it has is the newest; None if it did not ask, or has another than ``of``."""

    async def until_ended(self) -> None:
        """Wait until the fault ends."""

    def note_strike(self) -> None:
        """Count the request as struck."""

    def note_miss(self, why: str) -> None:
        """Count the request as missed: the fault could not strike it."""

    def note_reply(self) -> None:
        """Write the status of the service's last reply into the log."""
