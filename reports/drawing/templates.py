"""The Jinja2 environment of all pages."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reports.drawing import words
from reports.run import anomalies, plots

TEMPLATES = Path(__file__).parents[1] / "templates"


def environment() -> Environment:
    """The environment: where templates are, and their filters."""
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
        moment=words.moment,
        cut=words.shorten,
        plural=words.plural,
    )
    env.globals.update(
        share=words.share,
        anchor=anomalies.anchor,
        anchor_id=anomalies.anchor_id,
        legend_mark=plots.legend_mark,
        sparkline=plots.sparkline,
    )
    return env
