"""Who checks the checkers: known bugs planted in good runs, by name, at a different place each time.

A checker that reports nothing is either right or blind. The only way to know is to show it what it must find: bugs that catalogs and
engines really had, planted in the record of a run without defects. :data:`ALL` lists them, :func:`checkers.selftest.trial.run` tries
them, ``icequake selftest`` prints the score.
"""

from __future__ import annotations

from typing import Any

from checkers.formats.iceberg.metadata import MetadataRules
from checkers.selftest import (
    contradictions,
    deltalogs,
    halftransactions,
    lostcommits,
    missingfiles,
    neverends,
    secondopinions,
    stalescans,
    swaps,
    wronganswers,
    wrongcontents,
    wrongcreation,
    wrongengines,
    wrongfiles,
    wronglogs,
    wrongmanifests,
    wrongmetadata,
    wrongnames,
    wrongreads,
    wrongrows,
    wrongschemas,
    wrongstatistics,
    wrongtravel,
)
from checkers.selftest.plant import Plant

PLANT_TABLES = (
    *(lostcommits, wronganswers, stalescans, wrongrows, missingfiles, wrongreads, wrongtravel, secondopinions),
    *(
        wrongmetadata,
        wrongmanifests,
        wrongcontents,
        wrongschemas,
        wrongcreation,
        wronglogs,
        wrongfiles,
        contradictions,
        wrongstatistics,
        neverends,
        halftransactions,
        swaps,
        wrongengines,
        wrongnames,
    ),
)
"""The tables of plants by subject, in the order of the checkers."""
ALL: tuple[Plant[Any], ...] = tuple(plant for subject in PLANT_TABLES for plant in subject.PLANTS)
"""Every plant, in the order of the tables."""
OF_DELTA: tuple[Plant[Any], ...] = (
    *(p for p in ALL if p.neutral and p.checker != MetadataRules.name),
    *deltalogs.PLANTS,
)
"""The plants for runs on tables of Delta Lake, whose metadata nobody but ``protocol`` judges. Some that every format can have find no place."""
