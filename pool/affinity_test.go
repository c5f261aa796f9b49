package pool_test

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// event is something that ends in virtual time.
type event struct {
	at int64
	do func()
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// closedLoop is clients of several roles that send one transaction after the
// other through a world with an ideal database.
type closedLoop struct {
	*world
	rnd     *rand.Rand
	queue   events
	service int64 // mean length of a transaction
	think   int64 // mean pause between two
	login   int64 // length of a login
	fixed   bool  // everything takes its mean
	away    bool  // logins fail, at once
	seen    map[*pool.Server]bool
	busy    map[*session]bool
	served  map[admission.Key]int
}

func (c *closedLoop) after(ns int64, do func()) { heap.Push(&c.queue, event{c.now + max(ns, 1), do}) }

func (c *closedLoop) around(mean int64) int64 {
	if c.fixed {
		return mean
	}
	return int64(float64(mean) * c.rnd.ExpFloat64())
}

// follow schedules what the last calls started.
func (c *closedLoop) follow() {
	for _, sv := range c.dials {
		if !c.seen[sv] {
			c.seen[sv] = true
			takes := c.login
			if c.away {
				takes = ms
			}
			c.after(takes, func() {
				if i := slices.Index(c.dials, sv); i >= 0 {
					c.dialled(i, !c.away, false)
				}
			})
		}
	}
	for _, sv := range c.closing {
		if c.seen[sv] {
			delete(c.seen, sv)
			c.after(2*ms, func() { c.eof(sv) })
		}
	}
	for _, s := range c.sessions {
		if s.server != nil && !c.busy[s] {
			c.busy[s] = true
			sv := s.server
			c.after(c.around(c.service), func() {
				if s.server != sv {
					return // it ended with its server
				}
				c.served[s.w.Key]++
				delete(c.busy, s)
				c.finish(s, false)
				c.again(s)
			})
		}
	}
}

// again lets s send its next transaction after a pause.
func (c *closedLoop) again(s *session) {
	c.after(c.around(c.think), func() {
		c.admit(s, false)
		if !s.waiting && s.server == nil {
			c.again(s) // refused
		}
	})
}

func (c *closedLoop) run(until int64) {
	for _, s := range c.sessions {
		c.again(s)
	}
	for c.now < until && c.problem == nil {
		next := c.fire()
		c.follow()
		if len(c.queue) > 0 && c.queue[0].at <= next {
			e := heap.Pop(&c.queue).(event)
			c.advance(e.at)
			e.do()
			c.follow()
			continue
		}
		c.advance(next)
	}
}

// TestRolesShareServersWithoutThrashing: several roles keep one budget busy.
// Handing every free server to whoever is oldest would spend the time on
// logins; never handing one over would starve the roles that came late.
func TestRolesShareServersWithoutThrashing(t *testing.T) {
	const seconds = 20
	for _, tc := range []struct {
		name           string
		roles, clients int
		budget, slots  int
		service, think int64
		least          float64 // of what the slots or clients could do
		leastShare     float64 // of an equal share, for every role
		mostDials      int
	}{
		{"one role", 1, 60, 10, 10, 10 * ms, ms, 0.97, 1, 11},
		{"three busy roles", 3, 60, 10, 10, 10 * ms, ms, 0.95, 0.5, 80},
		{"three busy roles, fewer slots", 3, 60, 10, 7, 10 * ms, ms, 0.95, 0.5, 50},
		{"more roles than servers", 30, 60, 10, 10, 10 * ms, ms, 0.90, 0.1, 120},
		{"quiet roles beside a busy budget", 8, 8, 10, 10, 10 * ms, 100 * ms, 0.95, 0.7, 12},
		{"a handful too many", 3, 3, 2, 2, ms, ms, 0.5, 0.1, 100},
	} {
		rnd := rand.New(rand.NewPCG(1, 2))
		w := newWorld(admission.Plan{Slots: tc.slots, Workloads: []admission.Workload{{Policy: admission.FIFOGone, MaxWait: 60_000 * ms}}},
			pool.Options{Budget: tc.budget, ConnectParallel: 8}, rnd.Float64, tc.clients, tc.roles)
		c := &closedLoop{
			world: w, rnd: rnd, service: tc.service, think: tc.think, login: 10 * ms, seen: map[*pool.Server]bool{},
			busy: map[*session]bool{}, served: map[admission.Key]int{},
		}
		c.run(seconds * 1000 * ms)
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
		bySlots := float64(tc.slots) / float64(tc.service)
		byClients := float64(tc.clients) / float64(tc.service+tc.think)
		best := min(bySlots, byClients) * seconds * 1e9
		total, least := 0, 1<<30
		for k := range tc.roles {
			n := c.served[admission.Key(k)]
			total, least = total+n, min(least, n)
		}
		share := float64(least) * float64(tc.roles) / float64(total)
		dials := int(w.set.Stats().Dials)
		t.Logf("%s: %d of %.0f, least share %.2f, %d dials, %d moved, %d by force",
			tc.name, total, best, share, dials, w.set.Stats().Moved, w.gate.Stats().Moves)
		if float64(total) < tc.least*best || share < tc.leastShare || dials > tc.mostDials {
			t.Errorf("%s: %d of %.0f, least share %.2f, %d dials", tc.name, total, best, share, dials)
		}
	}
}
