"""``icequake certify``: all requirements, asked of some servers; a line for each as soon as it is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from checkers.evidence import journal
from checkers.evidence.journal import Form, Journal
from harness import __version__
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.certify.kit import ROUNDS, Kit, Server, SetUpError
from harness.certify.requirement import Conclusion, Effect, Exchange, Judgement, Level, NotApplicable, Requirement
from harness.run.settings import Watcher

JOURNAL = "requirements.jsonl"
WORST = tuple(Conclusion)
"""The worst first: what one of several tries said counts."""
MOST_WIRE = 4
"""Exchanges that are kept of a requirement: the two rivals of a race, and what the table looked like before and after."""


class CertifyError(ValueError):
    """A certificate cannot be made or read; one line with a remedy."""


@dataclass(frozen=True)
class Answer:
    """What came of one requirement on one catalog.

    Attributes:
        tries: how often it was asked; ``like_this``: how many of these said what ``conclusion`` says.
        expected, actual: of the try that decided; ``why``: of n/a and error.
        wire: the exchanges that show it, as JSON values.
        seconds: it took.
    """

    catalog: str
    id: str
    level: Level
    effect: Effect
    conclusion: Conclusion
    tries: int
    like_this: int
    expected: str = ""
    actual: str = ""
    why: str = ""
    wire: Sequence[Exchange] = ()
    seconds: float = 0.0

    @property
    def grave(self) -> bool:
        """Whether a catalog that answers so is no certified one: a MUST is broken, or data is lost."""
        return self.conclusion is Conclusion.FAIL and (self.level is Level.MUST or self.effect is Effect.LOSS)


FORM: Form[Answer] = Form(
    "a certificate", "an answer", decode=journal.as_type(Answer), encode=asdict, error=CertifyError
)


@dataclass
class Certify:
    """Asks requirements of servers, into a folder; what it has is not asked again.

    Args:
        servers: catalog → its server.
        repeat: how often each is asked; None: as each says.
        said: hears each answer.
    """

    servers: dict[str, Server]
    asked: Sequence[Requirement]
    into: Path
    watcher: Watcher
    repeat: int | None = None
    rounds: int = ROUNDS
    said: Callable[[Answer], object] = lambda _: None
    answers: list[Answer] = field(default_factory=list)

    def go(self) -> Sequence[Answer]:
        """Ask.

        Raises:
            CertifyError: the folder has another certificate, or cannot be written.
            KeyboardInterrupt: the user stopped it; the answers so far are there.
        """
        header = {
            "servers": {name: server.uri for name, server in self.servers.items()},
            "repeat": self.repeat,
            "rounds": self.rounds,
        }
        with Journal(self.into / JOURNAL, FORM, header, also={"icequake": __version__}) as lines:
            self.answers = lines.lines
            known = {(a.catalog, a.id) for a in lines.lines if a.conclusion is not Conclusion.ERROR}
            Campaign(
                [(name, r) for name in self.servers for r in self.asked],
                lines,
                None,
                self._ask,
                lambda job, attempt, why: [self._could_not(*job, attempt, why)],
                self.watcher,
                name=lambda job: f"{job[0]} {job[1].id}",
                made=lambda job: (job[0], job[1].id) in known,
                unit="requirements",
                finished=lambda answers: [self.said(a) for a in answers],
            ).go()
        return self.latest()

    def latest(self) -> Sequence[Answer]:
        """The last answer of each requirement that is asked, in their order."""
        by = {(a.catalog, a.id): a for a in self.answers}
        return [by[key] for name in self.servers for r in self.asked if (key := (name, r.id)) in by]

    def _ask(self, job: tuple[str, Requirement], attempt: JobAttempt) -> Done[Answer] | CouldNotRun:
        name, requirement = job
        tries = self.repeat or requirement.tries
        found = []
        for n in range(tries):
            attempt.watcher.say(f"try {n + 1} of {tries}")
            try:
                found.append(asked_once(requirement, self.servers[name], self.rounds))
            except NotApplicable as e:
                given = (requirement.level, requirement.effect, Conclusion.NOT_APPLICABLE)
                return Done([Answer(name, requirement.id, *given, n + 1, n + 1, why=e.why, seconds=attempt.seconds)])
            except SetUpError as e:
                return CouldNotRun(str(e))
        return Done([concluded(name, requirement, found, attempt.seconds)])

    def _could_not(self, name: str, requirement: Requirement, attempt: JobAttempt, why: str) -> Answer:
        given = (requirement.level, requirement.effect, Conclusion.ERROR)
        return Answer(name, requirement.id, *given, 1, 1, why=why, seconds=attempt.seconds)


def asked_once(requirement: Requirement, server: Server, rounds: int = ROUNDS) -> Judgement:
    """One try of a requirement.

    Raises:
        NotApplicable: the server has not what it is about.
        SetUpError: what it needs could not be made.
    """
    with Kit(server, requirement.id, rounds=rounds) as kit:
        for endpoint in requirement.endpoints:
            kit.applies(endpoint)
        requirement.ask(kit)
        silent = [e for e in kit.seen.exchanges if not e.status]
        if silent and len(silent) == len(kit.seen.exchanges):
            raise SetUpError(silent[0].said())
        return requirement.judge(kit.seen)


def concluded(name: str, requirement: Requirement, found: Sequence[Judgement], seconds: float = 0.0) -> Answer:
    """What several tries come to: the worst of them."""
    worst = min(found, key=lambda j: WORST.index(j.conclusion))
    return Answer(
        name,
        requirement.id,
        requirement.level,
        requirement.effect,
        worst.conclusion,
        len(found),
        sum(j.conclusion is worst.conclusion for j in found),
        worst.expected,
        worst.actual,
        wire=worst.wire[:MOST_WIRE],
        seconds=seconds,
    )
