from collections.abc import Mapping
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Predicted:
    varied: tuple[tuple[str, str], ...]
    figures: Mapping[str, float]
    measured: bool
    error: Mapping[str, float]
