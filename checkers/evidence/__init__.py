"""The evidence that a run leaves: history, table logs, proxy log, plan."""
