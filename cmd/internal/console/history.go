package console

import (
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// history keeps two samples, so that averages look back on one to two periods, as
// PgBouncer's do.
type history struct {
	mu           sync.Mutex
	older, newer sample
}

// sample is what had passed at one moment. The zero sample is the start.
type sample struct {
	at       time.Time
	all      state.Traffic
	database map[string]state.Traffic
}

// add takes a new sample.
func (h *history) add(s *state.Snapshot) {
	now := sample{at: s.Now, all: s.Traffic, database: make(map[string]state.Traffic, len(s.Databases))}
	for i := range s.Databases {
		now.database[s.Databases[i].Name] = s.Databases[i].Traffic
	}
	h.mu.Lock()
	h.older, h.newer = h.newer, now
	h.mu.Unlock()
}

// since returns the older sample. Its map is not written any more.
func (h *history) since(started time.Time) sample {
	h.mu.Lock()
	s := h.older
	h.mu.Unlock()
	if s.at.IsZero() {
		s.at = started
	}
	return s
}

// averages are the figures of a span of time, in the order of statNames.
func averages(now, then state.Traffic, span time.Duration) [stats]uint64 {
	var list [stats]uint64
	if span <= 0 {
		return list
	}
	a, b := figures(now), figures(then)
	for i := range a {
		if a[i] < b[i] { // the database is a new one of the same name
			b[i] = 0
		}
		a[i] -= b[i]
	}
	for i, n := range a {
		per := span.Seconds()
		switch i {
		case transactionTime:
			per = float64(a[transactions])
		case queryTime:
			per = float64(a[queries])
		case waitTime:
			per = float64(a[assignments])
		}
		if per > 0 {
			list[i] = uint64(float64(n) / per)
		}
	}
	return list
}
