"""How Spark runs the writers' statements: the session of each driver, and where its tasks run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Session = Literal["spark", "fast"]
"""``spark``: Spark's own settings, as users have them. ``fast``: settings with which a small statement costs less
(``compose.stack.sparkconf``)."""
Cluster = Literal["standalone", "local"]
"""``standalone``: a master, workers, and an executor process for each driver. ``local``: the tasks run in the driver's process."""
_VALUES = {"session": get_args(Session), "cluster": get_args(Cluster)}


@dataclass(frozen=True, slots=True, order=True)
class Mode:
    """A session and a cluster. Runs with different ones share no warm writers."""

    session: Session = "spark"
    cluster: Cluster = "standalone"

    @property
    def given(self) -> dict[str, str]:
        """What differs from :data:`AS_USERS`: ``{"session": "fast"}``."""
        return {k: v for k, v in asdict(self).items() if v != getattr(AS_USERS, k)}

    @staticmethod
    def of(words: Iterable[str]) -> Mode:
        """The inverse, of the values alone: ``("fast",)``. Raises ValueError for another word."""
        found: dict[str, Any] = {}
        for word in words:
            name = next((n for n, values in _VALUES.items() if word in values), None)
            if name is None:
                raise ValueError(f"{word!r} is neither a session nor a cluster")
            found[name] = word
        return Mode(**found)

    def __str__(self) -> str:
        """``session: fast, cluster: local``."""
        return f"session: {self.session}, cluster: {self.cluster}"


AS_USERS = Mode()
"""As users run Spark: what a run without a choice has."""
QUICK = Mode("fast", "local")
"""For runs whose order is forced, or that look for a defect: what they show does not depend on Spark's speed."""
