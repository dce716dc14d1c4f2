"""``stale``: an answer from the past."""

from nemesis.faults.relay import Relay
from nemesis.faults.verb import BeforeService


class Stale(BeforeService):
    """A table load is answered with the reply from before the table's last change, if the proxy knows it."""

    name = "stale"
    summary = "a table load gets the answer from before the table's last change"
    production = "a cache, or a replica that lags behind"
    remembers_loads = True

    async def strike(self, relay: Relay) -> bool:
        old = relay.older_reply()
        if old is None:
            relay.note_miss("no older reply is known")
            return await relay.pass_on()
        relay.note_strike()
        await relay.swallow()
        relay.status = "stale (nemesis)"
        await relay.say(old)
        return True
