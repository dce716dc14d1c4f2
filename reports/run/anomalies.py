"""The anomalies of a run that no story tells: which of them have cards; and which links may be followed."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.verdict import Anomaly

MOST_CARDS = 50


def choose(anomalies: Sequence[Anomaly], most: int = MOST_CARDS) -> list[Anomaly]:
    """At most ``most``: the first of each name before the second of any; undocumented ones first, grouped by name."""
    names: dict[str, list[Anomaly]] = {}
    for a in sorted(anomalies, key=lambda a: a.documented is not None):
        names.setdefault(a.name, []).append(a)
    taken = dict.fromkeys(names, 0)
    left = min(most, len(anomalies))
    while left:
        for name, group in names.items():
            if left and taken[name] < len(group):
                taken[name] += 1
                left -= 1
    return [a for name, group in names.items() for a in group[: taken[name]]]
