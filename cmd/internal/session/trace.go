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
	now, past map[uint64]int64 // when one was served last
	since     int64            // when the younger generation began
}

func newTraces() traces {
	return traces{seed: maphash.MakeSeed(), now: make(map[uint64]int64), past: make(map[uint64]int64)}
}

// id returns the hash of the trace that a traceparent names (version-trace-parent-flags);
// 0 if it is not one.
func (t *traces) id(parent []byte) uint64 {
	if len(parent) < 55 || parent[2] != '-' || parent[35] != '-' {
		return 0
	}
	return maphash.Bytes(t.seed, parent[3:35]) | 1
}

// served notes that work of a trace was done.
func (t *traces) served(id uint64, now int64) {
	if len(t.now) >= maxTraces || now-t.since >= traceWindow {
		t.now, t.past = t.past, t.now
		clear(t.now)
		t.since = now
	}
	t.now[id] = now
}

// refused ends what a trace had gained.
func (t *traces) refused(id uint64) {
	delete(t.now, id)
	delete(t.past, id)
}

// continues reports whether the trace was served a moment ago.
func (t *traces) continues(id uint64, now int64) bool {
	at, known := t.now[id]
	if !known {
		at, known = t.past[id]
	}
	return known && now-at < traceWindow
}
