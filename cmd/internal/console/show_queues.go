package console

import (
	"context"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// guard has a row for every class of a workload that was seen; one without a class for a
// workload that has not had any work.
func guard(q *query, s *state.Snapshot) error {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if len(w.Classes) == 0 {
			if err := q.end(idleGuard(q, w)); err != nil {
				return err
			}
		}
		for j := range w.Classes {
			c := &w.Classes[j]
			refused, by := refusedBy(&c.Refused)
			would, wouldBy := refusedBy(&c.Would)
			r := q.begin().text(w.Name).text(w.Upstream).text(w.Policy).text(w.Guard).text(c.Class.String())
			r.millis(c.MaxWait).count(c.Waiting).millis(c.Oldest).flag(c.Standing).total(c.Granted, c.Goodput)
			r.total(refused).text(by).total(would).text(wouldBy).total(w.FalseRefusals)
			r.fraction(w.DrainRate).wait(predicted(w, ahead(w, j))).total(p99(&c.GrantWaits), p99(&c.RefusalWaits))
			if err := q.end(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// idleGuard is the row of a workload without work.
func idleGuard(q *query, w *state.Workload) *row {
	r := q.begin().text(w.Name).text(w.Upstream).text(w.Policy).text(w.Guard).null()
	r.millis(w.MaxWait).count(w.Waiting).millis(w.Oldest).count(0).total(w.Granted, w.Traffic.Goodput)
	refused, by := refusedBy(&w.Refused)
	return r.total(refused).text(by).total(0).text("").total(w.FalseRefusals).
		fraction(w.DrainRate).wait(predicted(w, w.Waiting)).total(p99(&w.GrantWaits), p99(&w.RefusalWaits))
}

// ahead is how many wait in a class and in those above it: who goes before a newcomer, under
// a policy that knows classes.
func ahead(w *state.Workload, class int) (n int) {
	if w.Policy != admission.Guard.String() && w.Policy != admission.Priority.String() {
		return w.Waiting
	}
	for i := range w.Classes[:class+1] {
		n += w.Classes[i].Waiting
	}
	return n
}

// predicted is how long a newcomer behind so many others would wait for a slot; known is
// false as long as it is not known how fast the queue moves.
func predicted(w *state.Workload, before int) (wait time.Duration, known bool) {
	if before == 0 {
		return 0, true
	}
	if w.DrainRate <= 0 {
		return 0, false
	}
	return time.Duration(float64(before) / w.DrainRate * float64(time.Second)), true
}

// wait adds a duration in milliseconds, or NULL if it is not known.
func (r *row) wait(d time.Duration, known bool) *row {
	if !known {
		return r.null()
	}
	return r.millis(d)
}

// queues has a row for every workload.
func queues(q *query, s *state.Snapshot) error {
	paused := make(map[string]bool)
	for i := range s.Upstreams {
		paused[s.Upstreams[i].Name] = s.Upstreams[i].Paused
	}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		var waiting [admission.Classes]int
		standing := 0
		for j := range w.Classes {
			c := &w.Classes[j]
			waiting[c.Class-admission.CriticalPlus] = c.Waiting
			if c.Standing {
				standing++
			}
		}
		r := q.begin().text(w.Name).text(w.Upstream).text(w.Policy).count(w.Waiting).count(waiting[:]...).count(standing)
		r.millis(w.Oldest).wait(predicted(w, w.Waiting)).millis(w.MaxWait).count(w.MaxWaiting, w.Running).fraction(w.Part)
		if err := q.end(r.flag(paused[w.Upstream])); err != nil {
			return err
		}
	}
	return nil
}

// lastRefusals has a row for each of the last refusals.
func lastRefusals(ctx context.Context, q *query) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := q.c.guard.Refusals(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		f := &list[i]
		r := q.begin().instant(f.At).text(f.Client)
		if f.ClientID == 0 {
			r.null()
		} else {
			r.total(f.ClientID)
		}
		r.optional(f.Database).optional(f.Role).optional(f.Application).optional(f.Upstream).optional(f.Workload).optional(f.Class).optional(f.Tenant)
		r.text(f.Reason).text(f.Code).millis(f.Waited).flag(f.Login).optional(f.Detail).optional(f.Hint).optional(f.Traceparent)
		if err := q.end(r); err != nil {
			return err
		}
	}
	return nil
}
