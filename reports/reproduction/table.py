"""The table of docs/exported.md: every scenario, and whether it can be a script. ``python -m reports.reproduction.table`` writes it again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from reports.reproduction.exportable import EXPORTABLE_CATALOGS, why_not
from reports.reproduction.script import pinned
from workloads.file.scenario import LIBRARY, Scenario, load

BEGINS, ENDS = "| scenario | script | needs, or why not |", "\n\n"


def table(scenarios: Iterable[Scenario]) -> str:
    """The table in Markdown."""
    lines = [BEGINS, "|---|---|---|"]
    for s in scenarios:
        link = f"[`{s.scenario}`](../workloads/scenarios/{s.scenario}.yaml)"
        if (why := why_not(s)) is not None:
            lines.append(f"| {link} | not exportable | {why} |")
        else:
            settings = [", ".join(pinned(s)), EXPORTABLE_CATALOGS[s.catalog]]
            lines.append(f"| {link} | ok | {'; '.join(filter(None, settings))} |")
    return "\n".join(lines)


def written_again(page: str, scenarios: Iterable[Scenario]) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGINS)
    _, _, after = rest.partition(ENDS)
    return f"{before}{table(scenarios)}{ENDS}{after}".rstrip() + "\n"


if __name__ == "__main__":
    file = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/exported.md")
    file.write_text(written_again(file.read_text(), [load(p) for p in sorted(LIBRARY.glob("*.yaml"))]))
