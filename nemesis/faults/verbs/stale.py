"""``stale``: an answer from the past."""

from nemesis.faults.relay import Relay
from nemesis.faults.verb import BeforeService


class Stale(BeforeService):
    """A table load is answered with the reply from before the table's last change, if the proxy knows it.

    Who has that reply, and sends its ETag, gets 304. If the proxy knows no such reply, the service says whether the table has changed since.
    """

    name = "stale"
    summary = (
        "a table load gets the answer from before the table's last change; one with the ETag of such an answer, 304"
    )
    production = "a cache, or a replica that lags behind"
    one_request = True
    remembers_loads = True

    async def strike(self, relay: Relay) -> bool:
        old = relay.older_reply()
        if old is None:
            return await self._told_unchanged(relay)
        relay.note_strike()
        await relay.swallow()
        same = relay.unchanged(old)
        relay.status = "stale (nemesis)" if same is None else "304 (nemesis)"
        await relay.say(same or old)
        return True

    async def _told_unchanged(self, relay: Relay) -> bool:
        if (same := relay.unchanged()) is None:
            relay.note_miss("no older reply is known")
            return await relay.pass_on()
        reply = await relay.forward()
        if not reply.ok:
            relay.note_miss("the table has not changed since the client's last load")
            return await relay.pass_reply()
        await reply.whole()
        relay.note_strike()
        relay.status = f"{reply.status}, told 304 (nemesis)"
        await relay.say(same)
        return not reply.last
