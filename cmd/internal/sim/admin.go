package sim

import (
	"errors"
	"fmt"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// modes is how many modes there are.
const modes = 3

// workloads is one workload for each mode, for roles that may fill the reserve and for
// others. A reload brings new ones: of the same names, or of others, and then the old ones
// keep their places at the gate as long as anybody is in them.
type workloads struct {
	w    *world
	plan []admission.Workload
	base int // where those of now begin in plan
	now  [modes][2]*session.Workload
}

// mostPlans bounds how many workloads there ever are.
const mostPlans = 8 * modes

// draw makes the workloads of a new configuration, renamed or not.
func (l *workloads) draw(rename bool) {
	o, rnd := &l.w.o, l.w.rnd
	if rename && len(l.plan)+modes <= mostPlans {
		l.base += modes
	}
	for i := range l.plan {
		l.plan[i].Share, l.plan[i].Borrow = 0, 1
	}
	for m := range modes {
		p := admission.Workload{
			MaxWait: o.MaxWait, MaxWaiting: o.MaxWaiting, SessionWait: o.MaxWait, NoServerWait: o.MaxWait,
			Share: 1 / float64(modes), Lendable: 1, Borrow: 1, MaxPinned: o.MaxPinned,
		}
		if o.Shares {
			p.Share, p.Lendable, p.Borrow = rnd.Float64()/float64(modes), rnd.Float64(), rnd.Float64()
		}
		if l.base+m == len(l.plan) {
			l.plan = append(l.plan, p)
		} else {
			l.plan[l.base+m] = p
		}
		for reserved := range l.now[m] {
			l.now[m][reserved] = &session.Workload{
				Index: uint16(l.base + m), Name: fmt.Sprint(relay.Mode(m), l.base), Mode: relay.Mode(m), CancelAbandoned: o.Cancel,
				Reserved: reserved == 1, Minimum: o.Minimum, Deadline: o.Deadline,
			}
		}
	}
}

// of finds a client's workload.
func (l *workloads) of(c *client) *session.Workload {
	mode, o := c.mode, &l.w.o
	if o.ByName && c.cl != nil && c.cl.Application() == "two" {
		mode = relay.Mode((int(mode) + 1) % modes)
	}
	if mode == relay.Single && !c.single {
		mode = relay.Transaction // its script has transactions
	}
	reserved := 0
	if l.w.reserved(c.role()) {
		reserved = 1
	}
	return l.now[mode][reserved]
}

// named finds the workload that takes the place of an older one in a group.
func (l *workloads) named(g *session.Group) *session.Workload {
	for _, list := range l.now {
		for reserved, w := range list {
			if w.Name == g.Workload.Name && g.Workload.Reserved == (reserved == 1) {
				return w
			}
		}
	}
	return nil
}

// reserved reports whether a role may fill the reserve.
func (w *world) reserved(role string) bool {
	return w.o.Reserve > 0 && role == fmt.Sprintf("role%d", w.o.Roles-1)
}

// plan is what the gate enforces.
func (w *world) plan() admission.Plan {
	return admission.Plan{
		Slots: w.o.Slots, Connections: w.o.Budget - w.o.Reserve, Extra: w.o.Reserve,
		Workloads: w.loads.plan,
	}
}

func (w *world) poolOptions() pool.Options {
	return pool.Options{
		Budget: w.o.Budget, Reserve: w.o.Reserve,
		ReservedKey:     func(k admission.Key) bool { return w.reserved(w.core.KeyInfo(k).Role) },
		ConnectParallel: 2, ConnectRate: 1000, Lifetime: w.o.Lifetime, IdleTimeout: 3 * w.o.Lifetime, Rand: w.rnd.Float64,
	}
}

// reload puts the options of now into force.
func (w *world) reload(rename bool) {
	w.loads.draw(rename)
	w.core.Regroup()
	w.core.Reconfigure(w.now, w.plan(), w.poolOptions())
	w.core.Treat(w.loads.named)
	w.newRates()
	w.afterHandler()
}

// administer does one of the things that administrators do.
func (w *world) administer() {
	database := ""
	if w.rnd.IntN(2) == 0 {
		database = "db" + w.role(w.rnd.IntN(w.o.Clients))
	}
	meant := func(k *session.KeyInfo) bool { return database == "" || k.Database == database }
	c := w.clients[w.rnd.IntN(len(w.clients))]
	gone := &wire.Error{Severity: "FATAL", Code: "57P01", Message: "pgweir: go"}
	switch w.rnd.IntN(8) {
	case 0:
		w.core.Pause(w.now, database)
		w.after(w.delay(30_000_000), w.resume)
	case 1:
		w.core.Reconnect(w.now, meant)
	case 2, 3:
		w.o.Budget = 1 + w.o.Reserve + w.rnd.IntN(4)
		w.o.Slots = 1 + w.rnd.IntN(w.o.Budget-w.o.Reserve)
		w.reload(w.rnd.IntN(3) == 0)
	case 4: // other modes for some
		for _, c := range w.clients {
			if w.o.Modes && w.rnd.IntN(2) == 0 {
				c.mode = relay.Mode(w.rnd.IntN(modes))
			}
		}
		w.reload(w.rnd.IntN(2) == 0)
	case 5:
		w.core.Pause(w.now, database)
		for _, c := range w.clients {
			if c.cl != nil && meant(c.cl.Info()) {
				c.cl.Kill(gone, session.Killed, w.now)
			}
		}
		w.core.KillServers(w.now, meant)
		w.after(w.delay(30_000_000), w.resume)
	case 6:
		if c.cl != nil {
			c.cl.Kill(gone, session.Killed, w.now)
		}
	case 7:
		if c.cl != nil {
			c.departs = true
			c.cl.Depart(w.now, gone, session.Killed)
		}
	}
	w.afterHandler()
}

// resume ends every pause.
func (w *world) resume() {
	w.core.Resume(w.now, "")
	w.afterHandler()
}

// drain is SIGTERM.
func (w *world) drain() {
	w.draining = true
	w.core.Drain(w.now, func(yield func(*session.Client)) {
		for _, c := range w.clients {
			if c.cl != nil {
				yield(c.cl)
			}
		}
	})
	w.afterHandler()
}

// inspectEvery is how many turns go by between two inspections.
const inspectEvery = 16

// inspect looks now and then whether everything adds up in the middle of things.
func (w *world) inspect() {
	w.turns++
	if w.turns%inspectEvery != 0 || w.fault != nil {
		return
	}
	if err := w.core.Check(); err != nil {
		w.fail(fmt.Errorf("permits: %w", err))
	}
	waiting := 0
	for _, c := range w.clients {
		if c.cl == nil || c.ended {
			continue
		}
		if c.cl.State() == session.Waiting {
			waiting++
		}
		if (w.draining || c.departs) && c.cl.State() == session.Idle && !c.cl.InTransaction() && !c.conn.resumed {
			w.fail(fmt.Errorf("client %d is idle and should have been sent away: %s", c.id, c.cl))
		}
	}
	if n := w.core.Gate().Waiting(); n != waiting {
		w.fail(fmt.Errorf("%d clients wait, the gate knows %d", waiting, n))
	}
	if w.core.Clients() < 0 {
		w.fail(errors.New("fewer sessions than none"))
	}
	inGroups := 0
	for _, g := range w.core.Groups() {
		inGroups += g.Clients
	}
	if inGroups != w.core.Clients() {
		w.fail(fmt.Errorf("%d clients in groups, %d sessions", inGroups, w.core.Clients()))
	}
}

// Group implements session.Env.
func (w *world) Group(cl *session.Client) *session.Group {
	c := cl.Tag.(*client)
	return w.core.Group(cl.Info(), cl.Info().Database, cl.Info().Role, w.loads.of(c))
}
