package main

import (
	"bufio"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// The cores of sat: one for the pooler, one for everything around it.
const (
	poolerCPU = 0
	loadCPU   = 1
)

// satWarmUp is the part of a saturated run that is not measured.
const satWarmUp = 500 * time.Millisecond

// satSource is the generator, in C: it has to be cheaper than what it measures.
//
//go:embed satload
var satSource embed.FS

// satload is the generator's process. It plays PostgreSQL on Port, and on command clients.
type satload struct {
	pgtest.Endpoint
	proc *child.Process
	in   *os.File
	out  *bufio.Reader
	ends []io.Closer
}

// satResult is what the generator measured in a run, and how much CPU the pooler took.
type satResult struct {
	transactions    int64
	seconds         float64
	mean, p50, p99  float64 // us
	loadSeconds     float64 // CPU of the generator
	messages, reads int64   // that reached the fake PostgreSQL
	cpu             time.Duration
	busy            time.Duration // CPU of the whole machine
}

// measureSat drives every contender in turns as fast as it goes.
func measureSat(ctx context.Context, l *lab, e *experiment) error {
	if runtime.NumCPU() < 2 {
		return errors.New("needs two cores")
	}
	g, err := startSatload(ctx, l.dir, []int{loadCPU})
	if err != nil {
		return err
	}
	defer g.close()
	poolers, err := l.beginAll(ctx, g.Endpoint, []int{poolerCPU})
	if err != nil {
		return err
	}
	defer l.endPoolers()
	rounds := l.roundsOr(5)
	for _, mode := range l.modes {
		for _, clients := range l.clients {
			cell := fmt.Sprintf("%s %d", mode, clients)
			l.progress("sat: %s clients, %d rounds of %v", cell, rounds, l.duration)
			err := l.inTurns(ctx, rounds, poolers, func(_ int, p *pooler) error {
				if p.proc == nil {
					return nil
				}
				r, err := l.sampleSat(ctx, g, p, clients, mode)
				if err == nil {
					r.note(e, cell, p.label)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// note turns a result into samples.
func (r satResult) note(e *experiment, cell, label string) {
	tx := float64(r.transactions)
	e.add(cell, tps, label, tx/r.seconds)
	e.add(cell, cpuPerTx, label, microseconds(r.cpu)/tx)
	e.add(cell, "p99 ms", label, r.p99/1000)
	e.add(cell, poolerBusy, label, 100*r.cpu.Seconds()/r.seconds)
	e.add(cell, "load busy %", label, 100*r.loadSeconds/r.seconds)
	e.add(cell, "others busy %", label, r.others())
	e.add(cell, "messages/tx", label, float64(r.messages)/tx)
	e.add(cell, "server reads/tx", label, float64(r.reads)/tx)
}

// others is how busy everybody else was, in per cent of a core.
func (r satResult) others() float64 {
	return max(0, 100*((r.busy-r.cpu).Seconds()-r.loadSeconds)/r.seconds)
}

// disturbance is how busy others may be, in per cent of a core, before a run is repeated.
const disturbance = 15

// sampleSat is one run, or as many as it takes to have one that was not disturbed while
// patience lasts.
func (l *lab) sampleSat(ctx context.Context, g *satload, p *pooler, clients int, mode string) (satResult, error) {
	for end := time.Now().Add(l.patience); ; {
		r, err := g.run(ctx, p, clients, mode, l.duration)
		if err != nil || r.others() <= disturbance || time.Now().After(end) {
			return r, err
		}
		if err := l.awaitQuiet(ctx); err != nil {
			return r, err
		}
	}
}

// startSatload compiles the generator in dir and starts it.
func startSatload(ctx context.Context, dir string, cores []int) (*satload, error) {
	binary, err := compileSatload(ctx, dir)
	if err != nil {
		return nil, err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	g := &satload{in: in, out: bufio.NewReader(out), ends: []io.Closer{in, out}}
	cmd := exec.Command(binary)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, os.Stderr
	g.proc, err = child.Start(cmd, child.Where{Cores: cores})
	if err = errors.Join(err, theirIn.Close(), theirOut.Close()); err != nil {
		g.close()
		return nil, err
	}
	g.Endpoint = pgtest.Endpoint{Host: "127.0.0.1"}
	if err := g.expect("listening %d", &g.Port); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

// compileSatload writes the source to dir and calls the C compiler.
func compileSatload(ctx context.Context, dir string) (string, error) {
	sources, err := fs.Glob(satSource, "satload/*")
	if err != nil {
		return "", err
	}
	args := []string{"-O2", "-o", filepath.Join(dir, "satload")}
	for _, name := range sources {
		text, err := satSource.ReadFile(name)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return "", err
		}
		if strings.HasSuffix(path, ".c") {
			args = append(args, path)
		}
	}
	if out, err := exec.CommandContext(ctx, "cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling satload: %w: %s", err, out)
	}
	return filepath.Join(dir, "satload"), nil
}

// run is one run against p, with the pooler's CPU time between the generator's words.
func (g *satload) run(ctx context.Context, p *pooler, clients int, mode string, d time.Duration) (satResult, error) {
	stop := context.AfterFunc(ctx, func() { g.proc.Stop(syscall.SIGTERM, stopBound) }) // it then says no more
	defer stop()
	var r satResult
	_, err := fmt.Fprintf(g.in, "run %d %d %s %d %d\n", p.Port, clients, mode, satWarmUp.Milliseconds(), d.Milliseconds())
	if err != nil {
		return r, err
	}
	if err := g.expect("begin"); err != nil {
		return r, err
	}
	before, err := p.cpu()
	if err != nil {
		return r, err
	}
	busyBefore, err := child.MachineBusy()
	if err != nil {
		return r, err
	}
	err = g.expect("end %d %f %f %f %f %f %d %d", &r.transactions, &r.seconds, &r.mean, &r.p50, &r.p99,
		&r.loadSeconds, &r.messages, &r.reads)
	if err != nil {
		return r, err
	}
	after, err := p.cpu()
	if err != nil {
		return r, err
	}
	busyAfter, err := child.MachineBusy()
	if err != nil {
		return r, err
	}
	r.cpu, r.busy = after-before, busyAfter-busyBefore
	if r.transactions == 0 {
		return r, errors.New("no transaction was finished")
	}
	return r, g.expect("idle")
}

// expect reads the generator's next line. What it says instead is the error.
func (g *satload) expect(format string, into ...any) error {
	line, err := g.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("satload has gone: %w", err)
	}
	line = strings.TrimSpace(line)
	if len(into) == 0 {
		if line != format {
			return fmt.Errorf("satload says: %s", line)
		}
		return nil
	}
	if _, err := fmt.Sscanf(line, format, into...); err != nil {
		return fmt.Errorf("satload says: %s", line)
	}
	return nil
}

// close ends the generator.
func (g *satload) close() {
	if g.proc != nil {
		g.proc.Stop(syscall.SIGTERM, stopBound)
	}
	for _, end := range g.ends {
		_ = end.Close() // pipes of a process that has gone
	}
}
