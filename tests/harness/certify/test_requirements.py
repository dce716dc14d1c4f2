"""Each requirement holds on a catalog that keeps them all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkers.certificate import Conclusion
from harness.certify.certify import asked_once
from harness.certify.kit import Server
from harness.certify.requirement import Requirement
from harness.certify.requirements import requirements
from tests.support.restcatalog import Catalog, serving

ROUNDS = 5
BY_NAME = [pytest.param(r, id=r.id) for r in requirements()]


@pytest.fixture(scope="module")
def reference() -> Iterator[Server]:
    with serving(Catalog()) as uri:
        yield Server.reached(uri, {})


@pytest.mark.parametrize("requirement", BY_NAME)
def test_a_catalog_that_keeps_all_passes(requirement: Requirement, reference: Server) -> None:
    found = asked_once(requirement, reference, ROUNDS)
    assert found.conclusion in (Conclusion.PASS, Conclusion.INFO), found
