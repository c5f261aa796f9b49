package pool

import "github.com/pgweir/pgweir/admission"

// Quota is a limit on how many servers several keys may have together: those of a role in all
// databases, or those of a database.
type Quota struct {
	ID    int // which one, from 1; 0 = none. Numbers should be dense.
	Limit int // 0 or less = none
	// Others is how many of these connections are not the set's, and not for it.
	Others int
}

// quotas are those of one key.
type quotas [2]Quota

// quotaCount is how many places the keys of a quota fill, and how many of these are closing.
type quotaCount struct{ taken, leaving int }

// quotasOf asks for the quotas of a key.
func (s *Set) quotasOf(k admission.Key) (q quotas) {
	if s.opts.Quotas == nil {
		return q
	}
	q = s.opts.Quotas(k)
	for _, o := range q {
		for o.ID >= len(s.quotas) {
			s.quotas = append(s.quotas, quotaCount{})
		}
	}
	return q
}

// fill counts places taken for a key, and places that are closing.
func (s *Set) fill(k admission.Key, taken, leaving int) {
	if len(s.quotas) == 0 {
		return
	}
	for _, q := range s.keys[k].quotas {
		if q.ID > 0 {
			s.quotas[q.ID].taken += taken
			s.quotas[q.ID].leaving += leaving
		}
	}
}

// full returns those quotas of k that allow for no server more.
func (s *Set) full(k admission.Key) (f quotas, is bool) {
	if len(s.quotas) == 0 {
		return f, false
	}
	for i, q := range s.key(k).quotas {
		if q.ID > 0 && q.Limit > 0 && s.quotas[q.ID].taken+q.Others >= q.Limit {
			f[i], is = q, true
		}
	}
	return f, is
}

// overQuota reports whether sv has to go because more servers are to stay than a quota allows.
func (s *Set) overQuota(sv *Server) bool {
	if len(s.quotas) == 0 {
		return false
	}
	for _, q := range s.keys[sv.Key].quotas {
		if q.ID > 0 && q.Limit > 0 && s.quotas[q.ID].taken-s.quotas[q.ID].leaving+q.Others > q.Limit {
			return true
		}
	}
	return false
}

// OverQuotas reports whether the keys of one of these quotas fill more places, with its Others,
// than it allows.
func (s *Set) OverQuotas(list [2]Quota) bool {
	for _, q := range list {
		taken := q.Others
		if q.ID < len(s.quotas) {
			taken += s.quotas[q.ID].taken
		}
		if q.ID > 0 && q.Limit > 0 && taken > q.Limit {
			return true
		}
	}
	return false
}

// requota counts everything anew for other quotas.
func (s *Set) requota() {
	s.quotas = nil
	for i := range s.keys {
		s.keys[i].quotas = s.quotasOf(admission.Key(i))
	}
	for _, sv := range s.places {
		switch {
		case sv == nil:
		case sv.state == Closing:
			s.fill(sv.Key, 1, 1)
		default:
			s.fill(sv.Key, 1, 0)
		}
	}
}

// frees reports whether the end of a server of key k would make room in all of these quotas.
func (s *Set) frees(k admission.Key, f quotas) bool {
	for i, q := range f {
		if q.ID > 0 && s.keys[k].quotas[i].ID != q.ID {
			return false
		}
	}
	return true
}

// exchangeable is the longest idle server of another key that nobody waits for and in the place
// of which k, whose quotas f are full, could have one.
func (s *Set) exchangeable(k admission.Key, f quotas) *Server {
	if e := s.key(k); e.promised > 0 || e.count[Dialling] > 0 {
		return nil // one after the other
	}
	ordinary := s.needsOrdinary(k)
	for sv := s.idle.oldest; sv != nil; sv = sv.newer {
		if sv.Key != k && s.key(sv.Key).demand == 0 && !(ordinary && sv.reserved) && s.frees(sv.Key, f) {
			return sv
		}
	}
	return nil
}

// exchange closes a server of another key for k, whose quotas f are full; see replace.
func (s *Set) exchange(k admission.Key, f quotas) bool {
	sv := s.exchangeable(k, f)
	if sv == nil || s.now-sv.since < unused || s.tokens < s.spare() {
		return false
	}
	s.yield(sv, k)
	return true
}

// exchangeAt is when an idle server that a key with full quotas waits for counts as unused.
func (s *Set) exchangeAt() int64 {
	at := int64(never)
	if len(s.quotas) == 0 {
		return at
	}
	for _, id := range [...]listID{listReserved, listBare, listWanting} {
		for i := s.lists[id].first; i != 0; i = s.keys[i-1].next {
			k := admission.Key(i - 1)
			f, is := s.full(k)
			if !is {
				continue
			}
			if sv := s.exchangeable(k, f); sv != nil && s.now-sv.since < unused {
				at = min(at, sv.since+unused)
			}
		}
	}
	return at
}
