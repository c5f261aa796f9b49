package sibling

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/wire"
)

// Forward returns when the other process has dealt with the request, and not before:
// a client that waits for the end of it must not meet its own cancel later.
func TestForwardWaits(t *testing.T) {
	port := name(t)
	got, goOn := make(chan *wire.CancelRequest), make(chan struct{})
	here := joined(t, port, nobody(t))
	there := joined(t, port, func(_ context.Context, r *wire.CancelRequest) {
		got <- r
		<-goOn
	})
	for _, length := range []int{wire.MinSecret, 32, wire.MaxSecret} {
		want := &wire.CancelRequest{PID: 2<<22 | uint32(length), Secret: bytes.Repeat([]byte{0x5a}, length)}
		done := forward(t, here, there.Process(), want)
		if r := await(t, "the request", got); r.PID != want.PID || !bytes.Equal(r.Secret, want.Secret) {
			t.Errorf("got %+v, want %+v", r, want)
		}
		isOpen(t, "forwarded", done)
		goOn <- struct{}{}
		await(t, "the end", done)
	}
}

func TestForwardToNobody(t *testing.T) {
	g := joined(t, name(t), nobody(t))
	for _, n := range []uint32{0, 2, MaxProcess, MaxProcess + 1, 1 << 31} {
		await(t, fmt.Sprint("the end for ", n), forward(t, g, n, request(1)))
	}
}

func TestForwardEndsWithItsContext(t *testing.T) {
	port := name(t)
	entered := make(chan struct{})
	here := joined(t, port, nobody(t))
	joined(t, port, func(ctx context.Context, _ *wire.CancelRequest) {
		close(entered)
		<-ctx.Done()
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		here.Forward(ctx, 2, request(1))
	}()
	await(t, "the request", entered)
	isOpen(t, "forwarded", done)
	stop()
	await(t, "the end", done)
	here.Forward(ctx, 2, request(2)) // and one that has ended before: `entered` is closed once
}

// A process that has more requests than its queue has room for is not gone.
func TestForwardToAFullQueue(t *testing.T) {
	port := name(t)
	g := joined(t, port, nobody(t))
	socket := smallQueue(t, port, 2)
	fill := conn(t, port, 2)
	defer func() { _ = fill.Close() }()

	ctx, stop := context.WithTimeout(t.Context(), 3*retry)
	defer stop()
	g.Forward(ctx, 2, request(1))
	if ctx.Err() == nil {
		t.Error("gave up before its time")
	}

	done := forward(t, g, 2, request(2))
	for range 2 { // the one that fills, and the request
		c, err := socket.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	await(t, "the end", done)
}

// smallQueue is a process that accepts nothing and has room for one connection.
func smallQueue(t *testing.T, port string, process uint32) *net.UnixListener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address(port, process).Name}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	socket := ln.(*net.UnixListener)
	if err := socket.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return socket
}

// kill -9 frees the number, and whoever waits for the process goes on.
func TestKilledProcess(t *testing.T) {
	port := name(t)
	here := joined(t, port, nobody(t))
	there := start(t, port, 0)
	there.hears(t, "joined 2")
	done := forward(t, here, 2, request(5))
	there.hears(t, "handles 5")
	isOpen(t, "forwarded", done)
	there.kill()
	await(t, "the end", done)
	if g := joined(t, port, nobody(t)); g.Process() != 2 {
		t.Errorf("number %d, want that of the killed process", g.Process())
	}
}

func TestOrdersBetweenProcesses(t *testing.T) {
	port := name(t)
	handled := make(chan *wire.CancelRequest, 1)
	joined(t, port, func(_ context.Context, r *wire.CancelRequest) { handled <- r })
	there := start(t, port, 0)
	there.hears(t, "joined 2")
	if _, err := fmt.Fprintln(there.orders, 1); err != nil {
		t.Fatal(err)
	}
	there.hears(t, "forwarded 1")
	if r := await(t, "the request", handled); r.PID != 77 {
		t.Errorf("%+v", r)
	}
}

// Anybody can bind or connect to an abstract name. Another user gets no secret and
// is not listened to.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	port := name(t)
	here := joined(t, port, nobody(t))
	stranger := start(t, port, 65534)
	stranger.hears(t, "joined 2")
	await(t, "the end", forward(t, here, 2, request(5)))
	if _, err := fmt.Fprintln(stranger.orders, 1); err != nil {
		t.Fatal(err)
	}
	stranger.hears(t, "forwarded 1") // and not "handles 5"
}
