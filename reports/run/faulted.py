"""Faults in plain words: what one did to a request, and what its name means."""

from __future__ import annotations

import re

from checkers.costs import figures
from checkers.evidence.change_requests import ChangeRequest
from checkers.evidence.proxylog import ACCEPTED
from nemesis.faults.registry import VERBS
from nemesis.faults.verb import Verb
from reports.drawing import words
from reports.drawing.page import tag

_INSTEAD = re.compile(r"(?P<said>.*), told (?P<told>.*?)(?: \(nemesis\))?")
_NOT_TOLD = re.compile(r"(?P<said>.*) \(nemesis: not told\)")
_MADE_UP = re.compile(r"(?P<told>.*) \(nemesis\)")


_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
_MOVED = re.compile(r"UPDATE (\d+)")


def _pointer(said: str) -> str:
    """The answer of a catalog's database in words: ``UPDATE 1`` moved the pointer."""

    def in_words(found: re.Match[str]) -> str:
        rows = int(found[1])
        return f"its database changed {words.plural(rows, 'row')}: the pointer was {'moved' if rows else 'not moved'}"

    return _MOVED.sub(in_words, said)


def reply(r: ChangeRequest) -> str:
    """What a service answered, and what of that the writer was told."""
    return _pointer(_reply(r))


def _reply(r: ChangeRequest) -> str:
    if (found := _NOT_TOLD.fullmatch(r.status)) is not None:
        return f"{found['said']}, which the writer was not told"
    if (found := _INSTEAD.fullmatch(r.status)) is not None:
        return f"{found['said']}, and the writer was told {_told(found['told'], _MOVED.fullmatch(found['said']) is not None)}"
    if (found := _MADE_UP.fullmatch(r.status)) is not None:
        return f"none; the writer was told {_told(found['told'])}"
    return r.status


def _told(code: str, by_database: bool = False) -> str:
    """The error that a writer got. Logs of an earlier release have a fault's status of HTTP, which no client of PostgreSQL gets."""
    if _SQLSTATE.fullmatch(code):
        return f"an error (SQLSTATE {code})"
    return "an error" if by_database else "an exception" if code == "exception" else code


def _as_told(fault: str, status: str) -> str:
    """A fault's name with the error that its writer got: PostgreSQL's clients get a SQLSTATE, and no status of HTTP."""
    found = _INSTEAD.fullmatch(status) or _MADE_UP.fullmatch(status)
    if found is None or not _SQLSTATE.fullmatch(found["told"]):
        return fault
    return re.sub(r"^(\S+) \d{3}\b", rf"\1 SQLSTATE {found['told']}", fault)


def happened(r: ChangeRequest) -> str:
    """``a fault at 63.435 s (cut of commit): the catalog carried out the commit of w2-30 (200), which the writer was not told``."""
    faults = words.shorten(", ".join(_as_told(f, r.status) for f in r.faults), 100)
    asked = f"the {r.kind} of {words.shorten(r.op, 40)}"
    service = words.shorten(r.service, 20)
    said = words.shorten(reply(r), 120)
    begun = f"a fault at {words.moment(figures.ms(r.time))} ({faults}): the {service}"
    if ACCEPTED.fullmatch(r.status) is None:
        return f"{begun}'s answer to {asked} was {said}"
    answer, _, told = said.partition(", ")
    return f"{begun} carried out {asked} ({answer})" + (f", {told}" if told else "")


def verb(name: str) -> Verb | None:
    """The verb of a fault of this name; None if it has no known one."""
    found = max((v for v in VERBS if re.match(rf"{re.escape(v)}(?![a-z])", name)), key=len, default=None)
    return None if found is None else VERBS[found]


def named(name: str) -> str:
    """A fault's name; who points at it reads what it does."""
    known, said = verb(name), words.shorten(name, 80)
    if known is None:
        return said
    like = f"; in production: {known.production}" if known.production else ""
    return tag("span", said, "term", title=f"fault {known.name}: {known.summary}{like}".replace("`", ""))
