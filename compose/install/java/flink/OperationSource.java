import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.table.data.RowData;

/**
 * A source (FLIP-27) that reads the {@link OperationLog} of a job, with one split, whose state is the number of the next row.
 *
 * <p>The number is part of the checkpoint, so a restored job never emits a row again that its checkpoint holds. No checkpoint may lie inside
 * an operation: it would commit a part of it.
 */
final class OperationSource implements Source<RowData, OperationSource.Split, Boolean> {
  private static final long serialVersionUID = 1;
  private final String job;

  OperationSource(String job) {
    this.job = job;
  }

  /** The only split: the number of the next row to emit. */
  static final class Split implements SourceSplit {
    final long next;

    Split(long next) {
      this.next = next;
    }

    @Override
    public String splitId() {
      return "operations";
    }
  }

  @Override
  public Boundedness getBoundedness() {
    return Boundedness.CONTINUOUS_UNBOUNDED;
  }

  @Override
  public SourceReader<RowData, Split> createReader(SourceReaderContext context) {
    return new Reader(OperationLog.of(job));
  }

  @Override
  public SplitEnumerator<Split, Boolean> createEnumerator(SplitEnumeratorContext<Split> context) {
    return new Enumerator(context, List.of(new Split(0)));
  }

  @Override
  public SplitEnumerator<Split, Boolean> restoreEnumerator(SplitEnumeratorContext<Split> context, Boolean unassigned) {
    return new Enumerator(context, unassigned ? List.of(new Split(0)) : List.of());
  }

  private static final class Reader implements SourceReader<RowData, Split> {
    private final OperationLog log;
    private final CompletableFuture<Void> assigned = new CompletableFuture<>();
    private long next = -1;

    Reader(OperationLog log) {
      this.log = log;
    }

    @Override
    public void start() {}

    @Override
    public void addSplits(List<Split> splits) {
      next = log.resume(splits.get(0).next);
      assigned.complete(null);
    }

    @Override
    public InputStatus pollNext(ReaderOutput<RowData> output) {
      RowData row = next < 0 ? null : log.at(next);
      if (row == null) {
        return InputStatus.NOTHING_AVAILABLE;
      }
      output.collect(row);
      next++;
      if (log.half(next)) {
        KillPoints.reached(KillPoints.DURING_WRITE);
      }
      log.emitted(next);
      return log.at(next) == null ? InputStatus.NOTHING_AVAILABLE : InputStatus.MORE_AVAILABLE;
    }

    @Override
    public List<Split> snapshotState(long checkpoint) {
      if (log.inside(next)) {
        throw new IllegalStateException("checkpoint " + checkpoint + " lies inside an operation");
      }
      return next < 0 ? List.of() : List.of(new Split(next));
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
      return next < 0 ? assigned : log.available(next);
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
  }

  /** Gives the split to the only reader; its state is whether the split is not yet a reader's. */
  private static final class Enumerator implements SplitEnumerator<Split, Boolean> {
    private final SplitEnumeratorContext<Split> context;
    private final List<Split> unassigned;

    Enumerator(SplitEnumeratorContext<Split> context, List<Split> unassigned) {
      this.context = context;
      this.unassigned = new ArrayList<>(unassigned);
    }

    @Override
    public void start() {}

    @Override
    public void addReader(int subtask) {
      for (Split split : unassigned) {
        context.assignSplit(split, subtask);
      }
      unassigned.clear();
    }

    @Override
    public void addSplitsBack(List<Split> splits, int subtask) {
      unassigned.addAll(splits);
      if (context.registeredReaders().containsKey(subtask)) {
        addReader(subtask);
      }
    }

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public Boolean snapshotState(long checkpoint) {
      return !unassigned.isEmpty();
    }

    @Override
    public void close() {}
  }

  @Override
  public SimpleVersionedSerializer<Split> getSplitSerializer() {
    return new SimpleVersionedSerializer<>() {
      @Override
      public int getVersion() {
        return 1;
      }

      @Override
      public byte[] serialize(Split split) {
        return ByteBuffer.allocate(Long.BYTES).putLong(split.next).array();
      }

      @Override
      public Split deserialize(int version, byte[] bytes) {
        return new Split(ByteBuffer.wrap(bytes).getLong());
      }
    };
  }

  @Override
  public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
    return new SimpleVersionedSerializer<>() {
      @Override
      public int getVersion() {
        return 1;
      }

      @Override
      public byte[] serialize(Boolean unassigned) {
        return new byte[] {(byte) (unassigned ? 1 : 0)};
      }

      @Override
      public Boolean deserialize(int version, byte[] bytes) {
        return bytes[0] == 1;
      }
    };
  }
}
