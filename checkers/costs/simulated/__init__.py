"""What would so many writers cost? A simulation of optimistic commits, calibrated on measured runs.

=============== ====================================================================================================
load            who commits what, how often, for how long, and from where: :class:`ClosedLoop`, :class:`ConflictOdds`, :class:`RunLength`
phasetimes      what an attempt needs of cores, catalog and time: :class:`ServiceTimes`, :class:`PhaseDemand`
commits         :func:`simulate` (load, service, seed) → figures; events and resources are in ``machine``
measured        what runs recorded, as points: :func:`recorded`, :func:`measured`
calibration     :func:`calibrate` (measured points) → service; the closed form that it uses is in ``mva``
prediction      :func:`predictions` (measured points, further points) → figures, errors, and reasons for errors
=============== ====================================================================================================
"""

from checkers.costs.simulated.calibration import Calibrated, calibrate
from checkers.costs.simulated.commits import Simulated, simulate
from checkers.costs.simulated.load import ClosedLoop, ConflictOdds, RunLength
from checkers.costs.simulated.measured import MeasuredOperation, MeasuredPoint, measured, recorded
from checkers.costs.simulated.phasetimes import PhaseDemand, ServiceTimes
from checkers.costs.simulated.prediction import Predictions, predictions

__all__ = [
    "Calibrated",
    "ClosedLoop",
    "ConflictOdds",
    "MeasuredOperation",
    "MeasuredPoint",
    "PhaseDemand",
    "Predictions",
    "RunLength",
    "ServiceTimes",
    "Simulated",
    "calibrate",
    "measured",
    "predictions",
    "recorded",
    "simulate",
]
