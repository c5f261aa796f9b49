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

// HBARule is a rule of the hba file in force, in the words of Postgres's pg_hba_file_rules.
type HBARule struct {
	Number           int // from 1
	File             string
	Line             int
	Type             string
	Databases, Roles []string
	Address, Netmask string // "" where there is none
	Method           string
	Options          []string
	Matched          uint64 // logins for which it was the first
}

// hbaRules lists the rules of a file, which may be nil.
func (px *Proxy) hbaRules(f *hba.File) (list []HBARule) {
	if f == nil {
		return nil
	}
	px.ruleHits.mu.Lock()
	defer px.ruleHits.mu.Unlock()
	for i := range f.Rules {
		r := &f.Rules[i]
		t := r.Text()
		row := HBARule{r.Number, r.File, r.Line, t.Type, t.Databases, t.Roles, t.Address, t.Netmask, string(r.Method), t.Options, 0}
		if px.ruleHits.of == f {
			row.Matched = px.ruleHits.hits[r.Number]
		}
		list = append(list, row)
	}
	return list
}

// mostSuspects bounds what is shown.
const mostSuspects = 1000
