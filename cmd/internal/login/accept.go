package login

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/pgweir/pgweir/wire"
)

// Client is a client that has said who it wants to be.
type Client struct {
	Startup        wire.Startup
	User, Database string // never empty, cut to the length of a name in Postgres
	Credentials    Credentials

	// TLS is what is known of the connection's encryption; nil: it is in clear. The
	// client's certificate counts for as much as its VerifiedChains are there.
	TLS *tls.ConnectionState
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

// Accept reads what a new client sends until it is known what it wants: a session
// (c) or to cancel one (cancel). Requests for encryption, each at most once, are
// answered with 'N'. A client that asks for a newer protocol has got its
// NegotiateProtocolVersion; the welcome is not sent.
//
// The caller's deadline on conn bounds it. A *wire.Error is for the client to
// hear; with any other error the client has left or is lost. io.EOF means that it
// left without asking for a session, as port checkers do.
func Accept(conn net.Conn) (c *Client, cancel *wire.CancelRequest, err error) {
	ssl, gss := false, false
	for {
		packet, early, err := readPacket(conn)
		if err != nil {
			return nil, nil, err
		}
		switch p := packet.(type) {
		case *wire.CancelRequest:
			return nil, p, nil
		case *wire.Startup:
			c, err := open(conn, p)
			return c, nil, err
		case wire.SSLRequest:
			if ssl {
				return nil, nil, wire.UnsupportedProtocol(requestMajor, requestMinorSSL)
			}
			ssl, err = true, decline(conn, early, "SSL")
		case wire.GSSENCRequest:
			if gss {
				return nil, nil, wire.UnsupportedProtocol(requestMajor, requestMinorGSSENC)
			}
			gss, err = true, decline(conn, early, "GSSAPI encryption")
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// readPacket reads one packet; early reports bytes after it, which only a request
// for encryption can have.
func readPacket(conn net.Conn) (p wire.Packet, early bool, err error) {
	var head [peek]byte
	n, err := io.ReadAtLeast(conn, head[:], lengthWord)
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

// decline answers a request for encryption.
func decline(conn net.Conn, early bool, what string) error {
	if early {
		return &wire.Error{
			Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation,
			Message: "received unencrypted data after " + what + " request",
			Detail:  "This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.",
		}
	}
	_, err := conn.Write([]byte{'N'})
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
