import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.flink.util.SerializedThrowable;

/** Exceptions as writers report them. */
final class Errors {
  private static final int MOST_CAUSES = 30;
  private static final int MOST_CHARACTERS = 2000;

  private Errors() {}

  /** {@code [[class, message], ...]} of an exception, its causes and suppressed exceptions, outermost first. */
  static List<List<String>> chain(Throwable error) {
    List<List<String>> chain = new ArrayList<>();
    Deque<Throwable> queue = new ArrayDeque<>();
    Set<String> seen = new HashSet<>();
    queue.add(error);
    while (!queue.isEmpty() && chain.size() < MOST_CAUSES) {
      Throwable outer = queue.poll();
      // Flink sends exceptions of tasks in this form, because another process may not know their classes.
      Throwable one = SerializedThrowable.get(outer, Errors.class.getClassLoader());
      String name = one instanceof SerializedThrowable
          ? ((SerializedThrowable) one).getOriginalErrorClassName() : one.getClass().getName();
      if (seen.add(name + one)) {
        String message = one.getMessage() == null ? "" : one.getMessage();
        chain.add(List.of(name, message.substring(0, Math.min(message.length(), MOST_CHARACTERS))));
        if (one.getCause() != null) {
          queue.add(one.getCause());
        }
        queue.addAll(Arrays.asList(one.getSuppressed()));
      }
    }
    return chain;
  }
}
