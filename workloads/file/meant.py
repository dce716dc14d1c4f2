"""What a word that means nothing was probably meant to be: a similar word, a longer one that begins with it, or another tool's word for it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from nemesis.faults.packages import PACKAGES, with_fault

OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    # keys of a workload or scenario file
    "name": ("workload", "scenario"),
    "ops": ("length",),
    "time": ("length",),
    "runtime": ("length",),
    "duration": ("length",),
    "threads": ("writers",),
    "workers": ("writers",),
    "clients": ("writers",),
    "concurrency": ("writers",),
    "mix": ("operations",),
    "steps": ("operations",),
    "timeout": ("op_timeout",),
    "faults": ("nemesis",),
    "chaos": ("nemesis",),
    "thresholds": ("assert",),
    "limits": ("assert",),
    "anomalies": ("expect",),
    "expect": ("anomalies",),
    # keys of a table
    "write-mode": ("mode",),
    "version": ("format_version",),
    "format": ("format_version",),
    "table-properties": ("properties",),
    "tblproperties": ("properties",),
    "properties": ("spark",),
    "partition-by": ("partitioned",),
    "partitioned-by": ("partitioned",),
    "rows": ("seed_rows",),
    "initial-rows": ("seed_rows",),
    # keys of a step and of a fault
    "operation": ("do", "operations"),
    "kind": ("do", "verb"),
    "args": ("value",),
    "arguments": ("value",),
    "wait": ("after", "hold"),
    "code": ("status",),
    # values
    "cow": ("copy-on-write",),
    "mor": ("merge-on-read",),
    "si": ("snapshot-isolation", "snapshot"),
    "snapshot": ("snapshot-isolation",),
    "snapshot-isolation": ("snapshot",),
    "serialisable": ("serializable",),
    "linearizable": ("strict-serializable",),
    "linearisable": ("linearizable", "strict-serializable"),
    "strict-serializable": ("linearizable",),
    # names of operations in an own log
    "put": ("write",),
    "set": ("write",),
    "store": ("write",),
    "get": ("read",),
    "load": ("read",),
    "compare-and-set": ("cas",),
    "compare-and-swap": ("cas",),
    "push": ("append",),
    "increment": ("add",),
    # verbs of faults
    "drop-ack": ("drop-reply",),
    "lost-ack": ("drop-reply", "lost-acks"),
    "drop-response": ("drop-reply",),
    "lost-reply": ("drop-reply",),
    "disconnect": ("cut",),
    "reset": ("cut",),
    "error": ("answer",),
    "respond": ("answer",),
    "latency": ("delay",),
    "slow": ("delay", "slow-store"),
    "bandwidth": ("throttle",),
    "repeat": ("duplicate",),
    "replay": ("duplicate",),
    "freeze": ("pause",),
    "hang": ("pause",),
    "stop": ("pause",),
    "crash": ("kill", "crashes"),
    "isolate": ("partition",),
    # kinds of operations
    "compact": ("rewrite-data-files",),
    "compaction": ("rewrite-data-files",),
    "expire": ("expire-snapshots",),
    "select": ("read",),
    "scan": ("read",),
    "overwrite": ("overwrite-partitions",),
    "update": ("update-register",),
    "time-travel": ("read-snapshot",),
}
"""A word of another tool, with ``-`` for ``_`` → the words that it may stand for here."""


def nearest(word: object, allowed: Iterable[str]) -> str | None:
    """The allowed word that ``word`` was probably meant to be: one with the same meaning, else a similar one. None if there is none."""
    known = list(allowed)
    plain = str(word).lower().replace("_", "-").replace(" ", "-")
    for other in (*OTHER_WORDS.get(plain, ()), plain, plain.replace("-", "_")):
        if other in known:
            return other
    near = difflib.get_close_matches(str(word), known, n=1)
    return near[0] if near else None


def beginning(word: object, allowed: Iterable[str]) -> list[str]:
    """The allowed words that begin with ``word`` and a hyphen: ``merge`` begins ``merge-upsert``."""
    return [name for name in allowed if name.startswith(f"{word}-")]


def suggest(word: object, allowed: Iterable[str]) -> str:
    """`` (did you mean …?)`` when allowed words begin with ``word``, or one has the same meaning or is similar; else an empty string."""
    names = list(allowed)
    if longer := beginning(word, names):
        return f" (did you mean {' or '.join(longer)}?)"
    near = nearest(word, names)
    return "" if near is None else f" (did you mean {near}?)"


MOST_CHOICES = 80
"""Of more names than these, a message that knows what was probably meant does not list all."""


def unknown_package(name: str, allowed: Iterable[str] = PACKAGES) -> str:
    """That a name is no package of faults; of a fault, in which packages it is."""
    if packages := with_fault(name):
        return (
            f"unknown package {name!r}: it is a fault; in the package{'s' * (len(packages) > 1)} {', '.join(packages)}"
        )
    return unknown("package", name, allowed)


def unknown(what: str, word: object, allowed: Iterable[str]) -> str:
    """That ``word`` is no ``what``, what it was probably meant to be, and what is allowed."""
    names = list(allowed)
    meant = suggest(word, names)
    if meant and len(names) > MOST_CHOICES:
        return f"unknown {what} {word!r}{meant}"
    return f"unknown {what} {word!r}{meant}; allowed: {', '.join(names)}"
