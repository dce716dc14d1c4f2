"""``drop-reply``: the lost acknowledgement."""

from nemesis.faults.relay import NOT_TOLD, Relay, Reset, ServiceReply
from nemesis.faults.verb import AfterService


class DropReply(AfterService):
    """The connection is reset when the whole reply has come from the service."""

    name = "drop-reply"
    summary = (
        "the service carries out the request; the connection is reset instead of the reply: a lost acknowledgement"
    )
    production = (
        "a connection that breaks, or a service that restarts, after the work is done and before the reply is out"
    )
    one_request = True

    async def strike(self, relay: Relay, reply: ServiceReply) -> bool:
        relay.status += NOT_TOLD
        raise Reset
