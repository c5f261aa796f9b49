"""Django, whose connections persist from request to request, each in its thread."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path[0:0] = [os.path.join(here, "..", "psycopg2"), os.path.join(here, "..", "python")]
import agent
import psycopg2
from django.conf import settings
from django.core import signals
from django.db import Error, connections, transaction

settings.configure(USE_TZ=True, DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": None}})


class Django(agent.Psycopg2):
    error = (Error, psycopg2.Error)

    def __init__(self):
        super().__init__()
        self.pools = 0
        self.wrappers, self.of, self.alone, self.blocks = {}, {}, set(), {}

    def failed(self, e):
        cause = e.__cause__ if isinstance(e.__cause__, psycopg2.Error) else e
        return super().failed(cause) if isinstance(cause, psycopg2.Error) else ("error", "", repr(e), "", "")

    def parameters(self, o):
        connections.ensure_defaults("default")
        return dict(connections.databases["default"], HOST=o["host"], PORT=o["port"], USER=o["user"], PASSWORD=o["password"], NAME=o["database"],
                    TIME_ZONE=o.get("tz"), OPTIONS={"sslmode": "disable"})

    def do_pool(self, n, *args):
        """There is none: each thread connects when it needs to."""
        connections.databases["default"].update(self.parameters(agent.frame.options(args)))
        self.pools += 1

    def do_connect(self, n, *args):
        o = agent.frame.options(args)
        if "enc" in o:
            return [("no",)]  # it speaks UTF8 only
        wrapper = type(connections["default"])(self.parameters(o), "alone")
        wrapper.ensure_connection()
        self.alone.add(n)
        self.wrappers[n], self.conns[n] = wrapper, wrapper.connection

    def do_open(self, n):
        """A request begins: the connection is tried if the one before has met an error."""
        wrapper = connections["default"]  # that of this thread
        if self.of.get(n) != self.pools:
            wrapper.close()
        self.of[n] = self.pools
        signals.request_started.send(None)
        wrapper.ensure_connection()
        self.wrappers[n], self.conns[n] = wrapper, wrapper.connection

    def do_close(self, n):
        self.conns.pop(n)
        if n in self.alone:
            self.alone.remove(n)
            return self.wrappers[n].close()
        signals.request_finished.send(None)

    def do_query(self, n, sql, *args):
        with self.wrappers[n].cursor() as cursor:
            cursor.execute(self.text(sql), args or None)
            rows = cursor.fetchall() if cursor.description else []
            return [("row", *row) for row in rows] + [("end", cursor.statusmessage)]

    def enter(self, n):
        block = transaction.atomic()
        block.__enter__()
        self.blocks.setdefault(n, []).append(block)

    def leave(self, n, rollback):
        if rollback:
            transaction.set_rollback(True)
        self.blocks[n].pop().__exit__(None, None, None)

    def do_begin(self, n, level=None):
        if level or n in self.alone:
            return [("no",)]  # an isolation level is one of the connection
        self.blocks[n] = []
        self.enter(n)

    def do_commit(self, n):
        if not self.blocks.get(n):
            return [("no",)]
        self.leave(n, False)

    def do_rollback(self, n):
        if not self.blocks.get(n):
            return [("no",)]
        self.leave(n, True)

    def do_savepoint(self, n, name):
        self.enter(n)

    def do_rollbackto(self, n, name):
        self.leave(n, True)
        self.enter(n)  # its own has gone with the rollback

    def do_release(self, n, name):
        self.leave(n, False)

    def do_ping(self, n):
        if not self.wrappers[n].is_usable():
            return [("error", "", "is_usable() says no", "", "")]
        return self.do_query(n, "select 1")


if __name__ == "__main__":
    Django().main()
