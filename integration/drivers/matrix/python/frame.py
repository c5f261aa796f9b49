"""What the agents in Python have in common: commands in, lines out. See ../doc.go."""
import queue
import re
import sys
import threading
import traceback

LOCK = threading.Lock()
OUT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
IN = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def encode(value):
    if value is None:
        return "\\N"
    return re.sub(r"[\\\t\n\r]", lambda m: OUT[m[0]], str(value))


def decode(text):
    return None if text == "\\N" else re.sub(r"\\(.)", lambda m: IN[m[1]], text)


def options(args):
    return dict(arg.split("=", 1) for arg in args)


def libpq(o):
    """The parameters of a connection by libpq's names."""
    dsn = dict(host=o["host"], port=o["port"], user=o["user"], password=o["password"], dbname=o["database"], sslmode="disable")
    if "tz" in o:
        dsn["options"] = "-c TimeZone=" + o["tz"]
    if "enc" in o:
        dsn["client_encoding"] = o["enc"]
    return dsn


def say(n, lines):
    text = "".join("%d\t%s\n" % (n, "\t".join(encode(field) for field in line)) for line in lines)
    with LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def result(cursor):
    """The lines of a result that a DB-API cursor has."""
    lines = []
    if cursor.description is not None:
        lines += [("row", *row) for row in cursor.fetchall()]
    return lines + [("end", cursor.statusmessage)]


class Agent:
    """Has a method for each verb, which returns lines."""

    error = Exception  # what the driver raises

    def __init__(self):
        self.conns = {}

    def failed(self, e):
        """The line for what the driver has raised."""
        raise NotImplementedError

    def run_verb(self, n, verb, args):
        method = getattr(self, "do_" + verb, None)
        if method is None:
            return [("no",)]
        try:
            return method(n, *args) or []
        except self.error as e:
            return [self.failed(e)]
        except Exception as e:  # whatever it is, the test has to hear of it
            traceback.print_exc()
            return [("error", "", "%s: %s" % (type(e).__name__, e), "", "")]

    def work(self, n, commands):
        while (command := commands.get()) is not None:
            say(n, self.run_verb(n, command[0], command[1:]) + [("done",)])

    def main(self):
        sys.stdin.reconfigure(newline="\n", encoding="utf-8")
        sys.stdout.reconfigure(encoding="utf-8")
        workers = {}
        for line in sys.stdin:
            n, *command = line.rstrip("\n").split("\t")
            n = int(n)
            if n not in workers:
                commands = queue.Queue()
                threading.Thread(target=self.work, args=(n, commands), daemon=True).start()
                workers[n] = commands
            workers[n].put([decode(field) for field in command])
