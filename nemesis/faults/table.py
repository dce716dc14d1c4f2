"""The table of verbs in ``docs/nemesis.md``; ``python -m nemesis.faults.table`` prints it."""

from __future__ import annotations

from typing import Literal, get_args, get_origin

from nemesis.faults.fields import FaultFields
from nemesis.faults.registry import VERBS
from nemesis.faults.verb import ConnectionVerb, Verb


def options(verb: Verb) -> list[str]:
    """The names of the fields that only some verbs take and this one does."""
    return [*verb.fields, *verb.own.model_fields]


def row(verb: Verb) -> str:
    """The verb's row: its name, what happens, its options with the words that they allow."""
    sentences = []
    for name in options(verb):
        field = FaultFields.model_fields.get(name)
        words = get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
        sentences.append(f"`{name}`" + (f": {', '.join(f'`{w}`' for w in words)}" if words else ""))
    return f"| `{verb.name}` | {verb.summary} | {', '.join(sentences)} |".replace("|  |", "| |")


if __name__ == "__main__":
    print("| verb | what happens | options |\n|---|---|---|")
    print("\n".join(row(v) for v in VERBS.values() if isinstance(v, ConnectionVerb)))
