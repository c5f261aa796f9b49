package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// Names of metrics that more than one experiment has, or that have a goal.
const (
	cpuPerTx        = "CPU us/tx"
	tps             = "tx/s"
	poolerBusy      = "pooler busy %"
	cpuPerMB        = "CPU us/MB"
	memoryPerClient = "memory kB/client"
	idleWakeups     = "wake-ups in rest"
	memoryGrowth    = "memory growth MB"
)

// warmUp opens the servers and fills the caches.
const warmUp = time.Second

// measureCPU runs pgbench -S through every contender in turns.
func measureCPU(ctx context.Context, l *lab, e *experiment) error {
	poolers, err := l.beginAll(ctx, l.cluster.Endpoint, nil)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	return l.cpuCells(ctx, e, poolers)
}

// cpuCells runs every protocol with every number of clients.
func (l *lab) cpuCells(ctx context.Context, e *experiment, poolers []*pooler) error {
	rounds := l.roundsOr(10)
	for _, mode := range l.modes {
		for _, clients := range l.clients {
			cell := fmt.Sprintf("%s %d", mode, clients)
			l.progress("%s clients, %d rounds of %v", cell, rounds, l.duration)
			b := bench{mode: mode, clients: clients, threads: min(l.threads, clients)}
			for _, p := range poolers {
				if _, err := l.pgbench(ctx, p, b, warmUp); err != nil {
					return fmt.Errorf("%s: %w", p.label, err)
				}
			}
			err := l.inTurns(ctx, rounds, poolers, func(_ int, p *pooler) error {
				return l.sampleCPU(ctx, e, p, cell, b)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// sampleCPU is one run.
func (l *lab) sampleCPU(ctx context.Context, e *experiment, p *pooler, cell string, b bench) error {
	before, err := p.cpu()
	if err != nil {
		return err
	}
	r, err := l.pgbench(ctx, p, b, l.duration)
	if err != nil {
		return err
	}
	after, err := p.cpu()
	if err != nil {
		return err
	}
	if p.proc != nil {
		e.add(cell, cpuPerTx, p.label, microseconds(after-before)/float64(r.transactions))
	}
	e.add(cell, tps, p.label, r.tps)
	return nil
}

// bench is how pgbench is called.
type bench struct {
	mode             string
	clients, threads int
	logPrefix        string // of files with each transaction's latency; empty: none
	rate             int    // transactions per second in all; 0: as many as it can
}

// benchResult is what pgbench says in the end.
type benchResult struct {
	transactions int64
	tps          float64
}

// pgbench runs select-only transactions through p. Any failed one is an error.
func (l *lab) pgbench(ctx context.Context, p *pooler, b bench, d time.Duration) (benchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, d+time.Minute)
	defer cancel()
	args := []string{
		"-n", "-S", "-M", b.mode, "-c", strconv.Itoa(b.clients), "-j", strconv.Itoa(b.threads),
		"-T", strconv.Itoa(int(d / time.Second)),
	}
	if b.rate > 0 {
		args = append(args, "-R", strconv.Itoa(b.rate))
	}
	if b.logPrefix != "" {
		args = append(args, "--log", "--log-prefix", b.logPrefix)
	}
	cmd := p.Command(ctx, l.login, "pgbench", args...)
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	bench, err := child.Start(cmd, child.Where{})
	if err != nil {
		return benchResult{}, err
	}
	err = bench.Err()
	if err != nil {
		return benchResult{}, fmt.Errorf("pgbench: %w: %s", err, messages.String())
	}
	return parseBench(out.String())
}

// parseBench reads pgbench's summary.
func parseBench(out string) (benchResult, error) {
	var r benchResult
	processed := regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`).FindStringSubmatch(out)
	failed := regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`).FindStringSubmatch(out)
	rate := regexp.MustCompile(`(?m)^tps = ([0-9.]+)`).FindStringSubmatch(out)
	if processed == nil || rate == nil {
		return r, fmt.Errorf("pgbench's summary is not as known: %s", out)
	}
	var countErr, rateErr error
	r.transactions, countErr = strconv.ParseInt(processed[1], 10, 64)
	r.tps, rateErr = strconv.ParseFloat(rate[1], 64)
	if err := errors.Join(countErr, rateErr); err != nil {
		return r, err
	}
	if failed != nil && failed[1] != "0" {
		return r, fmt.Errorf("%s transactions failed", failed[1])
	}
	if r.transactions == 0 {
		return r, errors.New("pgbench did not finish a transaction")
	}
	return r, nil
}

// microseconds is d as a number.
func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
