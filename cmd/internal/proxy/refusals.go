package proxy

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// quiet is for how long no line of the same kind follows one in the log.
const quiet = 10e9

// maxKinds bounds the kinds of lines and of refusals that are told apart.
const maxKinds = 1000

// sampler lets one log line of each kind through and counts those that it keeps back.
type sampler struct {
	kinds map[string]*sample
}

type sample struct {
	until int64
	more  int
}

// note logs a warning, unless one of its kind was logged just now.
func (s *sampler) note(log *slog.Logger, kind string, now int64, msg string, args ...any) {
	if s.kinds == nil {
		s.kinds = make(map[string]*sample)
	}
	k := s.kinds[kind]
	if k == nil {
		if len(s.kinds) >= maxKinds {
			clear(s.kinds)
		}
		k = &sample{}
		s.kinds[kind] = k
	}
	if now < k.until {
		k.more++
		return
	}
	if k.more > 0 {
		args = append(args, "unlogged_before", k.more)
	}
	k.until, k.more = now+quiet, 0
	log.Warn(msg, args...)
}

// refusalKind tells refusals apart.
type refusalKind struct {
	reason   string
	workload string
	database string
	role     string
	app      string
}

// refusals counts refusals by kind and samples them for the log. Owned by the loop thread.
type refusals struct {
	kinds map[refusalKind]*refusalCount
	other refusalCount
	log   sampler
}

type refusalCount struct {
	n    uint64
	last int64
}

// add counts one.
func (r *refusals) add(k refusalKind, now int64) {
	if r.kinds == nil {
		r.kinds = make(map[refusalKind]*refusalCount)
	}
	c := r.kinds[k]
	if c == nil {
		if len(r.kinds) >= maxKinds {
			r.other.n++
			r.other.last = now
			return
		}
		c = &refusalCount{}
		r.kinds[k] = c
	}
	c.n++
	c.last = now
}

// Refused implements session.Env.
func (up *cluster) Refused(cl *session.Client, v admission.Verdict, _ *wire.Error, login bool) {
	px, g := up.px, cl.Group()
	app := clip(cl.Application())
	now := px.loop.Now()
	px.refusals.add(refusalKind{v.Reason.String(), g.Workload.Name, g.Database, g.Role, app}, now)
	px.refusals.log.note(px.o.Log, v.Reason.String()+"\x00"+g.Workload.Name, now, "refusing",
		"reason", v.Reason.String(), "upstream", up.name, "workload", g.Workload.Name, "database", g.Database, "role", g.Role,
		"application_name", app, "login", login, "waited", time.Duration(v.Waited).Round(time.Millisecond),
		"queued", v.Queued, "slots", v.Slots, "what_to_do", Advice(v.Reason.String()))
}

// clip bounds a name that a client has chosen.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// turned counts and logs who was turned away before a session. For any goroutine.
type turned struct {
	mu      sync.Mutex
	reasons map[string]uint64
	log     sampler
}

// turnedAway notes a client that was refused at the door.
func (px *Proxy) turnedAway(e *wire.Error, client string) {
	reason := reasonOf(e)
	px.turned.mu.Lock()
	defer px.turned.mu.Unlock()
	if px.turned.reasons == nil {
		px.turned.reasons = make(map[string]uint64)
	}
	px.turned.reasons[reason]++
	px.turned.log.note(px.o.Log, reason, time.Since(px.started).Nanoseconds(), "login refused",
		"reason", reason, "client", client, "error", e)
}

// reasonOf takes the reason out of an error's DETAIL; without one it is its SQLSTATE.
func reasonOf(e *wire.Error) string {
	if rest, ok := strings.CutPrefix(e.Detail, "reason="); ok {
		reason, _, _ := strings.Cut(rest, " ")
		return reason
	}
	return e.Code
}
