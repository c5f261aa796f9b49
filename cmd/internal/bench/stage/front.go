package stage

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// Bounds for a child; wide, because a loaded machine is slow and not broken.
const (
	startBound = 30 * time.Second
	endBound   = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
	attempts   = 5 // to find ports that nobody takes meanwhile
)

// ErrNotInstalled is wrapped by the error of [Stage.Put] when a peer's program is not there.
var ErrNotInstalled = errors.New("not installed")

// ErrDied is wrapped by the error of [Front.Stop] for a process that had ended by itself.
var ErrDied = errors.New("it had ended by itself")

// Front is a target that clients connect to.
type Front struct {
	Target Target
	addr   pgtest.Endpoint
	stage  *Stage
	plan   Plan
	http   int    // port of pgweir's status page; 0: none
	dir    string // of its files
	proc   *child.Process
}

// Put starts a target in the place of the one before, and waits until it has served a query.
// What a target needs to log in is the same for all: the roles of the stage, without
// passwords.
func (s *Stage) Put(ctx context.Context, t Target, p Plan) (*Front, error) {
	if s.front != nil {
		if err := s.front.End(); err != nil {
			return nil, err
		}
		s.front = nil
	}
	f := &Front{Target: t, stage: s, plan: p, addr: s.Cluster.Endpoint}
	if t.Kind != Direct {
		if err := f.startSomewhere(ctx); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	s.front = f
	return f, nil
}

// Rival is a second front beside the one that [Stage.Put] has put up. The caller ends it.
func (s *Stage) Rival(ctx context.Context, t Target, p Plan) (*Front, error) {
	f := &Front{Target: t, stage: s, plan: p, addr: s.Cluster.Endpoint}
	if t.Kind == Direct {
		return f, nil
	}
	if err := f.startSomewhere(ctx); err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	return f, nil
}

// startSomewhere starts the process on free ports, and on others when someone was faster.
func (f *Front) startSomewhere(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := pgtest.FreePort()
		if err != nil {
			return err
		}
		f.addr.Port = port
		if f.Target.Kind == Pgweir {
			if f.http, err = pgtest.FreePort(); err != nil {
				return err
			}
		}
		if _, err = f.program(); err == nil {
			err = f.prepare()
		}
		if err == nil {
			err = f.Start(ctx)
		}
		if err == nil || attempt == attempts || !strings.Contains(strings.ToLower(f.Log(30)), "address already in use") {
			return err
		}
	}
}

// Start starts the process, on the ports that it had before, and waits until it has served a
// query.
func (f *Front) Start(ctx context.Context) error {
	program, err := f.program()
	if err != nil {
		return err
	}
	where := child.Where{}
	if f.Target.Kind != Pgweir { // PgBouncer does not run as root
		where.Root = f.stage.options.PeersRoot
		if where.As, err = child.Unprivileged(); err != nil {
			return err
		}
	}
	log, err := os.Create(f.logFile())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", pgtest.CleanEnv(), log, log
	if f.proc, err = child.Start(cmd, where); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if err := f.awaitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("%w; its log ends:\n%s", err, f.Log(20)), f.Stop())
	}
	return nil
}

// program is what to run.
func (f *Front) program() ([]string, error) {
	file := func(name string) string { return filepath.Join(f.inside(), name) }
	switch f.Target.Kind {
	case Pgweir:
		return []string{f.stage.options.Program, "serve", file("pgweir.toml")}, nil
	case PgBouncer:
		path, err := f.peer("/usr/sbin/pgbouncer")
		return []string{path, file("pgbouncer.ini")}, err
	default:
		path, err := f.peer("/usr/bin/odyssey")
		return []string{path, file("odyssey.conf")}, err
	}
}

// peer is the path of a peer's program: the given one in the peers' tree, else in PATH.
func (f *Front) peer(path string) (string, error) {
	if root := f.stage.options.PeersRoot; root != "" {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
		}
		return path, nil
	}
	found, err := exec.LookPath(filepath.Base(path))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	return found, nil
}

// inside is the directory of its files as the process sees it.
func (f *Front) inside() string {
	if f.Target.Kind == Pgweir {
		return f.dir
	}
	return filepath.Join("/", strings.TrimPrefix(f.dir, f.stage.options.PeersRoot))
}

// prepare makes the directory and the configuration.
func (f *Front) prepare() error {
	if f.dir == "" {
		parent := f.stage.dir
		if f.Target.Kind != Pgweir && f.stage.options.PeersRoot != "" {
			parent = filepath.Join(f.stage.options.PeersRoot, os.TempDir())
		}
		var err error
		if f.dir, err = os.MkdirTemp(parent, "pgweir-front-"); err != nil {
			return err
		}
	}
	cluster := f.stage.Cluster
	at := place{
		port: f.addr.Port, http: f.http, host: cluster.Host, upstream: cluster.Port,
		url: cluster.DSN(Control, "postgres"), dir: f.inside(),
	}
	files := map[string]string{}
	switch f.Target.Kind {
	case Pgweir:
		files["pgweir.toml"] = pgweirText(f.Target, f.plan, at)
	case PgBouncer:
		files["pgbouncer.ini"] = pgbouncerText(f.Target, f.plan, at)
		files["users"] = pgbouncerUsers(f.stage.roles)
	default:
		files["odyssey.conf"] = odysseyText(f.Target, f.plan, at)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return f.open()
}

// open lets the process's account use its directory.
func (f *Front) open() error {
	for _, dir := range []string{f.stage.dir, f.dir} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	as, err := child.Unprivileged()
	if err != nil || as == nil || f.Target.Kind == Pgweir {
		return err
	}
	return os.Chown(f.dir, int(as.Uid), int(as.Gid))
}

// awaitReady tries a query until it succeeds, the process ends or the time is over.
func (f *Front) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := f.try(ctx)
		if err == nil {
			return nil
		}
		if ended := f.proc.Ended(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready in time: %w", err)
		case <-tick.C:
		}
	}
}

// try runs one query.
func (f *Front) try(ctx context.Context) error {
	config, err := pgconn.ParseConfig(f.URL(Role, Database))
	if err != nil {
		return err
	}
	config.RuntimeParams, config.ValidateConnect = map[string]string{}, nil
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "SELECT 1").ReadAll()
	return errors.Join(err, conn.Close(ctx))
}

// URL is where clients of a role connect to a database.
func (f *Front) URL(role, database string) string { return f.addr.DSN(role, database) }

// Command is a client program of the database's installation (pgbench ...), aimed at the
// front and its usual role and database. ctx kills it.
func (f *Front) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return f.addr.Command(ctx, pgtest.Login{User: Role, Database: Database}, program, args...)
}

// Process is the child, nil if the target is the database itself.
func (f *Front) Process() *child.Process { return f.proc }

// Usage is the CPU time that the process has used so far and its resident memory in bytes;
// both are 0 if the target is the database itself.
func (f *Front) Usage() (cpu time.Duration, memory int64, err error) {
	if f.proc == nil {
		return 0, 0, nil
	}
	if cpu, err = child.CPUTime(f.proc.PID()); err != nil {
		return 0, 0, err
	}
	memory, err = child.RSS(f.proc.PID())
	return cpu, memory, err
}

// Status is the URL of pgweir's status page; empty of everything else.
func (f *Front) Status() string {
	if f.http == 0 {
		return ""
	}
	return "http://" + pgtest.Endpoint{Host: f.addr.Host, Port: f.http}.Addr() + "/"
}

// Files are the configuration and the log of the process; there are none if the target is
// the database itself.
func (f *Front) Files() (config, log string) {
	if f.dir == "" {
		return "", ""
	}
	name := map[Kind]string{Pgweir: "pgweir.toml", PgBouncer: "pgbouncer.ini", Odyssey: "odyssey.conf"}[f.Target.Kind]
	return filepath.Join(f.dir, name), f.logFile()
}

// logFile is what the process prints.
func (f *Front) logFile() string { return filepath.Join(f.dir, string(f.Target.Kind)+".log") }

// Metrics are pgweir's own numbers by their name with labels, as its status page writes
// them; nil of everything else.
func (f *Front) Metrics(ctx context.Context) (map[string]float64, error) {
	if f.http == 0 {
		return nil, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.Status()+"metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	return parseMetrics(answer.Body)
}

// parseMetrics reads the text format: a name with labels, a space and a number.
func parseMetrics(r io.Reader) (map[string]float64, error) {
	all := map[string]float64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", line, err)
		}
		all[line[:i]] = value
	}
	return all, lines.Err()
}

// Log is the end of what the process has printed.
func (f *Front) Log(lines int) string {
	b, err := os.ReadFile(f.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Stop ends the process and keeps its files for Start. It may be called again.
func (f *Front) Stop() error {
	if f.proc == nil {
		return nil
	}
	// PgBouncer would wait for its clients on SIGTERM, Odyssey does not listen to it.
	how := map[Kind]syscall.Signal{Pgweir: syscall.SIGTERM, PgBouncer: syscall.SIGQUIT, Odyssey: syscall.SIGINT}
	proc := f.proc
	f.proc = nil
	died := proc.Ended()
	if !proc.Stop(how[f.Target.Kind], endBound) {
		return fmt.Errorf("%v did not end within %v; its log ends:\n%s", f.Target, endBound, f.Log(20))
	}
	if died != nil {
		return fmt.Errorf("%v: %w (%v); its log ends:\n%s", f.Target, ErrDied, died, f.Log(20))
	}
	return nil
}

// Kill ends the process as a crash would, and keeps its files for Start.
func (f *Front) Kill() {
	if f.proc != nil {
		f.proc.Stop(syscall.SIGKILL, endBound)
		f.proc = nil
	}
}

// End ends the process and removes its files. It may be called again.
func (f *Front) End() error {
	err := f.Stop()
	if f.dir != "" {
		err = errors.Join(err, os.RemoveAll(f.dir))
		f.dir = ""
	}
	return err
}
