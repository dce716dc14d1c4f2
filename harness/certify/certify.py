"""``icequake certify``: all requirements, asked of some servers; a line for each as soon as it is decided."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from checkers.certificate import Absent, Certificate, Conclusion, RequirementResult, Severity
from checkers.evidence import journal
from checkers.evidence.journal import Journal, JournalFormat
from compose.catalogs import user_file
from compose.catalogs.user_file import UserCatalogFile
from compose.redaction import Redaction
from harness import __version__
from harness.campaign.campaign import Campaign, CouldNotRun, Done, JobAttempt
from harness.campaign.stacks import WarmStacks, secrets_of_files
from harness.certify.exchanges import Exchanges
from harness.certify.kit import NO_ANSWER, ROUNDS, Kit, ServerDescription, SetUpError
from harness.certify.requirement import Judgement, NotApplicable, Requirement
from harness.certify.requirements import requirements
from harness.certify.servers import serving
from harness.run.settings import Watcher
from workloads.file import filekinds

JOURNAL, LOGS, LEFT, STORED = "requirements.jsonl", "logs", "left.txt", "certify.json"
WORST = tuple(Conclusion)
"""The worst first: what one of several tries said counts."""
MOST_WIRE = 4
"""Exchanges that are kept of a requirement: the two rivals of a race, and what the table looked like before and after."""


class CertifyError(ValueError):
    """A certificate cannot be made or read; one line with a remedy."""


CERTIFICATE = "a certificate"
FORM: JournalFormat[RequirementResult] = JournalFormat(
    CERTIFICATE,
    "an answer",
    decode=journal.as_type(RequirementResult),
    encode=asdict,
    error=CertifyError,
    options={"repeat": "--repeat"},
)


def read(path: Path) -> Certificate:
    """A stored ``certify.json``. Raises CertifyError."""
    try:
        return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), Certificate)
    except OSError as e:
        raise CertifyError(f"{path}: cannot be read: {e.strerror}") from None
    except (ValueError, msgspec.ValidationError) as e:
        # A broken certificate, or a file that no command of ours wrote, is told as what it is here.
        if (other := filekinds.refused(path, CERTIFICATE)) is not None and f"this is {CERTIFICATE}," not in other:
            raise CertifyError(other) from None
        why = "" if isinstance(e, json.JSONDecodeError) else f": {' '.join(str(e).split())}"
        raise CertifyError(f"{path}: is no certify.json{why}; give one that icequake certify wrote") from None


@dataclass
class Certify:
    """Asks requirements of catalogs, into a folder: those that it lacks; if it lacks none, all of them anew. Its other answers stay.

    Args:
        catalogs: how each is called → a name of the library, or the path of a file.
        asked: the requirements.
        repeat: how often each is asked; None: as each says.
        finished: hears each answer.
        complete: called when the last answer is there, and the servers are still up: to end them takes a while.
        serve: (name or path, folder of its logs, watcher) → its server.

    Attributes:
        answers: the last one of each requirement in the folder, also of those that are not asked now.
        remaining: how many are to be asked.
    """

    catalogs: Mapping[str, str]
    asked: Sequence[Requirement]
    into: Path
    watcher: Watcher
    repeat: int | None = None
    rounds: int = ROUNDS
    finished: Callable[[RequirementResult], object] = lambda _: None
    complete: Callable[[], object] = lambda: None
    serve: Callable[[str, Path, Watcher], AbstractContextManager[ServerDescription]] = serving
    answers: list[RequirementResult] = field(default_factory=list)
    remaining: int = 0
    servers: dict[str, str] = field(default_factory=dict)
    _asked_together: dict[tuple[str, Callable[[Kit], None]], list[Exchanges]] = field(default_factory=dict)
    """Of requirements with one ``ask``: what was seen in each try. It is asked once, and each judges it."""

    def go(self) -> None:
        """Ask.

        Raises:
            CertifyError: the folder has another certificate, or one of another version or address of a catalog; or cannot be written.
            SecretsLeft: a log of a stack may have a secret and could be neither cleaned nor removed.
            OSError: the disk is full.
            KeyboardInterrupt: the user stopped it; the answers so far are there.
        """
        header = {"repeat": self.repeat, "rounds": self.rounds}
        of = {"catalogs": dict(self.catalogs), "software": self._software(), "addresses": self._addresses()}
        self._stacks = WarmStacks(
            lambda key, logs, _: self.serve(self.catalogs[key[0]], logs, self.watcher),
            self.into / LOGS,
            self.watcher.say,
            runs=None,
            secrets=secrets_of_files(self.catalogs.values()),
            called=lambda key: f"asking {key[0]}, which is up" if self._foreign(key[0]) else f"starting {key[0]}",
        )
        with Journal(self.into / JOURNAL, FORM, header, also={**of, "icequake": __version__}) as lines:
            self.answers = lines.lines
            self._check_same(lines.header)
            jobs = [(name, r) for name in self.catalogs for r in self.asked]
            decided = {key for key, a in self._last().items() if a.conclusion is not Conclusion.ERROR}
            missing = {(name, r.id) for name, r in jobs} - decided
            known = decided if missing else set()
            self.remaining = len(missing) or len(jobs)
            Campaign(
                jobs,
                lines,
                self._stacks,
                self._ask,
                lambda job, attempt, why: [self._could_not(*job, attempt, why)],
                self.watcher,
                name=lambda job: f"{job[0]} {job[1].id}",
                made=lambda job: (job[0], job[1].id) in known,
                unit="requirements",
                finished=self._heard,
            ).go()

    def certificate(self, command: str) -> Certificate:
        """What the folder has: the last answer of each requirement."""
        given = self._last()
        answers = [given[key] for name in self.catalogs for r in requirements() if (key := (name, r.id)) in given]
        servers = self._addresses() | {name: self._plain(name, uri) for name, uri in self.servers.items()}
        servers = {name: servers.get(name, "") for name in self.catalogs}
        made = datetime.now(UTC).isoformat(timespec="seconds")
        questions = [r.question for r in requirements()]
        return Certificate(servers, questions, answers, made, __version__, command, self._software())

    def _check_same(self, header: Mapping[str, Any]) -> None:
        """Raises CertifyError: the folder's answers are of other catalogs, or of another version or address of one."""
        # A release before wrote a file as it was typed.
        theirs = {
            n: os.path.abspath(c) if user_file.is_file(c) else c for n, c in (header.get("catalogs") or {}).items()
        }
        if theirs != {n: os.path.abspath(c) if user_file.is_file(c) else c for n, c in self.catalogs.items()}:
            there, here = (",".join(x.values()) for x in (theirs, self.catalogs))
            raise CertifyError(
                f"{self.into} holds a certificate of {there}, not of {here}; give another folder with --into"
            )
        before = self.into / STORED
        software = header.get("software")
        if software is None:  # releases before wrote no such key
            software = read(before).software if before.exists() else self._software()
        addresses = header.get("addresses") or self._addresses()
        for name, own in self._own.items():
            pairs = (software.get(name), self._software().get(name)), (addresses.get(name), self._addresses()[name])
            for was, now in pairs:
                if was != now:
                    count = len([a for a in self._last().values() if a.catalog == name])
                    compare = f", and compare with --against {before}" if before.exists() else ""
                    raise CertifyError(
                        f"{self.into}: its {count} answers are of {was or 'no named version'}; {own.file} now says "
                        f"{now or 'no summary:'}. Ask all of it in a new folder (--into …){compare}"
                    )

    @cached_property
    def _own(self) -> dict[str, UserCatalogFile]:
        """The catalogs among these that have a file."""
        return {name: user_file.load(Path(file)) for name, file in self.catalogs.items() if user_file.is_file(file)}

    def _software(self) -> dict[str, str]:
        return {name: self._plain(name, own.summary) for name, own in self._own.items() if own.summary}

    def _addresses(self) -> dict[str, str]:
        """Where they are asked, as their files say."""
        return {
            name: self._plain(name, str((own.pyiceberg or {}).get("uri", own.uri))) for name, own in self._own.items()
        }

    def _plain(self, name: str, text: str) -> str:
        """A text as others may read it."""
        own = self._own.get(name)
        return text if own is None else Redaction(own.secrets).text(text)

    def _last(self) -> dict[tuple[str, str], RequirementResult]:
        return {(a.catalog, a.id): a for a in self.answers}

    def _heard(self, answers: Sequence[RequirementResult]) -> None:
        self.remaining -= len(answers)
        for answer in answers:
            self.finished(answer)
        if not self.remaining:
            self.complete()

    def _ask(self, job: tuple[str, Requirement], attempt: JobAttempt) -> Done[RequirementResult] | CouldNotRun:
        name, requirement = job
        with self._stacks.lease((name,)) as lease:
            self.servers[name] = lease.stack.uri
            try:
                return self._tried(name, requirement, lease.stack, attempt)
            finally:
                if self._foreign(name):  # the files of a server of ours go with it
                    self._leave(lease.stack.places)

    def _foreign(self, name: str) -> bool:
        return name in self._own

    def _leave(self, places: Iterable[str]) -> None:
        file = self.into / LEFT
        known = set(self.left())
        with file.open("a", encoding="utf-8") as out:
            out.writelines(f"{place}\n" for place in sorted({*map(plain_place, places)} - known))

    def left(self) -> list[str]:
        """The folders of tables on a server that is not ours, in which files may be although the tables were dropped."""
        file = self.into / LEFT
        found = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [place for place in found if "://" in place or Path(place).exists()]

    def _tried(
        self, name: str, requirement: Requirement, server: ServerDescription, attempt: JobAttempt
    ) -> Done[RequirementResult] | CouldNotRun:
        tries = self.repeat or requirement.tries
        found = []
        for n in range(tries):
            attempt.watcher.say(f"try {n + 1} of {tries}")
            try:
                found.append(judged(requirement, self._seen(name, requirement, server, n)))
            except NotApplicable as e:
                given = (requirement.level, requirement.effect, Conclusion.NOT_APPLICABLE)
                return Done(
                    [RequirementResult(name, requirement.id, *given, n + 1, n + 1, why=e.why, seconds=attempt.seconds)]
                )
            except SetUpError as e:
                return CouldNotRun(str(e))
        return Done([concluded(name, requirement, found, attempt.seconds)])

    def _seen(self, name: str, requirement: Requirement, server: ServerDescription, n: int) -> Exchanges:
        """What was seen in the n-th try of a requirement, or of another one that asks the same; raises as :func:`asked`."""
        check_applies(requirement, server)
        seen = self._asked_together.setdefault((name, requirement.ask), [])
        if n < len(seen):
            return seen[n]
        found = asked(requirement, server, self.rounds)
        if sum(r.ask is requirement.ask for r in self.asked) > 1:
            seen.append(found)
        return found

    def _could_not(self, name: str, requirement: Requirement, attempt: JobAttempt, why: str) -> RequirementResult:
        given = (requirement.level, requirement.effect, Conclusion.ERROR)
        return RequirementResult(name, requirement.id, *given, 1, 1, why=why, seconds=attempt.seconds)


def plain_place(location: str) -> str:
    """A table's folder as the tools that remove it write it: a path, or ``s3://…``."""
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return unquote("/" + rest.lstrip("/"))
    return location.replace(f"{scheme}:", "s3:", 1) if scheme in ("s3a", "s3n") else location


def asked_once(requirement: Requirement, server: ServerDescription, rounds: int = ROUNDS) -> Judgement:
    """One try of a requirement. Raises as :func:`asked` and :func:`judged`."""
    check_applies(requirement, server)
    return judged(requirement, asked(requirement, server, rounds))


def check_applies(requirement: Requirement, server: ServerDescription) -> None:
    """Raises NotApplicable: the server says that it has not what a requirement is about."""
    if not server.has_server and not requirement.any_catalog and not requirement.endpoints:
        raise NotApplicable(Absent.NO_SERVER)
    for endpoint in requirement.endpoints:
        server.check_declares(endpoint)


def asked(requirement: Requirement, server: ServerDescription, rounds: int = ROUNDS) -> Exchanges:
    """Ask it once.

    Raises:
        NotApplicable: the server has not what it is about.
        SetUpError: what it needs could not be made.
    """
    with Kit(server, requirement.id, rounds=rounds) as kit:
        requirement.ask(kit)
        silent = [e for e in kit.seen.exchanges if not e.status]
        if silent and len(silent) == len(kit.seen.exchanges):
            raise SetUpError(silent[0].words())
        return kit.seen


def judged(requirement: Requirement, seen: Exchanges) -> Judgement:
    """What was seen, judged. Raises SetUpError: what would be a loss was not read, so nobody knows whether it is one."""
    found = requirement.judge(seen)
    if found.conclusion is Conclusion.FAIL and (found.effect or requirement.effect) is Severity.LOSS:
        for unread in (e for e in found.wire if e.method == "GET" and e.status in NO_ANSWER):
            raise SetUpError(
                f"nobody knows whether anything is lost, because {unread.path} was not read: {unread.words()}"
            )
    return found


def concluded(
    name: str, requirement: Requirement, found: Sequence[Judgement], seconds: float = 0.0
) -> RequirementResult:
    """What several tries come to: the worst of them."""
    worst = min(found, key=lambda j: WORST.index(j.conclusion))
    order = list(Severity)
    return RequirementResult(
        name,
        requirement.id,
        requirement.level,
        max(requirement.effect, worst.effect or requirement.effect, key=order.index),
        worst.conclusion,
        len(found),
        sum(j.conclusion is worst.conclusion for j in found),
        worst.expected,
        worst.actual,
        wire=list(worst.wire[:MOST_WIRE]),
        seconds=seconds,
    )
