import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.http.UriCompliance;
import org.eclipse.jetty.http.UriCompliance.Violation;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;

/**
 * Iceberg's own REST catalog over its JdbcCatalog, on loopback only.
 *
 * <p>The same parts and the same {@code CATALOG_*} variables as {@code org.apache.iceberg.rest.RESTCatalogServer} of
 * iceberg-open-api's test fixtures, whose main method binds every interface. {@code CATALOG_REST_PORT} (or the first
 * argument) is the port. A catalog that cannot be made ends the process, so that a wait for readiness ends too.
 */
public final class RestCatalogServer {
  /**
   * Clients before 1.11 separate the levels of a namespace by %1F, which Jetty 12 refuses with 400 ("Suspicious Path
   * Character"). They ask so for a metadata table ({@code db.t.history}) and need the catalog's own answer, 404.
   */
  private static final UriCompliance URIS =
      UriCompliance.DEFAULT.with("iceberg", Violation.SUSPICIOUS_PATH_CHARACTERS);

  public static void main(String[] args) throws Exception {
    Map<String, String> config = catalogProperties(System.getenv());
    config.putIfAbsent("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    config.putIfAbsent("jdbc.schema-version", "V1");
    int port = Integer.parseInt(args.length > 0 ? args[0] : config.getOrDefault("rest.port", "8181"));

    String name = config.getOrDefault("catalog.name", "rest");
    Catalog catalog = CatalogUtil.buildIcebergCatalog(name, config, new Configuration());
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");

    Server server = new Server(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    for (Connector connector : server.getConnectors()) {
      connector.getConnectionFactory(HttpConnectionFactory.class).getHttpConfiguration().setUriCompliance(URIS);
    }
    server.setHandler(context);
    server.setStopAtShutdown(true);
    server.start();
    server.join();
  }

  /** {@code CATALOG_S3_PATH__STYLE__ACCESS} means {@code s3.path-style-access}: the rule of Iceberg's RCKUtils. */
  private static Map<String, String> catalogProperties(Map<String, String> environment) {
    Map<String, String> properties = new HashMap<>();
    environment.forEach((name, value) -> {
      if (name.startsWith("CATALOG_")) {
        String key = name.substring("CATALOG_".length()).replace("__", "-").replace('_', '.');
        properties.put(key.toLowerCase(Locale.ROOT), value);
      }
    });
    return properties;
  }
}
