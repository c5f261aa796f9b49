package upstream

import "time"

// What is remembered of an address, and for how long.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 5 * time.Second
	roleAge      = time.Second
)

// health is what is known of one address, or of a name that has to be resolved.
type health struct {
	failures int       // in a row
	until    time.Time // with failures: not before is it tried where others may serve
	err      error     // of the last failure
	probed   bool      // with failures: somebody is trying it

	standby bool      // what it was when it was last asked,
	roleEnd time.Time // which is believed until then
}

// rank orders the candidates of a dial; the lowest goes first.
type rank uint8

const (
	promising rank = iota // may be what is wanted best
	passable              // will do if there is nothing better
	bad                   // did not answer lately, or somebody is finding out
	excluded              // has answered lately and is not what is wanted
)

// rank judges an address for a dial that wants a.
func (h *health) rank(a Attrs, now time.Time) rank {
	switch known := now.Before(h.roleEnd); {
	case h.failures > 0 && (h.probed || now.Before(h.until)):
		return bad
	case h.failures > 0:
		return promising // what it was before it failed says nothing
	case known && a.excludes(h.standby):
		return excluded
	case known && a == PreferStandby && !h.standby:
		return passable
	}
	return promising
}

// fail notes a failure.
func (h *health) fail(err error, now time.Time) {
	backoff := lastBackoff
	if h.failures < 10 {
		backoff = min(firstBackoff<<h.failures, lastBackoff)
	}
	h.failures++
	h.until, h.err = now.Add(backoff), err
}

// answer notes that a server was there, with known its role.
func (h *health) answer(known, standby bool, now time.Time) {
	h.failures, h.err = 0, nil
	if known {
		h.standby, h.roleEnd = standby, now.Add(roleAge)
	}
}

// stale reports whether nothing is lost by forgetting all this.
func (h *health) stale(now time.Time) bool {
	return !h.probed && now.After(h.roleEnd) && (h.failures == 0 || now.Sub(h.until) > lastBackoff)
}
