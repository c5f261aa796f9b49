package loop

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sink checks that what it is given is the sequence of bytes that a source
// sends, tells the source how far it is, and pauses at random.
type sink struct {
	t      *testing.T
	l      *Loop
	pat    []byte
	rnd    *rand.Rand
	c      *Conn
	got    uint64
	want   atomic.Uint64 // what the source waits for
	there  chan struct{} // want has been reached
	answer bool          // say so by a byte on the connection
	resume Task
	ended  chan struct{}
}

// period is the length of what every stream repeats: a prime, so that nothing
// that is lost or doubled goes unnoticed.
const period = 65521

// pattern returns what the stream of pat has from position i on, at most n bytes.
func pattern(pat []byte, i uint64, n int) []byte {
	at := int(i % period)
	return pat[at : at+min(n, period-at)]
}

func newPattern(seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	p := make([]byte, period)
	for i := range p {
		p[i] = byte(rnd.Uint32())
	}
	return p
}

func (s *sink) Open(c *Conn, _ int64) {
	s.c = c
	s.resume.Run = func(int64) { s.c.Resume() }
}

func (s *sink) Data(c *Conn, b []byte, _ int64) int {
	n := len(b)
	if s.rnd.IntN(16) == 0 {
		n = s.rnd.IntN(n + 1) // the rest comes again
	}
	for rest := b[:n]; len(rest) > 0; {
		x := pattern(s.pat, s.got, len(rest))
		if !bytes.Equal(x, rest[:len(x)]) {
			s.t.Errorf("wrong at %d or soon after", s.got)
			c.Close()
			close(s.ended)
			return n
		}
		s.got += uint64(len(x))
		rest = rest[len(x):]
	}
	if n < len(b) || s.rnd.IntN(24) == 0 {
		c.Pause()
		if s.rnd.IntN(2) == 0 {
			c.Resume()
		} else if !s.resume.posted.Load() {
			s.l.Post(&s.resume)
		}
	}
	if w := s.want.Load(); w != 0 && s.got >= w && s.want.CompareAndSwap(w, 0) {
		if s.answer {
			c.Send(spans("."))
		} else {
			s.there <- struct{}{}
		}
	}
	return n
}

func (s *sink) Drained(*Conn, int64) {}
func (s *sink) Hangup(*Conn, int64)  {}
func (s *sink) EOF(c *Conn, _ int64) { c.Close(); close(s.ended) }

func (s *sink) End(_ *Conn, how End, _ int64) {
	s.t.Errorf("ended by %v", how)
	close(s.ended)
}

// burst returns a length at random, often near one of the thresholds.
func burst(rnd *rand.Rand, b bulkSizes) int {
	near := []int{b.least, b.mark, int(b.enter), DefaultBufferSize, piece}
	switch rnd.IntN(4) {
	case 0:
		return 1 + rnd.IntN(200)
	case 1:
		return 1 + rnd.IntN(2*int(b.enter))
	default:
		return max(1, near[rnd.IntN(len(near))]*(1+rnd.IntN(3))+rnd.IntN(5)-2)
	}
}

// source sends bursts and waits after most of them until all has arrived. If
// what it waits for lies unread, below a mark or behind a lost edge, it waits in
// vain.
func source(s *sink, w net.Conn, bursts int, rnd *rand.Rand) error {
	var sent uint64
	reply := make([]byte, 1)
	for range bursts {
		n := burst(rnd, s.l.bulk)
		wait := rnd.IntN(4) > 0
		if wait {
			s.want.Store(sent + uint64(n))
		}
		for n > 0 {
			k := min(n, piece)
			if rnd.IntN(8) == 0 {
				k = min(n, 1+rnd.IntN(period))
			}
			b := pattern(s.pat, sent, k)
			if _, err := w.Write(b); err != nil {
				return err
			}
			sent += uint64(len(b))
			n -= len(b)
		}
		if !wait {
			continue
		}
		if s.answer {
			_ = w.SetReadDeadline(time.Now().Add(patience))
			if _, err := w.Read(reply); err != nil {
				return err
			}
			continue
		}
		select {
		case <-s.there:
		case <-s.ended:
			return errors.New("the connection ended")
		case <-time.After(patience):
			return errors.New("a burst does not arrive")
		}
	}
	return w.Close()
}

// consistent fails the test if a connection whose mark is up could be forgotten.
func consistent(t *testing.T, l *Loop) {
	for i, e := range l.bulks {
		if e.c.streak != int32(i+1) || e.c.flags&(fBulk|fPaused) != fBulk {
			t.Errorf("entry %d: index %d, flags %x", i, e.c.streak, e.c.flags)
		}
	}
	for _, s := range l.slots.table {
		c := s.c
		if c == nil || c.flags&(fBulk|fClosed) != fBulk {
			continue
		}
		switch {
		case c.flags&fPaused != 0, c.streak > 0:
		case c.flags&fReadable != 0 && c.flags&fQueued != 0:
		default:
			t.Errorf("forgotten: flags %x", c.flags)
		}
	}
}

// force puts connections into bulk mode at random moments, at which they may
// have unread bytes, unseen edges or neither.
func force(l *Loop, rnd *rand.Rand) {
	for _, s := range l.slots.table {
		if c := s.c; c != nil && c.flags&(fBulk|fNoData) == 0 && rnd.IntN(64) == 0 {
			l.enterBulk(c)
		}
	}
}

// Bursts of all lengths, with all sorts of pauses, on several connections at
// once: every byte arrives, in order, and nothing waits for something that does
// not come.
func TestBulkStress(t *testing.T) {
	const conns = 6
	bursts := 500
	if raceDetector {
		bursts = 150
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	pat, rnd := newPattern(seed), rand.New(rand.NewPCG(seed, 1))
	var l *Loop
	l = running(t, Options{EndOfTurn: func(int64) {
		consistent(t, l)
		force(l, rnd)
	}})
	var wg sync.WaitGroup
	for i := range conns {
		nc, peer := tcpPair(t)
		s := &sink{
			t: t, l: l, pat: pat, rnd: rand.New(rand.NewPCG(seed, uint64(i+2))), answer: i%2 == 1,
			there: make(chan struct{}, 1), ended: make(chan struct{}),
		}
		adoptConn(t, l, nc, s)
		wg.Go(func() {
			if err := source(s, peer, bursts, rand.New(rand.NewPCG(seed, uint64(i+2+conns)))); err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			select {
			case <-s.ended:
			case <-time.After(patience):
				t.Errorf("connection %d: no end of the stream", i)
			}
		})
	}
	wg.Wait()
	on(t, l, l.publish)
	if c := l.Stats(); c.Bulks == 0 || c.BulkPolls == 0 {
		t.Errorf("nothing was tested: %+v", c)
	} else {
		t.Logf("%+v", c)
	}
}
