"""``results.json``, read leniently: verdicts and anomalies as far as they are well-formed, whichever program wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from checkers.judge.accepted import Accepted
from checkers.judge.known import Known
from checkers.judge.proof import WORDS
from checkers.judge.stories import Step, Story, Told
from checkers.timeline.unreadable import Unreadable
from checkers.verdict import Anomaly, MinimalHistory, TrailRow, TrailSnapshot, TrailStep, Verdict
from workloads.file.anomalies import Entry
from workloads.tables import TableSpec


def verdict_from_json(r: Mapping[str, Any]) -> Verdict:
    """A verdict as :meth:`checkers.verdict.Verdict.to_json` wrote it; anything but true and false is ``unknown``."""
    name = str(r.get("checker") or "unnamed")
    valid = r.get("valid")
    return Verdict(
        checker=name,
        valid=valid if isinstance(valid, bool) else "unknown",
        anomalies=tuple(anomaly_from_json(a, name) for a in _mappings(r.get("anomalies"))),
        stats=mapping(r.get("stats")),
        notes=strings(r.get("notes")),
    )


def anomaly_from_json(r: Mapping[str, Any], checker: str) -> Anomaly:
    """An anomaly as :meth:`checkers.verdict.Anomaly.to_json` wrote it; missing fields are empty.

    An older icequake wrote ``same_as``, ``minimal`` and ``trail`` (as ``chain``) into the evidence; they are read from there.
    """
    table, documented = r.get("table"), r.get("documented")
    evidence = mapping(r.get("evidence"))
    older = {k: evidence.pop(k, None) for k in ("same_as", "minimal", "chain")}
    same_as = r.get("same_as") or older["same_as"]
    return Anomaly(
        name=str(r.get("name") or "unnamed"),
        checker=str(r.get("checker") or checker),
        table=None if table is None else str(table),
        explanation=str(r.get("explanation") or ""),
        ops=strings(r.get("ops")),
        events=_integers(r.get("events")),
        snapshots=_integers(r.get("snapshots")),
        files=strings(r.get("files")),
        keys=_integers(r.get("keys")),
        documented=str(documented) if documented else None,
        evidence=evidence,
        same_as=str(same_as) if same_as else None,
        minimal=_minimal(mapping(r.get("minimal") or older["minimal"])),
        trail=tuple(_step(step) for step in _mappings(r.get("trail") or older["chain"])),
    )


def told_from_json(r: Mapping[str, Any]) -> Told:
    """Stories, known defects and unreadable tables of a ``results.json``; empty for one of an older icequake."""
    return Told(
        tuple(
            Unreadable(
                str(u.get("table")),
                _integer(u.get("since")) or 0,
                str(u.get("file")),
                str(u.get("op")),
                _integer(u.get("later")) or 0,
            )
            for u in _mappings(r.get("unreadable"))
        ),
        tuple(
            Story(str(s.get("table")), tuple(map(_story_step, _mappings(s.get("steps")))), _known(s.get("known")))
            for s in _mappings(r.get("stories"))
        ),
        _known(r.get("known")),
        str(r.get("stories_problem") or ""),
    )


def _story_step(r: Mapping[str, Any]) -> Step:
    return Step(
        str(r.get("name")),
        strings(r.get("checkers")),
        _integer(r.get("count")) or 0,
        strings(r.get("ops")),
        str(r.get("text") or ""),
    )


def _known(value: object) -> tuple[Known, ...]:
    return tuple(
        Known(str(k.get("scenario")), str(k.get("link")), strings(k.get("anomalies"))) for k in _mappings(value)
    )


def accepted_from_json(results: Mapping[str, Any], tables: Iterable[TableSpec] = ()) -> Accepted:
    """What the workload expects and allows, by a ``results.json``; an entry of another form is left out."""

    def entries(key: str) -> Iterator[Entry]:
        for written in said if isinstance(said := results.get(key), list) else ():
            with suppress(ValidationError):
                yield Entry.model_validate(written)

    return Accepted.of(tuple(entries("expected")), tuple(entries("allowed")), tables)


def verdict_words(results: Mapping[str, Any]) -> str:
    """The verdict of a ``results.json`` in a few words, for a list of runs: ``valid, undelete ×3 allowed``; of a scenario its result."""
    found = [a for v in map(verdict_from_json, _mappings(results.get("checkers"))) for a in v.anomalies]
    unmet = unmet_expectations(found)
    state = mapping(results.get("scenario")).get("state")
    if state in WORDS and results.get("complete", True) is True:
        return WORDS[state]
    valid = results.get("valid")
    if valid is True:
        accepted = accepted_from_json(results)  # of a valid run every anomaly is covered: its tables do not matter
        allowed = [a.name for a in found if a.same_as is None and accepted.mark(a) == "allowed"]
        counts = (f"{name} ×{allowed.count(name)}" for name in sorted(set(allowed)))
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


def _minimal(r: Mapping[str, Any]) -> MinimalHistory | None:
    if not r:
        return None
    return MinimalHistory(strings(r.get("ops")), _integers(r.get("ids")), r.get("complete") is True)


def _step(r: Mapping[str, Any]) -> TrailStep:
    process, ended = r.get("process"), r.get("ended_ms")
    return TrailStep(
        op=str(r.get("op")),
        kind=str(r.get("kind")),
        process=process if isinstance(process, int) else str(process),
        invoked_ms=_number(r.get("invoked_ms")) or 0.0,
        ended_ms=_number(ended),
        outcome=str(r.get("outcome")),
        snapshots=[_snapshot(s) for s in _mappings(r.get("snapshots"))],
    )


def _snapshot(r: Mapping[str, Any]) -> TrailSnapshot:
    return TrailSnapshot(
        attempt=_integer(r.get("attempt")),
        snapshot=_integer(r.get("snapshot")) or 0,
        sequence_number=_integer(r.get("sequence_number")) or 0,
        parent=_integer(r.get("parent")),
        on_main=r.get("on_main") is True,
        manifest_list=str(r.get("manifest_list")),
        rows=[_row(row) for row in _mappings(r.get("rows"))],
    )


def _row(r: Mapping[str, Any]) -> TrailRow:
    row, by = r.get("row"), r.get("by")
    return TrailRow(
        sign="-" if r.get("sign") == "-" else "+",
        row=row if isinstance(row, list) else [],
        file=str(r.get("file")),
        position=_integer(r.get("position")) or 0,
        by=str(by) if by else None,
    )


def strings(value: object) -> tuple[str, ...]:
    """The texts of a list; empty if it is not a list."""
    return tuple(str(v) for v in value) if isinstance(value, list | tuple) else ()


def mapping(value: object) -> dict[str, Any]:
    """A mapping with text keys; empty if it is not a mapping."""
    return {str(k): v for k, v in value.items()} if isinstance(value, Mapping) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    for v in value if isinstance(value, list) else ():
        if isinstance(v, Mapping):
            yield v


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _integers(value: object) -> tuple[int, ...]:
    items = value if isinstance(value, list | tuple) else ()
    return tuple(v for v in items if isinstance(v, int) and not isinstance(v, bool))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
