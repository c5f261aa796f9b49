package main

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/config"
)

// How a Postgres is asked what budget = "auto" is worked out from.
const (
	askTimeout  = 5 * time.Second
	askInterval = 500 * time.Millisecond // between two tries while nothing is known
	// Once it is known it is asked again, at first soon: at the start it may have been
	// full of the connections of a pgweir that was about to end.
	askAgainFirst = 15 * time.Second
	askAgainMost  = 10 * time.Minute
)

// askUpstreams starts to ask the upstreams whose budget is "auto" and not known. The
// caller holds mu.
func (g *guard) askUpstreams() {
	known := g.factsFor(g.config)
	for i := range g.config.Upstreams {
		u := g.config.Upstreams[i]
		if _, ok := known[u.Name]; !ok && u.Budget.IsAuto() && g.asked[u.Name] != u.URL.Reveal() {
			g.asked[u.Name] = u.URL.Reveal()
			delete(g.facts, u.Name)
			g.work.Go(func() { g.askUntilKnown(u) })
		}
	}
}

// askUntilKnown asks one upstream until it answers, and puts the budget that follows into
// force.
func (g *guard) askUntilKnown(u config.Upstream) {
	for told := false; g.end.Err() == nil; {
		facts, err := g.ask(g.end, &u)
		if err == nil {
			g.learn(&u, facts, always)
			return
		}
		if !told {
			g.log.Warn(`Postgres does not say how many connections it has: budget = "auto" is small until it does`, "upstream", u.Name, "error", err)
			told = true
		}
		if !g.pause(askInterval) || !g.current(&u) {
			return
		}
	}
}

// pause lets time pass, and reports whether the process goes on.
func (g *guard) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.end.Done():
		return false
	case <-t.C:
		return true
	}
}

// current reports whether an upstream is still where it was when it was asked.
func (g *guard) current(u *config.Upstream) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[u.Name] == u.URL.Reveal()
}

// keepAsking asks the upstreams whose budget is "auto" from time to time whether there is
// more room than at the start.
func (g *guard) keepAsking() {
	for wait := askAgainFirst; g.pause(wait); wait = min(2*wait, askAgainMost) {
		g.askAgain(g.end, whenMore)
	}
}

// askAgain asks the upstreams that have answered before.
func (g *guard) askAgain(ctx context.Context, when condition) {
	g.mu.Lock()
	known := g.factsFor(g.config)
	list := g.config.Upstreams
	g.mu.Unlock()
	for i := range list {
		u := &list[i]
		if _, ok := known[u.Name]; !ok || !u.Budget.IsAuto() {
			continue
		}
		facts, err := g.ask(ctx, u)
		if err != nil {
			g.log.Debug("not asked for its limits", "upstream", u.Name, "error", err)
			continue
		}
		g.learn(u, facts, when)
	}
}

// condition says when a new budget counts, by the old and the new one.
type condition func(before, after int) bool

func always(before, after int) bool { return before != after }

// whenMore keeps a budget from going up and down with what others happen to use: it only
// grows by itself, and a reload works it out anew.
func whenMore(before, after int) bool { return after > before }

// learn puts an upstream's own facts into force, if the budget changes by them in a way that
// counts.
func (g *guard) learn(u *config.Upstream, facts config.Facts, when condition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked[u.Name] != u.URL.Reveal() {
		return // a reload has sent it elsewhere
	}
	before := g.connections(u.Name)
	old, known := g.facts[u.Name]
	g.facts[u.Name] = facts
	if known && !when(before, g.connections(u.Name)) {
		g.facts[u.Name] = old
		return
	}
	s, err := settings(g.config, g.factsFor(g.config))
	if err != nil {
		g.log.Error("budget not applied", "upstream", u.Name, "error", err)
		return
	}
	logBudgets(g.log, g.config, g.facts)
	if err := g.Apply(g.end, s); err != nil {
		g.log.Debug("budget not applied", "error", err)
	}
}

// connections is the budget of an upstream by what is known now. The caller holds mu.
func (g *guard) connections(name string) int {
	for i := range g.config.Upstreams {
		if g.config.Upstreams[i].Name == name {
			return budgetOf(g.config, i, g.facts).Connections
		}
	}
	return 0
}

// ask asks an upstream what budget = "auto" is worked out from.
func (g *guard) ask(ctx context.Context, u *config.Upstream) (config.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	o := hostOptions(u)
	o.Log = g.log
	r := upstream.Request{Database: u.URL.Database, Role: u.URL.User, Passwords: upstream.Fixed(u.URL.Password.Reveal())}
	var f upstream.Facts
	var err error
	ask := func() { f, err = upstream.New(o).Ask(ctx, r, g.own(ctx, u.Name)...) }
	if g.Proxy == nil {
		ask()
	} else if busy := g.WithOwnConn(ctx, u.Name, ask); busy != nil {
		err = busy
	}
	if err != nil {
		return config.Facts{}, err
	}
	return config.Facts{
		MaxConnections: f.MaxConnections, SuperuserReserved: f.SuperuserReserved, ReservedConnections: f.ReservedConnections,
		OtherBackends: f.OtherBackends, RoleLimit: f.RoleLimit,
	}, nil
}

// own is the backends of this process on an upstream: none before it runs.
func (g *guard) own(ctx context.Context, name string) (list []uint32) {
	if g.Proxy == nil {
		return nil
	}
	servers, err := g.Servers(ctx)
	if err != nil {
		return nil // it ends
	}
	for i := range servers {
		if sv := &servers[i]; sv.Upstream == name && sv.PID != 0 {
			list = append(list, sv.PID)
		}
	}
	return list
}
