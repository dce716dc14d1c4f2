"""``throttle``: bodies flow slowly."""

from nemesis.faults.fields import FaultFields
from nemesis.faults.verb import Throttling


class Throttle(Throttling):
    """Requests and replies flow at ``rate`` bytes a second."""

    name = "throttle"
    summary = "bodies flow slowly in both directions, at `rate` bytes/s"
    production = "a network whose bandwidth others use up"
    fields = ("rate",)
    needs = ("rate",)

    def bytes_per_second(self, fault: FaultFields) -> int | None:
        return fault.rate
