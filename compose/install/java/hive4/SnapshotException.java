package org.apache.hadoop.hdfs.protocol;

import java.io.IOException;

/**
 * A class of HDFS's server, which Hadoop's client jars lack.
 *
 * <p>The Hive Metastore 4.0 names it where it deletes a folder of HDFS that has snapshots. Without it the Java machine refuses the class
 * that names it. No object store throws it.
 */
public class SnapshotException extends IOException {
  private static final long serialVersionUID = 1L;

  public SnapshotException(String message) {
    super(message);
  }
}
