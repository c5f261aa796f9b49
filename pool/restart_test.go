package pool_test

import (
	"math/rand/v2"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// crash ends every server, and with it what runs there; the clients come again
// at once.
func (c *closedLoop) crash() {
	for _, sv := range c.set.Servers(nil) {
		s := c.owner[sv]
		delete(c.seen, sv)
		c.lost(sv, true)
		if s != nil {
			delete(c.busy, s)
			c.again(s)
		}
	}
}

// TestNobodyIsRefusedForARestart: 400 clients at ten slots of 10 ms each need
// 400 ms for a round. When pgweir starts, or Postgres comes back, servers have to
// be opened first, and everybody stands there at once. Nobody is refused whom
// waiting would have served.
func TestNobodyIsRefusedForARestart(t *testing.T) {
	for _, tc := range []struct {
		name          string
		login, wait   int64
		crash, repair int64 // when Postgres goes away and comes back; 0 = never
	}{
		{"cold start", 50 * ms, 2000 * ms, 0, 0},
		{"cold start, little patience", 50 * ms, 500 * ms, 0, 0},
		{"cold start, logins longer than patience", 600 * ms, 500 * ms, 0, 0},
		{"restart of Postgres", 50 * ms, 2000 * ms, 1000 * ms, 2200 * ms},
		{"restart of Postgres, little patience", 50 * ms, 500 * ms, 1000 * ms, 2200 * ms},
		{"restart of Postgres just within no_server_wait", 50 * ms, 500 * ms, 1000 * ms, 2450 * ms},
		{"crash without a pause, little patience", 300 * ms, 500 * ms, 1000 * ms, 1000 * ms},
	} {
		rnd := rand.New(rand.NewPCG(3, 4))
		w := newWorld(admission.Plan{Slots: 10, Workloads: []admission.Workload{{MaxWait: tc.wait, NoServerWait: 2000 * ms}}},
			pool.Options{Budget: 10, ConnectParallel: 8}, rnd.Float64, 400, 1)
		c := &closedLoop{
			world: w, rnd: rnd, service: 10 * ms, login: tc.login, fixed: true, seen: map[*pool.Server]bool{},
			busy: map[*session]bool{}, served: map[admission.Key]int{},
		}
		if tc.crash > 0 {
			c.after(tc.crash, func() {
				c.away = tc.repair > tc.crash
				c.crash()
			})
			c.after(tc.repair, func() { c.away = false })
		}
		c.run(3500 * ms)
		if err := w.check(); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		st := w.gate.Stats()
		if w.refused > 0 || c.served[0] < 1000 {
			t.Errorf("%s: %d refused (%v), %d served", tc.name, w.refused, st.Refused, c.served[0])
		}
	}
}
