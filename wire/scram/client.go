package scram

import (
	"crypto/subtle"
	"encoding/base64"
	"strings"
)

// Client is a client's side of one conversation: First, Challenge, Respond,
// Verify.
type Client struct {
	binding   *Binding
	unoffered bool // a binding was possible here, but the server did not offer it
	nonce     string
	firstBare string

	serverFirst string
	fullNonce   string
	expected    Key
	responded   bool
}

// NewClient begins a conversation. With a binding the mechanism in use must be
// MechanismPlus, else Mechanism.
func NewClient(binding *Binding) *Client { return newClient(binding, "", newNonce()) }

func newClient(binding *Binding, user, nonce string) *Client {
	return &Client{binding: binding, nonce: nonce, firstBare: "n=" + user + ",r=" + nonce}
}

// NewUnofferedClient begins a conversation without a binding, over a channel that could be
// bound, with a server that did not offer it. A server that did finds out by this that its
// offer was taken away on the way, and refuses.
func NewUnofferedClient() *Client {
	c := NewClient(nil)
	c.unoffered = true
	return c
}

// header is the client's GS2 header.
func (c *Client) header() string {
	if c.unoffered {
		return "y,,"
	}
	return c.binding.header()
}

// First returns the client's first message. Its user name is empty, as libpq's
// is: Postgres takes the one of the start-up packet.
func (c *Client) First() []byte { return []byte(c.header() + c.firstBare) }

// Challenge takes the server's first message and returns what keys must be
// derived with; who has the keys can ignore it. Both are within the bounds of
// this package. The error is a *SyntaxError.
func (c *Client) Challenge(msg []byte) (salt []byte, iterations int, err error) {
	text, err := checkMessage(msg)
	if err != nil {
		return nil, 0, err
	}
	if strings.HasPrefix(text, "m=") {
		return nil, 0, malformed("server requires an unsupported SCRAM extension")
	}
	a := attributes{text}
	nonce, err := a.next('r')
	if err != nil {
		return nil, 0, err
	}
	added, ours := strings.CutPrefix(nonce, c.nonce)
	if !ours {
		return nil, 0, malformed("invalid SCRAM nonce")
	}
	// The server's part must be there: without it an old answer could be replayed.
	if err := checkNonce(added); err != nil {
		return nil, 0, err
	}
	salt, iterations, err = parseFactors(&a)
	if err != nil {
		return nil, 0, err
	}
	c.serverFirst, c.fullNonce = text, nonce
	return salt, iterations, nil
}

// parseFactors reads salt and iteration count of a server's first message.
func parseFactors(a *attributes) (salt []byte, iterations int, err error) {
	salt64, err := a.next('s')
	if err != nil {
		return nil, 0, err
	}
	salt, err = decode64(salt64)
	if err != nil || len(salt) == 0 || len(salt) > MaxSalt {
		return nil, 0, malformed("invalid salt")
	}
	count, err := a.next('i')
	if err != nil {
		return nil, 0, err
	}
	if iterations, err = parseCount(count); err != nil {
		return nil, 0, malformed("invalid iteration count")
	}
	return salt, iterations, a.skip()
}

// Respond returns the client's second message, which proves the keys. It comes
// after Challenge; before that it returns nil.
func (c *Client) Respond(keys Keys) []byte {
	if c.serverFirst == "" {
		return nil
	}
	bare := "c=" + c.binding.input(c.header()) + ",r=" + c.fullNonce
	auth := authMessage(c.firstBare, c.serverFirst, bare)
	stored := keys.Stored()
	proof := xor(keys.Client, mac(stored[:], auth))
	c.expected, c.responded = mac(keys.Server[:], auth), true
	return []byte(bare + ",p=" + base64.StdEncoding.EncodeToString(proof[:]))
}

// Verify takes the server's second message. Only if it returns nil is the server
// one that knows the verifier; ErrProof means that it does not, or that it does
// not believe the client.
func (c *Client) Verify(msg []byte) error {
	text, err := checkMessage(msg)
	if err != nil {
		return err
	}
	if strings.HasPrefix(text, "e=") {
		return ErrProof
	}
	a := attributes{text}
	value, err := a.next('v')
	if err != nil {
		return err
	}
	got, err := decodeKey(value)
	if err != nil {
		return malformed("malformed server signature")
	}
	if err := a.skip(); err != nil {
		return err
	}
	if !c.responded || subtle.ConstantTimeCompare(got[:], c.expected[:]) != 1 {
		return ErrProof
	}
	return nil
}
