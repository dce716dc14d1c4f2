"""What every name of an anomaly means, for docs/anomalies.md and ``icequake explain``.

``python -m reports.names`` prints docs/anomalies.md. A test holds that the page is what it prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from checkers.formats.iceberg.metadata.rules import SPEC_RULES, SpecRule
from checkers.isolation import levels
from checkers.judge.check import ALL
from checkers.judge.repairsteps import RepairStep, repair_words
from checkers.names import OF_HISTORIES, Harm, Meaning, meaning, without_suffixes
from workloads.file import scenario
from workloads.file.scenario import Scenario

_HEAD = """# Anomalies

Every name that a checker of icequake can report: what was seen, how bad it is, who is usually at fault, and what to do. This page is made from
[checkers/names.py](../checkers/names.py) (`python -m reports.names`). `icequake explain NAME` shows one of them.

A name says what was seen and not who did it. The card of each anomaly on a run's page says that, with the operations, snapshots, files and
rows. Whether Iceberg documents an anomaly as possible depends on the table's isolation level, so each card says that, too.
`expected-not-found` is no anomaly of a table: the workload's `expect:` names one that was not found.

The harm, the gravest first:

"""


_ALSO: Mapping[str, tuple[str, str]] = {
    "undelete": (
        "other names",
        "isolation finds the same event as lost-update (the UPDATE's new row does not know of the DELETE), and linearizable as "
        "nonlinearizable (no order of the two leaves the row). A card says so under “also named”; nothing more has happened.",
    ),
    "write-skew": (
        "other names",
        "Adya's names are G2-item, if rows were read, and G2, if a condition was. isolation reports these where it finds the whole "
        "circle of operations; replay reports write-skew, of one operation.",
    ),
    "G2-item": ("other names", "write-skew, where replay finds it: that is one operation of the circle."),
    "lost-update": (
        "beside undelete",
        "where isolation finds both in one event, it is that undelete in other words, and the isolation level is at fault: see "
        "`icequake explain undelete`; `icequake prove undelete` shows both. Found by pointer or replay, it is what stands above.",
    ),
    "nonlinearizable": (
        "beside undelete",
        "where a card names both, it is that undelete in other words, and the isolation level is at fault: see `icequake explain undelete`.",
    ),
}
"""Name → a heading, and which other names mean the same event."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A name of an anomaly with all that is known of it.

    Attributes:
        checkers: names of those that report it; empty for one that only histories of other systems show.
        rule: the sentence of Iceberg's specification that it breaks, if it is one of ``metadata``.
        scenarios: names of those that show it.
    """

    name: str
    meaning: Meaning
    checkers: tuple[str, ...]
    rule: SpecRule | None
    scenarios: tuple[str, ...]

    def facts(self) -> Iterator[tuple[str, str]]:
        """What to know of it, each with its heading."""
        if self.meaning.example:
            yield "for example", f"{self.meaning.example}."
        yield "harm", f"{self.meaning.harm}"
        yield "usually at fault", f"{self.meaning.culprit}"
        if also := _ALSO.get(self.name):
            yield also
        now = repair_words([RepairStep(self.meaning.repair)])
        alone = not self.checkers and self.name in OF_HISTORIES
        remedy = OF_HISTORIES[self.name][1] if alone else self.meaning.remedy
        yield "what to do", f"{now} {remedy}".lstrip()
        if broken := levels.weakest(levels.violated([self.name])):
            yield "forbidden by", f"{', '.join(broken)}, and what implies {'one of them' if len(broken) > 1 else 'it'}"
        if self.rule is not None:
            yield "the rule", f"{self.rule.promise} ({self.rule.section})"
        yield (
            "found by",
            ", ".join(self.checkers) or "`icequake check` of a history of another system",
        )
        if self.name in OF_HISTORIES and self.checkers:
            yield "in other systems", " ".join(OF_HISTORIES[self.name])
        if self.scenarios:
            yield "shown by", f"icequake prove {' '.join(self.scenarios)}"


def names() -> list[str]:
    """All names that a checker can report of a run or of a history, Adya's without suffixes."""
    of_histories = (n for forbidden in levels.FORBIDS.values() for n in forbidden)
    return without_suffixes([*(n for c in ALL for n in c.names), *of_histories, *OF_HISTORIES])


def explained(name: str, library: Iterable[Scenario]) -> Explained | None:
    """All that is known of a name; None if there is no such name."""
    found = meaning(name)
    if found is None:
        return None
    shown = [s.scenario for s in library if any(e.name == name for e in s.anomalies)]
    found_by = tuple(c.name for c in ALL if name in c.names)
    return Explained(name, found, found_by, SPEC_RULES.get(name) if "metadata" in found_by else None, tuple(shown))


def page() -> str:
    """docs/anomalies.md."""
    library = scenario.find([])
    entries = [e for n in names() if (e := explained(n, library)) is not None]
    out = [_HEAD]
    for harm in Harm:
        these = [e for e in entries if e.meaning.harm is harm]
        out.append(
            f"* [{harm}](#{_anchor(harm)}): " + ", ".join(f"[`{e.name}`](#{_anchor(e.name)})" for e in these) + "\n"
        )
    for harm in Harm:
        out.append(f"\n## {harm[0].upper()}{harm[1:]}\n")
        for e in (e for e in entries if e.meaning.harm is harm):
            out.append(f"\n### `{e.name}`\n\n{e.meaning.sentence}\n\n")
            out += [f"* **{heading[0].upper()}{heading[1:]}:** {text}\n" for heading, text in e.facts()]
    return "".join(out)


def _anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


if __name__ == "__main__":
    print(page(), end="")
