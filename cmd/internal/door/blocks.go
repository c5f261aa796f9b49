package door

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// BlockList is who may not log in for a while. For any goroutine; the zero value
// is ready.
type BlockList struct {
	mu    sync.Mutex
	until map[quota.Party]*block
	from  map[netip.Addr]*origin // the addresses of these
}

// block is that of one party.
type block struct {
	until time.Time
	tries int // logins since it began
}

// origin is an address that somebody is blocked at.
type origin struct {
	until  time.Time // when nobody there is blocked any more
	others bool      // somebody else has logged in from there meanwhile
}

// How long the answer to a login of somebody who is blocked is held back. Who comes back at
// once, again and again, does so once in that time with each of its connections.
const (
	holdFirst   = time.Second
	holdDouble  = 20 // logins more, and it is doubled,
	holdLongest = 5 * time.Second
	holdMost    = 3 // after as many times it is that
)

// mostBlocked bounds the list. It is what a quota.Escalation remembers at most.
const mostBlocked = 10_000

// Add blocks a party. Over a bound of 10,000 that are blocked now it does nothing.
func (l *BlockList) Add(p quota.Party, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until, l.from = make(map[quota.Party]*block), make(map[netip.Addr]*origin)
	}
	if l.full() {
		l.forget(time.Now())
	}
	if l.full() {
		return
	}
	l.until[p] = &block{until: until}
	o := l.from[p.Address]
	if o == nil || !time.Now().Before(o.until) {
		o = &origin{}
		l.from[p.Address] = o
	}
	if until.After(o.until) {
		o.until = until
	}
}

func (l *BlockList) full() bool { return max(len(l.until), len(l.from)) >= mostBlocked }

// forget makes room for others: it takes those out whose blocks are over.
func (l *BlockList) forget(now time.Time) {
	for p, b := range l.until {
		if !now.Before(b.until) {
			delete(l.until, p)
		}
	}
	for a, o := range l.from {
		if !now.Before(o.until) {
			delete(l.from, a)
		}
	}
}

// Clear ends all blocks.
func (l *BlockList) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.until)
	clear(l.from)
}

// Left is for how long a role at an address may not log in, and hold for how long its answer
// to that is to be held back; left 0 = it may.
func (l *BlockList) Left(address netip.Addr, role string) (left, hold time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.from[address]
	if o == nil {
		return 0, 0
	}
	p := quota.Party{Address: address, Role: role}
	b := l.until[p]
	if b != nil {
		left = time.Until(b.until)
	}
	if left <= 0 {
		delete(l.until, p)
		o.others = true
		return 0, 0
	}
	hold = holdFirst
	for range min(b.tries/holdDouble, holdMost) {
		hold = min(2*hold, holdLongest)
	}
	b.tries++
	return left, min(hold, left)
}

// Only is for how long all who come from an address are blocked, as far as is known: until
// then nobody else has logged in from there since the first of them was blocked. 0 = others
// may come from there.
func (l *BlockList) Only(address netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.from[address]
	if o == nil || o.others {
		return 0
	}
	return max(time.Until(o.until), 0)
}

// Blocked is what somebody is told who may not log in for a while.
func Blocked(left time.Duration) *wire.Error {
	e := session.SayLogin("blocked")
	e.Detail += fmt.Sprintf(" left_ms=%d", (left+time.Millisecond-1)/time.Millisecond)
	return e
}
