package session

import "github.com/pgweir/pgweir/wire"

// Doubt reports that a login has been under way for so long that no server may come of it;
// why says so. It goes on, and its end is reported by Dialed. Meanwhile those who wait for a
// server that nobody else can give them know that none may come.
func (co *Core) Doubt(now int64, sv *Server, why *wire.Error) {
	if !co.set.Doubt(now, sv.pool) {
		return
	}
	sv.info.failure, sv.info.failedAt = why, now
	co.supplied(now, sv)
}

// Unanswered returns since when the server owes an answer, in the loop's ns; 0 = it does
// not.
func (sv *Server) Unanswered() int64 { return sv.busyAt }

// hush is how long nobody logs in to a server that has no room, in ns.
const hush = 500e6

// Full reports that the server has no room for anybody: one login after the other would
// only be refused. Say it before Dialed.
func (co *Core) Full(now int64) {
	co.set.Refused(now, true)
	co.set.Hush(now, now+hush)
	co.timer = true
}

// Away reports that a login has failed for a reason that concerns all: the server cannot be
// reached, or lets nobody in now. Say it before Dialed.
func (co *Core) Away(now int64) {
	co.set.Refused(now, false)
	co.timer = true
}
