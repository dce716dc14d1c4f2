"""What a search step by step explores, what a state of it is, and a way through it (:mod:`checkers.formats.iceberg.model.faults`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from checkers.evidence.replace import replace
from checkers.formats.iceberg.model.catalogs import Fault, ModelCatalog
from checkers.formats.iceberg.model.logtree import Bound
from checkers.formats.iceberg.model.operations import ModelOperation
from workloads.engines.engine import Rule

Repeats = Literal["never", "blindly", "if not found"]
LOST, MISSING, STUCK = "lost-commit", "missing-file", "stuck-operation"
TWICE = "duplicate-row"
"""A row that is there twice because its client, which knew not whether it was there, inserted it again."""


@dataclass(frozen=True)
class Faulty:
    """What is explored.

    Attributes:
        bound: the operations, and how many of them.
        writers: how many clients at most, each with one operation at a time.
        retries: how often an operation commits again after it was refused (``commit.retry.num-retries``).
        faults: how many things go wrong.
    """

    bound: Bound
    catalog: ModelCatalog
    writers: int
    retries: int = 1
    faults: int = 1
    only: frozenset[Fault] | None = None
    """The faults that there are; None: all that the catalog's client knows."""
    repeats: Repeats = "never"
    """Whether who does not know what became of its operation does it again: blindly, or if it does not find it in the table."""

    def operations(self) -> list[ModelOperation]:
        """Those that are begun, and behind them the same, done again."""
        once = self.bound.operations()
        return [*once, *(replace(o, again=True) for o in once if self.repeats != "never")]


class Meta(NamedTuple):
    """A metadata file: its name, main, and the snapshots that it lists, each as its ancestry with itself."""

    file: int
    main: int
    listed: frozenset[int]


class ModelWriter(NamedTuple):
    """A client. ``base`` and ``new`` are numbers of metadata files; ``stage`` is what it does next."""

    stage: str
    op: int
    operation: int
    scan: int
    tried: int
    base: int
    new: int


class ModelState(NamedTuple):
    """All that there is. ``pointer``: number of a metadata file. ``acknowledged``, ``deleted``: a bit for each operation."""

    pointer: int
    writers: tuple[ModelWriter, ...]
    late: tuple[tuple[int, int], ...]
    begun: int
    compactions: int
    used: int
    faults: int
    acknowledged: int
    deleted: int


BY_CATALOG = -1
"""Who does what no client does."""


class WayStep(NamedTuple):
    """A step of a way: the number of the operation that takes it, or :data:`BY_CATALOG`, and what it is (``WaySearch.operations``)."""

    op: int
    operation: int
    words: str
    fault: Fault | None = None

    @property
    def begins(self) -> bool:
        """Whether it is the first one of its operation."""
        return self.words.startswith("scan of ")

    def __str__(self) -> str:
        return f"the catalog: {self.words}" if self.op == BY_CATALOG else f"operation {self.op + 1}: {self.words}"


Way = tuple[WayStep, ...]


IDLE_WRITER = ModelWriter("begin", -1, -1, 0, 0, 0, 0)


@dataclass
class WaySearchResult:
    """What a search found.

    Attributes:
        found: name of a broken promise → the shortest way to it.
        mixes: name, operations and faults, and the shortest way; none of whose part breaks the promise, too. The shortest first.
        began: kind of operation → how often one began.
        fired: step, without what it is of → how often it was taken.
        faults: fault → how often it came.
        refused: validation → how often it refused, by distinct situation.
        depth: the most steps of a way.
    """

    states: int = 0
    depth: int = 0
    found: dict[str, Way] = field(default_factory=dict)
    mixes: list[tuple[str, Counter[str], Way]] = field(default_factory=list)
    began: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    faults: Counter[Fault] = field(default_factory=Counter)
    refused: Counter[Rule] = field(default_factory=Counter)
    seconds: float = 0.0
