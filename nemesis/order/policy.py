"""What a policy is told, and what it decides. A policy is a plain state machine: time is passed in, and it never waits.

``nemesis.order.gate`` calls it, one call at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from nemesis.faults.fault import Fault
from nemesis.order.moment import Moment


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request at the gate.

    Attributes:
        number: counts the requests that came to the gate, from 1.
        moment: its place in its operation; the operation by its id in this run.
        since: when it came, in seconds.
    """

    number: int
    writer: int
    moment: Moment
    since: float


@dataclass(frozen=True, slots=True)
class Strike:
    """What strikes a request because the policy says so.

    Attributes:
        number: of the fault, among those that the policy knows.
        later: whether the service gets the request only when the policy says that it may (a fault that answers the writer first).
    """

    number: int
    fault: Fault
    later: bool = False


class Policy(ABC):
    """Who goes next. Times are seconds of one monotonic clock."""

    def concerns(self, moment: Moment) -> bool:
        """Whether this request has to come to the gate. Asked when it comes."""
        return moment.ordered

    @abstractmethod
    def invoked(self, writer: int, op: str, now: float) -> None:
        """A writer begins an operation."""

    @abstractmethod
    def completed(self, writer: int, op: str, now: float) -> None:
        """A writer's operation has ended, however."""

    def finished(self, writer: int, now: float) -> None:
        """A writer invokes no further operation for now: its phase is over."""
        return None

    @abstractmethod
    def arrives(self, held: HeldRequest) -> None:
        """A request has come to the gate."""

    @abstractmethod
    def passed(self, held: HeldRequest, now: float) -> None:
        """A request that went was answered, or never will be."""

    @abstractmethod
    def decide(self, now: float) -> Sequence[HeldRequest]:
        """The requests that go now, each once. It is asked after every event, and again and again while a request waits."""

    def drops(self) -> Sequence[HeldRequest]:
        """The requests that never reach the service, because in the recorded run they were not made, each once."""
        return ()

    def strike(self, moment: Moment) -> Strike | None:
        """The fault that strikes this request of an operation, of whatever service and kind; None: the board decides. Asked when it goes."""
        return None

    def missed(self, moment: Moment, why: str) -> None:
        """The fault could not strike the request."""
        return None

    def sends(self) -> Sequence[Moment]:
        """The requests, struck by a fault that sends them ``later``, that the service gets now, each once."""
        return ()

    def sent(self, moment: Moment, now: float) -> None:
        """The service has got such a request, or never will."""
        return None
