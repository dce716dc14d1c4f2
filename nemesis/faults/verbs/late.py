"""``late``: the "zombie" request."""

from nemesis.faults.relay import Relay, Reset
from nemesis.faults.verb import BeforeService


class Late(BeforeService):
    """The client is answered at once; the service gets the request later. Where a connection has a session, the client's is reset."""

    name = "late"
    summary = "the writer gets an error at once; the service gets the request `seconds` later"
    production = "a request that a proxy still delivers after its client has given up"
    fields = ("seconds", "status", "sqlstate", "retry_after")
    one_request = True
    answers_first = True

    async def strike(self, relay: Relay) -> bool:
        await relay.send_later(relay.fault.seconds or 0.0, "late: sent")
        if relay.session:
            relay.status = "cut (nemesis)"
            raise Reset
        return await relay.answer_error()
