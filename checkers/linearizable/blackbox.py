"""A history judged by what its clients saw: :func:`check_model`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from checkers.evidence.history import History, Operation
from checkers.evidence.replace import replace
from checkers.linearizable import counting, ordered, zones
from checkers.linearizable.calls import NEVER, Call, UnfitHistory, by_key, cut, keyed_by, thaw
from checkers.linearizable.models import MODELS, Model
from checkers.linearizable.result import Configuration, KeyResult, LinearizableResult, stats
from checkers.linearizable.search import DEFAULT_LIMITS, Final, Limits, SearchResult, search
from checkers.timeline import explain
from checkers.verdict import worst

EXPLAINING = Limits(steps=200_000, configurations=50_000)
"""Limits for finding the configurations before a failure that was found without a search."""
MOST_NAMED = 4
"""Operations of an order that an explanation names, at most."""
SHOWN = 20
"""Operations of an order that are kept, at most."""
EXPLAINED_KEYS = 10
"""Keys whose failure is explained, at most; for others only the failing operation is named."""


def check_model(
    history: History | Iterable[Operation],
    model: str | Model,
    *,
    limits: Limits = DEFAULT_LIMITS,
    keyed: bool | None = None,
    algorithm: str = "best",
) -> LinearizableResult:
    """Is there an order of the operations, one by one, that explains every answer, where each takes effect between its invocation and its
    answer (Herlihy and Wing, "Linearizability", 1990)?

    An operation that failed never took effect; one of unknown outcome did at any time after its invocation, or never.

    Example:
        >>> from checkers.clients.jepsen import from_edn
        >>> stale = from_edn('''
        ... {:process 0 :type :invoke :f :write :value 1} {:process 0 :type :ok :f :write :value 1}
        ... {:process 1 :type :invoke :f :read :value nil} {:process 1 :type :ok :f :read :value nil}''')
        >>> result = check_model(stale, "register")
        >>> result.valid, result.keys[0].failing
        (False, '1-0')

    Args:
        history: as recorded, or as ``checkers.clients.jepsen`` reads it.
        model: a name in ``MODELS``, or a model with another initial state.
        limits: of searches; a key that exceeds them is ``"unknown"``.
        keyed: whether values are pairs of an independent key and a value; None: as their form shows (:func:`keyed_by`). If it fits both, a
            history that only one reading explains is ``"unknown"``.
        algorithm: ``best``, or ``search`` for the search alone.

    Raises:
        UnfitHistory: there is no such model, or an operation does not belong to it.
        HistoryError: invocations and completions do not pair.
    """
    if algorithm not in ("best", "search"):
        raise ValueError(f"algorithm {algorithm!r} is not known; there are: best, search")
    m = model if isinstance(model, Model) else _model(model)
    operations = history.operations() if isinstance(history, History) else list(history)
    if keyed is None and m.keyed:
        keyed = keyed_by(operations)
        if keyed is None:
            return _both_ways(operations, m, limits, algorithm)
    return _read_as(operations, m, keyed is True and m.keyed, limits, algorithm)


def _read_as(
    operations: Sequence[Operation], m: Model, keyed: bool, limits: Limits, algorithm: str
) -> LinearizableResult:
    results = _judge(calls_of(operations, m, keyed), m, limits, algorithm)
    return LinearizableResult(m.name, worst(r.valid for r in results), results, stats(results), keyed)


def _both_ways(operations: Sequence[Operation], m: Model, limits: Limits, algorithm: str) -> LinearizableResult:
    """A history whose values may be pairs of a key and a value, or values: it is only wrong if both readings are."""
    found = []
    for keyed in (False, True):
        try:
            found.append(_read_as(operations, m, keyed, limits, algorithm))
        except UnfitHistory as e:
            unfit = e
    if not found:
        raise unfit
    plain, other = found[0], found[-1]
    if plain.valid is False and other.valid is not False:
        return replace(other, valid="unknown", keyed=None)
    return plain


def _model(name: str) -> Model:
    if name not in MODELS:
        raise UnfitHistory(None, f"model {name!r} is not known; there are: {', '.join(MODELS)}")
    return MODELS[name]()  # type: ignore[call-arg]


def calls_of(operations: Sequence[Operation], m: Model, keyed: bool) -> dict[Hashable, list[Call]]:
    """Key → its calls."""
    out: dict[Hashable, list[Call]] = {}
    for key, own in by_key(operations, keyed).items():
        calls = [m.call(o, value, result) for o, value, result in own]
        out[key] = [c for c in calls if c.end != NEVER or not c.reads]
    return out if m.keyed else _components(out[None])


def _components(calls: Sequence[Call]) -> dict[Hashable, list[Call]]:
    """Transactions that share no key, not even through others, are independent."""
    above: dict[Hashable, Hashable] = {}

    def top(k: Hashable) -> Hashable:
        while above[k] != k:
            above[k] = k = above[above[k]]
        return k

    for c in calls:
        keys = [k for _, k, _ in c.value]
        for k in keys:
            above.setdefault(k, k)
            above[top(k)] = top(keys[0])
    out: dict[Hashable, list[Call]] = {}
    for c in calls:
        if c.value:
            out.setdefault(top(c.value[0][1]), []).append(c)
    if len(out) <= 1:
        return {None: [c for group in out.values() for c in group]}
    return out


def _judge(keys: Mapping[Hashable, Sequence[Call]], m: Model, limits: Limits, algorithm: str) -> tuple[KeyResult, ...]:
    found: dict[Hashable, KeyResult] = {}
    failed: list[tuple[Hashable, str, Callable[[Sequence[Call]], bool]]] = []
    for key, (valid, name, decide) in _decided(keys, m).items() if algorithm == "best" else ():
        calls = keys[key]
        if valid:
            answers = sum(c.ok for c in calls)
            found[key] = KeyResult(thaw(key), True, name, len(calls), answers, answers)
        else:
            failed.append((key, name, decide))
    refuted = {key for key, _, _ in failed}
    steps = 0
    for key, calls in keys.items():
        if key not in found and key not in refuted:
            s = search(calls, m, limits.after(steps))
            steps += s.steps
            found[key] = searched(thaw(key), calls, m, s)
    for n, (key, name, decide) in enumerate(failed):
        found[key] = _refuted(thaw(key), keys[key], m, name, decide, n < EXPLAINED_KEYS)
    return tuple(found[key] for key in keys)


Decided = dict[Hashable, tuple[bool, str, Callable[[Sequence[Call]], bool]]]
"""Key → whether it has an order, the algorithm that decided, and the same algorithm for a subset of its calls."""


def _decided(keys: Mapping[Hashable, Sequence[Call]], m: Model) -> Decided:
    """The keys that need no search."""
    out: Decided = {}
    if m.name in ("register", "cas-register"):
        plain = {k: calls for k, calls in keys.items() if not any(c.f == "cas" for c in calls)}
        zoned = zones.judge(plain, m.initial)

        def by_zones(calls: Sequence[Call]) -> bool:
            return not zones.judge({None: calls}, m.initial).bad

        out |= dict.fromkeys(zoned.good, (True, "zones", by_zones))
        out |= dict.fromkeys(zoned.bad, (False, "zones", by_zones))
    for key, calls in keys.items():
        valid: bool | None = None
        if m.name == "set":
            valid = ordered.judge_set(calls, m.initial)
            out[key] = valid, "levels", lambda c: ordered.judge_set(c, m.initial)
        elif m.name == "append-list":
            valid = ordered.judge_list(calls, m.initial)
            if valid is not None:
                out[key] = valid, "levels", lambda c: ordered.judge_list(c, m.initial) is not False
        elif m.name == "counter":
            valid = counting.judge(calls, m.initial)
            if valid is not None:
                out[key] = valid, "matching", lambda c: counting.judge(c, m.initial) is not False
            elif not counting.within_bounds(calls, m.initial):
                out[key] = False, "bounds", lambda c: counting.within_bounds(c, m.initial)
    return out


def _refuted(
    key: Any,
    calls: Sequence[Call],
    m: Model,
    algorithm: str,
    decide: Callable[[Sequence[Call]], bool],
    explained: bool,
) -> KeyResult:
    """A key that has no order. Bisection finds the event: up to the one before there is an order, up to this one there is none."""
    ends = sorted((c.end, n) for n, c in enumerate(calls) if c.ok)
    low, high = 0, len(ends) - 1  # up to ``high`` there is none; before ``low`` there is one
    while low < high:
        middle = (low + high) // 2
        if decide(cut(calls, ends[middle][0])):
            low = middle + 1
        else:
            high = middle
    index, stuck = ends[low]
    failing = calls[stuck]
    before = cut(calls, index)
    tried = search(before, m, EXPLAINING) if explained else None
    finals: tuple[Final, ...] = ()
    if tried is not None and tried.valid is False and tried.stuck is not None and before[tried.stuck].op == failing.op:
        finals = tried.finals
    configurations = tuple(_configuration(before, m, f) for f in finals)
    text, involved = f"no order explains the {_text(failing, m)}.", [failing.op]
    if explained:
        if algorithm == "zones":
            text, involved = _zones(before, failing, m)
        text += _stood(configurations, before, m, finals)
    return KeyResult(
        key,
        False,
        algorithm,
        len(calls),
        low,
        len(ends),
        failing.op,
        failing.end,
        text,
        configurations,
        tuple(dict.fromkeys(involved)),
    )


def searched(key: Any, calls: Sequence[Call], m: Model, s: SearchResult) -> KeyResult:
    """A key, judged by a search."""
    answers = sum(c.ok for c in calls)
    if s.valid is True:
        return KeyResult(key, True, "search", len(calls), s.answered, answers)
    failing = calls[s.stuck] if s.stuck is not None else None
    configurations = tuple(_configuration(calls, m, f) for f in s.finals)
    if s.valid == "unknown":
        text = f"the search was given up after {s.steps} steps: the order that got furthest explains {s.answered} of {answers} answers."
        return KeyResult(key, "unknown", "search", len(calls), s.answered, answers, explanation=text)
    assert failing is not None
    text = f"no order explains the {_text(failing, m)}." + _stood(configurations, calls, m, s.finals)
    return KeyResult(
        key, False, "search", len(calls), s.answered, answers, failing.op, failing.end, text, configurations,
        (failing.op, *_last(calls, s)),
    )  # fmt: skip


def _last(calls: Sequence[Call], s: SearchResult) -> tuple[str, ...]:
    """The last calls that change anything, in the first order that got furthest; last first."""
    return tuple(calls[n].op for n in _writes(calls, s.finals[0], MOST_NAMED)[::-1]) if s.finals else ()


def _writes(calls: Sequence[Call], f: Final, most: int) -> list[int]:
    """The last calls of an order that change anything."""
    return [n for n in f.order if not calls[n].reads][-most:]


def _configuration(calls: Sequence[Call], m: Model, f: Final) -> Configuration:
    return Configuration(
        m.describe(f.state),
        tuple(calls[n].op for n in f.order[-SHOWN:]),
        tuple(calls[n].op for n in f.pending),
    )


# --- words ------------------------------------------------------------------------------------------------------------


def _text(c: Call, m: Model) -> str:
    end = f"answered at event {c.end}" if c.ok else "never answered"
    return f"{m.words(c)} ({c.op}, process {c.process}, invoked at event {c.start}, {end})"


def _stood(configurations: Sequence[Configuration], calls: Sequence[Call], m: Model, finals: Sequence[Final]) -> str:
    """The configurations, in words."""
    if not finals:
        return ""
    states = list(dict.fromkeys(c.state for c in configurations))
    text = f" Everything answered before can be ordered; the state is then {' or '.join(states[:4])}"
    if len(states) > 4:
        text += f", or one of {len(states) - 4} more"
    writes = _writes(calls, finals[0], MOST_NAMED)
    if writes:
        ends = ", ".join(f"{m.words(calls[n])} ({calls[n].op})" for n in writes)
        text += f", {'the first of them ' if len(states) > 1 else ''}in an order that ends with {ends}"
    pending = sorted({n for f in finals for n in f.pending if not calls[n].reads}, key=lambda n: calls[n].start)
    if pending:
        shown = ", ".join(f"{m.words(calls[n])} ({calls[n].op})" for n in pending[:4])
        more = f" and {len(pending) - 4} more" if len(pending) > 4 else ""
        text += f". None of the operations under way ({shown}{more}) leads to that answer"
    return text + "."


def _zones(calls: Sequence[Call], failing: Call, m: Model) -> tuple[str, list[str]]:
    """Why a register's zones contradict each other, and the operations involved."""
    if failing.reads and failing.result != m.initial:
        writer = next((c for c in calls if not c.reads and c.value == failing.result), None)
        if writer is None:
            return (
                f"the {_text(failing, m)} returned a value that no operation had written by then, except possibly one that failed; "
                f"at first it is {m.describe(m.initial)}.",
                [failing.op],
            )
    found = zones.contradiction(calls, m.initial)
    if found is None:
        return f"no order explains the {_text(failing, m)}.", [failing.op]
    a, b = found
    first, last = a.first, a.last
    assert last is not None
    since = "from the start" if first is None else f"since the {_text(first, m)} had ended"
    text = (
        f"the value was {explain.value(thaw(a.value))} {since} (event {max(a.low, 0)}), and still when the {_text(last, m)} was invoked (event "
        f"{a.high}), so all the time in between. But "
    )
    ends = [c for c in (b.first, b.last) if c is not None]
    if b.forward:
        assert b.last is not None and b.first is not None
        text += (
            f"it was {explain.value(thaw(b.value))} since the {_text(b.first, m)} had ended (event {b.low}), and still when the "
            f"{_text(b.last, m)} was invoked (event {b.high}): the register cannot have both values at once."
        )
    else:
        text += (
            f"{' and '.join(dict.fromkeys('the ' + _text(c, m) for c in ends))} took effect with the value {explain.value(thaw(b.value))} "
            "within that time."
        )
    ops = [failing.op, *(c.op for x in (a, b) for c in (x.write, x.first, x.last) if c is not None)]
    return text, ops
