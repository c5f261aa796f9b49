package pump

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
)

// Wherever the stream is cut, the ends of messages are found.
func TestFrames(t *testing.T) {
	var stream []byte
	ends := map[int]bool{0: true}
	for _, size := range []int{0, 1, 5, 300, 0, 0, 4} {
		stream = wire.AppendMessage(stream, 'd', make([]byte, size))
		ends[len(stream)] = true
	}
	for first := range len(stream) + 1 {
		for second := first; second <= len(stream); second++ {
			var f frames
			f.feed(stream[:first])
			if f.whole() != ends[first] {
				t.Fatalf("after %d bytes: whole %v", first, f.whole())
			}
			want := -1
			for end := range ends {
				if first <= end && end <= second {
					want = max(want, end-first)
				}
			}
			if got := f.feed(stream[first:second]); got != want {
				t.Fatalf("from %d to %d: %d, want %d", first, second, got, want)
			}
		}
	}
	var f frames
	if got := f.feed([]byte("d\x00\x00\x00\x03....")); got > 0 || f.whole() {
		t.Errorf("a length of 3 ends after %d", got)
	}
}

// pumped is a pump between two ends.
type pumped struct {
	p              Pump
	client, server net.Conn
	stop           context.CancelFunc
	aborted        int
	why            chan string
}

func newPumped(t *testing.T) *pumped {
	var x pumped
	x.client, x.p.Client = net.Pipe()
	x.server, x.p.Server = net.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	x.stop, x.why = stop, make(chan string, 1)
	go func() { x.why <- x.p.Run(ctx, func() { x.aborted++ }) }()
	return &x
}

// hear returns where all that the client is told will be, once the pump has closed its end.
func (x *pumped) hear() <-chan string {
	heard := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(x.client)
		heard <- string(b)
		_ = x.client.Close()
	}()
	return heard
}

// A last word comes between two messages, also if it is said in the middle of one.
func TestPumpFarewell(t *testing.T) {
	last := session.Say("draining")
	one := wire.AppendMessage(nil, 'd', []byte("all of it"))
	for cut := range len(one) + 1 {
		synctest.Test(t, func(t *testing.T) {
			x := newPumped(t)
			heard := x.hear()
			if cut > 0 {
				_, _ = x.server.Write(one[:cut])
			}
			synctest.Wait()
			x.p.farewell.Store(last)
			x.stop()
			synctest.Wait()
			want := string(one) + string(wire.AppendError(nil, last))
			if cut == 0 {
				want = string(wire.AppendError(nil, last))
			} else if cut < len(one) {
				_, _ = x.server.Write(one[cut:])
			}
			go func() { _, _ = io.Copy(io.Discard, x.server); _ = x.server.Close() }()
			if why := <-x.why; why != last.Message || x.aborted != 1 {
				t.Errorf("cut at %d: %q, cancelled %d times", cut, why, x.aborted)
			}
			if got := <-heard; got != want {
				t.Errorf("cut at %d: heard %q, want %q", cut, got, want)
			}
		})
	}
}

// A server that ends without a word has one said for it, but never in the middle of a message.
func TestPumpServerLost(t *testing.T) {
	fatal := wire.AppendError(nil, &wire.Error{Severity: wire.SeverityFatal, Code: "57P01", Message: "its own"})
	whole := wire.AppendMessage(nil, 'd', []byte("x"))
	for _, c := range []struct {
		sent []byte
		told bool
	}{{nil, true}, {whole, true}, {whole[:4], false}, {fatal, false}} {
		synctest.Test(t, func(t *testing.T) {
			x := newPumped(t)
			heard := x.hear()
			if c.sent != nil {
				_, _ = x.server.Write(c.sent)
			}
			_ = x.server.Close()
			<-x.why
			got := <-heard
			if told := strings.Contains(got, "reason=server_lost"); told != c.told || !strings.HasPrefix(got, string(c.sent)) {
				t.Errorf("after %q: %q", c.sent, got)
			}
			if x.aborted != 0 {
				t.Error("a server that is gone was to be stopped")
			}
		})
	}
}

// Of a client that has left without a goodbye the server's work is stopped.
func TestPumpClientLeaves(t *testing.T) {
	for _, c := range []struct {
		last    []byte
		aborted int
	}{{wire.AppendQuery(nil, "x"), 1}, {wire.AppendEmpty(nil, wire.MsgTerminate), 0}} {
		synctest.Test(t, func(t *testing.T) {
			x := newPumped(t)
			heard := make(chan []byte, 1)
			go func() {
				b := make([]byte, len(c.last))
				_, _ = io.ReadFull(x.server, b)
				heard <- b
				if c.aborted == 0 {
					_ = x.server.Close()
				}
			}()
			_, _ = x.client.Write(c.last)
			_ = x.client.Close()
			if why := <-x.why; why != "client has left" || x.aborted != c.aborted {
				t.Errorf("%q, cancelled %d times, want %d", why, x.aborted, c.aborted)
			}
			if got := <-heard; string(got) != string(c.last) {
				t.Errorf("the server heard %q", got)
			}
			_ = x.server.Close()
		})
	}
}
