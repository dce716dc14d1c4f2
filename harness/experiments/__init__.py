"""Experiments of many runs: prove, matrix, compare."""
