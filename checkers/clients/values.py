"""Values of EDN as JSON, and back.

Keywords, symbols and characters become their text; vectors, lists and sets become lists; ratios and other numbers unknown to JSON become
text; tagged values lose their tag. The keys of a map become text; whole numbers among them become numbers again when written
(``{0 10, 1 12}``, a bank's balances).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from checkers.clients import edn
from checkers.clients.edn import EdnError, Keyword

_WHOLE = re.compile(r"(?:0|-?[1-9]\d{0,17})\Z", re.ASCII)
NAME = re.compile(r"[A-Za-z*!_?$%&=<>][\w.*+!?$%&=<>/-]*\Z", re.ASCII)


def to_json(v: edn.Value) -> Any:
    """An EDN value as JSON; see the module's docstring.

    Raises:
        EdnError: two keys of a map have the same text.
    """
    if v is None or isinstance(v, bool | str):
        return v
    if isinstance(v, int):
        return v
    if isinstance(v, float):
        return v if math.isfinite(v) else "NaN" if math.isnan(v) else "Infinity" if v > 0 else "-Infinity"
    if isinstance(v, edn.Keyword | edn.Symbol):
        return v.name
    if isinstance(v, edn.Char):
        return v.value
    if isinstance(v, Fraction | Decimal):
        return f"{v.numerator}/{v.denominator}" if isinstance(v, Fraction) else str(v)
    if isinstance(v, edn.Tagged):
        return to_json(v.value)
    if isinstance(v, edn.Map):
        out: dict[str, Any] = {}
        for k, x in v.entries:
            key = k if isinstance(k, str) else k.name if isinstance(k, edn.Keyword | edn.Symbol) else edn.write(k)
            if key in out:
                raise EdnError(f"the key {key!r} is there twice, once as a keyword, number or string")
            out[key] = to_json(x)
        return out
    items = v.items if isinstance(v, edn.List | edn.Set) else v
    return [x if type(x) is int else to_json(x) for x in items]


def from_json(v: Any) -> edn.Value:
    """A JSON value as EDN; see the module's docstring."""
    if isinstance(v, Mapping):
        return edn.Map(tuple((_key(str(k)), from_json(x)) for k, x in v.items()))
    if isinstance(v, list | tuple):
        return tuple(from_json(x) for x in v)
    return v


def _key(text: str) -> edn.Value:
    return int(text) if _WHOLE.match(text) else Keyword(text) if NAME.match(text) else text


def transaction(v: Any) -> edn.Value:
    """The value of a transaction as EDN: micro-operations with keywords for their functions."""
    if not isinstance(v, list):
        return from_json(v)
    return tuple(
        (Keyword(m[0]), *(from_json(x) for x in m[1:]))
        if isinstance(m, list) and m and isinstance(m[0], str) and NAME.match(m[0])
        else from_json(m)
        for m in v
    )
