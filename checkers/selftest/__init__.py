"""Who checks the checkers: known bugs planted in good runs, by name, somewhere else each time.

A checker that finds nothing has found that there is nothing, or is blind. The only way to know is to show it what it must find:
bugs that catalogs and engines really had, put into the record of a run in which nothing went wrong. :data:`ALL` is the list of them,
:func:`checkers.selftest.trial.run` tries them, ``icequake selftest`` prints the score.
"""

from __future__ import annotations

from checkers.selftest import halftransactions, lostcommits, lostswaps, neverends, wrongmetadata, wrongreads, wrongrows
from checkers.selftest.mutation import Mutation

ALL: tuple[Mutation, ...] = (
    *lostcommits.MUTATIONS,
    *wrongrows.MUTATIONS,
    *wrongreads.MUTATIONS,
    *wrongmetadata.MUTATIONS,
    *neverends.MUTATIONS,
    *halftransactions.MUTATIONS,
    *lostswaps.MUTATIONS,
)
"""Every mutation, in the order of the checkers."""
