package door

import (
	"container/list"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// Failed logins are answered later and later, for each address by itself. A delay alone holds
// up nobody who does not wait for the answer, so no more than a few of them may be under way.
const (
	freeFailures  = 3                      // of an address are answered at once,
	firstDelay    = 100 * time.Millisecond // then one this late, and twice as late each time,
	longestDelay  = 5 * time.Second        // up to this
	mostFailures  = 20                     // no more are remembered,
	forgetFailure = 10 * time.Second       // and one is forgotten each time
	// mostGuesses is how many logins of one role at an address with failures may be checked
	// or wait for their answer, and mostAtAddress of all roles.
	mostGuesses   = 5
	mostAtAddress = 50
	// mostAddresses bounds the table: the address that failed longest ago makes room.
	mostAddresses = 10_000
	// netBits6 is the part of an IPv6 address that is one's own to choose.
	netBits6 = 64
)

// Guesser is who is meant by an address: an IPv4 address, an IPv6 network, or a system user
// at a Unix socket.
type Guesser struct {
	net  netip.Prefix
	user uint32 // with net zero
}

// GuesserOf tells who is at the other end of a connection.
func GuesserOf(conn net.Conn) Guesser {
	ip := IPOf(conn.RemoteAddr())
	if !ip.IsValid() {
		uid, _ := login.PeerID(conn) // 0, if it has left
		return Guesser{user: uid}
	}
	bits := ip.BitLen()
	if ip.Is6() {
		bits = netBits6
	}
	p, _ := ip.WithZone("").Prefix(bits) // not longer than the address
	return Guesser{net: p}
}

// String is the address as SHOW has it.
func (g Guesser) String() string {
	switch {
	case !g.net.IsValid():
		return "unix uid " + strconv.FormatUint(uint64(g.user), 10)
	case g.net.IsSingleIP():
		return g.net.Addr().String()
	}
	return g.net.String()
}

// Throttle is the failed logins, by address. For any goroutine; the zero value is ready.
type Throttle struct {
	mu    sync.Mutex
	from  map[Guesser]*list.Element // of *suspect
	order list.List                 // who failed last first
	stats state.LoginStats
}

// suspect is an address with failures.
type suspect struct {
	who      Guesser
	failures int // that are not forgotten, as of last
	last     time.Time
	total    uint64
	refused  uint64
	under    int            // logins that are checked or wait for their answer
	roles    map[string]int // of these by role; bounded by mostAtAddress
}

// now is how many failures are not forgotten.
func (s *suspect) now(now time.Time) int {
	return max(s.failures-int(now.Sub(s.last)/forgetFailure), 0)
}

// Begin asks whether a login may be tried. end is to be called once it is over, also if its
// answer is held back.
func (t *Throttle) Begin(who Guesser, role string) (end func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.from[who]
	if e == nil {
		return func() {}, true
	}
	s := e.Value.(*suspect)
	if s.now(time.Now()) < freeFailures {
		return func() {}, true
	}
	if s.under >= mostAtAddress || s.roles[role] >= mostGuesses {
		s.refused++
		t.stats.Refused++
		return nil, false
	}
	return t.countLocked(s, role), true
}

// countLocked counts a login of a role until the function is called.
func (t *Throttle) countLocked(s *suspect, role string) func() {
	if s.roles == nil {
		s.roles = make(map[string]int)
	}
	s.under++
	s.roles[role]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.under--
		if s.roles[role]--; s.roles[role] == 0 {
			delete(s.roles, role)
		}
	})
}

// Fail notes a failed login and returns how long its answer is to be held back.
func (t *Throttle) Fail(who Guesser) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.from == nil {
		t.from = make(map[Guesser]*list.Element)
	}
	e := t.from[who]
	if e == nil {
		if len(t.from) >= mostAddresses {
			oldest := t.order.Back()
			delete(t.from, oldest.Value.(*suspect).who)
			t.order.Remove(oldest)
		}
		e = t.order.PushFront(&suspect{who: who})
		t.from[who] = e
	}
	t.order.MoveToFront(e)
	s := e.Value.(*suspect)
	s.failures, s.last = min(s.now(now)+1, mostFailures), now
	s.total++
	t.stats.Failed++
	delay := delayOf(s.failures)
	if delay > 0 {
		t.stats.Delayed++
	}
	return delay
}

// delayOf is how long the answer to one failure of so many is held back.
func delayOf(failures int) time.Duration {
	if failures <= freeFailures {
		return 0
	}
	return min(firstDelay<<(failures-freeFailures-1), longestDelay)
}

// Stats returns the counters.
func (t *Throttle) Stats() state.LoginStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Addresses = len(t.from)
	return s
}

// Suspects lists those who failed last, at most so many.
func (t *Throttle) Suspects(most int) (list []state.Suspect) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for e := t.order.Front(); e != nil && len(list) < most; e = e.Next() {
		s := e.Value.(*suspect)
		n := s.now(now)
		list = append(list, state.Suspect{
			Address: s.who.String(), Failures: n, Delay: delayOf(n + 1), Under: s.under, Failed: s.total, Refused: s.refused, Last: s.last,
		})
	}
	return slices.Clip(list)
}
