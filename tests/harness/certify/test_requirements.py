"""Each requirement holds on a catalog that keeps them all, and leaves nothing there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checkers.certificate import Absent, Conclusion
from harness.certify.certify import asked_once
from harness.certify.kit import ServerDescription
from harness.certify.requirement import NotApplicable, Requirement
from harness.certify.requirements import requirements
from tests.support.restcatalog import Catalog, Json, Refused, Reply, described

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


class Silent(Catalog):
    """It declares no endpoints, as servers did before there was a list, and has no plans."""

    def config(self) -> Json:
        return {k: v for k, v in super().config().items() if k != "endpoints"}

    def plan(self, key: tuple[str, str], snapshot: int) -> Reply:
        raise Refused(404, "", "no such route")

    def credentials(self, key: tuple[str, str]) -> Reply:
        raise Refused(404, "", "no such route")


@pytest.mark.parametrize("id", ["plans", "credentials"])
def test_what_is_newer_than_declarations_is_not_expected_of_a_server_that_declares_nothing(id: str) -> None:
    (requirement,) = (r for r in requirements() if r.id == id)
    with described(Silent()) as server, pytest.raises(NotApplicable) as why:
        asked_once(requirement, server, ROUNDS)
    assert why.value.why is Absent.UNDECLARED
