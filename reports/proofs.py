"""What ``icequake prove`` shows: a table of scenarios, the story of each, and its JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from checkers.judge.proof import FOUND, MISSING, PROOF_WORDS, Proof, shows
from reports.drawing.page import Table, plain_table
from workloads.file.scenario import Scenario


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


def releases(scenarios: Iterable[Scenario], proven: Mapping[str, Sequence[Proof]]) -> Table:
    """Scenario × release: how often the release showed it. ``proven``: release → its proofs."""
    found = [(s.scenario, release, _times(s, _of(s, proofs))) for s in scenarios for release, proofs in proven.items()]
    return plain_table(("scenario", "release", "what came of it"), found)


def _of(scenario: Scenario, proofs: Iterable[Proof]) -> list[Proof]:
    return [p for p in proofs if p.scenario == scenario.scenario]


def _ran(proofs: Iterable[Proof]) -> list[Proof]:
    return [p for p in proofs if p.state != "not run"]


def _shows(scenario: Scenario, proof: Proof) -> bool:
    """Whether a proof found an anomaly that its scenario names, whatever else differs; of a promise: whether it was kept."""
    return proof.state in FOUND or shows(scenario, proof.state, proof.found)


def _something_else(scenario: Scenario, proofs: Iterable[Proof]) -> bool:
    """Whether one of the proofs that show a scenario found an anomaly that the scenario neither names nor allows."""
    named = {MISSING, *(e.name for e in (*scenario.anomalies, *scenario.allow))}
    return any(p.state not in FOUND and p.found.keys() - named for p in proofs if _shows(scenario, p))


def _times(scenario: Scenario, proofs: Sequence[Proof]) -> str:
    ran = _ran(proofs)
    if not ran:
        return "; ".join(["could not run", *(proofs[0].why if proofs else ())])
    word = "found" if scenario.anomalies else "kept"
    times = sum(_shows(scenario, p) for p in ran)
    return f"{word} {times} of {len(ran)}" + (", and something else" if _something_else(scenario, ran) else "")


def occurs(scenario: Scenario, proven: Mapping[str, Sequence[Proof]]) -> str:
    """In which of the releases that were run a scenario shows, in a sentence.

    A defect occurs in a release if one of its runs shows it; a promise, which is a scenario without anomalies, holds if all its runs keep it.
    """
    ordered = sorted(proven, key=lambda r: [int(n) for n in re.findall(r"\d+", r)[:3]])
    ran = {r: _ran(_of(scenario, proven[r])) for r in ordered}
    word, enough = ("occur", any) if scenario.anomalies else ("hold", all)
    seen, not_seen = [], []
    for release, proofs in ran.items():
        if proofs and enough(_shows(scenario, p) for p in proofs):
            seen.append(release + (" (and something else)" if _something_else(scenario, proofs) else ""))
        elif proofs:
            not_seen.append(release)
    said = []
    if seen:
        said.append(f"{word}s in {_listed(seen, 'and')}" + (f", not in {_listed(not_seen, 'or')}" if not_seen else ""))
    elif not_seen:
        said.append(f"does not {word} in {_listed(not_seen, 'or')}")
    if away := [r for r in ran if not ran[r]]:
        said.append(f"could not be run in {_listed(away, 'or')}")
    return f"{scenario.scenario} {'; '.join(said)}."


def _listed(names: Sequence[str], word: str) -> str:
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


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


def exit_code(scenarios: Sequence[Scenario], proofs: Sequence[Proof], *, fixed: bool) -> tuple[int, str]:
    """The exit code of ``prove`` and what it means, as a clause; ``fixed``: the defects should be gone.

    0 if every result is as it should be, 1 if one is not, 2 if none of these but one run does not tell whether its defect is gone.
    """
    if not fixed:
        as_written = all(p.as_said for p in proofs)
        means = "every result is as its scenario has it for this version" if as_written else "not as written: "
        others = sorted({p.scenario for p in proofs if not p.as_said})
        return (0, means) if as_written else (1, means + ", ".join(others))
    by_name = {s.scenario: s for s in scenarios}
    shown = {
        gone: sorted({p.scenario for p in proofs if p.gone(by_name[p.scenario]) is gone}) for gone in (False, None)
    }
    if shown[False]:
        return 1, f"not gone: {', '.join(shown[False])}"
    if shown[None]:
        return (
            2,
            f"nothing can be said of {', '.join(shown[None])}: its requests did not come as the scenario has them, or it did not run",
        )
    return 0, f"gone: {', '.join(by_name)} showed no anomaly, and every request was held and struck as written"


def to_json(proofs: Sequence[Proof], found: dict[str, str]) -> str:
    """All proofs as JSON, with the versions that ran."""
    return json.dumps({"versions": found, "proofs": [asdict(p) for p in proofs]}, indent=1) + "\n"


def releases_json(proven: Mapping[str, Sequence[Proof]], found: Mapping[str, dict[str, str]]) -> str:
    """The same of several releases: the versions of each, and the release of each proof."""
    proofs = [{"release": release, **asdict(p)} for release, each in proven.items() for p in each]
    return json.dumps({"versions": dict(found), "proofs": proofs}, indent=1) + "\n"
