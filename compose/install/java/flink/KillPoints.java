import java.io.IOException;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.flink.TableLoader;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** The named points of an operation at which this process can be told to die, as by {@code kill -9}. */
final class KillPoints {
  /** Half of the operation's rows are with Iceberg's writer. */
  static final String DURING_WRITE = "during-write";

  /** All rows are with the writer; the checkpoint has not begun. */
  static final String BEFORE_CHECKPOINT = "before-checkpoint";

  /** The checkpoint is complete and durable; the committer is about to ask the catalog. */
  static final String BEFORE_COMMIT = "before-commit";

  /** The catalog has committed; neither Flink nor the orchestrator knows it. */
  static final String AFTER_COMMIT = "after-commit";

  private static final int SIGKILL_STATUS = 137;
  private static volatile String armed;

  private KillPoints() {}

  static void arm(String point) {
    armed = point;
  }

  static void reached(String point) {
    if (point.equals(armed)) {
      System.err.println("icequake: killed on purpose: " + point);
      Runtime.getRuntime().halt(SIGKILL_STATUS);
    }
  }

  /** A loader of the same table whose commits pass the points before and after the catalog is asked. */
  static TableLoader around(TableLoader loader) {
    return new Loader(loader);
  }

  private static final class Loader implements TableLoader {
    private static final long serialVersionUID = 1;
    private final TableLoader inner;

    Loader(TableLoader inner) {
      this.inner = inner;
    }

    @Override
    public void open() {
      inner.open();
    }

    @Override
    public boolean isOpen() {
      return inner.isOpen();
    }

    @Override
    public Table loadTable() {
      Table table = inner.loadTable();
      return new BaseTable(new Operations(((HasTableOperations) table).operations()), table.name());
    }

    @Override
    public TableLoader clone() {
      return new Loader(inner.clone());
    }

    @Override
    public void close() throws IOException {
      inner.close();
    }
  }

  private static final class Operations implements TableOperations {
    private final TableOperations inner;

    Operations(TableOperations inner) {
      this.inner = inner;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
      reached(BEFORE_COMMIT);
      inner.commit(base, metadata);
      reached(AFTER_COMMIT);
    }

    @Override
    public TableMetadata current() {
      return inner.current();
    }

    @Override
    public TableMetadata refresh() {
      return inner.refresh();
    }

    @Override
    public FileIO io() {
      return inner.io();
    }

    @Override
    public EncryptionManager encryption() {
      return inner.encryption();
    }

    @Override
    public String metadataFileLocation(String name) {
      return inner.metadataFileLocation(name);
    }

    @Override
    public LocationProvider locationProvider() {
      return inner.locationProvider();
    }

    @Override
    public TableOperations temp(TableMetadata uncommitted) {
      return inner.temp(uncommitted);
    }

    @Override
    public long newSnapshotId() {
      return inner.newSnapshotId();
    }

    @Override
    public boolean requireStrictCleanup() {
      return inner.requireStrictCleanup();
    }
  }
}
