package proxy

import (
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// hbaRules lists the rules of a file, which may be nil.
func (px *Proxy) hbaRules(f *hba.File) (list []state.HBARule) {
	if f == nil {
		return nil
	}
	hits := px.ruleHits.Of(f)
	for i := range f.Rules {
		r := &f.Rules[i]
		t := r.Text()
		row := state.HBARule{
			Number: r.Number, File: r.File, Line: r.Line, Type: t.Type, Databases: t.Databases, Roles: t.Roles,
			Address: t.Address, Netmask: t.Netmask, Method: string(r.Method), Options: t.Options,
		}
		if hits != nil {
			row.Matched = hits[r.Number]
		}
		list = append(list, row)
	}
	return list
}

// mostSuspects bounds what is shown.
const mostSuspects = 1000

// tlsState is the state of the encryption by t, which may be nil.
func (px *Proxy) tlsState(t *login.TLS) state.TLS {
	n := &px.tlsCount
	s := state.TLS{
		On: t != nil, Done: n.Done.Load(), Failed: n.Failed.Load(), Lost: n.Lost.Load(),
		Loaded: n.Loaded.Load(), Unusable: n.LoadFailed.Load(),
	}
	if t != nil {
		c := t.Certificate()
		s.NotAfter = c.NotAfter
		if c.Stale != nil {
			s.Stale = c.Stale.Error()
		}
	}
	return s
}
