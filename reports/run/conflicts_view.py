"""Retries, conflicts and errors on a run's page."""

from __future__ import annotations

from collections import Counter
from typing import Any

from checkers.costs.figures import Attempts, ErrorGroup
from checkers.evidence import error_chain, outcome
from reports.drawing import words
from reports.run.bands import is_write
from reports.run.stored import Stored

MOST_ERRORS = 40
MOST_ATTEMPTS = 8


def attempts_view(found: list[Attempts]) -> dict[str, Any] | None:
    """How many commits needed how many attempts, one row for each of ``found``; None if nothing was committed."""
    if not any(a.commits or a.unknown for a in found):
        return None
    most = max((n for a in found for n in a.counts), default=1)
    least = min((n for a in found for n in a.counts), default=1)
    columns = list(range(min(1, least), min(most, MOST_ATTEMPTS) + 1))
    tail = most > MOST_ATTEMPTS
    rows = []
    for a in found:
        cells = [a.counts.get(n, 0) for n in columns]
        if tail:
            cells.append(sum(k for n, k in a.counts.items() if n > MOST_ATTEMPTS))
        largest = max(cells, default=0) or 1
        rows.append({"a": a, "cells": [{"n": n, "percent": round(100 * n / largest)} for n in cells]})
    return {
        "columns": [str(n) for n in columns] + ([f"> {MOST_ATTEMPTS}"] if tail else []),
        "rows": rows,
        "unknown": any(a.unknown for a in found),
    }


def conflicts_view(run: Stored, by_table: list[Attempts]) -> dict[str, Any]:
    """How many writes were retried, aborted by a conflict (by exception class), or failed otherwise."""
    writes = [o for o in run.operations if is_write(o.f)]
    aborted: Counter[str] = Counter()
    otherwise: Counter[str] = Counter()
    for o in writes:
        if o.type == "fail":
            conflict = outcome.conflict_of(o)
            if conflict is not None:
                aborted[conflict] += 1
            else:
                otherwise[error_chain.short_class(error_chain.most_specific(o.error)[0])] += 1
    return {
        "writes": len(writes),
        "aborted": aborted.total(),
        "classes": aborted.most_common(8),
        "otherwise": otherwise.total(),
        "other_classes": otherwise.most_common(8),
        "commits": sum(a.commits for a in by_table),
        "retried": sum(a.retried for a in by_table),
        "extra": sum(a.extra for a in by_table),
    }


def errors_view(groups: list[ErrorGroup]) -> list[dict[str, Any]]:
    """The errors of operations, one entry per group."""
    return [
        {
            "g": g,
            "short": words.shorten(error_chain.short_class(g.name), 80),
            "package": words.shorten(g.name.rpartition(".")[0], 120),
            "kinds": g.kinds.most_common(4),
            "kinds_more": max(0, len(g.kinds) - 4),
            "example": "\ncaused by ".join(words.shorten(": ".join(e), 700) for e in (g.example or [])[:6]),
        }
        for g in groups[:MOST_ERRORS]
    ]
