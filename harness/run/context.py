"""The fixed facts of a run, known before anything starts: workload, settings, folder, watcher."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checkers.evidence.runfolder import RunFolder
from compose.catalogs import user_file
from compose.endpoints import cluster_of
from compose.external.external import External, external
from compose.install.installation import Installation
from compose.redaction import Redaction, secrets_of, too_short
from harness.run.hidden import revealed
from harness.run.settings import Settings, Watcher
from workloads.engines.engines import ENGINES, SPARK
from workloads.file.mode import Mode
from workloads.file.workload import Workload

T = TypeVar("T")


@dataclass(frozen=True)
class RunContext:
    """One run of a workload.

    Attributes:
        folder: where its evidence goes.
        external: services that the user supplies; never started here.
        hide: removes the run's secrets from a text before it is shown or written.
        run_id: marks its processes and its namespace.
        too_short: what the user is told of secrets that are too short to be searched for.
    """

    workload: Workload
    folder: RunFolder
    installation: Installation
    settings: Settings
    watcher: Watcher
    external: External
    hide: Redaction
    run_id: str
    too_short: str | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the tables under test, in the catalog."""
        return f"iq_{self.run_id}"

    @property
    def maintains(self) -> bool:
        """Whether the nemesis has operations of its own."""
        nemesis = self.workload.nemesis
        return nemesis is not None and any(f.verb == "maintain" for f in nemesis.all())

    @property
    def own_writers(self) -> int:
        """Number of additional Spark writers: one for the nemesis's operations, and for what no writer of the workload can do."""
        return int(self.maintains or SPARK not in self.workload.engines)

    @property
    def engines(self) -> tuple[str, ...]:
        """The engine of every writer, the additional ones last."""
        return (*self.workload.engines, *(SPARK for _ in range(self.own_writers)))

    @property
    def writers(self) -> int:
        """Number of all writers: the workload's and the additional ones."""
        return len(self.engines)

    def able(self, f: str, *, besides: bool = False) -> tuple[int, ...]:
        """The writers that can do a kind of operation on every table. An additional writer is among them only if nobody else is Spark's.

        Args:
            besides: also those of other engines than Spark.
        """
        writers = range(self.workload.writers) if SPARK in self.workload.engines else range(self.writers)
        return tuple(
            n
            for n in writers
            if (besides or self.engines[n] == SPARK)
            and all(ENGINES[self.engines[n]].can(f, table) for table in self.workload.tables)
        )

    def shares(self, items: Sequence[T], among: Sequence[int]) -> list[list[T]]:
        """Divide the items among some of the writers: for each writer its share."""
        shares = {n: list(items[rank :: len(among)]) for rank, n in enumerate(among)}
        return [shares.get(n, []) for n in range(self.writers)]

    def say(self, text: str) -> None:
        """Report to the watcher, without secrets."""
        self.watcher.say(self.hide.text(text))


def context_of(
    workload: Workload, folder: RunFolder, installation: Installation, settings: Settings, watcher: Watcher
) -> RunContext:
    """The context of a new run; the catalog may be the user's own file. Properties that a recorded plan hides come from the environment.

    Raises:
        ExternalError, WorkloadError: the user's file cannot be used.
        RunError: a hidden property is not in the environment.
    """
    properties = revealed(workload.catalog_properties)
    workload = workload.model_copy(update={"catalog_properties": properties})
    supplied = settings.external
    if supplied.catalog is None and user_file.is_file(workload.catalog):
        supplied = external(user_file.load(Path(workload.catalog)), None, None)
    if supplied.master is not None:
        workload = workload.in_mode(Mode(workload.session, cluster_of(supplied.master)))
    known = supplied.secrets | secrets_of(properties)
    return RunContext(
        workload,
        folder,
        installation,
        settings,
        watcher,
        supplied,
        Redaction(known),
        secrets.token_hex(6),
        too_short(known),
    )
