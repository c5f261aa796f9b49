package login

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// Method is how clients authenticate.
type Method string

// Methods, as auth_type names them.
const (
	Trust    Method = "trust"         // whoever comes is who they say
	Password Method = "password"      // the password as it is; only over TLS or a Unix socket is that safe
	MD5      Method = "md5"           // md5, or SCRAM for users whose secret is a verifier
	SCRAM    Method = "scram-sha-256" // SCRAM only; users with an md5 secret cannot log in
)

// Authenticate finds out whether the client is who it says. On success the client
// has got AuthenticationOk and c.Credentials is what helps to log in to a server
// as that user.
//
// The caller's deadline on conn bounds it. A client that is not let in gets the
// same error and the same exchange whether the user exists or not: FATAL 28P01,
// in a *wire.Error that the caller sends. cpu bounds the derivation of keys; with
// a [Book] that happens once for each name, whether it is a user's or not. s may be nil: no
// users.
func Authenticate(conn net.Conn, c *Client, m Method, s Secrets, cpu CPU) error {
	a := &authentication{conn: conn, c: c, cpu: cpu, book: strangers(s)}
	if s != nil {
		a.secret, _ = s.Lookup(c.User)
	}
	switch m {
	case Trust:
		c.Credentials = Credentials{Password: a.secret.Plain, MD5: a.secret.MD5}
		return a.succeed(nil)
	case Password:
		return a.cleartext()
	case MD5:
		if a.secret.SCRAM != nil || a.secret == (Secret{}) && a.book.scram {
			return a.scram()
		}
		return a.md5()
	case SCRAM:
		return a.scram()
	}
	return &wire.Error{
		Severity: wire.SeverityFatal, Code: wire.CodeInternalError,
		Message: fmt.Sprintf("pgweir: unknown authentication method %q", string(m)),
	}
}

// authentication is one client's.
type authentication struct {
	conn   net.Conn
	c      *Client
	cpu    CPU
	book   *Book  // for users that are not known, or whose secret does not fit
	secret Secret // zero: nobody
}

// failed is the one answer to all clients that are not let in.
func (a *authentication) failed() error {
	return &wire.Error{
		Severity: wire.SeverityFatal, Code: wire.CodeInvalidPassword,
		Message: fmt.Sprintf("password authentication failed for user \"%s\"", a.c.User),
	}
}

// succeed sends the method's last message, if it has one, with AuthenticationOk.
func (a *authentication) succeed(last []byte) error {
	_, err := a.conn.Write(wire.AppendAuthentication(last, wire.AuthOK, nil))
	return err
}

// ask sends an Authentication message and reads the client's answer.
func (a *authentication) ask(msg []byte) ([]byte, error) {
	if _, err := a.conn.Write(msg); err != nil {
		return nil, err
	}
	_, body, err := wire.ReadMessage(a.conn, wire.MaxToken, wire.MsgPassword)
	if bad, ok := errors.AsType[*wire.LengthError](err); ok {
		e := &wire.Error{Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation, Message: "invalid message length"}
		if bad.Type != wire.MsgPassword {
			e.Message = fmt.Sprintf("expected password response, got message type %d", bad.Type)
		}
		return nil, e
	}
	return body, err
}

func (a *authentication) cleartext() error {
	body, err := a.ask(wire.AppendAuthentication(nil, wire.AuthCleartext, nil))
	if err != nil {
		return err
	}
	password, err := wire.ParsePassword(body)
	if err != nil {
		return err
	}
	// An empty secret must not be met by an empty password.
	if !a.book.check(a.secret, a.c.User, password, a.cpu) || password == "" || a.secret == (Secret{}) {
		return a.failed()
	}
	a.c.Credentials = Credentials{Password: password}
	return a.succeed(nil)
}

func (a *authentication) md5() error {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails: it ends the program instead
	body, err := a.ask(wire.AppendAuthentication(nil, wire.AuthMD5, salt[:]))
	if err != nil {
		return err
	}
	answer, err := wire.ParsePassword(body)
	if err != nil {
		return err
	}
	stored := a.secret.MD5
	if stored == "" {
		stored = wire.MD5Password(a.c.User, a.secret.Plain)
	}
	if !equal(answer, wire.MD5Response(stored, salt)) || a.secret == (Secret{}) {
		return a.failed()
	}
	a.c.Credentials = Credentials{Password: a.secret.Plain, MD5: a.secret.MD5}
	return a.succeed(nil)
}

func (a *authentication) scram() error {
	body, err := a.ask(wire.AppendAuthSASL(nil, a.mechanisms()...))
	if err != nil {
		return err
	}
	mechanism, msg, err := wire.ParseSASLInitial(body)
	if err != nil {
		return err
	}
	talk, err := a.conversation(mechanism)
	if err != nil {
		return a.explain(err)
	}
	if msg, err = talk.First(msg); err != nil {
		return a.explain(err)
	}
	if msg, err = a.ask(wire.AppendAuthentication(nil, wire.AuthSASLContinue, msg)); err != nil {
		return err
	}
	if msg, err = talk.Final(msg); err != nil {
		return a.explain(err)
	}
	a.c.Credentials = Credentials{Password: a.secret.Plain, Keys: talk.Keys()}
	return a.succeed(wire.AppendAuthentication(nil, wire.AuthSASLFinal, msg))
}

// mechanisms are what is offered: SCRAM bound to the TLS connection where there is one.
func (a *authentication) mechanisms() []string {
	if a.c.binding != nil {
		return []string{scram.MechanismPlus, scram.Mechanism}
	}
	return []string{scram.Mechanism}
}

// conversation begins one with the user's verifier, or one that cannot succeed.
func (a *authentication) conversation(mechanism string) (*scram.Server, error) {
	v, derived := a.secret.SCRAM, a.book.verifier(a.c.User, a.secret.Plain, a.cpu)
	if a.secret.Plain != "" {
		v = derived
	}
	if v == nil {
		return scram.NewMock(a.c.User, a.book.mock, a.book.iterations, mechanism, a.c.binding)
	}
	return scram.NewServer(v, mechanism, a.c.binding)
}

// explain turns what went wrong in a conversation into what the client is told.
func (a *authentication) explain(err error) error {
	if errors.Is(err, scram.ErrDowngrade) {
		return &wire.Error{
			Severity: wire.SeverityFatal, Code: wire.CodeInvalidAuthorization,
			Message: "SCRAM channel binding negotiation error",
			Detail:  "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding.",
		}
	}
	if bad, ok := errors.AsType[*scram.SyntaxError](err); ok {
		return &wire.Error{
			Severity: wire.SeverityFatal, Code: wire.CodeProtocolViolation,
			Message: "malformed SCRAM message", Detail: bad.Detail,
		}
	}
	return a.failed()
}
