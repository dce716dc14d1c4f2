"""Who does what when, and what was seen: the run, its writers, the history, the table log, the store, the CLI."""
