package login

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// Bounds of what a server may send during a log-in.
const (
	maxMessage  = 64 * 1024 // bytes of one body
	maxMessages = 1000
	maxLogin    = 1024 * 1024 // bytes in all
)

// handshake is one log-in to a server.
type handshake struct {
	conn   net.Conn
	target Target
	server *Server

	asked         bool          // the server has chosen its method
	talk          *scram.Client // nil: not SCRAM
	continued     bool          // SCRAM: the proof is sent
	verified      bool          // SCRAM: the server has proved itself
	bound         bool          // SCRAM: to the server's certificate
	authenticated bool
	lost          error // of the last write
}

// run sends the start-up packet and answers until ReadyForQuery.
func (h *handshake) run() error {
	if err := h.start(); err != nil {
		return err
	}
	bytes := 0
	for n := range maxMessages {
		typ, body, err := wire.ReadMessage(h.conn, maxMessage)
		if bad, ok := errors.AsType[*wire.LengthError](err); ok {
			if n == 0 && bad.Type == wire.MsgErrorResponse {
				return h.oldError(bad.Length)
			}
			return fmt.Errorf("%w: %w", ErrProtocol, bad)
		}
		if err != nil {
			return errors.Join(err, h.lost)
		}
		if bytes += len(body); bytes > maxLogin {
			break
		}
		if done, err := h.message(typ, body); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no end of messages during a log-in", ErrProtocol)
}

// start sends the start-up packet.
func (h *handshake) start() error {
	params := []wire.Param{{Name: "user", Value: h.target.User}, {Name: "database", Value: h.target.Database}}
	for _, p := range h.target.Params {
		// Of equal names the last counts: a client's parameters must not name another role.
		if p.Name == "user" || p.Name == "database" || strings.HasPrefix(p.Name, "_pq_.") {
			return fmt.Errorf("start-up parameter %q cannot be set", p.Name)
		}
		params = append(params, p)
	}
	msg, err := wire.AppendStartup(nil, 0, params)
	if err != nil {
		return err
	}
	h.send(msg)
	return nil
}

// message takes one message of the server; done means that it is ready.
func (h *handshake) message(typ byte, body []byte) (done bool, err error) {
	switch {
	case typ == wire.MsgErrorResponse:
		return false, refusal(body)
	case typ == wire.MsgNoticeResponse:
		return false, nil
	case typ == wire.MsgAuthentication && !h.authenticated:
		return false, h.authenticate(body)
	case !h.authenticated:
		return false, fmt.Errorf("%w: message of type %q before authentication", ErrProtocol, typ)
	case typ == wire.MsgParameterStatus:
		p, err := wire.ParseParameterStatus(body)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		h.server.status(p)
		return false, nil
	case typ == wire.MsgBackendKeyData:
		if h.server.PID, h.server.Secret, err = wire.ParseBackendKeyData(body); err != nil {
			return false, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return false, nil
	case typ == wire.MsgReadyForQuery:
		if state, err := wire.ParseReadyForQuery(body); err != nil || state != wire.Idle {
			return false, fmt.Errorf("%w: not idle after the log-in", ErrProtocol)
		}
		return true, nil
	}
	return false, fmt.Errorf("%w: message of type %q during a log-in", ErrProtocol, typ)
}

// refusal reads an ErrorResponse.
func refusal(body []byte) error {
	routine, _ := wire.ErrorField(body, 'R')
	return &Refusal{wire.ErrorFields(body), routine}
}

// status keeps the last value of each parameter.
func (s *Server) status(p wire.Param) {
	if p.Name == "server_version" {
		s.Version = p.Value
	}
	for i := range s.Status {
		if s.Status[i].Name == p.Name {
			s.Status[i].Value = p.Value
			return
		}
	}
	s.Status = append(s.Status, p)
}

// authenticate takes one Authentication message. A server chooses its method
// once: one that asks for the password after SCRAM has begun is not what it says.
func (h *handshake) authenticate(body []byte) error {
	kind, data, err := wire.ParseAuthentication(body)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	switch kind {
	case wire.AuthOK:
		if h.talk != nil && !h.verified {
			return fmt.Errorf("%w: let in before the end of SCRAM", ErrImposter)
		}
		if err := h.mustBeBound(); err != nil {
			return err
		}
		h.authenticated = true
		return nil
	case wire.AuthSASLContinue:
		return h.scramContinue(data)
	case wire.AuthSASLFinal:
		return h.scramFinal(data)
	}
	if h.asked {
		return fmt.Errorf("%w: a second authentication request", ErrProtocol)
	}
	h.asked = true
	if kind != wire.AuthSASL {
		if err := h.mustBeBound(); err != nil {
			return err // before it has a password
		}
	}
	switch kind {
	case wire.AuthCleartext:
		return h.cleartext()
	case wire.AuthMD5:
		return h.md5(data)
	case wire.AuthSASL:
		return h.scramStart(data)
	}
	return fmt.Errorf("%w: the server asks for kind %d", ErrMethod, kind)
}

// send writes a message. That the server has gone is for the next read to say: it
// may have left the reason behind.
func (h *handshake) send(msg []byte) { _, h.lost = h.conn.Write(msg) }

func (h *handshake) cleartext() error {
	password := h.target.Credentials.Password
	if password == "" {
		return fmt.Errorf("%w: password", ErrNoCredentials)
	}
	h.send(wire.AppendPassword(nil, password))
	return nil
}

func (h *handshake) md5(data []byte) error {
	if len(data) != 4 {
		return fmt.Errorf("%w: salt of %d bytes", ErrProtocol, len(data))
	}
	c := h.target.Credentials
	if c.Password != "" {
		c.MD5 = wire.MD5Password(h.target.User, c.Password)
	}
	if c.MD5 == "" {
		return fmt.Errorf("%w: md5", ErrNoCredentials)
	}
	h.send(wire.AppendPassword(nil, wire.MD5Response(c.MD5, [4]byte(data))))
	return nil
}

func (h *handshake) scramContinue(data []byte) error {
	if h.talk == nil || h.continued {
		return fmt.Errorf("%w: SASL out of order", ErrProtocol)
	}
	h.continued = true
	salt, iterations, err := h.talk.Challenge(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	keys := h.target.Credentials.Keys
	if password := h.target.Credentials.Password; password != "" {
		h.target.CPU.do(func() { keys, err = scram.Derive(password, salt, iterations) })
		if err != nil {
			return err
		}
	}
	h.send(wire.AppendMessage(nil, wire.MsgPassword, h.talk.Respond(keys)))
	return nil
}

func (h *handshake) scramFinal(data []byte) error {
	if !h.continued || h.verified {
		return fmt.Errorf("%w: SASL out of order", ErrProtocol)
	}
	if err := h.talk.Verify(data); err != nil {
		return fmt.Errorf("%w: %w", ErrImposter, err)
	}
	h.verified = true
	return nil
}

// oldError reads an error in the form of protocol 2, a text up to a zero byte: a
// postmaster that cannot start a process still writes that. What was taken for a
// length is the beginning of the text.
func (h *handshake) oldError(length uint32) error {
	text := binary.BigEndian.AppendUint32(nil, length)
	rest, err := io.ReadAll(io.LimitReader(h.conn, 1000))
	text = append(text, rest...)
	for i, c := range text {
		if i > 0 && (c == 0 || c == '\n') {
			return &Refusal{Told: &wire.Error{Severity: wire.SeverityFatal, Code: wire.CodeCannotConnectNow, Message: string(text[:i])}}
		}
		if c < ' ' {
			break
		}
	}
	return errors.Join(fmt.Errorf("%w: an error of %d bytes", ErrProtocol, length), err)
}
