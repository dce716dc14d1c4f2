"""The files of claims: what is wrong in one is said with file, line, key and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from workloads.file import claims
from workloads.file import workload as schema
from workloads.file.claims import VERDICTS, Claim
from workloads.file.yamlfile import FileError

GOOD = """\
document: {title: A post, by: somebody, link: https://example.org/post}
claims:
  - number: 1
    claim: Rows stay.
    section: Rows
    commands:
      - [prove, undelete, --times, "3"]
    verdict: holds in part
    outcome: 3 of 3
    measured: {date: 2026-11-22, versions: Iceberg 1.12.0}
    why: they do not.
"""


def wrong(words: object) -> str | None:
    """Of a program whose only commands are these."""
    assert isinstance(words, list | tuple)
    return None if words[0] in ("prove", "run", "compare", "sweep", "matrix") else f"unknown command {words[0]!r}"


def test_a_file_is_read_as_it_is_written() -> None:
    found, lines = claims.parse(GOOD, "f.yaml", wrong)
    (claim,) = found.claims
    assert claim.commands == (claims.ClaimCommand(words=("prove", "undelete", "--times", "3")),)
    assert claim.measured is not None and claim.measured.date.isoformat() == "2026-11-22"
    assert lines["claims", 0, "verdict"] == 8


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("prove, undelete", "prove, undelet", "f.yaml:7: commands: prove: unknown scenario 'undelet' (did you mean undelete?)"),
        ("prove, undelete", "run, undelete", "f.yaml:7: commands: run: unknown workload 'undelete'"),
        ("prove, undelete", "run, quik", "f.yaml:7: commands: run: unknown workload 'quik' (did you mean quick?)"),
        ("prove, undelete", "sweep, no-such-experiment", "f.yaml:7: commands: sweep: unknown experiment 'no-such-experiment'"),
        ("prove, undelete", "shake, undelete", "f.yaml:7: commands: unknown command 'shake'"),
        ("prove, undelete", "prove, undelete, nowhere", "f.yaml:7: commands: prove: unknown scenario 'nowhere'"),
        (
            '[prove, undelete, --times, "3"]',
            "{words: [run, nowhere], exit: 1}",
            "f.yaml:7: commands: run: unknown workload 'nowhere'",
        ),
        ('[prove, undelete, --times, "3"]', "{words: [matrix], exit: 3}", "f.yaml:7: exit: must be at most 2"),
        ('"3"]', "3]", "f.yaml:7: must be text, not 3"),
        ("holds in part", "hold", "f.yaml:8: verdict:"),
        ("    outcome: 3 of 3\n", "", "f.yaml:8: verdict: claim 1 has a verdict, so it needs outcome:"),
        ("    why: they do not.\n", "", "f.yaml:8: verdict: claim 1 holds in part; say in why:"),
        ('    commands:\n      - [prove, undelete, --times, "3"]\n', "", "f.yaml:6: verdict: claim 1 has a verdict, so it needs commands:"),
        ("holds in part", "open", "f.yaml:8: verdict: claim 1 is open, so it has neither outcome: nor measured:"),
        ("section: Rows", "section: Rows\n    also: {other: Rows}", "f.yaml:6: also: unknown document 'other' (did you mean another?)"),
        ("section: Rows", "sektion: Rows", "f.yaml:5: unknown key 'sektion' (did you mean section?)"),
        ("2026-11-22", "soon", "f.yaml:10: date: "),
        ("https://example.org/post", "/tmp/post.txt", "f.yaml:1: link: "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(FileError) as refused:
        claims.parse(GOOD.replace(old, new), "f.yaml", wrong, ["another"])
    assert says in str(refused.value), refused.value


def test_a_command_that_means_nothing_is_said_beside_other_errors() -> None:
    text = GOOD.replace("prove, undelete", "prove, undelet").replace("holds in part", "perhaps")
    with pytest.raises(FileError) as refused:
        claims.parse(text, "f.yaml", wrong)
    assert [line.split(": ")[0] for line in str(refused.value).splitlines()] == ["f.yaml:7", "f.yaml:8"]


def test_an_experiment_of_the_library_can_be_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "backoff.yaml").touch()
    monkeypatch.setattr(schema, "LIBRARY", tmp_path)
    text = GOOD.replace("[prove, undelete", "[sweep, backoff")
    assert claims.parse(text, "f.yaml", wrong)[0].claims[0].commands[0].words[:2] == ("sweep", "backoff")


def test_two_claims_with_one_number_are_refused_and_all_files_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text("# a comment\n" + GOOD)
    (tmp_path / "c.yaml").write_text(GOOD.replace("number: 1", "number: 0"))
    with pytest.raises(FileError) as refused:
        claims.load(folder=tmp_path)
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"{tmp_path}/b.yaml:4: number: claim 1 is in {tmp_path}/a.yaml:3, too")
    assert second.startswith(f"{tmp_path}/c.yaml:3: number:")


@pytest.fixture(scope="module")
def every() -> tuple[Claim, ...]:
    return claims.load().all


def test_every_claim_is_there_once(every: tuple[Claim, ...]) -> None:
    assert [c.number for c in every] == list(range(1, 94))


def test_no_claim_waits_for_a_format_that_is_not_run(every: tuple[Claim, ...]) -> None:
    assert not [c.number for c in every if c.verdict == "later"]


def test_the_counts_are_those_of_the_claims(every: tuple[Claim, ...]) -> None:
    found = claims.counts(every)
    assert list(found) == list(VERDICTS) and sum(found.values()) == len(every)
    assert found["open"] == sum(c.verdict == "open" for c in every)


def test_no_claim_names_a_place_of_one_machine(every: tuple[Claim, ...]) -> None:
    for c in every:
        text = " ".join((c.claim, c.outcome, c.why, c.looked_up, *(w for command in c.commands for w in command.words)))
        assert not re.search(r"(?<![\w./])/(?:tmp|home|work|root)\b", text), c.number
