"""``delay``: requests arrive late."""

from random import Random

from nemesis.faults.fields import FaultFields
from nemesis.faults.verb import Delaying


class Delay(Delaying):
    """Each request waits ``seconds``, more or less by up to ``jitter``."""

    name = "delay"
    summary = "the request arrives `seconds` late, more or less by up to `jitter`"
    production = "a slow network, or a service under load"
    fields = ("seconds", "jitter")
    needs = ("seconds",)

    def wait(self, fault: FaultFields, rng: Random) -> float:
        return max(0.0, (fault.seconds or 0.0) + rng.uniform(-1, 1) * (fault.jitter or 0.0))
