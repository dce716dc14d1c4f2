"""``drop-request``: the request is lost."""

from nemesis.faults.relay import Relay, Reset
from nemesis.faults.verb import BeforeService


class DropRequest(BeforeService):
    """The proxy reads the request and resets the connection."""

    name = "drop-request"
    summary = "the service never gets the request; the connection is reset"
    production = "a connection that breaks before the request arrives"
    one_request = True

    async def strike(self, relay: Relay) -> bool:
        relay.note_strike()
        await relay.swallow()
        relay.status = "dropped (nemesis)"
        raise Reset
