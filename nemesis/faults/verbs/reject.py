"""``reject``: an error without the service."""

from nemesis.faults.relay import Relay
from nemesis.faults.verb import BeforeService


class Reject(BeforeService):
    """The proxy reads the request and answers it with an error."""

    name = "reject"
    summary = "the service never gets the request; the writer gets an error"
    production = "a service or gateway that sheds load"
    fields = ("status", "sqlstate", "retry_after")
    one_request = True

    async def strike(self, relay: Relay) -> bool:
        relay.note_strike()
        await relay.swallow()
        return await relay.answer_error()
