"""What a fault did to a request, in words that need no knowledge of icequake."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.evidence.change_requests import ChangeRequest
from nemesis.faults.registry import VERBS
from reports.run import faulted


def request(status: str) -> ChangeRequest:
    return ChangeRequest(63_435_000_000, 1.0, 2, "catalog", "commit", "t", "w2-30", "", "", status, ("cut of commit",))


DID, SAID = "the catalog carried out the commit of w2-30", "the catalog's answer to the commit of w2-30 was"


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("UPDATE 1, told 40001 (nemesis)", "answer SQLSTATE 40001 of commit"),
        ("53100 (nemesis)", "answer SQLSTATE 53100 of commit"),
        ("200, told 429 (nemesis)", "answer 429 of commit"),
        ("200", "answer 429 of commit"),
    ],
)
def test_a_fault_is_named_by_the_error_that_the_protocol_has(status: str, name: str) -> None:
    struck = replace(request(status), faults=("answer 429 of commit",))
    assert f"({name}): the catalog" in faulted.happened(struck)


@pytest.mark.parametrize(
    ("status", "says", "happened"),
    [
        (
            "UPDATE 1, told 429 (nemesis)",
            "its database changed 1 row: the pointer was moved, and the writer was told an error",
            f"{DID} (its database changed 1 row: the pointer was moved), and the writer was told an error",
        ),
        (
            "UPDATE 1, told 08006 (nemesis)",
            "its database changed 1 row: the pointer was moved, and the writer was told an error (SQLSTATE 08006)",
            f"{DID} (its database changed 1 row: the pointer was moved), and the writer was told an error (SQLSTATE 08006)",
        ),
        (
            "40001 (nemesis)",
            "none; the writer was told an error (SQLSTATE 40001)",
            f"{SAID} none; the writer was told an error (SQLSTATE 40001)",
        ),
        (
            "ok, told exception (nemesis)",
            "ok, and the writer was told an exception",
            f"{DID} (ok), and the writer was told an exception",
        ),
        ("200, told 502 (nemesis)", "200, and the writer was told 502", f"{DID} (200), and the writer was told 502"),
        (
            "UPDATE 1 (nemesis: not told)",
            "its database changed 1 row: the pointer was moved, which the writer was not told",
            f"{DID} (its database changed 1 row: the pointer was moved), which the writer was not told",
        ),
        ("200", "200", f"{DID} (200)"),
        (
            "UPDATE 0 (nemesis: not told)",
            "its database changed 0 rows: the pointer was not moved, which the writer was not told",
            f"{SAID} its database changed 0 rows: the pointer was not moved, which the writer was not told",
        ),
        ("503 (nemesis)", "none; the writer was told 503", f"{SAID} none; the writer was told 503"),
        ("409", "409", f"{SAID} 409"),
    ],
)
def test_the_answer_of_the_service_and_what_the_writer_was_told_are_both_said(
    status: str, says: str, happened: str
) -> None:
    assert faulted.reply(request(status)) == says
    assert faulted.happened(request(status)) == f"a fault at 63.435 s (cut of commit): {happened}"


@pytest.mark.parametrize(
    "name", ["drop-reply-of-commit", "drop-reply of commit", "answer-429-of-commit", "cut of commit"]
)
def test_who_points_at_a_fault_reads_what_it_does(name: str) -> None:
    verb = next(v for v in sorted(VERBS, key=len, reverse=True) if name.startswith(v))
    assert f">{name}</span>" in faulted.named(name) and VERBS[verb].summary.split("`")[0][:20] in faulted.named(name)


def test_a_fault_that_nobody_explains_is_only_named() -> None:
    assert faulted.named("<own>") == "<own>"
