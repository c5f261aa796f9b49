package proxy

import (
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// sessions is the table of sessions, by the process id in their cancel keys.
// Owned by the loop thread.
type sessions struct {
	slots []*session.Client
	free  []uint32
}

// add gives a session a process id: a small positive number, used again only
// after the session has ended.
func (t *sessions) add() (pid uint32) {
	if n := len(t.free); n > 0 {
		pid = t.free[n-1]
		t.free = t.free[:n-1]
		return pid
	}
	t.slots = append(t.slots, nil)
	return uint32(len(t.slots))
}

func (t *sessions) set(pid uint32, cl *session.Client) { t.slots[pid-1] = cl }

func (t *sessions) remove(pid uint32) {
	t.slots[pid-1] = nil
	t.free = append(t.free, pid)
}

// find returns the session that a cancel request names, or nil.
func (t *sessions) find(r *wire.CancelRequest) *session.Client {
	if r.PID == 0 || uint64(r.PID) > uint64(len(t.slots)) {
		return nil
	}
	cl := t.slots[r.PID-1]
	if cl == nil || !cl.Key().Matches(r) {
		return nil
	}
	return cl
}

// each calls f with every session of a core.
func (t *sessions) each(co *session.Core, f func(*session.Client)) {
	for _, cl := range t.slots {
		if cl != nil && cl.Core() == co {
			f(cl)
		}
	}
}
