"""A catalog that breaks one requirement fails that one, and no other of its group."""

from __future__ import annotations

import pytest

from checkers.certificate import Conclusion
from harness.certify.certify import asked_once
from harness.certify.kit import Server
from harness.certify.requirement import NotApplicable, Requirement
from harness.certify.requirements import requirements
from tests.harness.certify.mutants import MUTANTS
from tests.support.restcatalog import serving

ROUNDS = 5
BROKEN = (Conclusion.FAIL, Conclusion.SOFT)


def test_every_requirement_but_a_number_has_a_mutant() -> None:
    broken = {names[0] for names, _ in MUTANTS.values()}
    assert {r.id for r in requirements()} - broken == {"progress", "txn-not-fractured", "register-overwrite"}


def fails(requirement: Requirement, server: Server) -> bool:
    try:
        return asked_once(requirement, server, ROUNDS).conclusion in BROKEN
    except NotApplicable:
        return False


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_broken_requirement_is_found_and_no_other_is_accused(mutant: str) -> None:
    broken, catalog = MUTANTS[mutant]
    (group,) = {r.group for r in requirements() if r.id == broken[0]}
    with serving(catalog()) as uri:
        server = Server.reached(uri, {})
        found = {r.id for r in requirements() if r.group == group and fails(r, server)}
    assert broken[0] in found and found <= {*broken}
