import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/** Renames files of a folder, the first argument, by the file system of {@code fs.s3a.impl}; the others are Hadoop's properties. */
public final class Renames {
  private final Path folder;
  private final FileSystem fs;

  private Renames(Path folder, FileSystem fs) {
    this.folder = folder;
    this.fs = fs;
  }

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    for (String property : List.of(args).subList(1, args.length)) {
      conf.set(property.split("=", 2)[0], property.split("=", 2)[1]);
    }
    Path folder = new Path(args[0]);
    try (FileSystem fs = FileSystem.newInstance(folder.toUri(), conf)) {
      new Renames(folder, fs).all();
    }
  }

  private void all() throws Exception {
    say("onto nothing", rename("a", "v1.metadata.json"), content("v1.metadata.json"), left("a"));
    say("onto another", rename("b", "v1.metadata.json"), content("v1.metadata.json"), left("b"));
    say("onto itself", rename("a", "v1.metadata.json"), content("v1.metadata.json"), left("a"));
    say("the hint", rename("1", "version-hint.text"), content("version-hint.text"), left("1"));
    say("besides", fs.getScheme(), fs.listFiles(folder, true).hasNext(), fs.createBulkDelete(folder).pageSize() > 1);
    for (int version = 2; version < 7; version++) {
      race("v" + version + ".metadata.json");
    }
  }

  /** Eight writers; who was told that it won, and whether the file is the winner's. */
  private void race(String to) throws Exception {
    List<String> winners = new ArrayList<>();
    List<Thread> threads = new ArrayList<>();
    CyclicBarrier together = new CyclicBarrier(8);
    for (int i = 0; i < 8; i++) {
      String own = to + "-" + i;
      write(own);
      threads.add(
          new Thread(
              () -> {
                try {
                  together.await();
                  if (renamed(own, to)) {
                    synchronized (winners) {
                      winners.add(own);
                    }
                  }
                } catch (Exception e) {
                  throw new IllegalStateException(e);
                }
              }));
    }
    for (Thread thread : threads) {
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    say("race", winners.size(), winners.contains(content(to)));
  }

  private boolean rename(String from, String to) throws Exception {
    write(from);
    return renamed(from, to);
  }

  /** Iceberg takes both answers of a file system for a conflict: false, and an exception. */
  private boolean renamed(String from, String to) throws Exception {
    try {
      return fs.rename(new Path(folder, from), new Path(folder, to));
    } catch (FileAlreadyExistsException e) {
      return false;
    }
  }

  private void write(String name) throws Exception {
    try (FSDataOutputStream out = fs.create(new Path(folder, name), true)) {
      out.write(name.getBytes(StandardCharsets.UTF_8));
    }
  }

  private String content(String name) throws Exception {
    try (FSDataInputStream in = fs.open(new Path(folder, name))) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private String left(String name) throws Exception {
    return fs.exists(new Path(folder, name)) ? "left" : "gone";
  }

  private static void say(Object... what) {
    System.out.println(String.join(", ", List.of(what).stream().map(Object::toString).toList()));
  }
}
