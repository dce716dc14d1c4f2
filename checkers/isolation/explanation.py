"""What a case says to a person: a sentence for each anomaly that is no cycle, as a table. Cycles are explained by ``cycles``.

In a sentence ``{0}`` and ``{1}`` are the case's first two transactions, ``{last}`` its last one, ``{all}`` the first four; the other names
are the fields of :class:`Case`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

from checkers.isolation.transactions import IsolationFinding, Transaction
from checkers.timeline import explain


class Case(msgspec.Struct, frozen=True):
    """The evidence of one anomaly: the transactions themselves, and what they read or wrote.

    Attributes:
        name: see ``levels``.
        transactions: those involved; first the offender.
        key: the key concerned.
        value: the list or the value that the offender read.
        element: the element or the value in question; of an ``internal`` one, what the offender itself appended since ``against``.
        against: what contradicts it: another list, an element of a failed transaction, what the offender had read before.
    """

    name: str
    transactions: tuple[Transaction, ...]
    key: Hashable
    value: Any = None
    element: Any = None
    against: Any = None


_SESSION = "process {process} executed {1}, then {0}. The first had "
_BOTH = {
    "fractured-read": "{0} read from it: {last}. But it read key {key} as {value}, which is older than what that transaction wrote.",
    "causality": "{0} read from it through {through}: {last}. But it read key {key} as {value}, which is older than what that transaction "
    "wrote.",
    "session-causality": "{0} came after {last}: what it read, and the order of each process, leads there{by}. But it read key {key} as "
    "{value}, which is older than what that transaction wrote.",
    "non-monotonic-read": f"{_SESSION}read a version of key {{key}}, the second read an older one.",
    "read-your-writes": f"{_SESSION}written a version of key {{key}}, the second read an older one.",
    "non-monotonic-write": f"{_SESSION}written a version of key {{key}}, the second wrote an older one.",
    "writes-follow-reads": f"{_SESSION}read a version of key {{key}}, the second wrote an older one.",
}
SENTENCES: Mapping[str, Mapping[str, str]] = {
    "list-append": _BOTH
    | {
        "garbage-read": "{0} read key {key} as {value}, but nobody ever appended {element} to it.",
        "duplicate-elements": "{0} read key {key} as {value}: it contains {element} {times} times, but it was appended once.",
        "incompatible-order": "{0} read key {key} as {value}, while another transaction read {against}: neither is a prefix of the other, "
        "so they are not versions of one list.",
        "dirty-update": "{0} appended {element} to key {key} after {against} of {1}, which failed: a committed version contains an aborted "
        "one.",
        "G1a": "{0} read key {key} as {value}, with {element} of {1}, which failed: an aborted read.",
        "G1b": "{0} read key {key} as {value}, which ends with {element} of {1}; that transaction went on to append more to it: an "
        "intermediate read.",
        "future-read": "{0} read key {key} as {value} before it appended {element} itself.",
        "internal": "{0} read key {key} as {value}, though by its own earlier reads and writes it was {own}: an internal inconsistency.",
        "lost-update": "{all} all read key {key} as {value} and appended to it: each must have missed the other's update.",
    },
    "rw-register": _BOTH
    | {
        "garbage-read": "{0} read key {key} as {value}, but nobody ever wrote that to it; at first every key is nil.",
        "G1a": "{0} read key {key} as {value}, a value of {1}, which failed: an aborted read.",
        "G1b": "{0} read key {key} as {value}, a value of {1}, which went on to write it again: an intermediate read.",
        "future-read": "{0} read key {key} as {value} before it wrote that itself.",
        "internal": "{0} read key {key} as {value}, though it had itself read or written {against} before: an internal inconsistency.",
        "lost-update": "{all} all read key {key} as {value} and wrote it: one must have missed the other's update.",
    },
}
"""Data type → anomaly → its sentence."""


def explained(case: Case, workload: str) -> IsolationFinding:
    """The finding of a case in a history of a data type."""
    first, last = case.transactions[0], case.transactions[-1]
    through = ", ".join(str(t.id) for t in case.transactions[-2:0:-1])
    text = SENTENCES[workload][case.name].format(
        *map(show, case.transactions[:2]),
        last=show(last),
        all=", ".join(map(show, case.transactions[:4])),
        through=through,
        by=f" through {through}" if through else "",
        process=first.process,
        key=quote(case.key),
        value=_words(case.value),
        element=_words(case.element),
        against=_words(case.against),
        times=case.value.count(case.element) if isinstance(case.value, list) else 0,
        own=_own(case) if isinstance(case.element, list) else "",
    )
    return IsolationFinding(case.name, tuple(t.id for t in case.transactions), text, key=case.key)


def _own(case: Case) -> str:
    """What a list must have been by what its reader had read (None: nothing) and appended."""
    read = "[" + ", ".join(map(quote, ["…"] if case.against is None else case.against)) + "]"
    return f"{read} and its own {brief(case.element)}" if case.element else read


def _words(value: object) -> str:
    return brief(value) if isinstance(value, list) else quote(value)


def quote(v: object) -> str:
    """A key or a value in an explanation."""
    return explain.value(v)


def brief(v: Sequence[Any]) -> str:
    """A list in an explanation, shortened to its last elements: they matter most."""
    most = 12
    if len(v) <= most:
        return "[" + ", ".join(map(quote, v)) + "]"
    return f"[… {len(v) - most} more …, " + ", ".join(map(quote, v[-most:])) + "]"


def show(t: Transaction) -> str:
    """A transaction, in words."""
    most = 8
    ops = [f"{f} {quote(k)} {brief(v) if isinstance(v, list | tuple) else quote(v)}" for f, k, v in t.ops[:most]]
    if len(t.ops) > most:
        ops.append(f"and {len(t.ops) - most} more")
    status = "" if t.status == "ok" else f", {t.status}"
    return f"{t.id} (process {t.process}{status}): {'; '.join(ops)}"
