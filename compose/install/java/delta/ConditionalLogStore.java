import io.delta.storage.HadoopFileSystemLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store of Delta Lake on S3A, in which one writer makes each version: the object store refuses the next one.
 *
 * <p>The version is written by S3A's conditional create (Hadoop 3.4.2 and newer): a PUT with {@code If-None-Match: *}. After any error
 * the object tells what became of it, because S3A sends a request whose reply was lost again, and that is refused because of the first
 * one. Each transaction has a {@code txnId} of its own, so equal bytes are the writer's own. With {@value #READ_BACK} = false it does
 * not look, as stores that only know put-if-absent do, and a refusal is always another writer's version.
 */
public final class ConditionalLogStore extends HadoopFileSystemLogStore {
  private static final String NO_OVERWRITE = "fs.option.create.conditional.overwrite";
  static final String READ_BACK = "icequake.log-store.read-back";

  public ConditionalLogStore(Configuration configuration) {
    super(configuration);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
      throws IOException {
    FileSystem files = path.getFileSystem(configuration);
    byte[] content = lines(actions);
    if (overwrite) {
      try (FSDataOutputStream out = files.create(path, true)) {
        out.write(content);
      }
      return;
    }
    try {
      FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path);
      try (FSDataOutputStream out = builder.create().overwrite(false).must(NO_OVERWRITE, true).build()) {
        out.write(content); // close() sends the request
      }
    } catch (IOException failed) {
      byte[] found = read(files, path, failed);
      if (!configuration.getBoolean(READ_BACK, true) || !Arrays.equals(content, found)) {
        throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(failed);
      }
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration configuration) {
    return false; // an object is there as a whole, or not
  }

  private static byte[] lines(Iterator<String> actions) throws IOException {
    ByteArrayOutputStream content = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      content.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    return content.toByteArray();
  }

  /** What the version has now. If nothing, or if it cannot be read, nobody knows whether the request takes effect yet. */
  private static byte[] read(FileSystem files, Path path, IOException failed) throws IOException {
    try (FSDataInputStream in = files.open(path)) {
      return in.readAllBytes();
    } catch (IOException unreadable) {
      failed.addSuppressed(unreadable);
      throw failed;
    }
  }
}
