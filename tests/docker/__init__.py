"""The stack in containers, on a real Docker engine."""
