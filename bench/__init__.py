"""Benchmarks: each measures one thing as a ratio to a named reference, in one run, alternating."""
