package admission

import "testing"

// Where there is no server for thousands any more, or the gate drains, they are told a hundred
// at a time, and nobody of them is granted meanwhile, though there is a server after all.
func TestThousandsAreTurnedOutInPieces(t *testing.T) {
	const n = 8*mostEvicted + 5
	for name, c := range map[string]struct {
		out    func(g *Gate, now int64) []Verdict
		reason Reason
	}{
		"no server": {func(g *Gate, now int64) []Verdict { return g.Unsupplied(now, 0, nil) }, NoServer},
		"drain":     {func(g *Gate, now int64) []Verdict { return g.Drain(now, nil) }, Draining},
	} {
		t.Run(name, func(t *testing.T) {
			s := &flat{}
			g := New(Plan{Slots: 4, Workloads: []Workload{{MaxWaiting: 2 * n, MaxWait: 1000 * ms, Patient: true}}}, s, nil)
			for i := range n {
				if i == 3 && c.reason == Draining {
					g.Pause(0, []Key{5})
					g.Admit(0, &Waiter{Key: 5}) // is turned out as well
					continue
				}
				g.Admit(0, &Waiter{Probe: i%50 == 0})
			}
			now := int64(10 * ms)
			out := c.out(g, now)
			stays := &Waiter{Begun: true} // comes later, and has begun
			if v := g.Admit(now, stays); v.Outcome != Queued {
				t.Fatalf("%+v", v)
			}
			s.idle++
			out = g.Supplied(now, 0, out)
			refused, granted := 0, false
			for !granted {
				if len(out) > mostEvicted {
					t.Fatalf("%d verdicts at once", len(out))
				}
				for _, v := range out {
					if v.Outcome == Granted {
						granted = refused == n && v.W == stays
					}
					if v.Outcome == Refused && v.Reason == c.reason && v.W != stays {
						refused++
					} else if !granted {
						t.Fatalf("%+v after %d", v, refused)
					}
				}
				if err := g.Check(); err != nil {
					t.Fatal(err)
				}
				if granted {
					break
				}
				next, more := g.Fire(now, nil)
				if next != now+1 || len(more) > 0 {
					t.Fatalf("after %d: again at %d, not at once, and %d more in the same moment", refused, next, len(more))
				}
				now = next
				_, out = g.Fire(now, nil)
			}
		})
	}
}
