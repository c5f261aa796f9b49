package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
)

// Sample is how things stood at a time of a run.
type Sample struct {
	At     time.Duration
	CPU    time.Duration // of the front's process, since its start
	Memory int64         // of it, in bytes
	Busy   int           // servers of the front that are not idle
}

// How often a sampler looks.
const (
	busyEvery  = 10 * time.Millisecond
	usageEvery = 100 * time.Millisecond
)

// Sampler takes samples until it is stopped. A database that does not answer is no error:
// some scenarios stop it.
type Sampler struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
	start  time.Time

	mu     sync.Mutex
	usage  []Sample // CPU, Memory
	states []Sample // Busy
}

// startSampling looks at a front and its servers.
func startSampling(ctx context.Context, s *Scene) (*Sampler, error) {
	conn, err := s.Stage.Connect(ctx, stage.Database)
	if err != nil {
		return nil, fmt.Errorf("watching Postgres: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Sampler{cancel: cancel, start: time.Now()}
	p.work.Go(func() { p.watchUsage(ctx, s.Front) })
	p.work.Go(func() { p.watchStates(ctx, conn) })
	return p, nil
}

// restart makes a time the one that all samples count from; those that there are, are
// forgotten.
func (p *Sampler) restart(begin time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.usage, p.states = begin, nil, nil
}

// add notes a sample.
func (p *Sampler) add(list *[]Sample, s Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.At = time.Since(p.start)
	*list = append(*list, s)
}

// watchUsage looks at the process.
func (p *Sampler) watchUsage(ctx context.Context, f *stage.Front) {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		cpu, memory, err := f.Usage()
		if err == nil { // else it is being restarted
			p.add(&p.usage, Sample{CPU: cpu, Memory: memory})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watchStates looks at the servers until Postgres ends or ctx does.
func (p *Sampler) watchStates(ctx context.Context, conn *pgx.Conn) {
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // it has done its work
	tick := time.NewTicker(busyEvery)
	defer tick.Stop()
	for {
		var busy int
		// Only the fronts log in as other roles than these three.
		err := conn.QueryRow(context.WithoutCancel(ctx), `SELECT count(*)::int FROM pg_stat_activity WHERE state <> 'idle'
			AND backend_type = 'client backend' AND usename NOT IN ('postgres', $1, $2)`, stage.Outsider, stage.Control).Scan(&busy)
		if err != nil {
			return
		}
		p.add(&p.states, Sample{Busy: busy})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stop ends the sampling.
func (p *Sampler) stop() {
	p.cancel()
	p.work.Wait()
}

// CPUBetween is the CPU time that the front's process used between two times of the run.
func (p *Sampler) CPUBetween(from, to time.Duration) time.Duration {
	return p.UsageAt(to).CPU - p.UsageAt(from).CPU
}

// UsageAt is the last sample before a time.
func (p *Sampler) UsageAt(at time.Duration) (found Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.usage {
		if s.At > at {
			break
		}
		found = s
	}
	return found
}

// MostBusy is the most servers that were busy at once between two times of the run.
func (p *Sampler) MostBusy(from, to time.Duration) (most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		if s.At >= from && s.At < to {
			most = max(most, s.Busy)
		}
	}
	return most
}

// BusyTime is the time that servers were busy between two times, summed up.
func (p *Sampler) BusyTime(from, to time.Duration) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 1; i < len(p.states); i++ {
		before, now := p.states[i-1], p.states[i]
		if before.At >= from && now.At <= to {
			sum += (now.At - before.At) * time.Duration(before.Busy+now.Busy) / 2
		}
	}
	return sum
}

// RestAfter is how long after a time servers were busy for the last time.
func (p *Sampler) RestAfter(from time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := from
	for _, s := range p.states {
		if s.Busy > 0 {
			last = max(last, s.At)
		}
	}
	return last - from
}
