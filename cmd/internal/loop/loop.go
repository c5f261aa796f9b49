package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Never is the time that a timer names when it need not be called again.
const Never int64 = math.MaxInt64

// Defaults of Options.
const (
	DefaultBufferSize = 64 << 10
	DefaultMaxKeep    = 16<<20 + 64<<10
	DefaultLingerTime = 5 * time.Second
)

// minBufferSize is large enough for a TLS record's header and small enough for
// tests that want many short reads.
const minBufferSize = 512

// yieldEvery is how often, in nanoseconds, the loop goroutine passes through Go's
// scheduler. To the runtime's monitor a goroutine that never does so looks
// stuck after 10 ms: it sends signals and takes the processor away from every
// wait, and each time goes on looking every 20 us for a while. On a busy loop
// that was a tenth of all CPU; this is a few microseconds.
const yieldEvery = 5_000_000

// waitEvents is the most events that one wait returns.
const waitEvents = 256

// backlogSteps is how many connections have a step in a turn beside one for each of its events.
// Where thousands have something to do at once, because they are all refused say, the others
// do not wait for them.
const backlogSteps = 64

// Options adjust a loop. The zero value is usable.
type Options struct {
	// BufferSize is the size in bytes of the buffer that all connections read
	// into, and so the most that one connection gets per turn. 0 means
	// DefaultBufferSize; the range is 512 B to 16 MiB.
	BufferSize int

	// MaxKeep is the most bytes that a connection's handler may leave; a
	// connection with more ends with Overflow. 0 means DefaultMaxKeep; at most
	// 1 GiB.
	MaxKeep int

	// LingerTime bounds Conn.Finish. 0 means DefaultLingerTime.
	LingerTime time.Duration

	// NoRing has every send be a system call of its own, also where the kernel has io_uring
	// and lets us use it.
	NoRing bool

	// RingLost, if set, is called on the loop thread if the kernel refuses later what Ring says
	// it does, with the reason, once. From then on each send is a system call of its own. It is
	// called within methods of Conn and must not call any.
	RingLost func(reason error)

	// Base is the zero of the loop's clock; the zero Time means the moment of
	// New. Give several parts of a program the same base and they have the same
	// clock. It must have a monotonic reading.
	Base time.Time

	// Timer, if set, is called on the loop thread in the first turn, and then at
	// the end of a turn once now has reached the time that it last returned, or
	// that WakeAt brought forward. It returns Never if nothing is planned.
	Timer func(now int64) (next int64)

	// EndOfTurn, if set, is called on the loop thread at the end of every turn,
	// after Timer, before connections are closed.
	EndOfTurn func(now int64)
}

// Loop is one event loop. All methods without a remark belong to the loop
// thread.
type Loop struct {
	// Static after New.
	opt  Options
	epfd int
	evfd int
	// alarm wakes the loop for what is due later than nearby.
	alarm alarm
	fine  bool // the kernel waits in nanoseconds
	// noRing is why there is no ring.
	noRing error

	// Any goroutine.
	started  atomic.Bool
	stopping atomic.Bool
	wakes    atomic.Uint64

	statsMu   sync.Mutex
	published Stats // guarded by statsMu

	wakeMu     sync.Mutex
	wakeClosed bool // guarded by wakeMu

	// Written by posters; kept off the cache lines of the loop thread.
	_          [64]byte
	posted     atomic.Pointer[Task]
	closedMail Task // its address in posted means that the mailbox is closed
	sleeping   atomic.Bool
	_          [64]byte

	// Owned by the loop thread.
	now         int64 // time of this turn
	turn        uint32
	unpublished int   // turns since publish
	yielded     int64 // time of the turn that yielded last
	timerAt     int64 // when Timer is due
	count       Stats
	run         runList // to be stepped in this turn, or in one of the next if they are many
	later       runList // has been stepped in this turn: for the next one
	inbox       *Task   // taken from posted, oldest first
	closing     []*Conn // closed at the end of the turn
	finishing   int     // connections for which Finish was called and Close was not
	due         dueHeap
	bulk        bulkSizes
	bulks       []bulkEntry // in no order
	slots       slots
	bufs        buffers
	buf         []byte // what is read goes here first
	tls         *tlsBuffers
	vec         vector
	outbox      outbox
	ring        *ring // nil without io_uring
	events      [waitEvents]unix.EpollEvent
}

// New makes a loop. It holds up to four descriptors until Run returns, so Run must be
// called, if only to return at once after Stop.
func New(o Options) (*Loop, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	l := &Loop{opt: o, buf: make([]byte, o.BufferSize), bulk: bulkSizesFor(o.BufferSize), timerAt: Never}
	l.outbox.most = min(mostParcel, o.BufferSize/parcelPart)
	if o.Timer != nil {
		l.timerAt = math.MinInt64
	}
	var err error
	if l.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("loop: %w", os.NewSyscallError("epoll_create1", err))
	}
	if l.evfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epfd)
		return nil, fmt.Errorf("loop: %w", os.NewSyscallError("eventfd", err))
	}
	// No slot has this index, so these events find no connection.
	ev := unix.EpollEvent{Events: evIn | evEdge, Fd: -1}
	if err = unix.EpollCtl(l.epfd, unix.EPOLL_CTL_ADD, l.evfd, &ev); err != nil {
		_ = unix.Close(l.evfd)
		_ = unix.Close(l.epfd)
		return nil, fmt.Errorf("loop: %w", os.NewSyscallError("epoll_ctl", err))
	}
	if l.alarm.fd, err = newAlarm(l.epfd); err != nil {
		_ = unix.Close(l.evfd)
		_ = unix.Close(l.epfd)
		return nil, fmt.Errorf("loop: %w", err)
	}
	l.fine = hasFineWait(l.epfd)
	if l.noRing = errRingOff; !o.NoRing {
		l.ring, l.noRing = newRing(mostParcels)
	}
	return l, nil
}

var errRingOff = errors.New("io_uring is switched off")

// Ring returns nil if New found that the kernel sends to several connections at once, by io_uring,
// and else why it does not. The difference is one of CPU time only. It may be called from any
// goroutine.
func (l *Loop) Ring() error { return l.noRing }

func (o *Options) complete() error {
	if o.BufferSize == 0 {
		o.BufferSize = DefaultBufferSize
	}
	if o.MaxKeep == 0 {
		o.MaxKeep = DefaultMaxKeep
	}
	if o.LingerTime == 0 {
		o.LingerTime = DefaultLingerTime
	}
	if o.Base.IsZero() {
		o.Base = time.Now()
	}
	if o.BufferSize < minBufferSize || o.BufferSize > 16<<20 {
		return fmt.Errorf("loop: buffer size %d is out of range", o.BufferSize)
	}
	if o.MaxKeep < 0 || o.MaxKeep > 1<<30 || o.LingerTime < 0 {
		return errors.New("loop: MaxKeep or LingerTime is out of range")
	}
	return nil
}

// Now returns the loop's clock: monotonic nanoseconds since Options.Base. It may
// be called from any goroutine. Callbacks are given the time of their turn and
// need not ask.
func (l *Loop) Now() int64 { return int64(time.Since(l.opt.Base)) }

// WakeAt has Timer called no later than at t. It is meant for callbacks that
// plan something earlier than Timer knew of.
func (l *Loop) WakeAt(t int64) { l.timerAt = min(l.timerAt, t) }

// Lookup returns the connection that id names, nil if it has been closed.
func (l *Loop) Lookup(id ID) *Conn {
	c := l.slots.get(id)
	if c == nil || c.flags&fClosed != 0 {
		return nil
	}
	return c
}

// Stop makes Run return at the end of the turn in progress. It may be called
// from any goroutine, more than once, and does not wait.
func (l *Loop) Stop() {
	l.stopping.Store(true)
	l.wake()
}

// Run makes the calling goroutine the loop thread, until Stop. It then closes
// all descriptors, without callbacks, and returns. It can be called once.
func (l *Loop) Run() error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("loop: Run called twice")
	}
	defer l.shutdown()
	l.now = l.Now()
	for !l.stopping.Load() {
		n, err := l.wait()
		if err != nil {
			return fmt.Errorf("loop: %w", os.NewSyscallError("epoll_wait", err))
		}
		l.oneTurn(n)
	}
	return nil
}

// oneTurn deals with the n events that a wait returned and everything after.
func (l *Loop) oneTurn(n int) {
	l.now = l.Now()
	l.turn++
	l.count.Turns++
	l.count.Events += uint64(n)
	// What is left comes after those that become ready now, as do those that have had a step.
	l.run.splice(&l.later)
	l.run, l.later = l.later, l.run
	for i := range n {
		e := &l.events[i]
		if c := l.slots.get(ID(uint32(e.Fd)) | ID(uint32(e.Pad))<<32); c != nil {
			l.note(c, e.Events)
		}
	}
	l.runMail()
	l.pollBulks()
	l.run.splice(&l.later)
	l.outbox.open = true
	for range n + backlogSteps {
		c := l.run.pop()
		if c == nil {
			break
		}
		l.step(c)
	}
	l.outbox.open = false
	l.letAllGo()
	l.lookAtDue()
	if l.now >= l.timerAt {
		l.timerAt = Never
		l.timerAt = min(l.opt.Timer(l.now), l.timerAt)
	}
	if l.opt.EndOfTurn != nil {
		l.opt.EndOfTurn(l.now)
	}
	l.reap()
	if l.now-l.yielded >= yieldEvery {
		l.yielded = l.now
		l.count.Yields++
		runtime.Gosched()
	}
	if l.unpublished++; l.unpublished == publishEvery {
		l.publish()
	}
}

// wait returns the number of events that have arrived, after having slept if
// there is nothing to do.
func (l *Loop) wait() (int, error) {
	l.count.Waits++
	if l.run.head != nil || l.later.head != nil || l.inbox != nil {
		return l.poll()
	}
	d := Never
	if at := l.nextDue(); at != Never {
		now := l.Now()
		if at <= now {
			return l.poll()
		}
		if d = at - now; d > nearby {
			l.alarm.set(now, at)
			d = Never
		}
	}
	// Whoever posts after this store writes to the event descriptor; whoever
	// posted before it is seen by the loads that follow.
	l.sleeping.Store(true)
	if l.posted.Load() != nil || l.stopping.Load() {
		l.sleeping.Store(false)
		return l.poll()
	}
	l.count.Sleeps++
	l.publish()
	n, err := pollUntil(l.epfd, l.events[:], d, l.fine)
	l.sleeping.Store(false)
	if err == unix.EINTR {
		return 0, nil
	}
	return n, err
}

// poll is a wait of no time. An interrupted one ends the turn: retrying here
// would be a loop without a safe point.
func (l *Loop) poll() (int, error) {
	n, e := pollNow(l.epfd, l.events[:])
	switch e {
	case 0:
		return n, nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, e
}

// nextDue returns when the loop must wake by itself.
func (l *Loop) nextDue() int64 {
	at := min(l.timerAt, l.nextBulk())
	if len(l.due) > 0 {
		at = min(at, l.due[0].due)
	}
	return at
}

// register enters an adopted connection.
func (l *Loop) register(c *Conn) {
	l.slots.put(c)
	l.count.Adopted++
	if d, err := unix.GetsockoptInt(int(c.fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && d == unix.AF_UNIX {
		c.flags |= fQuietOut
	}
	if err := l.control(c, unix.EPOLL_CTL_ADD, c.flags&fQuietOut == 0); err != nil {
		l.end(c, Unwatched)
		return
	}
	if o, ok := c.h.(Opener); ok {
		o.Open(c, l.now)
	}
	l.enqueue(c)
}

// control registers c, or changes whether it is registered for output.
func (l *Loop) control(c *Conn, op int, output bool) error {
	l.count.EpollCtl++
	ev := unix.EpollEvent{
		Events: evIn | evRdHup | evEdge,
		Fd:     int32(uint32(c.id)),
		Pad:    int32(uint32(c.id >> 32)),
	}
	if output {
		ev.Events |= evOut
	}
	return unix.EpollCtl(l.epfd, op, int(c.fd), &ev)
}

// end closes c and tells its handler why.
func (l *Loop) end(c *Conn, how End) {
	if c.flags&fClosed != 0 {
		return
	}
	quiet := c.flags&fFinish != 0
	c.Close()
	if !quiet {
		c.h.End(c, how, l.now)
	}
}

// reap closes the descriptors of the connections closed in this turn. That
// takes them out of the epoll set as well.
func (l *Loop) reap() {
	if len(l.closing) == 0 {
		return
	}
	for i, c := range l.closing {
		l.closing[i] = nil
		l.release(c)
	}
	l.closing = l.closing[:0]
}

func (l *Loop) release(c *Conn) {
	l.count.Closed++
	l.due.remove(c)
	if c.flags&fBulk != 0 {
		l.forgetBulk(c)
	}
	l.dropKept(c)
	l.dropUnsent(c)
	if c.br != nil {
		c.br.release()
	}
	l.slots.drop(c.id)
	_ = unix.Close(int(c.fd))
	c.fd = -1
}

// shutdown closes everything. Posters that are about to wake the loop find the
// mailbox closed, or wakeClosed set.
func (l *Loop) shutdown() {
	l.closeMail()
	for i := range l.slots.table {
		if c := l.slots.table[i].c; c != nil {
			c.flags |= fClosed
			l.release(c)
		}
	}
	l.closing, l.run, l.later = nil, runList{}, runList{}
	l.wakeMu.Lock()
	l.wakeClosed = true
	_ = unix.Close(l.alarm.fd)
	_ = unix.Close(l.evfd)
	l.wakeMu.Unlock()
	_ = unix.Close(l.epfd)
	if l.ring != nil {
		l.ring.close()
	}
	l.publish()
}
