"""A certificate of catalogs: what was asked of each, what it answered, and what that comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from nemesis.wires.errorpage import readable


class Level(StrEnum):
    """Where a requirement comes from."""

    MUST = "must"
    """The specification says so; ``source`` has its line."""
    SHOULD = "should"
    """The specification recommends it: not doing so is ``soft``."""
    CLIENTS = "clients"
    """Iceberg's clients rely on it; ``source`` has the class."""
    PROMISE = "promise"
    """What a catalog is for."""
    INFO = "info"
    """Nobody requires it; a user wants to know it."""


class Severity(StrEnum):
    """What it costs if a requirement does not hold, the worst first."""

    LOSS = "loses data"
    BREAKS = "breaks writers"
    CONFUSES = "confuses"


class Conclusion(StrEnum):
    """What a requirement comes to, the worst first."""

    FAIL = "fail"
    ERROR = "error"
    """It could not be asked, which is never a pass."""
    SOFT = "soft"
    """What is only recommended does not hold; the server conforms."""
    INFO = "info"
    PASS = "pass"
    NOT_APPLICABLE = "n/a"


class Absent(StrEnum):
    """Why a requirement does not apply. There is no other reason."""

    UNDECLARED = "the server does not declare it"
    UNSERVED = "the server does not serve it"
    NO_OPERATION = "this kind of catalog has no such operation"
    NO_SERVER = "it is asked of a REST server, and the catalog has none"
    NO_KEYS = "the server does not advertise idempotency keys"
    NO_ETAG = "the server sends no ETag"
    NO_PAGES = "the server does not split its lists into pages"
    NO_CREDENTIALS = "the server gives no credentials for its store"
    NO_LOGIN = "no credentials were given for the server"
    NOT_OURS = "icequake does not run the server"
    NO_DATABASE = "icequake cannot hold the server's commits before its database"


@dataclass(frozen=True)
class Exchange:
    """One request and its answer.

    Attributes:
        label: what this request is for, by which ``judge`` finds it.
        status: of HTTP; 0: no answer, and ``text`` says why.
        headers: of the answer, with small names.
        body: the JSON value of the answer; None if it is empty or no JSON.
        asked: headers of the request; what may be a secret is hidden.
    """

    label: str
    method: str
    path: str
    sent: Any
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    text: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it was acknowledged."""
        return 200 <= self.status < 300

    @property
    def refused(self) -> bool:
        """Whether a client may conclude that nothing was done."""
        return 400 <= self.status < 500

    @property
    def metadata(self) -> dict[str, Any]:
        """The table's metadata in the answer; empty if it has none."""
        found = self.body.get("metadata") if isinstance(self.body, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def error_type(self) -> str:
        """The type in the answer's error model; empty if it has none."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("type", "")) if isinstance(error, dict) else ""

    def words(self, most: int = 300) -> str:
        """The answer in one line: ``409 CommitFailedException: …``."""
        if not self.status:
            return f"no answer: {self.text[:most]}"
        error = self.body.get("error") if isinstance(self.body, dict) else None
        if isinstance(error, dict):
            return f"{self.status} {error.get('type', '')}: {str(error.get('message', ''))[:most]}"
        return f"{self.status} {'' if self.ok else readable(self.text)[:most]}".strip()

    def to_json(self) -> dict[str, Any]:
        """Its values as they are stored."""
        return asdict(self) | {"headers": dict(self.headers), "asked": dict(self.asked)}


@dataclass(frozen=True)
class Question:
    """What a requirement says.

    Attributes:
        id: its name, in words with hyphens.
        group: the head that it stands under.
        sentence: what must hold.
        source: where that is said: a line of Iceberg's rest-catalog-open-api.yaml at 7f879b1, or a class of its Java client.
        effect: what it costs if it does not.
        asked: how it is asked once, for who has to see it again: which requests, which fault, how often.
        to_do: what to do in a server that does not keep it. Both are empty in certificates of before.
    """

    id: str
    group: str
    sentence: str
    level: Level
    source: str
    effect: Severity
    asked: str = ""
    to_do: str = ""


@dataclass(frozen=True)
class RequirementResult:
    """What came of one requirement on one catalog.

    Attributes:
        tries: how often it was asked; ``alike``: how many of these came to ``conclusion``.
        expected, actual: of the try that decided; ``why``: of n/a and error.
        wire: the exchanges that show it.
        seconds: it took.
    """

    catalog: str
    id: str
    level: Level
    effect: Severity
    conclusion: Conclusion
    tries: int
    alike: int
    expected: str = ""
    actual: str = ""
    why: str = ""
    wire: Sequence[Exchange] = ()
    seconds: float = 0.0

    @property
    def grave(self) -> bool:
        """Whether a catalog that answers so is no certified one: a MUST is broken, or data is lost."""
        return self.conclusion is Conclusion.FAIL and (self.level is Level.MUST or self.effect is Severity.LOSS)


@dataclass(frozen=True)
class Certificate:
    """All answers of some catalogs.

    Attributes:
        servers: catalog → its address.
        questions: all that can be asked, in their order, also those that were not.
        answers: the last one of each requirement that was asked.
        made: when, ISO format; ``icequake``: the release that asked.
        command: makes it again.
        software: catalog → what its file's ``summary:`` says it is; others have none.
    """

    servers: Mapping[str, str]
    questions: Sequence[Question]
    answers: Sequence[RequirementResult]
    made: str
    icequake: str
    command: str
    software: Mapping[str, str] = field(default_factory=dict)

    def called(self, catalog: str) -> str:
        """``my (Lakekeeper 0.13)``: a catalog with what it is."""
        software = self.software.get(catalog)
        return f"{catalog} ({software})" if software else catalog

    def of(self, catalog: str) -> dict[str, RequirementResult]:
        """Requirement → what came of it on a catalog."""
        return {a.id: a for a in self.answers if a.catalog == catalog}

    @property
    def exit_code(self) -> int:
        """1: a MUST is broken or data is lost; 2: something could not be asked; else 0."""
        return max(map(self.code_of, self.servers), key=(0, 2, 1).index, default=0)

    def code_of(self, catalog: str) -> int:
        """The exit code that a catalog alone would have."""
        results = self.of(catalog).values()
        if any(a.grave for a in results):
            return 1
        return 2 if any(a.conclusion is Conclusion.ERROR for a in results) else 0

    def partial(self, catalog: str) -> bool:
        """Whether somebody chose what is asked of a catalog, or it is not over."""
        return len(self.of(catalog)) < len(self.questions)

    def asked(self, catalog: str) -> str:
        """``13 of 60 asked``: neither what does not apply to a catalog nor what could not be asked is."""
        return f"{len(self._asked(catalog))} of {len(self.questions)} asked"

    def _asked(self, catalog: str) -> list[RequirementResult]:
        never = (Conclusion.NOT_APPLICABLE, Conclusion.ERROR)
        return [a for a in self.of(catalog).values() if a.conclusion not in never]

    def headline(self, catalog: str) -> str:
        """The worst effect, how much was asked, then the counts by level; what does not apply is always among them."""
        results, asked = list(self.of(catalog).values()), self._asked(catalog)
        failed = [a for a in asked if a.conclusion is Conclusion.FAIL]
        worst = [e for e in Severity if any(a.effect is e for a in failed)]
        unasked = sum(a.conclusion is Conclusion.ERROR for a in results)
        text = f"none of {len(asked)} requirements fails" if asked else "no requirement was asked"
        if worst:
            text = f"{len(failed)} of {len(asked)} requirements {_fail(worst[0], failed)}"
        if unasked:
            text = f"{unasked} of {len(results)} requirements could not be asked; {text}"
        return f"{text}; {self.asked(catalog)}; {self.counts(catalog)}"

    def counts(self, catalog: str) -> str:
        """``21/25 must · 3/3 should · … · 4 n/a``: those that hold, of those that were decided; never a percentage."""
        results = list(self.of(catalog).values())
        decided = [a for a in results if a.conclusion in (Conclusion.PASS, Conclusion.SOFT, Conclusion.FAIL)]
        parts = []
        for level in (Level.MUST, Level.SHOULD, Level.CLIENTS, Level.PROMISE):
            if decided_here := [a for a in decided if a.level is level]:
                held = sum(a.conclusion is Conclusion.PASS for a in decided_here)
                parts.append(f"{held}/{len(decided_here)} {level}")
        rest = Counter(a.conclusion for a in results)
        parts += [f"{rest[c]} {c}" for c in (Conclusion.ERROR, Conclusion.INFO) if rest[c]]
        return " · ".join([*parts, f"{rest[Conclusion.NOT_APPLICABLE]} n/a"])

    def to_json(self) -> dict[str, Any]:
        """Its values as they are stored, in the form that docs/certify.md describes."""
        said = {
            "asked": {c: self.asked(c) for c in self.servers},
            "headlines": {c: self.headline(c) for c in self.servers},
        }
        return {"format": FORMAT, **asdict(self), **said}


def _fail(worst: Severity, failed: Sequence[RequirementResult]) -> str:
    """``fail, 4 of them lose data``: not each failure does the worst."""
    count = sum(a.effect is worst for a in failed)
    if len(failed) == 1:
        return f"fails and {worst}"
    verb, _, object_ = worst.partition(" ")
    many = f"{verb[:-1]} {object_}".strip()
    return (
        f"fail, all of them {many}"
        if count == len(failed)
        else f"fail, {count} of them {worst if count == 1 else many}"
    )


FORMAT = 1


def compared(file: str, before: Certificate, now: Certificate) -> list[str]:
    """What another certificate of the same catalogs says otherwise: how much is compared, then each change in a line, what got worse first."""
    found: dict[str, list[str]] = {"worse": [], "better": [], "changed": []}
    both = gone = more = 0
    for catalog in now.servers:
        old = before.of(catalog) or (before.of(next(iter(before.servers))) if len(before.servers) == 1 else {})
        answers = now.of(catalog)
        pairs = [(old[id], answer) for id, answer in answers.items() if id in old]
        both, gone, more = both + len(pairs), gone + len(old.keys() - answers), more + len(answers.keys() - old)
        for was, answer in pairs:
            if (kind := _change(was, answer)) is not None:
                left = _state(was) if was.conclusion is answer.conclusion else was.conclusion
                found[kind].append(f"{catalog} {answer.id}: {left} → {_state(answer)}")
    software = "".join(f"{x}, " for x in before.software.values())
    counts = [f"{both} compared, {sum(map(len, found.values())) or 'none'} changed"]
    counts += [f"{n} not asked {where}" for n, where in ((gone, "here"), (more, "there")) if n]
    wide = max((len(kind) for kind, lines in found.items() if lines), default=0)
    changes = [f"{kind:<{wide}}  {line}" for kind, lines in found.items() for line in lines]
    return [f"against {file} ({software}made {before.made}): {'; '.join(counts)}", *changes]


def _state(a: RequirementResult) -> str:
    return f"{a.conclusion} ({a.effect})" if a.conclusion is Conclusion.FAIL else a.conclusion


def _change(was: RequirementResult, now: RequirementResult) -> str | None:
    """What became of an answer; None: nothing."""
    before, after = map(_badness, (was, now))
    if after > before:
        return "worse"
    if after < before and now.conclusion not in (Conclusion.NOT_APPLICABLE, Conclusion.ERROR):
        return "better"
    return None if was.conclusion is now.conclusion else "changed"


def _badness(a: RequirementResult) -> int:
    """0: nothing is known against the catalog."""
    if a.conclusion is Conclusion.FAIL:
        return 1 + len(Severity) - list(Severity).index(a.effect)
    return int(a.conclusion is Conclusion.SOFT)
