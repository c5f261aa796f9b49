"""psycopg2 with ThreadedConnectionPool."""
import datetime
import decimal
import io
import os
import re
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import frame
import psycopg2
import psycopg2.extensions
import psycopg2.extras
import psycopg2.pool


class Psycopg2(frame.Agent):
    error = psycopg2.Error
    pool = None

    def failed(self, e):
        if e.pgcode is None:
            # Of a large object there is a message only.
            return ("error", "42704" if "large object" in str(e) and "does not exist" in str(e) else "", str(e), "", "")
        return ("error", e.pgcode, e.diag.message_primary, e.diag.message_detail or "", e.diag.message_hint or "")

    def do_pool(self, n, *args):
        if self.pool:
            self.pool.closeall()
        o = frame.options(args)
        self.pool = psycopg2.pool.ThreadedConnectionPool(int(o["size"]), int(o["size"]), **frame.libpq(o))

    def do_connect(self, n, *args):
        self.conns[n] = psycopg2.connect(**frame.libpq(frame.options(args)))
        self.conns[n].autocommit = True

    def do_open(self, n):
        self.conns[n] = self.pool.getconn()
        self.conns[n].autocommit = True

    def do_close(self, n):
        conn = self.conns.pop(n)
        if conn in self.pool._rused or id(conn) in self.pool._rused:
            self.pool.putconn(conn)
        else:
            conn.close()

    def text(self, sql):
        return re.sub(r"\$\d+", "%s", sql)

    def do_query(self, n, sql, *args):
        with self.conns[n].cursor() as cursor:
            cursor.execute(self.text(sql), args or None)
            return frame.result(cursor)

    def do_exec(self, n, sql):
        return self.do_query(n, sql)

    def do_begin(self, n, level=None):
        conn = self.conns[n]
        conn.autocommit = False  # BEGIN goes ahead of the next statement
        conn.set_session(isolation_level=level or "DEFAULT")

    def do_commit(self, n):
        self.conns[n].commit()
        self.conns[n].autocommit = True

    def do_rollback(self, n):
        self.conns[n].rollback()
        self.conns[n].autocommit = True

    def do_copyin(self, n, sql, text):
        with self.conns[n].cursor() as cursor:
            cursor.copy_expert(sql, io.StringIO(text))
            return [("end", cursor.statusmessage)]

    def do_copyout(self, n, sql):
        out = io.StringIO()
        with self.conns[n].cursor() as cursor:
            cursor.copy_expert(sql, out)
            return [("row", line) for line in out.getvalue().splitlines()] + [("end", cursor.statusmessage)]

    def do_lowrite(self, n, text):
        lo = self.conns[n].lobject(0, "wb")
        lo.write(text.encode())
        lo.close()
        return [("row", lo.oid)]

    def do_loread(self, n, oid):
        lo = self.conns[n].lobject(int(oid), "rb")
        text = lo.read().decode()
        lo.close()
        return [("row", text)]

    def do_long(self, n, sql):
        return self.do_query(n, sql)

    def do_cancel(self, n, target):
        self.conns[int(target)].cancel()

    def do_notices(self, n, sql):
        conn = self.conns[n]
        del conn.notices[:]
        return self.do_exec(n, sql) + [("notice", text.strip()) for text in conn.notices]

    def do_types(self, n):
        psycopg2.extras.register_uuid()
        values = (None, True, -2**30, 2**63 - 1, 1.5, decimal.Decimal("12345678901234567890.123456789"), "é\t'\\", "", bytes(range(256)),
                  datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc), datetime.date(1, 1, 1),
                  [1, None, 3], psycopg2.extras.Json({"a": [1, None]}), uuid.UUID(int=5))
        with self.conns[n].cursor() as cursor:
            cursor.execute("select %s::int, %s::bool, %s::int, %s::bigint, %s::float8, %s::numeric, %s::text, %s::text, %s::bytea, "
                           "%s::timestamptz, %s::date, %s::int[], %s::jsonb, %s::uuid", values)
            row = cursor.fetchone()
            return [("row", *(v if v is None else repr(bytes(v) if isinstance(v, memoryview) else v) for v in row))]

    def do_ping(self, n):
        return self.do_query(n, "select 1")


if __name__ == "__main__":
    Psycopg2().main()
