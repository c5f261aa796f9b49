package door

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// A listener whose newcomers are ignored still has those who came before, and nobody else
// any more; who came in vain is refused, and not reset, once it is closed.
func TestIgnoreNewcomers(t *testing.T) {
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	ln, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	early, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Close() }()
	if err := IgnoreNewcomers(ln); err != nil {
		t.Fatal(err)
	}
	late := make(chan error, 1)
	go func() {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		late <- err
	}()
	accept := func(d time.Duration) error {
		if err := ln.(*net.TCPListener).SetDeadline(time.Now().Add(d)); err != nil {
			t.Fatal(err)
		}
		conn, err := ln.Accept()
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := accept(10 * time.Second); err != nil {
		t.Fatalf("who came before: %v", err)
	}
	if err := accept(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a newcomer: %v", err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case err := <-late:
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("who came in vain: %v", err)
		}
	case <-ctx.Done():
		t.Error("who came in vain waits for ever")
	}
}
