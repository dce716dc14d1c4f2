"""How long a writer waits before it tries a refused commit again: the policies of a committer and of the simulator.

A commit makes at most ``1 + num-retries`` attempts. After attempt *n* was refused (*n* counts from 1) the writer waits, with *b* for
``commit.retry.min-wait-ms`` and *c* for ``commit.retry.max-wait-ms``:

==================  ======================================  ==============================================================
none                0                                       at once
linear              min(c, b · n)                           no randomness
exponential         min(c, b · 2^(n-1))                     no randomness
exponential+jitter  min(c, b · 2^(n-1)) · (0.5 + U)         the formula is often quoted as ``min(base * 2^attempt, cap) * (0.5 + random)``,
                                                            with attempts counted from 0: the same waits as without jitter, on average.
                                                            The cap bounds the wait before it is scattered
decorrelated        min(c, uniform(b, 3 · previous))        the first ``previous`` is b. Marc Brooker, "Exponential Backoff And Jitter", AWS
                                                            Architecture Blog, 2015
iceberg             d + {0, …, max(1, ⌊d / 10⌋) - 1} ms,    ``org.apache.iceberg.util.Tasks.runTaskWithRetry``: whole milliseconds,
                    d = ⌊min(c, b · 2^(n-1))⌋ ms            at most a tenth more
==================  ======================================  ==============================================================

*U* is uniform in [0, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

DOUBLINGS = 62
"""2^62 ms are longer than any cap; more doublings would only overflow a float."""


@dataclass(frozen=True, slots=True)
class RetryLimits:
    """When a commit gives up, by Iceberg's table properties; the defaults are Iceberg's (``TableProperties``).

    Attributes:
        num_retries: ``commit.retry.num-retries``: attempts after the first.
        min_wait_ms: ``commit.retry.min-wait-ms``.
        max_wait_ms: ``commit.retry.max-wait-ms``.
        total_timeout_ms: ``commit.retry.total-timeout-ms``: no further attempt once the commit has taken longer than this.

    Raises:
        ValueError: a number is negative.
    """

    num_retries: int = 4
    min_wait_ms: float = 100
    max_wait_ms: float = 60_000
    total_timeout_ms: float = 1_800_000

    def __post_init__(self) -> None:
        for name, value in self.properties().items():
            if value < 0:
                raise ValueError(f"{name} is {value}: it must be 0 or more")

    @staticmethod
    def of(properties: Mapping[str, str]) -> RetryLimits:
        """Those of a table with these properties."""
        own = RetryLimits()
        numbers = {k: float(properties.get(k, v)) for k, v in own.properties().items()}
        count, least, most, total = numbers.values()
        return RetryLimits(int(count), least, most, total)

    def properties(self) -> dict[str, float]:
        """As Iceberg's table properties."""
        return {
            "commit.retry.num-retries": self.num_retries,
            "commit.retry.min-wait-ms": self.min_wait_ms,
            "commit.retry.max-wait-ms": self.max_wait_ms,
            "commit.retry.total-timeout-ms": self.total_timeout_ms,
        }

    def allows_another(self, attempt: int, elapsed_s: float) -> bool:
        """Whether another attempt follows the refused ``attempt`` (from 1), ``elapsed_s`` after the first began.

        As in ``Tasks.runTaskWithRetry``: a commit that was refused once gets a second attempt however long the first took.
        """
        return attempt <= self.num_retries and (attempt == 1 or elapsed_s * 1000 <= self.total_timeout_ms)


def _exponential(retries: RetryLimits, attempt: int) -> float:
    return min(retries.max_wait_ms, retries.min_wait_ms * 2.0 ** min(attempt - 1, DOUBLINGS))


def _iceberg(retries: RetryLimits, attempt: int, _previous: float, rng: Random) -> float:
    delay = int(_exponential(retries, attempt))
    return delay + rng.randrange(max(1, int(delay * 0.1)))


ICEBERGS_POLICY = "iceberg"
"""The policy that Iceberg's client has itself."""

Wait = Callable[[RetryLimits, int, float, Random], float]
"""(settings, the attempt that was refused, the wait before that attempt in ms, randomness) → ms to wait."""

POLICIES: Mapping[str, Wait] = {
    "none": lambda _r, _n, _p, _rng: 0.0,
    "linear": lambda r, n, _p, _rng: min(r.max_wait_ms, r.min_wait_ms * n),
    "exponential": lambda r, n, _p, _rng: _exponential(r, n),
    "exponential+jitter": lambda r, n, _p, rng: _exponential(r, n) * (0.5 + rng.random()),
    "decorrelated": lambda r, _n, p, rng: min(r.max_wait_ms, rng.uniform(r.min_wait_ms, 3 * (p or r.min_wait_ms))),
    "iceberg": _iceberg,
}
"""Name → the policy."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """A policy and its settings.

    Attributes:
        policy: one of :data:`POLICIES`.

    Raises:
        ValueError: there is no such policy.
    """

    policy: str = "iceberg"
    retries: RetryLimits = RetryLimits()

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"there is no backoff policy {self.policy!r}; there are {', '.join(POLICIES)}")

    def wait(self, attempt: int, previous: float, rng: Random) -> float:
        """Seconds to wait after a refused attempt.

        Args:
            attempt: the attempt that was refused, from 1.
            previous: what this method returned for the attempt before (s); 0 for the first.
        """
        return POLICIES[self.policy](self.retries, attempt, previous * 1000, rng) / 1000

    def waits(self, rng: Random) -> Iterator[float]:
        """Seconds to wait before each further attempt, as if attempts themselves took no time."""
        waited = previous = 0.0
        attempt = 1
        while self.retries.allows_another(attempt, waited):
            previous = self.wait(attempt, previous, rng)
            waited += previous
            attempt += 1
            yield previous
