"""The trial of the fields: does a wrong value in a field come to what :mod:`checkers.selftest.fields` says?

A changed run is written and read again, as a user's would be: what the reader refuses, no checker sees. The rest is judged by all checkers,
the exact ones, without minimal histories; the first anomaly ends the judgement, because nothing can be worse.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from checkers.evidence import history, tablelog_file
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import HistoryError, contradictions
from checkers.evidence.problem import Problem
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import MissingFile, ObjectSize, TableLogError
from checkers.selftest import unchanged
from checkers.selftest.fields import FAILED, FIELD_PARTS, Outcome, WrongValues, fate, first_word
from checkers.selftest.mutator import MADE_UP, NUMBERS, MutationSite, Variant, sites, variants
from checkers.verdict import Checker

MISSES_KEPT = 5
"""Values of a field that came to something else, described at most."""


@dataclass(frozen=True)
class FieldScore:
    """What came of the wrong values of one field.

    Attributes:
        outcomes: outcome → number of values. A verdict ``True`` counts as ``not noticed`` if the field's entry does not say why it is harmless.
        misses: the first values with an outcome that the field may not have.
    """

    field: str
    outcomes: Mapping[Outcome, int]
    misses: tuple[str, ...] = ()

    @property
    def tried(self) -> int:
        """Number of values."""
        return sum(self.outcomes.values())

    @property
    def passed(self) -> bool:
        """Whether at least one value was tried, and what came of each is what the field's type or exception says."""
        return self.tried > 0 and not self.misses


@dataclass
class _Places:
    """The sites of a run, by field."""

    run: str
    evidence: Evidence
    by_field: dict[str, list[MutationSite]] = field(default_factory=dict)


@dataclass(frozen=True)
class FieldPlaces:
    """Where runs have fields; to look that up takes as long as to judge hundreds of changed values.

    Attributes:
        good: the places in the runs.
        worse: those in the first run as :func:`damaged`, for fields that no run has.
    """

    good: tuple[_Places, ...]
    worse: tuple[_Places, ...]

    @staticmethod
    def of(runs: Mapping[str, Evidence]) -> FieldPlaces:
        """Those of good runs by name."""
        good = tuple(_places(name, e) for name, e in runs.items())
        worse = (_places(f"{p.run} {what}", e) for p in good[:1] for what, e in damaged(p.evidence).items())
        return FieldPlaces(good, tuple(worse))


def damaged(e: Evidence) -> dict[str, Evidence]:
    """The evidence with what recorded runs do not have: a problem at each place for one; a missing file; a violation of the specification;
    facts of files that few have."""
    problems, missing, violations, rare = {}, {}, {}, {}
    for table, log in e.logs.items():
        c, m = log.commits[-1], log.metadata[-1]
        path = c.added_files[0].path if c.added_files else c.own_files[0]
        unread = Problem("missing-file", f"manifest {path} is missing", path, c.snapshot_id, "manifest", "no such key")
        gap = Problem(
            "missing-metadata", f"metadata file {m.location} is missing", m.location, None, "metadata", "none"
        )
        commits = log.commits[:-1]
        problems[table] = replace(
            log,
            commits=(*commits, replace(c, problems=(unread,))),
            metadata=(*log.metadata[:-1], replace(m, problems=(gap,))),
            problems=(gap, unread),
        )
        missing[table] = replace(log, missing_files=(MissingFile(path, (c.snapshot_id,)),))
        broken = (f"foreign-file: {path}", f"dangling-dv: {path}")
        violations[table] = replace(log, commits=(*commits, replace(c, violations=broken)))
        last = next(f for x in reversed(log.commits) for f in x.added_files)
        files = tuple(replace(f, equality_ids=(1,), key_metadata="00") for f in c.added_files)
        rare[table] = replace(
            log,
            sizes=(ObjectSize(last.path, last.size),),
            commits=(*commits, replace(c, added_files=files, kept_files=files)),
        )
    return {
        "with problems": replace(e, logs=problems),
        "with missing files": replace(e, logs=missing),
        "with violations": replace(e, logs=violations),
        "with rare facts": replace(e, logs=rare),
    }


def run(
    checkers: Sequence[Checker],
    places: FieldPlaces,
    *,
    placements: int = 3,
    seed: int = 0,
    only: Sequence[str] = (),
    fates: Callable[[str], WrongValues] = fate,
    done: Callable[[FieldScore], None] = lambda _: None,
) -> list[FieldScore]:
    """The trial of every field that the runs have.

    Args:
        places: where the runs have fields.
        placements: places at which a field is changed, in the runs in turn; a place gets one value of each kind of change. A field of metadata
            versions is changed in the first version of a table, too.
        only: first words or names of fields, such as ``swap`` or ``commit.op``; empty for all.
        done: called with each score.

    Raises:
        LookupError: no field has a name or first word in ``only``.
    """
    every = sorted(
        {f: None for p in (*places.good, *places.worse) for f in p.by_field},
        key=lambda f: [*FIELD_PARTS].index(first_word(f)),
    )
    chosen = _chosen(every, only)
    scores = []
    fast = [_unreduced(c) for c in checkers]
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            having = [p for p in places.good if _has_values(p, name)] or [
                p for p in places.worse if _has_values(p, name)
            ]
            tried = _tried(name, having, fast, Path(folder), placements=placements, seed=seed)
            scores.append(_score(name, fates(name), tried))
            done(scores[-1])
    return scores


def _chosen(fields: Sequence[str], only: Sequence[str]) -> list[str]:
    for wanted in only:
        if not any(named(f, wanted) for f in fields):
            raise LookupError(f"{wanted}: no field has that name")
    return [f for f in fields if not only or any(named(f, wanted) for wanted in only)]


def named(name: str, wanted: str) -> bool:
    """Whether a field has this name, or begins with these words."""
    return name == wanted or name.startswith((f"{wanted}.", f"{wanted} "))


def outcome(
    changed: Callable[[], Evidence], good: Evidence, checkers: Sequence[Checker], folder: Path
) -> tuple[Outcome, str]:
    """What comes of changed evidence, and who says it: the first anomaly, the reader's sentence, or the first note.

    A checker that raises has not judged (``failed``), unless it says that the history does not pair.
    """
    try:
        e = reread(changed(), good, folder)
    except (HistoryError, TableLogError) as error:
        return "refused", str(error).rpartition("/")[2]
    problems = [*e.history.problems, *contradictions(e.history.events)]
    if not e.complete:
        problems.append("the run ended early")
    for c in checkers:
        try:
            v = unchanged.check(c, e, good)
        except HistoryError as error:
            problems.append(str(error))
            continue
        except Exception as error:
            return FAILED, f"{c.name}: {type(error).__name__}: {error}"
        if v.valid is False:
            return "found", v.anomalies[0].name
        if v.valid == "unknown":
            problems.append(v.notes[0] if v.notes else c.name)
    return ("unknown", problems[0]) if problems else ("harmless", "")


def reread(changed: Evidence, good: Evidence, folder: Path) -> Evidence:
    """The changed evidence after its changed files were written and read.

    Raises:
        HistoryError, TableLogError: the reader refuses them.
    """
    history_again, logs = changed.history, dict(changed.logs)
    swaps, accepted = dict(changed.swaps), dict(changed.accepted)
    if history_again is not good.history:
        path = folder / "history.jsonl"
        lines = [{"format": history.FORMAT, **history_again.header}, *(e.to_json() for e in history_again.events)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        history_again = history.read(path)
    for table, log in changed.logs.items():
        if log is not good.logs[table]:
            path = folder / "table.jsonl"
            tablelog_file.write(log, path)
            del logs[table]
            read = tablelog_file.read(path)
            logs[read.table] = read
            if read.table != table:  # swaps are told apart by the logs
                swaps[read.table] = swaps.pop(table, ())
                accepted[read.table] = accepted.pop(table, ())
    return replace(changed, history=history_again, logs=logs, swaps=swaps, accepted=accepted)


def _unreduced(checker: Checker) -> Checker:
    changed = copy(checker)
    object.__setattr__(changed, "reducible", False)  # also of a frozen one
    return changed


def _places(name: str, e: Evidence) -> _Places:
    out = _Places(name, e)
    for s in sites(e):
        out.by_field.setdefault(s.field, []).append(s)
    return out


def _has_values(p: _Places, name: str) -> bool:
    """Whether a record has something there; for a number or result that is null, and for a key's empty list, another value can be made up."""
    made_up = name in NUMBERS or name.startswith("event.value")
    nothing: list[object] = [(), [], {}] if made_up else [None, (), [], {}]
    return any(name.startswith("raw.") or name in MADE_UP or s.value not in nothing for s in p.by_field.get(name, ()))


_Tried = tuple[str, Outcome, str]
"""Where and what was changed, what came of it, who said it."""


def _tried(
    name: str, having: Sequence[_Places], checkers: Sequence[Checker], folder: Path, *, placements: int, seed: int
) -> Iterator[_Tried]:
    firsts = [p for p in having if any(s.first for s in p.by_field[name])]
    for n in range(placements + bool(firsts) if having else 0):
        rng = Random(f"fields/{seed}/{name}/{n}")
        among = having if n < placements else firsts
        start = rng.randrange(len(among))
        # A record may have no other value, as an empty list: the first that has one counts.
        for p in (*among[start:], *among[:start]):
            same = p.by_field[name]
            here = same if n < placements else [s for s in same if s.first]
            found: tuple[MutationSite, list[Variant]] | None = next(
                ((s, vs) for s in rng.sample(here, min(20, len(here))) if (vs := variants(s, same, rng))),
                None,
            )
            if found is None:
                continue
            site, values = found
            for v in values:
                result, words = outcome(lambda s=site, v=v: s.put(v.value), p.evidence, checkers, folder)  # type: ignore[misc]
                where = (
                    f"{p.run}{f', table {site.table}' if site.table else ''}{', first version' if site.first else ''}"
                )
                yield f"{where}: {v.change}, {_short(site.value)} → {_short(v.value)}", result, words
            break


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _score(name: str, fate: WrongValues, tried: Iterator[_Tried]) -> FieldScore:
    outcomes: Counter[Outcome] = Counter()
    misses = []
    for where, result, words in tried:
        shown: Outcome = "not noticed" if result == "harmless" and not fate.harmless else result
        outcomes[shown] += 1
        if shown not in fate.outcomes:
            misses.append(f"{where}: {shown}{f' ({words})' if words else ''}")
    return FieldScore(name, dict(outcomes), tuple(misses[:MISSES_KEPT]))
