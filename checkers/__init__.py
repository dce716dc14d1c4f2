"""What must hold? Pure functions from the evidence that a run leaves to verdicts."""
