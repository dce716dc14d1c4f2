"""The project's own checkers judge every log of the model, and accuse those, and only those, that break a promise of the model."""

from dataclasses import replace

import pytest

from checkers.conflicts.validations import Rule
from checkers.formats.iceberg.model.logtree import Bound, Log, logs
from checkers.formats.iceberg.model.properties import DANGLING
from checkers.formats.iceberg.model.scenario import steps_text
from checkers.judge.check import verdict_of
from tests.checkers.formats.iceberg.model.test_model import COW, EVERY, MOR
from tests.support.judging import UNREDUCED
from tests.support.modelled import evidence
from workloads.file.modelled import COMPACTION, OWN_SEQUENCE

JUDGES = tuple(c for c in UNREDUCED if c.name in ("commits", "replay", "isolation", "metadata", "reads"))
SAME = {
    "undelete": {"undelete"},
    "lost-update": {"lost-update"},
    "duplicate-row": {"duplicate-row"},
    "resurrected-row": {"resurrected-row", "duplicate-row", "wrong-rows"},  # by what of the file came back with it
    "compaction-changed-rows": {"compaction-changed-rows", "resurrected-row"},
    "write-skew": {"write-skew"},
    "several-dvs": {"several-dvs"},
    DANGLING: {DANGLING},
}
"""Promise of the model → what the checkers call it that the last commit did; one of these must be there."""
MORE = (*EVERY.kinds, ("merge-upsert", COW), ("merge-upsert", MOR), ("equality-delete", ""))
RULES: tuple[Rule, ...] = (
    "added data",
    "replaced files",
    "deletes of replaced files",
    "position deletes of replaced files",
    "referenced files",
    "referenced files, rewritten",
    "new deletes",
    "replaced delete files",
    "deletion vectors",
)


def disagreements(bound: Bound) -> tuple[int, int, list[str]]:
    """How many logs there are, how many of them break a promise, and on which the checkers and the model differ."""
    dangles, broken, total, differ = set[Log](), 0, 0, []
    for log, name in logs(bound):
        total += 1
        broken += name is not None
        if name == DANGLING:
            dangles.add(log)
        # The tree goes on after a vector that dangles, and the checkers accuse the commit before.
        before = {DANGLING} if any(log[:n] in dangles for n in range(1, len(log))) else set[str]()
        told = evidence(bound, log)
        verdicts = [verdict_of(c, told) for c in JUDGES]
        found = {a.name for v in verdicts for a in v.anomalies}
        if name is None:
            agree = found == before and all(v.valid != "unknown" for v in verdicts)
        else:
            agree = bool(found & SAME[name]) and before <= found
        if not agree:
            notes = [note for v in verdicts if v.valid == "unknown" for note in v.notes]
            differ.append(f"{'; '.join(steps_text(log))}: model {name}, checkers {sorted(found)} {notes}")
    return total, broken, differ


@pytest.mark.parametrize("without", [None, *RULES])
@pytest.mark.parametrize("version", [2, 3])
def test_the_checkers_accuse_the_logs_that_the_model_calls_broken_and_no_other(
    without: Rule | None, version: int
) -> None:
    bound = replace(EVERY, writes=2, format_version=version, without=frozenset({without} if without else ()))
    total, broken, differ = disagreements(bound)
    assert not differ
    assert total > 60
    assert broken or (version == 2 and without in (None, "replaced delete files", "deletion vectors"))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kinds", [EVERY.kinds, MORE])
def test_they_agree_at_snapshot_isolation(kinds: tuple[tuple[str, str], ...], version: int) -> None:
    bound = replace(EVERY, kinds=kinds, writes=2, serializable=False, format_version=version)
    total, broken, differ = disagreements(bound)
    assert not differ
    assert total > 60 and broken


def test_they_agree_on_overwrites_rewrites_and_a_merge_with_only_an_insert() -> None:
    kinds = (
        ("delete", COW),
        ("update-register", MOR),
        *((kind, "") for kind in ("merge-insert", "overwrite-where", "overwrite-where-validated")),
        *((kind, "") for kind in ("rewrite-data-files", "rewrite-position-delete-files", "rewrite-manifests")),
    )
    total, broken, differ = disagreements(replace(EVERY, kinds=kinds, writes=2, partitions=2))
    assert not differ
    assert total > 100 and not broken
    skew = replace(EVERY, kinds=(("delete", COW), ("merge-insert", "")), writes=3, compactions=0, keys=1)
    total, broken, differ = disagreements(skew)
    assert not differ
    assert broken


def test_they_agree_on_the_operations_of_other_engines() -> None:
    kinds = (
        ("update-register", COW),
        ("delete", MOR),
        *((f"pyiceberg {kind}", COW) for kind in ("update-register", "delete")),
        *((f"duckdb {kind}", MOR) for kind in ("update-register", "delete")),
        ("flink upsert", ""),
        ("committer delete", MOR),
    )
    total, broken, differ = disagreements(replace(EVERY, kinds=kinds, writes=2, compactions=0, serializable=False))
    assert not differ
    assert total > 100 and broken >= 5


def test_they_agree_in_a_table_of_two_partitions() -> None:
    total, _, differ = disagreements(replace(EVERY, writes=2, partitions=2))
    assert not differ
    assert total > 100


@pytest.mark.parametrize("without", [(), ("deletes of replaced files",)])
@pytest.mark.parametrize("mode", ["", OWN_SEQUENCE])
def test_they_agree_on_compactions_beside_equality_deletes(mode: str, without: tuple[Rule, ...]) -> None:
    kinds = (("insert", ""), ("equality-delete", ""), (COMPACTION, mode))
    total, broken, differ = disagreements(replace(EVERY, kinds=kinds, without=frozenset(without)))
    assert not differ
    assert total > 50 and bool(broken) == (not mode or bool(without))
