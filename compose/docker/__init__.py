"""The stack in containers."""
