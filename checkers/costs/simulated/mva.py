"""Closed queueing networks in closed form: exact mean value analysis.

*N* customers go round: they think, then visit each station once. A station with *c* servers works on *c* customers at a time; the results
hold for processor sharing with any distribution of demand, for first come first served with exponential demand, and for any distribution of the
think time. Sources: Reiser and Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks", JACM 1980; for several servers
Bolch et al., "Queueing Networks and Markov Chains", 2006, 8.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Network:
    """What the analysis found.

    Attributes:
        throughput: rounds a second, of all customers together.
        residence: seconds that one round spends at each station, queueing included.
        stretch: of each station, residence / demand: 1 if nobody is in the way.
    """

    throughput: float
    residence: tuple[float, ...]
    stretch: tuple[float, ...]


def network(customers: int, think: float, stations: Sequence[tuple[float, int]]) -> Network:
    """Exact for one class of customers.

    Args:
        think: seconds outside the stations in each round.
        stations: (seconds of demand a round, servers).
    """
    lengths = [0.0] * len(stations)
    # idle[i][j]: probability that j customers are at station i, for j below its number of servers
    idle = [[1.0] + [0.0] * (servers - 1) for _, servers in stations]
    throughput, residence, stretch = 0.0, [0.0] * len(stations), [1.0] * len(stations)
    for n in range(1, max(1, customers) + 1):
        for i, (demand, servers) in enumerate(stations):
            spare = sum((servers - 1 - j) * idle[i][j] for j in range(servers - 1))
            stretch[i] = (1 + lengths[i] + spare) / servers
            residence[i] = demand * stretch[i]
        round_trip = think + sum(residence)
        throughput = n / round_trip if round_trip else float("inf")
        for i, (demand, servers) in enumerate(stations):
            lengths[i] = throughput * residence[i]
            load = throughput * demand
            found = [0.0] + [load / j * idle[i][j - 1] for j in range(1, servers)]
            busy = load + sum((servers - j) * found[j] for j in range(1, servers))
            found[0] = max(0.0, 1 - busy / servers)
            idle[i] = found
    return Network(throughput, tuple(residence), tuple(stretch))
