package loop

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// crowdOf adopts n connections, and one more on whose data do is called, within its step.
func crowdOf(t *testing.T, l *Loop, n int, do func(all []*probe)) (all []*probe, peers []*os.File, start func()) {
	t.Helper()
	for range n {
		p := &probe{t: t}
		peers, all = append(peers, adopt(t, l, p)), append(all, p)
	}
	starter := adopt(t, l, &probe{t: t, onData: func(_ *Conn, b []byte) int { do(all); return len(b) }})
	return all, peers, func() {
		write(t, starter, "now")
		settle(t, l)
	}
}

// bothWays runs a test with and without a ring.
func bothWays(t *testing.T, f func(t *testing.T, o Options)) {
	t.Helper()
	t.Run("ring", func(t *testing.T) {
		withRing(t)
		f(t, Options{})
	})
	t.Run("none", func(t *testing.T) { f(t, Options{NoRing: true}) })
}

func received(t *testing.T, peer *os.File) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, err := recv(int32(peer.Fd()), b)
	if err != 0 && err != unix.EAGAIN {
		t.Fatal(err)
	}
	return string(b[:n])
}

// What is small goes out at the end of the steps, once for each connection that is sent to
// without another one between.
func TestSmallSendsAreHeldBack(t *testing.T) { bothWays(t, smallSendsAreHeldBack) }

func smallSendsAreHeldBack(t *testing.T, o Options) {
	l := handLoop(t, o)
	writes := l.count.Writes
	_, peers, start := crowdOf(t, l, 2, func(all []*probe) {
		writes = l.count.Writes
		all[0].c.Send(spans("one ", "two "))
		all[0].c.Send(spans("three"))
		all[1].c.Send(spans("four"))
		if l.count.Writes != writes {
			t.Error("sent within the step")
		}
	})
	start()
	if a, b := received(t, peers[0]), received(t, peers[1]); a != "one two three" || b != "four" {
		t.Errorf("%q and %q", a, b)
	}
	if n := l.count.Writes - writes; n != 2 {
		t.Errorf("%d writes", n)
	}
}

// The end of a connection comes after what was sent before it.
func TestHeldBackBeforeTheEnd(t *testing.T) { bothWays(t, heldBackBeforeTheEnd) }

func heldBackBeforeTheEnd(t *testing.T, o Options) {
	for name, end := range map[string]func(*Conn){
		"close": (*Conn).Close, "finish": (*Conn).Finish, "shutdown": (*Conn).ShutdownWrite,
	} {
		t.Run(name, func(t *testing.T) {
			l := handLoop(t, o)
			_, peers, start := crowdOf(t, l, 1, func(all []*probe) {
				all[0].c.Send(spans("last words"))
				end(all[0].c)
				all[0].c.Send(spans("dropped"))
			})
			start()
			if s := received(t, peers[0]); s != "last words" {
				t.Errorf("%q", s)
			}
			if n, err := peers[0].Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("then %d, %v", n, err)
			}
		})
	}
}

// Whatever is sent to whom in one step arrives in its order, TCP's own limits included.
func TestHeldBackInOrder(t *testing.T) { bothWays(t, heldBackInOrder) }

func heldBackInOrder(t *testing.T, o Options) {
	const conns, seeds = mostParcels + 3, 30
	for seed := range uint64(seeds) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o.BufferSize = minBufferSize << rnd.IntN(8)
		l := handLoop(t, o)
		want := make([]bytes.Buffer, conns)
		all, peers, start := crowdOf(t, l, conns, func(all []*probe) {
			for range rnd.IntN(200) {
				i := rnd.IntN(conns)
				p := bytes.Repeat([]byte{byte('a' + rnd.IntN(26))}, 1+rnd.IntN(1<<rnd.IntN(14)))
				want[i].Write(p)
				all[i].c.Send([][]byte{p[:len(p)/2], p[len(p)/2:]})
			}
		})
		start()
		for i, p := range peers {
			var got strings.Builder
			for got.Len() < want[i].Len() {
				got.WriteString(received(t, p))
				settle(t, l)
				if got.Len() < want[i].Len() && all[i].c.Unsent() == 0 {
					got.WriteString(received(t, p))
					break
				}
			}
			if got.String() != want[i].String() {
				t.Fatalf("seed %d, connection %d: %d bytes are not the %d that were sent", seed, i, got.Len(), want[i].Len())
			}
		}
	}
}

// A kernel that takes nothing more at the end of the steps leaves the bytes unsent, and a
// connection that breaks there ends.
func TestHeldBackInVain(t *testing.T) { bothWays(t, heldBackInVain) }

func heldBackInVain(t *testing.T, o Options) {
	l := handLoop(t, o)
	all, peers, start := crowdOf(t, l, 2, func(all []*probe) {
		for _, p := range all {
			for range 3 {
				p.c.Send(spans("more"))
			}
		}
	})
	block := bytes.Repeat([]byte("x"), 512)
	for {
		if _, err := send(all[0].c.fd, block); err != 0 {
			break
		}
	}
	_ = peers[1].Close()
	start()
	if n := all[0].c.Unsent(); n != 12 {
		t.Errorf("%d bytes unsent", n)
	}
	if all[1].saw("end reset")+all[1].saw("eof") == 0 {
		t.Errorf("the other one: %v", all[1].log)
	}
	for all[0].c.Unsent() > 0 {
		received(t, peers[0])
		settle(t, l)
	}
	if all[0].saw("drained") != 1 {
		t.Errorf("%v", all[0].log)
	}
}
