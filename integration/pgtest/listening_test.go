package pgtest

import (
	"net"
	"os"
	"testing"
)

func TestListeningTellsWhosePortItIs(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	c, err := net.Dial("tcp4", l.Addr().String()) // its socket has the port, too
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()

	if got, err := listening(os.Getpid(), port); err != nil || !got {
		t.Errorf("own listener: %v, %v", got, err)
	}
	if got, err := listening(os.Getppid(), port); err != nil || got {
		t.Errorf("another process: %v, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := listening(os.Getpid(), port); err != nil || got {
		t.Errorf("closed listener: %v, %v", got, err)
	}
}
