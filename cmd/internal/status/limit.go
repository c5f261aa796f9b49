package status

import (
	"net"
	"sync"
)

// limited is a listener with a bound on the connections that it has accepted and that are
// still open. At the bound the next one waits in the kernel's backlog; the server's timeouts
// see to it that places come free.
type limited struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

// limit bounds the open connections of ln to n.
func limit(ln net.Listener, n int) net.Listener {
	return &limited{Listener: ln, places: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a place, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close ends the listener and every Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that has a place.
type placed struct {
	net.Conn
	leave func()
}

// Close gives the place back.
func (c *placed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
