"""What do the writers do? Operations and their meaning, workload and scenario files, the seeded generator."""
