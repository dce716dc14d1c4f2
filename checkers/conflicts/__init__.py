"""Conflicts of two concurrent operations: predicted from Iceberg's code, and measured."""
