"""Who does what when, and what was seen: the run, its writers, the history, the table log, the store, the CLI."""

__version__ = "0.1.0"
"""The version of icequake. ``pyproject.toml`` reads it here."""
