"""What a model found, as the operations of a history that a page draws."""

from checkers.formats.iceberg.model.catalogs import MODEL_CATALOGS, Fault
from checkers.formats.iceberg.model.faults import search
from checkers.formats.iceberg.model.lanes import of_log, of_way, told
from checkers.formats.iceberg.model.logtree import Bound
from checkers.formats.iceberg.model.search import search as search_logs
from checkers.formats.iceberg.model.ways import Faulty
from tests.checkers.formats.iceberg.model.test_model import COW, TWO


def test_an_operation_lasts_from_the_version_that_it_scanned_to_its_commit() -> None:
    log = search_logs(Bound(TWO, writes=2, serializable=False)).found["undelete"]
    verdict, history = told("undelete", "snapshot", [of_log("undelete", log)] * 2, ["all orders"])
    update, delete, *_ = history.operations()
    assert (update.f, delete.f) == ("update-register", "delete")
    assert update.end is not None and delete.end is not None
    assert delete.start < update.end < delete.end, "it has scanned the start, and commits last"
    first, second = verdict.anomalies
    assert first.ops == ("1.2", "1.1") and second.ops == ("2.2", "2.1") and verdict.valid is False
    later = [o for o in history.operations() if o.op.startswith("2.")]
    assert min(o.start for o in later) > delete.end, "each counterexample has its own time"


def test_a_way_has_its_steps_and_what_became_of_each_operation() -> None:
    bound = Bound((("insert", ""), ("delete", COW)), writes=2)
    ends: dict[Fault, set[str]] = {"lock expired": {"ok", "info"}, "late": {"ok"}}
    for fault, types in ends.items():
        faulty = Faulty(bound, MODEL_CATALOGS["hive"], writers=2, only=frozenset({fault}))
        way = search(faulty).found["lost-commit"]
        _, history = told("hive", "serializable", [of_way("lost-commit", way, faulty.operations())], [])
        operations = history.operations()
        assert {o.type for o in operations} == types
        assert any("late request arrives" in str(o.result) for o in operations) == (fault == "late")


def test_a_model_that_finds_nothing_has_no_lane() -> None:
    verdict, history = told("m", "serializable", [], ["every promise holds"])
    assert verdict.valid is True and not history.events and verdict.notes == ("every promise holds",)
