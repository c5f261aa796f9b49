package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// operated is a front with its HTTP listener and a console.
type operated struct {
	*front
	http string
	file string // of the configuration
	text string // of the configuration, as it was at the start
}

// operate starts a front whose role app is an administrator.
func operate(t *testing.T, p plan) *operated {
	t.Helper()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	return operateBehind(t, startBehind(t, p), p)
}

// operateBehind starts pgweir before a cluster that is there already.
func operateBehind(t *testing.T, f *front, p plan) *operated {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	o := &operated{http: fmt.Sprintf("127.0.0.1:%d", port)}
	p.top += fmt.Sprintf("http = %q\n", o.http)
	p.more = "[console]\nadmin_users = [\"app\"]\n" + p.more
	o.front = f.before(t, p)
	o.file = o.proc.ConfigFile
	b, err := os.ReadFile(o.file)
	if err != nil {
		t.Fatal(err)
	}
	o.text = string(b)
	return o
}

// console runs one command at the console and returns its rows.
func (o *operated) console(t *testing.T, command string) string {
	t.Helper()
	out, err := o.tryConsole(t.Context(), command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(out)
}

func (o *operated) tryConsole(ctx context.Context, command string) (string, error) {
	return o.Psql(ctx, pgtest.Login{User: "app", Password: o.app.Password, Database: "pgweir"}, command)
}

// rewrite replaces a part of the configuration file by another.
func (o *operated) rewrite(t *testing.T, old, with string) {
	t.Helper()
	if !strings.Contains(o.text, old) {
		t.Fatalf("the file does not contain %q:\n%s", old, o.text)
	}
	o.write(t, strings.ReplaceAll(o.text, old, with))
}

// write makes the configuration file say something else. The process never sees half of it.
func (o *operated) write(t *testing.T, text string) {
	t.Helper()
	next := o.file + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, o.file); err != nil {
		t.Fatal(err)
	}
}

// logged waits for a line of the log that contains all the words.
func (o *operated) logged(t *testing.T, words ...string) {
	t.Helper()
	eventually(t, "log: "+strings.Join(words, " ... "), func() bool {
		log, err := o.proc.Log()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(log) {
			all := true
			for _, w := range words {
				all = all && strings.Contains(line, w)
			}
			if all {
				return true
			}
		}
		return false
	})
}

// metric is the line of a metric in a scrape, without its name.
func (o *operated) metric(t *testing.T, series string) string {
	t.Helper()
	code, body, err := httpGet(o.http, "/metrics")
	if err != nil || code != 200 {
		t.Fatalf("metrics: %d, %v", code, err)
	}
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// gone waits for the end of the process.
func (o *operated) gone(t *testing.T) {
	t.Helper()
	select {
	case <-o.proc.Done():
	case <-time.After(patience):
		t.Fatal("the process does not end")
	}
}

// awaitClosed waits until nobody gets in any more. A listener that is about to be closed does
// not answer: that is as good as a refusal.
func awaitClosed(t *testing.T, address string) {
	t.Helper()
	eventually(t, "the listener is closed", func() bool {
		c, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}

// SIGHUP reads the file again: all of it or nothing, and it is seen which.
func TestHangup(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{more: "[[workload]]\nname = \"default\"\nmax_wait = \"20s\"\n"})
	const success = "pgweir_config_last_reload_success"
	if got := o.metric(t, success); got != "1" {
		t.Errorf("%s %s before any reload", success, got)
	}
	waits := func() string {
		return o.console(t, "show workloads") // its column max_wait_ms
	}
	o.rewrite(t, `max_wait = "20s"`, `max_wait = "19s"`)
	o.proc.Signal(syscall.SIGHUP)
	o.logged(t, "reload", "workload.default.max_wait", "20s", "19s")
	o.logged(t, "reload done", "changes=1")
	if got := waits(); !strings.Contains(got, "|19000|") {
		t.Errorf("max_wait is not in force: %s", got)
	}

	o.rewrite(t, `max_wait = "20s"`, "max_wait = \"18s\"\nmax_wait_what = 3")
	o.proc.Signal(syscall.SIGHUP)
	o.logged(t, "level=ERROR", "reload refused, nothing has changed", "max_wait_what")
	eventually(t, success+" 0", func() bool { return o.metric(t, success) == "0" })
	if got := waits(); !strings.Contains(got, "|19000|") {
		t.Errorf("a refused file has changed something: %s", got)
	}

	o.write(t, o.text)
	o.proc.Signal(syscall.SIGHUP)
	eventually(t, success+" 1", func() bool { return o.metric(t, success) == "1" })
	if got := waits(); !strings.Contains(got, "|20000|") {
		t.Errorf("not what the file says: %s", got)
	}
}

// SIGUSR1 pauses and SIGUSR2 resumes.
func TestPauseBySignal(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{})
	c := o.connect(t)
	wantOne(t, c, "select 'before'", "before")
	o.proc.Signal(syscall.SIGUSR1)
	eventually(t, "paused", func() bool { return o.metric(t, `pgweir_paused{upstream="main"}`) == "1" })
	o.await(t, "count(*) = 0 from pg_stat_activity where usename = 'app'") // and its servers are closed
	done := make(chan error, 1)
	go func() {
		_, err := c.Exec(t.Context(), "select 'during'")
		done <- err
	}()
	eventually(t, "it waits", func() bool { return o.metric(t, `pgweir_waiting_clients{upstream="main"}`) == "1" })
	wantReady(t, o.http, 200, "ok (paused)")
	o.proc.Signal(syscall.SIGUSR2)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// leaving is a way to end pgweir.
type leaving struct {
	name    string
	end     func(*testing.T, *operated)
	waits   bool   // for transactions
	serves  bool   // clients that are there go on as before
	timeout string // shutdown_timeout, if it is to be over
}

func signals(list ...syscall.Signal) func(*testing.T, *operated) {
	return func(t *testing.T, o *operated) {
		for i, s := range list {
			if i > 0 {
				o.logged(t, "msg=signal", list[i-1].String())
			}
			o.proc.Signal(s)
		}
	}
}

func atConsole(command string) func(*testing.T, *operated) {
	return func(t *testing.T, o *operated) { o.console(t, command) }
}

// The ways to end: what becomes of a client in a transaction, of an idle one and of a new
// one. The code is 0 in the end, which every test asserts.
func TestShutdown(t *testing.T) {
	t.Parallel()
	f := startBehind(t, plan{})
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	f.sql(t, "app", "create table kept(a int);\ngrant all on kept to app")
	for _, l := range []leaving{
		{name: "TERM", end: signals(syscall.SIGTERM), waits: true},
		{name: "INT", end: signals(syscall.SIGINT), waits: true},
		{name: "INT INT", end: signals(syscall.SIGINT, syscall.SIGINT)},
		{name: "TERM QUIT", end: signals(syscall.SIGTERM, syscall.SIGQUIT)},
		{name: "QUIT", end: signals(syscall.SIGQUIT)},
		{name: "SHUTDOWN", end: atConsole("shutdown")},
		{name: "SHUTDOWN WAIT_FOR_SERVERS", end: atConsole("shutdown wait_for_servers"), waits: true},
		{name: "SHUTDOWN WAIT_FOR_CLIENTS", end: atConsole("shutdown wait_for_clients"), waits: true, serves: true},
		{name: "shutdown_timeout", end: signals(syscall.SIGTERM), timeout: "300ms"},
	} {
		t.Run(l.name, func(t *testing.T) { l.try(t, f) })
	}
}

func (l leaving) try(t *testing.T, f *front) {
	p := plan{}
	if l.timeout != "" {
		p.top = fmt.Sprintf("shutdown_timeout = %q\n", l.timeout)
	}
	o := operateBehind(t, f, p)
	o.sql(t, "app", "truncate kept")
	idle, busy := o.connect(t), o.connect(t, execMode(pgx.QueryExecModeExec))
	wantOne(t, idle, "select 'idle'", "idle")
	run(t, busy, "begin", "insert into kept values (1)")
	l.end(t, o)
	awaitClosed(t, o.Addr())
	if l.serves {
		wantOne(t, idle, "select 'served'", "served")
	} else {
		wantEnded(t, idle, "57P01", "reason=draining")
	}
	rows := "0"
	if l.waits {
		rows = "2"
		run(t, busy, "insert into kept values (2)", "commit")
	}
	if l.serves {
		run(t, busy, "select 'still served'")
		for _, c := range []*pgx.Conn{idle, busy} {
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	} else {
		wantEnded(t, busy, "57P01", "reason=draining")
	}
	o.gone(t)
	if got := f.sql(t, "app", "select count(*) from kept"); got != rows {
		t.Errorf("%s rows, want %s", got, rows)
	}
}

// While it drains it still serves, old clients and new ones, but says on /readyz that it
// wants no more.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	o := operate(t, plan{top: "drain_delay = \"1h\"\nshutdown_timeout = \"2h\"\n"})
	c := o.connect(t)
	o.proc.Signal(syscall.SIGTERM)
	eventually(t, "readyz", func() bool {
		code, text, err := httpGet(o.http, "/readyz")
		return err == nil && code == 503 && text == "draining\n"
	})
	wantOne(t, c, "select 'old'", "old")
	wantOne(t, o.connect(t), "select 'new'", "new")
	if got := o.console(t, "show state"); !strings.Contains(got, "draining|yes") {
		t.Errorf("state: %s", got)
	}
	if code, text, err := httpGet(o.http, "/healthz"); err != nil || code != 200 {
		t.Errorf("healthz: %d %q, %v", code, text, err)
	}
	o.proc.Signal(syscall.SIGINT) // enough
	o.gone(t)
}

// A service manager hears when pgweir is ready, reloads, and goes.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "pgweir-notify-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = manager.Close() })
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "50000")
	hear := func(want string) {
		t.Helper()
		_ = manager.SetReadDeadline(time.Now().Add(patience)) // of no effect is no harm
		for b := make([]byte, 4096); ; {
			n, err := manager.Read(b)
			if err != nil {
				t.Fatalf("%s: %v", want, err)
			}
			if strings.HasPrefix(string(b[:n]), want) {
				return
			}
		}
	}
	o := operate(t, plan{})
	hear("READY=1")
	hear("WATCHDOG=1")
	o.proc.Signal(syscall.SIGHUP)
	hear("RELOADING=1")
	hear("READY=1")
	o.proc.Signal(syscall.SIGTERM)
	hear("STOPPING=1")
	o.gone(t)
}
