"""The requirements, one file each: what is asked, and how the answers are judged."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from harness.certify.requirement import Requirement

GROUPS = (
    "one winner and nothing lost",
    "statuses",
    "requirements",
    "creation and transactions",
    "sent twice or late or lost",
    "reads",
    "namespaces and tables and views",
    "metadata kept",
    "life of the server",
)
"""The heads of the table, in their order: what loses data first."""


@cache
def requirements() -> tuple[Requirement, ...]:
    """All of them, by group and then by name."""
    found = [
        importlib.import_module(f"{__name__}.{module.name}").REQUIREMENT
        for module in pkgutil.iter_modules(__path__)
        if module.name != "__main__"
    ]
    return tuple(sorted(found, key=lambda r: (GROUPS.index(r.group), r.id)))


def how() -> str:
    """The second table of docs/certify.md, which ``python -m harness.certify.requirements --how`` prints: what a server's engineer needs."""
    lines = ["| requirement | how it is asked, each try | what to do in a server |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{r.id}` | {r.asked} | {r.to_do} |" for r in requirements())]) + "\n"


def document() -> str:
    """The table of docs/certify.md: ``python -m harness.certify.requirements`` prints it."""
    lines = ["| requirement | what must hold | level | if not | said by |", "|---|---|---|---|---|"]
    for group in GROUPS:
        lines.append(f"| **{group}** | | | | |")
        lines += [
            f"| `{r.id}` | {r.sentence} | {r.level} | {r.effect} | {r.source} |"
            for r in requirements()
            if r.group == group
        ]
    return "\n".join(lines) + "\n"
