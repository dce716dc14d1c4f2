"""The Jinja2 environment of all pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.drawing import words

TEMPLATES = Path(__file__).parents[1] / "templates"


def environment(**functions: Any) -> Environment:
    """Where templates are, and what they may call: the words of ``reports.drawing.words``, and a page's own ``functions`` by name."""
    env = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(
        n=words.grouped,
        ms=words.milliseconds,
        took=words.duration,
        label=words.link_label,
        cut=_cut,
        plural=words.plural,
    )
    env.globals.update(share=words.share, **functions)
    return env


def _cut(text: str, most: int) -> str:
    """At most ``most`` characters of a text; a Markup stays whole, because a part of it is no HTML."""
    return text if isinstance(text, Markup) else words.shorten(text, most)
