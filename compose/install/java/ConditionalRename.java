import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.fs.BulkDelete;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.LocatedFileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.iceberg.exceptions.CommitStateUnknownException;

/**
 * S3A, whose rename to the next version of an Iceberg table refuses an existing target, as HDFS does.
 *
 * <p>S3A renames by a copy, which replaces an existing object. This class writes the target by S3A's conditional create instead
 * (Hadoop 3.4.2 and newer): a PUT with {@code If-None-Match: *}, which the object store refuses if the object exists. Only names
 * {@code vN.metadata.json} are treated so; everything else is S3A's. With an older S3A every commit fails.
 */
public final class ConditionalRename extends FilterFileSystem {
  private static final String VERSION = "v\\d+(\\.gz)?\\.metadata\\.json(\\.gz)?";
  private static final String NO_OVERWRITE = "fs.option.create.conditional.overwrite";

  public ConditionalRename() throws ReflectiveOperationException {
    super((FileSystem) Class.forName("org.apache.hadoop.fs.s3a.S3AFileSystem").getDeclaredConstructor().newInstance());
  }

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    if (!to.getName().matches(VERSION)) {
      return super.rename(from, to);
    }
    byte[] content = read(from);
    try {
      FSDataOutputStreamBuilder<?, ?> builder = createFile(to);
      try (FSDataOutputStream out = builder.create().overwrite(false).must(NO_OVERWRITE, true).build()) {
        out.write(content); // close() sends the request
      }
    } catch (IOException failed) {
      // Refused, or the reply was lost: S3A's own retry is then refused because of what it wrote itself. The object tells.
      if (!Arrays.equals(content, committed(to, failed))) {
        return false;
      }
    }
    delete(from, false);
    return true;
  }

  // What FilterFileSystem does not pass on. Parquet's readers ask for the scheme.

  @Override
  public String getScheme() {
    return fs.getScheme();
  }

  @Override
  public boolean exists(Path path) throws IOException {
    return fs.exists(path);
  }

  @Override
  public RemoteIterator<LocatedFileStatus> listFiles(Path path, boolean recursive) throws IOException {
    return fs.listFiles(path, recursive);
  }

  @Override
  public BulkDelete createBulkDelete(Path path) throws IOException {
    return fs.createBulkDelete(path);
  }

  private byte[] read(Path path) throws IOException {
    try (FSDataInputStream in = open(path); ByteArrayOutputStream content = new ByteArrayOutputStream()) {
      in.transferTo(content);
      return content.toByteArray();
    }
  }

  /** What the version has now. If nothing, or if it cannot be read, the request may still take effect. */
  private byte[] committed(Path version, IOException failed) {
    try {
      return read(version);
    } catch (IOException unreadable) {
      failed.addSuppressed(unreadable);
      throw new CommitStateUnknownException(failed);
    }
  }
}
