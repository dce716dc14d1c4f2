"""What ``icequake prove`` shows: a table of scenarios, the story of each, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from checkers.judge.proof import PROOF_WORDS, Proof
from reports.drawing.page import Table, plain_table
from workloads.file.scenario import Scenario

MISSING = "expected-not-found"
"""What a run says of a defect that it does not show."""


def rows(scenarios: Iterable[Scenario], proofs: Sequence[Proof]) -> list[tuple[str, str, str, str]]:
    """The table at the end: scenario, what came of it, how often, and what must be seen or why it was not."""
    out = []
    for s in scenarios:
        own = [p for p in proofs if p.scenario == s.scenario]
        worst = min(own, key=lambda p: (p.as_said, p.state != "not run"))
        share = f"{sum(p.as_said for p in own)} of {len(own)}"
        seen = ", ".join(map(str, s.anomalies)) or "no anomaly"
        out.append((s.scenario, PROOF_WORDS[worst.state], share, "; ".join(worst.why) or seen))
    return out


def table(scenarios: Iterable[Scenario], proofs: Sequence[Proof]) -> Table:
    """:func:`rows`, with their names."""
    return plain_table(("scenario", "", "as expected", "what was seen, or why not"), rows(scenarios, proofs))


def story(scenario: Scenario, proof: Proof) -> list[str]:
    """What a scenario is, what was done and what was found, in full: paragraphs."""
    out = [f"{scenario.headline}. {scenario.description}" if scenario.headline else scenario.description]
    out.append(f"Affected: {scenario.affected}. {scenario.link}")
    mended = proof.state == "fixed"
    if mended:
        out.append(f"This version has the fix, which came with {scenario.fixed}: nothing to do.")
    elif scenario.remedy:
        out.append(f"Remedy: {scenario.remedy}")
    out += [f"Struck: {s}" for s in proof.struck]
    return out + [f"{name}: {text}" for name, text in proof.found.items() if not (mended and name == MISSING)]


def to_json(proofs: Sequence[Proof], found: dict[str, str]) -> str:
    """All proofs as JSON, with the versions that ran."""
    return json.dumps({"versions": found, "proofs": [asdict(p) for p in proofs]}, indent=1) + "\n"
