package proxy

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

// quiet is for how long no line of the same kind follows one in the log.
const quiet = 10e9

// maxKinds bounds the kinds of lines and of refusals that are told apart.
const maxKinds = 1000

// sampler lets one log line of each kind K through and counts those that it keeps back.
type sampler[K comparable] struct {
	kinds map[K]*sample
}

type sample struct {
	until int64
	more  int
}

// due reports whether a line of the kind is to be logged now, and how many were kept back
// since the last one.
func (s *sampler[K]) due(kind K, now int64) (more int, due bool) {
	if s.kinds == nil {
		s.kinds = make(map[K]*sample)
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
		return 0, false
	}
	more = k.more
	k.until, k.more = now+quiet, 0
	return more, true
}

// note logs a warning, unless one of its kind was logged just now.
func (s *sampler[K]) note(log *slog.Logger, kind K, now int64, msg string, args ...any) {
	if more, due := s.due(kind, now); due {
		warn(log, more, msg, args...)
	}
}

// warn logs a line after so many of its kind that were kept back.
func warn(log *slog.Logger, more int, msg string, args ...any) {
	if more > 0 {
		args = append(args, "unlogged_before", more)
	}
	log.Warn(msg, args...)
}

// refusalKind tells refusals apart. The group stands for workload, database and role.
type refusalKind struct {
	group  *session.Group
	app    string
	tenant string // "" = its own name is none but the application's
	reason admission.Reason
}

// lineKind tells lines of the log about refusals apart.
type lineKind struct {
	workload string
	reason   admission.Reason
}

// refusals counts refusals by kind, keeps the last ones and samples them for the log. Owned by
// the loop thread. Nothing is made into text before somebody wants to read it: it has to keep
// up with 100,000 of them in a second.
type refusals struct {
	kinds map[refusalKind]*refusalCount
	other refusalCount
	last  ring[refusal]
	log   sampler[lineKind]
}

type refusalCount struct {
	n    uint64
	last int64
}

// refusal is one that was told to a client.
type refusal struct {
	at, waited int64
	upstream   *cluster
	group      *session.Group
	workload   string // the group's at that time: another goroutine reads it, and a reload changes the group's
	id         uint64 // of the client, which may be gone: nothing else of it is kept
	addr       string
	e          *wire.Error
	app        string
	tenant     string
	trace      string // its traceparent
	reason     admission.Reason
	class      admission.Class
	login      bool
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
func (up *cluster) Refused(cl *session.Client, v admission.Verdict, e *wire.Error, login bool) {
	px, h, m := up.px, cl.Tag.(*clientConn), cl.Meta()
	f := refusal{
		at: px.loop.Now(), waited: v.Waited, upstream: up, group: cl.Group(), workload: cl.Group().Workload.Name, id: h.id, addr: h.addr,
		e: e, app: clip(cl.Application()), tenant: m.Tenant, trace: m.Traceparent,
		reason: v.Reason, class: m.Class, login: login,
	}
	kind := refusalKind{f.group, f.app, "", f.reason}
	if m.Named {
		kind.tenant = m.Tenant
	}
	px.refusals.add(kind, f.at)
	px.refusals.last.add(f)
	if more, due := px.refusals.log.due(lineKind{f.workload, f.reason}, f.at); due {
		f.log(px.o.Log, more, &v)
	}
}

// log writes the line of a refusal that stands for others.
func (f *refusal) log(log *slog.Logger, more int, v *admission.Verdict) {
	reason := f.reason.String()
	args := []any{
		"reason", reason, "upstream", f.upstream.name, "workload", f.workload, "class", f.class.String(),
		"database", f.group.Database, "role", f.group.Role, "application_name", f.app, "login", f.login,
		"waited", time.Duration(f.waited).Round(time.Millisecond), "queued", v.Queued, "slots", v.Slots,
		"client", f.addr,
	}
	if f.tenant != "" && f.tenant != f.app {
		args = append(args, "tenant", f.tenant)
	}
	if f.trace != "" {
		args = append(args, "traceparent", f.trace)
	}
	warn(log, more, "refusing", append(args, "what_to_do", state.Advice(reason))...)
}

// state is the refusal as SHOW REFUSALS has it, without its time.
func (f *refusal) state() state.Refusal {
	return state.Refusal{
		Client: f.addr, ClientID: f.id, Upstream: f.upstream.name, Database: f.group.Database, Role: f.group.Role,
		Application: f.app, Workload: f.workload, Class: f.class.String(),
		Tenant: f.tenant, Traceparent: f.trace,
		Reason: f.reason.String(), Code: f.e.Code, Detail: f.e.Detail, Hint: f.e.Hint,
		Waited: time.Duration(f.waited), Login: f.login,
	}
}

// Refusals implements state.Inspector.
func (px *Proxy) Refusals(ctx context.Context) (list []state.Refusal, err error) {
	var kept []refusal
	var now int64
	var at time.Time
	err = px.do(ctx, func(n int64) {
		kept, now, at = px.refusals.last.newest(), n, time.Now()
	})
	if err != nil {
		return nil, err
	}
	list = make([]state.Refusal, 0, len(kept))
	for i := range kept {
		s := kept[i].state()
		s.At = px.wallClock(kept[i].at, now, at)
		list = append(list, s)
	}
	list = append(list, px.turned.newest()...)
	slices.SortStableFunc(list, func(a, b state.Refusal) int { return b.At.Compare(a.At) })
	return list[:min(len(list), lastRefusals)], nil
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
	last    ring[door]
	log     sampler[string]
}

// door is one client that was turned away.
type door struct {
	at     time.Time
	client string
	e      *wire.Error
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
	px.turned.last.add(door{time.Now(), client, e})
	px.turned.log.note(px.o.Log, reason, time.Since(px.started).Nanoseconds(), "login refused",
		"reason", reason, "client", client, "error", e)
}

// newest lists the last ones, newest first.
func (t *turned) newest() []state.Refusal {
	t.mu.Lock()
	list := t.last.newest()
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
