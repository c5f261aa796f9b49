package admission

import (
	"cmp"
	"slices"
)

// ledger is the order inside the workloads as the naive gate knows it: who has paid what, and
// which class is owed a turn. It asks the gate only which queues stand, and what a waiter is
// taken for.
type ledger struct {
	gate   *Gate
	n      *naive
	ranks  map[rankName]*entries
	credit map[rankName]float64
	bills  map[*Waiter]bill
	flip   bool // queues that have just changed their standing count as they were before
}

type rankName struct{ load, class int }

// entries are the roles of a rank, or the tenants of a role.
type entries struct {
	vtime int64
	by    map[uint32]*entry
}

type entry struct {
	entries
	vt      int64
	running int
	first   uint64 // the waiter with which its queue began
}

// bill is what a running waiter has been charged.
type bill struct {
	rank     rankName
	expected int64
}

func (l *ledger) policy(load int) Policy { return l.n.plan.Workloads[load].Policy }

func (l *ledger) rankOf(w *Waiter) rankName {
	if l.policy(int(w.Workload)) != Guard {
		return rankName{int(w.Workload), 0}
	}
	return rankName{int(w.Workload), int(w.class)}
}

// guarded reports whether w is served by what was paid.
func (l *ledger) guarded(w *Waiter) bool {
	return w.Want != Session && l.policy(int(w.Workload)) == Guard
}

// waiters are those of a rank, oldest first.
func (l *ledger) waiters(r rankName) (all []*Waiter) {
	for _, w := range l.n.line {
		if w.Want != Session && l.rankOf(w) == r {
			all = append(all, w)
		}
	}
	return all
}

func (l *ledger) waits(r rankName, role uint32) bool {
	return slices.ContainsFunc(l.waiters(r), func(w *Waiter) bool { return w.Role == role })
}

func (l *ledger) waitsTenant(r rankName, role, tenant uint32) bool {
	return slices.ContainsFunc(l.waiters(r), func(w *Waiter) bool { return w.Role == role && w.Tenant == tenant })
}

// accounts returns what is known of w's role and tenant in r, new if they are not.
func (l *ledger) accounts(r rankName, w *Waiter) (all *entries, role, tenant *entry) {
	all = l.ranks[r]
	if all == nil {
		all = &entries{by: map[uint32]*entry{}}
		l.ranks[r] = all
	}
	open := func(e *entries, id uint32) *entry {
		if e.by[id] == nil {
			e.by[id] = &entry{vt: e.vtime, entries: entries{by: map[uint32]*entry{}}}
		}
		return e.by[id]
	}
	role = open(all, w.Role)
	return all, role, open(&role.entries, w.Tenant)
}

// enter is called before w stands in the line.
func (l *ledger) enter(w *Waiter) {
	if !l.guarded(w) {
		return
	}
	r := l.rankOf(w)
	all, role, tenant := l.accounts(r, w)
	if !l.waits(r, w.Role) {
		role.vt, role.first = max(role.vt, all.vtime), w.seq
	}
	if !l.waitsTenant(r, w.Role, w.Tenant) {
		tenant.vt = max(tenant.vt, role.vtime)
	}
}

// exit is called while w still stands in the line: accounts of which nobody is left are
// forgotten as soon as they owe nothing.
func (l *ledger) exit(w *Waiter) {
	if !l.guarded(w) {
		return
	}
	i := slices.Index(l.n.line, w)
	l.n.line = slices.Delete(slices.Clone(l.n.line), i, i+1)
	l.settle(l.rankOf(w), w, false)
	l.n.line = slices.Insert(l.n.line, i, w)
}

// emptied is called when w has left: where nobody waits any more, nobody has a claim.
func (l *ledger) emptied(w *Waiter) {
	if w.Want == Session {
		return
	}
	r := l.rankOf(w)
	if len(l.waiters(r)) > 0 {
		return
	}
	delete(l.credit, r)
	if all := l.ranks[r]; all != nil {
		for id, role := range all.by {
			if role.running == 0 {
				delete(all.by, id)
			}
		}
	}
}

func (l *ledger) settle(r rankName, w *Waiter, nobody bool) {
	all, role, tenant := l.accounts(r, w)
	if tenant.running == 0 && !l.waitsTenant(r, w.Role, w.Tenant) && (tenant.vt <= role.vtime || nobody) {
		delete(role.by, w.Tenant)
	}
	if role.running == 0 && !l.waits(r, w.Role) && (role.vt <= all.vtime || nobody) {
		delete(all.by, w.Role)
	}
}

// pay charges w, which still stands in the line unless it has just come.
func (l *ledger) pay(w *Waiter, kind int) {
	if !l.guarded(w) {
		return
	}
	r := l.rankOf(w)
	if slices.Contains(l.n.line, w) && kind == slots {
		if l.credit[r] >= 1 {
			l.credit[r]--
		}
		for c := r.class + 1; c < Classes; c++ {
			if low := (rankName{r.load, c}); len(l.waiters(low)) > 0 {
				l.credit[low] = min(l.credit[low]+floor, 2)
			}
		}
	}
	if len(l.waiters(r)) == 0 {
		return
	}
	all, role, tenant := l.accounts(r, w)
	if !l.waits(r, w.Role) {
		role.vt = max(role.vt, all.vtime)
	}
	if !l.waitsTenant(r, w.Role, w.Tenant) {
		tenant.vt = max(tenant.vt, role.vtime)
	}
	all.vtime, role.vtime = max(all.vtime, role.vt), max(role.vtime, tenant.vt)
	role.running++
	tenant.running++
	role.vt += w.expected
	tenant.vt += w.expected
	if l.bills == nil {
		l.bills = map[*Waiter]bill{}
	}
	l.bills[w] = bill{r, w.expected}
	for id, t := range role.by {
		if t.running == 0 && t.vt <= role.vtime && !l.waitsTenant(r, w.Role, id) {
			delete(role.by, id)
		}
	}
	for id, o := range all.by {
		if o.running == 0 && o.vt <= all.vtime && !l.waits(r, id) {
			delete(all.by, id)
		}
	}
}

func (l *ledger) charged(w *Waiter) bool { _, ok := l.bills[w]; return ok }

// paid charges what was not expected.
func (l *ledger) paid(w *Waiter, held int64) {
	b, ok := l.bills[w]
	if !ok {
		return
	}
	delete(l.bills, w)
	_, role, tenant := l.accounts(b.rank, w)
	role.running--
	tenant.running--
	role.vt += held - b.expected
	tenant.vt += held - b.expected
	l.settle(b.rank, w, len(l.waiters(b.rank)) == 0)
}

// flowOf is who stands with w in one flow, oldest first; w alone if it has just come.
func (l *ledger) flowOf(w *Waiter) (all []*Waiter) {
	r := l.rankOf(w)
	for _, o := range l.waiters(r) {
		if o.Key == w.Key && (o.Want == Slot) == (w.Want == Slot) && (!l.guarded(w) || o.Continuing == w.Continuing && o.Role == w.Role) {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return []*Waiter{w}
	}
	return all
}

// stands reports whether the queue of w's class does.
func (l *ledger) stands(w *Waiter) bool {
	r := l.gate.loads[w.Workload].lines[slots].rankOf(w)
	return r.on != (l.flip && r.began == l.gate.now)
}

// next is who is next of the able, who are all of one workload, oldest first.
func (l *ledger) next(load int, able []*Waiter) *Waiter {
	oldest, newest := able[0], able[len(able)-1]
	switch l.policy(load) {
	case LIFO, LIFODeadline:
		return newest
	case CoDel:
		if l.stands(oldest) {
			return newest
		}
		return oldest
	case Guard:
	default:
		return oldest
	}
	w := slices.MinFunc(able, func(a, b *Waiter) int {
		if l.turn(a) != l.turn(b) {
			return l.turn(a) - l.turn(b)
		}
		if l.before(a, b) {
			return -1
		}
		return 1
	})
	return l.head(w)
}

// head is who is next of those who stand with w.
func (l *ledger) head(w *Waiter) *Waiter {
	f := l.flowOf(w)
	t := f[0].Tenant
	_, role, _ := l.accounts(l.rankOf(w), w)
	for _, o := range f {
		if role.by[o.Tenant].vt < role.by[t].vt {
			t = o.Tenant
		}
	}
	f = slices.DeleteFunc(slices.Clone(f), func(o *Waiter) bool { return o.Tenant != t })
	switch {
	case !l.stands(w):
		return f[0]
	case w.Continuing:
		return slices.MinFunc(f, func(a, b *Waiter) int { return cmp.Or(cmp.Compare(a.began, b.began), cmp.Compare(a.seq, b.seq)) })
	}
	return f[len(f)-1]
}

// turn is the place of w's class.
func (l *ledger) turn(w *Waiter) int {
	if l.credit[l.rankOf(w)] >= 1 {
		return int(w.class) - Classes
	}
	return int(w.class)
}

// before is the order of the flows of two waiters of one class.
func (l *ledger) before(a, b *Waiter) bool {
	r := l.rankOf(a)
	_, ra, _ := l.accounts(r, a)
	_, rb, _ := l.accounts(r, b)
	fa, fb := l.flowOf(a), l.flowOf(b)
	least := func(role *entry, f []*Waiter) int64 {
		vt := role.by[f[0].Tenant].vt
		for _, w := range f {
			vt = min(vt, role.by[w.Tenant].vt)
		}
		return vt
	}
	switch {
	case a.Role != b.Role && ra.vt != rb.vt:
		return ra.vt < rb.vt
	case a.Role != b.Role:
		return ra.first < rb.first
	case least(ra, fa) != least(rb, fb):
		return least(ra, fa) < least(rb, fb)
	case a.Continuing != b.Continuing && l.gate.loads[a.Workload].lines[slots].rankOf(a).on:
		return a.Continuing
	case l.stands(a) && a.Continuing:
		a, b = l.head(a), l.head(b)
		return a.began < b.began || a.began == b.began && a.seq < b.seq
	case l.stands(a):
		return fa[len(fa)-1].seq > fb[len(fb)-1].seq
	}
	return fa[0].seq < fb[0].seq
}
