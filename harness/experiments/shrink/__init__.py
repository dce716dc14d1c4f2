"""From a failed run to the smallest one that fails in the same way, and to a scenario file of it."""
