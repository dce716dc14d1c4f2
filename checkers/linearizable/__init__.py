"""Linearizability, black box: is there an order of the operations that explains what every client saw?

:func:`check_model` judges any history of a register, counter, set or list; :class:`Linearizable` judges a run's tables.
"""

from checkers.linearizable.blackbox import check_model
from checkers.linearizable.calls import ModelError
from checkers.linearizable.checker import NONLINEARIZABLE, Linearizable
from checkers.linearizable.models import MODELS, Model
from checkers.linearizable.result import Configuration, KeyResult, Result
from checkers.linearizable.search import Limits

__all__ = [
    "MODELS",
    "NONLINEARIZABLE",
    "Configuration",
    "KeyResult",
    "Limits",
    "Linearizable",
    "Model",
    "ModelError",
    "Result",
    "check_model",
]
