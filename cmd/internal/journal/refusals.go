package journal

import (
	"log/slog"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

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

// Refusals counts refusals by kind, keeps the last ones and samples them for the log. Owned by
// the loop thread; the zero value is ready. Nothing is made into text before somebody wants to read it: it has to keep
// up with 100,000 of them in a second.
type Refusals struct {
	kinds map[refusalKind]*refusalCount
	other refusalCount
	last  Ring[Refusal]
	log   Sampler[lineKind]
}

type refusalCount struct {
	n    uint64
	last int64
}

// Refusal is one that was told to a client.
type Refusal struct {
	At, Waited  int64 // ns of the loop
	Upstream    string
	Group       *session.Group
	Workload    string // the group's at that time: another goroutine reads it, and a reload changes the group's
	Client      uint64 // ID of the client, which may be gone: nothing else of it is kept
	Address     string
	Told        *wire.Error
	Application string
	Tenant      string
	Traceparent string // as its tag or parameter has it
	Reason      admission.Reason
	Class       admission.Class
	Login       bool
}

// Note counts one, keeps it and logs it, unless one of its kind was logged just now. v is what
// was decided of it; named tells that its tenant is one of its own.
func (r *Refusals) Note(log *slog.Logger, f *Refusal, v *admission.Verdict, named bool) {
	kind := refusalKind{f.Group, f.Application, "", f.Reason}
	if named {
		kind.tenant = f.Tenant
	}
	r.count(kind, f.At)
	r.last.Add(*f)
	if more, due := r.log.due(lineKind{f.Workload, f.Reason}, f.At); due {
		f.log(log, more, v)
	}
}

// count counts one.
func (r *Refusals) count(k refusalKind, now int64) {
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

// Kinds returns the counts of all kinds; the last one, if any, is of all that are not told
// apart, and has empty names. now and at are as in [Refusal.State].
func (r *Refusals) Kinds(now int64, at time.Time) []state.RefusalCount {
	list := make([]state.RefusalCount, 0, len(r.kinds)+1)
	rows := make(map[state.RefusalCount]int, len(r.kinds)) // two groups may have the same names
	for k, c := range r.kinds {
		row := state.RefusalCount{
			Reason: k.reason.String(), Workload: k.group.Workload.Name, Database: k.group.Database, Role: k.group.Role,
			Application: k.app, Tenant: k.tenant,
		}
		i, known := rows[row]
		if !known {
			i = len(list)
			rows[row] = i
			list = append(list, row)
		}
		list[i].N += c.n
		if last := state.TimeOfDay(c.last, now, at); last.After(list[i].Last) {
			list[i].Last = last
		}
	}
	if r.other.n > 0 {
		list = append(list, state.RefusalCount{N: r.other.n, Last: state.TimeOfDay(r.other.last, now, at)})
	}
	return list
}

// Newest returns the last ones, newest first. They may be read on any goroutine.
func (r *Refusals) Newest() []Refusal { return r.last.Newest() }

// log writes the line of a refusal that stands for others.
func (f *Refusal) log(log *slog.Logger, more int, v *admission.Verdict) {
	reason := f.Reason.String()
	args := []any{
		"reason", reason, "upstream", f.Upstream, "workload", f.Workload, "class", f.Class.String(),
		"database", f.Group.Database, "role", f.Group.Role, "application_name", f.Application, "login", f.Login,
		"waited", time.Duration(f.Waited).Round(time.Millisecond), "queued", v.Queued, "slots", v.Slots,
		"client", f.Address,
	}
	if f.Tenant != "" && f.Tenant != f.Application {
		args = append(args, "tenant", f.Tenant)
	}
	if f.Traceparent != "" {
		args = append(args, "traceparent", f.Traceparent)
	}
	warn(log, more, "refusing", append(args, "what_to_do", state.Advice(reason))...)
}

// State is the refusal as SHOW REFUSALS has it. now is the loop's time, in ns, at the time of
// day at.
func (f *Refusal) State(now int64, at time.Time) state.Refusal {
	return state.Refusal{
		At:     state.TimeOfDay(f.At, now, at),
		Client: f.Address, ClientID: f.Client, Upstream: f.Upstream, Database: f.Group.Database, Role: f.Group.Role,
		Application: f.Application, Workload: f.Workload, Class: f.Class.String(),
		Tenant: f.Tenant, Traceparent: f.Traceparent,
		Reason: f.Reason.String(), Code: f.Told.Code, Detail: f.Told.Detail, Hint: f.Told.Hint,
		Waited: time.Duration(f.Waited), Login: f.Login,
	}
}
