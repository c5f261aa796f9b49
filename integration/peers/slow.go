package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// pace is how a slow client reads: chunk bytes, then it waits until they are due.
type pace struct {
	name      string
	chunk     int64
	perSecond int64
}

// measureSlow lets clients read slower than PostgreSQL sends and watches the pooler's memory.
func measureSlow(ctx context.Context, l *lab, e *experiment) error {
	paces := []pace{
		{"50 MB/s steadily", readSize, 50 * megabyte},
		{"50 MB a second at once", 50 * megabyte, 50 * megabyte},
	}
	for _, pace := range paces {
		cell := fmt.Sprintf("%d MB, %s", l.slowMB, pace.name)
		l.progress("slow: %s", cell)
		poolers, err := l.beginAll(ctx, l.cluster.Endpoint, nil)
		if err != nil {
			return err
		}
		err = l.inTurns(ctx, l.roundsOr(1), poolers, func(_ int, p *pooler) error {
			if p.proc == nil {
				return nil
			}
			growth, err := l.slowCopy(ctx, p, pace)
			if err == nil {
				e.add(cell, memoryGrowth, p.label, float64(growth)/megabyte)
			}
			return err
		})
		l.endPoolers()
		if err != nil {
			return err
		}
	}
	return nil
}

// slowCopy returns how far the pooler's memory rose over what it was after a small COPY.
func (l *lab) slowCopy(ctx context.Context, p *pooler, by pace) (int64, error) {
	if _, err := copyOut(p, 10, nil); err != nil {
		return 0, err
	}
	if err := pause(ctx, time.Second); err != nil {
		return 0, err
	}
	base, err := child.RSS(p.proc.PID())
	if err != nil {
		return 0, err
	}
	peak, stop := watchMemory(p.proc.PID())
	began, due := time.Now(), by.chunk
	_, err = copyOut(p, l.slowMB, func(sum int64) {
		for ; sum >= due; due += by.chunk {
			// An interrupt ends the pauses, and with them soon the COPY.
			_ = pause(ctx, time.Until(began.Add(time.Duration(due*int64(time.Second)/by.perSecond))))
		}
	})
	stop()
	return peak.Load() - base, err
}

// watchMemory follows a process's memory until stop is called.
func watchMemory(pid int) (peak *atomic.Int64, stop func()) {
	peak = new(atomic.Int64)
	quit, done := make(chan struct{}), make(chan struct{})
	look := func() {
		if now, err := child.RSS(pid); err == nil {
			peak.Store(max(now, peak.Load()))
		}
	}
	look()
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	return peak, func() {
		close(quit)
		<-done
		look()
	}
}

// pause waits for d, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
