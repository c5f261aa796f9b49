package quota

// look is how many buckets are looked at to find one that can be forgotten.
const look = 256

// name is the name of a bucket. The key is a hash of 128 bits, by a secret that is new in
// each process: no two keys share one, and none can be made to.
type name struct {
	key  [2]uint64
	rule uint32
}

// entry is a bucket's place in the table.
type entry struct {
	name name
	rule *limit // nil = free
	gen  uint32 // of the use of the place, from 1
}

// table has the buckets. When there are too many, one goes for each that comes: a full one if
// there is one among the next that a hand goes over, else the one of these that would be full
// first. So whoever invents names only drives out names that matter little; and finding one
// takes a bounded number of steps.
type table struct {
	most    int
	full    []int64 // by place: when the bucket will be full; apart, to be looked over fast
	entries []entry
	free    []int32
	byName  map[name]int32
	hand    int
}

func newTable(most int) table { return table{most: most, byName: make(map[name]int32)} }

// add makes a place for a bucket that has none.
func (t *table) add(now int64, n name, r *limit) (at int32) {
	if len(t.byName) >= t.most {
		at = t.oldest(now)
		t.entries[at].rule.evicted++
		t.drop(at)
	}
	if last := len(t.free) - 1; last >= 0 {
		at, t.free = t.free[last], t.free[:last]
	} else {
		at = int32(len(t.entries))
		t.entries, t.full = append(t.entries, entry{}), append(t.full, 0)
	}
	e := &t.entries[at]
	e.name, e.rule = n, r
	if e.gen++; e.gen == 0 {
		e.gen = 1
	}
	t.byName[n] = at
	r.keys++
	return at
}

// drop forgets the bucket at a place.
func (t *table) drop(at int32) {
	e := &t.entries[at]
	e.rule.keys--
	delete(t.byName, e.name)
	*e = entry{gen: e.gen + 1} // whoever remembers the place sees it
	t.full[at] = 0
	t.free = append(t.free, at)
}

// oldest finds a bucket to be forgotten. The table has no free place then.
func (t *table) oldest(now int64) (at int32) {
	best := -1
	for range min(look, len(t.full)) {
		if t.hand >= len(t.full) {
			t.hand = 0
		}
		i := t.hand
		t.hand++
		if best < 0 || t.full[i] < t.full[best] {
			best = i
		}
		if t.full[best] <= now {
			break
		}
	}
	return int32(best)
}

// each calls f with all buckets. f may drop the one that it gets.
func (t *table) each(f func(at int32, e *entry)) {
	for i := range t.entries {
		if e := &t.entries[i]; e.rule != nil {
			f(int32(i), e)
		}
	}
}
