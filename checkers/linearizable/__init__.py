"""Linearizability, black box: is there an order of the operations that explains what every client saw?

:func:`check_model` judges any history of a register, counter, set or list; :class:`Linearizable` judges a run's tables.
"""

from checkers.linearizable.blackbox import check_model
from checkers.linearizable.calls import UnfitHistory
from checkers.linearizable.checker import NONLINEARIZABLE, Linearizable
from checkers.linearizable.models import MODELS, Model
from checkers.linearizable.result import Configuration, KeyResult, LinearizableResult
from checkers.linearizable.search import Limits
from checkers.linearizable.sidetables import TableNames

__all__ = [
    "MODELS",
    "NONLINEARIZABLE",
    "Configuration",
    "KeyResult",
    "Limits",
    "Linearizable",
    "LinearizableResult",
    "Model",
    "TableNames",
    "UnfitHistory",
    "check_model",
]
