package proxy

import (
	"sync"

	"github.com/pgweir/pgweir/cmd/internal/login/hba"
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

// HBARule is a rule of the hba file in force.
type HBARule struct {
	*hba.Rule
	Matched uint64 // logins for which it was the first
}

// HBA returns the rules in force; none without an hba file.
func (px *Proxy) HBA() (list []HBARule) {
	f := px.settings.Load().Auth.HBA
	if f == nil {
		return nil
	}
	px.ruleHits.mu.Lock()
	defer px.ruleHits.mu.Unlock()
	for i := range f.Rules {
		r := HBARule{Rule: &f.Rules[i]}
		if px.ruleHits.of == f {
			r.Matched = px.ruleHits.hits[r.Number]
		}
		list = append(list, r)
	}
	return list
}

// mostSuspects bounds what is shown.
const mostSuspects = 1000

// Suspects returns the addresses from where logins have failed, those of now first.
func (px *Proxy) Suspects() []Suspect { return px.throttle.suspects(mostSuspects) }
