"""What became of a request, and the line that says it in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nemesis.proxy.board import RequestPlan
from nemesis.proxy.route import Route
from nemesis.wires.wire import Reply, Request


class Outcome:
    """What became of a request.

    Args:
        op: the operation that the request names, else the one that its writer was doing when it began.
        began: when it began, by the log's clock.
        nth: its number, from 1, among the operation's requests of its kind to its service; None if it belongs to no operation.

    Attributes:
        waited: ns for which it waited for its turn, if somebody decides the order.
        resent: whether the proxy sent it once more, or later, so that it has another line.
    """

    __slots__ = ("began", "location", "nth", "op", "resent", "status", "struck", "waited")

    def __init__(self, op: str | None, began: int, nth: int | None = None) -> None:
        self.op = op
        self.began = began
        self.nth = nth
        self.waited = 0
        self.resent = False
        self.status = ""
        self.location: str | None = None
        self.struck: list[str] = []

    def begin_again(self, label: str, now: int) -> None:
        """From now on this is another sending of the same request; ``label`` says which."""
        self.began, self.status, self.location, self.struck = now, "", None, [label]
        self.waited, self.resent = 0, True

    def note_reply(self, reply: Reply) -> None:
        """Take over what the service answered."""
        self.status, self.location = reply.status, reply.location


Note = Callable[[Request, Outcome, RequestPlan], None]
"""Logs a request that has ended."""


def record(route: Route, request: Request, outcome: Outcome, plan: RequestPlan, ended: int) -> dict[str, Any]:
    """The line of the log; ``ended`` is by the log's clock."""
    line: dict[str, Any] = {
        "time": outcome.began,
        "writer": route.writer,
        "service": route.serves(request),
        "kind": request.kind,
        "what": request.what,
        "table": request.table,
        "op": outcome.op,
        "nth": outcome.nth,
        "base": request.base,
        "new": request.new,
        "location": outcome.location,
        "status": outcome.status or "no reply",
        "ms": round((ended - outcome.began) / 1e6, 3),
    }
    if changes := [c.to_json() for c in request.changes if c.adds or c.refs]:
        line["changes"] = changes
    if outcome.struck:
        line["faults"] = outcome.struck
    if plan.hold is not None:
        line["held"] = True
    if outcome.waited:
        line["waited_ms"] = round(outcome.waited / 1e6, 3)
    if outcome.resent:
        line["again"] = True
    return {k: v for k, v in line.items() if v is not None}
