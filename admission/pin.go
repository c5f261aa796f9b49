package admission

// Pin takes the permit for a server that a session of a workload keeps between its
// transactions, which it has got for one of them. Nobody waits for it: ok is false if the
// workload keeps as many that way as its MaxPinned allows, or if there would be nothing left for
// others. End it with Unpin.
func (g *Gate) Pin(now int64, workload uint16) (ok bool) {
	g.tick(now)
	if !g.MayPin(workload) {
		return false
	}
	d := g.loads[workload]
	l := &d.lines[sessions]
	l.side.use(l, 1)
	d.pinned++
	d.stats.pins++
	return true
}

// MayPin reports whether Pin would succeed.
func (g *Gate) MayPin(workload uint16) bool {
	g.grow(int(workload) + 1)
	d, s := g.loads[workload], g.side[sessions]
	// The last connection is for the transactions of all others.
	return d.pinned < d.mostPinned() && s.used+1 < s.limit && (d.pinned == 0 || s.may(&d.lines[sessions]))
}

// mostPinned is how many servers sessions of the workload may keep by Pin.
func (d *load) mostPinned() int {
	if d.plan.MaxPinned == 0 {
		return 0
	}
	const exact = 1e-6 // 0.1 x 30 is 3
	s := d.lines[sessions].side
	return max(int(d.plan.MaxPinned*d.plan.Share*float64(s.limit)+exact), 1)
}

// Unpin ends a Pin: the server that was kept went back, or ended. Say Supplied first. It panics
// if the workload has none.
func (g *Gate) Unpin(now int64, workload uint16, out []Verdict) []Verdict {
	if int(workload) >= len(g.loads) || g.loads[workload].pinned == 0 {
		panic("admission: Unpin without a Pin")
	}
	g.loads[workload].pinned--
	return g.Release(now, workload, out)
}
