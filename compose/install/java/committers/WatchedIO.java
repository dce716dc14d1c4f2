import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.SupportsBulkOperations;

/**
 * The files of one committer's catalog, watched: also the metadata files, which a catalog's client writes by its own FileIO.
 *
 * <p>A catalog makes its FileIO itself, from its properties. So they name this class, the one behind it, and whose attempts it counts for.
 */
public final class WatchedIO implements FileIO, SupportsBulkOperations {
  private static final String BEHIND = "icequake.io-impl";
  private static final String WHOSE = "icequake.committer";
  private static final String DEFAULT = "org.apache.iceberg.io.ResolvingFileIO";
  private static final Map<String, Attempts> ATTEMPTS = new ConcurrentHashMap<>();

  private FileIO io;
  private Attempts attempts;

  /** A catalog's properties with this class before its FileIO. */
  static Map<String, String> before(Map<String, String> properties, Attempts attempts) {
    String whose = UUID.randomUUID().toString();
    ATTEMPTS.put(whose, attempts);
    Map<String, String> found = new HashMap<>(properties);
    found.put(BEHIND, properties.getOrDefault(CatalogProperties.FILE_IO_IMPL, DEFAULT));
    found.put(CatalogProperties.FILE_IO_IMPL, WatchedIO.class.getName());
    found.put(WHOSE, whose);
    return found;
  }

  @Override
  public void initialize(Map<String, String> properties) {
    attempts = ATTEMPTS.get(properties.get(WHOSE));
    io = CatalogUtil.loadFileIO(properties.get(BEHIND), properties, new Configuration());
  }

  @Override
  public Map<String, String> properties() {
    return io.properties();
  }

  @Override
  public InputFile newInputFile(String path) {
    return attempts.watch(io.newInputFile(path));
  }

  @Override
  public InputFile newInputFile(String path, long length) {
    return attempts.watch(io.newInputFile(path, length));
  }

  @Override
  public OutputFile newOutputFile(String path) {
    return attempts.watch(io.newOutputFile(path));
  }

  @Override
  public void deleteFile(String path) {
    io.deleteFile(path);
  }

  @Override
  public void deleteFiles(Iterable<String> paths) {
    if (io instanceof SupportsBulkOperations) {
      ((SupportsBulkOperations) io).deleteFiles(paths);
    } else {
      paths.forEach(io::deleteFile);
    }
  }

  @Override
  public void close() {
    io.close();
  }
}
