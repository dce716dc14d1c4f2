"""Who does what when? The run, its writers, the files of its tables, experiments of many runs, and the command line."""

__version__ = "0.1.0"
"""The version of icequake. ``pyproject.toml`` reads it here."""
