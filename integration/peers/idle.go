package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"

	"golang.org/x/sync/errgroup"
)

const (
	// logins is how many clients log in at once: below every contender's bounds.
	logins = 16
	// spareDescriptors are what a pooler and we need beside the clients' connections.
	spareDescriptors = 300
	// idleAnswer is how long an idle client waits for an answer before it rests.
	idleAnswer = time.Minute
)

// measureIdle lets many clients log in, run something and stay, with a fresh pooler each
// time: what was grown once is seldom given back.
func measureIdle(ctx context.Context, l *lab, e *experiment) error {
	if err := enoughDescriptors(l.idleClients); err != nil {
		return err
	}
	for round := range l.roundsOr(1) {
		for _, statements := range l.statements {
			for i := range l.contenders {
				c := l.contenders[(i+round)%len(l.contenders)]
				if c.kind.name == "postgres" {
					continue
				}
				l.progress("idle: %d clients of %s, %d prepared statements each", l.idleClients, c.label, statements)
				p, err := l.begin(ctx, c, l.cluster.Endpoint, nil)
				if err == nil {
					err = l.sampleIdle(ctx, e, p, statements)
				}
				l.endPoolers()
				if err != nil {
					return fmt.Errorf("%s: %w", c.label, err)
				}
			}
		}
	}
	return nil
}

// sampleIdle measures one fresh pooler.
func (l *lab) sampleIdle(ctx context.Context, e *experiment, p *pooler, statements int) error {
	// All servers are opened, and each statement's text is known, before memory is read.
	if _, err := l.pgbench(ctx, p, bench{mode: "simple", clients: 2 * slots, threads: 1}, warmUp); err != nil {
		return err
	}
	if err := p.visit(0, statements); err != nil {
		return err
	}
	if err := pause(ctx, l.rest); err != nil {
		return err
	}
	before, err := child.RSS(p.proc.PID())
	if err != nil {
		return err
	}
	clients, err := p.fill(ctx, l.idleClients, statements)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.close()
			}
		}
	}()
	if err != nil {
		return err
	}
	if err := pause(ctx, l.rest); err != nil {
		return err
	}
	after, err := child.RSS(p.proc.PID())
	if err != nil {
		return err
	}
	cell := fmt.Sprintf("prepared statements %d", statements)
	e.add(cell, memoryPerClient, p.label, float64(after-before)/1000/float64(l.idleClients))
	e.add(cell, "memory MB in all", p.label, float64(after)/megabyte)
	return l.sampleRest(ctx, e, p, cell)
}

// sampleRest counts what the pooler does while nobody wants anything.
func (l *lab) sampleRest(ctx context.Context, e *experiment, p *pooler, cell string) error {
	wakeups0, err := child.Wakeups(p.proc.PID())
	if err != nil {
		return err
	}
	cpu0, err := p.cpu()
	if err != nil {
		return err
	}
	if err := pause(ctx, l.rest); err != nil {
		return err
	}
	cpu1, err := p.cpu()
	if err != nil {
		return err
	}
	wakeups1, err := child.Wakeups(p.proc.PID())
	if err != nil {
		return err
	}
	e.add(cell, idleWakeups, p.label, float64(wakeups1-wakeups0))
	e.add(cell, "CPU us in rest", p.label, microseconds(cpu1-cpu0))
	return nil
}

// fill logs in n clients, each of which runs a query and its prepared statements once. It
// returns those that got in also with an error.
func (p *pooler) fill(ctx context.Context, n, statements int) ([]*client, error) {
	clients := make([]*client, n)
	g, ctx := errgroup.WithContext(ctx)
	for worker := range logins {
		g.Go(func() error {
			for i := worker; i < n; i += logins {
				if err := ctx.Err(); err != nil {
					return err
				}
				c, err := p.settle(i, statements)
				if err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
				clients[i] = c
			}
			return nil
		})
	}
	return clients, g.Wait()
}

// visit is a client that does what the others do, and goes.
func (p *pooler) visit(i, statements int) error {
	c, err := p.settle(i, statements)
	if err == nil {
		c.close()
	}
	return err
}

// settle is one client's work. The statements' texts are the same for all clients, as in
// the processes of one application.
func (p *pooler) settle(i, statements int) (*client, error) {
	from, err := localAddress(i)
	if err != nil {
		return nil, err
	}
	c, err := p.dial(from, idleAnswer)
	if err != nil {
		return nil, err
	}
	err = c.query("SELECT 1")
	for s := 0; s < statements && err == nil; s++ {
		err = c.prepared(fmt.Sprintf("statement_%d", s), fmt.Sprintf("SELECT abalance FROM pgbench_accounts WHERE aid = %d", s))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// enoughDescriptors compares the limit, which the poolers inherit, with the clients.
func enoughDescriptors(clients int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(clients + spareDescriptors); limit.Cur < need {
		return fmt.Errorf("%d clients need %d descriptors, the limit is %d: `ulimit -n` first, or fewer -idle-clients", clients, need, limit.Cur)
	}
	return nil
}
