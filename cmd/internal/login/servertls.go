package login

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/pgweir/pgweir/wire"
)

// alpn is the name of Postgres's protocol among those that can run over TLS.
const alpn = "postgresql"

// Encrypt makes a new connection one that the way asks for: it asks the server for TLS and
// shakes hands, verifies its certificate and shows our own. host is the server's name or
// address as the configuration has it. The result is a *tls.Conn, or conn itself where all
// goes in clear. below makes what lies below the *tls.Conn of conn; nil: conn itself.
//
// An error is a *[TLSError], [ErrUnvouched], or one of the network; conn is then left to the caller to close.
// All is bounded by ctx, and the work with our own key by cpu.
func (e *Encryption) Encrypt(ctx context.Context, conn net.Conn, w Way, host string, cpu CPU, below func(net.Conn) net.Conn) (net.Conn, error) {
	if w == Clear {
		if e.Binding == RequireBinding {
			return nil, tlsErrorf("channel_binding=require, and the connection is not encrypted")
		}
		return conn, nil
	}
	config, err := e.config(host, cpu)
	if err != nil {
		return nil, &TLSError{err}
	}
	release := bound(ctx, conn)
	defer release()
	if !e.Direct {
		yes, err := askForTLS(conn)
		switch {
		case err != nil:
			return nil, blame(ctx, err)
		case !yes && w == FirstTLS:
			return e.Encrypt(ctx, conn, Clear, host, cpu, below)
		case !yes:
			return nil, tlsErrorf("the server does not do TLS, and sslmode=%s asks for it", e.Mode)
		}
	}
	transport := conn
	if below != nil {
		transport = below(conn)
	}
	t := tls.Client(transport, config)
	if err := t.Handshake(); err != nil {
		return nil, blame(ctx, handshakeError(err))
	}
	if e.Direct && t.ConnectionState().NegotiatedProtocol != alpn {
		return nil, tlsErrorf("sslnegotiation=direct, and the server has not agreed to talk %q", alpn)
	}
	return t, nil
}

// handshakeError marks what is wrong with the server's certificate, or with TLS.
func handshakeError(err error) error {
	if errors.Is(err, io.EOF) {
		// What a server does that is about to end, and one that knows no direct TLS.
		return fmt.Errorf("server closed the connection during the TLS handshake: %w", io.ErrUnexpectedEOF)
	}
	if _, network := errors.AsType[net.Error](err); network {
		return TLSTrouble(err)
	}
	if _, known := errors.AsType[*TLSError](err); known {
		return err
	}
	return &TLSError{err}
}

// ErrUnvouched: a server without room, or somebody else, has sent an error before TLS was
// there. Its text is not read.
var ErrUnvouched = errors.New("the server answered with an error when it was asked for TLS")

// askForTLS sends an SSLRequest and reads the one byte that answers it. There is nothing to
// come before our side of the handshake: what is there has been put in by somebody else
// (CVE-2021-23222), and an error that nobody has vouched for is not read (CVE-2024-10977).
func askForTLS(conn net.Conn) (yes bool, err error) {
	if _, err := conn.Write(wire.AppendSSLRequest(nil)); err != nil {
		return false, err
	}
	var answer [2]byte
	n, err := conn.Read(answer[:])
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return false, fmt.Errorf("server closed the connection when it was asked for TLS: %w", io.ErrUnexpectedEOF)
	case n == 0:
		return false, err
	case answer[0] == wire.MsgErrorResponse:
		return false, ErrUnvouched
	case answer[0] != 'S' && answer[0] != 'N':
		return false, &TLSError{fmt.Errorf("%w: the answer to a request for TLS begins with byte %d", ErrProtocol, answer[0])}
	case n > 1:
		return false, &TLSError{fmt.Errorf("%w: unencrypted bytes behind the answer to a request for TLS", ErrProtocol)}
	}
	return answer[0] == 'S', nil
}

// TLSInfo describes a connection in two words, as in TLSv1.3/TLS_AES_128_GCM_SHA256; "" for
// one in clear.
func TLSInfo(conn net.Conn) string {
	t, ok := conn.(*tls.Conn)
	if !ok {
		return ""
	}
	s := t.ConnectionState()
	return versionName(s.Version) + "/" + tls.CipherSuiteName(s.CipherSuite)
}

// versionName is a version of TLS as OpenSSL writes it.
func versionName(v uint16) string {
	switch v {
	case tls.VersionTLS10:
		return "TLSv1"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return fmt.Sprintf("0x%04x", v)
}
