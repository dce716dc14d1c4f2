"""Workload and scenario files with every name in them looked up, those of anomalies, too.

``workloads.file.workload`` and ``workloads.file.scenario`` know the names of operations, tables and faults. Only the checkers
know the names of anomalies, and they stand above those files. So it is looked up here, and all that is wrong with a file is said at once.

The command line can change what a file says. A clock or a fault of a writer that is no longer there after ``--writers`` would do nothing,
so the names of such a changed workload are looked up again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from checkers.judge.check import ANOMALIES
from workloads.file import scenario
from workloads.file import workload as schema
from workloads.file.scenario import Scenario
from workloads.file.workload import Workload
from workloads.file.yamlfile import KeyPath, Lines, Problem, read_text, refuse, suggest


@dataclass(frozen=True)
class WorkloadFile:
    """A workload file that was read.

    Attributes:
        workload: what it says.
        lines: the line of every key.
        path: where it is.
    """

    workload: Workload
    lines: Lines
    path: Path

    def changed(self, workload: Workload, options: str) -> Workload:
        """What the file says after ``options`` of the command line have made it ``workload``.

        Raises:
            WorkloadError: something in the file does not go with the options.
        """
        wrong = schema.problems(workload, str(self.path))
        refuse(((at, f"with {options}: {message}") for at, message in wrong), self.lines, str(self.path))
        return schema.placed(workload, self.path)


def read_workload(path: Path) -> WorkloadFile:
    """Read a workload file and look up every name in it.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    workload, lines = schema.shape(read_text(path), str(path))
    wrong = [*schema.problems(workload, str(path)), *_unknown_anomalies("expect", workload.expect)]
    refuse(wrong, lines, str(path))
    return WorkloadFile(workload, lines, path)


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file and look up every name in it.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    found, lines = scenario.shape(read_text(path), str(path))
    refuse([*scenario.problems(found), *_unknown_anomalies("anomalies", found.anomalies)], lines, str(path))
    return found


def _unknown_anomalies(key: str, names: tuple[str, ...]) -> Iterator[Problem]:
    allowed = sorted(ANOMALIES)
    for i, name in enumerate(names):
        if name not in ANOMALIES:
            at: KeyPath = (key, i)
            yield at, f"{key}: unknown anomaly {name!r}{suggest(name, allowed)}; allowed: {', '.join(allowed)}"
