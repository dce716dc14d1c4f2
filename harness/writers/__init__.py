"""The writers, which execute operations with Spark."""
