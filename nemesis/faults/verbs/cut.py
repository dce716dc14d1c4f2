"""``cut``: half a reply."""

import asyncio

from nemesis.faults.relay import NOT_TOLD, Relay, Reset, ServiceReply
from nemesis.faults.verb import AfterService


class Cut(AfterService):
    """The proxy sends the first half of the reply and resets the connection."""

    name = "cut"
    summary = "the service carries out the request; the connection is reset in the middle of the reply"
    production = "a connection that breaks while the reply is on its way"
    one_request = True

    async def strike(self, relay: Relay, reply: ServiceReply) -> bool:
        data = await reply.whole()
        relay.status += NOT_TOLD
        await relay.say(data[: max(1, len(data) // 2)])
        await asyncio.sleep(0.02)  # the half must arrive first: a reset overtakes bytes that are under way
        raise Reset
