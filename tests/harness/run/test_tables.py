"""What a run leaves in a user's catalog, and how it is dropped."""

from __future__ import annotations

from harness.run.tables import drop_commands
from workloads.file.workload import Workload, find
from workloads.file.workload_text import load


def test_side_tables_are_dropped_before_their_namespace_if_the_run_makes_any() -> None:
    made = drop_commands("mine", "iq_1", load(find("side-tables")))
    assert [line.split()[-2 if "PURGE" in line else -1] for line in made] == [
        "mine.iq_1.t",
        "mine.iq_1.t_side0",
        "mine.iq_1.t_side1",
        "mine.iq_1",
    ]
    plain: Workload = load(find("contention"))
    assert [line.split()[1] for line in drop_commands("mine", "iq_1", plain)] == ["TABLE", "NAMESPACE"]
