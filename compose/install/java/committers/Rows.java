import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.MetadataColumns;
import org.apache.iceberg.MetricsConfig;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.parquet.ParquetValueWriter;
import org.apache.iceberg.shaded.org.apache.parquet.schema.MessageType;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** Rows of a table under test: how they are written to data files and delete files, and where they lie. */
final class Rows {
  private static final Method WRITER = writer();

  /** The bounds of paths in delete files are not cut off: without them Iceberg takes a delete file for one of the whole partition. */
  private static final MetricsConfig WHOLE_PATHS =
      MetricsConfig.fromProperties(
          Map.of(
              "write.metadata.metrics.column.file_path", "full",
              "write.metadata.metrics.column.pos", "full"));

  private Rows() {}

  /** A row and its place; places are equal if file and position are. */
  static final class Place {
    final Record row;
    final String file;
    final long position;

    Place(Record row, String file, long position) {
      this.row = row;
      this.file = file;
      this.position = position;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Place && ((Place) other).file.equals(file) && ((Place) other).position == position;
    }

    @Override
    public int hashCode() {
      return Objects.hash(file, position);
    }
  }

  /** A record of a schema out of plain values; numbers become those of their columns. */
  static Record of(Schema schema, Map<String, Object> values) {
    Record row = GenericRecord.create(schema);
    values.forEach((column, value) -> row.setField(column, typed(schema, column, value)));
    return row;
  }

  /** The row after a request's {@code set}, {@code add} and {@code append}. */
  @SuppressWarnings("unchecked")
  static Record changed(Record old, Map<String, Object> request) {
    Record row = old.copy();
    Schema schema = new Schema(old.struct().fields());
    ((Map<String, Object>) request.getOrDefault("set", Map.of())).forEach((c, v) -> row.setField(c, typed(schema, c, v)));
    ((Map<String, Number>) request.getOrDefault("add", Map.of()))
        .forEach((c, n) -> row.setField(c, typed(schema, c, ((Number) row.getField(c)).longValue() + n.longValue())));
    ((Map<String, String>) request.getOrDefault("append", Map.of())).forEach((c, text) -> row.setField(c, row.getField(c) + text));
    return row;
  }

  private static Object typed(Schema schema, String column, Object value) {
    if (!(value instanceof Number)) {
      return value;
    }
    Type type = schema.findField(column).type();
    return type.typeId() == Type.TypeID.LONG ? (Object) ((Number) value).longValue() : (Object) ((Number) value).intValue();
  }

  /** New data files with these rows, one for each partition. */
  static List<DataFile> write(Table table, List<Record> rows) {
    Map<String, List<Record>> byPartition = new LinkedHashMap<>();
    Map<String, PartitionKey> keys = new LinkedHashMap<>();
    for (Record row : rows) {
      PartitionKey key = new PartitionKey(table.spec(), table.schema());
      key.partition(row);
      byPartition.computeIfAbsent(key.toPath(), path -> new ArrayList<>()).add(row);
      keys.put(key.toPath(), key);
    }
    List<DataFile> files = new ArrayList<>();
    byPartition.forEach((path, some) -> files.add(write(table, keys.get(path), some)));
    return files;
  }

  private static DataFile write(Table table, PartitionKey key, List<Record> rows) {
    try {
      DataWriter<Record> writer =
          Parquet.writeData(out(table, key, "data"))
              .forTable(table)
              .createWriterFunc(type -> parquet(table.schema(), type))
              .withPartition(key)
              .overwrite()
              .build();
      try (writer) {
        rows.forEach(writer::write);
      }
      return writer.toDataFile();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Position delete files for these rows, one for each data file. */
  static List<DeleteFile> delete(Table table, List<Place> places, List<FileScanTask> tasks) {
    List<DeleteFile> files = new ArrayList<>();
    for (FileScanTask task : tasks) {
      try {
        PositionDeleteWriter<Record> writer =
            Parquet.writeDeletes(out(table, task.file().partition(), "delete"))
                .metricsConfig(WHOLE_PATHS)
                .withSpec(table.spec())
                .withPartition(task.file().partition())
                .overwrite()
                .buildPositionWriter();
        try (writer) {
          places.stream().filter(p -> p.file.equals(task.file().location())).mapToLong(p -> p.position).sorted().forEach(position -> {
            PositionDelete<Record> one = PositionDelete.create();
            writer.write(one.set(task.file().location(), position));
          });
        }
        files.add(writer.toDeleteFile());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    return files;
  }

  /** The rows of the current snapshot that match, with their places. */
  static List<Place> find(Table table, Expression filter) {
    Schema with = TypeUtil.join(table.schema(), new Schema(MetadataColumns.FILE_PATH, MetadataColumns.ROW_POSITION));
    List<Place> found = new ArrayList<>();
    try (CloseableIterable<Record> rows = IcebergGenerics.read(table).project(with).where(filter).build()) {
      for (Record row : rows) {
        Record plain = GenericRecord.create(table.schema());
        for (Types.NestedField field : table.schema().columns()) {
          plain.setField(field.name(), row.getField(field.name()));
        }
        found.add(
            new Place(
                plain,
                row.getField(MetadataColumns.FILE_PATH.name()).toString(),
                (Long) row.getField(MetadataColumns.ROW_POSITION.name())));
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found;
  }

  private static OutputFile out(Table table, StructLike partition, String kind) {
    String name = kind + "-" + UUID.randomUUID() + ".parquet";
    String location =
        table.spec().isUnpartitioned()
            ? table.locationProvider().newDataLocation(name)
            : table.locationProvider().newDataLocation(table.spec(), partition, name);
    return table.io().newOutputFile(location);
  }

  /** The function that makes a writer of records; Iceberg 1.9 renamed it. */
  private static Method writer() {
    for (Class<?>[] parameters : List.of(new Class<?>[] {Schema.class, MessageType.class}, new Class<?>[] {MessageType.class})) {
      try {
        return GenericParquetWriter.class.getMethod(parameters.length == 2 ? "create" : "buildWriter", parameters);
      } catch (NoSuchMethodException e) {
        // The other one.
      }
    }
    throw new IllegalStateException("this release of Iceberg has no GenericParquetWriter of a known form");
  }

  private static ParquetValueWriter<?> parquet(Schema schema, MessageType type) {
    try {
      return (ParquetValueWriter<?>) (WRITER.getParameterCount() == 2 ? WRITER.invoke(null, schema, type) : WRITER.invoke(null, type));
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    } catch (InvocationTargetException e) {
      throw new IllegalStateException(e.getCause());
    }
  }
}
