import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;

/**
 * What each attempt of one operation's commit takes: milliseconds of its phases, and how much it reads and writes.
 *
 * <p>It stands between Iceberg's client and the table operations of a catalog, and before its files ({@link WatchedIO}), and passes every call on. An attempt begins when Iceberg
 * refreshes the table's metadata ({@code SnapshotProducer.apply}), and ends when the catalog has answered, or when a validation has failed:
 *
 * <ul>
 *   <li>{@code wait_ms}: since the attempt before: the backoff;
 *   <li>{@code refresh_ms}: {@code TableOperations.refresh};
 *   <li>{@code validate_ms}: from there to the first byte written, which is reading and comparing what others committed;
 *   <li>{@code manifests_ms}: from there to the commit, which is writing manifests and the manifest list;
 *   <li>{@code metadata_ms}: writing the metadata file, where the client does it;
 *   <li>{@code swap_ms}: the rest of {@code TableOperations.commit}: the request that moves the table's pointer.
 * </ul>
 */
final class Attempts {
  private final List<Map<String, Object>> done = new ArrayList<>();
  private final AtomicLong reads = new AtomicLong();
  private final AtomicLong readBytes = new AtomicLong();
  private final AtomicLong writes = new AtomicLong();
  private final AtomicLong writtenBytes = new AtomicLong();
  private final AtomicLong firstWrite = new AtomicLong();
  private final AtomicLong writingNs = new AtomicLong();

  private List<Number> waits = List.of();
  private boolean moved;
  private boolean watching;
  private boolean open;
  private long ended;
  private long began;
  private long refreshed;
  private double dataMs;

  /** The table operations of a catalog, watched. */
  TableOperations watch(TableOperations ops) {
    String[] seen = {null};
    return proxy(ops, (method, arguments) -> {
      switch (method) {
        case "refresh":
          return refresh(ops, seen);
        case "commit":
          commit(ops, (TableMetadata) arguments[0], (TableMetadata) arguments[1]);
          return null;
        default:
          return PASS;
      }
    });
  }

  /**
   * A commit is to follow; what came before, such as writing data files, took so long.
   *
   * @param waits milliseconds to wait before each further attempt, beside what Iceberg waits
   */
  void begin(double dataMs, List<Number> waits) {
    done.clear();
    this.waits = waits;
    this.dataMs = dataMs;
    ended = System.nanoTime();
    watching = true;
    open = false;
  }

  /** The attempts since {@link #begin}; {@code failure}: what ended the operation, or null. */
  List<Map<String, Object>> end(Throwable failure) {
    if (open && failure != null) {
      long first = firstWrite.get() == 0 ? System.nanoTime() : firstWrite.get();
      add(first, 0, 0, 0, failure instanceof ValidationException ? "invalid" : "error");
    }
    watching = false;
    open = false;
    return List.copyOf(done);
  }

  private TableMetadata refresh(TableOperations ops, String[] seen) {
    if (watching && !done.isEmpty() && done.size() <= waits.size()) {
      pause(waits.get(done.size() - 1).doubleValue());
    }
    long start = System.nanoTime();
    TableMetadata metadata = ops.refresh();
    String location = metadata.metadataFileLocation();
    if (watching) {
      open = true;
      began = start;
      refreshed = System.nanoTime();
      moved = !location.equals(seen[0]);
      firstWrite.set(0);
      for (AtomicLong counter : List.of(reads, readBytes, writes, writtenBytes)) {
        counter.set(0);
      }
    }
    seen[0] = location;
    return metadata;
  }

  private void commit(TableOperations ops, TableMetadata base, TableMetadata metadata) {
    long start = System.nanoTime();
    writingNs.set(0);
    String outcome = "error";
    try {
      ops.commit(base, metadata);
      outcome = "committed";
    } catch (CommitFailedException e) {
      outcome = "refused";
      throw e;
    } catch (RuntimeException e) {
      outcome = e instanceof CleanableFailure ? "error" : "unknown";
      throw e;
    } finally {
      if (watching) {
        long end = System.nanoTime();
        long first = firstWrite.get() == 0 ? start : Math.min(firstWrite.get(), start);
        add(first, start, writingNs.get(), end, outcome);
        open = false;
        watching = !outcome.equals("committed"); // Iceberg refreshes once more to find its snapshot
      }
    }
  }

  private void add(long firstWritten, long committing, long writing, long end, String outcome) {
    Map<String, Object> one = new LinkedHashMap<>();
    one.put("wait_ms", done.isEmpty() ? 0.0 : ms(began - ended));
    one.put("refresh_ms", ms(refreshed - began));
    one.put("validate_ms", ms(firstWritten - refreshed));
    one.put("manifests_ms", end == 0 ? 0.0 : ms(committing - firstWritten));
    one.put("metadata_ms", ms(writing));
    one.put("swap_ms", end == 0 ? 0.0 : ms(end - committing - writing));
    one.put("reads", reads.get());
    one.put("read_bytes", readBytes.get());
    one.put("writes", writes.get());
    one.put("written_bytes", writtenBytes.get());
    one.put("parent", moved ? "cold" : "hot");
    one.put("outcome", outcome);
    if (done.isEmpty()) {
      one.put("data_ms", Math.round(dataMs * 1000) / 1000.0);
    }
    done.add(one);
    ended = end == 0 ? firstWritten : end;
  }

  private static void pause(double ms) {
    try {
      Thread.sleep((long) ms, (int) (ms % 1 * 1e6));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("interrupted between two attempts", e);
    }
  }

  private static double ms(long ns) {
    return Math.round(ns / 1e3) / 1e3;
  }

  // --- files ----------------------------------------------------------------------------------------------------------

  /** A file to read, watched. */
  InputFile watch(InputFile file) {
    return proxy(file, (method, arguments) -> method.equals("newStream") ? new Result(s -> new In((SeekableInputStream) s)) : PASS);
  }

  /** A file to write, watched. */
  OutputFile watch(OutputFile file) {
    return proxy(file, (method, arguments) -> {
      if (method.equals("toInputFile")) {
        return new Result(f -> watch((InputFile) f));
      }
      if (!method.startsWith("create")) {
        return PASS;
      }
      firstWrite.compareAndSet(0, System.nanoTime());
      return new Result(s -> new Out((PositionOutputStream) s));
    });
  }

  private final class In extends SeekableInputStream {
    private final SeekableInputStream in;

    In(SeekableInputStream in) {
      this.in = in;
      reads.incrementAndGet();
    }

    @Override
    public long getPos() throws IOException {
      return in.getPos();
    }

    @Override
    public void seek(long position) throws IOException {
      in.seek(position);
    }

    @Override
    public int read() throws IOException {
      int one = in.read();
      readBytes.addAndGet(one < 0 ? 0 : 1);
      return one;
    }

    @Override
    public int read(byte[] into, int offset, int length) throws IOException {
      int n = in.read(into, offset, length);
      readBytes.addAndGet(Math.max(n, 0));
      return n;
    }

    @Override
    public void close() throws IOException {
      in.close();
    }
  }

  private final class Out extends PositionOutputStream {
    private final PositionOutputStream out;
    private final long created = System.nanoTime();
    private boolean closed;

    Out(PositionOutputStream out) {
      this.out = out;
      writes.incrementAndGet();
    }

    @Override
    public long getPos() throws IOException {
      return out.getPos();
    }

    @Override
    public long storedLength() throws IOException {
      return out.storedLength();
    }

    @Override
    public void write(int one) throws IOException {
      out.write(one);
      writtenBytes.incrementAndGet();
    }

    @Override
    public void write(byte[] from, int offset, int length) throws IOException {
      out.write(from, offset, length);
      writtenBytes.addAndGet(length);
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void close() throws IOException {
      out.close();
      if (!closed) {
        closed = true;
        writingNs.addAndGet(System.nanoTime() - created);
      }
    }
  }

  // --- proxies --------------------------------------------------------------------------------------------------------

  private static final Object PASS = new Object();

  private interface Change {
    Object of(Object result);
  }

  private static final class Result {
    private final Change change;

    Result(Change change) {
      this.change = change;
    }
  }

  private interface Instead {
    /** What to return instead of calling; {@link #PASS}: call; a {@link Result}: call, and return what it makes of the result. */
    Object of(String method, Object[] arguments);
  }

  /** The same object, of all its interfaces, with some calls watched: releases of Iceberg add methods to these interfaces. */
  @SuppressWarnings("unchecked")
  private static <T> T proxy(T behind, Instead instead) {
    Set<Class<?>> interfaces = new HashSet<>();
    for (Class<?> at = behind.getClass(); at != null; at = at.getSuperclass()) {
      interfaces.addAll(List.of(at.getInterfaces()));
    }
    interfaces.removeIf(i -> !java.lang.reflect.Modifier.isPublic(i.getModifiers()));
    return (T) Proxy.newProxyInstance(
        Attempts.class.getClassLoader(),
        interfaces.toArray(new Class<?>[0]),
        (self, method, arguments) -> {
          Object found = instead.of(method.getName(), arguments);
          if (found != PASS && !(found instanceof Result)) {
            return found;
          }
          Object result;
          try {
            result = method.invoke(behind, arguments);
          } catch (InvocationTargetException e) {
            throw e.getCause();
          }
          return found instanceof Result ? ((Result) found).change.of(result) : result;
        });
  }
}
