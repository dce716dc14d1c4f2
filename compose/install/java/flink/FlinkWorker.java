import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.CoreOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listeners;

/**
 * A Flink cluster in this process with one standing streaming job for each table and mode, which executes one operation at a time.
 *
 * <p>The argument is a JSON file: {@code catalog} (Iceberg's properties), {@code state} (the folder of the checkpoints, which outlives the
 * process), {@code scratch}, {@code sink} ({@code v2}: IcebergSink, {@code v1}: FlinkSink), {@code label} (the key of a snapshot's summary
 * that names the operation), {@code resolve_s}, {@code restart_ms}, {@code kill_points}. Requests and answers are lines of JSON on standard
 * input and output:
 *
 * <ul>
 *   <li>at first, when the jobs that ran before run again: {@code {"ready": true, "jobs": n}}
 *   <li>{@code {"op", "table", "mode": "append" | "upsert", "equality": [column], "rows": [{column: value}], "kill": point | null}} →
 *       {@code {"ok": true, "job", "checkpoint", "snapshot", "restarts"}} or
 *       {@code {"ok": false, "handed_over": bool, "error": [[class, message], ...]}}; {@code handed_over} is false if the job has got no row.
 * </ul>
 *
 * <p>The process ends when its standard input does.
 */
public final class FlinkWorker {
  private static final int SLOTS = 32;

  private final ObjectMapper json = new ObjectMapper();
  private final Settings settings;
  private final MiniCluster cluster;
  private final Map<String, StandingJob> jobs = new LinkedHashMap<>();

  /** What the parent process says, once. */
  static final class Settings {
    public Map<String, String> catalog;
    public Map<String, String> hadoop = Map.of();
    public String state;
    public String scratch;
    public String sink;
    public String label;
    public long resolve_s;
    public long restart_ms;
    public boolean kill_points;
  }

  /** One operation. */
  static final class Request {
    public String op;
    public String table;
    public String mode;
    public List<String> equality = List.of();
    public List<Map<String, Object>> rows;
    public String kill;
  }

  private FlinkWorker(Path file) throws Exception {
    settings = json.readValue(file.toFile(), Settings.class);
    Configuration configuration = new Configuration();
    configuration.set(RestOptions.BIND_PORT, "0");
    configuration.set(RestOptions.BIND_ADDRESS, "127.0.0.1");
    configuration.set(RestOptions.ADDRESS, "127.0.0.1");
    configuration.set(CoreOptions.TMP_DIRS, settings.scratch);
    configuration.set(TaskManagerOptions.MANAGED_MEMORY_SIZE, MemorySize.ofMebiBytes(16));
    configuration.set(TaskManagerOptions.NETWORK_MEMORY_MIN, MemorySize.ofMebiBytes(16));
    configuration.set(TaskManagerOptions.NETWORK_MEMORY_MAX, MemorySize.ofMebiBytes(16));
    cluster =
        new MiniCluster(
            new MiniClusterConfiguration.Builder()
                .setConfiguration(configuration)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(SLOTS)
                .setCommonBindAddress("127.0.0.1")
                .build());
    cluster.start();
    Listeners.register(event -> StandingJob.committed(event, settings.label), CreateSnapshotEvent.class);
  }

  public static void main(String[] arguments) {
    PrintStream answers = System.out;
    System.setOut(System.err); // for whatever logs there
    BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    Thread reader = new Thread(() -> read(requests), "requests");
    reader.setDaemon(true);
    reader.start();
    try {
      FlinkWorker worker = new FlinkWorker(Path.of(arguments[0]));
      worker.say(answers, Map.of("ready", true, "jobs", worker.restore()));
      while (true) {
        worker.say(answers, worker.perform(worker.json.readValue(requests.take(), Request.class)));
      }
    } catch (Throwable e) { // Flink's own threads would keep the process alive, and its parent waiting
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
  }

  /** Reads requests; ends the process at once when its parent is gone, so that it commits nothing on its own. */
  private static void read(BlockingQueue<String> requests) {
    try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        requests.add(line);
      }
    } catch (IOException e) {
      e.printStackTrace();
    }
    Runtime.getRuntime().halt(0);
  }

  private void say(PrintStream answers, Map<String, ?> answer) throws Exception {
    answers.write((json.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
    answers.flush();
  }

  /**
   * Starts the jobs that ran before, as whoever runs a streaming job does after a crash; returns how many there are. A job that cannot be
   * restored in the time that they have together is tried again before its next operation.
   */
  private int restore() throws Exception {
    Path state = Path.of(settings.state);
    Files.createDirectories(state);
    long deadline = StandingJob.deadline(settings.resolve_s);
    try (var folders = Files.newDirectoryStream(state, Files::isDirectory)) {
      for (Path folder : folders) {
        if (Files.exists(folder.resolve(StandingJob.WHAT))) {
          StandingJob.What what = json.readValue(folder.resolve(StandingJob.WHAT).toFile(), StandingJob.What.class);
          StandingJob job = new StandingJob(what, folder, cluster, settings);
          jobs.put(what.name(), job);
          try {
            job.start(deadline);
          } catch (Exception e) {
            System.err.println("icequake: " + what.name() + " is not restored yet: " + Errors.chain(e));
          }
        }
      }
    }
    return jobs.size();
  }

  private Map<String, Object> perform(Request request) throws Exception {
    StandingJob.What what = new StandingJob.What(request.table, request.mode, request.equality);
    StandingJob job = jobs.get(what.name());
    if (job == null) {
      Path folder = Path.of(settings.state, what.name());
      Files.createDirectories(folder);
      json.writeValue(folder.resolve(StandingJob.WHAT).toFile(), what);
      job = new StandingJob(what, folder, cluster, settings);
      jobs.put(what.name(), job);
    }
    return job.perform(request);
  }
}
