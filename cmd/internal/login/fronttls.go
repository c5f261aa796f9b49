package login

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// TLSMode says which clients have to encrypt, in the words of PgBouncer's
// client_tls_sslmode.
type TLSMode string

// The modes. None of them is about clients on a Unix socket, who never encrypt.
const (
	TLSDisable    TLSMode = "disable"     // nobody can
	TLSPrefer     TLSMode = "prefer"      // who asks for it
	TLSRequire    TLSMode = "require"     // everybody
	TLSVerifyCA   TLSMode = "verify-ca"   // everybody, with a certificate that CAFile vouches for
	TLSVerifyFull TLSMode = "verify-full" // the same: a client has no host name to compare
)

// TLSOptions are what makes a [TLS].
type TLSOptions struct {
	Mode     TLSMode
	CertFile string // PEM: the certificate, then those that lead to its authority
	KeyFile  string // PEM, not encrypted
	CAFile   string // PEM: whose certificates of clients are believed; "" = clients are not asked for one

	// MinVersion is the oldest version of the protocol that is spoken: tls.VersionTLS12,
	// which 0 stands for, or tls.VersionTLS13.
	MinVersion uint16
}

// TLSCount counts what came of handshakes and certificates. It only grows.
type TLSCount struct {
	Done       atomic.Uint64 // handshakes that ended well
	Failed     atomic.Uint64 // that ended because client and server do not agree
	Lost       atomic.Uint64 // whose client left, or took too long
	Loaded     atomic.Uint64 // times that changed files were taken into use
	LoadFailed atomic.Uint64 // times that changed files could not be used
}

// TLS encrypts clients' connections. It looks at its files again when handshakes
// happen, at most once a second, and takes them into use when they have changed;
// if they are not usable the ones before stay. For any goroutine.
type TLS struct {
	o     TLSOptions
	cpu   CPU
	count *TLSCount
	log   *slog.Logger
	below func(net.Conn) net.Conn
	files watched[pair]
}

// NewTLS reads the files. Mode is not TLSDisable. The error names the file.
func NewTLS(o TLSOptions) (*TLS, error) {
	t := &TLS{o: o, count: &TLSCount{}, log: slog.New(slog.DiscardHandler)}
	t.files.changed = t.changed
	if err := t.files.open(t.load, o.CertFile, o.KeyFile, o.CAFile); err != nil {
		return nil, err
	}
	return t, nil
}

// Attach says what bounds the private key's work, who counts, where a failure to read
// changed files is logged, and what lies between a socket and its *tls.Conn; below may be
// nil: nothing. It comes before the first handshake, if at all.
func (t *TLS) Attach(cpu CPU, count *TLSCount, log *slog.Logger, below func(net.Conn) net.Conn) {
	t.cpu, t.count, t.log, t.below = cpu, count, log, below
}

// Required reports whether clients on TCP have to encrypt. A nil TLS requires nothing.
func (t *TLS) Required() bool { return t != nil && t.o.Mode != TLSPrefer }

// Verified reports whether they need a certificate.
func (t *TLS) Verified() bool {
	return t != nil && (t.o.Mode == TLSVerifyCA || t.o.Mode == TLSVerifyFull)
}

// offers reports whether TLS can be had on a connection: not on a Unix socket, as
// with Postgres.
func (t *TLS) offers(conn net.Conn) bool {
	return t != nil && conn.LocalAddr().Network() != "unix"
}

// secured is a TLS connection and what is known of it.
type secured struct {
	conn    *tls.Conn
	state   *tls.ConnectionState
	binding *scram.Binding
}

// server makes a TLS connection of conn, of which first has been read already. The
// connection is returned also with an error: nothing can be said on conn itself any more.
func (t *TLS) server(conn net.Conn, first []byte) (secured, error) {
	p := t.files.current()
	if len(first) > 0 {
		conn = &replay{conn, bytes.NewReader(first)}
	}
	if t.below != nil {
		conn = t.below(conn)
	}
	c := tls.Server(conn, p.config)
	err := c.Handshake()
	switch {
	case err == nil:
		t.count.Done.Add(1)
		state := c.ConnectionState()
		return secured{c, &state, p.binding}, nil
	case isLost(err):
		t.count.Lost.Add(1)
		return secured{conn: c}, fmt.Errorf("lost in the TLS handshake: %w", err)
	}
	t.count.Failed.Add(1)
	return secured{conn: c}, &TLSError{err}
}

// direct is server for a client that has begun with TLS. It has to say that it means
// the protocol of Postgres: what a client of another protocol can be made to say must
// not be taken for it.
func (t *TLS) direct(conn net.Conn, first []byte) (secured, error) {
	s, err := t.server(conn, first)
	if err == nil && s.state.NegotiatedProtocol != alpn {
		return s, &wire.Error{
			Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation,
			Message: "received direct SSL connection request without ALPN protocol negotiation extension",
		}
	}
	return s, err
}

// isLost reports whether the client is to be blamed for nothing but its absence.
func isLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// replay is a connection of which some bytes have been read already.
type replay struct {
	net.Conn
	first *bytes.Reader
}

// Read implements net.Conn.
func (r *replay) Read(b []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(b)
	}
	return r.Conn.Read(b)
}

// SyscallConn implements syscall.Conn: the descriptor goes to the event loop.
func (r *replay) SyscallConn() (syscall.RawConn, error) {
	if sc, ok := r.Conn.(syscall.Conn); ok {
		return sc.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
