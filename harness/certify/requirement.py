"""What is asked of a catalog: a requirement, what was seen when it was asked, and what that means.

A requirement has two halves. ``ask`` talks to the server and judges nothing; ``judge`` is a pure function of what was seen. So a stored
certificate can be judged again, and a test can plant an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.certify.kit import Kit


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


class Effect(StrEnum):
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
    NO_KEYS = "the server does not advertise idempotency keys"
    NO_ETAG = "the server sends no ETag"
    NO_PAGES = "the server does not split its lists into pages"


class NotApplicable(Exception):
    """The server has not what a requirement is about."""

    def __init__(self, why: Absent) -> None:
        super().__init__(why.value)
        self.why = why


@dataclass(frozen=True)
class Exchange:
    """One request and its answer.

    Attributes:
        label: what this request is for, by which ``judge`` finds it.
        status: of HTTP; 0: no answer, and ``text`` says why.
        headers: of the answer, with small names.
        body: the JSON value of the answer; None if it is empty or no JSON.
    """

    label: str
    method: str
    path: str
    sent: Any
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    text: str = ""

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

    def said(self, most: int = 300) -> str:
        """The answer in one line: ``409 CommitFailedException: …``."""
        if not self.status:
            return f"no answer: {self.text[:most]}"
        error = self.body.get("error") if isinstance(self.body, dict) else None
        if isinstance(error, dict):
            return f"{self.status} {error.get('type', '')}: {str(error.get('message', ''))[:most]}"
        return f"{self.status} {'' if self.ok else self.text[:most]}".strip()

    def to_json(self) -> dict[str, Any]:
        """Its values as they are stored."""
        return asdict(self) | {"headers": dict(self.headers)}


class Seen:
    """All that was seen when a requirement was asked once: exchanges in the order of their answers, and notes."""

    def __init__(self, exchanges: Iterable[Exchange] = (), notes: Mapping[str, Any] | None = None) -> None:
        self.exchanges = list(exchanges)
        self.notes = dict(notes or {})

    def __getitem__(self, label: str) -> Exchange:
        found = self.all(label)
        if len(found) != 1:
            raise LookupError(f"{len(found)} exchanges are labelled {label}")
        return found[0]

    def all(self, label: str) -> list[Exchange]:
        """The exchanges of a label, or whose label begins with it and a colon."""
        return [e for e in self.exchanges if e.label == label or e.label.startswith(f"{label}:")]


@dataclass(frozen=True)
class Judgement:
    """What was concluded.

    Attributes:
        expected, actual: of what decided it; both empty for a pass without anything to add.
        wire: the exchanges that show it.
    """

    conclusion: Conclusion
    expected: str = ""
    actual: str = ""
    wire: Sequence[Exchange] = ()


def passed(actual: str = "") -> Judgement:
    """It holds; ``actual``: how far that was looked at."""
    return Judgement(Conclusion.PASS, "", actual)


def failed(expected: str, actual: str, *wire: Exchange) -> Judgement:
    """It does not hold."""
    return Judgement(Conclusion.FAIL, expected, actual, wire)


def soft(expected: str, actual: str, *wire: Exchange) -> Judgement:
    """What is only recommended does not hold."""
    return Judgement(Conclusion.SOFT, expected, actual, wire)


def informed(actual: str, *wire: Exchange) -> Judgement:
    """Nobody requires it, but it is so."""
    return Judgement(Conclusion.INFO, "", actual, wire)


def first_failure(*found: Judgement | None) -> Judgement:
    """The first of these that is one, or a pass."""
    return next((j for j in found if j is not None), passed())


def expect(seen: Exchange, wanted: str, *statuses: int) -> Judgement | None:
    """None if the answer has one of these statuses (2 stands for 2xx); else the failure. ``wanted``: the sentence that holds then."""
    if seen.status in statuses or seen.status // 100 in statuses:
        return None
    codes = " or ".join(f"{s}xx" if s < 10 else str(s) for s in statuses)
    return failed(f"{codes}: {wanted}", f"{seen.method} {seen.path} ({seen.label}): {seen.said()}", seen)


@dataclass(frozen=True)
class Requirement:
    """What is asked of a catalog.

    Attributes:
        id: its name, in words with hyphens, which is that of its file.
        group: the head that it stands under; ``rank``: its place there.
        sentence: what must hold.
        source: where that is said: a line of Iceberg's rest-catalog-open-api.yaml at 7f879b1, or a class of its Java client.
        effect: what it costs if it does not.
        ask: does it once; what it sends is recorded.
        judge: says what was seen.
        endpoints: those that the server must serve, as it declares them.
        tries: how often it is asked; answers that differ are a failure.
    """

    id: str
    group: str
    sentence: str
    level: Level
    source: str
    effect: Effect
    ask: Callable[[Kit], None]
    judge: Callable[[Seen], Judgement]
    endpoints: tuple[str, ...] = ()
    tries: int = 3
