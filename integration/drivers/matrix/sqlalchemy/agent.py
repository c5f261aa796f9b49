"""SQLAlchemy over psycopg2, whose pool asks before each use whether a connection lives."""
import datetime
import decimal
import io
import logging
import os
import re
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "python"))
import frame
import sqlalchemy
from sqlalchemy.dialects.postgresql import ARRAY, BYTEA, JSONB
import psycopg2


class SQLAlchemy(frame.Agent):
    error = (sqlalchemy.exc.DBAPIError, psycopg2.Error, sqlalchemy.exc.TimeoutError, sqlalchemy.exc.InvalidRequestError)
    engine = None

    def __init__(self):
        super().__init__()
        self.moved, self.points = {}, {}

    def failed(self, e):
        e = getattr(e, "orig", e)
        if getattr(e, "pgcode", None) is None:
            # Of a large object there is a message only.
            return ("error", "42704" if "large object" in str(e) and "does not exist" in str(e) else "", str(e), "", "")
        return ("error", e.pgcode, e.diag.message_primary, e.diag.message_detail or "", e.diag.message_hint or "")

    def create(self, o, **more):
        connect = {"sslmode": "disable"}
        if "tz" in o:
            connect["options"] = "-c TimeZone=" + o["tz"]
        if "enc" in o:
            connect["client_encoding"] = o["enc"]
        url = "postgresql+psycopg2://%s:%s@%s:%s/%s" % (o["user"], o["password"], o["host"], o["port"], o["database"])
        return sqlalchemy.create_engine(url, connect_args=connect, isolation_level="AUTOCOMMIT", **more)

    def do_pool(self, n, *args):
        if self.engine:
            self.engine.dispose()
        o = frame.options(args)
        self.engine = self.create(o, pool_size=int(o["size"]), max_overflow=0, pool_pre_ping=True)

    def do_connect(self, n, *args):
        self.conns[n] = self.create(frame.options(args), poolclass=sqlalchemy.pool.NullPool).connect()

    def do_open(self, n):
        self.conns[n] = self.engine.connect()

    def do_close(self, n):
        self.conns.pop(n).close()

    def result(self, done):
        lines = [("row", *row) for row in done] if done.returns_rows else []
        return lines + [("end", done.cursor.statusmessage if done.cursor else "")]

    def do_query(self, n, sql, *args):
        if args:
            text = sqlalchemy.text(re.sub(r"\$(\d+)::(\w+)", r"cast(:p\1 as \2)", sql))
            return self.result(self.conns[n].execute(text, {"p%d" % (i + 1): arg for i, arg in enumerate(args)}))
        return self.result(self.conns[n].exec_driver_sql(sql))

    def do_exec(self, n, sql):
        return self.do_query(n, sql)

    def do_begin(self, n, level=None):
        conn = self.conns[n]
        if conn.in_transaction():
            conn.get_transaction().close()  # the one that it opens by itself
        self.conns[n] = conn.execution_options(isolation_level=level.upper() if level else "READ COMMITTED")
        self.moved[n] = self.conns[n].begin()

    def end(self, n, how):
        try:
            how()
        finally:
            self.conns[n] = self.conns[n].execution_options(isolation_level="AUTOCOMMIT")

    def do_commit(self, n):
        self.end(n, self.moved[n].commit)

    def do_rollback(self, n):
        self.end(n, self.moved[n].rollback)

    def do_savepoint(self, n, name):
        self.points[n, name] = self.conns[n].begin_nested()

    def do_rollbackto(self, n, name):
        self.points.pop((n, name)).rollback()
        self.do_savepoint(n, name)  # its own has gone with the rollback

    def do_release(self, n, name):
        self.points.pop((n, name)).commit()

    def do_copyin(self, n, sql, text):
        with self.conns[n].connection.cursor() as cursor:
            cursor.copy_expert(sql, io.StringIO(text))
            return [("end", cursor.statusmessage)]

    def do_copyout(self, n, sql):
        out = io.StringIO()
        with self.conns[n].connection.cursor() as cursor:
            cursor.copy_expert(sql, out)
            return [("row", line) for line in out.getvalue().splitlines()] + [("end", cursor.statusmessage)]

    def do_lowrite(self, n, text):
        lo = self.conns[n].connection.dbapi_connection.lobject(0, "wb")
        lo.write(text.encode())
        lo.close()
        return [("row", lo.oid)]

    def do_loread(self, n, oid):
        lo = self.conns[n].connection.dbapi_connection.lobject(int(oid), "rb")
        text = lo.read().decode()
        lo.close()
        return [("row", text)]

    def do_long(self, n, sql):
        return self.do_query(n, sql)

    def do_cancel(self, n, target):
        self.conns[int(target)].connection.dbapi_connection.cancel()

    def do_notices(self, n, sql):
        notices = []
        handler = logging.Handler()
        handler.emit = lambda record: notices.append(("notice", record.getMessage().strip()))
        log = logging.getLogger("sqlalchemy.dialects.postgresql")
        log.setLevel(logging.INFO)
        log.addHandler(handler)
        try:
            return self.do_exec(n, sql) + notices
        finally:
            log.removeHandler(handler)

    def do_types(self, n):
        b = sqlalchemy.bindparam
        query = sqlalchemy.select(
            b("a", None, sqlalchemy.Integer), b("b", True, sqlalchemy.Boolean), b("c", 2**63 - 1, sqlalchemy.BigInteger),
            b("d", 1.5, sqlalchemy.Float), b("e", decimal.Decimal("12345678901234567890.123456789"), sqlalchemy.Numeric(40, 9)),
            b("f", "é\t'\\", sqlalchemy.Text), b("g", "", sqlalchemy.Text), b("h", bytes(range(256)), BYTEA),
            b("i", datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc), sqlalchemy.DateTime(timezone=True)),
            b("j", datetime.date(1, 1, 1), sqlalchemy.Date), b("k", [1, None, 3], ARRAY(sqlalchemy.Integer)),
            b("l", {"a": [1, None]}, JSONB))
        row = self.conns[n].execute(query).fetchone()
        return [("row", *(v if v is None else repr(v) for v in row))]

    def do_ping(self, n):
        return self.do_query(n, "select 1")  # its pool has asked when it was opened


if __name__ == "__main__":
    SQLAlchemy().main()
