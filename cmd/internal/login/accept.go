package login

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// Client is a client that has said who it wants to be.
type Client struct {
	Startup        wire.Startup
	User, Database string // never empty, cut to the length of a name in Postgres
	Credentials    Credentials

	// TLS is what is known of the connection's encryption; nil: it is in clear. The
	// client's certificate counts for as much as its VerifiedChains are there.
	TLS *tls.ConnectionState

	binding *scram.Binding // of the TLS connection; nil: nothing can be bound
}

// Arrival is what a new connection turns out to be. Of Client and Cancel one is set, or
// with an error none.
type Arrival struct {
	Conn   net.Conn // where the peer is to be answered: the *tls.Conn over the connection, if it encrypts
	Client *Client
	Cancel *wire.CancelRequest
}

// peek is the length of the requests for encryption, and one byte more: the next
// byte, if it is already there, was sent too early. Every packet that opens a
// session or cancels is at least as long, so nothing is read ahead.
const peek = 9

// requestSSL and requestGSSENC are the two requests in the form of a version, by
// which Postgres refuses a second one.
const (
	requestMajor       = 1234
	requestMinorSSL    = 5679
	requestMinorGSSENC = 5680
)

// handshakeRecord begins the first record of TLS. No packet begins so: it would be far
// too long.
const handshakeRecord = 0x16

// Accept reads what a new client sends until it is known what it wants: a session or
// to cancel one. Requests for encryption, each at most once, are answered with 'N', and
// one for TLS with 'S' and a handshake if t is not nil; it can also begin with TLS at
// once. A client that asks for a newer protocol has got its NegotiateProtocolVersion; the
// welcome is not sent.
//
// The caller's deadline on conn bounds it. A *wire.Error is for the client to
// hear, on the Arrival's Conn; a *[TLSError] it has heard as far as TLS has a word for
// it; with any other error the client has left or is lost. io.EOF means that it left without asking for a session, as
// port checkers do.
func Accept(conn net.Conn, t *TLS) (Arrival, error) {
	d := door{Arrival: Arrival{Conn: conn}, t: t, conn: conn}
	for {
		done, err := d.next()
		if done || err != nil {
			return d.Arrival, d.blame(err)
		}
	}
}

// door is a connection whose purpose is not known yet.
type door struct {
	Arrival
	t        *TLS
	conn     net.Conn // in clear
	begun    bool     // something has been read
	ssl, gss bool     // that request has come
	secured  secured
}

// blame tells what has gone wrong within TLS from a client that has left.
func (d *door) blame(err error) error {
	_, told := errors.AsType[*wire.Error](err)
	_, known := errors.AsType[*TLSError](err)
	if err == nil || d.secured.conn == nil || told || known || isLost(err) {
		return err
	}
	return &TLSError{err}
}

// next reads and answers one packet; done means that it was the last one.
func (d *door) next() (done bool, err error) {
	head, n, err := readHead(d.Conn)
	if err == nil && head[0] == handshakeRecord && !d.begun && d.t.offers(d.conn) {
		return false, d.secure(d.t.direct(d.conn, head[:n]))
	}
	d.begun = true
	packet, early, err := readPacket(d.Conn, head, n, err)
	if err != nil {
		return false, err
	}
	switch p := packet.(type) {
	case *wire.CancelRequest:
		d.Cancel = p
		return true, nil
	case *wire.Startup:
		d.Client, err = open(d.Conn, p)
		if d.Client != nil {
			d.Client.TLS, d.Client.binding = d.secured.state, d.secured.binding
		}
		return true, err
	case wire.SSLRequest:
		return false, d.sslRequest(early)
	case wire.GSSENCRequest:
		if d.gss {
			return false, wire.UnsupportedProtocol(requestMajor, requestMinorGSSENC)
		}
		d.gss = true
		return false, reply(d.conn, early, "GSSAPI encryption", 'N')
	}
	return false, nil
}

// sslRequest answers a request for TLS.
func (d *door) sslRequest(early bool) error {
	if d.ssl {
		return wire.UnsupportedProtocol(requestMajor, requestMinorSSL)
	}
	d.ssl = true
	if !d.t.offers(d.conn) {
		return reply(d.conn, early, "SSL", 'N')
	}
	if err := reply(d.conn, early, "SSL", 'S'); err != nil {
		return err
	}
	return d.secure(d.t.server(d.conn, nil))
}

// secure goes on over TLS. There a request for encryption makes no sense.
func (d *door) secure(s secured, err error) error {
	d.Conn, d.secured, d.begun, d.ssl, d.gss = s.conn, s, true, true, true
	return err
}

// readHead reads the beginning of a packet, at least its length.
func readHead(conn net.Conn) (head [peek]byte, n int, err error) {
	n, err = io.ReadAtLeast(conn, head[:], lengthWord)
	return head, n, err
}

// readPacket reads one packet, of which readHead has brought n bytes and err; early
// reports bytes after it, which only a request for encryption can have.
func readPacket(conn net.Conn, head [peek]byte, n int, err error) (p wire.Packet, early bool, _ error) {
	if err != nil && n == 0 {
		return nil, false, err
	}
	// A length that no packet has is refused at once: what it promises may never come.
	if err == nil && possible(head) {
		var more int
		more, err = io.ReadAtLeast(conn, head[n:], peek-1-n)
		n += more
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	}
	begin := bytes.NewReader(head[:n])
	var rest io.Reader = conn
	if err != nil {
		rest = broken{err}
	}
	p, err = wire.ReadStartup(io.MultiReader(begin, rest))
	return p, begin.Len() > 0, err
}

// lengthWord is the length of a packet's first word, its length in bytes with
// itself.
const lengthWord = 4

// possible reports whether a packet can have the length that its first word says.
func possible(head [peek]byte) bool {
	length := int64(binary.BigEndian.Uint32(head[:lengthWord]))
	return length >= peek-1 && length <= wire.MaxStartup+lengthWord
}

// broken is a connection that has failed, after what it gave before.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// reply answers a request for encryption. What came with the request would be taken for
// something that came encrypted.
func reply(conn net.Conn, early bool, what string, with byte) error {
	if early {
		return &wire.Error{
			Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation,
			Message: "received unencrypted data after " + what + " request",
			Detail:  "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
		}
	}
	_, err := conn.Write([]byte{with})
	return err
}

// open negotiates the protocol and reads the names.
func open(conn net.Conn, s *wire.Startup) (*Client, error) {
	if msg := s.AppendNegotiation(nil); len(msg) > 0 {
		if _, err := conn.Write(msg); err != nil {
			return nil, err
		}
	}
	user, database, e := s.Names()
	if e != nil {
		return nil, e
	}
	return &Client{Startup: *s, User: user, Database: database}, nil
}
