"""What ``icequake prove`` shows: a table of scenarios, the story of each, and its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
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


FOUND = ("reproduced", "back")
"""States of a proof that showed what its scenario is about."""


def releases(scenarios: Iterable[Scenario], proven: Mapping[str, Sequence[Proof]]) -> Table:
    """Scenario × release: how often the release showed it. ``proven``: release → its proofs."""
    found = [(s.scenario, release, _times(_of(s, proofs))) for s in scenarios for release, proofs in proven.items()]
    return plain_table(("scenario", "release", "what came of it"), found)


def _of(scenario: Scenario, proofs: Iterable[Proof]) -> list[Proof]:
    return [p for p in proofs if p.scenario == scenario.scenario]


def _times(proofs: Sequence[Proof]) -> str:
    ran = [p for p in proofs if p.state != "not run"]
    if not ran:
        return "; ".join(["could not run", *(proofs[0].why if proofs else ())])
    found = sum(p.state in FOUND for p in ran)
    return f"found {found} of {len(ran)}" if found else "not found" + (f" in {len(ran)} runs" if len(ran) > 1 else "")


def occurs(scenario: Scenario, proven: Mapping[str, Sequence[Proof]]) -> str:
    """From which to which of the releases that ran a scenario shows, in a sentence."""
    ran = {r: [p.state in FOUND for p in _of(scenario, x) if p.state != "not run"] for r, x in proven.items()}
    spans: list[tuple[bool, list[str]]] = []
    for release in sorted((r for r in ran if ran[r]), key=lambda r: [int(n) for n in re.findall(r"\d+", r)[:3]]):
        if not spans or spans[-1][0] is not any(ran[release]):
            spans.append((any(ran[release]), []))
        spans[-1][1].append(release)
    seen = [_span(names) for found, names in spans if found]
    not_seen = [_span(names) for found, names in spans if not found]
    away = [r for r in ran if not ran[r]]
    said = f"{scenario.scenario} occurs {' and '.join(seen)}" if seen else f"{scenario.scenario} does not occur"
    said += f"{', not' if seen else ''} {' and '.join(not_seen)}" if not_seen else ""
    return said + (f"; it could not run with {', '.join(away)}." if away else ".")


def _span(names: Sequence[str]) -> str:
    return f"in {names[0]}" if len(names) == 1 else f"from {names[0]} to {names[-1]}"


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


def releases_json(proven: Mapping[str, Sequence[Proof]], found: Mapping[str, dict[str, str]]) -> str:
    """The same of several releases: the versions of each, and the release of each proof."""
    proofs = [{"release": release, **asdict(p)} for release, each in proven.items() for p in each]
    return json.dumps({"versions": dict(found), "proofs": proofs}, indent=1) + "\n"
