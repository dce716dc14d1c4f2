"""One run: what it does, from its plan to its verdict."""
