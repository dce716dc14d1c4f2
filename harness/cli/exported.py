"""``icequake export``: a run's history for other tools, or for ``icequake check`` on another machine."""

from __future__ import annotations

from collections.abc import Callable

from checkers.clients import derived, jepsen
from checkers.clients.models import TABLES
from checkers.evidence import history
from checkers.evidence.runfolder import RunFolder
from checkers.judge.runfolder import load_evidence
from reports.drawing.words import plural


def exported(folder: RunFolder, form: str | None, key: str | None, say: Callable[[str], object]) -> str:
    """The text of the file.

    Args:
        form: one of ``derived.FORMS``; None: the history itself, with the run's tables in its header.
        key: the only key of the form ``register``.
        say: told what the file shows of the run, and what it leaves out.

    Raises:
        DerivedError: there is no such form or key, or the run has nothing of the form.
        HistoryError, TableLogError: the run cannot be read.
    """
    if form is None:
        if key is not None:
            raise derived.DerivedError(f"--key {key}: give --as {derived.REGISTER} with it")
        told = history.read(folder.history)
        tables = [t.model_dump(mode="json", exclude_defaults=True) for t in folder.read_plan().tables or ()]
        return jepsen.to_edn(history.History({**told.header, TABLES: tables}, told.events, told.problems))
    if form not in derived.FORMS:
        raise derived.DerivedError(f"--as {form}: unknown; allowed: {', '.join(derived.FORMS)}")
    found = derived.derive(load_evidence(folder.path), form, key)
    shown, of = found.operations
    keys = len(found.keys) if key is None else 1
    say(f"{shown} of {of} operations, {plural(keys, 'key')}")
    for text in found.left_out:
        say(f"left out: {text}")
    if form == derived.REGISTER:
        say(
            "Knossos' model: cas-register"
            + ("; values are [key value]: one key alone with --key" if key is None else "")
        )
    else:
        say(f"Elle's consistency model: {found.level}; for icequake check: --level {found.level}")
    return jepsen.to_edn(found.history, header=False)
