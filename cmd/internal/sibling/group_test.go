package sibling

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// conn connects to a member as anybody can.
func conn(t *testing.T, port string, process uint32) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unix", nil, address(port, process))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// ended waits until the other side has closed a connection.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); n > 0 || os.IsTimeout(err) {
		t.Errorf("%d bytes and %v, want an end", n, err)
	}
}

func TestTheLowestFreeNumber(t *testing.T) {
	port := name(t)
	first, second, third := joined(t, port, nobody(t)), joined(t, port, nobody(t)), joined(t, port, nobody(t))
	if got := []uint32{first.Process(), second.Process(), third.Process()}; !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("numbers %d", got)
	}
	for range 2 {
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if again := joined(t, port, nobody(t)); again.Process() != 2 {
		t.Errorf("%d, want the free 2", again.Process())
	}
	if fourth := joined(t, port, nobody(t)); fourth.Process() != 4 {
		t.Errorf("%d, want 4", fourth.Process())
	}
	if other := joined(t, port+"other", nobody(t)); other.Process() != 1 {
		t.Errorf("the first of another port is %d", other.Process())
	}
}

func TestLongNames(t *testing.T) {
	long := name(t) + strings.Repeat("[2001:db8::1]:6432 ", 20)
	for i, port := range []string{long, long, long + "6433"} {
		if g := joined(t, port, nobody(t)); g.Process() != []uint32{1, 2, 1}[i] {
			t.Errorf("%d: number %d", i, g.Process())
		}
	}
	longest, err := net.ListenUnix("unix", address(strings.Repeat("x", longestName), MaxProcess))
	if err != nil {
		t.Fatalf("the longest name is too long: %v", err)
	}
	_ = longest.Close()
}

func TestAllNumbersTaken(t *testing.T) {
	port := name(t)
	var last *Group
	for range MaxProcess {
		last = joined(t, port, nobody(t))
	}
	if last.Process() != MaxProcess {
		t.Fatalf("the last number is %d", last.Process())
	}
	_, err := Join(port, nobody(t))
	if err == nil || !strings.Contains(err.Error(), port+": all 255 are taken") {
		t.Errorf("%v", err)
	}
}

// What comes from a client and is no cancel request is none from a sibling either.
func TestGarbage(t *testing.T) {
	port := name(t)
	handled := make(chan *wire.CancelRequest, 1)
	g := joined(t, port, func(_ context.Context, r *wire.CancelRequest) { handled <- r })
	startup, err := wire.AppendStartup(nil, 0, []wire.Param{{Name: "user", Value: "app"}})
	if err != nil {
		t.Fatal(err)
	}
	cancel := wire.AppendCancelRequest(nil, 5, []byte("abcd"))
	for what, b := range map[string][]byte{
		"nothing":            {},
		"half a length":      cancel[:2],
		"half a request":     cancel[:len(cancel)-1],
		"a request for TLS":  wire.AppendSSLRequest(nil),
		"GSSAPI":             wire.AppendGSSENCRequest(nil),
		"a session":          startup,
		"no length":          make([]byte, 100),
		"length 4":           binary.BigEndian.AppendUint32(nil, 4),
		"a huge length":      {0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4},
		"a secret of 3":      wire.AppendCancelRequest(nil, 5, []byte("abc")),
		"a secret of 257":    wire.AppendCancelRequest(nil, 5, make([]byte, wire.MaxSecret+1)),
		"a long one":         wire.AppendCancelRequest(nil, 5, make([]byte, 5000)),
		"text":               []byte("GET / HTTP/1.1\r\n\r\n"),
		"an unknown version": {0, 0, 0, 8, 0, 9, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			c := conn(t, port, 1)
			_, _ = c.Write(b) // it may be closed before the end
			_ = c.CloseWrite()
			ended(t, c)
		})
	}
	await(t, "the end", forward(t, g, 1, request(9)))
	if r := await(t, "the request", handled); r.PID != 9 || string(r.Secret) != "abcd" {
		t.Errorf("%+v", r)
	}
}

// A sibling that says nothing, or only a part, is let go.
func TestSlowPeer(t *testing.T) {
	port := name(t)
	g, err := join(port, nobody(t), terms{user: uint32(os.Geteuid()), atOnce: 10, patience: 20 * time.Millisecond})
	lasting(t, g, err)
	silent, half := conn(t, port, 1), conn(t, port, 1)
	if _, err := half.Write(wire.AppendCancelRequest(nil, 5, []byte("abcd"))[:13]); err != nil {
		t.Fatal(err)
	}
	ended(t, silent)
	ended(t, half)
}

func TestBoundedAtOnce(t *testing.T) {
	port := name(t)
	const atOnce, all = 3, 12
	var now, most atomic.Int32
	entered, goOn := make(chan struct{}, all), make(chan struct{})
	g, err := join(port, func(context.Context, *wire.CancelRequest) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		entered <- struct{}{}
		<-goOn
		now.Add(-1)
	}, terms{user: uint32(os.Geteuid()), atOnce: atOnce, patience: patience})
	lasting(t, g, err)
	var done []<-chan struct{}
	for i := range all {
		done = append(done, forward(t, g, 1, request(uint32(i+1))))
	}
	for range atOnce {
		await(t, "a request", entered)
	}
	for _, d := range done {
		isOpen(t, "forwarded", d)
	}
	close(goOn)
	for _, d := range done {
		await(t, "the end", d)
	}
	if n := most.Load(); n != atOnce {
		t.Errorf("%d at once, want %d", n, atOnce)
	}
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	port := name(t)
	entered, handling := make(chan struct{}), true
	g, err := join(port, func(ctx context.Context, _ *wire.CancelRequest) {
		close(entered)
		<-ctx.Done()
		runtime.Gosched()
		handling = false
	}, terms{user: uint32(os.Geteuid()), atOnce: 2, patience: time.Hour})
	lasting(t, g, err)
	silent := conn(t, port, 1)
	handled := forward(t, g, 1, request(1))
	await(t, "the request", entered)
	queued := forward(t, g, 1, request(2)) // there is no place left
	isOpen(t, "forwarded", handled)
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if handling {
		t.Error("Close has not waited for the handler")
	}
	ended(t, silent)
	await(t, "the end of the handled one", handled)
	await(t, "the end of the queued one", queued)
	await(t, "the end of one that comes later", forward(t, g, 1, request(3)))
}
