"""asyncpg with its pool."""
import asyncio
import contextlib
import datetime
import decimal
import os
import sys
import threading
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import asyncpg
import frame


class Asyncpg(frame.Agent):
    error = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)
    pool = None

    def __init__(self):
        super().__init__()
        self.prepared, self.moved, self.alone, self.tasks = {}, {}, set(), {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def wait(self, what, most=50):
        """A wait without an end must not be one for the test."""
        async def bounded():
            try:
                return await asyncio.wait_for(what, most)
            except asyncio.TimeoutError:
                raise TimeoutError("asyncpg has not returned within %d s" % most)

        return asyncio.run_coroutine_threadsafe(bounded(), self.loop).result()

    def failed(self, e):
        code = getattr(e, "sqlstate", None)
        if code is None:
            return ("error", "", "%s: %s" % (type(e).__name__, e), "", "")
        return ("error", code, e.message, e.detail or "", e.hint or "")

    def dsn(self, o):
        dsn = dict(host=o["host"], port=int(o["port"]), user=o["user"], password=o["password"], database=o["database"], ssl=False)
        if "tz" in o:
            dsn["server_settings"] = {"TimeZone": o["tz"]}
        return dsn

    def do_pool(self, n, *args):
        o = frame.options(args)

        async def make():
            if self.pool:
                self.pool.terminate()
            self.pool = await asyncpg.create_pool(min_size=0, max_size=int(o["size"]), **self.dsn(o))

        self.wait(make())

    def do_connect(self, n, *args):
        o = frame.options(args)
        if "enc" in o:
            return [("no",)]  # it speaks UTF8 only
        self.conns[n] = self.wait(asyncpg.connect(**self.dsn(o)))
        self.alone.add(n)

    def do_open(self, n):
        async def acquire():
            return await self.pool.acquire()

        self.conns[n] = self.wait(acquire())

    def do_close(self, n):
        conn = self.conns.pop(n)
        if n in self.alone:
            self.alone.remove(n)
            return self.wait(conn.close())
        if conn.is_closed():
            # Where a query met the end of its connection the pool does not notice that this place
            # is free, and in the end waits for ever.
            async def terminate():
                with contextlib.suppress(asyncpg.InterfaceError):  # it has noticed
                    conn.terminate()

            self.wait(terminate())
        self.wait(self.pool.release(conn))  # it says what resets a session

    def do_query(self, n, sql, *args):
        async def query():
            statement = await self.conns[n].prepare(sql)  # its cache
            rows = await statement.fetch(*args)
            return [("row", *row) for row in rows] + [("end", statement.get_statusmsg())]

        return self.wait(query())

    def do_exec(self, n, sql):
        return [("end", self.wait(self.conns[n].execute(sql)))]

    def do_prepare(self, n, name, sql):
        self.prepared[n, name] = self.wait(self.conns[n].prepare(sql))

    def do_run(self, n, name, *args):
        return [("row", *row) for row in self.wait(self.prepared[n, name].fetch(*args))]

    def do_begin(self, n, level=None):
        self.moved[n] = [self.conns[n].transaction(isolation=level)]
        self.wait(self.moved[n][-1].start())

    def do_commit(self, n):
        self.wait(self.moved[n].pop().commit())

    def do_rollback(self, n):
        self.wait(self.moved[n].pop().rollback())

    def do_savepoint(self, n, name):
        self.moved[n].append(self.conns[n].transaction())
        self.wait(self.moved[n][-1].start())

    def do_rollbackto(self, n, name):
        self.wait(self.moved[n].pop().rollback())
        self.do_savepoint(n, name)  # its own has gone with the rollback

    def do_release(self, n, name):
        self.wait(self.moved[n].pop().commit())

    def do_copyin(self, n, sql, text):
        table = sql.split()[1]

        async def source():
            yield text.encode()

        return [("end", self.wait(self.conns[n].copy_to_table(table, source=source())))]

    def do_copyout(self, n, sql):
        out = bytearray()

        async def sink(data):
            out.extend(data)

        query = sql[sql.index("(") + 1:sql.rindex(")")]
        tag = self.wait(self.conns[n].copy_from_query(query, output=sink))
        return [("row", line) for line in out.decode().splitlines()] + [("end", tag)]

    def do_pipeline(self, n, *statements):
        """executemany is its pipeline: one statement with many values."""
        sql, *rest = statements
        if rest:
            return [("no",)]
        self.wait(self.conns[n].executemany(sql, [()] * 3))

    def do_long(self, n, sql):
        async def query():
            self.tasks[n] = asyncio.current_task()
            return await self.conns[n].fetchval(sql)

        try:
            return [("row", self.wait(query(), 90))]
        except asyncio.CancelledError:
            return [("error", "57014", "the task was cancelled", "", "")]
        except BaseException as e:
            if type(e).__name__ == "CancelledError":
                return [("error", "57014", "the task was cancelled", "", "")]
            raise

    def do_cancel(self, n, target):
        self.loop.call_soon_threadsafe(self.tasks[int(target)].cancel)

    def do_notices(self, n, sql):
        notices = []
        listener = lambda _, message: notices.append(("notice", "%s:  %s" % (message.severity, message.message)))
        conn = self.conns[n]

        async def run():
            conn.add_log_listener(listener)
            try:
                await conn.execute(sql)
                await asyncio.sleep(0)  # the listeners are called by the loop
            finally:
                conn.remove_log_listener(listener)

        self.wait(run())
        return notices

    def do_types(self, n):
        values = (None, True, -2**31, 2**63 - 1, 1.5, decimal.Decimal("12345678901234567890.123456789"), "é\t'\\", "", bytes(range(256)),
                  datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, datetime.timezone.utc), datetime.date(1, 1, 1),
                  [1, None, 3], '{"a": [1, null]}', uuid.UUID(int=5))
        row = self.wait(self.conns[n].fetchrow(
            "select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, "
            "$10::timestamptz, $11::date, $12::int[], $13::jsonb, $14::uuid", *values))
        return [("row", *(v if v is None else repr(v) for v in row))]

    def do_ping(self, n):
        return self.do_query(n, "select 1")


if __name__ == "__main__":
    Asyncpg().main()
