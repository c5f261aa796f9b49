package console

import (
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/state"
)

func hbaRules(q *query, s *state.Snapshot) error {
	for i := range s.HBA {
		h := &s.HBA[i]
		r := q.begin().count(h.Number).text(h.File).count(h.Line).text(h.Type)
		r = r.text(strings.Join(h.Databases, ",")).text(strings.Join(h.Roles, ",")).optional(h.Address).optional(h.Netmask)
		if err := q.end(r.text(h.Method).text(strings.Join(h.Options, ",")).total(h.Matched)); err != nil {
			return err
		}
	}
	return nil
}

func loginFailures(q *query, s *state.Snapshot) error {
	for i := range s.Suspects {
		f := &s.Suspects[i]
		r := q.begin().text(f.Address).count(f.Failures).millis(f.Delay).count(f.Under)
		if err := q.end(r.total(f.Failed, f.Refused).moment(f.Last)); err != nil {
			return err
		}
	}
	return nil
}

func roleAnswers(q *query, s *state.Snapshot) error {
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		a := &u.Roles
		if err := q.end(q.begin().text(u.Name).total(a.Asked, a.Failed, a.Cached, a.Stale).count(a.Kept, a.Strangers)); err != nil {
			return err
		}
	}
	return nil
}
