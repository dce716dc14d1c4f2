import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.EnvironmentContext;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.flink.CatalogLoader;
import org.apache.iceberg.flink.FlinkSchemaUtil;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.flink.sink.FlinkSink;
import org.apache.iceberg.flink.sink.IcebergSink;
import org.apache.iceberg.flink.sink.SinkUtil;
import org.apache.iceberg.flink.util.FlinkCompatibilityUtil;

/**
 * A streaming job that writes one table in one mode: {@link OperationSource} → Iceberg's sink, with parallelism 1.
 *
 * <p>An operation is its rows and one checkpoint, which this class triggers (Flink would only after a year). It is acknowledged when Iceberg
 * has committed that checkpoint: Flink says that a checkpoint is complete before the committer hears of it, so this class waits for the
 * event that Iceberg sends after the commit. If the job was restarted meanwhile, the committer may have found its commit in the table
 * instead; then there is no event, and this class looks for the checkpoint in the table's snapshots, as the committer does.
 *
 * <p>Iceberg puts the properties of {@link EnvironmentContext} into every snapshot's summary: there the operation's id is. They hold for
 * the whole process, so the id of the last operation is also kept beside the checkpoints, for what a restored job commits.
 */
final class StandingJob {
  static final String WHAT = "job.json";
  private static final Duration NEVER = Duration.ofDays(365);
  private static final long POLL_MS = 50;
  private static final long LOOK_MS = 3_000;
  private static final long END_S = 60;

  /** The commits of which Iceberg has told this process, by operation. */
  private static final Map<String, CreateSnapshotEvent> COMMITS = new ConcurrentHashMap<>();

  private final What what;
  private final Path folder;
  private final MiniCluster cluster;
  private final FlinkWorker.Settings settings;
  private final OperationLog log;
  private RowType rowType;
  private JobID id;
  private Throwable failure;

  /** What a job writes, and how. */
  static final class What {
    public String table;
    public String mode;
    public List<String> equality;

    What() {}

    What(String table, String mode, List<String> equality) {
      this.table = table;
      this.mode = mode;
      this.equality = equality;
    }

    String name() {
      return table + "." + mode;
    }
  }

  /** The job is in a state that it does not leave by itself. */
  private static final class Ended extends Exception {
    private static final long serialVersionUID = 1;

    Ended(String message, Throwable cause) {
      super(message, cause);
    }
  }

  StandingJob(What what, Path folder, MiniCluster cluster, FlinkWorker.Settings settings) {
    this.what = what;
    this.folder = folder;
    this.cluster = cluster;
    this.settings = settings;
    this.log = OperationLog.of(what.name());
  }

  /** Iceberg has made a snapshot. */
  static void committed(CreateSnapshotEvent event, String label) {
    String op = event.summary() == null ? null : event.summary().get(label);
    if (op != null) {
      COMMITS.put(op, event);
    }
  }

  /**
   * Submits the job, from its last complete checkpoint if there is one, and waits until all its tasks run and its source has its split, which
   * Flink may hand over later (that would count as a restart). The committer has then committed what that checkpoint holds and the table
   * lacks. If it throws, the job has ended.
   */
  void start(long deadline) throws Exception {
    label(Files.exists(pending()) ? Files.readString(pending()) : "");
    JobGraph graph = graph();
    String checkpoint = lastCheckpoint();
    if (checkpoint != null) {
      graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(checkpoint, false));
    }
    JobID submitted = graph.getJobID();
    int attempts = log.attempts();
    cluster.submitJob(graph).get(left(deadline), TimeUnit.MILLISECONDS);
    try {
      while (!running(submitted) || log.attempts() == attempts) {
        if (System.nanoTime() > deadline) {
          throw new Ended("its tasks do not run yet", failure);
        }
        Thread.sleep(POLL_MS); // Flink tells nobody
      }
    } catch (Exception e) {
      end(submitted);
      throw e;
    }
    id = submitted;
    Files.deleteIfExists(pending());
  }

  Map<String, Object> perform(FlinkWorker.Request request) throws Exception {
    long deadline = deadline(settings.resolve_s);
    KillPoints.arm(request.kill);
    failure = null;
    if (id != null && cluster.getJobStatus(id).get().isGloballyTerminalState()) {
      id = null;
    }
    if (id == null) {
      try {
        start(deadline);
      } catch (Exception e) {
        return failed(e, false);
      }
    }
    List<RowData> rows;
    try {
      rows = rows(request.rows);
    } catch (IllegalArgumentException e) {
      return failed(e, false);
    }
    write(pending(), request.op);
    label(request.op);
    long end = log.add(rows);
    int attempts = log.attempts();
    try {
      long checkpoint = checkpoint(end, deadline);
      long snapshot = commit(request.op, checkpoint, deadline);
      Files.delete(pending());
      return Map.of(
          "ok", true, "job", id.toString(), "checkpoint", checkpoint, "snapshot", snapshot,
          "restarts", log.attempts() - attempts);
    } catch (Exception e) {
      JobID ended = id;
      id = null; // its next start is from the last complete checkpoint, which may hold the rows
      end(ended);
      return failed(e, true);
    } finally {
      log.clear();
      COMMITS.remove(request.op);
      KillPoints.arm(null);
    }
  }

  /** Triggers checkpoints until one is complete; returns its number. */
  private long checkpoint(long end, long deadline) throws Exception {
    while (true) {
      if (log.awaitEmitted(end, POLL_MS)) {
        KillPoints.reached(KillPoints.BEFORE_CHECKPOINT);
        try {
          return cluster.triggerCheckpoint(id, CheckpointType.CONFIGURED).get(left(deadline), TimeUnit.MILLISECONDS);
        } catch (ExecutionException | TimeoutException e) {
          failure = e;
          Thread.sleep(POLL_MS); // the job is being restarted, and Flink tells nobody when it is
        }
      }
      check(deadline, "no checkpoint is complete");
    }
  }

  /** Waits until Iceberg has committed the checkpoint; returns the snapshot. */
  private long commit(String op, long checkpoint, long deadline) throws Exception {
    long look = deadline(0) + LOOK_MS * 1_000_000;
    while (true) {
      CreateSnapshotEvent event = COMMITS.get(op);
      if (event != null) {
        return event.snapshotId();
      }
      Thread.sleep(POLL_MS / 10); // Iceberg's event is one of another thread; 5 ms are little beside a checkpoint
      if (System.nanoTime() > look && running(id)) {
        Long found = find(checkpoint);
        if (found != null) {
          return found;
        }
        look = deadline(0) + LOOK_MS * 1_000_000;
      }
      check(deadline, "checkpoint " + checkpoint + " is complete, and Iceberg has not committed it");
    }
  }

  private void check(long deadline, String state) throws Exception {
    running(id);
    if (System.nanoTime() > deadline) {
      throw new Ended(state + " after " + settings.resolve_s + " s", failure);
    }
  }

  /** Whether all tasks run. Throws if the job has ended; remembers why it was restarted. */
  private boolean running(JobID job) throws Exception {
    AccessExecutionGraph graph = cluster.getExecutionGraph(job).get();
    if (graph.getFailureInfo() != null) {
      failure = graph.getFailureInfo().getException();
    }
    if (graph.getState().isGloballyTerminalState()) {
      throw new Ended("the job is " + graph.getState(), failure);
    }
    return graph.getState() == JobStatus.RUNNING
        && StreamSupport.stream(graph.getAllExecutionVertices().spliterator(), false)
            .allMatch(vertex -> vertex.getExecutionState() == ExecutionState.RUNNING);
  }

  /** The snapshot of this job's checkpoint in the table's current history; null if there is none. */
  private Long find(long checkpoint) throws Exception {
    try (TableLoader loader = loader()) {
      loader.open();
      Table table = loader.loadTable();
      for (Snapshot snapshot : table.snapshots()) {
        Map<String, String> summary = snapshot.summary();
        if (id.toString().equals(summary.get(SinkUtil.FLINK_JOB_ID))
            && Long.toString(checkpoint).equals(summary.get(SinkUtil.MAX_COMMITTED_CHECKPOINT_ID))) {
          return snapshot.snapshotId();
        }
      }
      return null;
    } catch (RuntimeException e) {
      failure = e;
      return null;
    }
  }

  /** Cancels the job if it has not ended, and waits until it has. A job that does not end would commit later: then the process ends. */
  private void end(JobID job) throws Exception {
    long deadline = deadline(END_S);
    if (!cluster.getJobStatus(job).get().isGloballyTerminalState()) {
      cluster.cancelJob(job);
    }
    while (!cluster.getJobStatus(job).get().isGloballyTerminalState()) {
      if (System.nanoTime() > deadline) {
        System.err.println("icequake: " + what.name() + " does not end within " + END_S + " s");
        Runtime.getRuntime().halt(1);
      }
      Thread.sleep(POLL_MS);
    }
  }

  private static Map<String, Object> failed(Exception error, boolean handedOver) {
    return Map.of("ok", false, "handed_over", handedOver, "error", Errors.chain(error));
  }

  private static long left(long deadline) {
    return Math.max(1, (deadline - System.nanoTime()) / 1_000_000);
  }

  /** The time of {@link System#nanoTime} after so many seconds. */
  static long deadline(long seconds) {
    return System.nanoTime() + seconds * 1_000_000_000;
  }

  private void label(String op) {
    if (op.isEmpty()) {
      EnvironmentContext.remove(settings.label);
    } else {
      EnvironmentContext.put(settings.label, op);
    }
  }

  private Path pending() {
    return folder.resolve("pending");
  }

  private static void write(Path file, String text) throws Exception {
    Path scratch = file.resolveSibling(file.getFileName() + ".new");
    Files.write(scratch, text.getBytes(StandardCharsets.UTF_8));
    Files.move(scratch, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  // --- the job -------------------------------------------------------------------------------------------------------

  private TableLoader loader() {
    org.apache.hadoop.conf.Configuration hadoop = new org.apache.hadoop.conf.Configuration();
    settings.hadoop.forEach(hadoop::set);
    String implementation = CatalogUtil.ICEBERG_CATALOG_TYPE;
    Map<String, String> properties = new java.util.HashMap<>(settings.catalog);
    String type = properties.remove(implementation);
    CatalogLoader catalog = CatalogLoader.custom("c", properties, hadoop, TYPES.getOrDefault(type, type));
    TableLoader loader = TableLoader.fromCatalog(catalog, TableIdentifier.parse(what.table));
    return settings.kill_points ? KillPoints.around(loader) : loader;
  }

  private static final Map<String, String> TYPES =
      Map.of(
          "rest", CatalogUtil.ICEBERG_CATALOG_REST,
          "jdbc", CatalogUtil.ICEBERG_CATALOG_JDBC,
          "nessie", CatalogUtil.ICEBERG_CATALOG_NESSIE,
          "hive", CatalogUtil.ICEBERG_CATALOG_HIVE,
          "hadoop", CatalogUtil.ICEBERG_CATALOG_HADOOP);

  private JobGraph graph() throws Exception {
    Configuration configuration = new Configuration();
    configuration.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, NEVER);
    configuration.set(CheckpointingOptions.MIN_PAUSE_BETWEEN_CHECKPOINTS, NEVER);
    configuration.set(CheckpointingOptions.CHECKPOINT_STORAGE, "filesystem");
    configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, folder.resolve("checkpoints").toUri().toString());
    configuration.set(
        CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
    configuration.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, Integer.MAX_VALUE);
    configuration.set(
        RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(settings.restart_ms));

    Table table;
    try (TableLoader loader = loader()) {
      loader.open();
      table = loader.loadTable();
    }
    rowType = FlinkSchemaUtil.convert(table.schema());
    StreamExecutionEnvironment environment = new StreamExecutionEnvironment(configuration);
    environment.setParallelism(1);
    DataStream<RowData> operations =
        environment
            .fromSource(
                new OperationSource(what.name()), WatermarkStrategy.noWatermarks(), "operations",
                FlinkCompatibilityUtil.toTypeInfo(rowType))
            .uid("operations");
    boolean upsert = what.mode.equals("upsert");
    if (settings.sink.equals("v1")) {
      FlinkSink.Builder sink =
          FlinkSink.forRowData(operations).table(table).tableLoader(loader()).uidPrefix(what.name()).upsert(upsert);
      (upsert ? sink.equalityFieldColumns(what.equality) : sink).append();
    } else {
      IcebergSink.Builder sink =
          IcebergSink.forRowData(operations).table(table).tableLoader(loader()).uidSuffix(what.name()).upsert(upsert);
      (upsert ? sink.equalityFieldColumns(what.equality) : sink).append();
    }
    JobGraph graph = environment.getStreamGraph().getJobGraph();
    return graph;
  }

  /** The newest complete checkpoint of this job and of those that it was restored from: a checkpoint is complete when its metadata is there. */
  private String lastCheckpoint() throws Exception {
    Path checkpoints = folder.resolve("checkpoints");
    if (!Files.isDirectory(checkpoints)) {
      return null;
    }
    try (Stream<Path> files = Files.walk(checkpoints, 3)) {
      return files
          .filter(file -> file.getFileName().toString().equals("_metadata"))
          .map(Path::getParent)
          .max(java.util.Comparator.comparingLong(StandingJob::number))
          .map(Path::toUri)
          .map(Object::toString)
          .orElse(null);
    }
  }

  private static long number(Path checkpoint) {
    return Long.parseLong(checkpoint.getFileName().toString().substring("chk-".length()));
  }

  private List<RowData> rows(List<Map<String, Object>> values) {
    List<RowData> rows = new ArrayList<>();
    for (Map<String, Object> value : values) {
      GenericRowData row = new GenericRowData(rowType.getFieldCount());
      for (RowType.RowField field : rowType.getFields()) {
        Object given = value.get(field.getName());
        row.setField(rowType.getFieldIndex(field.getName()), given == null ? null : converted(field, given));
      }
      rows.add(row);
    }
    return rows;
  }

  private static Object converted(RowType.RowField field, Object value) {
    LogicalType type = field.getType();
    switch (type.getTypeRoot()) {
      case BIGINT:
        return ((Number) value).longValue();
      case INTEGER:
        return ((Number) value).intValue();
      case VARCHAR:
        return StringData.fromString(String.valueOf(value));
      default:
        throw new IllegalArgumentException("no conversion to " + type + " for the column " + field.getName());
    }
  }
}
