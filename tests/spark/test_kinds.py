"""Every kind of operation, through the writer's session, on a real table that was altered on the way."""

from __future__ import annotations

from typing import Any

import pytest

from compose.stack.stack import Stack
from harness.run.tables import CREATE_NAMESPACE, create_table
from harness.writers.session import Session
from harness.writers.slot import request
from workloads.operations.kind import Arguments
from workloads.operations.kinds import KINDS
from workloads.tables import State, TableSpec

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MODE = "spark.sql.sources.partitionOverwriteMode"
AFTER_THE_COLUMN: list[tuple[str, Arguments]] = [
    ("insert", {"ids": [0, 1, 5]}),
    ("insert-select", {"from": 0, "to": 6}),
    ("update-register", {"ids": [1]}),
    ("update-counter-where", {"part": 1, "parity": 0}),
    ("update-append", {"ids": [0]}),
    ("merge-upsert", {"ids": [0, 7]}),
    ("merge-insert", {"ids": [2]}),
    ("merge-delete", {"ids": [7]}),
    ("delete", {"ids": [5]}),
    ("overwrite-partitions", {"ids": [4]}),
    ("overwrite-where", {"part": 1, "ids": [1, 3]}),
    ("overwrite-where", {"part": 0, "ids": []}),
    ("overwrite-partitions", {"ids": [2], "validated": True}),
    ("overwrite-where", {"part": 0, "ids": [0, 6], "validated": True}),
    ("update-counter-by-expression", {"ids": [6]}),
    ("delete-by-expression", {"ids": [6]}),
    ("rename-column", {"column": "extra_1", "to": "extra_2"}),
    ("rewrite-data-files", {"strategy": "zorder", "all": True}),
    ("drop-column", {"column": "extra_2"}),
    ("rewrite-data-files", {"strategy": "binpack", "all": True}),
    ("replace-table", {}),
    ("remove-orphan-files", {"older_than": 3600}),
    ("insert", {"ids": [8]}),
    ("delete-partition", {"part": 1}),
]


def test_every_kind_means_what_it_says_on_an_altered_table(spark: Any, stack: Stack) -> None:
    table = TableSpec(name="altered", mode="merge-on-read", partitions=2)
    session = Session(spark)
    before = spark.conf.get(MODE)

    def run(op: str, f: str, value: Arguments) -> dict[str, Any]:
        statements = KINDS[f].statements(value, op, table)
        answer = session.execute(request(op, statements, catalog="c", namespace="kinds", table=table.name))
        assert answer["ok"], (f, answer)
        assert spark.conf.get(MODE) == before, f
        return answer

    for statements in (CREATE_NAMESPACE, create_table(table)):
        assert session.execute(request("s", statements, catalog="c", namespace="kinds", table=table.name))["ok"]
    state = State()
    run("w0-0", "insert", {"ids": [0, 1, 2, 3]})
    state.apply(*KINDS["insert"].writeset(state, {"ids": [0, 1, 2, 3]}, "w0-0", table))
    for n, (f, value) in enumerate(
        [
            ("add-column", {"column": "extra_1"}),
            ("widen-column", {"column": "extra_1"}),
            ("set-property", {"property": "icequake.p0"}),
            ("create-tag", {"tag": "icequake-0", "back": 0}),
            ("drop-tag", {"tag": "icequake-0"}),
            ("drop-tag", {"tag": "icequake-0"}),
            ("upgrade", {}),
            ("upgrade", {}),
            *AFTER_THE_COLUMN,
        ],
        1,
    ):
        op = f"w0-{n}"
        run(op, f, value)
        state.apply(*KINDS[f].writeset(state, value, op, table))
        rows = run("r", "read", {})["result"]
        assert sorted(map(tuple, rows)) == state.rows(), f
    went = run("w0-back", "rollback", {"back": 1})
    assert went["result"][0][1] == went["bound"]["snapshot"] != went["result"][0][0]
    wrong = KINDS["overwrite-partitions"].statements({"ids": [1]}, "w0-bad", table)
    bad = request("w0-bad", wrong, catalog="c", namespace="kinds", table="nosuchtable")
    assert not session.execute(bad)["ok"] and spark.conf.get(MODE) == before
