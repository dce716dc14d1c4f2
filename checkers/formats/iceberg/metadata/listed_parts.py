"""How the listed parts of a version (schemas, specs, sort orders) may differ from its predecessor's: the rules, by who made the version."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.derived import Maker, columns, current_schema, dicts, meaning, schema_differences
from checkers.formats.iceberg.metadata.listed import SCHEMAS, Listed, entries_of
from checkers.formats.iceberg.metadata.responsible import Responsible
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain

PROMOTED = {
    "int": ("long",),
    "float": ("double",),
    "date": ("timestamp", "timestamp_ns"),
}
"""Type → what it may become (spec, "Schema Evolution"); a ``decimal`` may become wider, ``unknown`` anything."""
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class Complaint(NamedTuple):
    """A difference that a maker does not explain.

    Attributes:
        rule: the broken rule; empty: no rule is certainly broken, and what the field should say is not known.
        what: what differs, in words.
        gone: whether it is gone, rather than changed.
        foreign: whether the maker changes no such thing at all, whatever its arguments are.
        weight: how many differences it is.
    """

    rule: str
    what: str
    gone: bool = False
    foreign: bool = False
    weight: int = 1
    snapshots: tuple[int, ...] = ()


Judge = Callable[[Step, Metadata, Maker], list[Complaint]]
"""Says in what a version differs from what is due, if its predecessor was this and its maker that."""


class ListedParts:
    """Judges the listed parts of one table's versions.

    Args:
        makers: who can have made a version.
        due: (part, version) → what the part can be again, of versions that say something else than was due; it grows while versions are judged.
    """

    def __init__(self, makers: Responsible, due: Mapping[tuple[str, int], tuple[Any, ...]]) -> None:
        self.makers = makers
        self.due = due

    def judge_of(self, x: Listed) -> Judge:
        def judge(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
            if step.after.raw.get(x.key) is None:
                return [Complaint("", f"has no {x.key}")] if step.before is None else []  # told as a missing field
            (old, in_use), (new, now_in_use) = entries_of(before, x), entries_of(step.after, x)
            found: list[Complaint] = []
            removed = sorted(old.keys() - new.keys())
            if removed and not (x.lost is not None and maker.takes(x.lost)):
                found.append(
                    Complaint(
                        x.vanished,
                        f"{x.words} {explain.listing(removed)}",
                        gone=True,
                        foreign=True,
                        weight=len(removed),
                    )
                )
            due = maker.schema(before) if x is SCHEMAS else None
            if x is SCHEMAS and due is None:
                found += self._lost_columns(step, before, maker)
            other = [n for n in old if n in new and old[n] != new[n] and meaning(old[n]) != meaning(new[n])]
            if other and not self.makers.unknown_kind(step):
                never = [
                    f"{x.words} {n}, which never changes: {_difference(meaning(old[n]), meaning(new[n]))}"
                    for n in other
                ]
                found.append(Complaint(x.changed, explain.listing(never), foreign=True, weight=len(other)))
            more = sorted(new.keys() - old.keys())
            moved = in_use != now_in_use and in_use not in removed
            if (more or moved) and not (maker.may(x.part) if due is None else maker.can(before)):
                words = [f"{x.words} {n}, which is new" for n in more]
                words += [f"{x.default} from {in_use} to {now_in_use}"] if moved else []
                found.append(Complaint(x.changed, explain.listing(words), foreign=True, weight=len(words)))
            elif due is not None:
                found += self._schema_due(step, before, maker, due, more)
            elif moved and x is SCHEMAS:
                found += self._evolved(step, old.get(in_use), new.get(now_in_use))
            return found or self._counter(x, step, before, maker, due)

        return judge

    def _schema_due(
        self, step: Step, before: Metadata, maker: Maker, due: Mapping[str, Any], more: list[int]
    ) -> list[Complaint]:
        """The current schema is the one that is due, and no other is new. What breaks another rule, too, is told as that."""
        now = current_schema(step.after.raw)
        wrong = schema_differences(due, now)
        id = (now or {}).get("schema-id")
        beside = [f"schema {n}, which is new and not in use" for n in more if n != id]
        told_before = (SCHEMAS.key, before.n) in self.due
        if told_before and not wrong and not beside:
            return []
        worse = self._lost_columns(step, before, maker) or self._evolved(step, current_schema(before.raw), now)
        weight = max(1, len(wrong) + len(beside))
        if worse:
            return [worse[0]._replace(weight=weight, foreign=False)]
        if not wrong and not beside:
            return []
        words = [f"its current schema, schema {id}: {explain.listing(wrong)}"] if wrong else []
        return [Complaint(SCHEMAS.changed, explain.listing([*words, *beside]), weight=weight)]

    def _counter(
        self, x: Listed, step: Step, before: Metadata, maker: Maker, due: Mapping[str, Any] | None
    ) -> list[Complaint]:
        """The highest id is as before, or that of what is new: a higher one harms nobody, so nobody is accused."""
        old, new = (m.raw.get(x.counter or "") for m in (before, step.after))
        if not isinstance(old, int) or not isinstance(new, int) or (due is None and maker.may(x.part)):
            return []  # one that is gone is told as a missing field
        highest = max([old, *(i for i in columns(due) if isinstance(i, int))])
        if new <= highest:
            return []  # a lower one is told as such
        return [Complaint("", f"says {x.counter} {new}, where {highest} is due")]

    def _evolved(self, step: Step, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[Complaint]:
        """Whether a schema change left each column readable: files keep the type with which they were written."""
        if old is None or new is None or self.makers.explained(step, "logs"):
            return []
        before = columns(old)
        wrong = [
            f"the column {f.get('name')} from {_column(before[f.get('id')])} to {_column(f)}"
            for f in dicts(new.get("fields"))
            if f.get("id") in before and not _readable(before[f.get("id")], f)
        ]
        return [Complaint("schema-evolution", explain.listing(wrong), weight=len(wrong))] if wrong else []

    @staticmethod
    def _lost_columns(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        now, old = columns(current_schema(step.after.raw)), columns(current_schema(before.raw))
        lost = [f.get("name") for id, f in old.items() if id not in now]
        lost = [name for name in lost if name not in maker.dropped()]
        if not now or not lost or maker.takes("schema"):
            return []
        words = f"the column{'s' if len(lost) > 1 else ''} {explain.listing(lost)}"
        return [Complaint("vanished-schema", words, gone=True, foreign=True, weight=len(lost))]


def _difference(old: Any, new: Any) -> str:
    """The first place where two entries differ, in words."""
    before, after = old, new
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for k in sorted({*old, *new}):
            if old.get(k) == new.get(k):
                continue
            before, after = old.get(k), new.get(k)
            if isinstance(before, list) and isinstance(after, list):
                if len(before) != len(after):
                    return f"{len(before)} {k} became {len(after)}"
                before, after = next((a, b) for a, b in zip(before, after, strict=True) if a != b)
            break
    return f"{before} became {after}"


def _column(f: Mapping[str, Any]) -> str:
    return f"{'required' if f.get('required') else 'optional'} {f.get('type')}"


def _readable(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether values written for one column can be read as the other: only types that are words are compared."""
    if new.get("required") is True and old.get("required") is False:
        return False
    was, now = meaning(old.get("type")), meaning(new.get("type"))
    if not isinstance(was, str) or not isinstance(now, str) or was == now or was == "unknown":
        return True
    a, b = DECIMAL.fullmatch(was), DECIMAL.fullmatch(now)
    if a is not None and b is not None:
        return int(b[1]) >= int(a[1]) and a[2] == b[2]
    return now in PROMOTED.get(was, ())
