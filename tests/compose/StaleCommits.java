import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.types.Types;

/**
 * Commits of the Hadoop catalog that build on an old version, as of a writer that stalled between its last look at the table and the rename.
 *
 * <p>Arguments: the warehouse, then Hadoop's properties. Each line: what happened meanwhile, whether the commit was accepted, and the commits of
 * the others and of the stalled writer that a reader finds.
 */
public final class StaleCommits {
  private static final Schema SCHEMA = new Schema(Types.NestedField.required(1, "id", Types.IntegerType.get()));
  private static final String CODEC = "write.metadata.compression-codec";
  private static final Map<String, String> DELETING =
      Map.of("write.metadata.delete-after-commit.enabled", "true", "write.metadata.previous-versions-max", "1");

  private final HadoopCatalog catalog;

  private StaleCommits(HadoopCatalog catalog) {
    this.catalog = catalog;
  }

  public static void main(String[] args) throws Exception {
    Configuration conf = new Configuration();
    for (String property : List.of(args).subList(1, args.length)) {
      conf.set(property.split("=", 2)[0], property.split("=", 2)[1]);
    }
    try (HadoopCatalog catalog = new HadoopCatalog()) {
      catalog.setConf(conf);
      catalog.initialize("c", Map.of("warehouse", args[0]));
      StaleCommits all = new StaleCommits(catalog);
      all.stall("another commit", Map.of(), others -> set(others, "other.1", "x"));
      all.stall("four commits, old files kept", Map.of(), StaleCommits::four);
      all.stall("four commits, old files deleted", DELETING, StaleCommits::four);
      all.stall("another codec", Map.of(), others -> set(others, CODEC, "gzip"));
    }
  }

  private interface Meanwhile {
    void happens(Table others);
  }

  private static void four(Table others) {
    for (int i = 1; i <= 4; i++) {
      set(others, "other." + i, "x");
    }
  }

  private static void set(Table table, String key, String value) {
    table.updateProperties().set(key, value).commit();
  }

  private void stall(String what, Map<String, String> properties, Meanwhile meanwhile) {
    TableIdentifier name = TableIdentifier.of("db", what.replaceAll("\\W", "_"));
    catalog.buildTable(name, SCHEMA).withProperties(properties).create();
    TableOperations stalled = ((BaseTable) catalog.loadTable(name)).operations();
    TableMetadata base = stalled.current();
    meanwhile.happens(catalog.loadTable(name));
    String answer;
    try {
      stalled.commit(base, TableMetadata.buildFrom(base).setProperties(Map.of("stalled", "x")).build());
      answer = "accepted";
    } catch (CommitFailedException e) {
      answer = "refused";
    }
    Map<String, String> found = catalog.loadTable(name).properties();
    long others = found.keySet().stream().filter(k -> k.startsWith("other.") || k.equals(CODEC)).count();
    System.out.println(what + ": " + answer + ", others " + others + ", stalled " + (found.containsKey("stalled") ? 1 : 0));
  }
}
