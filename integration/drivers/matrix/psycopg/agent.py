"""psycopg 3 with psycopg_pool."""
import datetime
import decimal
import os
import re
import sys
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import frame
import psycopg
import psycopg_pool
from psycopg.types.json import Jsonb


class Psycopg(frame.Agent):
    error = (psycopg.Error, psycopg_pool.PoolTimeout)
    pool = None

    def __init__(self):
        super().__init__()
        self.prepared = {}
        self.alone = set()

    def failed(self, e):
        if getattr(e, "sqlstate", None) is None:
            return ("error", "", str(e), "", "")
        return ("error", e.sqlstate, e.diag.message_primary or str(e), e.diag.message_detail or "", e.diag.message_hint or "")

    def do_pool(self, n, *args):
        if self.pool:
            self.pool.close()
        o = frame.options(args)
        self.pool = psycopg_pool.ConnectionPool(
            "", kwargs=dict(frame.libpq(o), autocommit=True, prepare_threshold=None if o.get("cache") == "none" else 1), min_size=0, max_size=int(o["size"]), num_workers=2,
            timeout=10)

    def do_connect(self, n, *args):
        self.conns[n] = psycopg.connect(**frame.libpq(frame.options(args)), autocommit=True)
        self.alone.add(n)

    def do_open(self, n):
        self.conns[n] = self.pool.getconn()

    def do_close(self, n):
        conn = self.conns.pop(n)
        if n in self.alone:
            self.alone.remove(n)
            conn.close()
        else:
            self.pool.putconn(conn)

    def text(self, sql):
        return re.sub(r"\$\d+", "%s", sql)

    def do_query(self, n, sql, *args):
        return frame.result(self.conns[n].execute(self.text(sql), args or None))

    def do_exec(self, n, sql):
        cursor = self.conns[n].execute(sql, prepare=False)
        lines = frame.result(cursor)
        while cursor.nextset():
            lines += frame.result(cursor)
        return lines

    def do_prepare(self, n, name, sql):
        self.prepared[n, name] = self.text(sql)

    def do_run(self, n, name, *args):
        return frame.result(self.conns[n].execute(self.prepared[n, name], args or None, prepare=True))

    def do_begin(self, n, level=None):
        conn = self.conns[n]
        conn.autocommit = False  # BEGIN goes ahead of the next statement
        conn.isolation_level = psycopg.IsolationLevel.SERIALIZABLE if level else None

    def do_commit(self, n):
        self.conns[n].commit()
        self.conns[n].autocommit = True

    def do_rollback(self, n):
        self.conns[n].rollback()
        self.conns[n].autocommit = True

    def do_copyin(self, n, sql, text):
        with self.conns[n].cursor() as cursor:
            with cursor.copy(sql) as copy:
                copy.write(text)
            return [("end", cursor.statusmessage)]

    def do_copyout(self, n, sql):
        with self.conns[n].cursor() as cursor:
            with cursor.copy(sql) as copy:
                text = b"".join(copy).decode()
            return [("row", line) for line in text.splitlines()] + [("end", cursor.statusmessage)]

    def do_pipeline(self, n, *statements):
        conn = self.conns[n]
        lines = []
        with conn.pipeline():
            # 3.1.7 takes a Parse that was skipped for one that was done.
            for cursor in [conn.execute(sql, prepare=False) for sql in statements]:
                lines += frame.result(cursor)
        return lines

    def do_long(self, n, sql):
        return self.do_query(n, sql)

    def do_cancel(self, n, target):
        self.conns[int(target)].cancel()

    def do_notices(self, n, sql):
        notices = []
        handler = lambda diag: notices.append(("notice", "%s:  %s" % (diag.severity, diag.message_primary)))
        self.conns[n].add_notice_handler(handler)
        try:
            return self.do_exec(n, sql) + notices
        finally:
            self.conns[n].remove_notice_handler(handler)

    def do_types(self, n):
        values = (None, True, -2**31, 2**63 - 1, 1.5, decimal.Decimal("12345678901234567890.123456789"), "é\t'\\", "", bytes(range(256)),
                  datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc), datetime.date(1, 1, 1),
                  [1, None, 3], Jsonb({"a": [1, None]}), uuid.UUID(int=5))
        lines = []
        for binary in False, True:
            for kind in "%s", "%b":
                with self.conns[n].cursor(binary=binary) as cursor:
                    cursor.execute("select %s::int, %s::bool, %s::int, %s::bigint, %s::float8, %s::numeric, %s::text, %s::text, %s::bytea, "
                                   "%s::timestamptz, %s::date, %s::int[], %s::jsonb, %s::uuid".replace("%s", kind), values)
                    lines.append(("row", *(v if v is None else repr(v) for v in cursor.fetchone())))
        return lines

    def do_ping(self, n):
        self.pool.check()  # it looks at those that are idle
        return self.do_query(n, "select 1")


if __name__ == "__main__":
    Psycopg().main()
