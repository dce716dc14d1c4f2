"""The embedded stack: all services of one run together."""
