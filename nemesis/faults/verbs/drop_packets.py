"""``drop-packets``: the network loses everything, in both directions or in one."""

from collections.abc import Mapping
from typing import Any

from nemesis.faults.fields import FaultFields
from nemesis.faults.packets import Packets
from nemesis.faults.verb import PacketVerb


class DropPackets(PacketVerb):
    """Connections stay open and hang. Of ``replies``, a request on an open connection is carried out, and nobody hears of it."""

    name = "drop-packets"
    summary = (
        "packets between the service and its clients are dropped until the fault ends: all, or those in one `direction`"
    )
    production = "a firewall or a broken route between the services"
    fields = ("target", "direction")

    def detail(self, fault: FaultFields) -> str:
        return "" if fault.direction == "both" else f" ({fault.direction})"

    def packets(self, fault: FaultFields) -> Packets:
        return Packets(direction=fault.direction, dropped=1.0)

    def by_proxies(self, fault: FaultFields) -> Mapping[str, Any]:
        return {"verb": "partition", "direction": fault.direction}
