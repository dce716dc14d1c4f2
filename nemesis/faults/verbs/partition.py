"""``partition``: nothing gets through."""

from nemesis.faults.fields import Direction, FaultFields
from nemesis.faults.relay import Relay, Reset
from nemesis.faults.verb import BeforeService


class Partition(BeforeService):
    """Nothing passes in ``direction`` until the fault ends; of ``replies``, the service carries requests out."""

    name = "partition"
    summary = "nothing passes until the fault ends; then the connections are reset"
    production = "a network that is split between the services"
    fields = ("direction",)

    def detail(self, fault: FaultFields) -> str:
        return "" if fault.direction == "both" else f" ({fault.direction})"

    def shuts(self, fault: FaultFields, way: Direction) -> bool:
        return fault.request == "any" and fault.direction in ("both", way)

    async def strike(self, relay: Relay) -> bool:
        relay.note_strike()
        if relay.fault.direction == "replies":
            reply = await relay.forward()
            await reply.whole()
            relay.note_reply()
        relay.status += " (nemesis: lost)"
        await relay.until_ended()
        raise Reset
