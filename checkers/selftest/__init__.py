"""Who checks the checkers: known bugs planted in good runs, by name, at a different place each time.

A checker that reports nothing is either right or blind. The only way to know is to show it what it must find: bugs that catalogs and
engines really had, planted in the record of a run without defects. :data:`ALL` lists them, :func:`checkers.selftest.trial.run` tries
them, ``icequake selftest`` prints the score.
"""

from __future__ import annotations

from checkers.selftest import (
    halftransactions,
    lostcommits,
    lostswaps,
    neverends,
    secondopinions,
    wronganswers,
    wrongcontents,
    wrongengines,
    wrongfiles,
    wronglogs,
    wrongmetadata,
    wrongreads,
    wrongrows,
    wrongswaps,
    wrongtravel,
)
from checkers.selftest.mutation import Mutation

ALL: tuple[Mutation, ...] = (
    *lostcommits.MUTATIONS,
    *wronganswers.MUTATIONS,
    *wrongrows.MUTATIONS,
    *wrongreads.MUTATIONS,
    *wrongtravel.MUTATIONS,
    *secondopinions.MUTATIONS,
    *wrongmetadata.MUTATIONS,
    *wrongcontents.MUTATIONS,
    *wronglogs.MUTATIONS,
    *wrongfiles.MUTATIONS,
    *neverends.MUTATIONS,
    *halftransactions.MUTATIONS,
    *lostswaps.MUTATIONS,
    *wrongswaps.MUTATIONS,
    *wrongengines.MUTATIONS,
)
"""Every mutation, in the order of the checkers."""
