"""The files of claims: what a public document says of concurrent writers, the commands that measure it, and what came out.

``workloads/claims`` has one file for each document. ``docs/claims.md`` is written from them, and ``icequake claims`` reads them. A command is a
list of words as they are typed after ``icequake``: the command, then the scenarios, workloads or experiments that it runs, then its options.
Which commands and options there are is known to ``harness.cli``, which hands in the function that refuses the others.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from workloads.file import workload as schema
from workloads.file.meant import unknown
from workloads.file.yamlfile import FileError, Lines, Problem, entries, line_of, read_text, refuse, validated

LIBRARY = schema.LIBRARY / "claims"
"""The folder of the files of claims."""

Verdict = Literal["holds", "holds in part", "does not hold", "open", "later"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
UNMEASURED: tuple[Verdict, ...] = ("open", "later")
"""Verdicts of claims of which nothing was measured that decides them."""

Text = Annotated[str, Field(min_length=1)]
WrongCommand = Callable[[Sequence[str]], str | None]
"""Says what is wrong with the words of a command; None if it can be typed."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Document(_Model):
    """The public document of a file.

    Attributes:
        title: as its head says.
        by: who published it.
        link: where it can be read.
    """

    title: Text
    by: Text
    link: Annotated[str, Field(pattern=r"^https://\S+$")]


class ClaimCommand(_Model):
    """A command that measures a claim.

    Attributes:
        words: what is typed after ``icequake``.
        exit: the exit code that came out: 1 where the claim is that an anomaly is found.
    """

    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    exit: Annotated[int, Field(ge=0, le=2)] = 0


def _command(value: object) -> object:
    return {"words": value} if isinstance(value, list) else value


class Measurement(_Model):
    """When a claim was measured, and with which versions."""

    date: datetime.date
    versions: Text


class Claim(_Model):
    """One claim.

    Attributes:
        number: from 1; it stays when claims are added.
        claim: what the document says, in one line of our words.
        section: the section of the document.
        also: other documents that say the same, by the names of their files → their section.
        commands: each measures it; the first one suffices.
        looked_up: what was read in place of a measurement, where no command can decide.
        outcome: what came out, with numbers and their spread.
        why: why it does not hold, or holds in part, from the code; what is missing, if it is open.
        see: files of ``docs``, with a heading if one is meant.
    """

    number: Annotated[int, Field(ge=1)]
    claim: Annotated[str, Field(min_length=1, max_length=200)]
    section: Text
    also: dict[str, str] = {}
    commands: tuple[Annotated[ClaimCommand, BeforeValidator(_command)], ...] = ()
    looked_up: str = ""
    verdict: Verdict
    outcome: str = ""
    measured: Measurement | None = None
    why: str = ""
    see: tuple[Annotated[str, Field(pattern=r"^[\w/.-]+\.(md|py)(#[\w-]+)?$")], ...] = ()


class ClaimsFile(_Model):
    """A whole file of claims."""

    document: Document
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Claims:
    """All claims.

    Attributes:
        documents: name of the file, without ``.yaml`` → its document, in the order of their first claims.
        by_document: name of the file → its claims, by number.
    """

    documents: dict[str, Document]
    by_document: dict[str, tuple[Claim, ...]]

    @property
    def all(self) -> tuple[Claim, ...]:
        """Every claim, by number."""
        return tuple(sorted((c for claims in self.by_document.values() for c in claims), key=lambda c: c.number))

    def sources(self, claim: Claim) -> list[tuple[Document, str]]:
        """The documents that make a claim, and the section of each; its own document first."""
        own = next(name for name, claims in self.by_document.items() if claim in claims)
        return [(self.documents[name], section) for name, section in ({own: claim.section} | claim.also).items()]


def counts(claims: Iterable[Claim]) -> dict[Verdict, int]:
    """How many claims have each verdict."""
    given = [c.verdict for c in claims]
    return {verdict: given.count(verdict) for verdict in VERDICTS}


NAMES_OF_COMMAND: dict[str, tuple[str, str]] = {
    "prove": ("scenario", "scenarios"),
    "run": ("workload", ""),
    "compare": ("workload", ""),
    "sweep": ("experiment", "experiments"),
}
"""A command that names files of the library → what they are, and their folder in it."""


def _library(folder: str) -> list[str]:
    return sorted(p.stem for p in (schema.LIBRARY / folder).glob("*.yaml"))


def _wrong(words: object, wrong_command: WrongCommand) -> Iterator[str]:
    """What is wrong with the words of a command."""
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) for w in words):
        return
    if message := wrong_command(words):
        yield f"commands: {message}"
        return
    if words[0] not in NAMES_OF_COMMAND:
        return
    what, folder = NAMES_OF_COMMAND[words[0]]
    for word in words[1:]:
        if word.startswith("-"):
            return
        if word not in (names := _library(folder)):
            yield f"commands: {words[0]}: {unknown(what, word, names)}"


def names_in(data: Any, wrong_command: WrongCommand, documents: Sequence[str]) -> Iterator[Problem]:
    """Commands and documents in the plain data of a file that mean nothing, whatever else is wrong with it."""
    for key, command in entries(data, "claims", "*", "commands", "*"):
        inner = (*key, "words") if isinstance(command, dict) and "words" in command else key
        words = command.get("words") if isinstance(command, dict) else command
        yield from ((inner, message) for message in _wrong(words, wrong_command))
    for key, also in entries(data, "claims", "*", "also"):
        for name in also if isinstance(also, dict) else ():
            if name not in documents:
                yield (*key, name), f"also: {unknown('document', name, documents)}"


def _problems(file: ClaimsFile) -> Iterator[Problem]:
    """Claims whose verdict lacks what it stands on."""
    for i, c in enumerate(file.claims):
        place = ("claims", i, "verdict")
        if c.verdict in UNMEASURED:
            if not c.why:
                yield place, f"verdict: claim {c.number} is {c.verdict}; say in why: what is missing"
            if c.measured or c.outcome:
                yield place, f"verdict: claim {c.number} is {c.verdict}, so it has neither outcome: nor measured:"
            continue
        for key, given in (("outcome", c.outcome), ("measured", c.measured)):
            if not given:
                yield place, f"verdict: claim {c.number} has a verdict, so it needs {key}:"
        if not c.commands and not c.looked_up:
            yield (
                place,
                f"verdict: claim {c.number} has a verdict, so it needs commands:, or looked_up: if none can decide",
            )
        if c.verdict != "holds" and not c.why:
            yield place, f"verdict: claim {c.number} {c.verdict}; say in why: for what reason, from the code"


def parse(
    text: str, file: str = "<claims>", wrong_command: WrongCommand = lambda words: None, documents: Sequence[str] = ()
) -> tuple[ClaimsFile, Lines]:
    """Parse the text of a file of claims; also the line of each key.

    Args:
        documents: names that ``also`` may have.

    Raises:
        FileError: every problem, each with file, line and key.
    """

    def look_up(data: Any) -> Iterable[Problem]:
        return names_in(data, wrong_command, documents)

    found, lines = validated(ClaimsFile, text, file, example=f"{LIBRARY}/consistency-part-2.yaml", look_up=look_up)
    refuse([*_problems(found), *look_up(found.model_dump(mode="json"))], lines, file)
    return found, lines


def load(wrong_command: WrongCommand = lambda words: None, folder: Path | None = None) -> Claims:
    """Read all files of claims in a folder; of the library by default.

    Raises:
        FileError: a file cannot be read or has problems, or two claims have one number.
    """
    paths = sorted((folder or LIBRARY).glob("*.yaml"))
    files, seen, wrong = {}, dict[int, str](), []
    for path in paths:
        try:
            others = [p.stem for p in paths if p != path]
            found, lines = parse(read_text(path), str(path), wrong_command, others)
        except FileError as e:
            wrong.append(str(e))
            continue
        for i, claim in enumerate(found.claims):
            here = f"{path}:{line_of(('claims', i, 'number'), lines)}"
            if claim.number in seen:
                wrong.append(
                    f"{here}: number: claim {claim.number} is in {seen[claim.number]}, too; give it another one"
                )
            seen[claim.number] = here
        files[path.stem] = found
    if wrong:
        raise FileError("\n".join(wrong))
    ordered = sorted(files.items(), key=lambda f: min(c.number for c in f[1].claims))
    return Claims(
        {name: f.document for name, f in ordered},
        {name: tuple(sorted(f.claims, key=lambda c: c.number)) for name, f in ordered},
    )
