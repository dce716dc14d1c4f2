"""What a version of the metadata says of its own ids: fields that it must have, and ids that name nothing or too much."""

from __future__ import annotations

from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.derived import dicts
from checkers.formats.iceberg.metadata.listed import LISTED_PARTS, REQUIRED, SCHEMAS, Listed, ids_of
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain


class Ids(Judging):
    """The ids in the versions of one table."""

    _last: tuple[Any, frozenset[int]] | None = None

    def step(self, step: Step) -> None:
        """Judge one version."""
        self._ids_of_nothing(step)
        self._field_ids(step)
        self._row_ids(step)
        if step.before is not None:
            self._missing_fields(step, step.before)

    def _missing_fields(self, step: Step, before: Metadata) -> None:
        m = step.after
        missing = [k for k in REQUIRED if before.raw.get(k) is not None and m.raw.get(k) is None]
        if missing and m.format_version > 1 and not self.makers.unknown_kind(step):
            self.found(
                "missing-field",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, lacks {explain.listing(missing)}; version {before.n} "
                f"({before.location}), from which it was made, has it.",
                ops=self.makers.accused(step),
                files=(m.location,),
            )

    def _ids_of_nothing(self, step: Step) -> None:
        m, before = step.after, step.before
        for x in LISTED_PARTS:
            default = m.raw.get(x.default)
            same = (
                before is not None
                and before.raw.get(x.default) == default
                and before.raw.get(x.key) is m.raw.get(x.key)
            )
            if same and x is not SCHEMAS:
                continue
            ids = self._ids_of(m, x) if x is SCHEMAS else ids_of(m.raw, x)
            if ids and default is not None and default not in ids and not same:
                self._dangling(step, f"{x.default} is {default}", x, ids, self.makers.accused(step))
            if x is SCHEMAS and ids and before is not None:
                for c in self.chain.commits_of.get(m.n, ()):
                    if c.schema_id is not None and c.schema_id != default:
                        self.seen.count("of_an_older_schema")
                    if c.schema_id is not None and c.schema_id not in ids:
                        what = f"{explain.snapshot(c)}{self.makers.of(c)} is of schema {c.schema_id}"
                        self._dangling(step, what, x, ids, () if c.op is None else (c.op,), (c.snapshot_id,))

    def _ids_of(self, m: Metadata, x: Listed) -> frozenset[int]:
        """As :func:`ids_of`; the answer for the last version is kept."""
        listed = m.raw.get(x.key)
        if self._last is None or self._last[0] is not listed:
            self._last = listed, ids_of(m.raw, x)
        return self._last[1]

    def _dangling(
        self,
        step: Step,
        what: str,
        x: Listed,
        ids: frozenset[int],
        ops: tuple[str, ...],
        snapshots: tuple[int, ...] = (),
    ) -> None:
        m = step.after
        self.found(
            "dangling-id",
            f"in version {m.n} ({m.location}), {self.makers.made_by(m)}, {what}, but its {x.key} are {explain.listing(sorted(ids))}.",
            ops=ops,
            snapshots=snapshots,
            files=(m.location,),
        )

    def _field_ids(self, step: Step) -> None:
        m, before = step.after, step.before
        last = m.raw.get("last-column-id")
        if before is not None and before.raw.get("schemas") is m.raw.get("schemas"):
            return
        known = set() if before is None else {repr(s) for s in dicts(before.raw.get("schemas"))}
        for schema in dicts(m.raw.get("schemas")):
            if repr(schema) in known:
                continue
            ids = [f["id"] for f in dicts(schema.get("fields")) if isinstance(f.get("id"), int)]
            twice = sorted({i for i in ids if ids.count(i) > 1})
            high = sorted(i for i in ids if isinstance(last, int) and i > last)
            where = f"schema {schema.get('schema-id')} of version {m.n} ({m.location}), {self.makers.made_by(m)},"
            for wrong, why in ((twice, "more than once"), (high, f"above last-column-id, which is {last}")):
                if wrong:
                    self.found(
                        "field-id",
                        f"{where} has the field id{'s' if len(wrong) > 1 else ''} {explain.listing(wrong)} {why}.",
                        ops=self.makers.accused(step),
                        files=(m.location,),
                    )

    def _row_ids(self, step: Step) -> None:
        m, before = step.after, step.before
        if m.format_version < 3 or m.next_row_id is not None or before is None:
            return
        if before.next_row_id is not None:  # a release before 1.9 writes none at all
            self.found(
                "next-row-id",
                f"version {m.n} ({m.location}), {self.makers.made_by(m)}, is of format version {m.format_version} and has no next-row-id: the "
                "next snapshot cannot know which row ids are free.",
                ops=self.makers.accused(step),
                files=(m.location,),
            )
