"""What would so many writers cost? A simulation of optimistic commits, calibrated on measured runs.

=============== ====================================================================================================
load            who commits what, how often, and from where: :class:`Load`, :class:`Conflicts`
service         what an attempt needs of cores, catalog and time: :class:`Service`, :class:`Demand`
commits         :func:`simulate` (load, service, seed) → figures; events and resources are in ``machine``
calibration     :func:`calibrate` (measured points) → service; the closed form that it uses is in ``mva``
prediction      :func:`predictions` (measured points, further points) → figures, errors, and reasons for errors
=============== ====================================================================================================
"""

from checkers.costs.simulated.calibration import Calibrated, Measured, Operation, calibrate, measured
from checkers.costs.simulated.commits import Simulated, simulate
from checkers.costs.simulated.load import Conflicts, Load
from checkers.costs.simulated.prediction import Predictions, predictions
from checkers.costs.simulated.service import Demand, Service

__all__ = [
    "Calibrated",
    "Conflicts",
    "Demand",
    "Load",
    "Measured",
    "Operation",
    "Predictions",
    "Service",
    "Simulated",
    "calibrate",
    "measured",
    "predictions",
    "simulate",
]
