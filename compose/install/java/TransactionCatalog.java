import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.rest.Endpoint;
import org.apache.iceberg.rest.ErrorHandler;
import org.apache.iceberg.rest.ErrorHandlers;
import org.apache.iceberg.rest.HTTPClient;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.auth.AuthSession;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/**
 * Iceberg's RESTCatalog, which commits to a table by {@code POST /v1/transactions/commit}.
 *
 * <p>Iceberg's client sends a commit to one table to that table's own path. Other clients (DuckDB) send the same requirements and
 * updates as a transaction over one table. This client is Iceberg's own in everything else: validation, retries after 409, and what
 * it does after other errors. The answer of a transaction is empty (204), so the table is loaded afterwards.
 *
 * <p>It runs with any release of Iceberg that the writers can run, so it wraps {@link RESTClient} without naming its methods:
 * releases add some. Commits that create a table are sent as always: the endpoint is for tables that exist.
 */
public final class TransactionCatalog extends RESTCatalog {
  public TransactionCatalog() {
    super(new Clients());
  }

  /** The server does not have the endpoint, so the commit was not made. */
  public static final class NoSuchEndpoint extends RuntimeException implements CleanableFailure {
    NoSuchEndpoint(String why) {
      super("The catalog server has no " + Endpoint.V1_COMMIT_TRANSACTION + ": " + why
          + ". Operations by transaction need a REST catalog that has this endpoint.");
    }
  }

  private static final class Clients implements Function<Map<String, String>, RESTClient> {
    private volatile List<Endpoint> offered = List.of();

    @Override
    public RESTClient apply(Map<String, String> config) {
      Map<String, String> headers = new HashMap<>();
      config.forEach((k, v) -> {
        if (k.startsWith("header.")) {
          headers.put(k.substring("header.".length()), v);
        }
      });
      String separator = decoded(config.getOrDefault("namespace-separator", "%1F"));
      return sending(HTTPClient.builder(config).uri(config.get("uri")).withHeaders(headers).build(), separator);
    }

    /** A client that passes everything on to {@code client}, commits to existing tables by the other endpoint. */
    private RESTClient sending(RESTClient client, String separator) {
      return (RESTClient)
          Proxy.newProxyInstance(
              RESTClient.class.getClassLoader(),
              new Class<?>[] {RESTClient.class},
              (proxy, method, arguments) -> {
                if (method.getName().equals("withAuthSession")) {
                  return sending(client.withAuthSession((AuthSession) arguments[0]), separator);
                }
                if (method.getName().equals("post") && arguments[1] instanceof UpdateTableRequest
                    && !creates((UpdateTableRequest) arguments[1])) {
                  return commit(client, method, arguments, separator);
                }
                Object answer = called(client, method, arguments);
                if (answer instanceof ConfigResponse) {
                  offered = List.copyOf(((ConfigResponse) answer).endpoints());
                }
                return answer;
              });
    }

    /** {@code arguments}: path, request, class of the answer, headers (or their supplier), handler of errors, and what later releases add. */
    private Object commit(RESTClient client, Method method, Object[] arguments, String separator) throws Throwable {
      if (!offered.isEmpty() && !offered.contains(Endpoint.V1_COMMIT_TRANSACTION)) {
        throw new NoSuchEndpoint("its configuration does not list it");
      }
      String path = (String) arguments[0];
      UpdateTableRequest request = (UpdateTableRequest) arguments[1];
      String[] segments = path.split("/"); // v1/{prefix}/namespaces/{namespace}/tables/{table}
      int n = segments.length;
      Namespace namespace = Namespace.of(decoded(segments[n - 3]).split(Pattern.quote(separator)));
      TableIdentifier table = TableIdentifier.of(namespace, decoded(segments[n - 1]));
      UpdateTableRequest change = UpdateTableRequest.create(table, request.requirements(), request.updates());
      Object[] sent = arguments.clone();
      sent[0] = String.join("/", List.of(segments).subList(0, n - 4)) + "/transactions/commit";
      sent[1] = new CommitTransactionRequest(List.of(change));
      sent[2] = null;
      sent[4] = new OrNoSuchEndpoint(handler(arguments[4]));
      called(client, method, sent);
      try {
        Map<String, String> headers = new HashMap<>(headers(arguments[3]));
        headers.remove("Idempotency-Key"); // it is the commit's
        return client.get(path, Map.of(), LoadTableResponse.class, headers, ErrorHandlers.tableErrorHandler());
      } catch (RuntimeException e) {
        // The commit was acknowledged: no error of this request may make the client delete its files.
        throw new CommitStateUnknownException(e);
      }
    }
  }

  private static boolean creates(UpdateTableRequest request) {
    return request.requirements().stream().anyMatch(r -> r instanceof UpdateRequirement.AssertTableDoesNotExist);
  }

  /** The client asks an ErrorHandler, and no other consumer, to read the body of an error. */
  private static final class OrNoSuchEndpoint extends ErrorHandler {
    private final Consumer<ErrorResponse> otherwise;

    OrNoSuchEndpoint(Consumer<ErrorResponse> otherwise) {
      this.otherwise = otherwise;
    }

    @Override
    public ErrorResponse parseResponse(int code, String body) {
      if (otherwise instanceof ErrorHandler) {
        return ((ErrorHandler) otherwise).parseResponse(code, body);
      }
      return ErrorResponse.builder().responseCode(code).withMessage(body).build();
    }

    @Override
    public void accept(ErrorResponse error) {
      String type = String.valueOf(error.type());
      boolean noTable = type.equals("NoSuchTableException") || type.equals("NoSuchNamespaceException");
      int code = error.code();
      if (code == 404 && !noTable || code == 405 || code == 406 || code == 501) {
        throw new NoSuchEndpoint("it answered " + code + " (" + type + "): " + error.message());
      }
      otherwise.accept(error);
    }
  }

  private static Object called(RESTClient client, Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(client, arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private static String decoded(String segment) {
    return URLDecoder.decode(segment, StandardCharsets.UTF_8);
  }

  @SuppressWarnings("unchecked")
  private static Consumer<ErrorResponse> handler(Object argument) {
    return (Consumer<ErrorResponse>) argument;
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> headers(Object argument) {
    return (Map<String, String>) (argument instanceof Supplier ? ((Supplier<?>) argument).get() : argument);
  }
}
