package proxy

import (
	"slices"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// seat is a place in the budget that is not for the pool: the budget of the pool is smaller by
// all of them. It is booked first, and taken when the pool keeps to that.
type seat struct {
	role, database string        // on the server
	reserved       bool          // it is one of the reserve
	taken          bool          // loop thread
	ready          chan struct{} // closed when it is taken
}

// seats are those of an upstream, in the order in which they were booked. Owned by the loop
// thread.
type seats struct {
	list    []*seat
	waiting int // of these not taken yet
}

// count is how many there are of each kind.
func (l *seats) count() (ordinary, reserved int) {
	for _, s := range l.list {
		if s.reserved {
			reserved++
		}
	}
	return len(l.list) - reserved, reserved
}

// book books a seat for a role that clients log in as, if that leaves one to the pool. Loop
// thread.
func (up *cluster) book(now int64, who *admitted) (*seat, *wire.Error) {
	u := up.o.Load()
	ordinary, reserved := up.seats.count()
	s := &seat{role: who.user, database: who.dbname, ready: make(chan struct{})}
	s.reserved = u.Reserves(who.role) && reserved < u.Reserve-u.Control()
	if !s.reserved && ordinary+1 >= u.Budget-u.Reserve {
		return nil, noSeat()
	}
	for _, q := range up.quotasOf(up.px.settings.Load())(s.role, s.database) {
		if q.Limit > 0 && q.Others >= q.Limit {
			return nil, noSeat()
		}
	}
	up.seats.list = append(up.seats.list, s)
	up.seats.waiting++
	up.rebudget(now)
	return s, nil
}

// noSeat is told to who finds none.
func noSeat() *wire.Error { return session.Say("replication") }

// release gives a seat back to the pool, taken or not. Loop thread.
func (up *cluster) release(now int64, s *seat) {
	i := slices.Index(up.seats.list, s)
	if i < 0 {
		return
	}
	up.seats.list = slices.Delete(up.seats.list, i, i+1)
	if !s.taken {
		up.seats.waiting--
	}
	up.rebudget(now)
}

// rebudget tells pool and gate how many places there are. Loop thread.
func (up *cluster) rebudget(now int64) {
	u := up.o.Load()
	up.core.Reconfigure(now, up.gatePlan(u), up.poolOptions(u, up.px.settings.Load()))
}

// occupy gives seats to those who have booked, the first first, as far as the pool has left
// them, and as connect_rate allows the logins that follow. Loop thread.
func (up *cluster) occupy(now int64) {
	if up.seats.waiting == 0 {
		return
	}
	set := up.core.Set()
	st := set.Stats()
	over := max(st.Dialling+st.Idle+st.Busy+st.Closing-st.Budget, st.Ordinary-(st.Budget-st.Reserve), 0)
	free := up.seats.waiting - over
	quotas := up.quotasOf(up.px.settings.Load())
	for _, s := range up.seats.list {
		if free <= 0 {
			return
		}
		if s.taken || set.OverQuotas(quotas(s.role, s.database)) {
			continue
		}
		if ok, again := set.Charge(now); !ok {
			up.px.loop.WakeAt(again)
			return
		}
		s.taken = true
		close(s.ready)
		up.seats.waiting--
		free--
	}
}

// seated is how many seats of a quota are booked.
func (up *cluster) seated(of func(*seat) bool) (n int) {
	for _, s := range up.seats.list {
		if of(s) {
			n++
		}
	}
	return n
}
