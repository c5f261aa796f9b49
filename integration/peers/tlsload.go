package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/wire/scram"
)

// cpuPerLogin has a goal of its own nowhere, but two experiments have it.
const cpuPerLogin = "CPU us/login"

// loginBound is how long a login may take in a storm of them.
const loginBound = 30 * time.Second

// secureSite is where clients encrypt, with a key of the kind.
func (l *lab) secureSite(kind certs.Kind) (site, error) {
	s := site{upstream: l.cluster.Endpoint}
	dir, err := os.MkdirTemp(l.dir, "certs-")
	if err != nil {
		return s, err
	}
	ca, err := certs.New(dir, "ca")
	if err != nil {
		return s, err
	}
	pair, err := ca.Issue("server", certs.Options{Kind: kind})
	if err != nil {
		return s, err
	}
	for file, text := range map[string]*string{pair.CertFile: &s.cert, pair.KeyFile: &s.key} {
		b, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			return s, err
		}
		*text = string(b)
	}
	return s, nil
}

// withPassword has clients prove the password.
func (s site) withPassword() (site, error) {
	keys, err := scram.Derive(password, []byte(salt), scram.DefaultIterations)
	if err != nil {
		return s, err
	}
	v, err := scram.NewVerifier(password, []byte(salt), scram.DefaultIterations)
	if err != nil {
		return s, err
	}
	s.keys, s.verifier = &keys, v.String()
	return s, nil
}

// beginSecure starts every contender before the site; clients encrypt.
func (l *lab) beginSecure(ctx context.Context, s site) ([]*pooler, error) {
	var all []*pooler
	for _, c := range l.contenders {
		if c.kind.name == "odyssey" || c.kind.name == "postgres" {
			return nil, fmt.Errorf("%s is not set up for TLS here", c.label)
		}
		p, err := l.beginWith(ctx, c, s, nil)
		if err != nil {
			return nil, err
		}
		p.secure, p.SSLMode = true, "require"
		all = append(all, p)
	}
	return all, nil
}

// measureTLS is measureCPU with clients that encrypt.
func measureTLS(ctx context.Context, l *lab, e *experiment) error {
	s, err := l.secureSite(certs.ECDSA)
	if err != nil {
		return err
	}
	poolers, err := l.beginSecure(ctx, s)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	return l.cpuCells(ctx, e, poolers)
}

// largeStatement is the size of the one statement that is large, in bytes.
const largeStatement = 64 << 10

// measureTLSIdle is the memory of clients that encrypt: after small queries, and after each
// has sent one large one.
func measureTLSIdle(ctx context.Context, l *lab, e *experiment) error {
	if err := enoughDescriptors(l.idleClients); err != nil {
		return err
	}
	s, err := l.secureSite(certs.ECDSA)
	if err != nil {
		return err
	}
	for range l.roundsOr(1) {
		for _, c := range l.contenders {
			l.progress("tlsidle: %d clients of %s", l.idleClients, c.label)
			p, err := l.beginWith(ctx, c, s, nil)
			if err == nil {
				p.secure, p.SSLMode = true, "require"
				err = l.sampleTLSIdle(ctx, e, p)
			}
			l.endPoolers()
			if err != nil {
				return fmt.Errorf("%s: %w", c.label, err)
			}
		}
	}
	return nil
}

func (l *lab) sampleTLSIdle(ctx context.Context, e *experiment, p *pooler) error {
	if _, err := l.pgbench(ctx, p, bench{mode: "simple", clients: 2 * slots, threads: 1}, warmUp); err != nil {
		return err
	}
	rss := func() (int64, error) {
		if err := pause(ctx, l.rest); err != nil {
			return 0, err
		}
		return child.RSS(p.proc.PID())
	}
	before, err := rss()
	if err != nil {
		return err
	}
	clients, err := p.fill(ctx, l.idleClients, 0)
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
	note := func(cell string) error {
		after, err := rss()
		if err == nil {
			e.add(cell, memoryPerClient, p.label, float64(after-before)/1000/float64(l.idleClients))
		}
		return err
	}
	if err := note("small queries"); err != nil {
		return err
	}
	if err := l.sampleRest(ctx, e, p, "small queries"); err != nil {
		return err
	}
	large := "SELECT length('" + strings.Repeat("x", largeStatement) + "')"
	for _, c := range clients {
		if err := c.query(large); err != nil {
			return err
		}
	}
	if err := note("after one of 64 kB"); err != nil {
		return err
	}
	for _, c := range clients { // whatever was kept may be of use, or go
		if err := c.query("SELECT 1"); err != nil {
			return err
		}
	}
	return note("and a small one again")
}

// loginClients is how many log in at once, in a loop.
const loginClients = 8

// beginLogins starts the poolers with a key of a kind, and passwords to be asked for.
func (l *lab) beginLogins(ctx context.Context, kind certs.Kind) ([]*pooler, error) {
	s, err := l.secureSite(kind)
	if err == nil {
		s, err = s.withPassword()
	}
	if err != nil {
		return nil, err
	}
	return l.beginSecure(ctx, s)
}

// measureLogins is what a login over TLS with SCRAM costs, by kind of the server's key.
func measureLogins(ctx context.Context, l *lab, e *experiment) error {
	for _, kind := range []certs.Kind{certs.ECDSA, certs.RSA} {
		poolers, err := l.beginLogins(ctx, kind)
		if err != nil {
			return err
		}
		cell := fmt.Sprintf("TLS, SCRAM, %s", kind)
		l.progress("login: %s", cell)
		err = l.inTurns(ctx, l.roundsOr(5), poolers, func(_ int, p *pooler) error { return l.sampleLogins(ctx, e, p, cell) })
		l.endPoolers()
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) sampleLogins(ctx context.Context, e *experiment, p *pooler, cell string) error {
	before, err := p.cpu()
	if err != nil {
		return err
	}
	stop := storm(p, loginClients)
	if err := pause(ctx, l.duration); err != nil {
		return errors.Join(err, stop.end())
	}
	err = stop.end()
	after, cpuErr := p.cpu()
	if err := errors.Join(err, cpuErr); err != nil {
		return err
	}
	n := stop.done.Load()
	if n == 0 {
		return errors.New("nobody has logged in")
	}
	each := microseconds(after-before) / float64(n)
	e.add(cell, cpuPerLogin, p.label, each)
	e.add(cell, "logins/s and core", p.label, 1e6/each)
	e.add(cell, "logins/s here", p.label, float64(n)/l.duration.Seconds())
	return nil
}

// stormOf is clients that log in and leave, over and over.
type stormOf struct {
	over atomic.Bool
	done atomic.Int64
	wg   sync.WaitGroup
	mu   sync.Mutex
	err  error
}

// storm begins with n clients at once.
func storm(p *pooler, n int) *stormOf {
	s := &stormOf{}
	for i := range n {
		s.wg.Go(func() {
			for at := i; !s.over.Load(); at += n {
				if err := s.one(p, at); err != nil {
					s.mu.Lock()
					s.err = errors.Join(s.err, err)
					s.mu.Unlock()
					return
				}
			}
		})
	}
	return s
}

func (s *stormOf) one(p *pooler, at int) error {
	from, err := localAddress(at)
	if err != nil {
		return err
	}
	c, err := p.dial(from, loginBound)
	if err != nil {
		return err
	}
	s.done.Add(1)
	_ = c.send(&pgproto3.Terminate{}) // the connection is given up either way
	return c.conn.Close()
}

// end waits for the logins that are under way.
func (s *stormOf) end() error {
	s.over.Store(true)
	s.wg.Wait()
	return s.err
}

// stormClients is how many log in at once in a storm.
const stormClients = 64

// measureStorm tells what the latency of small transactions is while many others log in.
func measureStorm(ctx context.Context, l *lab, e *experiment) error {
	poolers, err := l.beginLogins(ctx, certs.ECDSA)
	if err != nil {
		return err
	}
	defer l.endPoolers()
	l.login.Password = password
	defer func() { l.login.Password = "" }()
	b := bench{mode: "simple", clients: l.mixedClients, threads: 1, rate: stormRate}
	for _, p := range poolers {
		if _, err := l.pgbench(ctx, p, bench{mode: "simple", clients: slots, threads: 1}, warmUp); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
	}
	rounds := l.roundsOr(5)
	l.progress("storm: %d clients with %d transactions a second, %d rounds of twice %v", l.mixedClients, stormRate, rounds, l.duration)
	return l.inTurns(ctx, rounds, poolers, func(_ int, p *pooler) error {
		if err := l.sampleLatency(ctx, e, p, "alone", b); err != nil {
			return err
		}
		cell := fmt.Sprintf("while %d log in", stormClients)
		others, began := storm(p, stormClients), time.Now()
		err := l.sampleLatency(ctx, e, p, cell, b)
		n, took := others.done.Load(), time.Since(began)
		if err := errors.Join(err, others.end()); err != nil {
			return err
		}
		e.add(cell, "logins/s", p.label, float64(n)/took.Seconds())
		return nil
	})
}

// stormRate is a load that leaves the machine room for a storm, in transactions per second.
const stormRate = 1000
