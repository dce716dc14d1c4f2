"""``reset-connections``: who asks the service gets a reset."""

from collections.abc import Mapping
from typing import Any

from nemesis.faults.fields import FaultFields
from nemesis.faults.packets import Packets
from nemesis.faults.verb import PacketVerb


class ResetConnections(PacketVerb):
    """Every packet of a client is answered by a reset, on new connections and on open ones."""

    name = "reset-connections"
    summary = "every connection to the service is reset as soon as its client sends something"
    production = "a load balancer that closes idle connections"

    def packets(self, fault: FaultFields) -> Packets:
        return Packets(reset=True)

    def by_proxies(self, fault: FaultFields) -> Mapping[str, Any]:
        return {"verb": "refuse"}
