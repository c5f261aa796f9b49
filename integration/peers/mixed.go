package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgproto3"
)

// copies is how many clients COPY beside pgbench.
const copies = 4

// measureMixed tells what the latency of small transactions is beside large answers.
func measureMixed(ctx context.Context, l *lab, e *experiment) error {
	poolers, err := l.beginAll(ctx, l.cluster.Endpoint, nil)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	b := bench{mode: "simple", clients: l.mixedClients, threads: min(l.threads, l.mixedClients)}
	for _, p := range poolers {
		if _, err := l.pgbench(ctx, p, b, warmUp); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
	}
	rounds := l.roundsOr(3)
	l.progress("mixed: %d clients, %d rounds of twice %v", l.mixedClients, rounds, l.duration)
	alone := fmt.Sprintf("%d clients alone", l.mixedClients)
	beside := fmt.Sprintf("beside %d COPYs", copies)
	return l.inTurns(ctx, rounds, poolers, func(_ int, p *pooler) error {
		if err := l.sampleLatency(ctx, e, p, alone, b); err != nil {
			return err
		}
		stop := copyAround(p, l.copyMB)
		began := time.Now()
		err := l.sampleLatency(ctx, e, p, beside, b)
		took := time.Since(began)
		sum, copyErr := stop()
		if err = errors.Join(err, copyErr); err == nil {
			e.add(beside, "MB/s of the COPYs", p.label, float64(sum)/megabyte/took.Seconds())
		}
		return err
	})
}

// sampleLatency is one run of pgbench with its latencies.
func (l *lab) sampleLatency(ctx context.Context, e *experiment, p *pooler, cell string, b bench) error {
	dir, err := os.MkdirTemp(l.dir, "log-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // l.dir goes in the end, too
	b.logPrefix = filepath.Join(dir, "tx")
	r, err := l.pgbench(ctx, p, b, l.duration)
	if err != nil {
		return err
	}
	h, err := readLatencies(dir)
	if err != nil {
		return err
	}
	for _, q := range []float64{50, 99, 99.9} {
		e.add(cell, fmt.Sprintf("p%v ms", q), p.label, float64(h.ValueAtQuantile(q))/1000)
	}
	e.add(cell, tps, p.label, r.tps)
	return nil
}

// readLatencies collects the third field of pgbench's log files, in microseconds.
func readLatencies(dir string) (*hdrhistogram.Histogram, error) {
	h := hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := readLatencyFile(h, file); err != nil {
			return nil, fmt.Errorf("pgbench's log: %w", err)
		}
	}
	if h.TotalCount() == 0 {
		return nil, errors.New("pgbench logged no transaction")
	}
	return h, nil
}

func readLatencyFile(h *hdrhistogram.Histogram, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 {
			return fmt.Errorf("a line of %d fields", len(fields))
		}
		us, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			return err
		}
		if err := h.RecordValue(us); err != nil {
			return err
		}
	}
	return lines.Err()
}

// copyAround keeps copies clients in COPYs of mb megabytes each. The function returned lets
// them finish the one they are in; it tells what arrived until it was called.
func copyAround(p *pooler, mb int) func() (int64, error) {
	var (
		wg   sync.WaitGroup
		sum  atomic.Int64
		over atomic.Bool
		errs = make([]error, copies)
	)
	for i := range copies {
		wg.Go(func() { errs[i] = copyOn(p, mb, &sum, &over) })
	}
	return func() (int64, error) {
		over.Store(true)
		arrived := sum.Load()
		wg.Wait()
		return arrived, errors.Join(errs...)
	}
}

// copyOn is one client: COPY after COPY on one connection until over.
func copyOn(p *pooler, mb int, sum *atomic.Int64, over *atomic.Bool) error {
	c, err := p.dial(nil, answerBound)
	if err != nil {
		return err
	}
	defer c.close()
	buf := make([]byte, readSize)
	for !over.Load() {
		if err := c.send(&pgproto3.Query{String: copyStatement(mb)}); err != nil {
			return err
		}
		seen := int64(0)
		_, err := c.drain(buf, func(now int64) {
			sum.Add(now - seen)
			seen = now
		})
		if err != nil {
			return err
		}
	}
	return nil
}
