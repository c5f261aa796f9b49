package admission

import "slices"

// Pause stops the keys: who waits for one of them, or comes, is neither granted
// nor refused, nor counted towards MaxWaiting, and the clock of its limit stands
// still. Tickets that are out go on. A now that is in the gate's past counts as
// the latest that it knows.
func (g *Gate) Pause(now int64, keys []Key) {
	g.tick(now)
	now = g.now
	g.look(now)
	for _, k := range keys {
		g.pause(now, k)
	}
	g.tellUsable(now)
}

// PauseAll pauses all keys, also those that come later.
func (g *Gate) PauseAll(now int64) {
	g.pauseNew = true
	g.tick(now)
	now = g.now
	g.look(now)
	for k := range g.keys {
		g.pause(now, Key(k))
	}
}

// Resume ends the pause of the keys. Who waited takes its place by age.
func (g *Gate) Resume(now int64, keys []Key, out []Verdict) []Verdict {
	g.tick(now)
	for _, k := range keys {
		g.resume(now, k)
	}
	return g.dispatch(now, out)
}

// ResumeAll ends every pause, also that of PauseAll.
func (g *Gate) ResumeAll(now int64, out []Verdict) []Verdict {
	g.pauseNew = false
	g.tick(now)
	for k := range g.keys {
		g.resume(now, Key(k))
	}
	return g.dispatch(now, out)
}

// Paused reports whether k is paused.
func (g *Gate) Paused(k Key) bool {
	if int(k) >= len(g.keys) {
		return g.pauseNew
	}
	return g.keys[k].paused
}

func (g *Gate) pause(now int64, k Key) {
	e := g.key(k)
	if e.paused {
		return
	}
	e.paused = true
	var all []*Waiter
	for f := e.flows; f != nil; f = f.next {
		if f.line.load == nil {
			continue // they stand in another line as well
		}
		for w := f.first; w != nil; w = w.places[ofFlow+mainLine].next {
			w.start -= g.clock(now, f)
			w.begins -= now
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *Waiter) int { return int(int64(a.seq - b.seq)) })
	for _, w := range all {
		g.exit(w)
		g.halt(w)
	}
	if len(all) > 0 {
		g.told = g.usableTotal()
		g.supply.Demand(k, 0, g.told, now)
	}
}

func (g *Gate) resume(now int64, k Key) {
	e := g.key(k)
	if !e.paused {
		return
	}
	e.paused = false
	n := 0
	for w := e.halted.head; w != nil; w = e.halted.head {
		g.unhalt(w)
		g.enter(now, w)
		n++
	}
	if n > 0 {
		g.told = g.usableTotal()
		g.supply.Demand(k, e.waiting, g.told, now)
	}
}

// halt puts w to those who wait while its key is paused.
func (g *Gate) halt(w *Waiter) {
	w.halted = true
	g.key(w.Key).halted.insert(w, mainLine)
	g.halted++
	g.loads[w.Workload].halted.put(w, true)
}

// unhalt takes w out of those who wait while its key is paused.
func (g *Gate) unhalt(w *Waiter) {
	w.halted = false
	g.key(w.Key).halted.remove(w, mainLine)
	g.halted--
	g.loads[w.Workload].halted.put(w, false)
}
