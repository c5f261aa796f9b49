package state

import (
	"cmp"
	"slices"
	"time"
)

// RefusalCount counts refusals of one kind.
type RefusalCount struct {
	Reason, Workload, Database, Role, Application string
	Tenant                                        string // if the request or its session has named one
	N                                             uint64
	Last                                          time.Time
}

// Refusal is one request or login that was refused, with what the client was told.
type Refusal struct {
	At                                    time.Time
	Client                                string // its address, or "unix"
	ClientID                              uint64 // as in Client; 0 = it had no session yet
	Upstream, Database, Role, Application string // "" = it had no session yet
	Workload, Class, Tenant               string
	Traceparent                           string // as its tag or parameter has it
	Reason                                string
	Code                                  string // SQLSTATE
	Detail, Hint                          string
	Waited                                time.Duration
	Login                                 bool // it was refused at its login
}

// MostFrequent keeps so many kinds of refusals, the most frequent ones, and adds the others up:
// they are the last one, which has empty names, if there are any. It changes the list.
func MostFrequent(list []RefusalCount, most int) []RefusalCount {
	var other RefusalCount
	more := func(r *RefusalCount) {
		other.N += r.N
		if r.Last.After(other.Last) {
			other.Last = r.Last
		}
	}
	list = slices.DeleteFunc(list, func(r RefusalCount) bool {
		if r.Reason == "" {
			more(&r)
		}
		return r.Reason == ""
	})
	slices.SortFunc(list, func(a, b RefusalCount) int { return cmp.Compare(b.N, a.N) })
	most = min(len(list), most)
	for i := range list[most:] {
		more(&list[most+i])
	}
	list = list[:most:most]
	if other.N > 0 {
		list = append(list, other)
	}
	return list
}
