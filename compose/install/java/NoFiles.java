import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * A file system that does nothing, for the Hive Metastore.
 *
 * <p>The metastore makes and removes the folders of databases and tables. An object store has no folders, and Iceberg's
 * clients do all that is done to files themselves, so every folder is said to be there.
 */
public final class NoFiles extends FileSystem {
  private URI uri;

  @Override
  public void initialize(URI name, Configuration conf) throws java.io.IOException {
    super.initialize(name, conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) {
    throw new UnsupportedOperationException("the metastore reads no files: " + path);
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) {
    throw new UnsupportedOperationException("the metastore writes no files: " + path);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("the metastore writes no files: " + path);
  }

  @Override
  public boolean rename(Path from, Path to) {
    return true;
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    return true;
  }

  @Override
  public FileStatus[] listStatus(Path path) {
    return new FileStatus[0];
  }

  @Override
  public void setWorkingDirectory(Path path) {}

  @Override
  public Path getWorkingDirectory() {
    return new Path(uri.toString(), "/");
  }

  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    return true;
  }

  @Override
  public FileStatus getFileStatus(Path path) {
    return new FileStatus(0, true, 1, 0, 0, path);
  }
}
