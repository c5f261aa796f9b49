package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// Bounds for the child; wide, because a loaded machine is slow and not broken.
const (
	startBound = 30 * time.Second
	endBound   = 15 * time.Second
	attempts   = 5 // to find a port that nobody takes meanwhile
)

// errNotReady is the cause of giving up on a child.
var errNotReady = errors.New("pgweir was not ready in time")

// pooler is pgweir as a child process.
type pooler struct {
	pgtest.Endpoint
	policy     policy
	http       string // host:port of its status page; "" if it has none
	console    bool   // it has one
	configFile string

	cmd    *exec.Cmd
	log    *logbook
	ending atomic.Bool   // it was asked to end
	done   chan struct{} // closed once the process was reaped
	err    error         // what Wait returned; read it after done
}

// startPooler runs `program serve FILE` in front of a cluster, with its files in dir, and
// waits until it listens.
func startPooler(ctx context.Context, program, dir string, c *pgtest.Cluster, what policy) (*pooler, error) {
	for attempt := 1; ; attempt++ {
		p, err := newPooler(dir, c, what)
		if err != nil {
			return nil, err
		}
		if err := writeConfig(p, c); err != nil {
			return nil, err
		}
		err = p.start(ctx, program, filepath.Join(dir, "pgweir.log"))
		if err == nil || attempt == attempts || !p.log.has("address already in use") {
			return p, err
		}
	}
}

// newPooler finds places to listen at.
func newPooler(dir string, c *pgtest.Cluster, what policy) (*pooler, error) {
	port, err := pgtest.FreePort()
	if err != nil {
		return nil, err
	}
	p := &pooler{
		Endpoint:   pgtest.Endpoint{Programs: c.Programs, Host: "127.0.0.1", Port: port},
		policy:     what,
		console:    hasSetting("[console]", "admin_users"),
		configFile: filepath.Join(dir, "pgweir.toml"),
		done:       make(chan struct{}),
	}
	if hasSetting("", "http") {
		web, err := pgtest.FreePort()
		if err != nil {
			return nil, err
		}
		p.http = pgtest.Endpoint{Host: p.Host, Port: web}.Addr()
	}
	return p, nil
}

// start starts the process in a group of its own: a Ctrl-C in the terminal is for us, and
// we end it in its turn. The kernel kills it if we die; that is tied to the thread which
// started it, so that thread is kept until the end.
func (p *pooler) start(ctx context.Context, program, logFile string) (err error) {
	if p.log, err = openLogbook(logFile); err != nil {
		return err
	}
	p.cmd = exec.Command(program, "serve", p.configFile)
	p.cmd.Env = cleanEnv(os.Environ())
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return errors.Join(fmt.Errorf("starting pgweir: %w", err), p.log.close())
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, errNotReady)
	defer cancel()
	select {
	case <-p.log.ready:
		return nil
	case <-p.done:
		err = p.death()
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return errors.Join(err, p.end())
}

// ended reports whether the process is no more.
func (p *pooler) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// death says how an unexpected end came about. Call it after done.
func (p *pooler) death() error {
	return fmt.Errorf("pgweir ended by itself (%v); its log ends:\n%s", p.cmd.ProcessState, p.log.tail(20))
}

// end asks the process to end and, after a while, makes it. It may be called again.
func (p *pooler) end() error {
	p.ending.Store(true)
	if p.ended() {
		return p.log.close()
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	var err error
	select {
	case <-p.done:
		if p.err != nil {
			err = fmt.Errorf("ending pgweir: %w; its log ends:\n%s", p.err, p.log.tail(20))
		}
	case <-time.After(endBound):
		_ = p.cmd.Process.Kill()
		<-p.done
		err = fmt.Errorf("pgweir did not end within %v of SIGTERM; its log ends:\n%s", endBound, p.log.tail(20))
	}
	return errors.Join(err, p.log.close())
}

// url is where clients connect to a database.
func (p *pooler) url(database string) string {
	return p.URL(pgtest.Login{User: appRole, Password: password, Database: database})
}

// cleanEnv leaves out what libpq and its like read: it is meant for other databases.
func cleanEnv(env []string) []string {
	var list []string
	for _, one := range env {
		if !strings.HasPrefix(one, "PG") || strings.HasPrefix(one, "PGWEIR_") {
			list = append(list, one)
		}
	}
	return list
}

// logbook keeps what the process prints in a file, and notices when it says that it
// listens.
type logbook struct {
	ready chan struct{}
	path  string

	mu    sync.Mutex
	file  *os.File
	first []byte // what was printed until it was ready
	open  bool   // ready is not closed
}

// openLogbook makes the file.
func openLogbook(path string) (*logbook, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &logbook{ready: make(chan struct{}), path: path, file: file, open: true}, nil
}

// Write implements io.Writer.
func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		l.first = append(l.first, b...)
		if bytes.Contains(l.first, []byte("msg=listening")) {
			l.open, l.first = false, nil
			close(l.ready)
		}
	}
	return l.file.Write(b)
}

// has reports whether a text is in the log.
func (l *logbook) has(text string) bool {
	return l != nil && strings.Contains(l.tail(1000), text)
}

// tail is the last lines; if they can't be read, why.
func (l *logbook) tail(lines int) string {
	b, err := os.ReadFile(l.path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// close closes the file. It may be called again.
func (l *logbook) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
