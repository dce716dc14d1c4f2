"""The file of a model (``icequake model``): a question, and the bound within which the model answers it.

::

    model: undelete
    question: Can an acknowledged DELETE leave its row in a table of snapshot isolation?
    kinds: {update-register: [merge-on-read], delete: [merge-on-read]}
    writes: 3
    isolation: snapshot
    expect: [undelete]

With ``catalog`` it is explored step by step, with faults::

    model: jdbc
    question: Is a commit of which the answer was lost still there, and its files?
    kinds: {insert: [], update-register: [copy-on-write]}
    writes: 2
    catalog: jdbc
    expect: [lost-commit, missing-file]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from workloads.engines.engine import Rule
from workloads.engines.engines import ENGINES
from workloads.file.meant import suggest
from workloads.file.scenario import NAME
from workloads.file.workload import LIBRARY as WORKLOADS
from workloads.file.workload import WorkloadError
from workloads.file.yamlfile import Problem, read_text, refuse, validated
from workloads.operations.kinds import KINDS
from workloads.tables import TableSpec

LIBRARY = WORKLOADS / "models"
"""The folder of the models that come with icequake."""
CatalogName = Literal[
    "ideal",
    "none",
    "jdbc",
    "jdbc-mended",
    "rest",
    "rest-mended",
    "hive",
    "hive-cas",
    "glue-blind",
    "glue",
    "rest-transactions",
    "ideal-transactions",
]
Fault = Literal["reply lost", "503 after it was applied", "sent twice", "late", "lock expired", "statement refused"]
RuleSet = Literal["iceberg-1.8", "iceberg-1.10", "iceberg-1.12", "specification"]
MODES = ("copy-on-write", "merge-on-read")
AT_COMMIT = ("insert", "delete-partition", "equality-delete", "overwrite-partitions", "overwrite-where")
"""Kinds that do what they mean on the base of their commit, and have no scan of their own."""
VALIDATED_OVERWRITES = ("overwrite-partitions-validated", "overwrite-where-validated")
"""Overwrites that also choose their files on the base of their commit, but are validated against what came since their scan."""
UPSERT = "upsert"
"""Flink's kind: an equality delete and a new row, on the base of its commit. Spark has no statement for it."""
COMPACTION = "rewrite-data-files"
OWN_SEQUENCE = "own-sequence-number"
"""Mode of a compaction whose files get a sequence number of their own (``use-starting-sequence-number`` is false)."""
REWRITE_KINDS = (COMPACTION, "rewrite-position-delete-files", "rewrite-manifests")
"""Kinds that change no row, and work on the whole table."""
ONE_WAY = (*AT_COMMIT, *VALIDATED_OVERWRITES, *REWRITE_KINDS, "merge-insert")
BOTH_WAYS = ("update-register", "delete", "merge-upsert")
"""Kinds of operations that the model knows: those that write in one way, and those whose mode the table says."""
KINDS_OF_ENGINES = ("insert", "update-register", "delete")
"""Those that the model knows of engines other than Spark, if the engine's file says how they are committed."""
MODE_OF: Mapping[str, str] = {
    "appends": "",
    "rewritten files": "copy-on-write",
    "position deletes": "merge-on-read",
    "equality deletes": "",
}
"""How an engine writes → the mode of a table that does the same."""
UPKEEP = (
    "expire-snapshots",
    "rollback",
    "create-tag",
    "stage",
    "publish",
    "restart-stream",
    "add-column",
    "upgrade",
    "remove-orphan-files",
)
"""Kinds that change a table's metadata or its store; ``stage`` is an INSERT that is not to be seen before it is published, ``restart-stream``
an INSERT that a streaming writer does again because it was killed before it wrote down that the epoch is committed."""
OF_A_KEY = ("stage", "restart-stream")
"""Those of them that write a row."""
BESIDE_UPKEEP = ("insert", "delete-partition", COMPACTION, "update-register", "delete", "merge-upsert")
"""Those that a model with such kinds knows beside them."""
TRANSFER = "transfer"
"""The kind that changes two tables in one transaction; a model of it has a catalog with transactions, and inserts beside it."""
WITHOUT_TRANSACTIONS = (
    *("compactions", "partitions", "isolation", "format_version", "engine", "without", "never"),
    *("retries", "only", "repeats"),
)
"""Keys that mean nothing with a catalog of transactions: their model has numbers of commits and no rows, a client that does nothing again, and
one fault."""
STEP_BY_STEP = ("insert", "delete-partition", COMPACTION)
"""Those of one way that a model with a catalog knows, too."""


class Modelled(BaseModel):
    """A whole file of a model.

    Attributes:
        question: what it answers, one sentence.
        kinds: kind of operation → the modes in which it writes; none of a kind that has one way only. ``pyiceberg delete`` is a kind of
            another engine than Spark.
        writes: most commits of a log, without compactions; ``compactions``: most of these.
        upkeep: most operations of a log that change the metadata or the store (:data:`UPKEEP`).
        compares: what the catalog compares before it swaps the pointer; only with such operations.
        keys: how many keys; key k is in partition k modulo ``partitions``. The rows are there at the start, those of a partition in one file.
        engine: the release of Iceberg whose validations Spark's operations are held to, or the specification.
        without: validations that the engine does not have.
        expect: names of the broken promises that it must find; none: it must find none.
        never: validations that need not refuse anything within this bound. Of others, one that never does is an error, because then
            the answer says nothing of it.
        catalog: explore step by step, with this catalog and its client (``checkers.formats.iceberg.model.catalogs``).
        writers: how many clients, each with one operation at a time; only with a catalog, as what follows.
        retries: how often an operation commits again after it was refused.
        faults: how many things go wrong; ``only``: of these kinds; all that the client knows by default.
        repeats: whether a client whose operation has an unknown outcome does it again; it counts as one more write.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[str, Field(pattern=NAME)]
    question: Annotated[str, Field(min_length=1)]
    kinds: Annotated[dict[str, tuple[str, ...]], Field(min_length=1)]
    writes: Annotated[int, Field(ge=1, le=8)]
    compactions: Annotated[int, Field(ge=0, le=3)] = 0
    upkeep: Annotated[int, Field(ge=0, le=4)] = 0
    compares: Literal["requirements", "location"] = "requirements"
    keys: Annotated[int, Field(ge=1, le=2)] = 1
    partitions: Annotated[int, Field(ge=1, le=2)] = 1
    isolation: Literal["serializable", "snapshot"] = "serializable"
    format_version: Literal[2, 3] = 2
    engine: RuleSet = "iceberg-1.12"
    without: tuple[Rule, ...] = ()
    expect: tuple[str, ...] = ()
    never: tuple[Rule, ...] = ()
    catalog: CatalogName | None = None
    writers: Annotated[int, Field(ge=1, le=4)] = 2
    retries: Annotated[int, Field(ge=0, le=4)] = 1
    faults: Annotated[int, Field(ge=0, le=2)] = 1
    only: tuple[Fault, ...] = ()
    repeats: Literal["never", "blindly", "if not found"] = "never"


def problems(m: Modelled) -> Iterator[Problem]:
    """Kinds that the model does not know, modes that a kind does not have, and what only a model with a catalog has."""
    for key in ("writers", "retries", "faults", "only", "repeats"):
        if m.catalog is None and key in m.model_fields_set:
            yield (
                (key,),
                f"{key}: without a catalog no step of a writer is told apart; write catalog:, or leave it out",
            )
    transactions = m.catalog is not None and m.catalog.endswith("-transactions")
    if transactions and {*m.kinds} != {TRANSFER, "insert"}:
        yield (
            ("kinds",),
            f"kinds: with catalog: {m.catalog} the model knows transfer and insert; write both, and no other",
        )
    for key in WITHOUT_TRANSACTIONS if transactions else ():
        if key in m.model_fields_set:
            yield (key,), f"{key}: with catalog: {m.catalog} nothing asks for it; leave it out"
    if transactions and m.keys != 2:
        yield ("keys",), f"keys: with catalog: {m.catalog} a key is a table, and there are two; write 2"
    for kind in m.kinds:
        if m.catalog is not None and kind in ONE_WAY and kind not in STEP_BY_STEP:
            yield ("kinds", kind), f"kinds: {kind}: a model with a catalog does not know it; leave it out"
    yield from _of_upkeep(m)
    if m.format_version == 3 and "rewrite-position-delete-files" in m.kinds:
        yield (
            ("kinds", "rewrite-position-delete-files"),
            "kinds: rewrite-position-delete-files: in version 3 there are vectors and no such files; leave it out",
        )
    known = (*ONE_WAY, *BOTH_WAYS, *UPKEEP)
    for kind, modes in m.kinds.items():
        engine, _, name = kind.rpartition(" ")
        if engine:
            yield from _of_engine(kind, engine, name, modes, m)
        elif kind == TRANSFER:
            if modes or not transactions:
                yield (
                    ("kinds", kind),
                    "kinds: transfer: write [], and a catalog: with transactions, such as rest-transactions",
                )
        elif kind not in known:
            what = "the model does not know it" if kind in KINDS else f"no such operation{suggest(kind, known)}"
            yield (("kinds", kind), f"kinds: {kind}: {what}; it knows {', '.join(known)}")
        elif kind == COMPACTION and not {*modes} - {OWN_SEQUENCE}:
            continue
        elif kind in (*ONE_WAY, *UPKEEP) and modes:
            other = f", or [{OWN_SEQUENCE}]" if kind == COMPACTION else ""
            yield (("kinds", kind), f"kinds: {kind} writes in one way only; write []{other}")
        elif kind in BOTH_WAYS and (not modes or {*modes} - {*MODES}):
            yield (("kinds", kind), f"kinds: {kind}: write the modes in which it writes, of {', '.join(MODES)}")


def _of_upkeep(m: Modelled) -> Iterator[Problem]:
    """Problems of a file with kinds that change the metadata or the store, or with keys that only such a file has."""
    has = [kind for kind in m.kinds if kind in UPKEEP]
    for key in ("upkeep", "compares"):
        if not has and key in m.model_fields_set:
            yield (key,), f"{key}: no kind of {', '.join(UPKEEP)} is among the kinds; add one, or leave it out"
    if has and not m.upkeep:
        yield ("kinds", has[0]), f"kinds: {has[0]}: write upkeep: 1 or more, most operations of such kinds"
    if has and m.catalog is not None:
        yield ("kinds", has[0]), f"kinds: {has[0]}: a model with a catalog does not know it; write compares: instead"
    for kind in m.kinds if has else ():
        if kind not in (*BESIDE_UPKEEP, *UPKEEP):
            yield ("kinds", kind), f"kinds: {kind}: beside {has[0]} the model knows {', '.join(BESIDE_UPKEEP)} only"
    if "publish" in m.kinds and "stage" not in m.kinds:
        yield ("kinds", "publish"), "kinds: publish: nothing is staged that it could publish; add stage"
    if "upgrade" in m.kinds and m.format_version == 3:
        yield ("kinds", "upgrade"), "kinds: upgrade: the table has version 3 already; write format_version: 2"


def modes_of(kind: str, modes: tuple[str, ...]) -> tuple[str, ...]:
    """The modes in which a kind of a file writes; empty text: it has no choice."""
    engine, _, name = kind.rpartition(" ")
    if not engine:
        return modes or ("",)
    return (MODE_OF[ENGINES[engine].commits[name].writes],)


def _of_engine(kind: str, engine: str, name: str, modes: tuple[str, ...], m: Modelled) -> Iterator[Problem]:
    """Problems of ``ENGINE KIND``."""
    key = ("kinds", kind)
    if engine not in ENGINES:
        yield key, f"kinds: {kind}: no such engine{suggest(engine, ENGINES)}; {engine} NAME is a kind of that engine"
        return
    able = [k for k in (*KINDS_OF_ENGINES, UPSERT) if k in ENGINES[engine].commits]
    if name not in able:
        yield key, f"kinds: {kind}: the model knows no such kind of {engine}; it knows {', '.join(able) or 'none'}"
    elif modes:
        yield key, f"kinds: {kind}: the engine has one way to write; write []"
    elif m.catalog is not None:
        yield key, f"kinds: {kind}: a model with a catalog knows Spark's operations only; leave it out"
    elif not ENGINES[engine].can(name, TableSpec(name="t", mode="merge-on-read", format_version=m.format_version)):
        yield key, f"kinds: {kind}: {engine} cannot do that in version {m.format_version}; leave it out"


def parse(text: str, file: str = "<model>") -> Modelled:
    """Parse the text of a model's file; ``file`` names it in errors.

    Raises:
        WorkloadError: every problem, each with file, line and key.
    """
    found, lines = validated(Modelled, text, file)
    refuse(problems(found), lines, file)
    return found


def find(names: list[str]) -> list[Modelled]:
    """These models, given by name or path; the whole library, by name, when none is given.

    Raises:
        WorkloadError: a model does not exist or has problems.
    """
    library: dict[str, Path] = {p.stem: p for p in sorted(LIBRARY.glob("*.yaml"))}
    found: list[Any] = []
    for name in names or list(library):
        path = library.get(name, Path(name))
        if not path.is_file():
            raise WorkloadError(f"{name}: no such model{suggest(name, library)}; in the library: {', '.join(library)}")
        found.append(parse(read_text(path), str(path)))
    return found
