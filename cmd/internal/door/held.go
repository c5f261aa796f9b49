package door

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/pgweir/pgweir/wire"
)

const (
	// lastWord is how long the answer may take to be written.
	lastWord = 100 * time.Millisecond
	// heldShare is the part of the places for clients that so many logins may be held back.
	// They take no such place, but a file descriptor each.
	heldShare = 10
	// leastHeld is how many may be held back at least.
	leastHeld = 100
)

// Held is connections whose refusal is held back, in the order in which they are due. They
// wait for nothing but the time, without a goroutine. For any goroutine; the zero value holds
// nobody until Fit.
type Held struct {
	mu    sync.Mutex
	most  int // 0 = nothing is held back any more
	queue []heldConn
	timer *time.Timer // runs while the queue is not empty
}

// heldConn is one of them.
type heldConn struct {
	conn net.Conn
	e    *wire.Error
	due  time.Time
	then func() // called when it was told; may be nil
}

// limit sets how many may be held back. What is held already stays.
func (h *Held) limit(most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = most
}

// Fit sets how many may be held back beside so many clients. What is held already stays.
func (h *Held) Fit(clients int) { h.limit(max(leastHeld, clients/heldShare)) }

// Full reports whether there is no room for another one.
func (h *Held) Full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue) >= h.most
}

// Hold has e told to conn after some time, which is closed then. It reports whether there was
// room; if not, nothing was done.
func (h *Held) Hold(conn net.Conn, e *wire.Error, length time.Duration) bool {
	return h.HoldThen(conn, e, length, nil)
}

// HoldThen is [Held.Hold] with something to do after that; then may be nil.
func (h *Held) HoldThen(conn net.Conn, e *wire.Error, length time.Duration, then func()) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) >= h.most {
		return false
	}
	due := time.Now().Add(length)
	at := len(h.queue)
	for at > 0 && h.queue[at-1].due.After(due) {
		at--
	}
	h.queue = slices.Insert(h.queue, at, heldConn{conn, e, due, then})
	switch {
	case h.timer == nil:
		h.timer = time.AfterFunc(length, h.fire)
	case at == 0:
		h.timer.Reset(length)
	}
	return true
}

// fire answers those whose time has come.
func (h *Held) fire() {
	for _, c := range h.due(time.Now()) {
		c.tell()
	}
}

// due takes those whose time has come out of the queue.
func (h *Held) due(now time.Time) (list []heldConn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.queue) && !h.queue[n].due.After(now) {
		n++
	}
	list = append(list, h.queue[:n]...)
	rest := copy(h.queue, h.queue[n:])
	clear(h.queue[rest:])
	h.queue = h.queue[:rest]
	if rest > 0 {
		h.timer.Reset(h.queue[0].due.Sub(now))
	}
	return list
}

// Release answers all who are held back, at once.
func (h *Held) Release() {
	h.mu.Lock()
	list := h.queue
	h.queue = nil
	if h.timer != nil {
		h.timer.Stop()
	}
	h.mu.Unlock()
	for _, c := range list {
		c.tell()
	}
}

// End is [Held.Release], and from here on nothing is held back.
func (h *Held) End() {
	h.limit(0)
	h.Release()
}

// tell gives the answer. It does not wait: there is room for it in an empty socket.
func (c *heldConn) tell() {
	_ = c.conn.SetDeadline(time.Now().Add(lastWord)) // a socket that can't be timed fails at once
	_, _ = c.conn.Write(wire.AppendError(nil, c.e))  // it may have left already
	_ = c.conn.Close()
	if c.then != nil {
		c.then()
	}
}
