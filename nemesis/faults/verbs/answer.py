"""``answer``: an error for what was carried out."""

from nemesis.faults.relay import Relay, ServiceReply
from nemesis.faults.verb import AfterService


class Answer(AfterService):
    """The proxy answers with an error in place of the service's reply."""

    name = "answer"
    summary = "the service carries out the request; the writer gets an error instead of the reply"
    production = "a gateway or load balancer that gives up waiting and answers in the service's place"
    fields = ("status", "sqlstate", "retry_after")
    one_request = True

    async def strike(self, relay: Relay, reply: ServiceReply) -> bool:
        done = relay.status
        goes_on = await relay.answer_error()
        relay.status = f"{done}, told {relay.status}"
        return goes_on and not reply.last
