"""What each catalog's client does, explored step by step: the known defects are found without being told, and what mends them is clean."""

from dataclasses import replace
from typing import Any, get_args

import pytest
import yaml
from minicheck import Protocol, check_safety

from checkers.formats.iceberg.model import catalogs
from checkers.formats.iceberg.model.catalogs import MODEL_CATALOGS, Fault
from checkers.formats.iceberg.model.faults import WaySearch, search
from checkers.formats.iceberg.model.logtree import Bound, Log, LogEntry, logs
from checkers.formats.iceberg.model.scenario import of_way
from checkers.formats.iceberg.model.ways import Faulty, ModelState, Repeats
from tests.checkers.formats.iceberg.model.test_model import ALL, COW, MOR, TWO
from workloads.file import modelled
from workloads.file.scenario import parse

SMALL = Bound(ALL, writes=2, keys=1)


@pytest.mark.parametrize(
    ("catalog", "finds"),
    [
        ("ideal", set()),
        ("none", {"lost-commit"}),
        ("jdbc", {"lost-commit", "missing-file"}),
        ("jdbc-mended", set()),
        ("rest", {"lost-commit", "missing-file"}),
        ("rest-mended", set()),
        ("hive", {"lost-commit"}),
        ("hive-cas", set()),
        ("glue-blind", {"lost-commit"}),
        ("glue", set()),
    ],
)
def test_what_a_catalog_and_its_client_lose(catalog: str, finds: set[str]) -> None:
    assert {*search(Faulty(SMALL, MODEL_CATALOGS[catalog], writers=2)).found} == finds


@pytest.mark.parametrize(
    ("catalog", "fault", "finds"),
    [
        ("jdbc", "reply lost", {"lost-commit", "missing-file"}),
        ("rest", "reply lost", set()),  # RESTTableOperations looks for its snapshot
        ("rest", "503 after it was applied", {"lost-commit", "missing-file"}),
        ("rest", "sent twice", {"lost-commit", "missing-file"}),
        ("rest", "late", set()),
        ("hive", "reply lost", set()),
        ("hive", "late", {"lost-commit"}),
        ("hive", "lock expired", {"lost-commit"}),
    ],
)
def test_what_one_fault_does(catalog: str, fault: Fault, finds: set[str]) -> None:
    found = search(Faulty(SMALL, MODEL_CATALOGS[catalog], writers=2, only=frozenset({fault})))
    assert {*found.found} == finds
    assert {*found.faults} == {fault}


OF_ONE_TABLE = [name for name, catalog in MODEL_CATALOGS.items() if catalog.together is None]
"""A catalog of transactions is searched by a search of its own."""


@pytest.mark.parametrize("catalog", OF_ONE_TABLE)
def test_without_a_fault_only_a_catalog_that_does_not_compare_loses_a_commit(catalog: str) -> None:
    finds = {"lost-commit"} if catalog in ("none", "glue-blind") else set()
    assert {*search(Faulty(SMALL, MODEL_CATALOGS[catalog], writers=2, faults=0)).found} == finds


def test_a_lost_answer_deletes_live_files_with_one_writer_and_loses_a_commit_with_two() -> None:
    found = search(Faulty(SMALL, MODEL_CATALOGS["jdbc"], writers=2)).found
    assert [m.words for m in found["missing-file"]] == [
        "scan of update-register (copy-on-write) of key 0",
        "refresh, validate",
        "applied, reply lost, sent again, refused",
        "refused by its own commit of added data",
    ]
    assert len(found["lost-commit"]) == 8
    assert found["lost-commit"][-2].words.endswith("main is to go back to its commit")


def test_an_operation_whose_retries_are_used_up_deletes_its_own_live_files() -> None:
    deletes = Bound((("delete", MOR),), writes=1)  # it does not validate against itself
    assert {*search(Faulty(deletes, MODEL_CATALOGS["jdbc"], writers=1, retries=1)).found} == set()
    assert {*search(Faulty(deletes, MODEL_CATALOGS["jdbc"], writers=1, retries=0)).found} == {"missing-file"}


@pytest.mark.parametrize(
    "kinds", [(*TWO, ("insert", "")), (("update-register", COW), ("delete-partition", ""), ("delete", MOR))]
)
@pytest.mark.parametrize("serializable", [True, False])
def test_with_an_ideal_catalog_and_no_fault_the_logs_are_those_of_the_tree(
    kinds: tuple[tuple[str, str], ...], serializable: bool
) -> None:
    """Up to the first broken promise of a log, after which the tree does not go on."""
    bound = Bound(kinds, writes=3, serializable=serializable)
    tree = dict(logs(bound))
    ended = {log for log, name in tree.items() if name not in (None, "dangling-dv")}
    made = _Logs(Faulty(bound, MODEL_CATALOGS["ideal"], writers=3, retries=3, faults=0)).all()
    assert {*tree} == {log for log in made if not any(log[:n] in ended for n in range(1, len(log)))}


class _Logs(WaySearch):
    """A search that keeps the logs that main ever had."""

    def all(self) -> set[Log]:
        """Every log but the empty one; the versions that the operations have scanned are counted in commits."""
        self.kept: set[int] = set()
        self.run()
        return {self._log(line) for line in self.kept} - {()}

    def broken(self, s: ModelState) -> str | None:
        self.kept.add(self.metas[s.pointer].main)
        return super().broken(s)

    def _log(self, line: int) -> Log:
        if not line:
            return ()
        before, _, operation, scan = self.lines[line]
        log = self._log(before)
        o = self.operations[operation]
        return (*log, LogEntry(o, len(log) if o.at_commit else len(self._log(scan))))


def test_every_search_ends_with_idle_writers() -> None:
    for name in OF_ONE_TABLE:
        assert "stuck-operation" not in search(Faulty(SMALL, MODEL_CATALOGS[name], writers=3, faults=2)).found


def test_a_model_file_names_the_catalogs_and_faults_that_there_are() -> None:
    assert get_args(modelled.CatalogName) == (*MODEL_CATALOGS,)
    assert get_args(modelled.Fault) == get_args(catalogs.Fault)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kinds: {insert: []}\nfaults: 2", "m.yaml:4: faults: without a catalog no step of a writer is told apart"),
        ("kinds: {equality-delete: []}\ncatalog: jdbc", "equality-delete: a model with a catalog does not know it"),
    ],
)
def test_what_a_catalog_has_and_has_not(text: str, says: str) -> None:
    with pytest.raises(modelled.WorkloadError) as e:
        modelled.parse(f"model: m\nquestion: What?\n{text}\nwrites: 2\n", "m.yaml")
    assert says in str(e.value)


def test_a_third_writer_and_a_second_key_find_nothing_else() -> None:
    wider = replace(SMALL, kinds=(("delete", MOR), ("update-register", COW)), keys=2)
    assert {*search(Faulty(wider, MODEL_CATALOGS["jdbc"], writers=3)).found} == {"lost-commit", "missing-file"}
    assert search(Faulty(wider, MODEL_CATALOGS["jdbc-mended"], writers=3)).found == {}


@pytest.mark.parametrize("name", ["ideal", "jdbc-mended", "rest-mended", "hive-cas"])
def test_another_model_checker_reaches_the_same_states_and_finds_nothing(name: str) -> None:
    of = Faulty(SMALL, MODEL_CATALOGS[name], writers=2)
    said, mine = by_minicheck(of), search(of)
    assert said["reachable_states"] == mine.states
    assert said["properties"]["kept"]["holds"] and mine.found == {}


@pytest.mark.parametrize("name", ["jdbc", "rest", "glue-blind"])
def test_another_model_checker_finds_a_broken_promise_after_as_many_steps(name: str) -> None:
    of = Faulty(SMALL, MODEL_CATALOGS[name], writers=2)
    said, mine = by_minicheck(of), search(of)
    assert said["reachable_states"] == mine.states
    steps = len(said["properties"]["kept"]["counterexample"]) - 1  # its first entry is the start
    assert steps == min(map(len, mine.found.values()))


def by_minicheck(of: Faulty) -> dict[str, Any]:
    """The same steps, searched by ``minicheck``."""
    here = WaySearch(of)
    return check_safety(  # type: ignore[no-any-return]
        Protocol(
            name="catalog",
            candidate=False,
            fields=ModelState._fields,
            initial=tuple(here.first),
            transitions=lambda s: (
                [] if here.broken(ModelState(*s)) else [(w, tuple(n)) for w, n in here.steps(ModelState(*s))]
            ),
            invariants={"kept": lambda s: here.broken(ModelState(**s)) is None},
        )
    )


def test_a_way_becomes_a_scenario_whose_gate_holds_the_operation_with_the_fault() -> None:
    bound = Bound((("insert", ""), ("delete-partition", "")), writes=2)
    of = Faulty(bound, MODEL_CATALOGS["jdbc"], writers=2)
    text, why = of_way(of, "lost", "lost-commit", search(of).found["lost-commit"])
    assert not why
    made = parse(text)
    (faulty,) = [s for s in made.operations if s.fault is not None]
    (other,) = [s for s in made.operations if s.fault is None]
    assert faulty.fault is not None and faulty.fault.verb == "drop-reply"
    assert (faulty.hold, other.after, made.catalog) == ({other.name: "completed"}, {faulty.name: "held"}, "jdbc")


@pytest.mark.parametrize(
    ("catalog", "only", "why"),
    [
        ("glue-blind", None, "a kind of operation writes in both modes, a table has one for each"),
        ("none", None, "a kind of operation writes in both modes, a table has one for each"),
        ("hive", "lock expired", "no gate stands between the check of a lock and the request"),
    ],
)
def test_every_way_is_a_scenario_or_says_why_not(catalog: str, only: Fault | None, why: str) -> None:
    of = Faulty(SMALL, MODEL_CATALOGS[catalog], writers=2, only=None if only is None else frozenset({only}))
    reasons = set[str]()
    for name, _, way in search(of).mixes:
        text, reason = of_way(of, "way", name, way)
        assert bool(text) != bool(reason)
        assert reason or parse(text).anomalies
        reasons.add(reason)
    assert reasons == ({why} if only else {"", why})


@pytest.mark.parametrize(
    ("fault", "repeats", "finds"),
    [
        ("reply lost", "never", set()),
        ("reply lost", "blindly", {"duplicate-row"}),
        ("reply lost", "if not found", set()),
        ("late", "blindly", {"duplicate-row"}),
        ("late", "if not found", {"duplicate-row"}),  # it comes between the look and the second commit
    ],
)
def test_what_a_client_does_by_doing_again_what_it_does_not_know(
    fault: Fault, repeats: Repeats, finds: set[str]
) -> None:
    kinds = (("insert", ""), ("update-register", MOR), ("delete", COW))
    faulty = Faulty(
        Bound(kinds, writes=3), MODEL_CATALOGS["ideal"], writers=2, only=frozenset({fault}), repeats=repeats
    )
    found = search(faulty).found
    assert {*found} == finds
    for way in found.values():
        assert any(m.words.endswith(", again") for m in way)
        assert of_way(faulty, "again", "duplicate-row", way)[1] == "no real catalog is like that"


def test_who_does_an_operation_again_is_no_writer_of_a_scenario() -> None:
    kinds = (("insert", ""), ("delete", COW))
    faulty = Faulty(
        Bound(kinds, writes=3), MODEL_CATALOGS["rest"], writers=2, only=frozenset({"late"}), repeats="blindly"
    )
    way = search(faulty).found["duplicate-row"]
    assert of_way(faulty, "again", "duplicate-row", way) == ("", "no writer of a scenario does an operation again")


def test_hives_client_sends_again_and_the_first_copy_undoes_who_came_between() -> None:
    """The other one waits for the answer to the second copy, and the first one for the other."""
    kinds = (("insert", ""), ("delete", COW))
    faulty = Faulty(Bound(kinds, writes=2), MODEL_CATALOGS["hive"], writers=2, only=frozenset({"late"}))
    way = search(faulty).found["lost-commit"]
    text, why = of_way(faulty, "late", "lost-commit", way)
    assert not why
    insert, delete = parse(text).operations
    assert [str(e) for e in yaml.safe_load(text)["anomalies"]] == ["lost-commit"]
    assert delete.late and delete.hold == {"insert-1": "completed"} and delete.expect.type == "ok"
    assert insert.after == {"delete-2": "completed"} and insert.hold is None
