package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire/scram"
)

// startBound is how long a pooler may take to serve its first query.
const startBound = 20 * time.Second

// stopBound is how long a process may take to end before it is killed.
const stopBound = 10 * time.Second

// slots is how many servers every contender may use at once.
const slots = 16

// contender is one of those that are compared.
type contender struct {
	kind    kind
	label   string // of the table; unique
	binary  string // as seen from inside root
	root    string // chroot that it runs in; empty: none
	version string
}

// pooler is a contender that runs; or, of the kind postgres, the server itself.
type pooler struct {
	contender
	pgtest.Endpoint
	proc   *child.Process // nil for postgres
	dir    string
	keys   *scram.Keys // with which our clients prove the password; nil: they need not
	secure bool        // our clients encrypt
}

// parseContender reads "kind" or "kind=binary" into what can be started.
func parseContender(text, root string) (contender, error) {
	name, binary, given := strings.Cut(text, "=")
	i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
	if i < 0 {
		return contender{}, fmt.Errorf("no contender is called %q", name)
	}
	c := contender{kind: kinds()[i], label: name, binary: binary}
	switch {
	case given || name == "postgres" || name == "pgweir":
		return c, nil
	case root != "":
		c.root, c.binary = root, c.kind.program
		return c, nil
	}
	path, err := exec.LookPath(filepath.Base(c.kind.program))
	if err != nil {
		return c, fmt.Errorf("%s: not installed; README.md says how to get it: %w", name, err)
	}
	c.binary = path
	return c, nil
}

// relabel makes the labels unique: a contender may well be compared with itself.
func relabel(all []contender) {
	seen := map[string]int{}
	for i := range all {
		name := all[i].kind.name
		seen[name]++
		if seen[name] > 1 {
			all[i].label = name + "#" + strconv.Itoa(seen[name])
		}
	}
}

// begin starts a contender in front of the server at upstream and waits until it has
// served a query.
func (l *lab) begin(ctx context.Context, c contender, upstream pgtest.Endpoint, cores []int) (*pooler, error) {
	return l.beginWith(ctx, c, site{upstream: upstream}, cores)
}

// beginWith is begin with what else the site has; port and directory are made here.
func (l *lab) beginWith(ctx context.Context, c contender, s site, cores []int) (*pooler, error) {
	p := &pooler{contender: c, Endpoint: s.upstream, keys: s.keys}
	if c.kind.name == "postgres" {
		return p, nil
	}
	var err error
	if p.Port, err = pgtest.FreePort(); err != nil {
		return nil, err
	}
	inside, err := l.prepare(p, s)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor
	cmd := exec.Command(c.binary, c.kind.args(inside)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "/", []string{"PATH=/usr/bin:/bin"}, log, log
	if p.proc, err = child.Start(cmd, child.Where{Root: c.root, As: l.as, Cores: cores}); err != nil {
		return nil, err
	}
	l.poolers = append(l.poolers, p)
	if err := p.awaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w; its log ends:\n%s", c.label, err, p.logTail())
	}
	return p, nil
}

// prepare makes the pooler's directory and configuration, which its account can read, and
// returns the path of the configuration as the process will see it.
func (l *lab) prepare(p *pooler, s site) (string, error) {
	var err error
	if p.dir, err = os.MkdirTemp(filepath.Join("/", p.root, os.TempDir()), "pgweir-peers-"); err != nil {
		return "", err
	}
	s.port, s.dir = p.Port, strings.TrimPrefix(p.dir, p.root)
	for name, text := range p.kind.files(&s) {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(p.dir, 0o755); err != nil {
		return "", err
	}
	if l.as != nil {
		if err := os.Chown(p.dir, int(l.as.Uid), int(l.as.Gid)); err != nil {
			return "", err
		}
	}
	return filepath.Join("/", strings.TrimPrefix(p.dir, p.root), p.kind.config), nil
}

// awaitReady tries a query until it succeeds, the process ends or the time is over.
func (p *pooler) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	for {
		err := p.try()
		if err == nil {
			return nil
		}
		if ended := p.proc.Ended(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", startBound, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// try runs one query.
func (p *pooler) try() error {
	c, err := p.dial(nil, startBound)
	if err != nil {
		return err
	}
	defer c.close()
	return c.query("SELECT 1")
}

// end stops the process and removes its directory.
func (p *pooler) end() {
	if p.proc != nil {
		p.proc.Stop(p.kind.stop, stopBound)
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir) // it lies in a temporary directory: the next boot's work
	}
}

// logTail is the end of what the process has printed.
func (p *pooler) logTail() string {
	b, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-2000):])
}

// cpu is the CPU time of the process.
func (p *pooler) cpu() (time.Duration, error) {
	if p.proc == nil {
		return 0, nil
	}
	return child.CPUTime(p.proc.PID())
}

// kind is how a program is configured and run.
type kind struct {
	name    string
	program string // its path in a Debian tree
	config  string // name of the file that args names
	stop    syscall.Signal
	version []string                             // arguments that make it print its version
	args    func(config string) []string         // to serve
	files   func(*site) (text map[string]string) // by name
}

// kinds are the contenders known.
func kinds() []kind {
	return []kind{
		{
			name: "pgweir", config: "pgweir.toml", stop: syscall.SIGTERM, version: []string{"version"},
			args:  func(config string) []string { return []string{"serve", config} },
			files: pgweirFiles,
		},
		{
			// On SIGTERM it would wait for its clients.
			name: "pgbouncer", program: "/usr/sbin/pgbouncer", config: "pgbouncer.ini", stop: syscall.SIGQUIT,
			version: []string{"--version"},
			args:    func(config string) []string { return []string{config} },
			files:   pgbouncerFiles,
		},
		{
			name: "odyssey", program: "/usr/bin/odyssey", config: "odyssey.conf", stop: syscall.SIGINT,
			version: []string{"--version"},
			args:    func(config string) []string { return []string{config} },
			files:   odysseyFiles,
		},
		{name: "postgres"},
	}
}
