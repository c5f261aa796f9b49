package proxy

import (
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// A cancel key's process id has the number of the process above processShift and a place
// in the table of sessions, from 1, below it.
const (
	processShift = 22
	// MaxProcess is the largest number of a process.
	MaxProcess = 255
	// maxSessions is the largest place.
	maxSessions = 1<<processShift - 1
)

// processOf returns the number of the process that a cancel request is for.
func processOf(r *wire.CancelRequest) uint32 { return r.PID >> processShift }

// sessions is the table of sessions, by the process id in their cancel keys.
// Owned by the loop thread.
type sessions struct {
	process uint32 // above processShift already
	slots   []*session.Client
	free    []uint32
}

// add gives a session a process id, used again only after the session has ended.
func (t *sessions) add() (pid uint32) {
	if n := len(t.free); n > 0 {
		pid = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		t.slots = append(t.slots, nil)
		pid = uint32(len(t.slots))
	}
	return t.process | pid
}

func (t *sessions) slot(pid uint32) uint32 { return pid&maxSessions - 1 }

func (t *sessions) set(pid uint32, cl *session.Client) { t.slots[t.slot(pid)] = cl }

func (t *sessions) remove(pid uint32) {
	t.slots[t.slot(pid)] = nil
	t.free = append(t.free, pid&maxSessions)
}

// find returns the session that a cancel request names, or nil.
func (t *sessions) find(r *wire.CancelRequest) *session.Client {
	if i := t.slot(r.PID); uint64(i) < uint64(len(t.slots)) && r.PID&^maxSessions == t.process {
		if cl := t.slots[i]; cl != nil && cl.Key().Matches(r) {
			return cl
		}
	}
	return nil
}

// each calls f with every session of a core.
func (t *sessions) each(co *session.Core, f func(*session.Client)) {
	for _, cl := range t.slots {
		if cl != nil && cl.Core() == co {
			f(cl)
		}
	}
}

// all calls f with every session.
func (t *sessions) all(f func(*session.Client)) {
	for _, cl := range t.slots {
		if cl != nil {
			f(cl)
		}
	}
}
