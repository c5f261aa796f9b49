package loop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"
)

// certificate makes a self-signed one.
func certificate(tb testing.TB) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	x := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "loop"},
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, x, x, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// swapConn is a TCP connection whose writes a test may divert.
// It remembers what was read.
type swapConn struct {
	*net.TCPConn
	w    io.Writer
	read bytes.Buffer
}

func (s *swapConn) Read(b []byte) (int, error) {
	n, err := s.TCPConn.Read(b)
	s.read.Write(b[:n])
	return n, err
}

// records returns the types of the records that were read.
func (s *swapConn) records() (types []byte) {
	for b := s.read.Bytes(); len(b) >= recordHeader; {
		types = append(types, b[0])
		b = b[min(len(b), recordHeader+(int(b[3])<<8|int(b[4]))):]
	}
	return types
}

func (s *swapConn) Write(b []byte) (int, error) {
	if s.w != nil {
		return s.w.Write(b)
	}
	return s.TCPConn.Write(b)
}

// tlsPair shakes hands over loopback and returns the server's side, ready for
// adoption, and the client. early is sent by the client right after the
// handshake, and has arrived when tlsPair returns; the server has then read
// its first byte, so that the rest may lie inside crypto/tls.
func tlsPair(tb testing.TB, version uint16, early []byte) (*tls.Conn, *Bridge, *tls.Conn) {
	tb.Helper()
	nc, peer := tcpPair(tb)
	br := NewBridge(nc)
	server := tls.Server(br, &tls.Config{
		Certificates:                []tls.Certificate{certificate(tb)},
		MaxVersion:                  version,
		DynamicRecordSizingDisabled: true,
	})
	client := tls.Client(&swapConn{TCPConn: peer}, &tls.Config{InsecureSkipVerify: true})
	done := make(chan error, 1)
	go func() {
		err := client.Handshake()
		if err == nil && len(early) > 0 {
			_, err = client.Write(early)
		}
		done <- err
	}()
	_ = server.SetDeadline(time.Now().Add(patience))
	if err := server.Handshake(); err != nil {
		tb.Fatal(err)
	}
	if len(early) > 0 {
		var b [1]byte
		if _, err := io.ReadFull(server, b[:]); err != nil || b[0] != early[0] {
			tb.Fatal(b, err)
		}
	}
	if err := await(tb, done); err != nil {
		tb.Fatal(err)
	}
	return server, br, client
}

func adoptTLS(tb testing.TB, l *Loop, t *tls.Conn, br *Bridge, h Handler) {
	tb.Helper()
	fd, err := Detach(br)
	if err != nil {
		tb.Fatal(err)
	}
	if err := l.Adopt(fd, t, br, h); err != nil {
		tb.Fatal(err)
	}
}

func versions(t *testing.T, f func(t *testing.T, version uint16)) {
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(v), func(t *testing.T) { f(t, v) })
	}
}

// Bytes that crypto/tls read before the adoption are delivered although no edge
// announces them, also when they do not fit into the loop's buffer at once.
func TestTLSDataAtAdoption(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		early := []byte("Q" + strings.Repeat("select 1;", 1500))
		server, br, _ := tlsPair(t, version, early)
		l := handLoop(t, Options{BufferSize: 512})
		p := &probe{t: t}
		adoptTLS(t, l, server, br, p)
		until(t, l, func() bool { return p.got.Len() == len(early)-1 })
		if !bytes.Equal(p.got.Bytes(), early[1:]) {
			t.Error("bytes changed on the way")
		}
	})
}

// A handler that is paused at adoption gets the bytes on Resume.
func TestTLSResumeAfterAdoption(t *testing.T) {
	server, br, client := tlsPair(t, 0, []byte("early"))
	l := handLoop(t, Options{})
	p := &probe{t: t, onOpen: func(c *Conn) { c.Pause() }}
	adoptTLS(t, l, server, br, p)
	settle(t, l)
	write(t, client, " and late")
	until(t, l, func() bool { return p.c.flags&fReadable != 0 })
	settle(t, l)
	if len(p.log) != 1 {
		t.Fatalf("paused: %v", p.log)
	}
	p.c.Resume()
	until(t, l, func() bool { return p.got.String() == "arly and late" })
}

// Both directions at once, much more than the sockets hold, through every path:
// odd buffer sizes, many spans, left-over bytes, backpressure.
func TestTLSBigTransfers(t *testing.T) {
	for _, size := range []int{512, 4096, DefaultBufferSize} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			versions(t, func(t *testing.T, version uint16) { tlsTransfer(t, version, size, 2<<20) })
		})
	}
}

// No record holds more than libpq makes room for: see recordMax.
func TestTLSRecordsAreSmallEnoughForLibpq(t *testing.T) {
	versions(t, func(t *testing.T, version uint16) {
		const total, overhead = 1 << 20, 64
		server, br, client := tlsPair(t, version, nil)
		l := running(t, Options{})
		p := &pump{in: sha256.New(), out: sha256.New(), left: total, rnd: mrand.New(mrand.NewPCG(1, 1))}
		adoptTLS(t, l, server, br, p)
		raw := client.NetConn()
		_ = raw.SetReadDeadline(time.Now().Add(patience))
		largest := 0
		for got := 0; got < total; {
			var head [recordHeader]byte
			if _, err := io.ReadFull(raw, head[:]); err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			n := int(head[3])<<8 | int(head[4])
			if _, err := io.CopyN(io.Discard, raw, int64(n)); err != nil {
				t.Fatal(err)
			}
			largest = max(largest, n)
			got += n
		}
		if largest > recordMax+overhead || largest < recordMax {
			t.Errorf("the largest record has %d bytes", largest)
		}
	})
}

func tlsTransfer(t *testing.T, version uint16, size, total int) {
	server, br, client := tlsPair(t, version, nil)
	l := running(t, Options{BufferSize: size})
	in, out := sha256.New(), sha256.New()
	finished := make(chan struct{})
	p := &pump{in: in, out: out, left: total, rnd: mrand.New(mrand.NewPCG(1, uint64(size))), finished: finished}
	adoptTLS(t, l, server, br, p)

	sent, errs := sha256.New(), make(chan error, 1)
	go func() {
		rnd := mrand.New(mrand.NewPCG(2, 3))
		buf := make([]byte, 100_000)
		var err error
		for left := total; left > 0 && err == nil; {
			b := buf[:min(left, 1+rnd.IntN(len(buf)))]
			fillRandom(rnd, b)
			sent.Write(b)
			_, err = client.Write(b)
			left -= len(b)
		}
		errs <- errors.Join(err, client.CloseWrite())
	}()
	got := sha256.New()
	n, err := io.Copy(got, client)
	if err != nil || n != int64(total) {
		t.Fatalf("client received %d of %d bytes: %v", n, total, err)
	}
	if err := await(t, errs); err != nil {
		t.Fatal(err)
	}
	await(t, finished)
	on(t, l, func() {
		if !bytes.Equal(got.Sum(nil), out.Sum(nil)) || !bytes.Equal(sent.Sum(nil), in.Sum(nil)) {
			t.Error("bytes changed on the way")
		}
		if p.ended != 0 {
			t.Errorf("ended by %v", p.ended)
		}
	})
}

func fillRandom(rnd *mrand.Rand, b []byte) {
	for len(b) >= 8 {
		binary.NativeEndian.PutUint64(b, rnd.Uint64())
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
}

// pump sends left random bytes in random spans, uses what it receives in random
// pieces, and finishes when both directions have ended.
type pump struct {
	in, out  hash.Hash
	left     int
	rnd      *mrand.Rand
	ended    End
	eof      bool
	finished chan struct{}
}

func (p *pump) Open(c *Conn, _ int64) {
	c.loop.opt.EndOfTurn = func(int64) { scribble(c.loop) }
	p.push(c)
}

func (p *pump) push(c *Conn) {
	for p.left > 0 {
		var spans [][]byte
		for range 1 + p.rnd.IntN(5) {
			n := p.rnd.IntN(9000)
			if p.rnd.IntN(4) == 0 {
				n *= 10
			}
			b := make([]byte, min(n, p.left))
			fillRandom(p.rnd, b)
			p.out.Write(b)
			p.left -= len(b)
			spans = append(spans, b)
		}
		if c.Send(spans) > 0 {
			break
		}
	}
	p.done(c)
}

func (p *pump) done(c *Conn) {
	if p.left > 0 {
		return
	}
	c.ShutdownWrite()
	if p.eof && c.Unsent() == 0 && p.finished != nil {
		close(p.finished)
		p.finished = nil
		c.Finish()
	}
}

func (p *pump) Data(c *Conn, b []byte, _ int64) int {
	used := len(b)
	switch p.rnd.IntN(6) {
	case 0: // leave some, to come again with more
		used = p.rnd.IntN(len(b) + 1)
		if used < len(b) {
			c.Resume()
		}
	case 1:
		c.Pause()
		c.Loop().Post(&Task{Run: func(int64) { c.Resume() }})
		used /= 2
	}
	p.in.Write(b[:used])
	return used
}
func (p *pump) Drained(c *Conn, _ int64)        { p.push(c) }
func (p *pump) Hangup(*Conn, int64)             {}
func (p *pump) EOF(c *Conn, _ int64)            { p.eof = true; p.done(c) }
func (p *pump) End(_ *Conn, how End, now int64) { p.ended = how }

// Finish sends close_notify behind the last bytes; the client's own close is
// an EOF for the handler.
func TestTLSCleanClose(t *testing.T) {
	server, br, client := tlsPair(t, tls.VersionTLS12, nil) // alerts are visible
	l := running(t, Options{})
	eof := make(chan struct{})
	p := &probe{t: t}
	p.onData = func(c *Conn, b []byte) int {
		c.Send(spans("good", "bye"))
		c.Finish()
		return len(b)
	}
	adoptTLS(t, l, server, br, p)
	write(t, client, "X")
	b, err := io.ReadAll(client)
	if err != nil || string(b) != "goodbye" {
		t.Errorf("%q, %v", b, err)
	}
	const alert = 21
	if r := client.NetConn().(*swapConn).records(); r[len(r)-1] != alert {
		t.Errorf("no close_notify: %v", r)
	}
	_ = client.Close()

	server, br, client = tlsPair(t, 0, nil)
	q := &probe{t: t, onEOF: func(c *Conn) { close(eof) }}
	adoptTLS(t, l, server, br, q)
	write(t, client, "X")
	_ = client.Close()
	await(t, eof)
	on(t, l, func() {
		if q.got.String() != "X" || q.log[len(q.log)-1] != "eof" {
			t.Error(q.log)
		}
	})
}

// Small spans become one record and one write; crypto/tls's buffer stays small.
func TestTLSOneWritePerSend(t *testing.T) {
	server, br, client := tlsPair(t, 0, nil)
	l := handLoop(t, Options{})
	p := &probe{t: t}
	adoptTLS(t, l, server, br, p)
	settle(t, l)
	writes := l.count.Writes
	p.c.Send(spans("one", "", "two", strings.Repeat("x", 9000), "three"))
	if n := l.count.Writes - writes; n != 1 {
		t.Errorf("%d writes for one Send", n)
	}
	b := make([]byte, 40000)
	_ = client.SetReadDeadline(time.Now().Add(patience))
	if n, err := client.Read(b); n != recordMax || err != nil { // one Read is at most one record
		t.Errorf("first record: %d bytes, %v", n, err)
	}
	if n, err := client.Read(b); n != 9011-recordMax || err != nil {
		t.Errorf("second record: %d bytes, %v", n, err)
	}
	p.c.Send([][]byte{b})
	if n := l.count.Writes - writes; n != 2 {
		t.Errorf("%d writes for five records of one Send", n-1)
	}
	if p.c.Send(nil) != 0 || p.c.Send(spans("", "")) != 0 || l.count.Writes-writes != 2 {
		t.Error("sending nothing writes something")
	}
}

// As TestKeptBytesBeforeEOF, with the end already known to crypto/tls.
func TestTLSKeptBytesBeforeEOF(t *testing.T) {
	server, br, client := tlsPair(t, 0, nil)
	l := handLoop(t, Options{})
	p := &probe{t: t, onData: func(c *Conn, b []byte) int { c.Resume(); return 1 }}
	write(t, client, "abcd")
	_ = client.Close()
	adoptTLS(t, l, server, br, p)
	until(t, l, func() bool { return p.saw("eof") == 1 })
	if p.got.String() != "abcd" {
		t.Error(p.log)
	}
}

// Garbage ends the connection as BadTLS, after an alert; a record cut short by
// the end of the stream is an EOF.
func TestTLSBadInput(t *testing.T) {
	l := handLoop(t, Options{})
	raw := func(t *testing.T, bytes string) (*probe, net.Conn) {
		server, br, client := tlsPair(t, 0, nil)
		p := &probe{t: t}
		adoptTLS(t, l, server, br, p)
		settle(t, l)
		write(t, client.NetConn(), bytes)
		return p, client.NetConn()
	}
	p, nc := raw(t, "this is no record at all")
	until(t, l, func() bool { return p.saw("end bad_tls") == 1 })
	if b, err := io.ReadAll(nc); len(b) == 0 {
		t.Errorf("no alert, %v", err)
	}
	p, nc = raw(t, "\x17\x03\x03\x40\x00half a record")
	_ = nc.(*swapConn).CloseWrite()
	until(t, l, func() bool { return p.saw("eof") == 1 })
	p, nc = raw(t, "\x17\x03")
	_ = nc.(*swapConn).SetLinger(0)
	_ = nc.Close()
	until(t, l, func() bool { return p.saw("end reset") == 1 })
}

// crypto/tls must stay usable after the error that says "nothing yet": the loop
// depends on it. Every byte arrives in a turn of its own.
func TestTLSByteByByte(t *testing.T) {
	server, br, client := tlsPair(t, 0, nil)
	l := handLoop(t, Options{})
	p := &probe{t: t}
	adoptTLS(t, l, server, br, p)
	settle(t, l)
	sw := client.NetConn().(*swapConn)
	sw.w = &slowWriter{
		w:     sw.TCPConn,
		total: int(l.count.BytesIn),
		each:  func(n int) { until(t, l, func() bool { return int(l.count.BytesIn) >= n }) },
	}
	write(t, client, "slowly does it")
	if p.got.String() != "slowly does it" || len(p.log) != 2 {
		t.Error(p.log)
	}
}

// slowWriter writes byte by byte, and has each arrive before the next.
type slowWriter struct {
	w     io.Writer
	total int
	each  func(total int)
}

func (w *slowWriter) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := w.w.Write(b[i : i+1]); err != nil {
			return i, err
		}
		w.total++
		w.each(w.total)
	}
	return len(b), nil
}

// Records are handed out one at a time, whatever the pieces.
func TestBridgeKeepsToRecords(t *testing.T) {
	record := func(n int) []byte {
		return append([]byte{23, 3, 3, byte(n >> 8), byte(n)}, bytes.Repeat([]byte{'x'}, n)...)
	}
	var stream []byte
	var ends []int
	for _, n := range []int{0, 1, 300, 0, 16384, 5} {
		stream = append(stream, record(n)...)
		ends = append(ends, len(stream))
	}
	rnd := mrand.New(mrand.NewPCG(5, 6))
	for range 200 {
		b := &Bridge{c: &Conn{}}
		at, end := 0, 0
		for at < len(stream) {
			if len(b.in) == 0 {
				b.in = stream[at:min(len(stream), at+1+rnd.IntN(600))]
			}
			n, err := b.Read(make([]byte, 1+rnd.IntN(800)))
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			at += n
			if at > ends[end] {
				t.Fatalf("a piece ends at %d, beyond the record's end at %d", at, ends[end])
			}
			for end < len(ends) && at == ends[end] {
				end++
			}
		}
		if b.nHead != 0 || b.left != 0 {
			t.Fatal("not at a record's end")
		}
	}
}
