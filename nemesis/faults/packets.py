"""What becomes of the packets between a server and its clients."""

from __future__ import annotations

from dataclasses import dataclass

from nemesis.faults.fields import Direction


@dataclass(frozen=True)
class Packets:
    """What becomes of the packets that come to a server's ports (``requests``) and leave them (``replies``).

    Attributes:
        direction: of the packets that are dropped.
        dropped: the share of them that is dropped, each decided by itself; 1: all.
        reset: the clients' packets are answered by a reset; nothing is dropped.
        seconds, jitter: how long the replies wait, more or less by up to ``jitter``; nothing is dropped.
    """

    direction: Direction = "both"
    dropped: float = 0.0
    reset: bool = False
    seconds: float = 0.0
    jitter: float = 0.0
