package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// scale is pgbench's: a million rows.
const scale = "10"

// lab is what all experiments share.
type lab struct {
	options
	contenders []contender
	as         *syscall.Credential // whom the poolers run as
	dir        string
	cluster    *pgtest.Cluster
	login      pgtest.Login
	poolers    []*pooler // all that run
	log        io.Writer
	began      time.Time
}

// openLab starts PostgreSQL, fills it, and builds pgweir if it is wanted.
func openLab(ctx context.Context, o options, log io.Writer) (*lab, error) {
	l := &lab{options: o, log: log, began: time.Now(), login: pgtest.Login{User: pgtest.Superuser, Database: "bench"}}
	if err := l.open(ctx); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *lab) open(ctx context.Context) (err error) {
	if l.as, err = child.Unprivileged(); err != nil {
		return err
	}
	if l.dir, err = os.MkdirTemp("", "pgweir-peers-"); err != nil {
		return err
	}
	if err := os.Chmod(l.dir, 0o755); err != nil { // the poolers' account runs what is built here
		return err
	}
	if err := l.findContenders(ctx); err != nil {
		return err
	}
	l.progress("starting PostgreSQL, pgbench -i -s %s", scale)
	l.cluster, err = pgtest.Start(ctx, pgtest.Options{Settings: map[string]string{
		"shared_buffers": "'512MB'", "max_connections": "300",
	}})
	if err != nil {
		return err
	}
	if _, err := l.cluster.SQL(ctx, "postgres", "create database bench"); err != nil {
		return err
	}
	_, err = l.cluster.Pgbench(ctx, l.login, "-i", "-q", "-s", scale)
	return err
}

// findContenders resolves the command line's names to programs and their versions.
func (l *lab) findContenders(ctx context.Context) error {
	for _, text := range l.options.contenders {
		c, err := parseContender(text, l.root)
		if err != nil {
			return err
		}
		if c.kind.name == "pgweir" && c.binary == "" {
			if c.binary, err = l.buildPgweir(ctx); err != nil {
				return err
			}
		}
		if len(c.kind.version) > 0 {
			where := child.Where{Root: c.root, As: l.as}
			c.version, err = child.FirstLine(ctx, where, startBound, append([]string{c.binary}, c.kind.version...)...)
			if err != nil {
				return err
			}
		}
		l.contenders = append(l.contenders, c)
	}
	relabel(l.contenders)
	if load := child.LoadAverage(); load > 1 {
		l.progress("the load average is %v: others use this machine, and throughput and latency will be theirs", load)
	}
	for _, c := range l.contenders {
		l.progress("%s: %s", c.label, c.version)
	}
	return nil
}

// buildPgweir returns the pgweir of the command line, or builds the one of this tree as it
// is shipped: without cgo and without the race detector.
func (l *lab) buildPgweir(ctx context.Context) (string, error) {
	if l.pgweir != "" {
		return filepath.Abs(l.pgweir)
	}
	path := filepath.Join(l.dir, "pgweir")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	l.progress("building pgweir")
	tree, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pgweir/pgweir").Output()
	if err != nil {
		return "", fmt.Errorf("looking for pgweir: %w", err)
	}
	known := filepath.Join(strings.TrimSpace(string(tree)), "cmd", "pgweir", "release.pgo") // as make build
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-pgo", known, "-o", path, "github.com/pgweir/pgweir/cmd/pgweir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building pgweir: %w: %s", err, out)
	}
	return path, nil
}

// labels are the contenders' names in their order.
func (l *lab) labels() []string {
	var all []string
	for _, c := range l.contenders {
		all = append(all, c.label)
	}
	return all
}

// progress prints a line with the time since the start.
func (l *lab) progress(format string, args ...any) {
	line := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	fmt.Fprintf(l.log, "[%5.0fs] %s\n", time.Since(l.began).Seconds(), line)
}

// beginAll starts every contender in front of upstream.
func (l *lab) beginAll(ctx context.Context, upstream pgtest.Endpoint, cores []int) ([]*pooler, error) {
	var all []*pooler
	for _, c := range l.contenders {
		p, err := l.begin(ctx, c, upstream, cores)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// endPoolers stops all that run.
func (l *lab) endPoolers() {
	for _, p := range l.poolers {
		p.end()
	}
	l.poolers = nil
}

// quietLook is how long awaitQuiet looks, and quietShare the part of one core that others
// may use then.
const (
	quietLook  = 300 * time.Millisecond
	quietShare = 0.1
)

// awaitQuiet waits until nobody uses the machine, or patience is over. It is called while
// nothing of ours runs, so that all that is used is used by others.
func (l *lab) awaitQuiet(ctx context.Context) error {
	for end := time.Now().Add(l.patience); time.Now().Before(end); {
		before, err := child.MachineBusy()
		if err != nil {
			return err
		}
		if err := pause(ctx, quietLook); err != nil {
			return err
		}
		after, err := child.MachineBusy()
		if err != nil {
			return err
		}
		if after-before <= time.Duration(quietShare*float64(quietLook)) {
			return nil
		}
	}
	return ctx.Err()
}

// inTurns calls f for every pooler in every round; each round has the other order.
func (l *lab) inTurns(ctx context.Context, rounds int, all []*pooler, f func(round int, p *pooler) error) error {
	for round := range rounds {
		order := slices.Clone(all)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, p := range order {
			if err := l.awaitQuiet(ctx); err != nil {
				return err
			}
			if err := f(round, p); err != nil {
				return fmt.Errorf("%s: %w", p.label, err)
			}
		}
	}
	return nil
}

// close ends and removes everything.
func (l *lab) close() error {
	l.endPoolers()
	var err error
	if l.cluster != nil {
		err = l.cluster.Stop()
	}
	if l.dir != "" {
		err = errors.Join(err, os.RemoveAll(l.dir))
	}
	return err
}
