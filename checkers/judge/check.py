"""All checkers over one run: from the run's folder to verdicts, and to the bytes of ``results.json``.

The run's validity is the worst of the verdicts (false > unknown > true), and never better than ``unknown`` for a run that
ended early. A checker that raises is ``unknown`` with the reason, never a crash: one checker's bug must not hide what the
others found. Nothing here reads a clock, so the same folder always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from checkers import pointer
from checkers.columns import check_columns
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import UnpairedError
from checkers.evidence.replace import replace
from checkers.evidence.uncollected import uncollected
from checkers.judge.accepted import FINDERS, AcceptedAnomalies
from checkers.judge.assertions import Assertions
from checkers.judge.known import RunFacts
from checkers.judge.minimal import with_minimal
from checkers.judge.proof import MISSING
from checkers.judge.registry import find
from checkers.judge.runfolder import NO_PROMISES, Promises, Results
from checkers.judge.telling import tell
from checkers.judge.trail import Trails
from checkers.pointer import Pointer
from checkers.timeline.promise import not_known, unknown_engines
from checkers.verdict import Anomaly, Checker, Validity, Verdict

ALL: tuple[Checker, ...] = find()
"""The checkers that judge every run."""
ANOMALIES = frozenset(FINDERS)
"""The names of all anomalies that checkers can find; a workload may expect these."""

UNPAIRED = "not judged: the history does not pair (see history)"
"""What a checker that needs operations says where the history's events do not pair."""

TRAILS = 50
"""Number of anomalies per verdict whose trail is kept."""


Engine = Literal["auto", "exact", "columns"]
BY_COLUMNS = "columns"
LONG = 50_000
"""Number of operations from which ``auto`` means ``columns``."""


def check(
    evidence: Evidence,
    checkers: Sequence[Checker] = ALL,
    promises: Promises = NO_PROMISES,
    *,
    engine: Engine = "auto",
    ran: RunFacts | None = None,
) -> Results:
    """Run checkers over the evidence. A run that ended early is ``unknown`` at best.

    ``ran``: what the run ran; known defects are looked up by it.

    ``engine``: with ``columns``, :mod:`checkers.columns` judges the tables first; the exact checkers judge only what it cannot prove
    valid. The verdicts are the same, without the statistics of proven tables.

    With ``expect`` the run is valid if exactly those anomalies were found; a missing one is reported as ``expected-not-found``,
    because a scenario that no longer shows its bug must be noticed. Anomalies of ``allow`` may be found and fail nothing. What the checkers
    ``isolation`` and ``linearizable`` report of the same rows (a deleted row that lives on is a ``lost-update`` of its id, and
    ``nonlinearizable`` for its readers) is expected or allowed, too. An entry that says too little for what was found
    (:mod:`checkers.judge.accepted`) does not accept it, and the results' notes name the entry to write.
    If the evidence is incomplete or a checker undecided, absence proves nothing.
    """
    with uncollected():
        return _check(evidence, checkers, promises, engine, ran)


def _check(
    evidence: Evidence, checkers: Sequence[Checker], promises: Promises, engine: Engine, ran: RunFacts | None
) -> Results:
    proven: dict[str, Verdict] = {}
    if engine == "columns" or (engine == "auto" and _is_long(evidence)):
        before = evidence.known
        evidence = replace(evidence)  # what columns prove is known of this copy only
        evidence.known.update(before)
        proven = _by_columns(evidence)
    verdicts = of_formats([proven.get(c.name) or verdict_of(c, evidence) for c in checkers])
    verdicts += [v for name, v in proven.items() if name == BY_COLUMNS]
    return concluded(verdicts, evidence, checkers, promises, ran)


def of_formats(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts, without those of checkers of a table format that no table of the run has."""
    bound = {c.name for c in ALL if c.of_format is not None}
    return [v for v in verdicts if v.checker not in bound or v.stats != {"tables": {}}]


def concluded(
    verdicts: Sequence[Verdict],
    evidence: Evidence,
    checkers: Sequence[Checker],
    promises: Promises,
    ran: RunFacts | None,
) -> Results:
    """The results of a run from what each checker said of it, whoever asked the checkers; the other arguments are those of :func:`check`."""
    reducible = {c.name: c for c in checkers if c.reducible}
    verdicts = _cross_referenced(verdicts, frozenset(c.name for c in checkers if c.second_opinion))
    verdicts = _caused(verdicts)
    verdicts = [_explained(v, reducible.get(v.checker), evidence) for v in verdicts]
    problems = (
        *evidence.history.problems,
        *evidence.history.contradictions,
        *evidence.history.engine_contradictions(),
    )
    problems += (*_unpaired(evidence), *_unknown_engines(evidence))
    if problems:
        verdicts.append(Verdict("history", "unknown", notes=problems))
    if promises.thresholds:
        verdicts.append(verdict_of(Assertions(promises.thresholds), evidence))
    ended: Validity = True if evidence.complete else "unknown"
    accepted = AcceptedAnomalies.of(promises.expect, promises.allow, evidence.tables.values())
    found = [a for v in verdicts for a in v.anomalies]
    missing = sorted({str(e) for e in accepted.missing(found)})
    surprised = any(not accepted.mark(a) for a in found)
    surprised = surprised or any(v.valid is False and not v.anomalies for v in verdicts)
    undecided = ended == "unknown" or any(v.valid == "unknown" for v in verdicts)
    if accepted.expect:
        verdicts.append(_expectation(missing, sorted({str(e) for e in accepted.expect} - {*missing}), undecided))
    valid: Validity = False if surprised or (missing and not undecided) else "unknown" if undecided else True
    stories = tell(evidence, verdicts, ran)
    return Results(tuple(verdicts), valid, evidence.complete, accepted, accepted.too_little(found), stories)


def _cross_referenced(verdicts: Sequence[Verdict], second_opinions: frozenset[str]) -> list[Verdict]:
    """The verdicts; anomalies of second opinions name the other checker's equal anomaly (``same_as``).

    Two anomalies are the same if they concern the same rows of the same table; a cycle must also contain the operation that the other checker
    accuses (client observations concern only the reader). If one is documented, so is the other.
    """
    first = [a for v in verdicts if v.checker not in second_opinions for a in v.anomalies]

    def named(a: Anomaly) -> Anomaly:
        for b in first:
            related = b.table == a.table and set(b.keys) & set(a.keys)
            if related and (a.checker == "linearizable" or set(b.ops[:1]) & set(a.ops)):
                documented = a.documented or b.documented
                return replace(a, documented=documented, same_as=b.name)
        return a

    return [
        replace(v, anomalies=tuple(map(named, v.anomalies))) if v.checker in second_opinions else v for v in verdicts
    ]


def _caused(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts; a lost commit gets its cause where the proxies saw the lost update or swap of the pointer."""
    why = {
        (a.table, op): a
        for v in verdicts
        for a in v.anomalies
        if a.name in ("lost-update", "lost-swap") and a.checker == Pointer.name
        for op in a.evidence.get(pointer.LOST_SWAPS, ())
    }

    def explained(a: Anomaly) -> Anomaly:
        cause = why.get((a.table, a.ops[0])) if a.name == "lost-commit" and a.ops else None
        if cause is None:
            return a
        if cause.name == "lost-swap":  # nobody took its place: the other commit was made in any case
            return replace(a, explanation=f"{a.explanation} Why: {cause.explanation}")
        ops = tuple(dict.fromkeys((*a.ops, *cause.ops)))
        events = tuple(dict.fromkeys((*a.events, *cause.events)))
        return replace(
            a, explanation=f"{a.explanation} Why: {cause.explanation}", ops=ops, events=events, files=cause.files
        )

    return [replace(v, anomalies=tuple(map(explained, v.anomalies))) if v.checker == "commits" else v for v in verdicts]


def _expectation(missing: Sequence[str], found: Sequence[str], undecided: bool) -> Verdict:
    if missing and undecided:
        note = f"not found: {', '.join(missing)}; but not everything could be judged, so it may be there"
        return Verdict("expect", "unknown", (), {"found": list(found)}, (note,))
    anomalies = tuple(
        Anomaly(
            MISSING,
            "expect",
            None,
            f"the workload expects the anomaly {name}, and no checker found it: what it was written to show is no longer there.",
            evidence={"expected": name},
        )
        for name in missing
    )
    return Verdict("expect", not missing, anomalies, {"found": list(found)})


def _explained(verdict: Verdict, checker: Checker | None, evidence: Evidence) -> Verdict:
    """The verdict, with the minimal history and the trail of its anomalies."""
    if not verdict.anomalies or _is_long(evidence):
        return verdict
    try:
        if checker is not None:
            verdict = with_minimal(verdict, checker, evidence)
        trails = Trails(evidence)
        explanations = tuple(
            replace(a, trail=trails.of(a)) if n < TRAILS and a.ops else a for n, a in enumerate(verdict.anomalies)
        )
    except Exception as e:  # keep the verdict even if explaining it fails
        return replace(verdict, notes=(*verdict.notes, f"not explained further: {type(e).__name__}: {e}"))
    return replace(verdict, anomalies=explanations)


def _is_long(evidence: Evidence) -> bool:
    return len(evidence.history.events) > 2 * LONG


def _by_columns(evidence: Evidence) -> dict[str, Verdict]:
    """Checker → verdict, of the checkers that columns replace. If columns fail, only a note; the exact checkers then judge."""
    try:
        return {v.checker: v for v in check_columns(evidence)}
    except Exception as e:
        note = f"columns failed, so the exact checkers judged: {type(e).__name__}: {e}"
        return {BY_COLUMNS: Verdict(BY_COLUMNS, True, notes=(note,))}


def _unpaired(evidence: Evidence) -> tuple[str, ...]:
    """What does not pair in the history; said once, whatever number of checkers needs it."""
    try:
        evidence.history.operations()
    except UnpairedError as e:
        return (str(e),)
    return ()


def _unknown_engines(evidence: Evidence) -> tuple[str, ...]:
    """Engines of the history that this version does not know: what they promised is unknown."""
    try:
        found = unknown_engines(evidence.history.operations())
    except UnpairedError:
        return ()
    return (not_known(found),) if found else ()


def verdict_of(checker: Checker, evidence: Evidence) -> Verdict:
    """What a checker says; ``unknown`` with the reason if it raises, or if the history does not pair."""
    try:
        return checker.check(evidence)
    except UnpairedError:
        return Verdict(checker.name, "unknown", notes=(UNPAIRED,))
    except Exception as e:
        return Verdict(checker.name, "unknown", notes=(f"the checker failed: {type(e).__name__}: {e}",))
