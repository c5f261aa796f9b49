package admission

// turnOut refuses those who are left of an Unsupplied or a Drain, as far as the budget goes.
func (g *Gate) turnOut(now int64, out []Verdict) []Verdict {
	for len(g.owed) > 0 {
		last := len(g.owed) - 1
		k := g.owed[last]
		w := g.unserved(k)
		if w == nil {
			g.keys[k].refuse = 0
			g.owed = g.owed[:last]
			continue
		}
		if g.budget == 0 {
			return out
		}
		g.budget--
		out = append(out, g.evict(now, w, NoServer))
	}
	if !g.leaving {
		return out
	}
	for _, d := range g.loads {
		for i := range d.lines {
			for c := range d.lines[i].ranks {
				out = g.leave(now, d.lines[i].ranks[c].head, out)
			}
		}
	}
	for i := range g.keys {
		out = g.leave(now, g.keys[i].halted.head, out)
	}
	g.leaving = g.budget == 0 // else it has come to the end
	return out
}

// unserved is a waiter for a server of k who is to be refused; nil if there is none left.
func (g *Gate) unserved(k Key) *Waiter {
	e := &g.keys[k]
	for f := e.flows; f != nil; f = f.next {
		if f.served() && f.first.seq <= e.refuse {
			return f.first
		}
	}
	return nil
}

// leave refuses those of a list, from w on, who have not begun.
func (g *Gate) leave(now int64, w *Waiter, out []Verdict) []Verdict {
	for w != nil && g.budget > 0 {
		next := w.places[mainLine].next
		if !w.Begun {
			g.budget--
			out = append(out, g.evict(now, w, Draining))
		}
		w = next
	}
	return out
}
