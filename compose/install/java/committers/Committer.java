import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;

/**
 * One committer: Iceberg's own Java client, without an engine. It writes data files and commits them by Iceberg's API.
 *
 * <p>An operation is {@code {"op", "do", "table": "namespace.table", ...}}, where {@code do} is
 *
 * <ul>
 *   <li>{@code append} {@code rows}: {@code newFastAppend}, or {@code newAppend} if {@code merges};
 *   <li>{@code read} {@code ids} | null;
 *   <li>{@code change} {@code ids}: deletes the rows with these ids, or sets their columns: {@code set} {column: value}, {@code add} {column:
 *       number}, {@code append} {column: text}. {@code copy_on_write}: {@code newOverwrite} with new files, else {@code newRowDelta} with position
 *       deletes. It validates what Spark's {@code SparkWrite} and {@code SparkPositionDeltaWrite} validate: {@code serializable}, {@code deletes};
 *   <li>{@code rewrite}: all data files of each partition become one: {@code newRewrite}, with the sequence number of its scan.
 * </ul>
 *
 * <p>{@code waits_ms}: how long to wait before each further attempt if the catalog refuses one, beside what Iceberg waits: the table's own
 * {@code commit.retry.min-wait-ms} must then be 0. Null: Iceberg's own waits only.
 */
final class Committer implements Closeable {
  private static final String MARK = "icequake-op";
  private static final List<String> COLUMNS = List.of("id", "val", "cnt", "log", "part");

  private final Map<String, Table> tables = new HashMap<>();
  private final Attempts attempts = new Attempts();
  private List<Map<String, Object>> made = List.of();
  private Catalog catalog;

  /** Connect to a catalog; tables loaded before are forgotten. */
  void open(Map<String, String> properties) {
    close();
    tables.clear();
    catalog = CatalogUtil.buildIcebergCatalog("c", WatchedIO.before(properties, attempts), new Configuration());
  }

  /** The attempts of the last operation's commit. */
  List<Map<String, Object>> attempts() {
    return made;
  }

  Object execute(Map<String, Object> request) {
    made = List.of();
    Table table = tables.computeIfAbsent((String) request.get("table"), this::load);
    switch ((String) request.get("do")) {
      case "append":
        return append(table, request);
      case "change":
        return change(table, request);
      case "rewrite":
        return rewrite(table, request);
      case "read":
        return read(table, request);
      default:
        throw new IllegalArgumentException("unknown operation " + request.get("do"));
    }
  }

  @Override
  public void close() {
    if (catalog instanceof Closeable) {
      try {
        ((Closeable) catalog).close();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    catalog = null;
  }

  private Table load(String name) {
    if (catalog == null) {
      throw new IllegalStateException("no session");
    }
    Table loaded = catalog.loadTable(TableIdentifier.parse(name));
    return new BaseTable(attempts.watch(((HasTableOperations) loaded).operations()), loaded.name());
  }

  // --- operations -----------------------------------------------------------------------------------------------------

  @SuppressWarnings("unchecked")
  private Object append(Table table, Map<String, Object> request) {
    long start = System.nanoTime();
    List<Record> rows = new ArrayList<>();
    for (Map<String, Object> row : (List<Map<String, Object>>) request.get("rows")) {
      rows.add(Rows.of(table.schema(), row));
    }
    List<DataFile> files = Rows.write(table, rows);
    boolean merges = Boolean.TRUE.equals(request.get("merges"));
    return commit(request, start, () -> {
      var append = merges ? table.newAppend() : table.newFastAppend();
      files.forEach(append::appendFile);
      return append;
    });
  }

  private Object read(Table table, Map<String, Object> request) {
    table.refresh();
    List<List<Object>> found = new ArrayList<>();
    for (Record row : rows(table, filter(request))) {
      found.add(COLUMNS.stream().map(row::getField).toList());
    }
    found.sort(Comparator.comparing(Object::toString));
    return found;
  }

  private Object change(Table table, Map<String, Object> request) {
    long start = System.nanoTime();
    table.refresh();
    Snapshot scanned = table.currentSnapshot();
    Expression filter = filter(request);
    boolean copyOnWrite = Boolean.TRUE.equals(request.get("copy_on_write"));
    List<Rows.Place> places = scanned == null ? List.of() : Rows.find(table, filter);
    if (places.isEmpty()) {
      return null;
    }
    Set<String> touched = new LinkedHashSet<>();
    places.forEach(place -> touched.add(place.file));
    boolean serializable = Boolean.TRUE.equals(request.get("serializable"));
    boolean deletes = !request.containsKey("set") && !request.containsKey("add") && !request.containsKey("append");
    List<Record> changed = new ArrayList<>();
    if (!deletes) {
      places.forEach(place -> changed.add(Rows.changed(place.row, request)));
    }
    if (copyOnWrite) {
      List<FileScanTask> tasks = tasks(table, filter, touched);
      Set<Rows.Place> gone = new LinkedHashSet<>(places);
      for (Rows.Place place : Rows.find(table, Expressions.alwaysTrue())) {
        if (touched.contains(place.file) && !gone.contains(place)) {
          changed.add(place.row);
        }
      }
      List<DataFile> files = Rows.write(table, changed);
      return commit(request, start, () -> {
        OverwriteFiles overwrite = table.newOverwrite();
        tasks.forEach(task -> overwrite.deleteFile(task.file()));
        files.forEach(overwrite::addFile);
        overwrite.validateFromSnapshot(scanned.snapshotId()).conflictDetectionFilter(filter);
        if (serializable) {
          overwrite.validateNoConflictingData();
        }
        return overwrite.validateNoConflictingDeletes();
      });
    }
    List<DeleteFile> removed = Rows.delete(table, places, tasks(table, filter, touched));
    List<DataFile> files = Rows.write(table, changed);
    return commit(request, start, () -> {
      RowDelta delta = table.newRowDelta();
      files.forEach(delta::addRows);
      removed.forEach(delta::addDeletes);
      delta.conflictDetectionFilter(filter).validateDataFilesExist(touched).validateFromSnapshot(scanned.snapshotId());
      if (!deletes) {
        delta.validateDeletedFiles().validateNoConflictingDeleteFiles();
      }
      return serializable ? delta.validateNoConflictingDataFiles() : delta;
    });
  }

  private Object rewrite(Table table, Map<String, Object> request) {
    long start = System.nanoTime();
    table.refresh();
    Snapshot scanned = table.currentSnapshot();
    List<FileScanTask> tasks = scanned == null ? List.of() : tasks(table, Expressions.alwaysTrue(), null);
    List<DeleteFile> dropped = new ArrayList<>();
    tasks.forEach(task -> dropped.addAll(task.deletes()));
    if (tasks.size() < 2 && dropped.isEmpty()) {
      return List.of(List.of(0, 0));
    }
    List<Record> rows = new ArrayList<>();
    rows(table, Expressions.alwaysTrue()).forEach(rows::add);
    List<DataFile> files = Rows.write(table, rows);
    commit(request, start, () -> {
      RewriteFiles rewrite = table.newRewrite().validateFromSnapshot(scanned.snapshotId());
      tasks.forEach(task -> rewrite.deleteFile(task.file()));
      files.forEach(rewrite::addFile);
      return rewrite.dataSequenceNumber(scanned.sequenceNumber());
    });
    return List.of(List.of(tasks.size(), files.size()));
  }

  // --- commit ---------------------------------------------------------------------------------------------------------

  /** Commit what {@code update} makes; Iceberg tries again by itself, after the waits of the request or its own. */
  @SuppressWarnings("unchecked")
  private Object commit(Map<String, Object> request, long start, Supplier<? extends SnapshotUpdate<?>> update) {
    List<Number> waits = (List<Number>) request.get("waits_ms");
    attempts.begin((System.nanoTime() - start) / 1e6, waits == null ? List.of() : waits);
    Throwable failure = null;
    try {
      SnapshotUpdate<?> one = update.get();
      one.set(MARK, (String) request.get("op"));
      one.commit();
      return null;
    } catch (RuntimeException e) {
      failure = e;
      throw e;
    } finally {
      made = attempts.end(failure);
    }
  }

  // --- scans ----------------------------------------------------------------------------------------------------------

  @SuppressWarnings("unchecked")
  private static Expression filter(Map<String, Object> request) {
    List<Number> ids = (List<Number>) request.get("ids");
    if (ids == null) {
      return Expressions.alwaysTrue();
    }
    Object[] keys = ids.stream().map(Number::longValue).toArray();
    return keys.length == 1 ? Expressions.equal("id", (Long) keys[0]) : Expressions.in("id", keys);
  }

  private static CloseableIterable<Record> rows(Table table, Expression filter) {
    return IcebergGenerics.read(table).where(filter).build();
  }

  /** The scan tasks of the current snapshot; only those of some files, unless {@code among} is null. */
  private static List<FileScanTask> tasks(Table table, Expression filter, Set<String> among) {
    Map<String, FileScanTask> found = new LinkedHashMap<>();
    try (CloseableIterable<FileScanTask> planned = table.newScan().filter(filter).ignoreResiduals().planFiles()) {
      for (FileScanTask task : planned) {
        if (among == null || among.contains(task.file().location())) {
          found.put(task.file().location(), task);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return List.copyOf(found.values());
  }
}
