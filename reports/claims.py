"""What ``icequake claims`` shows: the table of claims, one claim in full, the page in ``docs``, and its JSON."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from reports.drawing.page import Table, plain_table
from workloads.file.claims import UNMEASURED, Claim, ClaimCommand, Claims, Measurement, Verdict, counts

MEANING: dict[Verdict, str] = {
    "holds": "what was measured is what the document says",
    "holds in part": "it holds under conditions that the document does not name, or in part of what it says",
    "does not hold": "what was measured is something else; the reason stands beside it",
    "open": "nothing was measured that decides it; what is missing stands beside it",
    "later": "it is about something that icequake does not have yet: another table format, or a model",
}


def words(command: ClaimCommand, *more: str) -> str:
    """A command as it is typed."""
    return shlex.join(["icequake", *command.words, *more])


def table(claims: Iterable[Claim]) -> Table:
    """Number, claim, verdict, the first command that measures it."""
    rows = ((str(c.number), c.claim, c.verdict, words(c.commands[0]) if c.commands else "") for c in claims)
    return plain_table(("claim", "", "verdict", "measured by"), rows)


def total(claims: Sequence[Claim]) -> str:
    """How many claims have each verdict, as one line."""
    numbers = ", ".join(f"{n} {_of(verdict, n)}" for verdict, n in counts(claims).items() if n)
    return f"{len(claims)} claim{'s' if len(claims) != 1 else ''}: {numbers}"


def _of(verdict: Verdict, n: int) -> str:
    """A verdict behind a number of claims: one holds, two hold."""
    if verdict in UNMEASURED:
        return verdict
    singular, plural = verdict, verdict.replace("holds", "hold").replace("does not", "do not")
    return singular if n == 1 else plural


def story(claims: Claims, claim: Claim) -> list[str]:
    """One claim in full: paragraphs without marks."""
    out = [f"{claim.number}. {claim.claim}"]
    out += [f"{d.title} ({d.by}), {section}. {d.link}" for d, section in claims.sources(claim)]
    out.append(
        f"Verdict: {claim.verdict}." + (f" {_measured(claim.measured)}: {claim.outcome}" if claim.measured else "")
    )
    out += [f"Looked up: {claim.looked_up}"] if claim.looked_up else []
    out += [f"{'Missing' if claim.verdict in UNMEASURED else 'Why'}: {claim.why}"] if claim.why else []
    out += [f"See docs/{', docs/'.join(claim.see)}"] if claim.see else []
    return out


def _measured(measured: Measurement) -> str:
    return f"{measured.date}, {measured.versions}"


def page(claims: Claims) -> str:
    """The page of all claims in Markdown, as ``docs/claims.md`` has it."""
    return "\n".join(_page(claims)) + "\n"


def _page(claims: Claims) -> Iterator[str]:
    every = claims.all
    yield "# What is said of concurrent writers, and what was measured"
    yield ""
    yield f"**{total(every)}.**"
    yield ""
    yield "Public documents say how Iceberg behaves when several writers commit to one table. Below are their claims, each with its source, the"
    yield "command that measures it, what came out, and a verdict. Where a claim does not hold, the reason is given from the code."
    yield ""
    yield "```"
    yield "icequake claims                            the claims, their verdicts and commands"
    yield 'icequake claims --verdict "does not hold"  those with a verdict'
    yield "icequake claims 23 35                      two claims in full, and how long it takes to measure them"
    yield "icequake claims 23 35 --again              measure them again, and show what came out beside what is recorded"
    yield "```"
    yield ""
    yield "| verdict | claims | meaning |"
    yield "|---|---|---|"
    for verdict, n in counts(every).items():
        yield f"| {verdict} | {n} | {MEANING[verdict]} |"
    yield ""
    yield "The claims are in the words of this page, not of the documents:"
    yield ""
    for name, document in claims.documents.items():
        numbers = [c.number for c in claims.by_document[name]]
        yield f"* [{document.title}]({document.link}), {document.by}: claims {_ranges(numbers)}"
    yield ""
    yield "`icequake claims --page docs/claims.md --force` writes this page from [workloads/claims](../workloads/claims). Figures of the"
    yield "conflict matrix are of its 1,952 ordinary cells; a command with `--only` measures the part that decides the claim. Most runs had two"
    yield "cores that were also busy with other work: speeds compare settings with each other and are no benchmark."
    yield ""
    yield "| claim | | verdict | measured by |"
    yield "|---|---|---|---|"
    for c in every:
        evidence = f"`{words(c.commands[0])}`" if c.commands else "reading" if c.looked_up else ""
        yield f"| [{c.number}](#claim-{c.number}) | {_cell(c.claim)} | {c.verdict} | {_cell(evidence)} |"
    for name, document in claims.documents.items():
        yield ""
        yield f"## {document.title}"
        for c in claims.by_document[name]:
            yield ""
            yield from _claim(claims, c)


def _claim(claims: Claims, c: Claim) -> Iterator[str]:
    yield f"### Claim {c.number}"
    yield ""
    yield f"{c.claim}"
    yield ""
    yield f"* **{c.verdict.capitalize()}.** {c.outcome or c.why}"
    if c.outcome and c.why:
        yield f"* Why: {c.why}"
    if c.commands:
        typed = [
            f"`{words(command)}`" + (f" (exit code {command.exit})" if command.exit else "") for command in c.commands
        ]
        yield f"* Measured by {', '.join(typed)}" + (f"; {_measured(c.measured)}" if c.measured else "")
    if c.looked_up:
        yield f"* Looked up: {c.looked_up}" + (f"; {_measured(c.measured)}" if c.measured and not c.commands else "")
    sources = [f"{d.title}, “{section}”" for d, section in claims.sources(c)]
    yield f"* Source: {'; '.join(sources)}"
    if c.see:
        yield f"* More: {', '.join(f'[{_named(s)}]({s})' for s in c.see)}"


def _named(see: str) -> str:
    """The words of a link: the page, and its heading in words."""
    file, _, heading = see.partition("#")
    return f"{file}: {heading.replace('-', ' ')}" if heading else file


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _ranges(numbers: Sequence[int]) -> str:
    """Numbers in order, runs of them by their ends: ``1–3, 7``."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}–{r[-1]}" for r in runs)


def to_json(
    claims: Claims, chosen: Sequence[Claim], measured_again: Mapping[int, Sequence[Mapping[str, object]]]
) -> str:
    """Claims as JSON.

    Args:
        measured_again: number → what came out when its commands ran again; empty where they did not.
    """
    shown = [
        c.model_dump(mode="json")
        | {"sources": [d.model_dump() | {"section": section} for d, section in claims.sources(c)]}
        | ({"again": measured_again[c.number]} if c.number in measured_again else {})
        for c in chosen
    ]
    return json.dumps({"counts": counts(chosen), "claims": shown}, indent=1, ensure_ascii=False) + "\n"
