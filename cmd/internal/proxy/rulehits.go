package proxy

import (
	"sync"

	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// ruleHits counts for how many logins each rule of an hba file was the first. A reload begins
// anew. For any goroutine.
type ruleHits struct {
	mu   sync.Mutex
	of   *hba.File
	hits []uint64 // by the rules' numbers, from 1
}

// add counts one.
func (h *ruleHits) add(f *hba.File, r *hba.Rule) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of != f {
		h.of, h.hits = f, make([]uint64, len(f.Rules)+1)
	}
	h.hits[r.Number]++
}

// hbaRules lists the rules of a file, which may be nil.
func (px *Proxy) hbaRules(f *hba.File) (list []state.HBARule) {
	if f == nil {
		return nil
	}
	px.ruleHits.mu.Lock()
	defer px.ruleHits.mu.Unlock()
	for i := range f.Rules {
		r := &f.Rules[i]
		t := r.Text()
		row := state.HBARule{
			Number: r.Number, File: r.File, Line: r.Line, Type: t.Type, Databases: t.Databases, Roles: t.Roles,
			Address: t.Address, Netmask: t.Netmask, Method: string(r.Method), Options: t.Options,
		}
		if px.ruleHits.of == f {
			row.Matched = px.ruleHits.hits[r.Number]
		}
		list = append(list, row)
	}
	return list
}

// mostSuspects bounds what is shown.
const mostSuspects = 1000
