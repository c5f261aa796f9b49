package parity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// patience bounds every wait for an answer. It is no measurement: whoever needs it hangs.
const patience = 20 * time.Second

// player plays one sequence with one server.
type player struct {
	to      pgtest.Endpoint
	lab     *lab
	rnd     *rand.Rand // how the bytes are cut
	clients map[string]*client
}

// transcript is what each client was told.
type transcript map[string]told

// told is all that came from the server.
type told struct {
	bytes  []byte
	halved bool // the client had ended its sending side
	gone   bool // the client has closed, maybe before it was told all
}

// play plays a sequence to its end and returns what was said, as far as it came.
func (l *lab) play(ctx context.Context, s *sequence, to pgtest.Endpoint, rnd *rand.Rand) (transcript, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.whole {
		rnd = nil
	}
	p := &player{to: to, lab: l, rnd: rnd, clients: make(map[string]*client)}
	err := p.run(ctx, s)
	out := make(transcript)
	for name, c := range p.clients {
		_ = c.conn.Close()
		<-c.ended
		out[name] = told{c.got, c.halved, c.gone}
	}
	return out, err
}

func (p *player) run(ctx context.Context, s *sequence) error {
	for _, st := range s.steps {
		if err := p.step(ctx, st); err != nil {
			return fmt.Errorf("line %d, client %s: %w", st.line, st.client, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.clients)) {
		if err := p.clients[name].finish(ctx); err != nil {
			return fmt.Errorf("the end of client %s: %w", name, err)
		}
	}
	return nil
}

func (p *player) step(ctx context.Context, st step) error {
	if st.op == opAdmin {
		return p.lab.exec(ctx, st.text)
	}
	c := p.clients[st.client]
	if c == nil {
		packet := st.bytes
		if st.op != opStart {
			var err error
			if packet, err = startPacket(""); err != nil {
				return err
			}
		}
		var err error
		if c, err = p.start(packet); err != nil {
			return err
		}
		p.clients[st.client] = c
		if st.op == opStart {
			return nil
		}
		if err := c.await(ctx, "the end of the login", func() bool { return c.ready || c.over }); err != nil {
			return err
		}
	}
	switch st.op {
	case opStart:
		return c.write(p.rnd, st.bytes) // a further packet of the same login
	case opSend:
		return c.send(p.rnd, st.bytes)
	case opWait:
		return c.settle(ctx)
	case opFlushed:
		return c.await(ctx, "answers", func() bool { return c.over || c.ready && c.tracker.Flushed() })
	case opAsleep:
		return p.lab.until(ctx, asleep)
	case opByte:
		return c.await(ctx, "a byte", func() bool { return c.over || c.seen > 0 })
	case opHalf:
		return c.half()
	case opClose:
		c.gone = true
		return c.conn.Close()
	case opClosed:
		return c.await(ctx, "the server closes", func() bool { return c.over })
	case opCancel:
		return p.cancel(ctx, c)
	}
	return errors.New("unknown step")
}

// asleep is a condition: one backend sleeps.
const asleep = "count(*) = 1 from pg_stat_activity where usename = 'app' and wait_event = 'PgSleep'"

// start connects a client and sends its first packet.
func (p *player) start(packet []byte) (*client, error) {
	conn, err := net.Dial("tcp", p.to.Addr())
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn.(*net.TCPConn), changed: make(chan struct{}, 1), ended: make(chan struct{})}
	go c.read()
	return c, c.write(p.rnd, packet)
}

// cancel cancels the client's statement: it waits until a backend sleeps, and for the end
// of the request's connection.
func (p *player) cancel(ctx context.Context, c *client) error {
	if err := p.lab.until(ctx, asleep); err != nil {
		return err
	}
	// That backend has sent the key; this client may not have read it yet.
	var key []byte
	if err := c.await(ctx, "a key", func() bool { key = c.key; return c.over || len(key) >= 8 }); err != nil {
		return err
	}
	if len(key) < 8 {
		return errors.New("there is no key")
	}
	conn, err := net.Dial("tcp", p.to.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(wire.AppendCancelRequest(nil, binary.BigEndian.Uint32(key), key[4:])); err != nil {
		return err
	}
	_, err = io.ReadAll(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return err
}

// client is one connection. Its reader runs beside it.
type client struct {
	conn    *net.TCPConn
	changed chan struct{} // something of what follows has changed
	ended   chan struct{} // the reader has ended
	halved  bool          // the sending side is closed
	gone    bool          // the client has closed
	resync  bool          // the bytes that bring certainty are under way

	mu      sync.Mutex
	got     []byte
	seen    int // how much of it has been looked at
	key     []byte
	ready   bool // the login is over
	over    bool // the server has closed
	tracker wiretest.Tracker
}

func (c *client) read() {
	defer close(c.ended)
	buf := make([]byte, 64<<10)
	for {
		n, err := c.conn.Read(buf)
		c.mu.Lock()
		c.got = append(c.got, buf[:n]...)
		c.look(n)
		if err != nil {
			c.over = true
		}
		c.mu.Unlock()
		select {
		case c.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// look takes note of the last n bytes.
func (c *client) look(n int) {
	if c.ready {
		c.tracker.Received(c.got[len(c.got)-n:])
		return
	}
	for !c.ready {
		rest := c.got[c.seen:]
		if c.seen < 2 && len(rest) > 0 && strings.IndexByte("NSG", rest[0]) >= 0 && loneByte(rest) {
			c.seen++ // encryption was asked for
			continue
		}
		msgs, _ := wiretest.Messages(rest)
		if len(msgs) == 0 {
			return
		}
		m := msgs[0]
		c.seen += wire.HeaderLen + len(m.Body)
		switch m.Type {
		case wire.MsgBackendKeyData:
			c.key = m.Body
		case wire.MsgReadyForQuery:
			c.ready = true
			c.tracker.Received(c.got[c.seen:])
		}
	}
}

// await waits for a condition, which is judged under the lock.
func (c *client) await(ctx context.Context, what string, cond func() bool) error {
	for {
		c.mu.Lock()
		ok := cond()
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return fmt.Errorf("in vain for %s", what)
		}
	}
}

// settle waits until everything is answered. Where the bytes alone can't tell what is
// still to come, it sends what makes it certain.
func (c *client) settle(ctx context.Context) error {
	for {
		unsure := false
		err := c.await(ctx, "all answers", func() bool {
			unsure = c.tracker.Unsure() && !c.resync
			return c.over || unsure || c.ready && c.tracker.Settled()
		})
		if err != nil || !unsure {
			c.resync = false
			return err
		}
		c.mu.Lock()
		b := c.tracker.Resync()
		c.mu.Unlock()
		c.resync = true
		if err := c.write(nil, b); err != nil {
			return err
		}
	}
}

// send sends messages of the session.
func (c *client) send(rnd *rand.Rand, b []byte) error {
	c.mu.Lock()
	c.tracker.Sent(b)
	c.mu.Unlock()
	return c.write(rnd, b)
}

// write writes bytes in random pieces; with a nil rnd in one.
func (c *client) write(rnd *rand.Rand, b []byte) error {
	pieces := [][]byte{b}
	if rnd != nil {
		pieces = wiretest.Split(rnd, b)
	}
	for _, piece := range pieces {
		if _, err := c.conn.Write(piece); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				return nil // the server has closed; what it said is still to be read
			}
			return err
		}
	}
	return nil
}

// half ends the sending side.
func (c *client) half() error {
	c.halved = true
	if err := c.conn.CloseWrite(); err != nil && !errors.Is(err, syscall.ENOTCONN) {
		return err
	}
	return nil
}

// finish ends a session that is still open: everything is answered, the client says
// goodbye, the server closes.
func (c *client) finish(ctx context.Context) error {
	if c.gone {
		return nil
	}
	if !c.halved {
		if err := c.settle(ctx); err != nil {
			return err
		}
		c.mu.Lock()
		over := c.over
		c.mu.Unlock()
		if !over {
			if err := c.write(nil, wire.AppendEmpty(nil, wire.MsgTerminate)); err != nil {
				return err
			}
		}
	}
	return c.await(ctx, "the server closes", func() bool { return c.over })
}

// frames is what one client was told.
func (t transcript) frames(name string) []frame { return frames(t[name].bytes) }

// dump writes a transcript in words, for failures.
func (t transcript) dump() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		for _, f := range t.frames(name) {
			fmt.Fprintf(&b, "%s %s%s\n", name, f.line, f.place)
		}
	}
	return b.String()
}
