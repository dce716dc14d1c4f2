"""The workload file: YAML in, validated objects out, and errors that name file, line, key and what is allowed.

A workload file says *what* the writers do, never where it runs. ``docs/workload-file.md`` is its reference; ``load`` is the only
way in. Seed and file together determine every operation of every writer (``workloads.generator``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from compose.catalogs import CATALOGS
from nemesis.faults import Fault
from nemesis.packages import PACKAGES
from workloads.lengths import Seconds
from workloads.operations import KINDS, Keys
from workloads.tables import TableSpec


class WorkloadError(ValueError):
    """A workload file that cannot be used; one line: file, line, key, what is wrong and what is allowed."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class KeySpec(_Model):
    """How shared keys are drawn: ``space`` of them, with a Zipf exponent of ``skew`` (0: all alike)."""

    space: Annotated[int, Field(ge=2, le=1_000_000)] = 16
    skew: Annotated[float, Field(ge=0, le=5)] = 0.0

    def keys(self) -> Keys:
        """For the operations."""
        return Keys(self.space, self.skew)


class Length(_Model):
    """How long a phase goes on: until ``ops`` operations were invoked by all writers together, or for ``time``; one of them."""

    ops: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    time: Seconds | None = None

    @model_validator(mode="after")
    def _one(self) -> Length:
        if (self.ops is None) == (self.time is None):
            raise ValueError("needs exactly one of: ops, time")
        return self


class OperationSpec(_Model):
    """One line of the mix: a kind's share, whose keys it draws, and on which tables (all, when not said)."""

    weight: Annotated[float, Field(ge=0, le=1e6)] = 1.0
    keys: Literal["shared", "own"] = "shared"
    tables: tuple[str, ...] | None = None
    rows: Annotated[int, Field(ge=1, le=1000)] | None = None
    back: Annotated[int, Field(ge=0, le=1000)] | None = None
    strategy: Literal["binpack", "sort"] | None = None
    partial_progress: bool | None = None
    retain_last: Annotated[int, Field(ge=1, le=100_000)] | None = None
    columns: Annotated[int, Field(ge=1, le=1000)] | None = None
    properties: Annotated[int, Field(ge=1, le=1000)] | None = None
    older_than: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Seconds."""

    def options(self) -> dict[str, Any]:
        """The kind's own options that were given."""
        return {k: v for k, v in self if k not in ("weight", "keys", "tables") and v is not None}


def _weight(value: object) -> object:
    return {"weight": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


Mix = dict[str, Annotated[OperationSpec, BeforeValidator(_weight)]]


class Phase(_Model):
    """A stretch of the run. ``operations``, ``rate`` and ``writers`` are the workload's where not given; ``tables``: those of operations that
    name none, all when not given.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    length: Length
    operations: Mix | None = None
    rate: Annotated[float, Field(gt=0, le=1e6)] | None = None
    writers: Annotated[int, Field(ge=1, le=64)] | None = None
    tables: tuple[str, ...] | None = None


class Nemesis(_Model):
    """What goes wrong while the writers work. See ``docs/nemesis.md``.

    Attributes:
        packages: names of ``nemesis.packages``.
        faults: more of them.
        interval: seconds from the end of a fault to the start of the next: half of it to one and a half times it.
        duration: seconds that a fault is on, for those that do not say.
    """

    packages: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    interval: Seconds = 5.0
    duration: Seconds = 5.0

    def all(self) -> tuple[Fault, ...]:
        """The packages' faults, then its own."""
        return (*(f for p in self.packages for f in PACKAGES[p].faults), *self.faults)


class Workload(_Model):
    """A whole workload file. See ``docs/workload-file.md``."""

    workload: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    description: str = ""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    catalog: str = "rest"
    catalog_properties: dict[str, str] = {}
    tables: Annotated[tuple[TableSpec, ...], Field(min_length=1, max_length=64)]
    writers: Annotated[int, Field(ge=1, le=64)] = 4
    keys: KeySpec = KeySpec()
    length: Length | None = None
    rate: Annotated[float, Field(gt=0, le=1e6)] | None = None
    op_timeout: Seconds = 120.0
    operations: Annotated[Mix, Field(min_length=1)]
    phases: Annotated[tuple[Phase, ...], Field(max_length=100)] = ()
    nemesis: Nemesis | None = None
    clocks: dict[Annotated[int, Field(ge=0, le=63)], Annotated[str, Field(pattern=r"^[+-]\d+[smhd]$")]] = {}
    expect: tuple[str, ...] = ()
    assertions: Annotated[dict[str, str], Field(alias="assert")] = {}

    def resolved_phases(self) -> tuple[Phase, ...]:
        """The phases with everything filled in; one called ``main`` when the file has only ``length``."""
        phases = self.phases or (Phase(name="main", length=self.length or Length(ops=1)),)
        return tuple(
            p.model_copy(
                update={
                    "operations": p.operations or self.operations,
                    "rate": p.rate or self.rate,
                    "writers": p.writers or self.writers,
                }
            )
            for p in phases
        )

    @model_validator(mode="after")
    def _consistent(self) -> Workload:
        if self.length is not None and self.phases:
            raise ValueError("give either length or phases (each phase has its own length), not both")
        if self.length is None and not self.phases:
            raise ValueError("needs length, such as {ops: 200} or {time: 2m}, or phases")
        return self


def assertion(text: str) -> tuple[str, float, bool]:
    """Parse a threshold such as ``"<5%"`` or ``">=200"``.

    Returns:
        The comparison (``<``, ``<=``, ``>``, ``>=``, ``==``), the number (5 % is 0.05), whether it was a percentage.

    Raises:
        ValueError: it is not of that form.
    """
    match = re.fullmatch(r"\s*(<=|>=|==|<|>)\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if match is None:
        raise ValueError('must be a comparison such as "<5%" or ">=200"')
    return match[1], float(match[2]) / (100 if match[3] else 1), bool(match[3])


METRICS = {
    "operations": "operations of the writers that completed, whatever their outcome",
    "kinds": "operation kinds that completed at least once",
    "ok_rate": "operations acknowledged / operations",
    "abort_rate": "writes that certainly failed / writes",
    "unknown_rate": "operations whose outcome is unknown / operations",
    "retried": "commits that needed more than one attempt",
    "aborted": "writes aborted by a conflict (CommitFailedException or ValidationException)",
    "retry_rate": "commits that needed more than one attempt / commits",
    "latency_p50_ms": "median time from invocation to acknowledgement, ms",
    "latency_p99_ms": "99th percentile of it, ms",
}
"""What ``assert:`` may compare."""


# --- YAML with line numbers -------------------------------------------------------------------------------------------

Path_ = tuple[Hashable, ...]


def _plain(node: yaml.Node, loader: yaml.SafeLoader, at: Path_, lines: dict[Path_, int], file: str) -> Any:
    lines[at] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        out: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            line = key_node.start_mark.line + 1
            if not isinstance(key, str):
                raise WorkloadError(f"{file}:{line}: key {key!r} must be a word")
            if key in out:
                raise WorkloadError(f"{file}:{line}: key {key!r} is there twice; keep one")
            out[key] = _plain(value_node, loader, (*at, key), lines, file)
            lines[(*at, key)] = line
        return out
    if isinstance(node, yaml.SequenceNode):
        return [_plain(n, loader, (*at, i), lines, file) for i, n in enumerate(node.value)]
    try:
        return loader.construct_object(node, deep=True)
    except ValueError as e:  # such as a date that the calendar does not have
        raise WorkloadError(f"{file}:{lines[at]}: {node.value!r}: {e}; quote it if it is a word") from None


def _parse_yaml(text: str, file: str) -> tuple[Any, dict[Path_, int]]:
    lines: dict[Path_, int] = {}
    try:
        loader = yaml.SafeLoader(text)
    except yaml.YAMLError as e:  # a character that YAML does not allow
        line = text.count("\n", 0, getattr(e, "position", 0)) + 1
        raise WorkloadError(f"{file}:{line}: not YAML: {getattr(e, 'reason', e)}") from None
    try:
        node = loader.get_single_node()
        if node is None:
            raise WorkloadError(f"{file}:1: the file is empty; start from workloads/quick.yaml")
        return _plain(node, loader, (), lines, file), lines
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark is not None else file
        raise WorkloadError(f"{where}: not YAML: {getattr(e, 'problem', None) or e}") from None
    except RecursionError:
        raise WorkloadError(f"{file}: nested too deeply") from None
    finally:
        loader.dispose()


def _allowed_keys(location: Path_, root: type[BaseModel]) -> list[str]:
    """The keys that the mapping at ``location`` of a ``root`` may have, found by walking the models; empty when it is none."""
    model: Any = root
    for step in location:
        model = _descend(model, step)
        if model is None:
            return []
    model = _unwrap(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [f.alias or n for n, f in model.model_fields.items()]
    return []


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Union or type(annotation).__name__ == "UnionType":
        for a in get_args(annotation):
            inner = _unwrap(a)
            if inner is not type(None):
                return inner
    return annotation


def _descend(annotation: Any, step: Hashable) -> Any:
    annotation = _unwrap(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, f in annotation.model_fields.items():
            if step in (name, f.alias):
                return f.annotation
        return None
    args = get_args(annotation)
    if get_origin(annotation) is tuple and args:
        return args[0]
    if get_origin(annotation) is dict and args:
        return args[1]
    return None


def suggest(word: object, allowed: Mapping[str, Any] | list[str]) -> str:
    """`` (did you mean …?)`` when one of the allowed words is near; else nothing."""
    near = difflib.get_close_matches(str(word), list(allowed), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _message(error: ErrorDetails, location: Path_, root: type[BaseModel]) -> str:
    key = location[-1] if location else None
    kind = error["type"]
    if kind == "extra_forbidden":
        allowed = _allowed_keys(location[:-1], root)
        return f"unknown key {key!r}{suggest(key, allowed)}; allowed: {', '.join(allowed)}"
    if kind == "missing":
        return f"missing key {key!r}"
    name = f"{key}: " if isinstance(key, str) else ""
    if kind in ("value_error", "assertion_error"):
        return f"{name}{str(error['ctx']['error']) if 'ctx' in error else error['msg']}"
    if kind in ("model_type", "dict_type"):
        allowed = _allowed_keys(location, root)
        keys = f" with the keys {', '.join(allowed)}" if allowed else ""
        return f"{name}must be a mapping{keys}, not {error['input']!r}"
    if kind == "tuple_type":
        return f"{name}must be a list, not {error['input']!r}"
    if kind == "literal_error":
        return f"{name}{error['input']!r} is not allowed; allowed: {error['ctx']['expected'].replace(' or ', ', ')}"
    if kind == "string_pattern_mismatch":
        return f"{name}{error['input']!r} must match {error['ctx']['pattern']}"
    return f"{name}{error['msg'][0].lower()}{error['msg'][1:]}, not {error['input']!r}"


def line_of(location: Path_, lines: Mapping[Path_, int]) -> int:
    """The line of a key, or of what is nearest above it."""
    for n in range(len(location), -1, -1):
        if location[:n] in lines:
            return lines[location[:n]]
    return 1


M = TypeVar("M", bound=BaseModel)


def validated(root: type[M], text: str, file: str) -> tuple[M, Mapping[Path_, int]]:
    """YAML text as a ``root``, and the line of every key (its path in the file → its line, from 1).

    Raises:
        WorkloadError: the first thing that is wrong, with file, line and key.
    """
    data, lines = _parse_yaml(text, file)
    if not isinstance(data, dict):
        raise WorkloadError(f"{file}:1: must be a mapping with the keys {', '.join(_allowed_keys((), root))}")
    try:
        return root.model_validate(data), lines
    except ValidationError as e:
        errors = e.errors()
        unknown = [x for x in errors if x["type"] == "extra_forbidden"]
        first = (unknown or errors)[0]
        location = tuple(first["loc"])
        raise WorkloadError(f"{file}:{line_of(location, lines)}: {_message(first, location, root)}") from None


def parse(text: str, file: str = "<workload>") -> Workload:
    """Parse the text of a workload file; ``file`` names it in errors.

    Raises:
        WorkloadError: the first thing that is wrong, with file, line and key.
    """
    workload, lines = validated(Workload, text, file)
    _check_names(workload, lines, file)
    return workload


def _check_names(w: Workload, lines: Mapping[Path_, int], file: str) -> None:
    def fail(location: Path_, message: str) -> None:
        raise WorkloadError(f"{file}:{line_of(location, lines)}: {message}")

    names = [t.name for t in w.tables]
    for i, name in enumerate(names):
        if name in names[:i]:
            fail(("tables", i, "name"), f"table {name!r} is there twice; give each its own name")
    mixes: list[tuple[Path_, Mix]] = [(("operations",), w.operations)]
    mixes += [(("phases", i, "operations"), p.operations) for i, p in enumerate(w.phases) if p.operations is not None]
    for at, mix in mixes:
        for kind, spec in mix.items():
            if kind not in KINDS:
                fail((*at, kind), f"unknown operation {kind!r}{suggest(kind, KINDS)}; allowed: {', '.join(KINDS)}")
            for option in spec.options():
                allowed = KINDS[kind].options
                if option not in allowed:
                    takes = ", ".join(("weight", "keys", "tables", *allowed))
                    fail((*at, kind, option), f"{option}: {kind} has no such option; allowed: {takes}")
            if not spec.tables and spec.tables is not None:
                fail((*at, kind, "tables"), "tables: names no table; leave the key out for all tables")
            for i, t in enumerate(spec.tables or ()):
                if t not in names:
                    fail((*at, kind, "tables", i), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
        if not any(s.weight for s in mix.values()):
            fail(at, "operations: every weight is 0; give at least one operation a weight")
    for i, p in enumerate(w.phases):
        if p.name in ("setup", "final-reads") or p.name in [q.name for q in w.phases[:i]]:
            fail(("phases", i, "name"), f"name: phase {p.name!r} is taken; give each phase its own name")
        for j, t in enumerate(p.tables or ()):
            if t not in names:
                fail(("phases", i, "tables", j), f"tables: unknown table {t!r}; allowed: {', '.join(names)}")
        if p.tables == ():
            fail(("phases", i, "tables"), "tables: names no table; leave the key out for all tables")
        if p.writers is not None and p.writers > w.writers:
            fail(("phases", i, "writers"), f"writers: the workload has only {w.writers}; raise writers at the top")
    if w.catalog not in CATALOGS:
        fail(
            ("catalog",), f"unknown catalog {w.catalog!r}{suggest(w.catalog, CATALOGS)}; allowed: {', '.join(CATALOGS)}"
        )
    for n in w.clocks:
        if n >= w.writers:
            fail(("clocks", str(n)), f"clocks: there is no writer {n}; the workload has {w.writers}, from 0")
    _check_nemesis(w, fail)
    for metric, threshold in w.assertions.items():
        if metric not in METRICS:
            fail(
                ("assert", metric),
                f"unknown metric {metric!r}{suggest(metric, METRICS)}; allowed: {', '.join(METRICS)}",
            )
        try:
            assertion(threshold)
        except ValueError as e:
            fail(("assert", metric), f"{metric}: {e}, not {threshold!r}")


def _check_nemesis(w: Workload, fail: Callable[[Path_, str], None]) -> None:
    if w.nemesis is None:
        return
    if not w.nemesis.packages and not w.nemesis.faults:
        fail(("nemesis",), "nemesis: names no fault; give packages, faults or both, or leave the key out")
    for i, name in enumerate(w.nemesis.packages):
        if name not in PACKAGES:
            allowed = ", ".join(PACKAGES)
            fail(("nemesis", "packages", i), f"unknown package {name!r}{suggest(name, PACKAGES)}; allowed: {allowed}")
    for i, fault in enumerate(w.nemesis.faults):
        at: Path_ = ("nemesis", "faults", i)
        for n in fault.writers or ():
            if n >= w.writers:
                fail((*at, "writers"), f"writers: there is no writer {n}; the workload has {w.writers}, from 0")
        if fault.do is not None and fault.do not in KINDS:
            fail(
                (*at, "do"),
                f"do: unknown operation {fault.do!r}{suggest(fault.do, KINDS)}; allowed: {', '.join(KINDS)}",
            )


LIBRARY = Path(__file__).parent
"""Where the workload files that come with icequake are."""


def find(name: str) -> Path:
    """The file that ``name`` means: a path, or the name of a workload of the library (``quick``).

    Raises:
        WorkloadError: neither is there; lists the library.
    """
    path = Path(name)
    if path.is_file():
        return path
    for candidate in (LIBRARY / f"{name}.yaml", LIBRARY / path.name):
        if candidate.is_file() and (path.parent == Path() or path.parent.name == "workloads"):
            return candidate
    library = sorted(p.stem for p in LIBRARY.glob("*.yaml"))
    raise WorkloadError(f"{name}: no such workload file{suggest(name, library)}; in the library: {', '.join(library)}")


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        WorkloadError: it cannot be read, or is not text.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise WorkloadError(f"{path}: not UTF-8 text") from None
    except OSError as e:
        raise WorkloadError(f"{path}: cannot be read: {e.strerror}") from None


def load(path: Path) -> Workload:
    """Read and validate a workload file.

    Raises:
        WorkloadError: it cannot be read, or something in it is wrong.
    """
    return parse(read_text(path), str(path))
