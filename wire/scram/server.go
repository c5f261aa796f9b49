package scram

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// ErrProof says that the client does not know the password, that its channel
// binding is not ours, or that there is no such user: callers cannot tell, and
// should not.
var ErrProof = errors.New("scram: authentication failed")

// ErrDowngrade says that the client could bind the channel and thinks that we could not,
// although we have offered it: someone between us has taken it out of the offer.
var ErrDowngrade = errors.New("scram: the offer of channel binding has not reached the client")

// Server is a server's side of one conversation: First, then Final.
type Server struct {
	verifier *Verifier
	doomed   bool
	binding  *Binding // in use; nil: none
	offered  bool     // a binding was possible
	nonce    string

	header          string // the client's GS2 header
	clientFirstBare string
	serverFirst     string
	keys            Keys
}

// NewServer begins a conversation with a client that is to know the password of
// v. Mechanism is the one that the client has chosen; binding is that of the
// TLS channel, nil without TLS.
func NewServer(v *Verifier, mechanism string, binding *Binding) (*Server, error) {
	return newServer(v, mechanism, binding, newNonce())
}

func newServer(v *Verifier, mechanism string, binding *Binding, nonce string) (*Server, error) {
	s := &Server{verifier: v, offered: binding != nil, nonce: nonce}
	switch {
	case mechanism == MechanismPlus && binding != nil:
		s.binding = binding
	case mechanism != Mechanism:
		return nil, malformed("client selected an invalid SASL authentication mechanism")
	}
	return s, nil
}

// NewMock begins a conversation with the client of a user who does not exist or
// has no usable secret. It goes like any other and ends with ErrProof. The
// secret is the server's own and must stay the same for as long as clients may
// compare.
func NewMock(user string, secret []byte, iterations int, mechanism string, binding *Binding) (*Server, error) {
	v := &Verifier{Iterations: iterations, Salt: MockSalt(user, secret)}
	if err := checkFactors(v.Salt, v.Iterations); err != nil {
		return nil, err
	}
	s, err := NewServer(v, mechanism, binding)
	if s != nil {
		s.doomed = true
	}
	return s, err
}

// First takes the client's first message and returns the answer. The user name
// in it is ignored, as in Postgres: it was in the start-up packet.
func (s *Server) First(msg []byte) ([]byte, error) {
	text, err := checkMessage(msg)
	if err != nil {
		return nil, err
	}
	if s.header != "" {
		return nil, malformed("out of order")
	}
	flag, rest, ok := strings.Cut(text, ",")
	if !ok {
		return nil, malformed("comma expected")
	}
	if err := s.checkFlag(flag); err != nil {
		return nil, err
	}
	authzid, bare, ok := strings.Cut(rest, ",")
	if !ok {
		return nil, malformed("comma expected")
	}
	if authzid != "" {
		return nil, malformed("client uses authorization identity, but it is not supported")
	}
	if strings.HasPrefix(bare, "m=") {
		return nil, malformed("client requires an unsupported SCRAM extension")
	}
	a := attributes{bare}
	if _, err := a.next('n'); err != nil {
		return nil, err
	}
	nonce, err := a.next('r')
	if err != nil {
		return nil, err
	}
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	if err := a.skip(); err != nil {
		return nil, err
	}
	s.header, s.clientFirstBare, s.nonce = flag+",,", bare, nonce+s.nonce
	s.serverFirst = "r=" + s.nonce + ",s=" + base64.StdEncoding.EncodeToString(s.verifier.Salt) +
		",i=" + strconv.Itoa(s.verifier.Iterations)
	return []byte(s.serverFirst), nil
}

// checkFlag compares the client's wish for a channel binding with what was
// agreed.
func (s *Server) checkFlag(flag string) error {
	switch {
	case s.binding != nil && flag == "p="+s.binding.Type:
		return nil
	case s.binding != nil:
		return malformed("the selected mechanism needs channel binding")
	case flag == "y" && s.offered:
		return ErrDowngrade
	case flag == "n" || flag == "y":
		return nil
	case strings.HasPrefix(flag, "p="):
		return malformed("client requires channel binding, but it is not supported")
	}
	return malformed("unexpected channel-binding flag")
}

// Final takes the client's second message and returns the answer. The error is
// ErrProof if the client must not be let in, a *SyntaxError if its message
// makes no sense.
func (s *Server) Final(msg []byte) ([]byte, error) {
	text, err := checkMessage(msg)
	if err != nil {
		return nil, err
	}
	if s.serverFirst == "" {
		return nil, malformed("out of order")
	}
	bare, proof, err := s.parseFinal(text)
	if err != nil {
		return nil, err
	}
	auth := authMessage(s.clientFirstBare, s.serverFirst, bare)
	s.serverFirst = "" // a conversation has one proof
	v := s.verifier
	client := xor(proof, mac(v.StoredKey[:], auth))
	stored := Key(sha256.Sum256(client[:]))
	signature := mac(v.ServerKey[:], auth)
	if subtle.ConstantTimeCompare(stored[:], v.StoredKey[:]) != 1 || s.doomed {
		return nil, ErrProof
	}
	s.keys = Keys{Client: client, Server: v.ServerKey}
	return []byte("v=" + base64.StdEncoding.EncodeToString(signature[:])), nil
}

// parseFinal checks everything but the proof.
func (s *Server) parseFinal(text string) (bare string, proof Key, err error) {
	a := attributes{text}
	binding, err := a.next('c')
	if err != nil {
		return "", proof, err
	}
	if !hmac.Equal([]byte(binding), []byte(s.binding.input(s.header))) {
		if s.binding != nil {
			return "", proof, ErrProof
		}
		return "", proof, malformed("unexpected SCRAM channel-binding attribute in client-final-message")
	}
	nonce, err := a.next('r')
	if err != nil {
		return "", proof, err
	}
	if !hmac.Equal([]byte(nonce), []byte(s.nonce)) {
		return "", proof, malformed("invalid SCRAM nonce")
	}
	for {
		at := len(text) - len(a.rest)
		name, value, err := a.any()
		if err != nil {
			return "", proof, err
		}
		if name != 'p' {
			continue
		}
		if proof, err = decodeKey(value); err != nil || a.rest != "" || strings.HasSuffix(text, ",") {
			return "", proof, malformed("malformed proof in client-final-message")
		}
		return text[:at-1], proof, nil
	}
}

// Keys returns the keys of the client that Final has let in: with them one can
// log in as that user wherever the same verifier is stored. Before that they
// are zero.
func (s *Server) Keys() Keys { return s.keys }
