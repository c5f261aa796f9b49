package admission

// dispatch refuses who is too old, then grants free slots as long as somebody
// can use one.
func (g *Gate) dispatch(now int64, out []Verdict) []Verdict {
	out = g.expire(now, out)
	g.favour(now)
	for g.running < g.plan.Slots {
		w, lane := g.pick()
		if w == nil {
			break
		}
		grant, ok := g.supply.Reserve(w.Key, now)
		if !ok {
			g.setReady(w.Key, false)
			g.favour(now) // the head may have looked served until now
			continue
		}
		if !lane {
			g.queue.Take(w, now)
		} else {
			g.queue.Remove(w)
		}
		if w.Probe {
			g.lane.Remove(w)
		}
		w.gate = nil
		out = append(out, g.granted(now, w, grant, lane))
		g.tell(now, w.Key)
	}
	g.tellFree(now)
	return out
}

// pick chooses who goes next among those whose keys may have a server, and
// whether it needs the lane's privilege for it.
func (g *Gate) pick() (w *Waiter, lane bool) {
	w = g.queue.Next()
	if g.inLane == 0 {
		if p := g.lane.Next(); p != nil && p != w {
			return p, true
		}
	}
	return w, false
}

// expire refuses everybody who waited for the maximum time: NoServerWait where
// the database is away, else MaxWait. Being the first thing that every dispatch
// does, it keeps them from being granted. It notes when the next is due.
func (g *Gate) expire(now int64, out []Verdict) []Verdict {
	shortest := min(g.plan.Workloads[0].MaxWait, g.plan.Workloads[0].NoServerWait)
	g.due = never
	for w := g.queue.Oldest(); w != nil; {
		younger := g.queue.Younger(w)
		if now-w.arrived < shortest {
			g.due = min(g.due, w.arrived+shortest) // and so all behind it
			break
		}
		limit, reason := g.plan.Workloads[0].MaxWait, QueueAge
		if g.down != nil && g.down.Down(w.Key) {
			limit, reason = g.plan.Workloads[0].NoServerWait, NoServer
		}
		if now-w.arrived >= limit {
			out = append(out, g.evict(now, w, reason))
		} else {
			g.due = min(g.due, w.arrived+limit)
		}
		w = younger
	}
	return out
}

// favour gives up a server of another key for the head of the line, if it is
// time.
func (g *Gate) favour(now int64) {
	w := g.queue.Head()
	if w == nil || !w.overtaken || now < g.favourAt(w) || g.queue.Next() == w {
		return
	}
	if g.supply.Steal(w.Key, now) {
		g.moved, g.hasMoved = now, true
		g.stats.moves++
	}
}

// favourAt is when head may have another key's server: not before it was
// passed over for long enough, nor too soon after the last move.
func (g *Gate) favourAt(head *Waiter) int64 {
	if head == nil || !head.overtaken {
		return never
	}
	at := head.passed + passOver
	if g.hasMoved {
		at = max(at, g.moved+moveEvery)
	}
	return at
}

// granted accounts for a ticket to w, which is in no queue any more.
func (g *Gate) granted(now int64, w *Waiter, grant uint32, lane bool) Verdict {
	g.running++
	if lane {
		g.inLane++
	}
	waited := now - w.arrived
	g.stats.granted++
	g.stats.served.add(waited)
	return Verdict{
		W: w, Outcome: Granted, Ticket: Ticket{Workload: w.Workload, Want: w.Want, Lane: lane}, Grant: grant,
		Waited: waited, Queued: g.queue.Len(), Slots: g.plan.Slots,
	}
}

// evict takes w out of the queue and refuses it.
func (g *Gate) evict(now int64, w *Waiter, r Reason) Verdict {
	g.remove(w)
	g.tell(now, w.Key)
	return g.refusal(now, w, r)
}

// refusal accounts for a refusal of w, which is in no queue.
func (g *Gate) refusal(now int64, w *Waiter, r Reason) Verdict {
	waited := now - w.arrived
	g.stats.refused[r]++
	g.stats.turnedAway.add(waited)
	return Verdict{
		W: w, Outcome: Refused, Reason: r, Waited: waited,
		Queued: g.queue.Len(), Slots: g.plan.Slots, RetryAfter: g.retryAfter(),
	}
}

// retryAfter is the hint of Verdict.RetryAfter.
func (g *Gate) retryAfter() int64 {
	const least, most = 100e6, 5e9
	work := 2 * g.drain.toDrain(g.queue.Len(), g.plan.Slots)
	return int64(min(max(work, least), most) * (0.5 + g.rnd()))
}

// remove takes w out of its lines without a turn.
func (g *Gate) remove(w *Waiter) {
	g.queue.Remove(w)
	if w.Probe {
		g.lane.Remove(w)
	}
	w.gate = nil
}

func (g *Gate) setReady(k Key, ready bool) {
	g.queue.SetReady(k, ready)
	g.lane.SetReady(k, ready)
}

// free is how many more tickets the slots allow.
func (g *Gate) free() int { return max(g.plan.Slots-g.running, 0) }

// tell passes on that the number of k's waiters changed.
func (g *Gate) tell(now int64, k Key) {
	g.told = g.free()
	g.supply.Demand(k, g.queue.Waiting(k), g.told, now)
}

// tellFree passes on that the number of free slots changed, if anybody waits:
// without waiters there is no demand that it could limit, and the next one
// brings the number along.
func (g *Gate) tellFree(now int64) {
	if w := g.queue.Head(); w != nil && g.free() != g.told {
		g.tell(now, w.Key)
	}
}
