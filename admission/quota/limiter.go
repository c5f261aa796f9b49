package quota

import (
	"hash/maphash"
	"slices"
)

// MaxKeys is how many buckets a Limiter keeps that is not told otherwise.
const MaxKeys = 100_000

// Limiter has the buckets of all rules. It belongs to one goroutine.
type Limiter struct {
	rules  []*limit // in force
	nextID uint32
	table  table
	seeds  [2]maphash.Seed
}

// New returns a limiter without rules that keeps at most so many buckets; 0 or less = MaxKeys.
func New(most int) *Limiter {
	if most <= 0 {
		most = MaxKeys
	}
	return &Limiter{table: newTable(most), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// Reconfigure puts rules into force, in the place of those before. Those with the same name,
// keys and unit keep their buckets: what was taken from one stays taken. It looks at all
// buckets.
func (l *Limiter) Reconfigure(now int64, rules []Rule) {
	old := l.rules
	l.rules = make([]*limit, 0, len(rules))
	moved := make(map[uint32]*limit, len(old)) // what they were before
	for _, r := range rules {
		i := slices.IndexFunc(old, func(o *limit) bool { return o != nil && o.same(r) })
		if i < 0 {
			l.nextID++
			n := &limit{id: l.nextID}
			n.set(r)
			l.rules = append(l.rules, n)
			continue
		}
		kept, was := old[i], *old[i]
		old[i] = nil
		kept.set(r)
		moved[kept.id] = &was
		l.rules = append(l.rules, kept)
	}
	for _, r := range old {
		if r != nil {
			r.dead = true
		}
	}
	l.table.each(func(at int32, e *entry) {
		if e.rule.dead {
			l.table.drop(at)
		} else if was := moved[e.rule.id]; was != nil {
			l.table.full[at] = was.move(now, l.table.full[at], e.rule)
		}
	})
}

// same reports whether the buckets of r can be those of the rule to.
func (r *limit) same(to Rule) bool {
	return r.Name == to.Name && r.Keys == to.Keys && r.ServerTime == to.ServerTime
}

// Rules is how many rules are in force.
func (l *Limiter) Rules() int { return len(l.rules) }

// RuleStats are the counts of a rule.
type RuleStats struct {
	Keys    int    // buckets known now
	Evicted uint64 // buckets forgotten because there were too many; full ones go first
}

// Stats returns the counts of the rule with an index in the list of Reconfigure.
func (l *Limiter) Stats(rule int) RuleStats {
	r := l.rules[rule]
	return RuleStats{Keys: r.keys, Evicted: r.evicted}
}

// Bucket stands for the bucket of one key. It remembers where that is, so using it again
// looks nothing up; it stays right when the bucket is forgotten, or the rule is. The zero
// Bucket is of no rule, and never refuses.
type Bucket struct {
	rule *limit
	name name
	at   int32
	gen  uint32 // of the entry; 0 = not looked up yet
}

// Bucket returns the bucket of the rule with an index in the list of Reconfigure, for the
// key that is made of a and b.
func (l *Limiter) Bucket(rule int, a, b string) Bucket {
	r := l.rules[rule]
	n := name{rule: r.id}
	for i, seed := range l.seeds {
		var h maphash.Hash
		h.SetSeed(seed)
		_, _ = h.WriteString(a) // these two never fail
		_ = h.WriteByte(0)
		_, _ = h.WriteString(b)
		n.key[i] = h.Sum64()
	}
	return Bucket{rule: r, name: n}
}

// ServerTime reports whether costs are nanoseconds of server-time, not statements.
func (b *Bucket) ServerTime() bool { return b.rule != nil && b.rule.ServerTime }

// find returns when the bucket will be full; ok is false if it is not known, and so is full.
func (l *Limiter) find(b *Bucket) (full int64, ok bool) {
	if b.gen != 0 && l.table.entries[b.at].gen == b.gen {
		return l.table.full[b.at], true
	}
	at, ok := l.table.byName[b.name]
	if !ok {
		return 0, false
	}
	b.at, b.gen = at, l.table.entries[at].gen
	return l.table.full[at], true
}

// Wait is how long it takes until the bucket has room for cost, in ns, if nobody else takes
// from it; 0 = it has. Of a server-time bucket ask for cost 0: it has room when it is not in
// debt.
func (l *Limiter) Wait(now int64, b *Bucket, cost int64) int64 {
	if b.rule == nil || b.rule.dead {
		return 0
	}
	full, _ := l.find(b)
	return b.rule.wait(now, full, cost)
}

// Take takes cost from the bucket if it has room for it; else it takes nothing, and wait is
// as Wait says.
func (l *Limiter) Take(now int64, b *Bucket, cost int64) (ok bool, wait int64) {
	if wait = l.Wait(now, b, cost); wait > 0 {
		return false, wait
	}
	l.Charge(now, b, cost)
	return true, 0
}

// Refund puts cost back that was taken for nothing.
func (l *Limiter) Refund(b *Bucket, cost int64) {
	if b.rule == nil || b.rule.dead {
		return
	}
	if full, known := l.find(b); known {
		l.table.full[b.at] = max(full-b.rule.span(cost), 0)
	}
}

// Charge takes cost from the bucket in any case. The debt is never more than what a full
// bucket holds: what is beyond that is forgiven.
func (l *Limiter) Charge(now int64, b *Bucket, cost int64) {
	if cost <= 0 || b.rule == nil || b.rule.dead {
		return
	}
	full, known := l.find(b)
	if !known {
		b.at = l.table.add(now, b.name, b.rule)
		b.gen = l.table.entries[b.at].gen
	}
	l.table.full[b.at] = b.rule.take(now, full, cost)
}
