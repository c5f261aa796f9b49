package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// Bounds of what a Cluster may take before it is an error. They are wide: a loaded machine
// is slow, not broken.
const (
	startBound = 60 * time.Second
	stopBound  = 60 * time.Second
	pollEvery  = 10 * time.Millisecond
)

// Options say how a Cluster differs from the default. The zero value is a good one.
type Options struct {
	// Settings go into postgresql.conf, after the package's own: the last one wins. Values
	// are written as they are; strings need their quotes.
	Settings map[string]string
	// Auth is the method for TCP connections: "trust" (also if empty), "md5",
	// "scram-sha-256", "password", "reject". The Unix socket always trusts.
	Auth string
	// HBA replaces all lines of pg_hba.conf; Auth is then ignored.
	HBA []string
	// Replicas makes standbys possible: see [Cluster.Standby].
	Replicas bool
	// Root is a Debian tree with another PostgreSQL, whose server is run by chroot: root only.
	// psql and the like are those of this machine. The tree has the account that the server
	// runs as, under the same number. Standbys are not possible.
	Root string
	// Dir is where the cluster's directory is made; empty: the system's temporary one.
	// The account that the server runs as must be able to reach it.
	Dir string
}

// Cluster is a running PostgreSQL. Its methods are not safe for concurrent use, apart from
// those of Endpoint, which is the TCP side; SocketDir is the other.
type Cluster struct {
	Endpoint
	SocketDir string // directory of the Unix socket, with the same port number
	DataDir   string
	LogFile   string // everything the server logs, over restarts too

	install Programs // of the server, as it is called in options.Root
	dir     string   // all of the above, removed by Stop
	options Options
	as      account
	server  *child.Process // nil while stopped
	primary *Cluster       // of a standby
}

// Start makes a Cluster and waits until it accepts connections. The error wraps
// [ErrNoPostgres] when nothing is installed; other errors carry the end of the server's
// log. Call Stop in the end.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	programs, err := FindPrograms()
	if err != nil {
		return nil, err
	}
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Endpoint: Endpoint{Programs: programs, Host: "127.0.0.1"}, install: programs, options: o, as: as}
	if o.Root != "" {
		if c.install, err = programsIn(o.Root); err != nil {
			return nil, err
		}
		if o.Dir == "" {
			c.options.Dir = filepath.Join(o.Root, "tmp")
		}
	}
	if err := c.create(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// create is Start once it is known what to run and as whom.
func (c *Cluster) create(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.options.Dir, "pgweir-pg-")
	if err != nil {
		return err
	}
	c.dir, c.SocketDir = dir, dir
	c.DataDir, c.LogFile = filepath.Join(dir, "data"), filepath.Join(dir, "log")
	if err := c.as.own(dir); err != nil {
		return err
	}
	// sockaddr_un holds 107 bytes of path; the server's own message about it is obscure.
	if socket := filepath.Join(dir, ".s.PGSQL.00000"); len(socket) > 107 {
		return fmt.Errorf("%s is too long for a Unix socket; set Options.Dir or TMPDIR", socket)
	}
	if c.primary != nil {
		if err := c.copyPrimary(ctx); err != nil {
			return err
		}
	} else if c.options.Root != "" {
		if err := initdb(ctx, c.install, c.inside(c.DataDir), c.as, c.options.Root); err != nil {
			return err
		}
	} else if err := makeDataDir(ctx, c.Programs, c.DataDir, c.as); err != nil {
		return err
	}
	return c.startOnSomePort(ctx)
}

// startOnSomePort starts on a free port, and on another when someone was faster.
func (c *Cluster) startOnSomePort(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := FreePort()
		if err != nil {
			return err
		}
		c.Port = port
		err = c.start(ctx)
		if err == nil || attempt == 5 || !strings.Contains(c.logTail(), "Address already in use") {
			return err
		}
		if err := os.Truncate(c.LogFile, 0); err != nil {
			return err
		}
	}
}

// inside is a path as the server sees it.
func (c *Cluster) inside(path string) string {
	return filepath.Join("/", strings.TrimPrefix(path, c.options.Root))
}

// start starts the server on c.Port and waits until it is ready.
func (c *Cluster) start(ctx context.Context) error {
	if err := c.writeConfig(); err != nil {
		return err
	}
	log, err := os.OpenFile(c.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the server has its own descriptor

	cmd := exec.Command(filepath.Join(string(c.install), "postgres"), "-D", c.inside(c.DataDir))
	cmd.Dir = c.inside(c.dir)
	cmd.Env = CleanEnv("TZ=UTC", "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = log, log
	// SIGQUIT is an immediate shutdown: nobody is left to wait for a better one.
	c.server, err = child.Start(cmd, child.Where{Root: c.options.Root, As: c.as.as, OnDeath: syscall.SIGQUIT})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, errors.New("not ready in time"))
	defer cancel()
	if err := c.awaitReady(ctx); err != nil {
		stopErr := c.halt()
		return errors.Join(fmt.Errorf("starting PostgreSQL: %w; its log ends:\n%s", err, c.logTail()), stopErr)
	}
	return nil
}

// awaitReady waits for the word "ready" in the postmaster's pid file, as pg_ctl does, and
// for an answer on the TCP port.
func (c *Cluster) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if c.saysReady() {
			conn, err := net.Dial("tcp", c.Addr())
			if err == nil {
				return conn.Close()
			}
		}
		select {
		case <-c.server.Done():
			return fmt.Errorf("the server ended: %v", c.server.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// saysReady looks at lines 1 (pid) and 8 (status) of postmaster.pid. The pid is compared
// because a crash leaves the file behind.
func (c *Cluster) saysReady() bool {
	b, err := os.ReadFile(filepath.Join(c.DataDir, "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(b), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(c.server.PID()) &&
		strings.TrimSpace(lines[7]) == "ready"
}

// Stop ends the server (fast: open transactions are rolled back) and removes its
// directory. A stopped Cluster may be stopped again, not restarted.
func (c *Cluster) Stop() error {
	err := c.halt()
	if c.dir == "" {
		return err
	}
	err = errors.Join(err, os.RemoveAll(c.dir))
	c.dir = ""
	return err
}

// Restart stops the server as Stop does and starts it again on the same port, with its
// data. Connections are lost.
func (c *Cluster) Restart(ctx context.Context) error {
	if err := c.Halt(); err != nil {
		return err
	}
	return c.Resume(ctx)
}

// Halt ends the server and keeps its data for Resume.
func (c *Cluster) Halt() error {
	if c.dir == "" {
		return errors.New("the cluster was stopped")
	}
	return c.halt()
}

// Resume starts a halted server again, on the same port.
func (c *Cluster) Resume(ctx context.Context) error {
	if c.dir == "" || c.server != nil {
		return errors.New("the cluster is not halted")
	}
	return c.start(ctx)
}

// halt asks for a fast shutdown and, if that takes too long, for an immediate one.
func (c *Cluster) halt() error {
	if c.server == nil {
		return nil
	}
	s := c.server
	c.server = nil
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	s.Signal(syscall.SIGINT)
	if s.Wait(ctx) == nil {
		return nil
	}
	s.Signal(syscall.SIGQUIT)
	<-s.Done()
	return fmt.Errorf("PostgreSQL did not shut down within %v and was stopped at once", stopBound)
}

// SocketEndpoint is the Unix socket as an Endpoint; everyone is trusted there.
func (c *Cluster) SocketEndpoint() Endpoint {
	return Endpoint{Programs: c.Programs, Host: c.SocketDir, Port: c.Port}
}

// SQL runs a script as [Superuser] over the Unix socket, so that it works whatever Auth
// says, and returns what [Endpoint.Psql] returns.
func (c *Cluster) SQL(ctx context.Context, db, script string) (string, error) {
	return c.SocketEndpoint().Psql(ctx, Login{User: Superuser, Database: db}, script)
}

// Log is all that the server has logged since Start.
func (c *Cluster) Log() (string, error) {
	b, err := os.ReadFile(c.LogFile)
	return string(b), err
}

// logTail is the end of the log, for an error message.
func (c *Cluster) logTail() string { return tail(c.LogFile, 30) }

// tail is the last lines of a file; what cannot be read is told instead.
func tail(file string, lines int) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
