"""Anomalies of append lists that are no cycles: each function finds those of one name in a history, and changes nothing.

Example:
    >>> from checkers.isolation.listappend import list_history
    >>> from checkers.isolation.transactions import Transaction
    >>> history = list_history(
    ...     [
    ...         Transaction("a", 0, 0, 1, "fail", (("append", "x", 1),)),
    ...         Transaction("b", 1, 2, 3, "ok", (("r", "x", [1]),)),
    ...     ]
    ... )
    >>> [(case.name, [t.id for t in case.transactions], case.element) for case in g1a_cases(history)]
    [('G1a', ['b', 'a'], 1)]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from checkers.isolation.explanation import Case
from checkers.isolation.listappend import ListHistory, first_repeated


def future_read_cases(h: ListHistory) -> Iterator[Case]:
    """Reads of an element that the reader itself appended only later."""
    for u in h.updates:
        if u.element in u.read:
            yield Case("future-read", (h.transactions[u.writer],), u.key, u.read, u.element)


def internal_cases(h: ListHistory) -> Iterator[Case]:
    """Reads that disagree with the transaction's own earlier reads and writes; the first of each transaction."""
    done = -1
    for r in h.rereads:
        own = r.appended
        agrees = r.now == r.read + own if r.read is not None else r.now[len(r.now) - len(own) :] == own
        if not agrees and r.reader != done:
            done = r.reader
            yield Case("internal", (h.transactions[r.reader],), r.key, r.now, own, r.read)


def duplicate_cases(h: ListHistory) -> Iterator[Case]:
    """Lists that have an element twice."""
    for key in h.keys.values():
        if key.as_appended:
            continue
        place = first_repeated(key.longest)
        reads = [(v, reader, place) for v, reader in key.longer(place)] if place is not None else []
        reads += [(key.lists[n], key.readers[n], p) for n in key.odd if (p := first_repeated(key.lists[n])) is not None]
        for v, reader, p in reads:
            yield Case("duplicate-elements", (h.transactions[reader],), key.name, v, v[p])


def incompatible_order_cases(h: ListHistory) -> Iterator[Case]:
    """Lists that are no prefixes of the longest one, and who read that."""
    for key in h.keys.values():
        for n in key.odd:
            readers = key.readers[n], key.readers[key.lists.index(key.longest)]
            transactions = tuple(h.transactions[r] for r in readers)
            yield Case("incompatible-order", transactions, key.name, key.lists[n], against=key.longest)


def garbage_read_cases(h: ListHistory) -> Iterator[Case]:
    """Reads of elements that nobody appended."""
    for key in h.keys.values():
        for n in key.odd:
            for v in key.lists[n]:
                if v not in key.writers:
                    yield Case("garbage-read", (h.transactions[key.readers[n]],), key.name, key.lists[n], v)
        known = len(key.order)
        if known < len(key.longest) and key.longest[known] not in key.writers:
            for read, reader in key.longer(known):
                yield Case("garbage-read", (h.transactions[reader],), key.name, read, read[known])


def g1a_cases(h: ListHistory) -> Iterator[Case]:
    """Reads of elements of failed transactions, and whose they are."""
    for key in h.keys.values():
        odd = ((key.lists[n], key.readers[n], v) for n in key.odd for v in key.lists[n])
        for read, reader, element in chain(odd, ((v, n, v[p]) for p in key.failed for v, n in key.longer(p))):
            writer = key.writers.get(element)
            if writer is not None and h.failed[writer]:
                yield Case("G1a", (h.transactions[reader], h.transactions[writer]), key.name, read, element)


def dirty_update_cases(h: ListHistory) -> Iterator[Case]:
    """Committed appends after one of a failed transaction; of successive failed ones after the last."""
    for key in h.keys.values():
        for p in key.failed:
            after = (q for q in range(p + 1, len(key.makers)) if h.committed[key.makers[q]])
            q = next(after, None) if p + 1 not in key.failed else None
            if q is not None:
                writers = (h.transactions[key.makers[q]], h.transactions[key.makers[p]])
                yield Case("dirty-update", writers, key.name, None, key.order[q], key.order[p])


def g1b_cases(h: ListHistory) -> Iterator[Case]:
    """Reads of lists that end with an element that its transaction followed by another one."""
    for key in h.keys.values():
        lists, followed = key.lists, key.intermediate
        for n in [n for n in key.versions() if lists[n] and lists[n][-1] in followed] if followed else ():
            element, reader = lists[n][-1], key.readers[n]
            writer = key.writers[element]
            if writer != reader:
                yield Case("G1b", (h.transactions[reader], h.transactions[writer]), key.name, lists[n], element)


def lost_update_cases(h: ListHistory) -> Iterator[Case]:
    """Committed transactions that read the same version of a key and append to it ([Berenson 1995] P4)."""
    by_version: dict[tuple[object, int], list[int]] = {}
    for u in h.updates:
        if u.first and u.key in h.keys and len(u.read) <= len(h.keys[u.key].order):
            by_version.setdefault((u.key, len(u.read)), []).append(u.writer)
    for (name, length), writers in by_version.items():
        if len(writers) > 1:
            yield Case("lost-update", tuple(h.transactions[n] for n in writers), name, h.keys[name].order[:length])


LIST_FINDERS = (
    future_read_cases,
    internal_cases,
    duplicate_cases,
    incompatible_order_cases,
    garbage_read_cases,
    g1a_cases,
    dirty_update_cases,
    g1b_cases,
    lost_update_cases,
)
"""All of them."""
