"""Benchmarks: each measures one thing as a ratio against something named, in one run, alternating."""
