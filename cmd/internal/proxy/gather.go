package proxy

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// sliceSize bounds the keys, groups or sessions that are looked at in one turn of the loop: a
// snapshot of thousands must not hold up anybody's transaction.
const sliceSize = 1024

// workloadsPerTurn bounds the workloads that are looked at in one turn: each is some kilobytes.
const workloadsPerTurn = 32

// facts are what a snapshot is made of: copies of what the loop owns.
type facts struct {
	at        time.Time
	s         *plan.Settings
	refusals  []state.RefusalCount
	upstreams []*upstreamFacts
}

// upstreamFacts are those of one upstream.
type upstreamFacts struct {
	up        *cluster
	u         *plan.Upstream
	state     state.Upstream
	gate      admission.Totals
	loads     []admission.WorkloadStats // the gate's list
	now       int64                     // when the gate was last asked
	workloads []plan.Workload
	index     []int      // of these in the gate's list; -1 = it has not heard of it
	keys      []keyFacts // by key
	roles     []session.RoleStats
	groups    []session.Group
	paused    session.Pauses

	wantLoads, wantKeys, wantGroups int
}

// keyFacts are those of a database and role.
type keyFacts struct {
	database, role string
	failure        string
	failedAt       time.Time
	servers        pool.KeyStats
	paused, down   bool
	cancelled      int // servers held back
	waiting        int
	oldest         time.Duration
}

// onLoop runs a function on the loop thread, as [Proxy.do] does.
type onLoop func(ctx context.Context, f func(now int64)) error

// slices calls f in one turn of the loop after the other while it reports that there is more.
func (do onLoop) slices(ctx context.Context, f func(now int64) (more bool)) error {
	for more := true; more; {
		if err := do(ctx, func(now int64) { more = f(now) }); err != nil {
			return err
		}
	}
	return nil
}

// gather collects the facts, a slice in each turn of the loop. out gets what needs no more
// work.
func (px *Proxy) gather(ctx context.Context, do onLoop, out *state.Snapshot) (*facts, error) {
	f := &facts{}
	if err := do(ctx, func(now int64) { f.begin(px, now, out) }); err != nil {
		return nil, err
	}
	for _, r := range f.upstreams {
		if err := r.gather(ctx, do); err != nil {
			return nil, err
		}
	}
	return f, nil
}

func (r *upstreamFacts) gather(ctx context.Context, do onLoop) error {
	if err := do(ctx, r.begin); err != nil {
		return err
	}
	// Not on the loop thread: it is much memory.
	r.loads = make([]admission.WorkloadStats, 0, r.wantLoads)
	r.keys, r.groups = make([]keyFacts, 0, r.wantKeys), make([]session.Group, 0, r.wantGroups)
	r.roles = make([]session.RoleStats, 0, min(r.wantKeys, r.wantGroups)) // or some more
	for _, f := range []func(int64) bool{r.someWorkloads, r.someKeys, r.someGroups, r.someRoles} {
		if err := do.slices(ctx, f); err != nil {
			return err
		}
	}
	admission.Lend(r.loads)
	for i := range r.loads {
		w := &r.loads[i]
		r.state.MaxWait = max(r.state.MaxWait, r.since(w.Waiting > 0, w.Oldest))
	}
	if r.gate.Waiting == 0 {
		return nil
	}
	at := 0
	return do.slices(ctx, func(now int64) (more bool) {
		at, more = r.someWaiters(now, at)
		return more
	})
}

// begin takes what there is once. Loop thread.
func (f *facts) begin(px *Proxy, now int64, out *state.Snapshot) {
	f.at, f.s = time.Now(), px.settings.Load()
	out.Now = f.at
	for _, up := range px.upstreams {
		if !up.forgotten() {
			f.upstreams = append(f.upstreams, &upstreamFacts{up: up})
		}
	}
	for r, n := range px.endings {
		if n > 0 {
			out.Ended = append(out.Ended, state.Count{Label: session.Reason(r).String(), N: n})
		}
	}
	f.refusals = px.refusals.Kinds(now, f.at)
	px.rateFacts(now, f.at, out)
	out.Loop = px.loop.Stats()
	t := px.shared.Statements
	n, free := len(px.sessions.slots), len(px.sessions.free)
	out.Memory = append(out.Memory,
		state.Memory{Name: "statements", Used: t.Len(), Bytes: t.Bytes()},
		state.Memory{Name: "sessions", Size: 8, Used: n - free, Free: free, Bytes: 8 * n},
	)
}

// begin takes what there is once of an upstream. Loop thread.
func (r *upstreamFacts) begin(now int64) {
	up := r.up
	u, co := up.o.Load(), up.core
	set, gate, c := co.Set().Stats(), co.Gate().Totals(), co.Counts()
	r.paused = co.Pauses()
	r.u, r.gate, r.now, r.workloads = u, gate, now, up.px.settings.Load().Workloads
	r.state = state.Upstream{
		Name: up.name, Host: up.place.Address, Budget: u.Budget, BudgetSum: u.BudgetSum, Reserve: u.Reserve,
		Slots: u.Slots, Running: gate.Running, Waiting: gate.Waiting, Paused: co.AnyPaused(),
		Dialling: set.Dialling, Idle: set.Idle, Active: set.Busy, Closing: set.Closing, Cancelling: set.Held,
		Logins: set.Dials, LoginFailures: set.Failures, Moved: set.Moved, IdledOut: set.TimedOut, Outlived: set.Outlived,
		Cancels: c.Cancels, Abandoned: c.Abandoned, Broken: c.Broken, Cleaned: c.Cleaned, Replanned: c.Replanned,
		CancelsEffective: c.CancelsEffective, CancelsLate: c.CancelsLate,
	}
	r.state.Replicating, r.state.Replications = len(up.seats.list)-up.seats.waiting, up.replications
	r.state.Names, r.state.Lookups = up.nameStates(now), up.naming.lookups
	r.index = make([]int, len(r.workloads))
	for i := range r.workloads {
		r.index[i] = -1 // it came after the configuration has lost the upstream
		if at, known := up.index[r.workloads[i].Name]; known {
			r.index[i] = int(at)
		}
	}
	r.meta()
	r.wantLoads, r.wantKeys, r.wantGroups = co.Gate().Workloads(), len(co.Keys()), len(co.Groups())
}

// someWorkloads takes the next workloads. Loop thread.
func (r *upstreamFacts) someWorkloads(now int64) (more bool) {
	r.now = now
	end := min(len(r.loads)+workloadsPerTurn, r.wantLoads)
	for i := len(r.loads); i < end; i++ {
		r.loads = append(r.loads, r.up.core.Gate().Workload(i))
	}
	return end < r.wantLoads
}

// someRoles takes what the next roles have asked for. Loop thread.
func (r *upstreamFacts) someRoles(now int64) (more bool) {
	from := len(r.roles)
	r.roles = r.up.core.Roles(now, r.roles, from, sliceSize)
	for i := range r.roles[from:] {
		s := &r.roles[from+i]
		r.state.Demoted += s.Demoted
		r.state.Capped += s.Capped
		for t, n := range s.Stopped {
			r.state.Stopped[t] += n
		}
	}
	return len(r.roles) == from+sliceSize
}

// meta takes what could not be understood of requests. Loop thread.
func (r *upstreamFacts) meta() {
	m := r.up.core.MetaCounts()
	r.state.Tenants, r.state.SharedTenants = m.Tenants, m.Shared
	for key, n := range m.Unknown {
		if n > 0 {
			r.state.UnknownTags = append(r.state.UnknownTags, state.Count{Label: sqltext.TagKey(key).String(), N: n})
		}
	}
}

// someKeys takes the next keys. Loop thread.
func (r *upstreamFacts) someKeys(now int64) (more bool) {
	co := r.up.core
	set := co.Set()
	end := min(len(r.keys)+sliceSize, r.wantKeys)
	for _, k := range co.Keys()[len(r.keys):end] {
		f := keyFacts{database: k.Database, role: k.Role, servers: set.Key(k.Key), paused: co.Paused(k), down: set.Down(k.Key)}
		if e, at := k.Failure(); e != nil {
			f.failure, f.failedAt = e.Message, state.TimeOfDay(at, now, time.Now())
		}
		r.keys = append(r.keys, f)
	}
	if end < r.wantKeys {
		return true
	}
	if r.state.Cancelling > 0 {
		for _, p := range set.Servers(nil) {
			if p.Held() && int(p.Key) < len(r.keys) {
				r.keys[p.Key].cancelled++
			}
		}
	}
	return false
}

// someGroups takes the next groups. Loop thread.
func (r *upstreamFacts) someGroups(int64) (more bool) {
	end := min(len(r.groups)+sliceSize, r.wantGroups)
	for _, g := range r.up.core.Groups()[len(r.groups):end] {
		r.groups = append(r.groups, *g)
	}
	return end < r.wantGroups
}

// someWaiters looks at the next sessions, from the place at on, for those that wait. Loop
// thread.
func (r *upstreamFacts) someWaiters(now int64, at int) (next int, more bool) {
	list := r.up.px.sessions.slots
	next = min(at+sliceSize, len(list))
	for _, cl := range list[min(at, next):next] {
		if cl == nil || cl.Core() != r.up.core || cl.State() != session.Waiting {
			continue
		}
		if k := int(cl.Info().Key); k < len(r.keys) {
			r.keys[k].waiting++
			r.keys[k].oldest = max(r.keys[k].oldest, time.Duration(now-cl.Requested()))
		}
	}
	return next, next < len(list)
}
