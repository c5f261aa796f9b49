package loop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// recordHeader is the length of a TLS record's header, whose last two bytes are
// the length of what follows.
const recordHeader = 5

// recordMax is the largest payload of a TLS record that we write, and up to which size spans
// are joined into one. TLS allows twice as much, and Postgres writes no larger ones. libpq
// makes room for 8 kB before it reads, and an application that waits for the socket by itself
// (pgbench, and drivers upon libpq's asynchronous calls) does not look for what is left of a
// larger record inside of OpenSSL: it would wait for ever if nothing else came.
const recordMax = 8 << 10

// tlsBuffers are the buffers that a loop needs in addition once it has adopted a
// TLS connection.
type tlsBuffers struct {
	plain []byte // decrypted bytes, as Loop.buf for others
	enc   []byte // records of one Send
	join  []byte // small spans, to become one record
}

// errAgain tells crypto/tls that there is nothing to read at the moment. It
// keeps a connection usable only after errors that call themselves temporary.
var errAgain net.Error = again{}

type again struct{}

func (again) Error() string   { return "loop: nothing to read yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// errBroken is what crypto/tls gets for every failed read. A system call's own
// error will not do: some of them call themselves temporary.
var errBroken = errors.New("loop: connection is broken")

// Bridge is the transport below a [tls.Conn] that is to live in a loop. At first
// it hands everything on to a net.Conn, so that a goroutine can do the
// handshake and the login. Once adopted it reads from the loop's buffer, and
// writes as Send does; it then belongs to the loop thread. Set
// DynamicRecordSizingDisabled in the tls.Config: small records for the start of a
// connection only cost, since the loop sends whole batches of records.
type Bridge struct {
	nc            net.Conn
	local, remote net.Addr

	// Owned by the loop thread after adoption.
	c        *Conn // nil before
	t        *tls.Conn
	in       []byte // ciphertext not given to crypto/tls yet
	stash    []byte // the buffer that in lies in between turns, nil if in is empty
	mayRead  bool   // this turn's one read has not happened
	eof      bool   // the peer's end of file has been read
	batching bool   // collect records in enc
	drained  bool   // crypto/tls has no whole record left of what it read before adoption

	// Where in the stream of records the next byte for crypto/tls stands.
	head  [recordHeader]byte
	nHead uint8
	left  int
}

// NewBridge returns a bridge over nc, from which nothing of the TLS stream may
// have been read.
func NewBridge(nc net.Conn) *Bridge {
	return &Bridge{nc: nc, local: nc.LocalAddr(), remote: nc.RemoteAddr()}
}

// attach makes the bridge c's. The net.Conn has served its purpose: Detach has
// closed it.
func (b *Bridge) attach(c *Conn, t *tls.Conn) {
	b.nc, b.c, b.t = nil, c, t
}

// SyscallConn gives access to the descriptor below, so that [Detach] works on a
// bridge. It fails once the bridge has been adopted.
func (b *Bridge) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := b.nc.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errNoDescriptor
}

// Read implements net.Conn. After adoption it hands out at most one record per
// call: crypto/tls keeps a buffer as large as the largest piece it ever got.
func (b *Bridge) Read(p []byte) (int, error) {
	if b.c == nil {
		n, err := b.nc.Read(p)
		b.advance(p[:max(n, 0)])
		return n, err
	}
	if len(b.in) == 0 {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.in[:b.recordEnd()])
	b.advance(p[:n])
	b.in = b.in[n:]
	return n, nil
}

// fill reads ciphertext into the shared buffer, once per turn.
func (b *Bridge) fill() error {
	b.unstash()
	c := b.c
	switch {
	case b.eof:
		return io.EOF
	case c.flags&fReadable == 0 || !b.mayRead:
		return errAgain
	}
	b.mayRead = false
	l := c.loop
	n, ok := l.recv(c, l.buf)
	switch {
	case n > 0:
		b.in = l.buf[:n]
		return nil
	case ok:
		b.eof = true
		return io.EOF
	case c.flags&fBroken != 0:
		return errBroken
	}
	return errAgain
}

// recordEnd returns how many bytes of in belong to the record that in begins in.
func (b *Bridge) recordEnd() int {
	n := b.left
	if b.nHead < recordHeader {
		h := b.head
		k := int(b.nHead) + copy(h[b.nHead:], b.in)
		if k < recordHeader {
			return len(b.in)
		}
		n = recordHeader - int(b.nHead) + (int(h[3])<<8 | int(h[4]))
	}
	return min(n, len(b.in))
}

// advance notes that crypto/tls has been given p.
func (b *Bridge) advance(p []byte) {
	for len(p) > 0 {
		if b.nHead < recordHeader {
			k := copy(b.head[b.nHead:], p)
			b.nHead += uint8(k)
			p = p[k:]
			if b.nHead < recordHeader {
				return
			}
			b.left = int(b.head[3])<<8 | int(b.head[4])
		}
		k := min(b.left, len(p))
		b.left -= k
		p = p[k:]
		if b.left == 0 {
			b.nHead = 0
		}
	}
}

// spent reports, after a read that has brought all that there was room for, that crypto/tls
// can have nothing more in this turn: it is given one record at a time, and the last one has
// been read.
func (b *Bridge) spent() bool {
	return b.drained && len(b.in) == 0 && !b.eof && (!b.mayRead || b.c.flags&fReadable == 0)
}

// keep moves what is left of in out of the shared buffer.
func (b *Bridge) keep() {
	if len(b.in) == 0 || b.stash != nil {
		return
	}
	b.stash = append(b.c.loop.bufs.get(len(b.in)), b.in...)
	b.in = b.stash
}

func (b *Bridge) unstash() {
	if b.stash != nil {
		b.c.loop.bufs.put(b.stash)
		b.stash = nil
	}
	b.in = nil
}

// release forgets everything that belongs to an open connection.
func (b *Bridge) release() { b.unstash() }

// readTLS decrypts what one read brings, and what crypto/tls held before.
func (l *Loop) readTLS(c *Conn) {
	br := c.br
	b, k := l.room(c, l.tlsBuffers().plain)
	br.mayRead = true
	n, err := k, error(nil)
	for err == nil && n < len(b) {
		var m int
		m, err = br.t.Read(b[n:]) // data and an error may come together
		n += m
		if err == nil && n < len(b) && br.spent() {
			err = errAgain // what Read would say, for a good part of its price
		}
	}
	br.drained = br.drained || err == errAgain
	br.keep()
	c.flags &^= fMore
	if err != errAgain {
		c.flags |= fMore // there is more, or an error that will come again
	}
	if n > k {
		l.deliver(c, b[:n], k)
	}
	if err == nil || err == errAgain || c.flags&(fNoData|fResumed) != 0 {
		return
	}
	switch {
	case c.flags&fBroken != 0:
		l.end(c, Reset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		l.eof(c)
	default:
		l.end(c, BadTLS)
	}
}

func (l *Loop) tlsBuffers() *tlsBuffers {
	if l.tls == nil {
		l.tls = &tlsBuffers{
			plain: make([]byte, 2*len(l.buf)),
			enc:   make([]byte, 0, len(l.buf)+4096),
			join:  make([]byte, 0, recordMax),
		}
	}
	return l.tls
}

// send encrypts the spans into as few records as is cheap, and sends them.
func (b *Bridge) send(spans [][]byte) {
	x := b.c.loop.tlsBuffers()
	b.batching, x.enc = true, x.enc[:0]
	if len(spans) == 1 {
		b.encrypt(spans[0])
	} else {
		x.join = x.join[:0]
		for _, s := range spans {
			b.join(x, s)
		}
		b.encrypt(x.join)
	}
	b.batching = false
	if l := b.c.loop; !l.hold(b.c, len(x.enc), x.enc) {
		l.write(b.c, x.enc)
	}
}

// join adds s to the record that is being filled, and writes it whenever it is full.
func (b *Bridge) join(x *tlsBuffers, s []byte) {
	for len(s) > 0 {
		if len(x.join) == 0 && len(s) >= recordMax {
			b.encrypt(s[:recordMax]) // without a copy
			s = s[recordMax:]
			continue
		}
		n := min(recordMax-len(x.join), len(s))
		x.join, s = append(x.join, s[:n]...), s[n:]
		if len(x.join) == recordMax {
			b.encrypt(x.join)
			x.join = x.join[:0]
		}
	}
}

// encrypt writes p in records that are not too large.
func (b *Bridge) encrypt(p []byte) {
	for len(p) > 0 {
		n := min(len(p), recordMax)
		if _, err := b.t.Write(p[:n]); err != nil {
			if b.c.flags&(fBroken|fClosed) == 0 {
				b.c.loop.broken(b.c) // the TLS connection has failed before
			}
			return
		}
		p = p[n:]
	}
}

// closeNotify sends the alert that ends our side of the TLS stream.
func (b *Bridge) closeNotify() { _ = b.t.CloseWrite() }

// Write implements net.Conn. After adoption it takes every byte: what the kernel
// does not take is kept as unsent.
func (b *Bridge) Write(p []byte) (int, error) {
	if b.c == nil {
		return b.nc.Write(p)
	}
	if b.c.flags&fClosed != 0 {
		return len(p), nil
	}
	l := b.c.loop
	if !b.batching {
		l.write(b.c, p)
		return len(p), nil
	}
	x := l.tls
	if len(x.enc)+len(p) > cap(x.enc) {
		l.write(b.c, x.enc)
		x.enc = x.enc[:0]
	}
	x.enc = append(x.enc, p...)
	return len(p), nil
}

// Close implements net.Conn. After adoption it is Conn.Close.
func (b *Bridge) Close() error {
	if b.c == nil {
		return b.nc.Close()
	}
	b.c.Close()
	return nil
}

// LocalAddr implements net.Conn, also after adoption.
func (b *Bridge) LocalAddr() net.Addr { return b.local }

// RemoteAddr implements net.Conn, also after adoption.
func (b *Bridge) RemoteAddr() net.Addr { return b.remote }

// SetDeadline implements net.Conn. After adoption there are no deadlines: it
// does nothing, as do SetReadDeadline and SetWriteDeadline.
func (b *Bridge) SetDeadline(t time.Time) error {
	if b.c == nil {
		return b.nc.SetDeadline(t)
	}
	return nil
}

// SetReadDeadline implements net.Conn.
func (b *Bridge) SetReadDeadline(t time.Time) error {
	if b.c == nil {
		return b.nc.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn.
func (b *Bridge) SetWriteDeadline(t time.Time) error {
	if b.c == nil {
		return b.nc.SetWriteDeadline(t)
	}
	return nil
}
