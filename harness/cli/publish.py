"""What a command writes of a run that it judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.evidence.evidence import Evidence
    from checkers.evidence.runfolder import RunFolder
    from reports.run.stored import Stored


def publish(folder: RunFolder, evidence: Evidence) -> Stored:
    """Write the JUnit file and the page of a judged run; return what they show."""
    from reports.run import junit, page, stored

    shown = stored.load(folder.path, evidence)
    junit.write(shown)
    shown = replace(shown, files=stored.files_of(folder.path))  # now includes the JUnit file
    page.write(shown)
    return shown
