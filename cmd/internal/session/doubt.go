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
