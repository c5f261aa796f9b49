import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.PGConnection;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

/**
 * Runs jobs with pgJDBC and HikariCP: see ../doc.go for the language.
 *
 * <p>usage: java Agent.java jdbc
 */
public class Agent {
  /** In milliseconds; the hint may say more, a test has less time. */
  static final long LONGEST_PAUSE = 100;

  /** Milliseconds within which a statement has to be served when it is calm. */
  static final long RECOVERY = 30_000;

  static final Pattern WAIT = Pattern.compile("retry_after_ms=(\\d+)");
  static final Pattern RETRY = Pattern.compile("retry=(\\w+)");
  static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

  final Map<String, String> job = new HashMap<>();
  final Set<Integer> pids = new TreeSet<>();
  final AtomicInteger served = new AtomicInteger();
  final int workers;
  final CyclicBarrier calm;
  HikariDataSource pool;

  Agent(String line) {
    for (String part : line.split("\t")) {
      int at = part.indexOf('=');
      job.put(part.substring(0, at), part.substring(at + 1));
    }
    workers = Integer.parseInt(job.get("workers"));
    calm = new CyclicBarrier(workers, () -> say("calm"));
  }

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      new Agent(line).run(in);
    }
  }

  void run(BufferedReader in) throws Exception {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl("jdbc:postgresql://" + job.get("host") + ":" + job.get("port") + "/" + job.get("database")
        + "?sslmode=disable&assumeMinServerVersion=9.0&ApplicationName=" + job.get("application"));
    config.setUsername(job.get("user"));
    config.setMaximumPoolSize(workers);
    config.setInitializationFailTimeout(-1); // keep trying
    config.setConnectionTimeout(RECOVERY);
    pool = new HikariDataSource(config);
    List<Connection> all = new ArrayList<>();
    for (int i = 0; i < workers; i++) {
      all.add(pool.getConnection());
    }
    for (Connection c : all) {
      c.close();
    }
    say("ready");
    in.readLine();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < workers; i++) {
      int worker = i;
      Thread t = new Thread(() -> work(worker));
      threads.add(t);
      t.start();
    }
    for (Thread t : threads) {
      t.join();
    }
    pool.close();
    say("done", "served", served.get(), "pids", pids);
  }

  void work(int worker) {
    try {
      if (job.get("mode").equals("transfer")) {
        carryOn(worker);
        return;
      }
      String mode = job.get("mode");
      if (mode.equals("mixed")) {
        mode = List.of("plain", "tx", "several").get(worker % 3);
      }
      long until = System.nanoTime() + Long.parseLong(job.get("ms")) * 1_000_000;
      try {
        while (System.nanoTime() < until) {
          long pause;
          try (Connection c = connection()) {
            pause = attempt(c, mode);
          }
          Thread.sleep(pause);
        }
      } finally {
        calm.await();
      }
      while (!recovered()) {
        if (System.nanoTime() > until + RECOVERY * 1_000_000) {
          say("broken", "text", "not served when it was calm again");
          return;
        }
        Thread.sleep(50);
      }
    } catch (Exception e) {
      say("broken", "text", e.toString());
    }
  }

  Connection connection() throws SQLException {
    Connection c = pool.getConnection();
    synchronized (pids) {
      pids.add(c.unwrap(PGConnection.class).getBackendPID());
    }
    return c;
  }

  /** One attempt of the job; returns how many ms to pause. */
  long attempt(Connection c, String mode) throws SQLException {
    try {
      c.setAutoCommit(!mode.equals("tx"));
      try (Statement s = c.createStatement()) {
        if (mode.equals("several")) {
          for (int i = 0; i < 3; i++) {
            s.addBatch("do $$ begin perform pg_sleep(0.005); end $$ " + job.get("tag"));
          }
          s.executeBatch();
        } else {
          s.execute(job.get("sql"));
        }
      }
      if (mode.equals("tx")) {
        c.commit();
      }
      served.incrementAndGet();
      return 0;
    } catch (SQLException e) {
      String after = "";
      if (mode.equals("tx")) {
        try (Statement s = c.createStatement()) {
          s.execute(job.get("after"));
          after = "served";
        } catch (SQLException again) {
          after = again.getSQLState();
        }
        c.rollback();
      }
      return refused(mode, e, after);
    }
  }

  /** What the server said; for a batch that is the cause of what the driver says. */
  static ServerErrorMessage told(SQLException e) {
    for (Throwable t = e; t != null; t = t.getCause()) {
      if (t instanceof PSQLException && ((PSQLException) t).getServerErrorMessage() != null) {
        return ((PSQLException) t).getServerErrorMessage();
      }
    }
    return null;
  }

  static String orEmpty(String s) {
    return s == null ? "" : s;
  }

  static long refused(String mode, SQLException e, String after) {
    ServerErrorMessage m = told(e);
    if (m == null) {
      say("broken", "text", e.toString());
      return 50;
    }
    String hint = orEmpty(m.getHint());
    Matcher wait = WAIT.matcher(hint);
    Matcher retry = RETRY.matcher(hint);
    long ms = wait.find() ? Long.parseLong(wait.group(1)) : -1;
    say("refused", "mode", mode, "code", e.getSQLState(), "detail", orEmpty(m.getDetail()), "hint", hint,
        "after", after, "wait", ms, "retry", retry.find() ? retry.group(1) : "");
    return Math.min(ms < 0 ? 20 : ms, LONGEST_PAUSE);
  }

  boolean recovered() throws SQLException {
    try (Connection c = connection()) {
      c.setAutoCommit(true);
      try (Statement s = c.createStatement()) {
        s.execute(job.get("after"));
      }
      served.incrementAndGet();
      return true;
    } catch (SQLException e) {
      if (told(e) == null) {
        throw e;
      }
      return false;
    }
  }

  /**
   * Transfers without any care: after an error it goes on with the next statement. Odd workers
   * use the driver's own transactions, where BEGIN goes with the first update in one write.
   */
  void carryOn(int worker) throws SQLException {
    String[] tags = job.getOrDefault("tags", "").split("\\|", -1);
    try (Connection c = connection()) {
      boolean own = worker % 2 == 1;
      c.setAutoCommit(!own);
      for (int i = 0; i < Integer.parseInt(job.get("transfers")); i++) {
        String name = job.get("application") + "-" + worker + "-" + i;
        String update = "update book set balance = balance %s 1, last = '" + name
            + "' from pg_sleep(0.005) where id = %d " + tags[worker % tags.length];
        if (!own) {
          careless(c, "begin");
        }
        careless(c, String.format(update, "-", 1 + (worker * 7 + i * 3) % 20));
        careless(c, String.format(update, "+", 21 + (worker + i * 5) % 20));
        if (committed(c, own)) {
          say("committed", "text", name);
        }
      }
      c.setAutoCommit(true);
    }
  }

  static boolean careless(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      s.execute(sql);
      return true;
    } catch (SQLException e) {
      failed(e);
      return false;
    }
  }

  /**
   * Commits. Neither a statement COMMIT nor the driver tells that Postgres has answered ROLLBACK
   * because the transaction had failed, so it is asked first whether it has written anything.
   */
  static boolean committed(Connection c, boolean own) throws SQLException {
    long mark = 0;
    try (Statement s = c.createStatement(); var r = s.executeQuery("select txid_current_if_assigned()")) {
      mark = r.next() ? r.getLong(1) : 0;
    } catch (SQLException e) {
      failed(e);
    }
    if (!own) {
      return careless(c, "commit") && mark != 0;
    }
    c.commit();
    return mark != 0;
  }

  static void failed(SQLException e) throws SQLException {
    ServerErrorMessage m = told(e);
    if (m == null) {
      throw e;
    }
    say("failed", "code", e.getSQLState(), "detail", orEmpty(m.getDetail()));
  }

  /** Prints an event with its fields as a line of JSON. */
  static void say(String event, Object... fields) {
    StringBuilder b = new StringBuilder("{\"event\":").append(quoted(event));
    for (int i = 0; i < fields.length; i += 2) {
      Object v = fields[i + 1];
      b.append(",\"").append(fields[i]).append("\":").append(v instanceof String ? quoted((String) v) : v);
    }
    OUT.println(b.append('}'));
  }

  static String quoted(String s) {
    StringBuilder b = new StringBuilder("\"");
    for (char c : s.toCharArray()) {
      if (c == '"' || c == '\\') {
        b.append('\\').append(c);
      } else if (c < ' ') {
        b.append(String.format("\\u%04x", (int) c));
      } else {
        b.append(c);
      }
    }
    return b.append('"').toString();
  }
}
