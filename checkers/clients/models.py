"""Client-only histories of any system: which kind of object they use, and whether it kept its promise.

A history without table logs, such as one of Jepsen's, shows only what clients saw. A *model* defines what the operations mean, a
*level* what is promised about them:

============== ============================================================ ==============================================
model          operations (Jepsen's ``:f`` and ``:value``)                  level
============== ============================================================ ==============================================
list-append    ``:txn [[:append k v] [:r k [v …]] …]``                      any of ``levels.LEVELS``
rw-register    ``:txn [[:w k v] [:r k v] …]``                               any of ``levels.LEVELS``
bank           ``:transfer {:from a :to b :amount n}``, ``:read {a n …}``   snapshot-isolation, by totals alone
rows           those of icequake itself, with the tables in the header      what each table promises
the others     see :mod:`checkers.linearizable`                             linearizable
============== ============================================================ ==============================================

Unless the user names the model, a history's functions and values determine it (:func:`guess`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from checkers import linearizable
from checkers.clients.bank import BANK, TOTALS_BREAK, check_bank
from checkers.clients.jepsen import CONCURRENT, GUESSED
from checkers.clients.microops import FUNCTIONS, shortened, transactions
from checkers.clients.stats import ClientStats
from checkers.evidence.evidence import Evidence
from checkers.evidence.history import EventError, History, HistoryError, Operation
from checkers.evidence.replace import replace
from checkers.evidence.uncollected import uncollected
from checkers.isolation.blackbox import WORKLOADS, check_transactions
from checkers.isolation.levels import LEVELS
from checkers.isolation.transactions import IsolationFinding, IsolationResult
from checkers.linearizable import MODELS, KeyResult, check_model
from checkers.linearizable.calls import keyed_by
from checkers.linearizable.checker import Linearizable, LinearizableStats
from checkers.timeline import explain
from checkers.verdict import Anomaly, Validity, Verdict
from workloads.file.meant import nearest, suggest
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

LINEARIZABLE = "linearizable"
ROWS_MODEL = "rows"
PROMISED = "as-promised"
TABLES_KEY = "tables"
"""Header key of an exported run: its tables, as the plan has them."""
WITHOUT_INVOCATIONS = (
    "no operation has an invocation, so each was taken as concurrent with all others and as a process of its own; here the processes are "
    "numbered as the operations are, not as in the file"
)
OPERATION_NAMES = (
    "of a register: read, write, cas; of a set or a counter: add, read; of a list: append, read; of a bank: transfer, read; "
    "of transactions: txn"
)
"""Names of operations, by model, in words."""

OPERATIONS_OF: Mapping[str, str] = {
    "list-append": "txn of [append KEY VALUE] and [r KEY LIST]; every value is appended to a key once",
    "rw-register": "txn of [w KEY VALUE] and [r KEY VALUE]; every value is written to a key once",
    BANK: 'transfer of {"from": A, "to": B, "amount": N} and read of all balances, {"A": N, ...}; only the sums of the balances are compared',
    ROWS_MODEL: "those of icequake itself, in a file that `icequake export` wrote; rows of another system are recorded as txn, with the "
    "row's id as key",
    "register": "read and write of one value",
    "cas-register": "read, write, and cas of [OLD, NEW]",
    "multi-register": "txn of [w KEY VALUE] and [r KEY VALUE], each at one moment",
    "counter": "add of a number, and read of the sum",
    "set": "add of an element, and read of all elements",
    "append-list": "append of an element, and read of the whole list",
}
"""Model → its operations, in words."""

KEY_APART = "; a key belongs into the value: [KEY, VALUE]"
_NAMED = ("read", "write", "cas", "add", "append", "transfer", "txn")
AS_TRANSACTIONS = (
    "; nothing is judged: its operations are single ones, and a level of isolation says what transactions of several operations may see "
    'of each other; record each transaction as one operation, such as "f": "txn", "value": [["r", "x", null], ["w", "y", 1]], or leave '
    "out --level"
)
"""How a history of single objects could be judged at a level of transactions."""
ORDER_IN_PART = (
    "a read of a register shows one version, so the order of the versions is known in part: after what its writer had read, and after what "
    "had been written before its write began; an anomaly that needs more of the order is not found. Record lists (append) to have all of it"
)
"""Note on transactions over registers in which nothing is wrong."""
AS_TRANSFERS = (
    '; sums of balances say nothing of order: record each transfer as one operation, "f": "txn", with the balances that it read and wrote, '
    "or leave out --level"
)
"""How a bank could be judged at another level."""


class ModelError(ValueError):
    """A model or level that does not exist, or does not fit the other or the history; ``event``: where, if it is about one event."""

    def __init__(self, why: str, event: int | None = None) -> None:
        super().__init__(why)
        self.event = event


def models() -> tuple[str, ...]:
    """The names of all models."""
    return (*WORKLOADS, BANK, ROWS_MODEL, *MODELS)


def levels(model: str) -> tuple[str, ...]:
    """The levels for which a model can be judged, the default last."""
    if model in WORKLOADS:
        return LEVELS
    if model == BANK:
        return (TOTALS_BREAK,)
    if model == ROWS_MODEL:
        return (PROMISED,)
    return (LINEARIZABLE,)


def judge(h: History, model: str | None = None, level: str | None = None, keyed: bool | None = None) -> Verdict:
    """Judge a history by what its clients saw.

    Args:
        h: as :func:`checkers.clients.history_files.load` returns it.
        model: see :func:`models`; None: ``rows`` if the header has tables, else what :func:`guess` says.
        level: see :func:`levels`; None: the strongest.
        keyed: whether values are pairs of a key and a value, each key an object of its own; None: as their form shows.

    Returns:
        A verdict whose ``stats`` are :class:`ClientStats`. A history with problems is ``unknown`` at best.

    Raises:
        ModelError: no such model or level, or it does not fit the history.
        HistoryError: an operation does not belong to the model; the message names its event.
    """
    with uncollected():
        return _judge(h, model, level, keyed)


def _judge(h: History, model: str | None, level: str | None, keyed: bool | None) -> Verdict:
    if model is not None and model not in models():
        raise ModelError(
            f"the model {model!r} is not known{suggest(model, models())}; there are: {', '.join(models())}"
        )
    operations = h.operations()
    try:
        chosen = model if model is not None else ROWS_MODEL if TABLES_KEY in h.header else guess(operations, keyed)
    except ModelError as e:
        raise ModelError("; ".join([str(e), *h.header.get(GUESSED, ())]), e.event) from None
    allowed = levels(chosen)
    if level is None:
        level = allowed[-1]
    if level not in allowed:
        remedy = "" if level not in LEVELS else AS_TRANSACTIONS if chosen in MODELS else AS_TRANSFERS * (chosen == BANK)
        raise ModelError(
            f"the model {chosen} has no level {level!r}{suggest(level, allowed)}; it has: {', '.join(allowed)}{remedy}"
        )
    if keyed is not None and not (chosen in MODELS and MODELS[chosen].keyed):
        raise ModelError(
            f"--{'keyed' if keyed else 'plain'} is for single objects; the operations of {chosen} name their keys themselves"
        )
    if chosen in WORKLOADS:
        verdict = _transactions(operations, chosen, level)
    elif chosen == BANK:
        verdict = check_bank(operations, level)
    elif chosen == ROWS_MODEL:
        verdict = _rows(h)
    else:
        verdict = _linearizable(h, chosen, keyed)
    valid: Validity = "unknown" if h.problems and verdict.valid is True else verdict.valid
    alone = (WITHOUT_INVOCATIONS,) if h.header.get(CONCURRENT) else ()
    notes = (*h.problems, *alone, *h.header.get(GUESSED, ()), *verdict.notes)
    labelled = with_model(verdict, chosen, level, model is None and chosen != ROWS_MODEL, len(operations))
    return replace(labelled, valid=valid, notes=notes)


def with_model(v: Verdict, model: str, level: str, guessed: bool, operations: int) -> Verdict:
    """The verdict, with these in its ``stats``."""
    stats: ClientStats = {
        "model": model,
        "level": level,
        "guessed": guessed,
        "operations": operations,
        **v.stats_as(ClientStats),
    }
    return Verdict(v.checker, v.valid, v.anomalies, stats, v.notes)


def guess(operations: Sequence[Operation], keyed: bool | None = None) -> str:
    """The model of a history, by the functions of its operations, and what reads return.

    Args:
        keyed: as for :func:`judge`.

    Raises:
        ModelError: they fit no model, or more than one.
        EventError: a micro-operation fits none.
    """
    functions = {o.f for o in operations}
    steps = [m for o in operations if o.f == "txn" for m in _steps(o)]
    micro = {m[0] for m in steps if isinstance(m, list | tuple) and m and isinstance(m[0], str)}
    if not functions:
        pass
    elif functions == {"txn"}:
        if "append" in micro:
            return "list-append"
        if micro & {"w", "write"}:
            return "rw-register"
        _known_steps(operations)
    elif functions <= {"read", "write", "cas", "r", "w"}:
        return "cas-register" if "cas" in functions else "register"
    elif "transfer" in functions and functions <= {"read", "transfer"}:
        return BANK
    elif "append" in functions and functions <= {"read", "append"}:
        return "append-list"
    elif functions & {"add", "inc", "dec", "increment", "decrement"}:
        pairs = keyed_by(operations) is not False if keyed is None else keyed
        results = [o.result for o in operations if o.f in ("read", "r") and o.type == "ok"]
        read = [r[1] if pairs and isinstance(r, list) and len(r) == 2 else r for r in results]
        if read and all(isinstance(r, list) for r in read):
            return "set"
        if read and not any(isinstance(r, list | dict) for r in read):
            return "counter"
    if functions and functions <= KINDS.keys():
        raise ModelError(
            "this is a history of icequake without its tables, and their promises are needed to judge it: "
            "give the run's folder, or a file that `icequake export RUN -o FILE` wrote; record rows of another system as txn, with the row's "
            "id as key (docs/history.md)"
        )
    words = ", ".join(sorted(functions)[:8]) or "no operations"
    meant = {f: nearest(f, _NAMED) for f in sorted(functions - {*_NAMED})}
    odd = next((o for o in operations if o.f in meant), None)
    if odd is None and operations:  # each name is known, and they are of several models
        odd = next((o for o in operations if o.f != operations[0].f), operations[0])
    renamed = ", ".join(f"{f} is perhaps {name}" for f, name in meant.items() if name is not None)
    apart = odd is not None and "key" in odd.invoked.extra
    raise ModelError(
        f"cannot determine the kind of history ({words}): give --model, one of {', '.join(models())}; or name the operations as a model "
        f"does, `f` {OPERATION_NAMES}{f' ({renamed})' * bool(renamed)}{KEY_APART * apart}",
        None if odd is None else odd.invoked.index,
    )


def _known_steps(operations: Sequence[Operation]) -> None:
    """Raises EventError: a transaction is no list, or has a micro-operation that is neither a read nor a write."""
    for o in operations:
        if o.value is not None and not isinstance(o.value, list):
            raise EventError(o.invoked.index, f"expected a transaction such as [[r 1 [2]]], found {shortened(o.value)}")
        for m in _steps(o):
            if not isinstance(m, list | tuple) or not m or not isinstance(m[0], str) or m[0] not in FUNCTIONS:
                raise EventError(
                    o.invoked.index,
                    f"expected a micro-operation [append KEY VALUE], [w KEY VALUE] or [r KEY VALUE], found {shortened(m)}",
                )


def _steps(o: Operation) -> Sequence[Any]:
    return o.value if isinstance(o.value, list) else ()


# --- transactions -----------------------------------------------------------------------------------------------------


def _transactions(operations: Sequence[Operation], model: str, level: str) -> Verdict:
    result = check_transactions(transactions(operations, model), workload=model, level=level)
    verdict = of_transactions(result, {o.op: o.indices for o in operations})
    return (
        replace(verdict, notes=(*verdict.notes, ORDER_IN_PART))
        if model == "rw-register" and verdict.valid is True
        else verdict
    )


def of_transactions(result: IsolationResult, events: Mapping[str, tuple[int, ...]]) -> Verdict:
    """The verdict on transactions; ``events``: those of each operation."""
    anomalies = tuple(_anomaly(f, result.level, events) for f in result.violations)
    stats: ClientStats = {
        "transactions": result.transactions,
        "dependencies": result.edges,
        "found": result.counts,
        "allowed": {n: c for n, c in result.counts.items() if n in {f.name for f in result.allowed}},
        "weakest_violated": list(result.weakest_violated),
        "strongest_standing": list(result.strongest_standing),
    }
    return Verdict("isolation", result.valid, anomalies, stats, result.undecided)


def _anomaly(f: IsolationFinding, level: str, events: Mapping[str, tuple[int, ...]]) -> Anomaly:
    ops = tuple(str(t) for t in dict.fromkeys(f.transactions))
    cycle = [{"before": str(s.before), "after": str(s.after), "kind": s.kind, "because": s.because} for s in f.steps]
    return Anomaly(
        f.name,
        "isolation",
        None,
        f"{f.explanation}\n{level} forbids {f.name}.",
        ops=ops,
        events=tuple(i for op in ops for i in events.get(op, ())),
        evidence={"level": level} | ({"cycle": cycle} if cycle else {}),
    )


# --- rows of icequake's tables ----------------------------------------------------------------------------------------


def _rows(h: History) -> Verdict:
    """A run without its table logs, by the checker that needs none (:mod:`checkers.linearizable.checker`): it says the same as of the run."""
    named = h.header.get(TABLES_KEY)
    if not isinstance(named, list):
        raise ModelError(f"the model {ROWS_MODEL} needs the header of a file that `icequake export RUN -o FILE` wrote")
    try:
        tables = [TableSpec.model_validate(t) for t in named]
    except ValueError as e:
        raise HistoryError(f"the header's {TABLES_KEY} are no tables of a plan: {' '.join(str(e).split())}") from None
    verdict = Linearizable().check(Evidence(h, {}, {t.name: t for t in tables}))
    judged = verdict.stats_as(LinearizableStats)["tables"].values()
    stats: ClientStats = {
        "keys": sum(t["ids"] for t in judged),
        "found": dict(Counter(a.name for a in verdict.anomalies)),
    }
    return Verdict(verdict.checker, verdict.valid, verdict.anomalies, stats, verdict.notes)


# --- linearizable -----------------------------------------------------------------------------------------------------


AS_KEYS = "every value is a pair, so it counts as [key, value], and each key as an object of its own; --plain takes pairs as values"
AS_EITHER = (
    "every value is a pair, and may be [key, value] or a value: with plain values no order explains the answers, with keys one may; "
    "say which it is, with --keyed or --plain"
)


def _linearizable(h: History, model: str, keyed: bool | None) -> Verdict:
    events = {o.op: o.indices for o in h.operations()}
    try:
        result = check_model(h, model, keyed=keyed)
    except linearizable.UnfitHistory as e:
        if e.op is None:
            raise HistoryError(e.why) from None
        raise EventError(events[e.op][0 if e.asked else -1], e.why) from None
    anomalies = tuple(_nonlinearizable(k, model, events) for k in result.failures)
    notes = [f"{_of_key(k)}not decided: {k.explanation}" for k in result.undecided]
    if keyed is None and result.keyed is not False:
        notes.insert(0, AS_KEYS if result.keyed else AS_EITHER)
    stats: ClientStats = {
        "keys": result.stats["keys"],
        "operations": result.stats["operations"],
        "recorded": len(events),
        "algorithms": result.stats["algorithms"],
        "found": {"nonlinearizable": len(anomalies)} if anomalies else {},
    }
    if keyed is not None or result.keyed:
        stats["keyed"] = result.keyed is True
    return Verdict(LINEARIZABLE, result.valid, anomalies, stats, tuple(notes))


def _nonlinearizable(k: KeyResult, model: str, events: Mapping[str, tuple[int, ...]]) -> Anomaly:
    configurations = [{"state": c.state, "order": list(c.order), "pending": list(c.pending)} for c in k.configurations]
    return Anomaly(
        "nonlinearizable",
        LINEARIZABLE,
        None,
        f"{_of_key(k)}{k.explanation}",
        ops=k.involved,
        events=tuple(i for op in k.involved for i in events.get(op, ())),
        evidence={
            "model": model,
            "key": k.key,
            "explained": k.answered,
            "answers": k.of,
            "configurations": configurations,
        },
    )


def _of_key(k: KeyResult) -> str:
    return "" if k.key is None else f"key {explain.value(k.key)}: "
