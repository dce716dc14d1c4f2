"""What must hold: pure functions from (history, table logs) to verdicts."""
