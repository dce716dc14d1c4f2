"""``lose-packets``: a bad line."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from nemesis.faults.fields import FaultFields, OwnFields
from nemesis.faults.packets import Packets
from nemesis.faults.verb import PacketVerb

RETRANSMITTED_S = 0.2
"""Seconds after which Linux sends a lost packet again at the earliest (``TCP_RTO_MIN``)."""


class Share(OwnFields):
    """The field that only this verb has."""

    share: Annotated[float, Field(gt=0, lt=1)]


class LosePackets(PacketVerb):
    """TCP sends a lost packet again, so requests are late and connections take long. Proxies make the same share of requests late."""

    name = "lose-packets"
    summary = "this `share` of the packets between the service and its clients is lost, in both directions; TCP sends them again"
    production = "a bad link between the services"
    own = Share

    def detail(self, fault: FaultFields) -> str:
        return f" ({fault.own(Share).share:g})"

    def packets(self, fault: FaultFields) -> Packets:
        return Packets(dropped=fault.own(Share).share)

    def by_proxies(self, fault: FaultFields) -> Mapping[str, Any]:
        return {"verb": "delay", "seconds": RETRANSMITTED_S, "probability": fault.own(Share).share}
