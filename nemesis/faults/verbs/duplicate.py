"""``duplicate``: the same request twice."""

from nemesis.faults.relay import NOT_TOLD, Relay, ServiceReply
from nemesis.faults.verb import AfterService


class Duplicate(AfterService):
    """The proxy sends the request a second time. Each of the two has a line in the log: what the service did, and what the client was told."""

    name = "duplicate"
    summary = "the service gets the request twice; the writer gets the second reply"
    production = "a client, proxy or load balancer that sends a request again because it got no answer"
    one_request = True
    sends_again = True

    async def strike(self, relay: Relay, reply: ServiceReply) -> bool:
        relay.status += NOT_TOLD
        relay.begin_line("duplicate: sent again")
        await relay.forward()
        return await relay.pass_reply()
