import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.table.data.RowData;

/**
 * What a job's source reads: the rows of the operation under way, as a stream whose rows are numbered from 0 over the whole life of the job.
 *
 * <p>The rows stay until the operation has ended, so a job that Flink restarts in this process reads them again from the number that its
 * checkpoint holds. A new process has no rows: those that no checkpoint holds are lost with the process, like records that were never sent.
 */
final class OperationLog {
  private static final Map<String, OperationLog> LOGS = new ConcurrentHashMap<>();

  private final List<RowData> rows = new ArrayList<>();
  private long base;
  private long emitted;
  private int attempts;
  private CompletableFuture<Void> more = new CompletableFuture<>();

  /** The log of a job's name; sources find it by that name, because Flink serializes them. */
  static OperationLog of(String job) {
    return LOGS.computeIfAbsent(job, name -> new OperationLog());
  }

  /** Hands over the rows of an operation; returns the number after its last row. */
  synchronized long add(List<RowData> operation) {
    rows.addAll(operation);
    CompletableFuture<Void> waiting = more;
    more = new CompletableFuture<>();
    waiting.complete(null);
    return base + rows.size();
  }

  /** Forgets the operation's rows. */
  synchronized void clear() {
    base += rows.size();
    rows.clear();
  }

  /** A reader begins at the number of its checkpoint; returns the number of its first row. */
  synchronized long resume(long next) {
    attempts++;
    if (next > base + rows.size()) { // the job was restored in a new process
      rows.clear();
      base = next;
    }
    emitted = Math.max(next, base);
    notifyAll();
    return emitted;
  }

  synchronized RowData at(long number) {
    long index = number - base;
    return index >= 0 && index < rows.size() ? rows.get((int) index) : null;
  }

  /** The reader has emitted all rows before this number. */
  synchronized void emitted(long next) {
    emitted = next;
    notifyAll();
  }

  /** Whether a reader at this number has emitted some rows of the operation, and not all. */
  synchronized boolean inside(long next) {
    return next > base && next < base + rows.size();
  }

  /** Whether a reader at this number has emitted half of the operation's rows. */
  synchronized boolean half(long next) {
    return next - base == (rows.size() + 1) / 2;
  }

  synchronized CompletableFuture<Void> available(long next) {
    return next < base + rows.size() ? CompletableFuture.completedFuture(null) : more;
  }

  /** How many readers there have been: the job has been restarted if it changes. */
  synchronized int attempts() {
    return attempts;
  }

  /** Waits until the rows before this number are emitted; false after the time. */
  synchronized boolean awaitEmitted(long end, long millis) throws InterruptedException {
    long deadline = System.nanoTime() + millis * 1_000_000;
    while (emitted < end) {
      long left = (deadline - System.nanoTime()) / 1_000_000;
      if (left <= 0) {
        return false;
      }
      wait(left);
    }
    return true;
  }
}
