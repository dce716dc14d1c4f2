"""The fixed facts of a run, known before anything starts: workload, settings, folder, watcher."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from checkers.evidence.runfolder import RunFolder
from compose.catalogs import user_file
from compose.external.external import External, external
from compose.install.installation import Installation
from compose.redaction import Redaction, secrets_of
from harness.run.settings import Settings, Watcher
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
    """

    workload: Workload
    folder: RunFolder
    installation: Installation
    settings: Settings
    watcher: Watcher
    external: External
    hide: Redaction
    run_id: str

    @property
    def namespace(self) -> str:
        """The namespace of the tables under test, in the catalog."""
        return f"iq_{self.run_id}"

    @property
    def maintainers(self) -> int:
        """Number of additional writers, for the nemesis."""
        nemesis = self.workload.nemesis
        return int(nemesis is not None and any(f.verb == "maintain" for f in nemesis.all()))

    @property
    def writers(self) -> int:
        """Number of all writers: the workload's and the nemesis's."""
        return self.workload.writers + self.maintainers

    def shares(self, items: Sequence[T]) -> list[list[T]]:
        """Divide the items among the workload's writers."""
        return [list(items[n :: self.workload.writers]) for n in range(self.workload.writers)]

    def say(self, text: str) -> None:
        """Report to the watcher, without secrets."""
        self.watcher.say(self.hide.text(text))


def context_of(
    workload: Workload, folder: RunFolder, installation: Installation, settings: Settings, watcher: Watcher
) -> RunContext:
    """The context of a new run; the catalog may be the user's own file.

    Raises:
        ExternalError, WorkloadError: the user's file cannot be used.
    """
    theirs = settings.external
    if theirs.catalog is None and user_file.is_file(workload.catalog):
        theirs = external(user_file.load(Path(workload.catalog)), None, None)
    hide = Redaction((*theirs.secrets, *secrets_of(workload.catalog_properties)))
    return RunContext(workload, folder, installation, settings, watcher, theirs, hide, secrets.token_hex(6))
