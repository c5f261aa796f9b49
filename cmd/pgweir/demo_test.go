package main

import (
	"context"
	"errors"
	"fmt"
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

// number is the number in the table's row, in the column of a phase.
func number(t *testing.T, table, row string, column int) int {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + row + ` +(\d+) \S+ +(\d+) `).FindStringSubmatch(table + " ")
	if m == nil {
		t.Fatalf("no row %q in\n%s", row, table)
	}
	n, err := strconv.Atoi(m[1+column])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDemo(t *testing.T) {
	d := startDemo(t, "--seconds", "2", "--serve")
	through := d.await(t, `Through pgweir:\n  DATABASE_URL=(postgres://\S+)\n`)[1]
	direct := d.await(t, `Direct, past pgweir:\n  DATABASE_URL=(postgres://\S+)\n`)[1]
	d.await(t, `until Ctrl-C`)

	if n := len(processesOf(t, d.dir)); n < 2 {
		t.Errorf("%d processes have files in the directory, where their end is looked for", n)
	}
	for _, url := range []string{through, direct} {
		if sum := ask(t, url); sum != 1000*1000 {
			t.Errorf("%s says that all accounts have %d", url, sum)
		}
	}
	d.end()
	d.wait(t, exitOK)

	out := d.stdout()
	if d.stderr.Len() > 0 || strings.Contains(out, "BROKEN") {
		t.Errorf("%s%s", out, d.stderr.String())
	}
	if asked, served := number(t, out, "asked for", 0), number(t, out, "served", 0); asked == 0 || served == 0 || served > asked {
		t.Errorf("good day: asked %d, served %d", asked, served)
	}
	asked, served, refused := number(t, out, "asked for", 1), number(t, out, "served", 1), number(t, out, "refused", 1)
	if asked == 0 || served == 0 || served+refused != asked {
		t.Errorf("overload: asked %d, served %d, refused %d", asked, served, refused)
	}
	// 200 ask in a second. When the machine stalls, the arrivals come late and together,
	// and more of them are refused, never fewer.
	if refused == 0 || !regexp.MustCompile(`(?m)^  SQLSTATE .* 53300$`).MatchString(out) ||
		!strings.Contains(out, "DETAIL:  reason=queue_full ") || !strings.Contains(out, "retry_after_ms=") {
		t.Errorf("refusals are missing:\n%s", out)
	}
}

// ask sums up the accounts.
func ask(t *testing.T, url string) (sum int64) {
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
	if err := conn.QueryRow(t.Context(), "select sum(balance)::bigint from account").Scan(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestDemoInterrupted(t *testing.T) {
	for _, at := range []string{"Starting a temporary", "Starting pgweir", "Overload:"} {
		t.Run(at, func(t *testing.T) {
			d := startDemo(t, "--seconds", "2")
			d.await(t, at)
			d.end()
			d.wait(t, exitError)
			if !strings.Contains(d.stderr.String(), "ended early") || strings.Contains(d.stdout(), "What it shows") {
				t.Errorf("%s%s", d.stdout(), d.stderr.String())
			}
		})
	}
}

func TestDemoWhosePgweirDies(t *testing.T) {
	for _, at := range []string{"Good day:", "until Ctrl-C"} {
		t.Run(at, func(t *testing.T) {
			d := startDemo(t, "--seconds", "2", "--serve")
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
	for _, args := range [][]string{{"--seconds", "1"}, {"--seconds", "3601"}, {"--seconds", "x"}, {"file"}} {
		r := pgweir(t, nil, append([]string{"demo"}, args...)...)
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "See pgweir help demo") {
			t.Errorf("%v: %+v", args, r)
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
