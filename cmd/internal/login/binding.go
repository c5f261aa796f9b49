package login

import (
	"crypto/tls"
	"fmt"
	"slices"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// scramStart begins the proof of a password: bound to the server's certificate if both sides
// can. A server behind somebody who has taken its offer away notices that, because it is told
// that we could have.
func (h *handshake) scramStart(data []byte) error {
	names, err := wire.ParseMechanisms(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	plus := slices.Contains(names, scram.MechanismPlus)
	t, encrypted := h.conn.(*tls.Conn)
	if plus && !encrypted {
		return fmt.Errorf("%w: %s over a connection that is not encrypted", ErrProtocol, scram.MechanismPlus)
	}
	var binding *scram.Binding
	if encrypted && h.target.Binding != DisableBinding {
		binding = scram.EndPoint(t.ConnectionState().PeerCertificates[0])
	}
	mechanism := scram.Mechanism
	switch {
	case plus && binding != nil:
		mechanism, h.bound = scram.MechanismPlus, true
		h.talk = scram.NewClient(binding)
	case h.target.Binding == RequireBinding && plus:
		return tlsErrorf("channel_binding=require, and the server's certificate has a signature that nothing can be bound to")
	case h.target.Binding == RequireBinding:
		return tlsErrorf("channel_binding=require, and the server does not offer %s", scram.MechanismPlus)
	case !slices.Contains(names, scram.Mechanism):
		return fmt.Errorf("%w: the server offers %q", ErrMethod, names)
	case binding != nil:
		h.talk = scram.NewUnofferedClient()
	default:
		h.talk = scram.NewClient(nil)
	}
	if c := h.target.Credentials; c.Password == "" && c.Keys == (scram.Keys{}) {
		return fmt.Errorf("%w: SCRAM", ErrNoCredentials)
	}
	h.send(wire.AppendSASLInitial(nil, mechanism, h.talk.First()))
	return nil
}

// mustBeBound refuses a server that asks for something else, or lets us in, where a bound
// proof is required.
func (h *handshake) mustBeBound() error {
	if h.target.Binding == RequireBinding && !h.bound {
		return tlsErrorf("channel_binding=require, and the server wants no bound proof of the password")
	}
	return nil
}
