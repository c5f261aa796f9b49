package login

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/integration/certs"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// bindingServer plays a server's side of a login over TLS: it offers the mechanisms, and says
// what came of it.
func bindingServer(conn net.Conn, cert *tls.Certificate, offers []string) error {
	defer func() { _ = conn.Close() }()
	p, err := wire.ReadStartup(conn)
	if err != nil {
		return err
	}
	if _, ok := p.(wire.SSLRequest); ok {
		if _, err := conn.Write([]byte{'S'}); err != nil {
			return err
		}
		conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*cert}})
		if _, err := wire.ReadStartup(conn); err != nil {
			return err
		}
	}
	if len(offers) == 0 { // as "trust" does
		_, err := conn.Write(wire.AppendReadyForQuery(wire.AppendAuthentication(nil, wire.AuthOK, nil), wire.Idle))
		return err
	}
	if offers[0] == "password" {
		if _, err := conn.Write(wire.AppendAuthentication(nil, wire.AuthCleartext, nil)); err != nil {
			return err
		}
		if _, body, err := wire.ReadMessage(conn, 1000); err == nil {
			return errors.New("was given " + string(body))
		}
		return nil
	}
	if _, err := conn.Write(wire.AppendAuthSASL(nil, offers...)); err != nil {
		return err
	}
	_, body, err := wire.ReadMessage(conn, 10000)
	if err != nil {
		return err
	}
	mechanism, msg, err := wire.ParseSASLInitial(body)
	if err != nil {
		return err
	}
	var binding *scram.Binding
	if cert != nil {
		binding = scram.EndPoint(cert.Leaf) // it could, whatever was offered in its name
	}
	v, err := scram.NewVerifier("right", nil, 10)
	if err != nil {
		return err
	}
	talk, err := scram.NewServer(v, mechanism, binding)
	if err != nil {
		return err
	}
	if msg, err = talk.First(msg); err != nil {
		return err
	}
	if _, err := conn.Write(wire.AppendAuthentication(nil, wire.AuthSASLContinue, msg)); err != nil {
		return err
	}
	if _, body, err = wire.ReadMessage(conn, 10000); err != nil {
		return err
	}
	if msg, err = talk.Final(body); err != nil {
		return err
	}
	out := wire.AppendAuthentication(wire.AppendAuthentication(nil, wire.AuthSASLFinal, msg), wire.AuthOK, nil)
	_, err = conn.Write(wire.AppendReadyForQuery(out, wire.Idle))
	return err
}

// Who binds its proof when, and what a server that takes less than was asked for meets.
func TestBoundProofs(t *testing.T) {
	a := authority(t, "ca")
	load := func(name string, kind certs.Kind) *tls.Certificate {
		p := issue(t, a, name, certs.Options{Kind: kind})
		c, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		c.Leaf = p.Leaf
		return &c
	}
	right := load("right", certs.ECDSA)
	both, plain := []string{scram.MechanismPlus, scram.Mechanism}, []string{scram.Mechanism}
	for name, tc := range map[string]struct {
		cert    *tls.Certificate // nil = in clear
		offers  []string
		binding ChannelBinding
		want    string // in our error; "" = logged in
		server  string // in the server's
	}{
		"bound":                        {right, both, PreferBinding, "", ""},
		"bound as required":            {right, both, RequireBinding, "", ""},
		"bound only":                   {right, []string{scram.MechanismPlus}, PreferBinding, "", ""},
		"disabled":                     {right, both, DisableBinding, "", ""},
		"offer taken away":             {right, plain, PreferBinding, "closed", "has not reached the client"},
		"offer taken away, required":   {right, plain, RequireBinding, "does not offer SCRAM-SHA-256-PLUS", ""},
		"in clear":                     {nil, plain, PreferBinding, "", ""},
		"in clear, offered":            {nil, both, PreferBinding, "not encrypted", ""},
		"let in for nothing":           {right, nil, PreferBinding, "", ""},
		"let in for nothing, required": {right, nil, RequireBinding, "wants no bound proof", ""},
		"password asked for":           {right, []string{"password"}, RequireBinding, "wants no bound proof", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peers := tcp(t)
			served := background(func() error { return bindingServer(peers, tc.cert, tc.offers) })
			e := Encryption{Binding: tc.binding}
			w := Clear
			if tc.cert != nil {
				e.Mode, e.RootCert, w = VerifyFull, a.File, OnlyTLS
			}
			conn, err := e.Encrypt(deadline(t), ours, w, "localhost", nil, nil)
			if err == nil {
				_, err = Login(deadline(t), conn, Target{User: "u", Database: "d", Credentials: Credentials{Password: "right"}, Binding: tc.binding})
			}
			_ = ours.Close()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			told := served()
			if tc.server != "" && (told == nil || !strings.Contains(told.Error(), tc.server)) || told != nil && strings.Contains(told.Error(), "was given") {
				t.Errorf("the server: %v, want %q", told, tc.server)
			}
		})
	}
	if _, err := (&Encryption{Binding: RequireBinding}).Encrypt(context.Background(), nil, Clear, "", nil, nil); err == nil {
		t.Error("channel_binding=require in clear")
	}
}
