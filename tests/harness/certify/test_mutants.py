"""A catalog that breaks one requirement fails that one, and no other of its group."""

from __future__ import annotations

import pytest

from checkers.certificate import Conclusion
from harness.certify.certify import MOST_WIRE, asked_once
from harness.certify.kit import ServerDescription
from harness.certify.requirement import NotApplicable, Requirement
from harness.certify.requirements import requirements
from reports import certify as page
from tests.harness.certify.mutants import MUTANTS
from tests.support.restcatalog import described
from workloads.file.yamlfile import HIDDEN

ROUNDS = 5
TRIES = 4
"""Of what must be found: in ten rounds of a race a busy machine met once no rival. What is never found is not found in four tries."""
BROKEN = (Conclusion.FAIL, Conclusion.SOFT)
GROUP = {r.id: r.group for r in requirements()}


def meant(mutant: str) -> set[str]:
    """The first requirement of each group that it breaks: those of the group behind it may fail by that, or not."""
    return set({GROUP[id]: id for id in reversed(MUTANTS[mutant][0])}.values())


def test_every_requirement_but_a_number_has_a_mutant() -> None:
    broken = set.union(*map(meant, MUTANTS))
    assert GROUP.keys() - broken == {"progress", "register-overwrite"}


PROVEN_BY_A_READ = {
    "acknowledged-is-kept": "AcknowledgesAndForgets",
    "namespace-props-merge": "ReplacesProperties",
    "no-requirement-no-loss": "LastWriterWins",
    "null-ref": "NullMeansAny",
    "refused-is-not-applied": "AppliesWhatItRefuses",
    "rename-keeps-commits": "RenamesAnOldCopy",
    "resend-after-rival": "SetsBack",
    "txn-all-or-none": "TransactsByHalves",
    "txn-read-only-member": "ForgetsReadMembers",
    "uuid-after-recreate": "KnowsTablesByName",
}
"""What is lost or wrongly there, and a catalog that does it."""


@pytest.mark.parametrize("id", PROVEN_BY_A_READ)
def test_what_is_lost_is_named_and_the_read_that_proves_it_is_shown(id: str) -> None:
    with described(MUTANTS[PROVEN_BY_A_READ[id]][1]()) as server:
        (requirement,) = (r for r in requirements() if r.id == id)
        found = next(
            (j for _ in range(TRIES) if (j := asked_once(requirement, server, ROUNDS)).conclusion in BROKEN), None
        )
    assert found is not None and found.conclusion is Conclusion.FAIL
    assert [e for e in found.wire[:MOST_WIRE] if e.method == "POST" and not e.label.startswith("end")], found.wire
    assert [e for e in found.wire[:MOST_WIRE] if e.method == "GET" and e.ok], found.actual
    assert found.actual not in ("it is", "it is not") and not found.actual.endswith(" are not"), found.actual


def test_a_key_of_another_request_is_shown_with_that_request_and_the_table_that_is_there() -> None:
    with described(MUTANTS["KnowsTheKeyOnly"][1]()) as server:
        server.headers = {**server.headers, "X-Own": "not-to-be-seen"}
        (requirement,) = (r for r in requirements() if r.id == "key-of-another-operation")
        first, drop, after = asked_once(requirement, server, ROUNDS).wire[:MOST_WIRE]
    assert (first.method, drop.method, after.method) == ("POST", "DELETE", "GET") and first.ok and drop.ok and after.ok
    assert first.path == drop.path == after.path.partition("?")[0]
    assert first.asked["Idempotency-Key"] == drop.asked["Idempotency-Key"] and "Idempotency-Key" not in after.asked
    shown = page.wire(drop)
    assert f"Idempotency-Key: {drop.asked['Idempotency-Key']}\n" in shown
    assert drop.asked["Authorization"] == drop.asked["X-Own"] == HIDDEN and f"Authorization: {HIDDEN}" in shown
    assert "not-to-be-seen" not in repr([first, drop, after]) and "Bearer" not in repr([first, drop, after])


def test_a_namespace_that_was_dropped_under_a_table_is_shown_with_the_reads_that_are_quoted() -> None:
    with described(MUTANTS["DropsUnderTables"][1]()) as server:
        (requirement,) = (r for r in requirements() if r.id == "namespace-drop-or-create")
        found = asked_once(requirement, server, ROUNDS)
    reads = [e for e in found.wire[:MOST_WIRE] if e.method == "GET"]
    assert len(reads) == 2 and all(f"{e.path}: {e.status}" in found.actual for e in reads)


def fails(requirement: Requirement, server: ServerDescription) -> bool:
    try:
        return asked_once(requirement, server, ROUNDS).conclusion in BROKEN
    except NotApplicable:
        return False


def failing(mutant: str, asked: set[str]) -> set[str]:
    with described(MUTANTS[mutant][1]()) as server:
        return {r.id for r in requirements() if r.id in asked and fails(r, server)}


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_a_broken_requirement_is_found(mutant: str) -> None:
    missed = meant(mutant)
    for _ in range(TRIES):
        missed = missed and missed - failing(mutant, missed)
    assert not missed


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_no_other_requirement_of_the_group_is_accused(mutant: str) -> None:
    groups = {GROUP[id] for id in meant(mutant)}
    asked = {id for id, group in GROUP.items() if group in groups} - meant(mutant)
    assert failing(mutant, asked) <= {*MUTANTS[mutant][0]}
