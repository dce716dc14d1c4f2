"""``refuse``: nobody reads the request."""

from nemesis.faults.relay import Relay, Reset
from nemesis.faults.verb import BeforeService


class Refuse(BeforeService):
    """The connection is reset before anybody has read the request's body."""

    name = "refuse"
    summary = "the connection is reset at once"
    production = "a service that is away, or out of connections"

    async def strike(self, relay: Relay) -> bool:
        relay.note_strike()
        relay.status = "refused (nemesis)"
        raise Reset
