package session

import "hash/maphash"

const (
	// maxTraces is how many traces are remembered in each of two generations.
	maxTraces = 8192
	// traceWindow is for how long work of a trace that was served goes on, in ns.
	traceWindow = 5e9
)

// traces remembers which traces were served a moment ago, by hashes of their ids. It is
// bounded: of too many the oldest are forgotten.
type traces struct {
	seed      maphash.Seed
	now, past map[uint64]trace
	since     int64 // when the younger generation began
}

// trace is when its first work came, and when some was last served.
type trace struct{ began, served int64 }

func newTraces() traces {
	return traces{seed: maphash.MakeSeed(), now: make(map[uint64]trace), past: make(map[uint64]trace)}
}

// id returns the hash of the trace that a traceparent names (version-trace-parent-flags);
// 0 if it is not one.
func (t *traces) id(parent []byte) uint64 {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return 0
	}
	return maphash.Bytes(t.seed, parent[3:35]) | 1
}

// served notes that work of a trace was done, which went on with what had begun then.
func (t *traces) served(id uint64, began, now int64) {
	if len(t.now) >= maxTraces || now-t.since >= traceWindow {
		t.now, t.past = t.past, t.now
		clear(t.now)
		t.since = now
	}
	t.now[id] = trace{began, now}
}

// refused ends what a trace had gained.
func (t *traces) refused(id uint64) {
	delete(t.now, id)
	delete(t.past, id)
}

// continues reports whether the trace was served a moment ago, and when it began.
func (t *traces) continues(id uint64, now int64) (began int64, ok bool) {
	at, known := t.now[id]
	if !known {
		at, known = t.past[id]
	}
	return at.began, known && now-at.served < traceWindow
}
