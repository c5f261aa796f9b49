package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// password is the superuser's, where clients have to prove one. The salt is fixed, so that
// clients derive its keys once: what a login costs them is nobody's business here.
const (
	password = "not much of a secret"
	salt     = "sixteen bytes of"
)

// encrypt asks for TLS and shakes hands. Whose certificate it is does not matter on loopback.
func (c *client) encrypt() error {
	if err := c.conn.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(wire.AppendSSLRequest(nil)); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(c.conn, answer[:]); err != nil {
		return err
	}
	if answer[0] != 'S' {
		return errors.New("TLS is refused")
	}
	t := tls.Client(c.conn, &tls.Config{
		InsecureSkipVerify: true,
		CurvePreferences:   []tls.CurveID{tls.X25519}, // as libpq with OpenSSL before 3.5
	})
	if err := t.Handshake(); err != nil {
		return err
	}
	c.conn = t
	return nil
}

// prove logs in by SCRAM, unbound: not every contender can bind.
func (c *client) prove(start *pgproto3.StartupMessage) error {
	if err := c.send(start); err != nil {
		return err
	}
	talk := scram.NewClient(nil)
	answers := map[uint32]func([]byte) ([]byte, error){
		wire.AuthSASL: func([]byte) ([]byte, error) { return wire.AppendSASLInitial(nil, scram.Mechanism, talk.First()), nil },
		wire.AuthSASLContinue: func(data []byte) ([]byte, error) {
			_, _, err := talk.Challenge(data)
			return wire.AppendMessage(nil, wire.MsgPassword, talk.Respond(*c.keys)), err
		},
	}
	for {
		_, body, err := wire.ReadMessage(c.conn, 1<<16, wire.MsgAuthentication)
		if err != nil {
			return fmt.Errorf("authentication: %w", err)
		}
		kind, data, err := wire.ParseAuthentication(body)
		if err != nil {
			return err
		}
		if kind == wire.AuthOK {
			break
		}
		if answer, known := answers[kind]; known {
			say, err := answer(data)
			if err == nil {
				_, err = c.conn.Write(say)
			}
			if err != nil {
				return err
			}
		}
	}
	_, err := c.drain(make([]byte, 4096), nil)
	return err
}
