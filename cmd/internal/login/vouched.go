package login

import (
	"errors"
	"fmt"
	"net"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/cmd/internal/login/hba"
	"github.com/pgweir/pgweir/wire"
)

// Methods by which somebody else vouches for the client.
const (
	Cert Method = "cert" // the certificate of the client has the role's name as its common name
	Peer Method = "peer" // the kernel says which system user is at the other end of a Unix socket
)

// Voucher is what Vouched goes by.
type Voucher struct {
	Maps  *hba.Maps  // may be nil
	Map   string     // in Maps; "": the names have to be the same
	Query *hba.Query // the client, for groups in maps
	// Secrets has what helps to log in to a server; may be nil.
	Secrets Secrets
}

// Vouched is Authenticate with Cert or Peer. A client that is not let in gets FATAL 28000 in
// a *wire.Error; any other error is one of the query's MemberOf, and nothing was decided.
func Vouched(conn net.Conn, c *Client, m Method, v Voucher) error {
	name, err := "", error(nil)
	if m == Peer {
		name, err = PeerUser(conn)
	} else {
		if err := RequireCert(c); err != nil {
			return err
		}
		name = c.TLS.VerifiedChains[0][0].Subject.CommonName
	}
	ok := false
	if err == nil && name != "" {
		if ok, err = v.Maps.Allows(v.Map, name, v.Query); err != nil {
			return err
		}
	}
	if !ok {
		return notVouched(c, m)
	}
	if v.Secrets != nil {
		s, _ := v.Secrets.Lookup(c.User)
		c.Credentials = Credentials{Password: s.Plain, MD5: s.MD5}
	}
	_, err = conn.Write(wire.AppendAuthentication(nil, wire.AuthOK, nil))
	return err
}

// notVouched is Postgres's answer to whom nobody vouches for.
func notVouched(c *Client, m Method) error {
	text := `certificate authentication failed for user "%s"`
	if m == Peer {
		text = `Peer authentication failed for user "%s"`
	}
	return denied(text, c.User)
}

// denied is FATAL 28000.
func denied(format string, args ...any) *wire.Error {
	return &wire.Error{Severity: wire.SeverityFatal, Code: wire.CodeInvalidAuthorization, Message: fmt.Sprintf(format, args...)}
}

// RequireCert returns the error for a client that has shown no certificate of an authority
// that is trusted.
func RequireCert(c *Client) error {
	if c.TLS == nil || len(c.TLS.VerifiedChains) == 0 {
		return denied("connection requires a valid client certificate")
	}
	return nil
}

// RequireCertOf returns the error for a client whose certificate is not one of its role.
func RequireCertOf(c *Client) error {
	if err := RequireCert(c); err != nil {
		return err
	}
	if c.TLS.VerifiedChains[0][0].Subject.CommonName != c.User {
		return notVouched(c, Cert)
	}
	return nil
}

// PeerID returns the system user at the other end of a Unix socket.
func PeerID(conn net.Conn) (uid uint32, err error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, errors.New("not a Unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) {
		cred, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, asked); err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// PeerUser returns the name of the system user at the other end of a Unix socket.
func PeerUser(conn net.Conn) (string, error) {
	uid, err := PeerID(conn)
	if err != nil {
		return "", err
	}
	u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return "", err
	}
	return u.Username, nil
}
