"""Each requirement holds on a catalog that keeps them all, and leaves nothing there."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from checkers.certificate import Absent, Conclusion
from harness.certify import kit as kit_module
from harness.certify.certify import asked_once
from harness.certify.kit import Kit, ServerDescription
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


@pytest.mark.parametrize("requirement", BY_NAME)
def test_each_says_how_it_is_asked_and_what_to_do(requirement: Requirement) -> None:
    for text in (requirement.asked, requirement.to_do):
        assert 20 < len(text) <= 300 and text.endswith(".") and "  " not in text and text.isprintable(), text
    ours = "Only for servers that icequake runs" in requirement.asked
    assert not (ours and requirement.any_catalog)


OVER_AND_OVER = re.compile(r"\b(again|twice|same)\b")
ROUNDS_SAID, CLIENTS_SAID = re.compile(r"(\d+) rounds"), re.compile(r"(\d+) clients")


@pytest.mark.parametrize("requirement", BY_NAME)
def test_what_is_said_of_rounds_and_of_what_is_sent_again_is_so(
    requirement: Requirement, reference: tuple[Catalog, ServerDescription]
) -> None:
    """Two requests are the same if method, address and body are; a load asks for nothing, so it is not counted."""
    with Kit(reference[1], requirement.id, rounds=ROUNDS) as kit:
        requirement.ask(kit)
    sent = [e for e in kit.seen.exchanges if e.method not in ("GET", "HEAD")]
    alike = Counter((e.method, e.path, json.dumps(e.sent, sort_keys=True)) for e in sent)
    said = OVER_AND_OVER.search(requirement.asked)
    assert (max(alike.values()) > 1) == (said is not None), (said, alike.most_common(1))
    if (rounds := ROUNDS_SAID.search(requirement.asked)) is None:
        return
    labels = Counter(e.label for e in kit.seen.exchanges if re.search(r":\d+\Z", e.label))
    assert len({label.rpartition(":")[2] for label in labels}) == int(rounds[1]) * ROUNDS // kit_module.ROUNDS
    if (clients := CLIENTS_SAID.search(requirement.asked)) is not None:
        assert max(labels.values()) == int(clients[1]) + ("one more does" in requirement.asked), labels


def test_what_is_rare_is_looked_for_in_more_rounds_as_long_as_they_are_fast(
    reference: tuple[Catalog, ServerDescription],
) -> None:
    seconds = iter(range(0, 10_000, 100))
    with Kit(reference[1], "slow", rounds=ROUNDS, now=lambda: next(seconds)) as kit:
        assert list(kit.turns(4 * ROUNDS)) == [*range(ROUNDS)], "the least that is asked is asked, however slow"
    with Kit(reference[1], "fast", rounds=ROUNDS, now=lambda: 0.0) as kit:
        assert list(kit.turns(4 * ROUNDS)) == [*range(4 * ROUNDS)]
