"""``delay-packets``: a long line."""

from collections.abc import Mapping
from typing import Any

from nemesis.faults.fields import FaultFields
from nemesis.faults.packets import Packets
from nemesis.faults.verb import PacketVerb


class DelayPackets(PacketVerb):
    """Every packet that the service sends waits ``seconds``, more or less by up to ``jitter``. Proxies make requests wait."""

    name = "delay-packets"
    summary = "every answer of the service arrives `seconds` late, more or less by up to `jitter`"
    production = "a slow network between the services"
    fields = ("target", "seconds", "jitter")
    needs = ("target", "seconds")

    def packets(self, fault: FaultFields) -> Packets:
        return Packets(seconds=fault.seconds or 0.0, jitter=fault.jitter or 0.0)

    def by_proxies(self, fault: FaultFields) -> Mapping[str, Any]:
        return {"verb": "delay", "seconds": fault.seconds, **({"jitter": fault.jitter} if fault.jitter else {})}
