package console

import (
	"github.com/pgweir/pgweir/cmd/internal/state"
)

func roles(q *query, s *state.Snapshot) error {
	for i := range s.Roles {
		o := &s.Roles[i]
		r := q.begin().text(o.Name).text(o.MaxClass.String()).fraction(o.PromoteShare, o.Promoted).total(o.Demoted, o.Capped)
		r.count(o.Clients, o.Servers).total(o.Traffic.Goodput, o.Traffic.Refused).flag(o.Ceiling)
		for _, d := range o.Timeouts {
			r.millis(d)
		}
		if err := q.end(r.total(o.Stopped[:]...).count(o.MaxClients, o.MaxServers)); err != nil {
			return err
		}
	}
	return nil
}

func rates(q *query, s *state.Snapshot) error {
	for i := range s.Rates {
		t := &s.Rates[i]
		r := q.begin().text(t.Name).text(t.Per).text(t.Rate).text(t.Mode).text(t.Escalation)
		if err := q.end(r.total(t.Passed, t.Refused, t.Would).count(t.Keys).total(t.Evicted)); err != nil {
			return err
		}
	}
	return nil
}

func blocks(q *query, s *state.Snapshot) error {
	for i := range s.Blocks {
		b := &s.Blocks[i]
		left := max(b.Until.Sub(s.Now), 0)
		r := q.begin().text(b.Address).text(b.Role).count(b.Level).flag(left > 0).millis(left)
		if err := q.end(r.moment(b.Since).moment(b.Until).count(b.Blocks).total(b.Violations)); err != nil {
			return err
		}
	}
	return nil
}
