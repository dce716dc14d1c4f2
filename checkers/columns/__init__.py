"""The checkers of commit order, rows and reads on flat columns: for histories that are too long for objects.

:mod:`frames` puts a table's evidence into columns, :mod:`screen` proves tables valid or lists what it cannot prove, :mod:`engine` turns
that into verdicts (the exact checkers judge what is not proven). :mod:`dataset` keeps the columns of many runs in a folder. :mod:`spark`
judges them on a cluster, with a table as the most that a task holds.
"""

from checkers.columns.engine import CHECKERS, check_columns
from checkers.columns.frames import TableFrame, frame_of
from checkers.columns.hashing import Unordinary
from checkers.columns.screen import Screen, screen

__all__ = ["CHECKERS", "Screen", "TableFrame", "Unordinary", "check_columns", "frame_of", "screen"]
