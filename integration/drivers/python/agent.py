"""Runs jobs with one of Python's drivers and its pool: see ../doc.go for the language.

usage: agent.py psycopg2|psycopg|sqlalchemy|asyncpg
"""
import asyncio
import json
import re
import sys
import threading
import time
import traceback

LOCK = threading.Lock()
DRIVER = sys.argv[1]
LONGEST_PAUSE = 0.1  # seconds; the hint may say more, a test has less time
RECOVERY = 30  # seconds within which a statement has to be served when it is calm


def say(event, **fields):
    with LOCK:
        print(json.dumps({"event": event, **fields}), flush=True)


class Tally:
    """What one job has come to."""

    def __init__(self):
        self.lock = threading.Lock()
        self.served = 0
        self.pids = set()
        self.left = 0  # workers that are still at it

    def serve(self):
        with self.lock:
            self.served += 1

    def saw(self, pid):
        with self.lock:
            self.pids.add(pid)


def refused(mode, code, detail, hint, after=""):
    """Tells of a refusal, and returns how long to wait before the next attempt."""
    wait = re.search(r"retry_after_ms=(\d+)", hint or "")
    retry = re.search(r"retry=(\w+)", hint or "")
    say("refused", mode=mode, code=code, detail=detail or "", hint=hint or "", after=after,
        wait=int(wait[1]) if wait else -1, retry=retry[1] if retry else "")
    return min(int(wait[1]) / 1000 if wait else 0.02, LONGEST_PAUSE)


def mode_of(job, worker):
    return ("plain", "tx", "several")[worker % 3] if job["mode"] == "mixed" else job["mode"]


def transfers(job, worker):
    """The transfers of one worker: a name and its two updates."""
    tags = job.get("tags", "").split("|")
    for i in range(int(job["transfers"])):
        name = "%s-%d-%d" % (job["application"], worker, i)
        tag = tags[worker % len(tags)]
        a, b = 1 + (worker * 7 + i * 3) % 20, 21 + (worker + i * 5) % 20
        update = "update book set balance = balance %s 1, last = '%s' from pg_sleep(0.005) where id = %d " + tag
        yield name, update % ("-", name, a), update % ("+", name, b)


# The drivers. Each has: open(job), close(), a context connection(), which gives one of the
# pool and puts it back, and on a connection pid, run, begin, commit, rollback, several, raw.

class Psycopg2:
    def __init__(self):
        import psycopg2
        import psycopg2.pool
        self.lib, self.error = psycopg2, psycopg2.Error

    def open(self, job):
        n = int(job["workers"])
        self.pool = self.lib.pool.ThreadedConnectionPool(
            n, n, host=job["host"], port=job["port"], user=job["user"], dbname=job["database"], sslmode="disable",
            application_name=job["application"])

    def close(self):
        self.pool.closeall()

    def get(self):
        return self.pool.getconn()

    def put(self, conn):
        self.pool.putconn(conn)

    def pid(self, conn):
        return conn.info.backend_pid

    def plain(self, conn, sql):
        if not conn.autocommit:
            conn.autocommit = True
        with conn.cursor() as cur:
            cur.execute(sql)
            return cur.statusmessage

    def begin(self, conn):
        conn.autocommit = False  # it says BEGIN with the next statement

    def run(self, conn, sql):
        with conn.cursor() as cur:
            cur.execute(sql)

    def commit(self, conn):
        conn.commit()

    def rollback(self, conn):
        conn.rollback()

    def several(self, conn, sql):
        self.plain(conn, "; ".join([sql] * 3))

    def told(self, e):
        return e.pgcode, e.diag.message_detail, e.diag.message_hint


class Psycopg(Psycopg2):
    def __init__(self):
        import psycopg
        import psycopg_pool
        self.lib, self.pools, self.error = psycopg, psycopg_pool, psycopg.Error

    def open(self, job):
        n = int(job["workers"])
        self.pool = self.pools.ConnectionPool(
            "host=%s port=%s user=%s dbname=%s sslmode=disable application_name=%s" % (
                job["host"], job["port"], job["user"], job["database"], job["application"]), min_size=n, max_size=n)
        self.pool.wait()

    def close(self):
        self.pool.close()

    def several(self, conn, sql):
        conn.autocommit = True
        with conn.pipeline():
            for _ in range(3):
                conn.execute(sql, prepare=False)  # 3.1.7 takes a Parse that was skipped for one that was done

    def told(self, e):
        return e.sqlstate, e.diag.message_detail, e.diag.message_hint


class SQLAlchemy(Psycopg2):
    def __init__(self):
        import sqlalchemy
        self.lib, self.error = sqlalchemy, sqlalchemy.exc.DBAPIError

    def open(self, job):
        n = int(job["workers"])
        self.engine = self.lib.create_engine(
            "postgresql+psycopg2://%s@%s:%s/%s" % (job["user"], job["host"], job["port"], job["database"]),
            pool_size=n, max_overflow=0, pool_pre_ping=job["ping"] == "true",
            connect_args={"sslmode": "disable", "application_name": job["application"]})

    def close(self):
        self.engine.dispose()

    def get(self):
        return self.engine.connect()

    def put(self, conn):
        conn.close()

    def pid(self, conn):
        return conn.connection.dbapi_connection.info.backend_pid

    def plain(self, conn, sql):
        self.run(conn, sql)  # in a transaction that put() ends

    def begin(self, conn):
        self.transaction = getattr(self, "transaction", threading.local())
        self.transaction.now = conn.begin()

    def run(self, conn, sql):
        conn.execute(self.lib.text(sql)).close()

    def commit(self, conn):
        self.transaction.now.commit()

    def rollback(self, conn):
        self.transaction.now.rollback()

    def told(self, e):
        return super().told(e.orig) if e.orig.pgcode else (None, str(e), "")


def attempt(driver, job, mode, conn, tally):
    """One attempt of the job; returns how long to pause."""
    sql = job["sql"]
    try:
        if mode == "tx":
            driver.begin(conn)
            driver.run(conn, sql)
            driver.commit(conn)
        elif mode == "several":
            driver.several(conn, sql)
        else:
            driver.plain(conn, sql)
        tally.serve()
        return 0
    except driver.error as e:
        code, detail, hint = driver.told(e)
        after = ""
        if mode == "tx":
            try:
                driver.run(conn, job["after"])
                after = "served"
            except driver.error as again:
                after = driver.told(again)[0] or "no code"
            driver.rollback(conn)
        if code is None:
            say("broken", text="%s: %s" % (type(e).__name__, e))
            return 0.05
        return refused(mode, code, detail, hint, after)


def work(driver, job, worker, tally, calm):
    try:
        if job["mode"] == "transfer":
            return carry_on(driver, job, worker)
        until = time.monotonic() + int(job["ms"]) / 1000
        try:
            while time.monotonic() < until:
                try:
                    conn = driver.get()
                except driver.error as e:  # the pool has asked whether it lives
                    if driver.told(e)[0] is None:
                        raise
                    time.sleep(refused("ping", *driver.told(e)))
                    continue
                try:
                    tally.saw(driver.pid(conn))
                    pause = attempt(driver, job, mode_of(job, worker), conn, tally)
                finally:
                    driver.put(conn)
                time.sleep(pause)
        finally:
            calm()
        while not recovered(driver, job, tally):
            if time.monotonic() > until + RECOVERY:
                return say("broken", text="not served when it was calm again")
            time.sleep(0.05)
    except Exception:  # whatever it is, the test has to hear of it
        say("broken", text=traceback.format_exc())


def recovered(driver, job, tally):
    conn = None
    try:
        conn = driver.get()
        tally.saw(driver.pid(conn))
        driver.plain(conn, job["after"])
        tally.serve()
        return True
    except driver.error as e:
        if driver.told(e)[0] is None:
            say("broken", text="%s: %s" % (type(e).__name__, e))
        return False
    finally:
        if conn is not None:
            driver.put(conn)


def carry_on(driver, job, worker):
    """Transfers without any care: after an error it goes on with the next statement."""
    conn = driver.get()
    for name, first, second in transfers(job, worker):
        for sql in ("begin", first, second, "commit"):
            try:
                tag = driver.plain(conn, sql)
                if sql == "commit" and tag == "COMMIT":
                    say("committed", text=name)
            except driver.error as e:
                code, detail, hint = driver.told(e)
                if code is None:
                    raise
                say("failed", code=code, detail=detail or "")
    driver.put(conn)


def opened(driver):
    """A connection; SQLAlchemy's first one asks for the version, and may be refused."""
    until = time.monotonic() + RECOVERY
    while True:
        try:
            return driver.get()
        except driver.error as e:
            if driver.told(e)[0] is None or time.monotonic() > until:
                raise
            time.sleep(0.05)


def threads(driver, job):
    driver.open(job)
    tally = Tally()
    workers = int(job["workers"])
    for conn in [opened(driver) for _ in range(workers)]:
        driver.put(conn)
    say("ready")
    sys.stdin.readline()
    ready = threading.Barrier(workers, action=lambda: say("calm"))
    list_of = [threading.Thread(target=work, args=(driver, job, i, tally, ready.wait)) for i in range(workers)]
    for t in list_of:
        t.start()
    for t in list_of:
        t.join()
    driver.close()
    say("done", served=tally.served, pids=sorted(tally.pids))


# asyncpg is its own world.

async def aio_attempt(lib, conn, job, mode, tally):
    sql, after, moved = job["sql"], "", None
    try:
        if mode == "tx":
            moved = conn.transaction()
            await moved.start()
            await conn.execute(sql)
            await moved.commit()
        elif mode == "several":
            await conn.executemany("select pg_sleep($1) " + job["tag"], [(0.005,)] * 3)
        else:
            await conn.fetch(sql)
        tally.serve()
        return 0
    except lib.PostgresError as e:
        if mode == "tx":
            try:
                await conn.execute(job["after"])
                after = "served"
            except lib.PostgresError as again:
                after = again.sqlstate
            await moved.rollback()
        return refused(mode, e.sqlstate, e.detail, e.hint, after)


async def aio_recovered(lib, pool, job, tally):
    try:
        async with pool.acquire() as conn:
            tally.saw(conn.get_server_pid())
            await conn.fetch(job["after"])
            tally.serve()
            return True
    except lib.PostgresError:
        return False


async def aio_work(lib, pool, job, worker, tally, calm):
    until = time.monotonic() + int(job["ms"]) / 1000
    try:
        while time.monotonic() < until:
            async with pool.acquire() as conn:
                tally.saw(conn.get_server_pid())
                pause = await aio_attempt(lib, conn, job, mode_of(job, worker), tally)
            await asyncio.sleep(pause)
    except Exception:
        say("broken", text=traceback.format_exc())
    await calm()
    try:
        while not await aio_recovered(lib, pool, job, tally):
            if time.monotonic() > until + RECOVERY:
                return say("broken", text="not served when it was calm again")
            await asyncio.sleep(0.05)
    except Exception:
        say("broken", text=traceback.format_exc())


async def aio_carry_on(lib, pool, job, worker):
    async with pool.acquire() as conn:
        for name, first, second in transfers(job, worker):
            for sql in ("begin", first, second, "commit"):
                try:
                    tag = await conn.execute(sql)
                    if sql == "commit" and tag == "COMMIT":
                        say("committed", text=name)
                except lib.PostgresError as e:
                    say("failed", code=e.sqlstate, detail=e.detail or "")


async def aio(job):
    import asyncpg

    n = int(job["workers"])
    pool = await asyncpg.create_pool(
        host=job["host"], port=int(job["port"]), user=job["user"], database=job["database"], ssl=False, min_size=n, max_size=n,
        server_settings={"application_name": job["application"]})
    say("ready")  # all are open
    sys.stdin.readline()
    tally, left, all_calm = Tally(), n, asyncio.Event()

    async def calm():
        nonlocal left
        left -= 1
        if left == 0:
            say("calm")
            all_calm.set()
        await all_calm.wait()

    if job["mode"] == "transfer":
        await asyncio.gather(*(aio_carry_on(asyncpg, pool, job, i) for i in range(n)))
    else:
        await asyncio.gather(*(aio_work(asyncpg, pool, job, i, tally, calm) for i in range(n)))
    await pool.close()
    say("done", served=tally.served, pids=sorted(tally.pids))


def main():
    kinds = {"psycopg2": Psycopg2, "psycopg": Psycopg, "sqlalchemy": SQLAlchemy}
    while line := sys.stdin.readline():
        job = dict(part.split("=", 1) for part in line.rstrip("\n").split("\t"))
        if DRIVER == "asyncpg":
            asyncio.run(aio(job))
        else:
            threads(kinds[DRIVER](), job)


main()
