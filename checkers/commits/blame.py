"""Whose fault is it that an acknowledged commit is in no version?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from checkers.evidence.history import Operation
from checkers.timeline import explain
from checkers.timeline.timeline import SetBack
from checkers.timeline.version_order import place
from checkers.unit import TableRequests


@dataclass(frozen=True)
class Blame:
    """Whose fault it is that an acknowledged commit is in no version, as far as proxies saw it.

    A server that accepts a commit and does not keep it is at fault, not the engine that believes it. An engine that reports success
    without having sent a commit is itself at fault.

    Attributes:
        accepted: operation → what the catalog answered to the request that it accepted, and when, ns; the last one.
        sent: operations of which proxies saw a request for a commit, whatever came of it.
        proxied: whether proxies would have seen it, if they saw the requests of all snapshots of other engines than Spark (:class:`InRun`).
            A log of theirs that is cut off or has gaps blames nobody.
    """

    accepted: Mapping[str, tuple[str, int]]
    sent: frozenset[str]
    proxied: bool
    moved: frozenset[tuple[str, str | int]] = frozenset()
    """Operations and where their accepted requests put the table: at a metadata file, or main at a snapshot that they do not add."""

    @staticmethod
    def of(requests: TableRequests) -> Blame:
        """What proxies saw of one table."""
        accepted: dict[str, tuple[str, int]] = {}
        for s in requests.swaps:
            if s.op is not None:
                accepted[s.op] = s.answer, s.end
        for a in requests.accepted:
            if a.op is not None and a.adds:
                accepted[a.op] = a.answer, a.end
        sent = frozenset(accepted) | {c.op for c in requests.carried}
        # Without any request of this table nobody knows whether proxies can read this catalog's.
        moved: set[tuple[str, str | int]] = {(s.op, place(s.new)) for s in requests.swaps if s.op is not None}
        moved |= {(a.op, a.main) for a in requests.accepted if a.op is not None and a.main is not None and not a.adds}
        return Blame(accepted, sent, requests.proxied and bool(sent), frozenset(moved))

    def set_back(self, b: SetBack) -> bool:
        """Whether proxies saw that the rollback which explains a step back asked for it, and the catalog accepted."""
        return not self.moved.isdisjoint({(b.operation.op, place(b.after.location)), (b.operation.op, b.after.current)})

    def silent(self, o: Operation) -> bool:
        """Whether its engine sent no request for its commit, if proxies saw all."""
        return self.proxied and o.op not in self.accepted and o.op not in self.sent

    def words(self, o: Operation, decides: str = "") -> str:
        """A sentence, with a space before it; empty if nothing is known. ``decides``: who accepts commits, if it is no catalog."""
        if o.op in self.accepted:
            answer, time = self.accepted[o.op]
            return (
                f" Its commit was sent, and {decides or 'the catalog server'} answered {answer} at {explain.s(time)}: "
                + (
                    f"{explain.engine(o)} was told that it is made, and no version has it."
                    if decides
                    else f"the server acknowledged a commit that no version has, and {explain.engine(o)} could not know."
                )
            )
        return ""

    def evidence(self, o: Operation) -> dict[str, str]:
        """``culprit``: the ``server``, and the engine's name; empty if nothing is known."""
        return {"culprit": "server", "engine": o.engine} if o.op in self.accepted else {}
