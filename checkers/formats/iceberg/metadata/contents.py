"""What each version says besides its snapshots: schemas, specs, sort orders, properties, refs, location, format version, statistics.

A version says what its predecessor says, and exactly the change that the operation that made it was asked for (``metadata.derived``): a
commit builds its metadata from the current one (``TableMetadata.buildFrom``) and adds its own changes. If several operations can have made
a version, one of them must explain all that it changes. If none does, the one that explains most is accused first. An entry with an id is never
changed in place: a changed schema, spec or sort order gets the next id (``TableMetadata.Builder.addSchemaInternal``,
``addPartitionSpecInternal``, ``addSortOrderInternal``).

**Equal** means equal in meaning. A key that is null and one that is absent are equal (Iceberg's releases differ in what they write), and
so are the two forms of a spec's source (``source-id``, ``source-ids``). A new schema rewrites the properties that speak of columns
(``SchemaUpdate.applyChangesToMapping``). Nessie names its own commit in each version (``nessie.*``, ``NessieUtil``): that is no property of the
table.

After a version that nothing explains, the next one may go on with what it says, or return to what was due: that is told once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from checkers.evidence.replace import replace
from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.derived import (
    OF_COLUMNS,
    Maker,
    alters,
    columns,
    current_schema,
    dicts,
    meaning,
    signs,
)
from checkers.formats.iceberg.metadata.derived import properties as properties_of
from checkers.formats.iceberg.metadata.ids import Ids
from checkers.formats.iceberg.metadata.listed import (
    LISTED_PARTS,
    SCHEMAS,
    STATISTICS,
    Listed,
    entries_of,
    keys_of,
)
from checkers.formats.iceberg.metadata.listed_parts import Complaint, Judge, ListedParts
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain
from checkers.timeline.timeline import kind_of


class ChangedPart(NamedTuple):
    """A part in which a version differs from its predecessor."""

    part: str
    value_of: Callable[[Metadata], Any]
    judge: Judge
    old: Any


_SELDOM = tuple(key for x in LISTED_PARTS for key in keys_of(x))
"""Keys that few versions change."""
_ONCE = ("properties", "location", *STATISTICS)
"""Others."""
_MAIN = {"main"}
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs", "gcs": "gs"}
"""Scheme of a location → another one of the same store."""


def _store_and_place(location: str) -> tuple[str, str]:
    scheme, _, rest = location.rpartition("://")
    return _SCHEMES.get(scheme, scheme), rest.rstrip("/")


class Contents(Judging):
    """What the versions of one table say."""

    _until = 0
    """The versions whose properties are in ``_held``."""

    @cached_property
    def _ids(self) -> Ids:
        return Ids(self.chain, self.seen, self.torn)

    @cached_property
    def _listed(self) -> ListedParts:
        return ListedParts(self.makers, self.due)

    @cached_property
    def due(self) -> dict[tuple[str, int], tuple[Any, ...]]:
        """(part, version) → what the part can be again, of versions that say something else than was due."""
        return {}

    @cached_property
    def _held(self) -> dict[str, set[str]]:
        """Property → all its values so far."""
        return {}

    def step(self, step: Step) -> None:
        """Judge one version."""
        self._ids.step(step)
        before = step.before
        if before is None:
            return
        old, new = before.raw.get, step.after.raw.get
        if not self.due and all(old(k) is new(k) for k in _SELDOM):
            if (
                before.format_version == step.after.format_version
                and before.refs.keys() == step.after.refs.keys() == _MAIN
                and all(old(k) is new(k) for k in _ONCE)
            ):
                return
            lists: Sequence[Listed] = ()  # the log's reader makes equal parts the same object
        else:
            lists = LISTED_PARTS
        parts: list[tuple[str, Callable[[Metadata], Any], Judge]] = [
            *((x.key, _fields(*keys_of(x)), self._listed.judge_of(x)) for x in lists),
            ("properties", properties_of, self._properties),
            ("refs", _refs, self._refs),
            ("location", _fields("location"), self._location),
            ("format-version", lambda m: m.format_version, self._format_version),
            ("statistics", _fields(*STATISTICS), self._statistics),
        ]
        changes = [c for part in parts if (c := self._change(step, before, *part)) is not None]
        if changes and self._sets_main(step, before):  # alone, it is a commit that is lost, which other checkers tell
            changes.append(ChangedPart("main", lambda m: m.current, self._main, before.current))
        if changes:
            self._judge(step, before, changes)

    def _change(
        self, step: Step, before: Metadata, part: str, part_of: Callable[[Metadata], Any], judge: Judge
    ) -> ChangedPart | None:
        """The part, if it is neither as in the predecessor nor as was due there."""
        old, new = part_of(before), part_of(step.after)
        due = self.due.get((part, before.n))
        if old is new or old == new:
            if due is not None:
                self.due[part, step.after.n] = due
        elif due is None or all(new != d and meaning(new) != meaning(d) for d in due):
            return ChangedPart(part, part_of, judge, old)
        return None

    def _judge(self, step: Step, before: Metadata, changes: list[ChangedPart]) -> None:
        """Tell what the operation does not explain that explains most; if one explains all, it made the version."""
        bases = self._bases(before)
        accused = [
            (maker, min(([x for c in changes for x in c.judge(step, base, maker)] for base in bases), key=_severity))
            for maker in self._makers(step)
        ]
        fewest = min(_severity(found) for _, found in accused)
        likely = [m for m, found in accused if _severity(found) == fewest]
        new = self._new_names(step, before)
        maker = max(likely, key=lambda m: (len(m.named() & new), not m.ops, _answered(m)))
        found = next(found for m, found in accused if m is maker)
        if not step.gap and maker.ops:
            alike = [m for m in likely if not found or len(m.named() & new) == len(maker.named() & new)]
            self.makers.settle(step, [o for m in (maker, *alike) for o in m.ops])
        self._tell(step, before, maker, found)
        for c in changes:
            if c.judge(step, before, maker):
                kept = self.due.get((c.part, before.n)) or (c.old,)
                self.due[c.part, step.after.n] = (*kept, *self._derived(c.part, step, before, maker))

    def _makers(self, step: Step) -> list[Maker]:
        """Who may have made the version alone; whoever changes no metadata is nobody."""
        if step.gap or self.makers.unknown_kind(step):
            return [Maker((*self.makers.makers(step), *self.makers.under_way(step)))]
        candidates = self.makers.candidates(step)
        if self.makers.makers(step):
            return [Maker((o,)) for o in candidates]
        done = set() if step.before is None else signs(step.before)
        able = (o for o in candidates if (k := kind_of(o)) is None or (alters(k) and o.op not in done))
        return [Maker(()), *(Maker((o,)) for o in able)]

    def _bases(self, before: Metadata) -> list[Metadata]:
        """What a version can have been made from: its predecessor, or that with what was due there."""
        found = [before]
        dues = {x: self.due[x.key, before.n] for x in LISTED_PARTS if (x.key, before.n) in self.due}
        earlier = self.due.get(("properties", before.n), ())
        for n in range(max([len(earlier), *map(len, dues.values())])):
            raw = dict(before.raw)
            for x, values in dues.items():
                raw |= zip(keys_of(x), values[min(n, len(values) - 1)], strict=True)
            if earlier:
                raw["properties"] = earlier[min(n, len(earlier) - 1)]
            found.append(replace(before, raw=raw))
        return found

    @staticmethod
    def _new_names(step: Step, before: Metadata) -> set[Any]:
        """The names of columns that the version changes."""
        old, new = columns(current_schema(before.raw)), columns(current_schema(step.after.raw))
        return {
            f.get("name") for i in {*old, *new} if old.get(i) != new.get(i) for f in (old.get(i, {}), new.get(i, {}))
        }

    @staticmethod
    def _derived(part: str, step: Step, before: Metadata, maker: Maker) -> list[Any]:
        """What the version should have said of a part, if that is known."""
        if part == "properties":
            due = maker.properties(properties_of(before))
            return [] if due is None else [due]
        schema = maker.schema(before) if part == SCHEMAS.key else None
        if schema is None:
            return []
        (old, _), (new, now) = entries_of(before, SCHEMAS), entries_of(step.after, SCHEMAS)
        id = now if now in new.keys() - old.keys() else max(old, default=-1) + 1
        last = max(before.raw["last-column-id"], *(i for i in columns(schema) if isinstance(i, int)))
        return [[[*before.raw["schemas"], {**schema, "schema-id": id}], id, last]]

    def _tell(self, step: Step, before: Metadata, maker: Maker, found: list[Complaint]) -> None:
        certain = [x for x in found if x.rule]
        for x in found:
            if not x.rule and not certain:
                m = step.after
                self.seen.doubt(
                    f"version {m.n} ({m.location}), {self.makers.made_by(m)}, {x.what}: nobody is known who changes that"
                )
        for name in dict.fromkeys(x.rule for x in certain):
            same = [x for x in certain if x.rule == name]
            what = explain.listing(x.what for x in same)
            snapshots = tuple(s for x in same for s in x.snapshots)
            asked = () if same[0].foreign else maker.ops
            tell = self.vanished if same[0].gone else self.changed
            tell(name, step, before, what, snapshots, asked=asked)

    # --- properties, refs, location, format version, statistics

    def _properties(self, step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        old, new = properties_of(before), properties_of(step.after)
        due = maker.properties(old)
        by_schema = maker.may("schema")
        names = [k for k in sorted({*old, *new}) if not (by_schema and k.startswith(OF_COLUMNS))]
        removed = [k for k in names if k in old and k not in new]
        back = [
            k for k in names if k in old and k in new and old[k] != new[k] and new[k] in self._earlier_values(k, step)
        ]
        found: list[Complaint] = []
        if (removed or back) and not maker.takes("property"):
            words = [f"the property {k} = {old[k]}" for k in (*removed, *back)]
            found.append(
                Complaint("vanished-property", explain.listing(words), gone=True, foreign=True, weight=len(words))
            )
        if due is None:
            return found
        other = [k for k in names if k not in removed and k not in back and new.get(k) != due.get(k)]
        if other:
            words = [f"the property {k} from {old.get(k, 'nothing')} to {new.get(k, 'nothing')}" for k in other]
            found.append(
                Complaint(
                    "property-changed", explain.listing(words), foreign=not maker.may("property"), weight=len(words)
                )
            )
        return found

    def _earlier_values(self, key: str, step: Step) -> set[str]:
        """All values of a property before a version."""
        while self._until < step.after.n and self._until < len(self.chain.log.metadata):
            for k, v in properties_of(self.chain.log.metadata[self._until]).items():
                self._held.setdefault(k, set()).add(v)
            self._until += 1
        return self._held.get(key, set())

    def _refs(self, step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        old, new = before.refs, step.after.refs
        found = [
            Complaint("vanished-ref", f"the ref {name}", gone=True, foreign=True, snapshots=(old[name],))
            for name in sorted(old.keys() - new.keys())
            if not (maker.takes(None if name == "main" else "ref") or (_ages(before, name) and maker.takes("aged ref")))
        ]
        other = [k for k in sorted(new) if k != "main" and new[k] != old.get(k)]
        if other and not maker.may("ref"):
            words = [f"the ref {k} from {old.get(k, 'nothing')} to snapshot {new[k]}" for k in other]
            found.append(
                Complaint("ref-changed", explain.listing(words), foreign=True, snapshots=tuple(new[k] for k in other))
            )
        return found

    def _sets_main(self, step: Step, before: Metadata) -> bool:
        """Whether main is neither where it was, nor at a snapshot that comes with the version, nor at one that descends from where it was."""
        now = step.after.current
        if now == before.current or now is None or step.gap or self.lists_one:
            return False
        own = {c.snapshot_id for c in self.chain.commits_of.get(step.after.n, ())}
        known = now in self.chain.snapshots and before.current in self.chain.snapshots
        return known and now not in own and all(s != before.current for s in self.chain.ancestors(now))

    @staticmethod
    def _main(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        now = step.after.current
        if now is None or maker.sets_main(now):
            return []
        words = f"the ref main from snapshot {before.current} to snapshot {now}"
        return [Complaint("ref-changed", words, foreign=not maker.sets_main(None), snapshots=(now,))]

    @staticmethod
    def _location(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        old, new = before.raw.get("location"), step.after.raw.get("location")
        if not isinstance(old, str) or not isinstance(new, str) or _store_and_place(old) == _store_and_place(new):
            return []
        words = f"the table's location from {old} to {new}"
        return [] if maker.may("location") else [Complaint("location-changed", words, foreign=True)]

    @staticmethod
    def _format_version(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        old, new = before.format_version, step.after.format_version
        due = maker.format_version(old)
        if new < old or due is None or new == due:
            return []  # a lower one is told as such
        words, foreign = f"the format version from {old} to {new}", not maker.may("format-version")
        return [Complaint("format-version-changed", words, foreign=foreign)]

    @staticmethod
    def _statistics(step: Step, before: Metadata, maker: Maker) -> list[Complaint]:
        """Statistics leave with their snapshot (``TableMetadata.Builder.removeSnapshots``)."""
        listed = set(step.after.snapshots)
        old = {k: v for k, v in _statistics(before).items() if k[1] in listed}
        new = _statistics(step.after)
        other = sorted({k for k in (*old, *new) if old.get(k) != new.get(k)}, key=str)
        if not other or maker.may("statistics"):
            return []
        words = (f"the {kind} of snapshot {s}" for kind, s, _ in other)
        return [Complaint("statistics-changed", explain.listing(words), foreign=True)]


def _severity(found: list[Complaint]) -> tuple[int, int]:
    """How little a maker explains: what it never changes, and differences."""
    return sum(x.weight for x in found if x.foreign), sum(x.weight for x in found)


def _answered(maker: Maker) -> bool:
    """Whether none of the operations was told that it failed."""
    return all(o.type != "fail" for o in maker.ops)


# --- what a version says ----------------------------------------------------------------------------------------------


def _fields(*keys: str) -> Callable[[Metadata], Any]:
    """What the log keeps of some fields, which is the same object as long as nothing changes."""
    return lambda m: [m.raw.get(k) for k in keys]


def _refs(m: Metadata) -> dict[str, int | None]:
    """Main only by its presence: where it is, is another matter."""
    return {k: None if k == "main" else v for k, v in m.refs.items()}


def _statistics(m: Metadata) -> dict[tuple[str, Any, Any], Any]:
    """(kind, snapshot, file) → what is said of it."""
    return {
        (key, x.get("snapshot-id"), x.get("statistics-path")): meaning(x)
        for key in STATISTICS
        for x in dicts(m.raw.get(key))
    }


def _ages(m: Metadata, name: str) -> bool:
    """Whether an expiry may find a ref too old, or nobody knows (``RemoveSnapshots.computeRetainedRefs``)."""
    refs = m.raw.get("refs")
    ref = refs.get(name) if isinstance(refs, Mapping) else None
    age = ref.get("max-ref-age-ms", properties_of(m).get("history.expire.max-ref-age-ms")) if ref is not None else 0
    return age is not None
