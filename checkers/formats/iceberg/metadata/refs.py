"""What each version says of its refs besides their snapshots: type and retention.

A ref keeps them from version to version, unless an operation changes refs (``UpdateSnapshotReferencesOperation``): an expiry by age goes by
them, and takes a branch whose retention is lost. A key that is null and one that is absent are equal. Where refs are is another matter
(``metadata.contents``). Logs of earlier releases do not have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from checkers.formats.iceberg.metadata.chain import IcebergStep as Step
from checkers.formats.iceberg.metadata.seen import Judging
from checkers.formats.iceberg.records import IcebergMetadata as Metadata
from checkers.timeline import explain

REF_TYPES = ("branch", "tag")
"""What a ref can be (spec, "Snapshot References")."""


class Refs(Judging):
    """The refs of one table."""

    @cached_property
    def _due(self) -> dict[str, Mapping[str, Any]]:
        """Ref → what was due, of those that are told: whoever goes back to it does what is right."""
        return {}

    def step(self, step: Step) -> None:
        """Judge one version."""
        before, m = step.before, step.after
        if before is not None and _of_others(m) and not _of_others(before):
            words = "the refs of which it tells type and retention to others than those of which it tells snapshots"
            self.changed("ref-changed", step, before, words)
            return
        if before is None or step.gap or before.raw.get("refs") is m.raw.get("refs"):
            return
        old, new = said_of(before), said_of(m)
        if old == new or self.makers.explained(step, "ref"):
            return
        wrong: dict[str, str] = {}
        for name, says in new.items():
            was = old.get(name)
            if (kind := says.get("type")) not in REF_TYPES or (name == "main" and kind != "branch"):
                if was is None or was.get("type") != kind:
                    wrong[name] = f"the ref {name}, which is a {kind}"
            elif was is not None and was != says and says != self._due.pop(name, None):
                wrong[name] = f"the ref {name}: {_difference(was, says)}"
                self._due[name] = was
        if wrong:
            heads = tuple(m.refs[name] for name in wrong if name in m.refs)
            self.changed("ref-changed", step, before, explain.listing(wrong.values()), heads)


def _of_others(m: Metadata) -> bool:
    """Whether a version tells snapshots of other refs than type and retention."""
    refs = m.raw.get("refs")
    return isinstance(refs, Mapping) and refs.keys() != m.refs.keys()


def said_of(m: Metadata) -> dict[str, Mapping[str, Any]]:
    """Ref → what a version says of it besides the snapshot; empty where the log does not have it."""
    refs = m.raw.get("refs")
    if not isinstance(refs, Mapping):
        return {}
    return {
        name: {k: v for k, v in ref.items() if v is not None} for name, ref in refs.items() if isinstance(ref, Mapping)
    }


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = [k for k in sorted({*was, *now}) if was.get(k) != now.get(k)]
    return explain.listing(f"{k} from {was.get(k, 'nothing')} to {now.get(k, 'nothing')}" for k in keys)
