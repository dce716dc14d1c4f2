"""Commits that a server's database makes while the server hears something else: it cannot know what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from harness.certify.kit import Kit

UNKNOWN: Mapping[str, Mapping[str, str]] = {
    "no-reply": {"verb": "drop-reply"},
    "sqlstate-40003": {"verb": "answer", "sqlstate": "40003"},
    "sqlstate-08006": {"verb": "answer", "sqlstate": "08006"},
    "sqlstate-57P01": {"verb": "answer", "sqlstate": "57P01"},
}
"""The reply that does not come, and PostgreSQL's states that say nothing of the outcome (errcodes-appendix):
statement_completion_unknown, connection_failure, admin_shutdown."""


def unknown_outcomes(kit: Kit) -> None:
    """An append in a table of its own for each of them: ``commit:…``, the load ``after:…``, and its metadata file ``file:…``."""
    for name, fault in UNKNOWN.items():
        table = kit.table()
        base = table.grown(1)[0]
        with kit.held(partial(table.append, f"commit:{name}", base, 2), **fault):
            pass
        after = table.load(f"after:{name}")
        if after.ok:
            kit.file(f"file:{name}", after.body["metadata-location"])
