"""Equality deletes, on the writer's side: Iceberg's Java API writes the files in the Spark driver's JVM and commits them.

Spark itself writes position deletes and deletion vectors only. The files made here are those of Flink's upsert sink: for each partition one
delete file with the columns that rows are found by, and one data file with the new rows; both in one ``RowDelta``, which validates nothing
unless told to.

Like ``harness.writers.session`` it imports only pyspark (Py4J comes with it) and the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaClass

Values = Mapping[str, Any]
"""Column → value of a row."""
KEY = "id"
"""The column that rows are deleted by, besides those of the partition."""


def equality_delete(spark: Any, table: str, keys: Sequence[Values], rows: Sequence[Values], *, validated: bool) -> None:
    """Delete all rows that equal one of ``keys``, and add ``rows``, in one commit.

    Args:
        keys: values of the column :data:`KEY` and of those that the table is partitioned by.
        rows: new rows. The deletes do not apply to them, because they get the same data sequence number.
        validated: refuse the commit if another one has added data files or delete files since that may have rows with the same keys.

    Raises:
        ValueError: the table has format version 1.
        Py4JJavaError: Iceberg's exception.
    """
    iceberg = spark._jvm.org.apache.iceberg
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    version = loaded.operations().current().formatVersion()
    if version < 2:
        raise ValueError(f"{table} has format version {version}, which has no delete files; upgrade it to 2 or 3")
    base = loaded.currentSnapshot()
    files = _Files(spark, loaded)
    delta = loaded.newRowDelta()
    for delete in files.deletes(keys):
        delta.addDeletes(delete)
    for data in files.data(rows):
        delta.addRows(data)
    if validated:
        if base is not None:
            delta.validateFromSnapshot(base.snapshotId())
        ids = spark._jvm.java.util.ArrayList()
        for key in keys:
            ids.add(key[KEY])
        delta.conflictDetectionFilter(getattr(iceberg.expressions.Expressions, "in")(KEY, ids))
        delta.validateNoConflictingDataFiles()
        delta.validateNoConflictingDeleteFiles()
    delta.commit()


class _Files:
    """Writes data files and equality delete files of a table."""

    def __init__(self, spark: Any, table: Any) -> None:
        self._iceberg = spark._jvm.org.apache.iceberg
        self._table, self._schema, self._spec = table, table.schema(), table.spec()
        sources = [f.sourceId() for f in self._spec.fields()]
        fields = list(dict.fromkeys([self._schema.findField(KEY).fieldId(), *sources]))
        names = spark._jvm.java.util.HashSet()
        equal_by = spark.sparkContext._gateway.new_array(spark._jvm.int, len(fields))
        for n, field in enumerate(fields):
            equal_by[n] = field
            names.add(self._schema.findColumnName(field))
        self._keys = self._schema.select(names)
        properties = table.properties()
        data = properties.get("write.format.default") or "parquet"
        formats = {"data": data, "deletes": properties.get("write.delete.format.default") or data}
        self._format = {k: self._iceberg.FileFormat.fromString(v) for k, v in formats.items()}
        builder_for = self._iceberg.io.OutputFileFactory.builderFor
        self._name = {k: builder_for(table, 0, 0).format(f).suffix(k).build() for k, f in self._format.items()}
        generic = self._iceberg.data
        self._old = isinstance(generic.GenericAppenderFactory, JavaClass)  # up to 1.11; the other is public since then
        if self._old:
            factory = generic.GenericAppenderFactory(self._schema, self._spec, equal_by, self._keys, None)
            self._factory = factory.setAll(properties)
        else:
            builder = generic.GenericFileWriterFactory.Builder(table).equalityFieldIds(equal_by)
            self._factory = builder.equalityDeleteRowSchema(self._keys).build()

    def deletes(self, keys: Sequence[Values]) -> Iterator[Any]:
        """An equality delete file (``DeleteFile``) for each partition of the keys."""
        for partition, some in self._by_partition(keys):
            write = self._factory.newEqDeleteWriter if self._old else self._factory.newEqualityDeleteWriter
            yield self._written("deletes", write, partition, [self._record(self._keys, k) for k in some]).toDeleteFile()

    def data(self, rows: Sequence[Values]) -> Iterator[Any]:
        """A data file (``DataFile``) for each partition of the rows."""
        for partition, some in self._by_partition(rows):
            records = [self._record(self._schema, r) for r in some]
            yield self._written("data", self._factory.newDataWriter, partition, records).toDataFile()

    def _by_partition(self, rows: Sequence[Values]) -> list[tuple[Any, list[Values]]]:
        """Rows of the same partition, with it (``PartitionKey``)."""
        out: dict[str, tuple[Any, list[Values]]] = {}
        for row in rows:
            partition = self._iceberg.PartitionKey(self._spec, self._schema)
            partition.partition(self._record(self._schema, row))
            out.setdefault(partition.toPath(), (partition, []))[1].append(row)
        return list(out.values())

    def _written(self, what: str, new: Any, place: Any, records: list[Any]) -> Any:
        """The closed writer of a file of these records."""
        files, partition = self._name[what], place if self._spec.isPartitioned() else None
        file = files.newOutputFile() if partition is None else files.newOutputFile(self._spec, partition)
        writer = new(file, self._format[what] if self._old else self._spec, partition)
        for record in records:
            writer.write(record)
        writer.close()
        return writer

    def _record(self, schema: Any, row: Values) -> Any:
        """A ``GenericRecord``, from JSON by field id: Py4J alone would make an ``Integer`` of any small number."""
        ids = {f.name(): str(f.fieldId()) for f in schema.columns()}
        text = json.dumps({ids[name]: value for name, value in row.items() if name in ids})
        return self._iceberg.SingleValueParser.fromJson(schema.asStruct(), text)
