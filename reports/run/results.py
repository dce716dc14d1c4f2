"""``results.json``, read leniently: what it says besides its verdicts, and the verdict in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from checkers.evidence.lenient import integer, integers, mapping, mappings, strings
from checkers.judge.accepted import AcceptedAnomalies
from checkers.judge.known import KnownDefect
from checkers.judge.proof import PROOF_WORDS
from checkers.judge.repairsteps import Repair, RepairStep
from checkers.judge.stories import Stories, Story, StoryStep
from checkers.names import Harm
from checkers.timeline.unreadable import UnreadableTable
from checkers.verdict import Anomaly, Verdict
from reports.drawing.words import tally
from workloads.file.anomalies import AnomalyEntry
from workloads.tables import TableSpec


def told_from_json(r: Mapping[str, Any]) -> Stories:
    """Stories, known defects and unreadable tables of a ``results.json``; empty for one of an older icequake."""
    return Stories(
        tuple(
            UnreadableTable(
                str(u.get("table")),
                integer(u.get("since")) or 0,
                str(u.get("file")),
                str(u.get("op")),
                integer(u.get("later")) or 0,
            )
            for u in mappings(r.get("unreadable"))
        ),
        tuple(_story(s) for s in mappings(r.get("stories")) if s.get("headline")),
        str(r.get("stories_problem") or ""),
    )


def _story(r: Mapping[str, Any]) -> Story:
    table = r.get("table")
    harm = next((h for h in Harm if h.name.lower() == r.get("harm")), Harm.PROMISE)
    places, pairs = r.get("anomalies"), r.get("instead")
    return Story(
        table=None if table is None else str(table),
        name=str(r.get("name") or ""),
        headline=str(r.get("headline") or ""),
        consequence=str(r.get("consequence") or ""),
        harm=harm,
        who=str(r.get("who") or ""),
        engine=str(r.get("engine") or ""),
        ops=strings(r.get("ops")),
        snapshots=integers(r.get("snapshots")),
        keys=integers(r.get("keys")),
        count=integer(r.get("count")) or 0,
        steps=tuple(map(_story_step, mappings(r.get("steps")))),
        anomalies=tuple((str(p[0]), p[1]) for p in (places if isinstance(places, list) else ()) if _is_place(p)),
        known=_known(r.get("known")),
        remedy=str(r.get("remedy") or ""),
        meanwhile=str(r.get("meanwhile") or ""),
        instead=tuple((str(p[0]), str(p[1])) for p in (pairs if isinstance(pairs, list) else ()) if _is_pair(p)),
        repairs=tuple(map(_repair_step, mappings(r.get("repairs")))),
        how=str(r.get("how") or ""),
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2


def _is_place(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and isinstance(value[1], int)


def _story_step(r: Mapping[str, Any]) -> StoryStep:
    return StoryStep(
        str(r.get("name")),
        strings(r.get("checkers")),
        integer(r.get("count")) or 0,
        strings(r.get("ops")),
        str(r.get("text") or ""),
        1 if (most := integer(r.get("most"))) is None else most,
    )


def _repair_step(r: Mapping[str, Any]) -> RepairStep:
    does, keys = integer(r.get("does")), r.get("keys")
    return RepairStep(
        str(r.get("text") or ""),
        Repair(does) if does is not None and does in {*Repair} else Repair.REWRITE,
        strings(r.get("ops")),
        tuple((str(k[0]), k[1]) for k in (keys if isinstance(keys, list) else ()) if _is_place(k)),
        strings(r.get("tables")),
        strings(r.get("notes")),
        strings(r.get("sql")),
        r.get("back") is True,
    )


def _known(value: object) -> tuple[KnownDefect, ...]:
    return tuple(
        KnownDefect(
            str(k.get("scenario")),
            str(k.get("link")),
            strings(k.get("anomalies")),
            str(k.get("remedy") or ""),
            str(k.get("headline") or ""),
            str(k.get("affected") or ""),
            str(k.get("state") or ""),
        )
        for k in mappings(value)
    )


def accepted_from_json(results: Mapping[str, Any], tables: Iterable[TableSpec] = ()) -> AcceptedAnomalies:
    """What the workload expects and allows, by a ``results.json``; an entry of another form is left out."""

    def entries(key: str) -> Iterator[AnomalyEntry]:
        for written in said if isinstance(said := results.get(key), list) else ():
            with suppress(ValidationError):
                yield AnomalyEntry.model_validate(written)

    return AcceptedAnomalies.of(tuple(entries("expected")), tuple(entries("allowed")), tables)


def verdict_words(results: Mapping[str, Any]) -> str:
    """The verdict of a ``results.json`` in a few words, for a list of runs: ``valid, undelete ×3 allowed``; of a scenario its result."""
    found = [a for v in map(Verdict.from_json, mappings(results.get("checkers"))) for a in v.anomalies]
    unmet = unmet_expectations(found)
    state = mapping(results.get("scenario")).get("state")
    if state in PROOF_WORDS and results.get("complete", True) is True:
        return PROOF_WORDS[state]
    valid = results.get("valid")
    if valid is True:
        accepted = accepted_from_json(results)  # of a valid run every anomaly is covered: its tables do not matter
        allowed = [a.name for a in found if a.same_as is None and accepted.mark(a) == "allowed"]
        counts = (tally({name: allowed.count(name)}) for name in sorted(set(allowed)))
        return ", ".join(("valid", *(f"{c} allowed" for c in counts)))
    if valid is False:
        return f"expected {', '.join(unmet)}, not seen" if unmet else "anomalies found"
    return "unknown" if valid == "unknown" else "not checked"


def unmet_expectations(found: Iterable[Anomaly]) -> tuple[str, ...]:
    """Names of the anomalies that the workload expects and no checker found."""
    return tuple(str(a.evidence.get("expected") or a.name) for a in found if is_unmet(a))


def is_unmet(a: Anomaly) -> bool:
    """Whether it is the word of the checker ``expect``: nothing was found, though it should have been."""
    return a.name == "expected-not-found" and a.checker == "expect"
