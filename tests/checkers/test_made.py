"""Objects of frozen dataclasses made past their ``__init__``: they are what the class makes, for any arguments."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.evidence.history import Event, Operation
from checkers.evidence.made import maker
from checkers.evidence.proxylog import AcceptedChange, Carried, PointerSwap
from checkers.evidence.replace import replace
from checkers.evidence.tablelog import Commit, FileEntry, Metadata, RowChange

MADE: tuple[type[Any], ...] = (
    Event,
    Operation,
    FileEntry,
    RowChange,
    Commit,
    Metadata,
    PointerSwap,
    AcceptedChange,
    Carried,
)


@given(st.sampled_from(MADE), st.lists(st.integers(), min_size=30, max_size=30), st.data())
def test_it_is_what_the_class_makes(cls: type[Any], values: list[int], data: st.DataObject) -> None:
    known = list(cls.__dataclass_fields__)
    first = data.draw(st.integers(0, len(known)))
    named = dict(zip(known[first:], values[first:], strict=False))
    own, made = cls(*values[:first], **named), maker(cls)(*values[:first], **named)
    assert type(made) is cls and made == own and repr(made) == repr(own) and hash(made) == hash(own)
    assert replace(made, **{known[0]: -1}) == replace(own, **{known[0]: -1})
    assert pickle.loads(pickle.dumps(made)) == own
    with pytest.raises(FrozenInstanceError):
        setattr(made, known[0], 0)
    with pytest.raises(FrozenInstanceError):
        delattr(made, known[0])


def test_defaults_are_its_own_and_arguments_that_are_not_its_own_are_refused() -> None:
    make = maker(Event)
    one, other = make(0, 1, "invoke", 0, "read"), make(1, 2, "ok", 0, "read")
    assert one == Event(0, 1, "invoke", 0, "read") and one.extra == {} and one.extra is not other.extra
    with pytest.raises(TypeError):
        make(0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        make(0, 1, "invoke", 0, "read", nothing=1)  # type: ignore[call-arg]


@dataclass(frozen=True)
class NoSlots:
    a: int


@dataclass(slots=True)
class NotFrozen:
    a: int


@dataclass(frozen=True, slots=True)
class DoesMore:
    a: int

    def __post_init__(self) -> None:
        assert self.a


@dataclass(frozen=True, slots=True)
class SetsOne:
    a: int
    b: int = field(default=0, init=False)


@dataclass(frozen=True, slots=True)
class Inherits(DoesMore):
    c: int


@pytest.mark.parametrize("cls", [NoSlots, NotFrozen, DoesMore, SetsOne, Inherits, int])
def test_another_class_is_refused(cls: type[Any]) -> None:
    with pytest.raises(TypeError):
        maker(cls)
