package admission

import "testing"

// TestCheckFindsDamage: a check that accepts everything checks nothing.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(*Gate, *line){
		"count":      func(_ *Gate, l *line) { l.n++ },
		"age":        func(_ *Gate, l *line) { l.age++ },
		"role heap":  func(_ *Gate, l *line) { l.ranks[1].parkedRoles.items = nil },
		"tail":       func(_ *Gate, l *line) { l.ranks[1].tail = l.ranks[1].head },
		"order":      func(_ *Gate, l *line) { l.ranks[1].tail.seq = 0 },
		"gate":       func(_ *Gate, l *line) { l.ranks[1].tail.gate = nil },
		"link":       func(_ *Gate, l *line) { l.ranks[1].tail.places[mainLine].prev = nil },
		"tenant":     func(_ *Gate, l *line) { l.ranks[1].tail.sub = nil },
		"work":       func(_ *Gate, l *line) { l.ranks[1].work++ },
		"roles":      func(_ *Gate, l *line) { l.ranks[1].active++ },
		"fresh":      func(_ *Gate, l *line) { l.ranks[1].fresh++ },
		"sub count":  func(_ *Gate, l *line) { l.ranks[1].tail.sub.n++ },
		"role count": func(_ *Gate, l *line) { l.ranks[1].tail.sub.tenant.role.waiting++ },
		"late": func(g *Gate, l *line) {
			l.ranks[1].tail.late = 1
			g.late.put(l.ranks[1].tail, true)
			g.late.items = nil
		},
		"flow":       func(_ *Gate, l *line) { l.ranks[1].tail.flows[mainLine] = l.ranks[1].head.flows[mainLine] },
		"workload":   func(_ *Gate, l *line) { l.ranks[1].tail.Workload = 0 },
		"flow count": func(g *Gate, _ *line) { g.keys[0].flows.n++ },
		"flow link":  func(g *Gate, _ *line) { g.keys[0].flows.last.places[ofFlow+mainLine].prev = nil },
		"flow name":  func(g *Gate, _ *line) { delete(g.flows, g.keys[0].flows.name) },
		"flow list":  func(g *Gate, _ *line) { g.keys[0].flows.prev = g.keys[0].flows },
		"flow heap": func(_ *Gate, l *line) {
			o := l.ranks[1].parkedRoles.items[0]
			o.parked.items = append(o.parked.items, l.ranks[1].head.flows[mainLine])
		},
		"unserved":    func(g *Gate, _ *line) { g.keys[1].dry = false },
		"side used":   func(g *Gate, _ *line) { g.side[slots].used++ },
		"side sums":   func(g *Gate, _ *line) { g.side[slots].kept++ },
		"side heap":   func(g *Gate, _ *line) { g.side[slots].dry.items = nil },
		"line heap":   func(_ *Gate, l *line) { l.inOpen = 3 },
		"line used":   func(_ *Gate, l *line) { l.used = -1 },
		"lane":        func(g *Gate, _ *line) { g.side[probes].used, g.lanes[probes].used = 1, 1 },
		"extra":       func(g *Gate, _ *line) { g.loads[0].extra++ },
		"probes":      func(_ *Gate, l *line) { l.ranks[1].head.Probe = true },
		"gate probes": func(g *Gate, _ *line) { g.probes++ },
		"waiting":     func(g *Gate, _ *line) { g.waiting++ },
		"draining":    func(g *Gate, _ *line) { g.draining = true },
		"key waiting": func(g *Gate, _ *line) { g.keys[0].waiting++ },
		"parked":      func(g *Gate, _ *line) { g.keys[0].parked++ },
		"active":      func(g *Gate, _ *line) { g.keys[0].active = 0 },
		"hot":         func(g *Gate, _ *line) { g.keys[0].hot = 1 },
		"paused":      func(g *Gate, _ *line) { g.keys[0].paused = true },
		"halted":      func(g *Gate, _ *line) { g.keys[2].paused = false },
		"halted list": func(g *Gate, _ *line) { g.keys[2].halted.head.halted = false },
		"halted sum":  func(g *Gate, _ *line) { g.halted++ },
		"free":        func(g *Gate, _ *line) { g.side[slots].isFree.on = false },
		"spare":       func(g *Gate, _ *line) { g.side[slots].isSpare.on = !g.side[slots].isSpare.on },
		"class":       func(_ *Gate, l *line) { l.class = fullClass },
		"due":         func(g *Gate, _ *line) { g.byTime.items[0].due, g.byTime.items[1].due = 9e9, 0 },
	} {
		g := New(Plan{Slots: 4, Workloads: []Workload{{}, {}}}, newShelf(), nil)
		for i := range 6 {
			g.Admit(int64(i), &Waiter{Key: Key(i % 2), Workload: 1})
		}
		g.Admit(6, &Waiter{Key: 2})
		g.Pause(6, []Key{2})
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		damage(g, &g.loads[1].lines[slots])
		if g.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}
