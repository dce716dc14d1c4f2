"""Isolation levels, the anomalies each forbids, and which level implies which: a table with its bibliography.

Two small graphs answer everything. In :data:`IMPLIES` a level points at the weaker levels that it implies; in :data:`WORSE` an anomaly
points at the anomalies that it implies by definition. An anomaly violates a level if that level, or one that it implies, forbids it
(:data:`FORBIDS`)::

    strict-serializable ─► strong-session-serializable ─► serializable ─► snapshot-isolation ─► parallel-snapshot-isolation
            │                          │                       │                                          │
            ▼                          ▼                       ▼                                          ▼
    strong-snapshot-isolation ─► strong-session-snapshot-  repeatable-read                  causal ─► read-atomic
                                 isolation                                                    ▲           │
                                   └─► strong-session-causal ─────────────────────────────────┘           ▼
                                         └─► the four session guarantees            read-uncommitted ◄─ read-committed

Authors define these names differently; this is what they mean here:

* ``read-uncommitted``, ``read-committed``, ``repeatable-read``, ``serializable`` are PL-1, PL-2, PL-2.99, PL-3 of [Adya 1999]. PL-1: the
  direct serialization graph has no cycle of ww edges. PL-2: none of ww and wr edges (G1c), and no read of aborted or intermediate
  versions (G1a, G1b). PL-2.99: none with item anti-dependencies either. PL-3: no cycle. So read committed allows a fractured read (in
  [Biswas Enea 2019] it does not).
* ``read-atomic`` is [Bailis 2014] (RAMP) with INT of [Cerone 2015]: read committed, a transaction's reads agree with its own operations
  (``internal``), and a transaction that reads from another misses none of its writes (``fractured-read``). No session order.
* ``causal`` is transactional causal consistency of [Cerone 2015] and [Biswas Enea 2019] without session order: a transaction that reads
  from another misses nothing that the other had read from, at any distance (``causality``). Elle derives neither of these two from
  cycles (after a read skew it still holds read-atomic and causal); here the definitions decide.
* ``strong-session-causal`` is what most texts call causal consistency: [Ahamad 1995], [Lloyd 2011] (COPS), [Biswas Enea 2019]. What a
  process did before counts as seen too, in what it writes and for who reads it (``session-causality``). It has all four session
  guarantees ([Brzezinski 2004]), and all agree on the order of the versions of a key (as *causal+*). Plain ``causal`` cannot have the
  order of sessions: snapshot isolation and serializability, which imply it, do not have it either.
* ``parallel-snapshot-isolation``: no cycle with fewer than two anti-dependencies. ``snapshot-isolation``: every cycle has two
  *adjacent* ones ([Cerone Gotsman 2016]; generalized, that is without real time; long forks are forbidden).
* ``strong-session-…`` adds the order of each process' transactions, ``strong-…`` and ``strict-…`` real time ([Daudjee Salem 2006],
  [Bernstein 1987], [Herlihy Wing 1990]).
* ``monotonic-reads``, ``monotonic-writes``, ``read-your-writes``, ``writes-follow-reads`` are [Terry 1994], key by key.

Anomalies outside Adya's histories are placed as in Elle: duplicate elements and values that nobody wrote contradict every level (Elle
throws on the latter); lists that are no prefixes of each other, future reads and dirty updates contradict read committed.

Bibliography: [Adya 1999] A. Adya, Weak Consistency, PhD thesis, MIT. [Ahamad 1995] M. Ahamad et al., Causal Memory: Definitions,
Implementation, and Programming, Distributed Computing. [Brzezinski 2004] J. Brzezinski et al., From Session Causality to Causal
Consistency, PDP. [Lloyd 2011] W. Lloyd et al., Don't Settle for Eventual: Scalable Causal Consistency with COPS, SOSP. [Bailis 2014] P.
Bailis et al., Scalable Atomic Visibility with RAMP Transactions, SIGMOD; Highly Available Transactions, VLDB 2013. [Berenson 1995] H.
Berenson et al., A Critique of ANSI SQL Isolation Levels, SIGMOD. [Bernstein 1987] P. Bernstein, V. Hadzilacos, N. Goodman, Concurrency
Control and Recovery in Database Systems. [Biswas Enea 2019] R. Biswas, C. Enea, On the Complexity of Checking Transactional Consistency,
OOPSLA. [Cerone 2015] A. Cerone, G. Bernardi, A. Gotsman, A Framework for Transactional Consistency Models with Atomic Visibility, CONCUR.
[Cerone Gotsman 2016] A. Cerone, A. Gotsman, Analysing Snapshot Isolation, PODC. [Daudjee Salem 2006] K. Daudjee, K. Salem, Lazy Database
Replication with Snapshot Isolation, VLDB. [Elle 2020] K. Kingsbury, P. Alvaro, Elle: Inferring Isolation Anomalies from Experimental
Observations, VLDB. [Herlihy Wing 1990] M. Herlihy, J. Wing, Linearizability, TOPLAS. [Terry 1994] D. Terry et al., Session Guarantees for
Weakly Consistent Replicated Data, PDIS.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

LEVELS: tuple[str, ...] = (
    "read-uncommitted",
    "read-committed",
    "read-atomic",
    "causal",
    "parallel-snapshot-isolation",
    "snapshot-isolation",
    "repeatable-read",
    "serializable",
    "monotonic-reads",
    "monotonic-writes",
    "read-your-writes",
    "writes-follow-reads",
    "strong-session-causal",
    "strong-session-snapshot-isolation",
    "strong-snapshot-isolation",
    "strong-session-serializable",
    "strict-serializable",
)
"""Every level; a level precedes those that imply it."""

MEANS: Mapping[str, str] = {
    "read-uncommitted": "No two transactions overwrite each other's writes in opposite orders.",
    "read-committed": "Only what was committed is read, and only in its final state.",
    "read-atomic": "Who sees one write of a transaction sees all of them.",
    "causal": "Who sees a transaction also sees all that this one had seen. What the same client did before, in other transactions, does "
    "not count: strong-session-causal counts it.",
    "parallel-snapshot-isolation": "As snapshot isolation, but two readers may see two commits in opposite orders.",
    "snapshot-isolation": "Each transaction reads one snapshot, and of two that change the same row at the same time only one may commit. "
    "Two that read each other's rows and change different ones may both commit (write skew).",
    "repeatable-read": "Rows that a transaction has read are not changed by others before it ends; new rows may appear.",
    "serializable": "Some order of all transactions, one after the other, explains what each saw and what is left. "
    "It need not be that of the clock.",
    "monotonic-reads": "A client that has seen a write never reads an older state of that key.",
    "monotonic-writes": "The writes of one client take effect in its order.",
    "read-your-writes": "A client sees its own earlier writes.",
    "writes-follow-reads": "A client's write comes after what it had read before.",
    "strong-session-causal": "Who sees a transaction also sees all that its client had done and seen before, and each client sees its own "
    "earlier transactions: causal consistency as most texts define it.",
    "strong-session-snapshot-isolation": "Snapshot isolation, and each client also sees its own earlier transactions.",
    "strong-snapshot-isolation": "Snapshot isolation, and each transaction sees all that was acknowledged before it began.",
    "strong-session-serializable": "Serializable, in an order that keeps that of each client's own transactions.",
    "strict-serializable": "Serializable, in an order that fits the clock: what was acknowledged before a transaction began comes before it.",
}
"""Level → what it promises, in a sentence."""

_SKEW = "w1 reads rows 7 and 8 and changes 7; w2 reads both and changes 8; neither saw the other's change, and both are ok (write skew)."
_STALE = "w1 inserts row 9: ok; then w2 counts the rows, and misses row 9 (a stale read)."
_LOST = "w1 and w2 both read row 7, and both change it: both are ok (lost update)."
_OVERLAP = "w1 inserts row 9; w2 counts the rows before w1 was told ok, with or without row 9."
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "read-committed": (_LOST, "w1 inserts row 9 and is told that it failed; w2 reads row 9."),
    "snapshot-isolation": (_SKEW, _LOST),
    "strong-session-snapshot-isolation": (
        _SKEW,
        "w1 inserts row 9: ok; then w1 itself counts the rows, and misses row 9.",
    ),
    "serializable": (_STALE, _SKEW),
    "strict-serializable": (_OVERLAP, _STALE),
    "linearizable": (_OVERLAP, _STALE),
}
"""Level → two short histories of a table: one that it allows, and one that it does not allow."""

IMPLIES: Mapping[str, tuple[str, ...]] = {
    "strict-serializable": ("strong-session-serializable", "strong-snapshot-isolation"),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "strong-snapshot-isolation": ("strong-session-snapshot-isolation",),
    "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-causal"),
    "strong-session-causal": (
        "causal",
        "monotonic-reads",
        "monotonic-writes",
        "read-your-writes",
        "writes-follow-reads",
    ),
    "serializable": ("snapshot-isolation", "repeatable-read"),
    "snapshot-isolation": ("parallel-snapshot-isolation",),
    "parallel-snapshot-isolation": ("causal",),
    "causal": ("read-atomic",),
    "repeatable-read": ("read-atomic",),
    "read-atomic": ("read-committed",),
    "read-committed": ("read-uncommitted",),
}
"""Level → the next weaker ones."""

CYCLES: tuple[str, ...] = (
    "G0",
    "G1c",
    "G-single",
    "G-single-predicate",
    "G-nonadjacent",
    "G-nonadjacent-predicate",
    "G2-item",
    "G2",
)
"""Cycles by their edges, the worst first."""
VARIANTS: tuple[str, ...] = ("", "-process", "-realtime")
"""Suffixes of a cycle's name: none, process order, or real time, if it uses such an edge."""


def _worse() -> dict[str, tuple[str, ...]]:
    """Anomaly → those of which it is a special case (Adya's definitions; a process is sequential, so its order is real time)."""
    data = {
        "G0": ("G1c",),
        "G1c": (),
        "G-single": ("G-nonadjacent", "G-single-predicate"),
        "G-single-predicate": ("G-nonadjacent-predicate",),
        "G-nonadjacent": ("G2-item", "G-nonadjacent-predicate"),
        "G-nonadjacent-predicate": ("G2",),
        "G2-item": ("G2",),
        "G2": (),
    }
    out: dict[str, tuple[str, ...]] = {
        "dirty-update": ("G1a",),
        "incompatible-order": ("G1a",),
        "future-read": ("G1c",),
        "lost-update": ("G2-item",),
        "fractured-read": ("causality",),
        "causality": ("session-causality",),
    }
    for name, weaker in data.items():
        out[name] = (*weaker, f"{name}-process")
        out[f"{name}-process"] = (*(f"{w}-process" for w in weaker), f"{name}-realtime")
        out[f"{name}-realtime"] = tuple(f"{w}-realtime" for w in weaker)
    return out


WORSE: Mapping[str, tuple[str, ...]] = _worse()
"""Anomaly → the anomalies that it implies."""

FORBIDS: Mapping[str, tuple[str, ...]] = {
    "read-uncommitted": ("G0", "duplicate-elements", "garbage-read"),
    "read-committed": ("G1a", "G1b", "G1c", "dirty-update", "incompatible-order", "future-read"),
    "read-atomic": ("internal", "fractured-read"),
    "causal": ("causality",),
    "parallel-snapshot-isolation": ("G-single-predicate", "lost-update"),
    "snapshot-isolation": ("G-nonadjacent-predicate",),
    "repeatable-read": ("G2-item",),
    "serializable": ("G2",),
    "monotonic-reads": ("non-monotonic-read",),
    "monotonic-writes": ("non-monotonic-write",),
    "read-your-writes": ("read-your-writes",),
    "writes-follow-reads": ("writes-follow-reads",),
    "strong-session-causal": ("G1c-process", "session-causality"),
    "strong-session-snapshot-isolation": ("G1c-process", "G-nonadjacent-predicate-process"),
    "strong-snapshot-isolation": ("G1c-realtime", "G-nonadjacent-predicate-realtime"),
    "strong-session-serializable": ("G1c-process", "G2-process"),
    "strict-serializable": ("G1c-realtime", "G2-realtime"),
}
"""Level → anomalies that it forbids and the levels that it implies do not (without those that imply another in the list)."""


def _reachable(start: Iterable[str], graph: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    found: set[str] = set()
    todo = list(start)
    while todo:
        level = todo.pop()
        if level not in found:
            found.add(level)
            todo += graph.get(level, ())
    return frozenset(found)


@cache
def contained(level: str) -> frozenset[str]:
    """A level and all levels that it implies.

    Raises:
        ValueError: there is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"isolation level {level!r} is not known; there are: {', '.join(LEVELS)}")
    return _reachable([level], IMPLIES)


def closure(anomalies: Iterable[str]) -> frozenset[str]:
    """Anomalies with all that they imply."""
    return _reachable(anomalies, WORSE)


def violated(anomalies: Iterable[str]) -> frozenset[str]:
    """The levels that a history with these anomalies does not satisfy.

    Example:
        >>> sorted(violated(["G0-realtime"]))
        ['strict-serializable', 'strong-snapshot-isolation']
    """
    found = closure(anomalies)
    direct = {level for level, names in FORBIDS.items() if found.intersection(names)}
    return frozenset(level for level in LEVELS if contained(level) & direct)


def forbids(level: str, anomaly: str) -> bool:
    """Whether a level forbids an anomaly."""
    return level in violated([anomaly])


def forbidden(level: str) -> tuple[str, ...]:
    """The names of all anomalies that a level forbids.

    Raises:
        ValueError: there is no such level.
    """
    every = sorted({*WORSE, *(x for names in FORBIDS.values() for x in names)})
    return tuple(x for x in every if contained(level) and forbids(level, x))


def weakest(levels: Iterable[str]) -> tuple[str, ...]:
    """Of some levels, those that imply no other of them, weakest first."""
    these = set(levels)
    return tuple(x for x in LEVELS if x in these and not (contained(x) - {x}) & these)


def strongest(levels: Iterable[str]) -> tuple[str, ...]:
    """Of some levels, those that no other of them implies, strongest first."""
    these = set(levels)
    return tuple(x for x in reversed(LEVELS) if x in these and not any(x in contained(y) for y in these if y != x))
