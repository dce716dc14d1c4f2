"""What the writers do: the workload file, the operations (SQL and meaning) and the seeded generator."""
