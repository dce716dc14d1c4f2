"""``icequake check FILE``: a history of another system, judged and explained on the terminal."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from checkers.clients import history_files, lists, models
from checkers.clients.jepsen import GUESSED
from checkers.clients.stats import ClientStats
from checkers.evidence.history import EventError, History, HistoryError
from checkers.evidence.replace import replace
from checkers.evidence.runfolder import FULL
from checkers.verdict import Anomaly, Verdict, exit_code
from harness.cli.options import WRITTEN_BY, BadArgument, write_output

MOST_ON_TERMINAL = 3
"""How many anomalies are explained on the terminal; all are in the JSON."""


def history_of(what: Path, model: str | None) -> Path | None:
    """The history file: ``what`` itself, or the ``history.edn`` in it (a folder of Jepsen's store).

    None for an icequake run, which is judged with its tables unless a model is given.
    """
    if what.is_file():
        return None if model is None and (what.parent / "plan.yaml").exists() else what
    file = what / "history.edn"
    return file if file.is_file() and not (what / "plan.yaml").exists() else None


def show(
    path: Path,
    model: str | None,
    level: str | None,
    output: Path | None,
    echo: Callable[[str], object],
    store: Path | None = None,
    keyed: bool | None = None,
) -> int:
    """Judge the history in ``path``, print what was found, write the verdict to ``output``; return the exit code.

    Args:
        store: its page is written there, into a folder of its own; None: no page.

    Raises: as :func:`judged`.
    """
    verdict, history = judged(path, model, level, keyed)
    if history is None and path.stat().st_size <= DRAWN:
        history = history_files.load(path)
    places: list[int] = []
    if verdict.anomalies:
        history_files.load(path, places)
        verdict = placed(verdict, path.name, places)
    if output is not None:
        text = json.dumps(
            {**WRITTEN_BY, **verdict.to_json()}, indent=1, sort_keys=True, ensure_ascii=False, default=str
        )
        write_output(output, text + "\n")
    for line in lines(path, verdict, () if history is None else history.problems):
        echo(line)
    if store is not None:
        from reports import clients
        from reports.drawing import render

        page = render.write(clients.of(path.name, verdict, history, path, places), _folder(store, path, verdict))
        echo(f"\n  page  {page}")
    return exit_code(verdict.valid)


MOST_LINES = 8
"""Lines of a file that are named for one anomaly on the terminal; the page has all."""
DRAWN = 2_000_000
"""Bytes of a history in which nothing is found and that is read once more for its page."""


def judged(
    path: Path, model: str | None, level: str | None, keyed: bool | None = None
) -> tuple[Verdict, History | None]:
    """The verdict on the history in ``path``, and the history if it had to be read whole.

    Raises:
        HistoryError: the file is not a history, or the model does not know one of its operations.
        ModelError: the model or the level does not exist or does not fit the history.
    """
    verdict = lists.judged(path, model, level) if keyed is None else None
    if verdict is not None:
        return verdict, None
    history = history_files.load(path)
    try:
        return models.judge(history, model, level, keyed), history
    except EventError as e:
        why = "; ".join([e.why, *history.header.get(GUESSED, ())])
        raise HistoryError(f"{_line(path, e.event)}: {why}") from None
    except models.ModelError as e:
        raise models.ModelError(f"{path if e.event is None else _line(path, e.event)}: {e}") from None
    except HistoryError as e:
        raise HistoryError(f"{path}: {e}") from None


def _line(path: Path, event: int) -> str:
    """The file and the line of an event. The file is read once more: who reads it without an error needs no lines."""
    lines: list[int] = []
    history_files.load(path, lines)
    return f"{path}:{lines[event]}"


def placed(v: Verdict, file: str, places: Sequence[int]) -> Verdict:
    """The verdict with each event named by its line; behind each explanation, the lines of its operations.

    Args:
        file: name of the history's file.
        places: the line of each event, from 1.
    """

    def line(found: re.Match[str]) -> str:
        return f"{file}:{places[int(found[1])]}" if int(found[1]) < len(places) else found[0]

    def explained(a: Anomaly) -> Anomaly:
        text = re.sub(r"\bevent (\d+)", line, a.explanation)
        at = [places[e] for e in sorted(set(a.events)) if e < len(places)]
        more = f", and {len(at) - MOST_LINES} lines more" if len(at) > MOST_LINES else ""
        where = ", ".join(f"{file}:{n}" for n in at[:MOST_LINES])
        return replace(a, explanation=f"{text}\nWhere: {where}{more}" if at else text)

    return replace(v, anomalies=tuple(map(explained, v.anomalies)))


def _folder(store: Path, path: Path, verdict: Verdict) -> Path:
    """Where the page of a history is: one folder for each file, as Jepsen calls every history the same, and in it one for each level."""
    whole = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    stats = verdict.stats_as(ClientStats)
    into = store / "check" / f"{path.stem}-{whole}" / f"{stats['model']}-{stats['level']}"
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        if e.errno in FULL:
            raise
        raise BadArgument(
            f"--store {store}: {into} cannot be made: {e.strerror}; give a folder that can be written"
        ) from None
    return into


def lines(path: Path, v: Verdict, problems: Sequence[str] = ()) -> list[str]:
    """The verdict as lines of text; ``problems``: of the file, which come first, because the verdict is on what was read of it."""
    width = max(40, min(110, shutil.get_terminal_size((100, 24)).columns))
    stats = v.stats_as(ClientStats)
    mark, word = {True: ("✓", "Valid"), False: ("✕", "Anomalies found"), "unknown": ("?", "Unknown")}[v.valid]
    guessed = " (guessed from its operations; --model overrides it)" if stats.get("guessed") else ""
    out = [
        f"{mark} {path}: {word}",
        f"  {counted(stats)}, model {stats['model']}{guessed}, {stats['level']}",
        *(line for p in problems for line in _wrapped(f"only in part: {p}", "  ", width)),
    ]
    found = Counter(stats.get("found") or Counter(a.name for a in v.anomalies))
    allowed = stats.get("allowed") or {}
    against = {n: c for n, c in found.items() if n not in allowed}
    out += [f"  {count:>6} {name}" for name, count in against.items()]
    out += [f"  {count:>6} {name}, which {stats['level']} allows" for name, count in allowed.items()]
    if found:
        out += _levels(v, stats)
    for a in v.anomalies[:MOST_ON_TERMINAL]:
        out += ["", f"  {a.name}:", *_wrapped(a.explanation, "    ", width)]
    if len(v.anomalies) > MOST_ON_TERMINAL:
        out += ["", f"  and {sum(against.values()) - MOST_ON_TERMINAL} more; --json FILE writes them"]
    out += [line for n in v.notes if n not in problems for line in _wrapped(f"note: {n}", "  ", width)]
    return out


def counted(stats: ClientStats) -> str:
    """How many operations were judged."""
    judged, recorded = stats["operations"], stats.get("recorded", stats["operations"])
    rest = f" of {recorded} (the others failed, or are reads without an answer)" if recorded > judged else ""
    return f"{judged} operations{rest}"


def _levels(v: Verdict, stats: ClientStats) -> list[str]:
    """Which levels the history does not satisfy, the weakest, and which it does, the strongest."""
    broken, kept = ", ".join(stats.get("weakest_violated") or ()), ", ".join(stats.get("strongest_standing") or ())
    if v.valid is False:
        return [f"  not even {broken}"] * bool(broken) + [f"  consistent with {kept}"] * bool(kept)
    lines = [f"  it satisfies {kept}"] * bool(kept)
    return lines + [f"  it does not satisfy {broken}, which {stats['level']} does not require"] * bool(broken)


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    out: list[str] = []
    for line in text.splitlines():
        lead = indent + " " * (len(line) - len(line.lstrip()))
        options: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
        out += textwrap.wrap(line.strip(), width, initial_indent=lead, subsequent_indent=lead, **options)
    return out
