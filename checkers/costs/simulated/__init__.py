"""What would so many writers cost? A simulation of optimistic commits, calibrated on measured runs.

=============== ====================================================================================================
load            who commits what, how often, for how long, and from where: :class:`Load`, :class:`Conflicts`, :class:`Length`
service         what an attempt needs of cores, catalog and time: :class:`Service`, :class:`Demand`
commits         :func:`simulate` (load, service, seed) → figures; events and resources are in ``machine``
measured        what runs recorded, as points: :func:`recorded`, :func:`measured`
calibration     :func:`calibrate` (measured points) → service; the closed form that it uses is in ``mva``
prediction      :func:`predictions` (measured points, further points) → figures, errors, and reasons for errors
=============== ====================================================================================================
"""

from checkers.costs.simulated.calibration import Calibrated, calibrate
from checkers.costs.simulated.commits import Simulated, simulate
from checkers.costs.simulated.load import Conflicts, Length, Load
from checkers.costs.simulated.measured import Measured, Operation, measured, recorded
from checkers.costs.simulated.prediction import Predictions, predictions
from checkers.costs.simulated.service import Demand, Service

__all__ = [
    "Calibrated",
    "Conflicts",
    "Demand",
    "Length",
    "Load",
    "Measured",
    "Operation",
    "Predictions",
    "Service",
    "Simulated",
    "calibrate",
    "measured",
    "predictions",
    "recorded",
    "simulate",
]
