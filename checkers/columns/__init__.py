"""The checkers of commit order, rows and reads on flat columns: for histories that are too long for objects.

:mod:`frames` puts a table's evidence into columns, :mod:`screen` proves what is right or says what it cannot prove, :mod:`engine` makes
verdicts of that (what is not proven goes to the exact checkers), :mod:`spark` does the same on a cluster.
"""

from checkers.columns.engine import CHECKERS, check_columns
from checkers.columns.frames import Frame, Unordinary, frame_of
from checkers.columns.screen import Screen, screen

__all__ = ["CHECKERS", "Frame", "Screen", "Unordinary", "check_columns", "frame_of", "screen"]
