"""Where a run runs: every service as a local process, and how Spark reaches it."""
