package journal

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

// Turned counts, keeps and logs who was turned away before a session. For any goroutine; the zero
// value is ready.
type Turned struct {
	mu      sync.Mutex
	reasons map[string]uint64
	last    Ring[departure]
	log     Sampler[string]
}

// departure is one client that was turned away.
type departure struct {
	at     time.Time
	client string
	e      *wire.Error
}

// Add notes a client that was refused, at now in ns of any clock, and logs it, unless one was
// logged just now for the same reason.
func (t *Turned) Add(log *slog.Logger, now int64, e *wire.Error, client string) {
	reason := reasonOf(e)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reasons == nil {
		t.reasons = make(map[string]uint64)
	}
	t.reasons[reason]++
	t.last.Add(departure{time.Now(), client, e})
	t.log.Note(log, reason, now, "login refused", "reason", reason, "client", client, "error", e)
}

// Note logs a warning about logins, unless one of its kind was logged just now.
func (t *Turned) Note(log *slog.Logger, kind string, now int64, msg string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log.Note(log, kind, now, msg, args...)
}

// Counts are the totals by reason, in the order of their names.
func (t *Turned) Counts() (list []state.Count) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range slices.Sorted(maps.Keys(t.reasons)) {
		list = append(list, state.Count{Label: r, N: t.reasons[r]})
	}
	return list
}

// Newest lists the last ones, newest first.
func (t *Turned) Newest() []state.Refusal {
	t.mu.Lock()
	list := t.last.Newest()
	t.mu.Unlock()
	out := make([]state.Refusal, 0, len(list))
	for _, d := range list {
		out = append(out, state.Refusal{
			At: d.at, Client: d.client, Reason: reasonOf(d.e), Code: d.e.Code,
			Detail: d.e.Detail, Hint: d.e.Hint, Login: true,
		})
	}
	return out
}

// reasonOf takes the reason out of an error's DETAIL; without one it is its SQLSTATE.
func reasonOf(e *wire.Error) string {
	if rest, ok := strings.CutPrefix(e.Detail, "reason="); ok {
		reason, _, _ := strings.Cut(rest, " ")
		return reason
	}
	return e.Code
}
