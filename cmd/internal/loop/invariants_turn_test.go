package loop

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// 10: bytes that make no progress for the stall time end the connection; with
// progress, or without a stall time, they do not.
func TestInvariant10Stall(t *testing.T) {
	l := handLoop(t, Options{})
	p, free := &probe{t: t}, &probe{t: t}
	peer := adopt(t, l, p)
	adopt(t, l, free)
	const stall = int64(time.Second)
	p.c.SetStall(stall)
	fill(p.c)
	fill(free.c)
	if at := p.c.progress + stall; l.nextDue() != at {
		t.Fatalf("due at %d, want %d", l.nextDue(), at)
	}
	// The clock is the test's: lookAtDue goes by l.now.
	start := l.now
	look := func(at int64) { l.now = at; l.lookAtDue(); l.reap() }
	look(start + stall - 1)
	if len(p.log) != 1 {
		t.Fatal(p.log)
	}
	p.c.progress = start + stall/2 // as flush does
	look(start + stall)
	if len(p.log) != 1 || l.nextDue() != start+stall+stall/2 {
		t.Fatalf("%v, due %d", p.log, l.nextDue())
	}
	look(start + stall + stall/2)
	if p.saw("end stalled") != 1 || l.nextDue() != math.MaxInt64 || len(free.log) != 1 {
		t.Fatalf("%v, %v, due %d", p.log, free.log, l.nextDue())
	}
	_ = peer.Close()

	// Draining ends the stall time, and so does SetStall(0).
	q := &probe{t: t}
	peer = adopt(t, l, q)
	q.c.SetStall(stall)
	fill(q.c)
	q.c.Send([][]byte{make([]byte, 2<<20)}) // more than the socket will take in one go
	q.c.SetStall(0)
	if len(l.due) != 0 {
		t.Error("SetStall(0) leaves the connection in the heap")
	}
	q.c.SetStall(stall)
	if len(l.due) != 1 {
		t.Error("SetStall on unsent bytes does not count")
	}
	began := q.c.progress
	_, _ = recv(int32(peer.Fd()), make([]byte, q.c.Unsent()/2+1<<19))
	until(t, l, func() bool { return q.c.progress > began })
	go drain(peer)
	until(t, l, func() bool { return q.saw("drained") == 1 })
	if len(l.due) != 0 {
		t.Error("a drained connection stays in the heap")
	}
}

// 10, with the real clock.
func TestInvariant10StallWakesTheLoop(t *testing.T) {
	l := running(t, Options{})
	ended := make(chan End, 1)
	fd, _ := pair(t)
	p := &probe{t: t, onEnd: func(_ *Conn, how End) { ended <- how }}
	p.onOpen = func(c *Conn) { c.SetStall(int64(20 * time.Millisecond)); fill(c) }
	_ = l.Adopt(fd, nil, nil, p)
	if how := await(t, ended); how != Stalled {
		t.Errorf("ended by %v", how)
	}
}

// 11: one buffer per connection and turn; events before the run list; a bounded
// mailbox; no sleep while there is something to do.
func TestInvariant11Turns(t *testing.T) {
	l := handLoop(t, Options{BufferSize: 1024})
	var order []string
	mk := func(name string) *probe {
		return &probe{t: t, onData: func(_ *Conn, b []byte) int {
			order = append(order, fmt.Sprint(name, len(b)))
			return len(b)
		}}
	}
	bulk, small := mk("bulk"), mk("small")
	pBulk, pSmall := adopt(t, l, bulk), adopt(t, l, small)
	write(t, pBulk, strings.Repeat("x", 3500))
	for range 4 {
		write(t, pSmall, "s")
		turn(t, l)
	}
	// From the second turn on bulk is a left-over, and comes after the news.
	want := "bulk1024 small1 small1 bulk1024 small1 bulk1024 small1 bulk428"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	sleeps := l.count.Sleeps
	write(t, pBulk, strings.Repeat("x", 2048))
	turn(t, l)
	if _, err := l.wait(); err != nil || l.count.Sleeps != sleeps {
		t.Error("the loop may sleep although a connection is on the run list")
	}
	l.oneTurn(0)

	ran := 0
	for range 2*mailPerTurn + 1 {
		l.Post(&Task{Run: func(int64) { ran++ }})
	}
	for i, want := range []int{mailPerTurn, 2 * mailPerTurn, 2*mailPerTurn + 1} {
		if n, err := l.wait(); err != nil || l.count.Sleeps != sleeps {
			t.Fatalf("mail left, but the loop sleeps (%d, %v)", n, err)
		}
		l.oneTurn(0)
		if ran != want {
			t.Errorf("after turn %d: %d tasks, want %d", i+1, ran, want)
		}
	}
}

// 12: no post is lost and none is run twice, in order per poster.
func TestInvariant12MailboxLosesNothing(t *testing.T) {
	l := running(t, Options{})
	const posters, each = 4, 250_000
	type mark struct {
		Task
		poster, seq int
	}
	var got [posters]int // owned by the loop thread
	var outstanding atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for k := range posters {
		wg.Add(1)
		go func() {
			defer wg.Done()
			marks := make([]mark, each)
			for i := range marks {
				m := &marks[i]
				m.poster, m.seq = k, i
				m.Run = func(int64) {
					if got[m.poster] != m.seq {
						t.Errorf("poster %d: task %d after %d", m.poster, m.seq, got[m.poster])
					}
					got[m.poster]++
					if outstanding.Add(1) == posters*each {
						close(done)
					}
				}
				l.Post(&m.Task)
			}
		}()
	}
	wg.Wait()
	await(t, done)
	if s := l.Stats(); s.PosterWakes > posters*each/2 {
		t.Logf("%d wake-ups for %d posts", s.PosterWakes, posters*each)
	}
}

// 12, the other way round: one post at a time to a loop that sleeps each time.
func TestInvariant12EveryPostWakes(t *testing.T) {
	l := running(t, Options{})
	var task Task
	ran := make(chan struct{})
	task.Run = func(int64) { ran <- struct{}{} }
	for range 20_000 {
		l.Post(&task)
		await(t, ran)
	}
}

// 12: what comes between the loop's last look and its falling asleep is seen: it
// looks again after having said that it sleeps.
func TestInvariant12LooksAgainBeforeItSleeps(t *testing.T) {
	l := handLoop(t, Options{})
	for what, f := range map[string]func(){
		"a post": func() { l.Post(&Task{Run: func(int64) {}}) },
		"Stop":   l.Stop,
	} {
		f() // to a loop that is awake: nobody writes to the event descriptor
		if n, err := l.wait(); n != 0 || err != nil || l.count.Sleeps != 0 {
			t.Errorf("after %s: %d events, %v, %d sleeps", what, n, err, l.count.Sleeps)
		}
		l.oneTurn(0)
		l.stopping.Store(false)
	}
	if l.Stats().PosterWakes != 0 {
		t.Error("a loop that is awake was woken")
	}
}

// 13: one time per turn, for every callback.
func TestInvariant13OneTimePerTurn(t *testing.T) {
	var times []int64
	l := handLoop(t, Options{
		Timer:     func(now int64) int64 { times = append(times, now); return now },
		EndOfTurn: func(now int64) { times = append(times, now) },
	})
	l.Post(&Task{Run: func(now int64) { times = append(times, now); spin(l, now) }})
	turn(t, l)
	if len(times) != 3 || times[0] != times[1] || times[1] != times[2] {
		t.Errorf("one turn had the times %v", times)
	}
}

// spin waits until the clock has moved on from now.
func spin(l *Loop, now int64) {
	for l.Now() == now { // the clock moves by itself
	}
}

// 13: the loop sleeps until the earliest time that anybody named, not longer.
func TestInvariant13SleepsUntilTheEarliest(t *testing.T) {
	var l *Loop
	calls := make(chan int64, 16)
	next := Never
	l = running(t, Options{Timer: func(now int64) int64 {
		calls <- now
		n := next
		next = Never
		return n
	}})
	await(t, calls) // the first turn's
	var at int64
	on(t, l, func() {
		next = l.Now() + int64(5*time.Millisecond)
		at = next
		l.WakeAt(0)
	})
	await(t, calls)
	if now := await(t, calls); now < at {
		t.Errorf("called %d ns too early", at-now)
	}
	on(t, l, func() {
		at = l.Now() + int64(3*time.Millisecond)
		l.WakeAt(at)
		l.WakeAt(at + int64(time.Hour))
	})
	if now := await(t, calls); now < at {
		t.Errorf("called %d ns too early", at-now)
	}
	on(t, l, func() {
		if l.nextDue() != Never {
			t.Error("something is still planned")
		}
	})
}

// 13: ten thousand idle connections do not wake the loop: it sleeps as often as
// it is woken by the test. They also cost less than half a kilobyte each.
func TestInvariant13IdleIsIdle(t *testing.T) {
	n := idleConnections(t)
	timers := 0
	l := running(t, Options{Timer: func(int64) int64 { timers++; return Never }})
	heap := heapInUse()
	h := &relayTo{}
	h.to = h
	for range n / 2 {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Adopt(p[0], nil, nil, h)
		_ = l.Adopt(p[1], nil, nil, h)
	}
	asleep(t, l, uint64(n))
	if per := (heapInUse() - heap) / int64(n); per > 512 {
		t.Errorf("%d bytes per idle connection", per)
	}
	before := l.Stats()
	const rounds = 20
	for range rounds {
		on(t, l, func() {})
		asleep(t, l, uint64(n))
	}
	after := l.Stats()
	if s := after.Sleeps - before.Sleeps; s == 0 || s > rounds { // a task may come before it has gone to sleep
		t.Errorf("%d sleeps for %d wake-ups", s, rounds)
	}
	if r := after.Reads - before.Reads; r != 0 || timers != 1 {
		t.Errorf("idle, but %d reads and %d calls of the timer", r, timers)
	}
	if l.bufs.lent != 0 {
		t.Errorf("idle connections hold %d buffers", l.bufs.lent)
	}
}

// 14: after Stop everything is as before New, also what was never registered.
func TestInvariant14Shutdown(t *testing.T) {
	before := openFiles(t)
	var atEnd func()
	l, err := New(Options{EndOfTurn: func(int64) {
		if atEnd != nil {
			atEnd()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var peers []int
	add := func() error {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, p[1])
		e := &relayTo{}
		e.to = e
		return l.Adopt(p[0], nil, nil, e)
	}
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	for range 10 {
		if err := add(); err != nil {
			t.Error(err)
		}
	}
	on(t, l, func() {
		atEnd = func() {
			_ = add() // still in the mailbox when the loop stops
			l.Stop()
		}
	})
	if err := await(t, done); err != nil {
		t.Error(err)
	}
	if err := add(); err != ErrStopped {
		t.Errorf("Adopt after the end: %v", err)
	}
	late := Task{Run: func(int64) { t.Error("ran after the end") }}
	l.Post(&late)
	l.Post(&late)
	l.Stop()
	for _, fd := range peers {
		_ = unix.Close(fd)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if err := l.Run(); err == nil {
		t.Error("a second Run")
	}
	if s := l.Stats(); s.Adopted != 10 || s.Closed != 10 {
		t.Errorf("adopted %d, closed %d, want 10", s.Adopted, s.Closed)
	}
}
