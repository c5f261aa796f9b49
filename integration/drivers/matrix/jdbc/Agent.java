// pgJDBC with HikariCP. See ../doc.go.

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.SQLWarning;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TimeZone;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.postgresql.PGConnection;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;

public class Agent {
    static final PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    static HikariDataSource pool;

    /** One connection with what belongs to it. */
    static class Session {
        Connection conn;
        volatile Statement running;
        final Map<String, PreparedStatement> prepared = new HashMap<>();
        final Map<String, Savepoint> points = new HashMap<>();
    }

    static final Map<String, Session> sessions = new ConcurrentHashMap<>();

    static String encode(Object v) {
        return v == null ? "\\N" : v.toString().replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r");
    }

    static String decode(String s) {
        if (s.equals("\\N")) {
            return null;
        }
        StringBuilder b = new StringBuilder();
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '\\') {
                c = s.charAt(++i);
                c = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
            }
            b.append(c);
        }
        return b.toString();
    }

    static Map<String, String> options(List<String> args) {
        Map<String, String> o = new HashMap<>();
        for (String arg : args) {
            o.put(arg.substring(0, arg.indexOf('=')), arg.substring(arg.indexOf('=') + 1));
        }
        return o;
    }

    static String url(Map<String, String> o) {
        return "jdbc:postgresql://" + o.get("host") + ":" + o.get("port") + "/" + o.get("database") + "?sslmode=disable&prepareThreshold=1&assumeMinServerVersion=9.0";
    }

    static List<Object> failed(SQLException e) {
        ServerErrorMessage m = e instanceof PSQLException p ? p.getServerErrorMessage() : null;
        if (m == null) {
            for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
                if (cause instanceof PSQLException p && p.getServerErrorMessage() != null) {
                    m = p.getServerErrorMessage();
                }
            }
        }
        if (m == null) {
            return Arrays.asList("error", "", e.toString(), "", "");
        }
        return Arrays.asList("error", m.getSQLState(), m.getMessage(),
            m.getDetail() == null ? "" : m.getDetail(), m.getHint() == null ? "" : m.getHint());
    }

    static void rows(List<List<Object>> lines, ResultSet rs) throws SQLException {
        int n = rs.getMetaData().getColumnCount();
        int count = 0;
        while (rs.next()) {
            List<Object> line = new ArrayList<>(List.of("row"));
            for (int i = 1; i <= n; i++) {
                line.add(rs.getString(i));
            }
            lines.add(line);
            count++;
        }
        lines.add(List.of("end", count));
    }

    static List<List<Object>> results(Statement s, boolean isRows) throws SQLException {
        List<List<Object>> lines = new ArrayList<>();
        while (true) {
            if (isRows) {
                rows(lines, s.getResultSet());
            } else if (s.getUpdateCount() >= 0) {
                lines.add(List.of("end", s.getUpdateCount()));
            } else {
                return lines;
            }
            isRows = s.getMoreResults();
        }
    }

    static List<List<Object>> run(PreparedStatement s, List<String> args) throws SQLException {
        for (int i = 0; i < args.size(); i++) {
            s.setString(i + 1, args.get(i));
        }
        return results(s, s.execute());
    }

    static String text(String sql) {
        return sql.replaceAll("\\$\\d+", "?");
    }

    static List<List<Object>> exec(Session s, String sql) throws SQLException {
        try (Statement statement = s.conn.createStatement()) {
            return results(statement, statement.execute(sql));
        }
    }

    static LargeObjectManager objects(Session s) throws SQLException {
        return s.conn.unwrap(PGConnection.class).getLargeObjectAPI();
    }

    static List<List<Object>> types(Session s) throws SQLException {
        List<List<Object>> lines = new ArrayList<>();
        byte[] all = new byte[256];
        for (int i = 0; i < 256; i++) {
            all[i] = (byte) i;
        }
        try (PreparedStatement p = s.conn.prepareStatement("select ?::int, ?::bool, ?::int, ?::bigint, ?::float8, ?::numeric, ?::text, ?::text, "
            + "?::bytea, ?::timestamptz, ?::date, ?::int[], ?::jsonb, ?::uuid")) {
            for (int round = 0; round < 4; round++) { // the later ones ask for binary results
                p.setNull(1, Types.INTEGER);
                p.setBoolean(2, true);
                p.setInt(3, Integer.MIN_VALUE);
                p.setLong(4, Long.MAX_VALUE);
                p.setDouble(5, 1.5);
                p.setBigDecimal(6, new BigDecimal("12345678901234567890.123456789"));
                p.setString(7, "é\t'\\");
                p.setString(8, "");
                p.setBytes(9, all);
                p.setObject(10, OffsetDateTime.parse("2024-02-29T12:34:56.789012Z"));
                p.setObject(11, LocalDate.of(1, 1, 1));
                p.setArray(12, s.conn.createArrayOf("integer", new Integer[] {1, null, 3}));
                p.setString(13, "{\"a\": [1, null]}");
                p.setObject(14, new UUID(0, 5));
                try (ResultSet rs = p.executeQuery()) {
                    rs.next();
                    List<Object> line = new ArrayList<>(List.of("row"));
                    for (int i = 1; i <= 14; i++) {
                        line.add(i == 9 ? HexFormat.of().formatHex(rs.getBytes(i))
                            : i == 12 ? Arrays.toString((Object[]) rs.getArray(i).getArray()) : rs.getObject(i));
                    }
                    lines.add(line);
                }
            }
        }
        return lines;
    }

    static List<List<Object>> carryOut(String n, String verb, List<String> args) throws Exception {
        Session s = sessions.computeIfAbsent(n, x -> new Session());
        switch (verb) {
        case "pool": {
            if (pool != null) {
                pool.close();
            }
            Map<String, String> o = options(args);
            HikariConfig config = new HikariConfig();
            config.setJdbcUrl(url(o));
            config.setUsername(o.get("user"));
            config.setPassword(o.get("password"));
            config.setMaximumPoolSize(Integer.parseInt(o.get("size")));
            config.setMinimumIdle(0);
            config.setConnectionTimeout(20000);
            pool = new HikariDataSource(config);
            return List.of();
        }
        case "connect": {
            Map<String, String> o = options(args);
            Properties p = new Properties();
            p.setProperty("user", o.get("user"));
            p.setProperty("password", o.get("password"));
            if (o.containsKey("enc")) {
                return List.of(List.of("no")); // it speaks UTF8 only
            }
            synchronized (Agent.class) {
                TimeZone before = TimeZone.getDefault();
                if (o.containsKey("tz")) { // the driver tells the server that of Java
                    TimeZone.setDefault(TimeZone.getTimeZone(o.get("tz")));
                }
                s.conn = DriverManager.getConnection(url(o), p);
                TimeZone.setDefault(before);
            }
            return List.of();
        }
        case "open":
            s.conn = pool.getConnection();
            return List.of();
        case "close":
            for (PreparedStatement p : s.prepared.values()) {
                p.close();
            }
            s.prepared.clear();
            s.conn.close();
            return List.of();
        case "query":
            try (PreparedStatement p = s.conn.prepareStatement(text(args.get(0)))) {
                return run(p, args.subList(1, args.size()));
            }
        case "exec":
            return exec(s, args.get(0));
        case "prepare":
            s.prepared.put(args.get(0), s.conn.prepareStatement(text(args.get(1))));
            return List.of();
        case "run":
            return run(s.prepared.get(args.get(0)), args.subList(1, args.size()));
        case "begin":
            s.conn.setTransactionIsolation(args.isEmpty() ? Connection.TRANSACTION_READ_COMMITTED : Connection.TRANSACTION_SERIALIZABLE);
            s.conn.setAutoCommit(false); // BEGIN goes ahead of the next statement
            return List.of();
        case "commit":
            s.conn.commit();
            s.conn.setAutoCommit(true);
            return List.of();
        case "rollback":
            s.conn.rollback();
            s.conn.setAutoCommit(true);
            return List.of();
        case "savepoint":
            s.points.put(args.get(0), s.conn.setSavepoint(args.get(0)));
            return List.of();
        case "rollbackto":
            s.conn.rollback(s.points.get(args.get(0)));
            return List.of();
        case "release":
            s.conn.releaseSavepoint(s.points.remove(args.get(0)));
            return List.of();
        case "copyin":
            return List.of(List.of("end", s.conn.unwrap(PGConnection.class).getCopyAPI().copyIn(args.get(0), new StringReader(args.get(1)))));
        case "copyout": {
            StringWriter to = new StringWriter();
            long rows = s.conn.unwrap(PGConnection.class).getCopyAPI().copyOut(args.get(0), to);
            List<List<Object>> lines = new ArrayList<>();
            to.toString().lines().forEach(line -> lines.add(List.of("row", line)));
            lines.add(List.of("end", rows));
            return lines;
        }
        case "lowrite": {
            long oid = objects(s).createLO();
            try (LargeObject lo = objects(s).open(oid, LargeObjectManager.WRITE)) {
                lo.write(args.get(0).getBytes(StandardCharsets.UTF_8));
            }
            return List.of(List.of("row", oid));
        }
        case "loread":
            try (LargeObject lo = objects(s).open(Long.parseLong(args.get(0)), LargeObjectManager.READ)) {
                ByteArrayOutputStream to = new ByteArrayOutputStream();
                lo.getInputStream().transferTo(to);
                return List.of(List.of("row", to.toString(StandardCharsets.UTF_8)));
            }
        case "pipeline": { // executeBatch is its pipeline: it tells counts of rows
            try (Statement batch = s.conn.createStatement()) {
                for (String sql : args) {
                    batch.addBatch(sql);
                }
                List<List<Object>> lines = new ArrayList<>();
                for (int count : batch.executeBatch()) {
                    lines.add(List.of("row", count));
                }
                return lines;
            }
        }
        case "long":
            try (Statement statement = s.conn.createStatement()) {
                s.running = statement;
                return results(statement, statement.execute(args.get(0)));
            }
        case "cancel":
            sessions.get(args.get(0)).running.cancel();
            return List.of();
        case "notices":
            try (Statement statement = s.conn.createStatement()) {
                statement.execute(args.get(0));
                List<List<Object>> lines = new ArrayList<>();
                for (SQLWarning w = statement.getWarnings(); w != null; w = w.getNextWarning()) {
                    ServerErrorMessage m = ((org.postgresql.util.PSQLWarning) w).getServerErrorMessage();
                    lines.add(List.of("notice", m.getSeverity() + ":  " + m.getMessage()));
                }
                return lines;
            }
        case "types":
            return types(s);
        case "ping":
            if (!s.conn.isValid(5)) {
                return List.of(List.of("error", "", "isValid says no", "", ""));
            }
            return List.of();
        default:
            return List.of(List.of("no"));
        }
    }

    static void work(String n, BlockingQueue<List<String>> commands) {
        while (true) {
            List<List<Object>> lines = new ArrayList<>();
            try {
                List<String> command = commands.take();
                lines.addAll(carryOut(n, command.get(0), command.subList(1, command.size())));
            } catch (SQLException e) {
                lines.add(failed(e));
            } catch (Exception e) {
                StringWriter trace = new StringWriter();
                e.printStackTrace(new PrintWriter(trace));
                lines.add(List.of("error", "", trace.toString(), "", ""));
            }
            lines.add(List.of("done"));
            StringBuilder text = new StringBuilder();
            for (List<Object> line : lines) {
                text.append(n);
                for (Object field : line) {
                    text.append('\t').append(encode(field));
                }
                text.append('\n');
            }
            synchronized (out) {
                out.print(text);
                out.flush();
            }
        }
    }

    public static void main(String[] args) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Map<String, BlockingQueue<List<String>>> workers = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null;) {
            String[] fields = line.split("\t", -1);
            List<String> command = new ArrayList<>();
            for (int i = 1; i < fields.length; i++) {
                command.add(decode(fields[i]));
            }
            workers.computeIfAbsent(fields[0], n -> {
                BlockingQueue<List<String>> commands = new LinkedBlockingQueue<>();
                Thread thread = new Thread(() -> work(n, commands));
                thread.setDaemon(true);
                thread.start();
                return commands;
            }).put(command);
        }
    }
}
