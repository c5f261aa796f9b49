package status

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

// pulseTime is how long the event loop may take to answer before it counts as stuck.
const pulseTime = time.Second

// health is the answer of /healthz and /readyz.
type health struct {
	OK     bool     `json:"ok"`
	Reason string   `json:"reason,omitempty"` // why not
	Notes  []string `json:"notes,omitempty"`  // true of it, but no reason to stay away
}

func (s *Server) pulse(ctx context.Context) (state.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, pulseTime)
	defer cancel()
	return s.o.Guard.Health(ctx)
}

// healthz says whether the process works at all: whether its event loop turns. A process that
// fails this is of no use to anybody and may be killed.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	if _, err := s.pulse(r.Context()); err != nil {
		answer(w, r, health{Reason: fmt.Sprintf("the event loop did not answer within %v", pulseTime)})
		return
	}
	answer(w, r, health{OK: true})
}

// readyz says whether new clients should be sent here. It never depends on Postgres: when the
// database is away all instances would leave the load balancer at once, and the clients would
// get a refused connection instead of an error that says what is wrong.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	h, err := s.pulse(r.Context())
	if err != nil {
		answer(w, r, health{Reason: fmt.Sprintf("the event loop did not answer within %v", pulseTime)})
		return
	}
	var notes []string
	if h.Paused {
		notes = append(notes, "paused")
	}
	if h.Down {
		notes = append(notes, "database away")
	}
	if h.Draining {
		answer(w, r, health{Reason: "draining", Notes: notes})
		return
	}
	answer(w, r, health{OK: true, Notes: notes})
}

// answer writes h as a line of text, or as JSON to whoever asks for it.
func answer(w http.ResponseWriter, r *http.Request, h health) {
	code := http.StatusOK
	if !h.OK {
		code = http.StatusServiceUnavailable
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(h) // whoever hung up does not want it
		return
	}
	text := "ok"
	if !h.OK {
		text = h.Reason
	}
	if len(h.Notes) > 0 {
		text += " (" + strings.Join(h.Notes, ", ") + ")"
	}
	plain(w, code, text+"\n")
}

// plain writes a text.
func plain(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // whoever hung up does not want it
}
