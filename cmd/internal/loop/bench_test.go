package loop

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// relayTo is a handler that sends on what it receives.
type relayTo struct {
	to   *relayTo
	c    *Conn
	span [1][]byte
}

func (r *relayTo) Open(c *Conn, _ int64) { r.c = c }

func (r *relayTo) Data(_ *Conn, b []byte, _ int64) int {
	r.span[0] = b
	if r.to.c.Send(r.span[:]) > 0 {
		r.c.Pause()
	}
	return len(b)
}
func (r *relayTo) Drained(*Conn, int64)  { r.to.c.Resume() }
func (r *relayTo) Hangup(*Conn, int64)   {}
func (r *relayTo) EOF(*Conn, int64)      { r.to.c.Finish(); r.c.Close() }
func (r *relayTo) End(*Conn, End, int64) { r.to.c.Close() }

func relayPair() (a, b *relayTo) {
	a, b = &relayTo{}, &relayTo{}
	a.to, b.to = b, a
	return a, b
}

// BenchmarkRelay passes one small message through a loop and back: two hops. The
// peers block in the kernel, so this includes four wake-ups.
func BenchmarkRelay(b *testing.B) {
	l := running(b, Options{})
	left, right := relayPair()
	fa, pa := pair(b)
	fb, pb := pair(b)
	_ = l.Adopt(fa, nil, nil, left)
	_ = l.Adopt(fb, nil, nil, right)
	on(b, l, func() {})
	go echo(pb)
	msg := make([]byte, 64)
	before := l.Stats()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pa.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := pa.Read(msg); err != nil {
			b.Fatal(err)
		}
	}
	on(b, l, l.publish)
	report(b, before, l.Stats())
}

func echo(f *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		if _, err := f.Write(buf[:n]); err != nil {
			return
		}
	}
}

func report(b *testing.B, x, y Stats) {
	n := float64(b.N)
	b.ReportMetric(float64(y.Reads-x.Reads)/n, "reads/op")
	b.ReportMetric(float64(y.Writes-x.Writes)/n, "writes/op")
	b.ReportMetric(float64(y.Waits-x.Waits)/n, "waits/op")
	b.ReportMetric(float64(y.Sleeps-x.Sleeps)/n, "sleeps/op")
	b.ReportMetric(float64(y.EpollCtl-x.EpollCtl)/n, "epoll_ctl/op")
}

// BenchmarkTurn is a hop alone: the benchmark plays both peers and makes the
// turns, so nothing sleeps.
func BenchmarkTurn(b *testing.B) {
	l := handLoop(b, Options{})
	left, right := relayPair()
	pa, pb := adopt(b, l, left), adopt(b, l, right)
	a, z := int(pa.Fd()), int(pb.Fd())
	msg := make([]byte, 64)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = unix.Write(a, msg)
		turn(b, l)
		_, _ = unix.Read(z, msg)
	}
}
