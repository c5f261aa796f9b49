package session

import "math"

const (
	// patienceSamples is of how many who gave up the patience is learned, enoughPatience of
	// how many at least.
	patienceSamples = 200
	enoughPatience  = 20
	// patienceBuckets is how many times are told apart, each patienceRatio times as long as
	// the one before: from 1 ms to about 3 h.
	patienceBuckets  = 96
	patienceRatio    = 1.18
	shortestPatience = 1e6 // ns
	// maxPatience bounds the (role, application_name) of which it is learned.
	maxPatience = 1000
)

// patience learns how long the clients of a role and application wait, from those who gave
// up: who leaves or cancels before the answer has waited for as long as it was willing to.
type patience struct {
	ring  [patienceSamples]uint8 // buckets, in their order
	count [patienceBuckets]uint8
	n     int // of ring
	next  int
}

// gaveUp notes that somebody gave up after ns.
func (p *patience) gaveUp(ns int64) {
	b := uint8(0)
	if ns > shortestPatience {
		b = uint8(min(math.Log(float64(ns)/shortestPatience)/math.Log(patienceRatio), patienceBuckets-1))
	}
	if p.n == patienceSamples {
		p.count[p.ring[p.next]]--
	} else {
		p.n++
	}
	p.ring[p.next] = b
	p.count[b]++
	p.next = (p.next + 1) % patienceSamples
}

// deadline returns after how many ns nobody should be made to wait any more: nine tenths of
// the time after which the first tenth gives up. 0 = too little is known.
func (p *patience) deadline() int64 {
	if p.n < enoughPatience {
		return 0
	}
	seen := 0
	for b, n := range p.count {
		if seen += int(n); seen*10 > p.n {
			return int64(0.9 * shortestPatience * math.Pow(patienceRatio, float64(b)))
		}
	}
	return 0
}

type patienceKey struct {
	role uint32
	app  string
}

// patienceOf returns what is learned of the client's kind, or nil if there is no room to
// learn it.
func (co *Core) patienceOf(role uint32, app string) *patience {
	k := patienceKey{role, app}
	p := co.patience[k]
	if p == nil && len(co.patience) < maxPatience && len(app) <= maxTenantName {
		p = &patience{}
		if co.patience == nil {
			co.patience = make(map[patienceKey]*patience)
		}
		co.patience[k] = p
	}
	return p
}

// gaveUp notes that the client does not wait any more for what it has asked for, if it waits
// for anything.
func (cl *Client) gaveUp(now int64) {
	m := cl.meta
	if m == nil || m.patience == nil || cl.login || cl.wait.Begun {
		return
	}
	waits := cl.wait.Waiting() || cl.pending
	if sv := cl.server; sv != nil && !cl.pending {
		waits = sv.link.Outstanding() > 0
	}
	if waits {
		m.patience.gaveUp(now - cl.wait.Arrived())
	}
}
