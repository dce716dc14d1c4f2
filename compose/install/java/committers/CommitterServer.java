import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Many committers in one JVM: each connection to the Unix socket is one of them, with a thread, a catalog client and table handles of its own.
 *
 * <p>The argument is the path of the socket, which appears when the server listens. Requests and answers are lines of JSON:
 *
 * <ul>
 *   <li>{@code {"hello": true}} → {@code {"ok": true, "pid"}}
 *   <li>{@code {"session": {property: value}}} → {@code {"ok": true}}: a new client of the catalog with these properties of Iceberg's
 *   <li>an operation ({@link Committer}) → {@code {"ok": true, "result", "attempts", "bound": {}}} or
 *       {@code {"ok": false, "error": [[class, message], ...], "attempts", "bound": {}}}
 * </ul>
 *
 * <p>If the other side hangs up before the answer to an operation, the process ends at once with all its committers: the operation must not
 * commit later.
 */
public final class CommitterServer {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int MOST_CAUSES = 30;
  private static final int MOST_CHARACTERS = 2000;

  private CommitterServer() {}

  public static void main(String[] arguments) throws IOException {
    Path socket = Path.of(arguments[0]);
    Path scratch = socket.resolveSibling(socket.getFileName() + ".new");
    ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    server.bind(UnixDomainSocketAddress.of(scratch), 128);
    Files.move(scratch, socket);
    while (true) {
      SocketChannel connection = server.accept();
      new Thread(() -> serve(connection), "committer").start();
    }
  }

  private static void serve(SocketChannel connection) {
    BlockingQueue<String> requests = new LinkedBlockingQueue<>();
    boolean[] busy = {false};
    Thread reader = new Thread(() -> read(connection, requests, busy), "requests");
    reader.setDaemon(true);
    reader.start();
    try (connection;
        Committer committer = new Committer()) {
      for (String line = requests.take(); !line.isEmpty(); line = requests.take()) {
        Map<String, Object> answer = answer(committer, line);
        synchronized (busy) {
          busy[0] = false;
        }
        // Not by Channels.newOutputStream: it waits for the lock that the reading stream holds.
        ByteBuffer said = ByteBuffer.wrap((JSON.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
        while (said.hasRemaining()) {
          connection.write(said);
        }
      }
    } catch (IOException e) {
      // The other side closed the connection; it may come back on another one.
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Passes lines on; an empty one at the end. */
  private static void read(SocketChannel connection, BlockingQueue<String> requests, boolean[] busy) {
    try (BufferedReader in = new BufferedReader(new InputStreamReader(Channels.newInputStream(connection), StandardCharsets.UTF_8))) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        synchronized (busy) {
          busy[0] = true;
        }
        requests.add(line);
      }
    } catch (IOException e) {
      // As if it had ended.
    }
    synchronized (busy) {
      if (busy[0]) {
        Runtime.getRuntime().halt(1);
      }
    }
    requests.add("");
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> answer(Committer committer, String line) {
    Map<String, Object> answer = new LinkedHashMap<>();
    try {
      Map<String, Object> request = JSON.readValue(line, Map.class);
      answer.put("ok", true);
      if (request.containsKey("hello")) {
        answer.put("pid", ProcessHandle.current().pid());
      } else if (request.containsKey("session")) {
        committer.open((Map<String, String>) request.get("session"));
      } else {
        answer.put("result", committer.execute(request));
      }
    } catch (Exception | LinkageError e) {
      answer.put("ok", false);
      answer.put("error", chain(e));
    }
    answer.put("attempts", committer.attempts());
    answer.put("bound", Map.of());
    return answer;
  }

  private static List<List<String>> chain(Throwable error) {
    List<List<String>> found = new ArrayList<>();
    for (Throwable at = error; at != null && found.size() < MOST_CAUSES; at = at.getCause()) {
      String text = String.valueOf(at.getMessage());
      found.add(List.of(at.getClass().getName(), text.substring(0, Math.min(text.length(), MOST_CHARACTERS))));
    }
    return found;
  }
}
