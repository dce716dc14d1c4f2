"""Which anomalies entries of ``expect``, ``allow`` and ``known`` accept: by name, by checker, by table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from checkers.evidence.evidence import Evidence
from checkers.evidence.plan import Plan
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import RunFolder
from checkers.judge.accepted import BY_LEVEL, FINDERS, AcceptedAnomalies, covers, everything_named, least
from checkers.judge.check import ALL, check
from checkers.judge.runfolder import Promises, Results, load_promises
from checkers.nights.night import Night
from checkers.nights.record import LINES, AnomalyCount, NightRun, failing, tally
from checkers.selftest.recorded import as_seen
from checkers.verdict import Anomaly, Verdict
from harness.run.resolve import read_scenario, read_suite
from tests.support.simulator import Defects, simulate
from workloads.file import scenario, suite
from workloads.file.anomalies import AnomalyEntry, entries_of
from workloads.file.suite import Cell
from workloads.tables import TableSpec

LAX = TableSpec(name="lax", mode="merge-on-read", isolation="snapshot", partitions=2, seed_rows=4)
STRICT = TableSpec(name="strict", mode="merge-on-read", isolation="serializable", partitions=2, seed_rows=4)
MIXED = [LAX, STRICT]


def without_compare_and_swap() -> Evidence:
    """A run on a catalog that accepted two swaps of one version, as the proxies saw; whose commit was lost, nobody was told."""
    e = as_seen(simulate(0, [TableSpec(name="t", mode="merge-on-read", partitioned=False)]).evidence())
    first = e.swaps["t"][3]
    rival = replace(first, op="rival", new=first.new.replace(".metadata", "-rival.metadata"), time=first.time + 1)
    return replace(e, swaps={"t": (*e.swaps["t"], rival)})


def skewed() -> Evidence:
    """A run in which Iceberg accepted write skew on a serializable table; beside it is one at snapshot isolation."""
    runs = (simulate(seed, MIXED, ops=25, defects=Defects(skew=1.0)).evidence() for seed in range(60))
    return next(e for e in runs if {(a.name, a.table) for a in found(check(e))} >= {("write-skew", "strict")})


def found(results: Results) -> list[Anomaly]:
    return [a for a in results.anomalies if a.same_as is None]


def allowing(e: Evidence, *entries: str | Mapping[str, Any]) -> Results:
    return check(e, ALL, Promises(allow=entries_of(*entries)))


def test_allowing_a_lost_update_does_not_make_a_catalog_without_compare_and_swap_valid() -> None:
    e = without_compare_and_swap()
    assert {(a.checker, a.name) for a in found(check(e))} == {("pointer", "lost-update")}
    for meant in ("lost-update", "isolation/lost-update", {"name": "lost-update", "tables": ["t"]}):
        results = allowing(e, meant)
        assert results.valid is False and not results.accepted.swallowed(results.anomalies), meant
    (said,) = allowing(e, "lost-update").notes
    assert said == (
        "allow: lost-update does not cover lost-update of pointer on t: lost-update is a name of replay, isolation, pointer, and "
        "pointer found this one. If it may be found, write pointer/lost-update"
    )
    assert allowing(e, "isolation/lost-update").notes == (), "it means another one"
    results = allowing(e, "pointer/lost-update")
    assert results.valid is True and results.notes == ()
    assert results.to_json()["swallowed"] == [
        {
            "key": "allow",
            "entry": "pointer/lost-update",
            "name": "lost-update",
            "checker": "pointer",
            "count": 1,
            "tables": ["t"],
        }
    ]


def test_allowing_write_skew_for_a_table_at_snapshot_does_not_allow_it_on_a_serializable_one() -> None:
    e = skewed()
    (table,) = {a.table for a in found(check(e)) if a.name == "write-skew"}
    assert table == "strict"
    for meant in ("write-skew", "replay/write-skew", {"name": "write-skew", "tables": ["lax"]}):
        assert allowing(e, meant).valid is False, meant
    assert allowing(e, "write-skew").notes == (
        "allow: write-skew does not cover write-skew of replay on strict: strict promises to be serializable, other tables promise "
        "snapshot isolation, and write-skew depends on that. If it may be found, write {name: write-skew, tables: [strict]}",
    )
    assert allowing(e, {"name": "write-skew", "tables": ["lax"]}).notes == ()
    assert allowing(e, {"name": "write-skew", "tables": ["strict"]}).valid is True
    alone = replace(e, tables={**e.tables, "lax": STRICT.model_copy(update={"name": "lax"})})
    assert allowing(alone, "write-skew").notes == (), "all tables promise the same, so the name says it all"


def an(name: str, checker: str, table: str | None, documented: bool = False, same_as: str | None = None) -> Anomaly:
    return Anomaly(name, checker, table, "", documented="https://x" if documented else None, same_as=same_as)


@pytest.mark.parametrize(
    ("entry", "anomaly", "covered"),
    [
        # a name alone
        ("lost-commit", an("lost-commit", "commits", "lax"), True),
        ("lost-commit", an("lost-commit", "commits", "strict"), True),
        ("lost-commit", an("lost-commit", "commits", None), True),
        ("lost-commit", an("undelete", "replay", "lax"), False),
        ("lost-update", an("lost-update", "pointer", "lax"), False),
        ("lost-update", an("lost-update", "replay", "lax"), False),
        ("lost-update", an("lost-update", "replay", "lax", documented=True), True),
        ("lost-update", an("lost-update", "replay", "strict", documented=True), True),
        ("missing-file", an("missing-file", "metadata", "lax"), False),
        ("fractured-read", an("fractured-read", "atomicity", None), False),
        ("undelete", an("undelete", "replay", "lax"), True),
        ("undelete", an("undelete", "replay", "strict"), False),
        ("undelete", an("undelete", "replay", "strict", documented=True), True),
        ("G2", an("G2", "isolation", "strict"), False),
        ("G0", an("G0", "isolation", "strict"), True),
        # with the checker
        ("pointer/lost-update", an("lost-update", "pointer", "strict"), True),
        ("isolation/lost-update", an("lost-update", "pointer", "strict"), False),
        ("isolation/lost-update", an("lost-update", "replay", "lax", documented=True), False),
        ("replay/write-skew", an("write-skew", "replay", "strict"), False),
        # with the tables
        ({"name": "write-skew", "tables": ["strict"]}, an("write-skew", "replay", "strict"), True),
        ({"name": "write-skew", "tables": ["lax"]}, an("write-skew", "replay", "strict"), False),
        ({"name": "write-skew", "tables": ["lax"]}, an("write-skew", "replay", "strict", documented=True), False),
        ({"name": "write-skew", "tables": ["lax", "strict"]}, an("write-skew", "replay", "strict"), True),
        ({"name": "lost-update", "tables": ["lax"]}, an("lost-update", "pointer", "lax"), False),
        ({"name": "lost-commit", "tables": ["lax"]}, an("lost-commit", "commits", None), False),
        # with both
        ({"name": "lost-update", "checker": "pointer", "tables": ["lax"]}, an("lost-update", "pointer", "lax"), True),
        ({"name": "pointer/lost-update", "tables": ["lax"]}, an("lost-update", "pointer", "strict"), False),
        # what confirms it
        ("undelete", an("lost-update", "isolation", "lax", same_as="undelete"), True),
        ("undelete", an("lost-update", "isolation", "strict", same_as="undelete"), False),
        ("pointer/lost-update", an("nonlinearizable", "linearizable", "lax", same_as="lost-update"), True),
        ("lost-update", an("nonlinearizable", "linearizable", "lax", same_as="lost-update"), False),
        ("undelete", an("undelete", "replay", "lax", same_as="stale-read"), True),
    ],
)
def test_an_entry_covers_what_it_names_and_no_more(
    entry: str | dict[str, Any], anomaly: Anomaly, covered: bool
) -> None:
    (one,) = entries_of(entry)
    accepted = AcceptedAnomalies.of((), (one,), MIXED)
    assert (accepted.mark(anomaly) == "allowed") is covered
    assert covers(one, anomaly, anomaly.table == "strict") is covered


@pytest.mark.parametrize("name", sorted(FINDERS))
def test_the_entry_that_a_note_names_covers_it(name: str) -> None:
    for checker in FINDERS[name]:
        for table in ("lax", "strict", None):
            anomaly = an(name, checker.name, table)
            assert AcceptedAnomalies.of((), (least(anomaly, table == "strict"),), MIXED).mark(anomaly)
            accepted = AcceptedAnomalies.of((), entries_of(name), MIXED)
            notes = accepted.too_little([anomaly])
            assert len(notes) == (not accepted.mark(anomaly))
            for note in notes:
                written = note.rpartition("write ")[2]
                entry = _yaml(written)
                assert AcceptedAnomalies.of((), (entry,), MIXED).mark(anomaly) == "allowed", written
            if table is not None:
                assert AcceptedAnomalies.of((), everything_named(name, MIXED), MIXED).mark(anomaly) == "allowed"


def _yaml(text: str) -> AnomalyEntry:
    return AnomalyEntry.model_validate(yaml.safe_load(text))


def test_what_depends_on_the_level_is_legal_or_documented_at_snapshot_isolation() -> None:
    assert {"write-skew", "undelete", "G2-item", "G2", "G-single-realtime"} <= BY_LEVEL
    assert not BY_LEVEL & {"lost-update", "lost-commit", "G0", "G1c", "G-single", "missing-file"}


@pytest.mark.parametrize(
    ("properties", "isolation", "strict"),
    [
        ({}, "serializable", True),
        ({"write.update.isolation-level": "snapshot"}, "serializable", True),
        ({"write.delete.isolation-level": "SERIALIZABLE"}, "snapshot", True),
        ({"write.delete.isolation-level": "snapshot"}, "snapshot", False),
        ({"write.delete.mode": "serializable"}, "snapshot", False),
    ],
)
def test_a_table_is_stricter_if_it_promises_anything_to_be_serializable(
    properties: dict[str, str], isolation: str, strict: bool
) -> None:
    other = TableSpec.model_validate({"name": "strict", "isolation": isolation, "properties": properties})
    anomaly = an("write-skew", "replay", "strict")
    assert (AcceptedAnomalies.of((), entries_of("write-skew"), [LAX, other]).mark(anomaly) == "") is strict


def test_an_expected_entry_is_met_by_its_own_checker_and_table_alone() -> None:
    e = without_compare_and_swap()
    assert check(e, ALL, Promises(entries_of("pointer/lost-update"))).valid is True
    results = check(e, ALL, Promises(entries_of("isolation/lost-update"), allow=entries_of("pointer/lost-update")))
    assert results.valid is False
    assert [a.evidence for a in results.anomalies if a.checker == "expect"] == [{"expected": "isolation/lost-update"}]
    named = check(e, ALL, Promises(entries_of("lost-update")))
    assert named.valid is False and named.notes and all(a.checker != "expect" for a in named.anomalies)


@pytest.mark.parametrize(
    "written",
    ["undelete", "isolation/lost-update", {"name": "write-skew", "tables": ["lax"]}, {"name": "a/b", "tables": ["t"]}],
)
def test_an_entry_is_written_as_it_was_read(written: str | dict[str, Any], tmp_path: Path) -> None:
    (entry,) = entries_of(written)
    assert entry.model_dump() == written and entry.model_dump(mode="json") == written
    assert _yaml(str(entry)) == entry
    plan = Plan.model_validate({"workload": "w", "expect": [written], "allow": [written]})
    folder = RunFolder(tmp_path)
    folder.write_plan(plan)
    assert yaml.safe_load(folder.plan.read_text())["allow"] == [written]
    assert folder.read_plan() == plan and load_promises(tmp_path) == Promises((entry,), {}, (entry,))


def test_the_checker_may_be_in_the_name_or_beside_it() -> None:
    beside = {"name": "lost-update", "checker": "pointer", "tables": ["t"]}
    assert entries_of(beside) == entries_of({"name": "pointer/lost-update", "tables": ["t"]})


@pytest.mark.parametrize(
    "written", [5, None, [], "a/", "/a", "a/b/c", {}, {"name": "a/b", "checker": "c"}, {"name": "a", "tables": []}]
)
def test_what_is_no_entry_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        entries_of(written)


# --- the library ------------------------------------------------------------------------------------------------------


def unclear(entry: AnomalyEntry) -> bool:
    """Whether an entry without a checker may mean those of several, which nothing documents."""
    return entry.checker is None and len(FINDERS[entry.name]) > 1


@pytest.mark.parametrize("path", scenario.paths([]), ids=lambda p: p.stem)
def test_no_scenario_of_the_library_says_less_than_it_means(path: Path) -> None:
    s = read_scenario(path)
    assert not [str(e) for e in (*s.anomalies, *s.allow) if unclear(e)]


@pytest.mark.parametrize("path", sorted(suite.LIBRARY.glob("*.yaml")), ids=lambda p: p.stem)
def test_no_suite_of_the_library_says_less_than_it_means(path: Path) -> None:
    assert not [str(e) for k in read_suite(path).suite.known for e in k.anomaly if unclear(e)]


# --- nights -----------------------------------------------------------------------------------------------------------

SUITE = """\
suite: tiny
cells: {workloads: [quick], catalogs: [rest], faults: [none]}
known:
  - {anomaly: %s, link: "https://example.org/1"}
"""
CELL = Cell("quick", "rest", "none", "1.12.0", "")


def a_night(folder: Path, known: str, results: Results) -> Night:
    seen = failing(results)
    line = NightRun(CELL, 0, 7, "2026-11-22T18:00:00", "invalid", tally(seen), seen=seen)
    assert LINES.decode(json.loads(json.dumps(LINES.encode(line)))) == line
    return Night(folder, suite.parse(SUITE % known)[0], 1, (CELL,), (line,))


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ("lost-update", {"lost-update": 1}),
        ("isolation/lost-update", {"lost-update": 1}),
        ("[lost-commit, pointer/lost-update]", {}),
        ("{name: pointer/lost-update, tables: [t]}", {}),
        ("{name: pointer/lost-update, tables: [u]}", {"lost-update": 1}),
    ],
)
def test_a_known_anomaly_is_known_by_checker_and_table(tmp_path: Path, known: str, new: dict[str, int]) -> None:
    night = a_night(tmp_path, known, check(without_compare_and_swap()))
    assert night.new_of(night.lines[0]) == new
    assert night.verdict is (not new)
    said = [n for n in night.too_little if n.endswith("write pointer/lost-update")]
    assert len(night.too_little) == len(said) == (known == "lost-update")


def test_what_is_known_of_a_table_at_snapshot_is_new_on_a_serializable_one(tmp_path: Path) -> None:
    results = Results((Verdict("replay", False, (an("write-skew", "replay", "strict"),)),), False)
    mixed = replace(results, accepted=AcceptedAnomalies.of((), (), MIXED))
    night = a_night(tmp_path, "write-skew", mixed)
    assert night.verdict is False and "{name: write-skew, tables: [strict]}" in night.too_little[0]
    assert a_night(tmp_path, "write-skew", results).verdict is True, "no table promises less"


def test_a_line_that_does_not_say_who_found_it_is_known_by_name(tmp_path: Path) -> None:
    line = NightRun(CELL, 0, 7, "2026-11-22T18:00:00", "invalid", {"lost-update": 2})
    for known, new in (("lost-update", {}), ("pointer/lost-update", {}), ("lost-commit", {"lost-update": 2})):
        night = Night(tmp_path, suite.parse(SUITE % known)[0], 1, (CELL,), (line,))
        assert night.new_of(line) == new
    assert line.kinds == (AnomalyCount("lost-update", count=2),)
