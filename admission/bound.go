package admission

import "slices"

// Whose server ends as soon as it is opened might wait for ever: each time that servers are
// opened its clock stands still, and each time that none can be opened what it is granted for
// that, NoServerWait, begins anew. So in all it is granted no more than that once. A flow is
// bounded by its first waiter, for those behind have waited for less; but for those who have
// come back because their servers ended, who are few, and so bounded one by one.

// bound is when a waiter for a server is refused however often its clock has stood still.
func (f *flow) bound(w *Waiter) int64 {
	return after(w.begins, f.longest()+f.line.load.plan.NoServerWait)
}

// bind bounds w, which has come into its line, and whose wait goes on with another one.
func (g *Gate) bind(w *Waiter) {
	if f := w.flows[mainLine]; f.served() {
		w.end = f.bound(w)
		g.again.put(w, true)
	}
}

// rebind brings the bounds of those up to date to a plan that is new.
func (g *Gate) rebind() {
	all := slices.Clone(g.again.items)
	for _, w := range all {
		g.again.put(w, false)
	}
	for _, w := range all {
		g.bind(w)
	}
}

// overBound refuses those whose bounds are over while their clocks stand still, or who have
// come back.
func (g *Gate) overBound(now int64, out []Verdict) []Verdict {
	for f, ok := g.ends.top(); ok && f.end <= now && g.budget > 0; f, ok = g.ends.top() {
		g.budget--
		out = append(out, g.evict(now, f.first, g.whyOld(now, f.first)))
	}
	for w, ok := g.again.top(); ok && w.end <= now && g.budget > 0; w, ok = g.again.top() {
		g.budget--
		out = append(out, g.evict(now, w, g.whyOld(now, w)))
	}
	return out
}

// boundDue is when overBound has to be called next.
func (g *Gate) boundDue() int64 {
	due := int64(never)
	if f, ok := g.ends.top(); ok {
		due = f.end
	}
	if w, ok := g.again.top(); ok {
		due = min(due, w.end)
	}
	return due
}

// lackedServer reports whether w, which grew too old, did so by its bound and not by its clock,
// and the clock has stood still for most of the time: then it is the servers that somebody has to
// look at, not the slots.
func (g *Gate) lackedServer(now int64, w *Waiter) bool {
	f := w.flows[mainLine]
	counted := g.clock(now, f) - w.start
	return counted < f.limit() && 2*counted <= now-w.begins
}
