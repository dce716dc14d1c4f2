"""Faults as plain values: what goes wrong, where, and how often.

A fault of a *connection* names a verb, the writers whose connections it strikes (``writers``), the ``service`` at their other end, and the
requests that it strikes. The proxies carry it out (``nemesis.proxy``). A fault of a *process* names a verb and a ``target``
(``nemesis.processes``). A fault of *maintenance* names the verb ``maintain`` and the operation (``do``) that an additional writer invokes.

What each verb does is said in its file in ``nemesis/faults/verbs``; ``docs/nemesis.md`` has them all in one table.

An error that a fault answers has an HTTP ``status`` (with ``retry_after`` seconds if given), for PostgreSQL an ErrorResponse with
``sqlstate``, for Thrift a TApplicationException.

In a schedule (``nemesis:`` of a workload file) a fault also has a ``weight``, a ``duration``, and may strike ``one`` writer, drawn each time.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, ValidationInfo, model_validator
from pydantic_core import PydanticKnownError

from nemesis.faults.fields import VERB_FIELDS, FaultFields, Target
from nemesis.faults.registry import VERBS
from nemesis.faults.verb import ConnectionVerb, ProcessVerb, Verb


def _known(verb: object) -> object:
    if not isinstance(verb, str) or verb not in VERBS:
        *others, last = (repr(name) for name in VERBS)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
    return verb


class Fault(FaultFields):
    """One fault. Its verb says which fields it takes."""

    verb: Annotated[str, BeforeValidator(_known)]

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> Fault:
        verb = self.action
        self.own(verb.own, info.context)  # first: an unknown key may be a misspelt one that is needed
        for key in verb.needs:
            if getattr(self, key) is None:
                allowed = f": one of {', '.join(get_args(Target))}" if key == "target" else ""
                raise ValueError(f"{self.verb} needs {key}{allowed}")
        if isinstance(verb, ProcessVerb) and verb.targets and self.target not in verb.targets:
            raise ValueError(f"{self.verb} strikes {' or '.join(verb.targets)}, not {self.target}")
        for key in VERB_FIELDS:
            if key in self.model_fields_set and key not in verb.fields:
                takers = ", ".join(name for name, v in VERBS.items() if key in v.fields)
                raise ValueError(f"{key} is for {takers}, not for {self.verb}")
        return self

    @property
    def action(self) -> Verb:
        """What it does."""
        return VERBS[self.verb]

    @property
    def slug(self) -> str:
        """Its name as a word, for the history."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def on_connections(self) -> bool:
        """Whether a proxy carries it out."""
        return isinstance(self.action, ConnectionVerb)

    @property
    def name(self) -> str:
        """What people call it, such as ``drop-reply of commit`` or ``kill executor``."""
        return self.action.title(self)

    def plain(self) -> dict[str, Any]:
        """The fields that were given, as history and plan hold them."""
        return self.model_dump(mode="json", exclude_defaults=True)
