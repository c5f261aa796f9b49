package hostile

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// lie is what a server does once in the place of what it should do: honest is what that would
// be. It has the connection for itself until it returns; goesOn says that the server is honest
// again then, else the connection is closed.
type lie func(conn net.Conn, honest []byte) (goesOn bool)

// says is a lie of bytes, after which it waits for the other side to leave.
func says(b ...[]byte) lie {
	return func(conn net.Conn, _ []byte) bool {
		if _, err := conn.Write(bytes.Join(b, nil)); err == nil {
			drain(conn)
		}
		return false
	}
}

// tells is a lie of bytes, after which it is honest again.
func tells(b ...[]byte) lie {
	return func(conn net.Conn, _ []byte) bool {
		_, err := conn.Write(bytes.Join(b, nil))
		return err == nil
	}
}

// leaves is a lie of bytes and a closed connection.
func leaves(b ...[]byte) lie {
	return func(conn net.Conn, _ []byte) bool {
		_, _ = conn.Write(bytes.Join(b, nil))
		return false
	}
}

// adds is honest, and says more at once.
func adds(b ...[]byte) lie {
	return func(conn net.Conn, honest []byte) bool {
		if _, err := conn.Write(append(honest, bytes.Join(b, nil)...)); err == nil {
			drain(conn)
		}
		return false
	}
}

// precedes says more before it is honest, and goes on.
func precedes(b ...[]byte) lie {
	return func(conn net.Conn, honest []byte) bool {
		_, err := conn.Write(append(bytes.Join(b, nil), honest...))
		return err == nil
	}
}

// endless repeats itself for as long as anybody listens.
func endless(next func(i int) []byte) lie {
	return func(conn net.Conn, _ []byte) bool {
		var many []byte
		for i := 0; ; {
			if i < 10_000 {
				many = many[:0]
			}
			for len(many) < 64<<10 {
				many = append(many, next(i)...)
				i++
			}
			if _, err := conn.Write(many); err != nil {
				return false
			}
		}
	}
}

func drain(conn net.Conn) {
	b := make([]byte, 4096)
	for {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// fake is a Postgres for any role that lies when it is told to: at the next login, or to the
// next Query or batch that contains the word "lie". Else it is honest.
type fake struct {
	ln   net.Listener
	work sync.WaitGroup

	mu        sync.Mutex
	conns     map[net.Conn]bool
	backends  map[uint32]*served
	atLogin   lie
	atRequest lie
	pid       uint32
}

// served is a connection with its backend.
type served struct {
	mu   sync.Mutex
	conn net.Conn
	b    *wiretest.Backend
}

func startFake(t *testing.T) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{ln: ln, conns: make(map[net.Conn]bool), backends: make(map[uint32]*served)}
	f.work.Go(f.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		f.mu.Lock()
		for c := range f.conns {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.work.Wait()
	})
	return f
}

// url is where it is.
func (f *fake) url() string { return fmt.Sprintf("postgres://app@%s/app?sslmode=disable", f.ln.Addr()) }

func (f *fake) accept() {
	for {
		conn, err := f.ln.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[conn] = true
		f.mu.Unlock()
		f.work.Go(func() {
			f.serve(conn)
			_ = conn.Close()
			f.mu.Lock()
			delete(f.conns, conn)
			f.mu.Unlock()
		})
	}
}

// at sets the next lies; nil leaves none.
func (f *fake) at(login, request lie) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.atLogin, f.atRequest = login, request
}

// take takes a lie, which is told once.
func (f *fake) take(from *lie) lie {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := *from
	*from = nil
	return l
}

// serve is one connection from its first byte to its last.
func (f *fake) serve(conn net.Conn) {
	p, err := wire.ReadStartup(conn)
	if err != nil {
		return
	}
	if r, ok := p.(*wire.CancelRequest); ok {
		f.cancel(r)
		return
	}
	start, ok := p.(*wire.Startup)
	if !ok { // a request for encryption
		if l := f.take(&f.atLogin); l != nil {
			l(conn, nil)
		}
		return
	}
	f.mu.Lock()
	f.pid++
	pid := f.pid
	f.mu.Unlock()
	params := make(map[string]string)
	for _, p := range start.Params {
		if p.Name != "user" && p.Name != "database" {
			params[p.Name] = p.Value
		}
	}
	s := &served{conn: conn, b: wiretest.NewBackend(wiretest.BackendOptions{PID: pid, Secret: []byte("abcd"), Params: params})}
	welcome := append(wire.AppendAuthentication(nil, wire.AuthOK, nil), s.b.Welcome()...)
	if l := f.take(&f.atLogin); l != nil {
		if !l(conn, welcome) {
			return
		}
		welcome = nil
	}
	f.mu.Lock()
	f.backends[pid] = s
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.backends, pid)
		f.mu.Unlock()
	}()
	if _, err := conn.Write(welcome); err == nil {
		f.talk(s)
	}
}

// talk answers what is asked, until it is to lie.
func (f *fake) talk(s *served) {
	in := make([]byte, 64<<10)
	for {
		n, err := s.conn.Read(in)
		if n > 0 && bytes.Contains(in[:n], []byte("lie")) {
			if l := f.take(&f.atRequest); l != nil {
				s.mu.Lock()
				s.b.Feed(in[:n])
				s.b.Run()
				honest := s.b.Output()
				s.mu.Unlock()
				if !l(s.conn, honest) {
					return
				}
				continue
			}
		}
		s.mu.Lock()
		s.b.Feed(in[:n])
		if err != nil {
			s.b.EOF()
		}
		alive := s.run()
		s.mu.Unlock()
		if err != nil || !alive {
			return
		}
	}
}

// run lets the backend work and sends what it says. A statement that sleeps goes on sleeping
// until it is cancelled.
func (s *served) run() (alive bool) {
	s.b.Run()
	_, err := s.conn.Write(s.b.Output())
	return err == nil && !s.b.Dead()
}

// cancel does what a CancelRequest asks for.
func (f *fake) cancel(r *wire.CancelRequest) {
	f.mu.Lock()
	s := f.backends[r.PID]
	f.mu.Unlock()
	if s == nil || string(r.Secret) != "abcd" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.b.Cancel()
	s.run()
}
