"""The table properties that Iceberg knows, and the values that it takes.

The names and types are the constants of ``org.apache.iceberg.TableProperties`` in the Spark runtime of Iceberg 1.12.0 (a constant
``X`` and the type of ``X_DEFAULT``), and the names that only releases from 1.8.1 on had. A test compares them with that jar. The values of the
enumerations are those that each property's parser accepts: ``RowLevelOperationMode``, ``IsolationLevel``, ``DistributionMode``,
``DeleteGranularity``, ``PlanningMode``, ``FileFormat``, ``TableMetadataParser.Codec``, ``Avro.Codec``, Parquet's
``CompressionCodecName`` and ``WriterVersion``, ORC's ``CompressionKind`` and ``CompressionStrategy``. All of them ignore case.

A table may have properties of its own, so an unknown name is a doubt and no error; to vary a name that begins like Iceberg's is one, because
the whole sweep would measure nothing. A value that Iceberg refuses is an error, because each write
would fail. One that it silently takes for another (``yes`` for a boolean is ``false``) is an error, too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from workloads.file.meant import nearest

RESERVED = frozenset(
    [
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    ]
)
"""What Iceberg writes itself: a value of the user's is dropped without a word (``TableProperties.RESERVED_PROPERTIES``)."""

FORMAT_VERSION = "format-version"

_BOOLEANS = [
    "commit.manifest-merge.enabled",
    "write.parquet.shred-variants",
    "write.parquet.row-group-size-track-uncompressed",
    "write.parquet.bloom-filter-adaptive-enabled",
    "read.split.adaptive-size.enabled",
    "read.parquet.vectorization.enabled",
    "read.orc.vectorization.enabled",
    "identifier-fields.rely",
    "write.object-storage.enabled",
    "write.object-storage.partitioned-paths",
    "write.metadata.delete-after-commit.enabled",
    "write.spark.fanout.enabled",
    "write.spark.accept-any-schema",
    "write.spark.auto-schema-evolution.enabled",
    "compatibility.snapshot-id-inheritance.enabled",
    "engine.hive.enabled",
    "engine.hive.lock-enabled",
    "gc.enabled",
    "write.upsert.enabled",
    "write.wap.enabled",
    "write.manifest-lists.enabled",
    "row-lineage",
]

_INTEGERS = [
    "commit.retry.num-retries",
    "commit.retry.min-wait-ms",
    "commit.retry.max-wait-ms",
    "commit.retry.total-timeout-ms",
    "commit.status-check.num-retries",
    "commit.manifest.min-count-to-merge",
    "write.parquet.row-group-size-bytes",
    "write.delete.parquet.row-group-size-bytes",
    "write.parquet.page-size-bytes",
    "write.delete.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.delete.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
    "write.delete.parquet.dict-size-bytes",
    "write.parquet.variant-inference-buffer-size",
    "write.parquet.row-group-check-min-record-count",
    "write.delete.parquet.row-group-check-min-record-count",
    "write.parquet.row-group-check-max-record-count",
    "write.delete.parquet.row-group-check-max-record-count",
    "write.parquet.bloom-filter-max-bytes",
    "write.orc.vectorized.batch-size",
    "write.delete.orc.vectorized.batch-size",
    "read.split.planning-lookback",
    "read.parquet.vectorization.batch-size",
    "read.orc.vectorization.batch-size",
    "write.summary.partition-limit",
    "write.metadata.previous-versions-max",
    "write.metadata.metrics.max-inferred-column-defaults",
    "history.expire.min-snapshots-to-keep",
    "encryption.data-key-length",
]

_LONGS = [
    "commit.status-check.min-wait-ms",
    "commit.status-check.max-wait-ms",
    "commit.status-check.total-timeout-ms",
    "commit.manifest.target-size-bytes",
    "write.orc.stripe-size-bytes",
    "write.delete.orc.stripe-size-bytes",
    "write.orc.block-size-bytes",
    "write.delete.orc.block-size-bytes",
    "read.split.target-size",
    "read.split.metadata-target-size",
    "read.split.open-file-cost",
    "write.target-file-size-bytes",
    "write.delete.target-file-size-bytes",
    "history.expire.max-snapshot-age-ms",
    "history.expire.max-ref-age-ms",
    "write.spark.advisory-partition-size-bytes",
]

_DECIMALS = ("write.orc.bloom.filter.fpp",)

_TEXTS = [
    "comment",
    "write.parquet.compression-level",
    "write.delete.parquet.compression-level",
    "write.avro.compression-level",
    "write.delete.avro.compression-level",
    "write.manifest.compression-level",
    "write.orc.bloom.filter.columns",
    "write.object-storage.path",
    "write.location-provider.impl",
    "write.folder-storage.path",
    "write.data.path",
    "write.metadata.path",
    "schema.name-mapping.default",
    "encryption.key-id",
    "write.metadata.metrics.default",
]

_PARQUET_CODECS = ("uncompressed", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "lzo", "brotli")
_AVRO_CODECS = ("uncompressed", "snappy", "gzip", "zstd")
_ORC_CODECS = ("none", "zlib", "snappy", "lzo", "lz4", "zstd", "brotli")
_FORMATS = ("parquet", "avro", "orc")
_PAGE_VERSIONS = ("v1", "v2", "parquet_1_0", "parquet_2_0")
_STRATEGIES = ("speed", "compression")
_MODES = ("copy-on-write", "merge-on-read")
_ISOLATION = ("serializable", "snapshot")
_DISTRIBUTIONS = ("none", "hash", "range")
_PLANNING = ("auto", "local", "distributed")

_WORDS: Mapping[str, tuple[str, ...]] = {
    "write.format.default": _FORMATS,
    "write.delete.format.default": _FORMATS,
    "write.parquet.compression-codec": _PARQUET_CODECS,
    "write.delete.parquet.compression-codec": _PARQUET_CODECS,
    "write.parquet.page-version": _PAGE_VERSIONS,
    "write.delete.parquet.page-version": _PAGE_VERSIONS,
    "write.avro.compression-codec": _AVRO_CODECS,
    "write.delete.avro.compression-codec": _AVRO_CODECS,
    "write.manifest.compression-codec": _AVRO_CODECS,
    "write.orc.compression-codec": _ORC_CODECS,
    "write.delete.orc.compression-codec": _ORC_CODECS,
    "write.orc.compression-strategy": _STRATEGIES,
    "write.delete.orc.compression-strategy": _STRATEGIES,
    "write.metadata.compression-codec": ("none", "gzip"),
    "write.distribution-mode": _DISTRIBUTIONS,
    "write.delete.granularity": ("file", "partition"),
    "read.data-planning-mode": _PLANNING,
    "read.delete-planning-mode": _PLANNING,
    **{f"write.{command}.mode": _MODES for command in ("delete", "update", "merge")},
    **{f"write.{command}.isolation-level": _ISOLATION for command in ("delete", "update", "merge")},
    **{f"write.{command}.distribution-mode": _DISTRIBUTIONS for command in ("delete", "update", "merge")},
}

OF_A_COLUMN: Mapping[str, str] = {
    "write.metadata.metrics.column.": "text",
    "write.parquet.bloom-filter-enabled.column.": "boolean",
    "write.parquet.bloom-filter-fpp.column.": "decimal",
    "write.parquet.bloom-filter-ndv.column.": "long",
    "write.parquet.stats-enabled.column.": "boolean",
    "write.parquet.dict-encoding-enabled.column.": "boolean",
}
"""Beginnings of properties that end with the name of a column → the type of their value."""

KNOWN: Mapping[str, str] = {
    **dict.fromkeys(_BOOLEANS, "boolean"),
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys(_LONGS, "long"),
    **dict.fromkeys(_DECIMALS, "decimal"),
    **dict.fromkeys(_TEXTS, "text"),
    **dict.fromkeys(_WORDS, "word"),
    **dict.fromkeys(RESERVED, "text"),
    FORMAT_VERSION: "integer",
}
"""Every name → ``boolean``, ``integer`` (32 bits), ``long`` (64 bits), ``decimal``, ``word`` (of an enumeration) or ``text``."""


_FIRST_WORDS = sorted({name.partition(".")[0] for name in KNOWN if "." in name})


def problems(properties: Mapping[str, str], format_version: int | None) -> Iterator[tuple[str, str]]:
    """Each property with a value that Iceberg refuses or takes for another, and why.

    Args:
        format_version: the table's, by its own key; None if that is unknown.
    """
    for name, value in properties.items():
        if name == FORMAT_VERSION and format_version is not None and value != str(format_version):
            yield (
                name,
                f"{name}: is {value!r} here and format_version {format_version}; give only the key format_version",
            )
        elif (wrong := _wrong(name, value)) is not None:
            yield name, f"{name}: {wrong}"


def doubts(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each property that Iceberg does not know, or that it drops, and what it was probably meant to be."""
    for name in properties:
        if name in RESERVED:
            yield name, f"{name}: Iceberg writes this property itself and drops the value; leave it out"
        elif _type(name) is None:
            yield (
                name,
                f"{name}: Iceberg knows no such table property{_meant(name)}; the table gets it, and Iceberg ignores it",
            )


def misspelt(name: str) -> str | None:
    """That Iceberg has no such property, if the name begins (almost) as Iceberg's own do. None: it has it, or the name is another's."""
    first = name.partition(".")[0].lower()
    if _type(name) is not None or not difflib.get_close_matches(first, _FIRST_WORDS, cutoff=0.85):
        return None
    return f"Iceberg has no table property {name!r}{_meant(name)}"


def _meant(name: str) -> str:
    near = nearest(name, [*KNOWN, *OF_A_COLUMN])
    return "" if near is None else f" (did you mean {near}{'COLUMN' if near.endswith('.') else ''}?)"


def _type(name: str) -> str | None:
    of_a_column = (kind for prefix, kind in OF_A_COLUMN.items() if name.startswith(prefix) and name != prefix)
    return KNOWN.get(name) or next(of_a_column, None)


def _wrong(name: str, value: str) -> str | None:
    kind = _type(name)
    if kind == "boolean" and value.lower() not in ("true", "false"):
        return f'must be "true" or "false", not {value!r}: Iceberg takes every other word for false'
    if kind in ("integer", "long"):
        bits = 31 if kind == "integer" else 63
        if not re.fullmatch(r"[+-]?[0-9]+", value) or not -(2**bits) <= int(value) < 2**bits:
            return f'must be a whole number such as "100", less than 2^{bits}, not {value!r}'
    if kind == "decimal" and not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value):
        return f'must be a number such as "0.01", not {value!r}'
    if kind == "word" and value.lower() not in _WORDS[name]:
        near = nearest(value.lower(), _WORDS[name])
        meant = "" if near is None else f" (did you mean {near}?)"
        return f"{value!r} is not allowed{meant}; allowed: {', '.join(_WORDS[name])}"
    return None
