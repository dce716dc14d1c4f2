"""Each requirement holds on a catalog that keeps them all, and leaves nothing there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkers.certificate import Conclusion
from harness.certify.certify import asked_once
from harness.certify.kit import ServerDescription
from harness.certify.requirement import Requirement
from harness.certify.requirements import requirements
from tests.support.restcatalog import Catalog, described

ROUNDS = 5
BY_NAME = [pytest.param(r, id=r.id) for r in requirements()]


@pytest.fixture(scope="module")
def reference() -> Iterator[tuple[Catalog, ServerDescription]]:
    catalog = Catalog()
    with described(catalog) as server:
        yield catalog, server


@pytest.mark.parametrize("requirement", BY_NAME)
def test_a_catalog_that_keeps_all_passes(
    requirement: Requirement, reference: tuple[Catalog, ServerDescription]
) -> None:
    catalog, server = reference
    found = asked_once(requirement, server, ROUNDS)
    assert found.conclusion in (Conclusion.PASS, Conclusion.INFO), found
    assert not catalog.namespaces and not catalog.tables and not catalog.views, "a try leaves nothing"
