"""Problems in a table's files, unreadable or contradictory: a code for checkers, a sentence for people."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

Code = Literal[
    "missing-file",
    "corrupt-file",
    "missing-metadata",
    "corrupt-metadata",
    "unreadable-manifest",
    "parent",
    "outside-chain",
    "fork",
    "metadata-log",
    "snapshot-changed",
    "written-over",
    "torn",
    "other",
]
"""What it is.

======================== ===============================================================================================
missing-file             a manifest list, manifest, data or delete file is not in the store
corrupt-file             such a file cannot be decoded
missing-metadata         a metadata.json is not in the store
corrupt-metadata         a metadata.json cannot be decoded
unreadable-manifest      what is unknown because another snapshot's manifest cannot be read
parent                   a snapshot's parent was never seen, or could not be read
outside-chain            a snapshot is in no version of the metadata chain
fork                     a version does not descend from the version before it
metadata-log             a version names another predecessor than the chain
snapshot-changed         a version describes a snapshot differently than an earlier version
written-over             a metadata.json has another content than when it was read first
torn                     the last line of the table log is torn
other                    anything else; older versions of icequake wrote only sentences
======================== ===============================================================================================
"""
METADATA: frozenset[Code] = frozenset({"missing-metadata", "corrupt-metadata"})
FILE_PROBLEMS: frozenset[Code] = frozenset({"missing-file", "corrupt-file"})


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, tag_field="type", tag="problem"):
    """One problem.

    Attributes:
        code: kind of problem.
        why: a full description for people, without full stop.
        file: the affected file, relative to the table's location if below it; None if there is none.
        snapshot: the affected snapshot: the file's maker, the parent, or the one that was described differently.
        kind: kind of file: ``manifest list``, ``manifest``, ``data file``, ``deletion vector``, …
        cause: why the file cannot be decoded.
    """

    code: Code
    why: str
    file: str | None = None
    snapshot: int | None = None
    kind: str = ""
    cause: str = ""

    def to_json(self) -> dict[str, Any]:
        """The problem as JSON, without empty fields."""
        return {k: v for k, v in msgspec.structs.asdict(self).items() if v not in (None, "")}


def upgraded(record: dict[str, Any]) -> dict[str, Any]:
    """A record of a table log of format 1, whose problems are sentences, as the record that format 2 has."""
    if isinstance(text := record.get("text"), str):
        return {"type": record["type"], **problem_of(text).to_json()}
    if not isinstance(problems := record.get("problems"), list):
        return record
    return {**record, "problems": [problem_of(p).to_json() if isinstance(p, str) else p for p in problems]}


_FILE = re.compile(
    r"(?P<kind>manifest list|manifest|data file|equality delete file|position delete file|deletion vector)"
    r"(?: \(of snapshot (?P<snapshot>-?\d+|None)\))? (?P<file>.+?) is (?P<what>missing|corrupt)(?:: (?P<cause>.*))?$"
)
_METADATA = re.compile(r"metadata file (?P<file>.+?) is (?P<what>missing|corrupt)(?:: (?P<cause>[^;]*))?")
_SNAPSHOT = re.compile(r"(?:tells snapshot|its parent) (-?\d+)")


def problem_of(sentence: str) -> Problem:
    """The problem that a sentence of a table log of format 1 describes; an unknown sentence gets the code ``other``."""
    if "does not descend from it" in sentence:
        return Problem("fork", sentence)
    if found := _METADATA.search(sentence):
        code: Code = "missing-metadata" if found["what"] == "missing" else "corrupt-metadata"
        return Problem(code, sentence, found["file"], cause=found["cause"] or "")
    if sentence.startswith("its metadata-log says"):
        return Problem("metadata-log", sentence)
    if "is in no version of the metadata chain" in sentence:
        return Problem("outside-chain", sentence)
    if found := _FILE.match(sentence.rpartition("; needed by ")[0] or sentence):
        code = "missing-file" if found["what"] == "missing" else "corrupt-file"
        snapshot = None if found["snapshot"] in (None, "None") else int(found["snapshot"])
        return Problem(code, sentence, found["file"], snapshot, found["kind"], found["cause"] or "")
    if found := _SNAPSHOT.match(sentence):
        return Problem(
            "parent" if sentence.startswith("its parent") else "snapshot-changed", sentence, None, int(found[1])
        )
    if "was written over" in sentence:
        return Problem("written-over", sentence)
    return Problem("unreadable-manifest" if "manifest" in sentence else "other", sentence)
