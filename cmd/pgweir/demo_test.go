package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/cmd/internal/demo"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// asProgram makes this test binary be pgweir, and names a file for its process id.
const asProgram = "PGWEIR_TEST_AS_PROGRAM"

// The demonstration runs its own executable, which in a test is the test.
func TestMain(m *testing.M) {
	pidFile := os.Getenv(asProgram)
	if pidFile == "" {
		os.Exit(m.Run())
	}
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	main()
}

// demoRun is a demonstration that runs beside its test.
type demoRun struct {
	mu     sync.Mutex
	text   strings.Builder // standard output so far
	grown  chan struct{}   // has an element when text has grown
	stderr strings.Builder // read it after code
	code   chan int
	end    context.CancelFunc

	dir     string // all of its temporary files
	pidFile string // of pgweir
}

// Write implements io.Writer for standard output.
func (d *demoRun) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Write(b)
	select {
	case d.grown <- struct{}{}:
	default:
	}
	return len(b), nil
}

// stdout is what was printed so far.
func (d *demoRun) stdout() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// startDemo starts a demonstration; the test has to see its end.
func startDemo(t *testing.T, args ...string) *demoRun {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PostgreSQL")
	}
	base := t.TempDir()
	d := &demoRun{
		grown: make(chan struct{}, 1), code: make(chan int, 1),
		dir: filepath.Join(base, "t"), pidFile: filepath.Join(base, "pid"),
	}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// PostgreSQL's account has to get to its files.
	for dir := base; dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", d.dir)
	t.Setenv(asProgram, d.pidFile)
	t.Setenv("PGHOST", "192.0.2.1") // another's database, to be left alone
	t.Setenv("PGTARGETSESSIONATTRS", "standby")
	t.Setenv("PGOPTIONS", "-c search_path=nowhere")
	var ctx context.Context
	ctx, d.end = context.WithCancel(t.Context())
	t.Cleanup(d.end)
	go func() {
		d.code <- run(ctx, append([]string{"demo"}, args...), d, &d.stderr, os.Getenv)
	}()
	return d
}

// await waits until standard output matches, and returns the match.
func (d *demoRun) await(t *testing.T, pattern string) []string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	deadline := time.After(60 * time.Second)
	for {
		if m := expression.FindStringSubmatch(d.stdout()); m != nil {
			return m
		}
		select {
		case <-d.grown:
		case code := <-d.code:
			t.Fatalf("ended with %d before %q\n%s%s", code, pattern, d.stdout(), d.stderr.String())
		case <-deadline:
			t.Fatalf("%q did not come\n%s", pattern, d.stdout())
		}
	}
}

// wait waits for the end and checks that nothing is left.
func (d *demoRun) wait(t *testing.T, want int) {
	t.Helper()
	select {
	case code := <-d.code:
		if code != want {
			t.Errorf("exit code %d, want %d\n%s%s", code, want, d.stdout(), d.stderr.String())
		}
	case <-time.After(60 * time.Second):
		t.Fatalf("it does not end\n%s", d.stdout())
	}
	left, err := os.ReadDir(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range left {
		t.Errorf("left behind: %s", entry.Name())
	}
	for _, cmdline := range processesOf(t, d.dir) {
		t.Errorf("still running: %s", cmdline)
	}
}

// processesOf finds the processes that have a directory in their command line.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(b), dir) { // else it has ended
			list = append(list, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return list
}

// perSecond is a number in a row of the table, in the column of a policy, under a heading.
func perSecond(t *testing.T, out, heading, row string, column int) int {
	t.Helper()
	m := regexp.MustCompile(`(?ms)^` + heading + `$.*?^  ` + row + ` +(\d+)/s +(\d+)/s$`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no row %q under %q in\n%s", row, heading, out)
	}
	n, err := strconv.Atoi(m[1+column])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDemo(t *testing.T) {
	d := startDemo(t, "--seconds", "4", "--serve")
	through := d.await(t, `export DATABASE_URL='(postgres://\S+)'\n`)[1]
	direct := d.await(t, `pg_stat_activity:\n  psql '(postgres://\S+)'\n`)[1]
	d.await(t, `pgweir\.log\n`)

	if n := len(processesOf(t, d.dir)); n < 2 {
		t.Errorf("%d processes have files in the directory, where their end is looked for", n)
	}
	for _, url := range []string{through, direct} {
		if got := ask(t, url, "select (last_value > 100)::text from executed"); got != "true" {
			t.Errorf("%s says that nothing was executed", url)
		}
	}
	out := d.stdout()
	if m := regexp.MustCompile(`(http://\S+)\n`).FindStringSubmatch(out); m != nil {
		fetch(t, m[1])
	}
	if m := regexp.MustCompile(`console.*\n  psql '(\S+)'\n`).FindStringSubmatch(out); m != nil {
		if got := ask(t, m[1], "show version"); !strings.Contains(strings.ToLower(got), "pgweir") {
			t.Errorf("the console says %q", got)
		}
	}
	d.end()
	d.wait(t, exitOK)

	const fifo, guarded = 0, 1
	if d.stderr.Len() > 0 || strings.Contains(out, "BROKEN") {
		t.Errorf("%s%s", out, d.stderr.String())
	}
	for column := fifo; column <= guarded; column++ {
		if n := perSecond(t, out, "Good day", "served in time", column); n == 0 {
			t.Errorf("column %d: nobody was served", column)
		}
	}
	// 200 ask in a second and 100 fit. When the machine stalls, the arrivals come late and
	// together, and more of them are refused or give up, never fewer.
	if n := perSecond(t, out, "Overload", "refused", fifo); n != 0 {
		t.Errorf("the FIFO refused %d/s", n)
	}
	if n := perSecond(t, out, "Overload", "gave up after 1 s", fifo); n == 0 {
		t.Errorf("nobody gave up:\n%s", out)
	}
	if n := perSecond(t, out, "Overload", "refused", guarded); n == 0 ||
		!strings.Contains(out, "(SQLSTATE 53300)") || !strings.Contains(out, "DETAIL:  reason=") ||
		!strings.Contains(out, "retry_after_ms=") {
		t.Errorf("refusals are missing:\n%s", out)
	}
	// One line for each of the seconds, twice, unless the machine is very slow.
	if n := len(regexp.MustCompile(`(?m)^  (good day|overload|after) +\d+ +\d+ +\d+ +\d+ +\d+  `).FindAllString(out, -1)); n < 2 || n > 8 {
		t.Errorf("%d seconds were shown:\n%s", n, out)
	}
}

// fetch gets a page.
func fetch(t *testing.T, url string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	_ = answer.Body.Close() // only its status is of interest
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, answer.Status)
	}
}

// ask sends a query that has one text as its answer.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ValidateConnect = nil // the test has set PG* variables against everybody
	delete(config.RuntimeParams, "options")
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	results, err := conn.PgConn().Exec(t.Context(), query).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		t.Fatalf("%s: %v, %d results", query, err, len(results))
	}
	return string(results[0].Rows[0][0])
}

func TestDemoInterrupted(t *testing.T) {
	for _, at := range []string{"Starting a temporary", "1. unbounded FIFO", "  overload "} {
		t.Run(at, func(t *testing.T) {
			d := startDemo(t, "--short")
			d.await(t, at)
			d.end()
			d.wait(t, exitError)
			if !strings.Contains(d.stderr.String(), "ended early") || strings.Contains(d.stdout(), "In words") {
				t.Errorf("%s%s", d.stdout(), d.stderr.String())
			}
		})
	}
}

func TestDemoWhosePgweirDies(t *testing.T) {
	for at, args := range map[string][]string{
		"  overload ":   {"--short"},
		"is kept up":    {"--serve", "--no-load", "--load", "2x"},
		`pgweir\.log\n`: {"--serve", "--no-load"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			d := startDemo(t, args...)
			d.await(t, at)
			b, err := os.ReadFile(d.pidFile)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(string(b))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			d.wait(t, exitError)
			if !strings.Contains(d.stderr.String(), "pgweir ended by itself (signal: killed)") ||
				!strings.Contains(d.stderr.String(), "msg=listening") {
				t.Errorf("%s%s", d.stdout(), d.stderr.String())
			}
		})
	}
}

func TestDemoArguments(t *testing.T) {
	for _, args := range [][]string{
		{"--seconds", "3"},
		{"--seconds", "0"},
		{"--seconds", "3601"},
		{"--seconds", "x"},
		{"--seconds", "15", "--short"},
		{"--no-load"},
		{"--load", "2x"},
		{"--serve", "--load", "9x"},
		{"file"},
	} {
		r := pgweir(t, nil, append([]string{"demo"}, args...)...)
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "See pgweir help demo") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

func TestDemoOptions(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  map[string]string
		want demo.Options
	}{
		{nil, nil, demo.Options{Seconds: demo.DefaultSeconds}},
		{[]string{"--short"}, nil, demo.Options{Seconds: demo.ShortSeconds}},
		{[]string{"--seconds", "60"}, map[string]string{"LANG": "de_DE.UTF-8"}, demo.Options{Seconds: 60, Unicode: true}},
		{[]string{"--serve"}, map[string]string{"LC_ALL": "C", "LANG": "C.UTF-8"}, demo.Options{Seconds: demo.DefaultSeconds, Serve: true}},
		{
			[]string{"--serve", "--no-load", "--load", "2x"},
			map[string]string{"LC_CTYPE": "en_US.utf8", "LANG": "C"},
			demo.Options{Seconds: demo.DefaultSeconds, Serve: true, NoLoad: true, Load: 2, Unicode: true},
		},
	} {
		command := demoCommand()
		e := &env{stdout: io.Discard, stderr: io.Discard, cmd: &command, getenv: func(name string) string { return c.env[name] }}
		got, code, ok := e.demoOptions(c.args)
		c.want.Out = io.Discard // no terminal, so neither live lines nor colors
		if !ok || code != exitOK || got != c.want {
			t.Errorf("%v %v: %+v, want %+v", c.args, c.env, got, c.want)
		}
	}
}

func TestDemoWithoutPostgres(t *testing.T) {
	var stderr strings.Builder
	e := &env{stderr: &stderr}
	if code := e.demoEnded(t.Context(), fmt.Errorf("%w (searched: /bin)", pgtest.ErrNoPostgres)); code != exitError {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"apt-get install postgresql", "searched: /bin", "serve --upstream"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is not in %q", want, stderr.String())
		}
	}
	if code := e.demoEnded(t.Context(), errors.New("other")); code != exitError {
		t.Errorf("exit code %d", code)
	}
}
