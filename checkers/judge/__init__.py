"""The judgement of a run: all checkers together."""
