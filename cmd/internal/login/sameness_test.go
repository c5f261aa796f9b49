package login

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// exchange logs in with a wrong password and returns every byte that pgweir has sent, with
// what is random or the name's own taken out.
func exchange(t *testing.T, s Secrets, m Method, user string) string {
	t.Helper()
	ours, peer := pipe(t)
	var got strings.Builder
	wait := background(func() error {
		client := scram.NewClient(nil)
		for {
			typ, body, err := wire.ReadMessage(peer, 4096, wire.MsgAuthentication)
			if err != nil {
				if errors.Is(err, io.EOF) {
					return nil
				}
				return err
			}
			kind, rest, err := wire.ParseAuthentication(body)
			if err != nil {
				return err
			}
			fmt.Fprintf(&got, "%c %d %d: ", typ, kind, len(body))
			var answer []byte
			switch kind {
			case wire.AuthCleartext:
				answer = wire.AppendPassword(nil, "wrong")
			case wire.AuthMD5:
				answer = wire.AppendPassword(nil, wire.MD5Response("wrong", [4]byte(rest)))
			case wire.AuthSASL:
				fmt.Fprintf(&got, "%q", rest)
				answer = wire.AppendSASLInitial(nil, scram.Mechanism, client.First())
			case wire.AuthSASLContinue:
				challenge := regexp.MustCompile(`^r=[^,]+,s=([^,]+),(i=\d+)$`).FindStringSubmatch(string(rest))
				salt, err := base64.StdEncoding.DecodeString(challenge[1])
				fmt.Fprintf(&got, "%d bytes of salt, %s, %v", len(salt), challenge[2], err)
				if _, _, err := client.Challenge(rest); err != nil {
					return err
				}
				answer = wire.AppendMessage(nil, wire.MsgPassword, client.Respond(scram.Keys{}))
			}
			got.WriteString("\n")
			if _, err := peer.Write(answer); err != nil {
				return err
			}
		}
	})
	err := Authenticate(ours, &Client{User: user}, m, s, nil)
	_ = ours.Close()
	if err := wait(); err != nil {
		t.Error(err)
	}
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		t.Fatalf("%s: %v", user, err)
	}
	return got.String() + strings.ReplaceAll(fmt.Sprintf("%q", wire.AppendError(nil, e)[5:]), user, "USER")
}

// TestNoRoleIsGivenAway compares everything that is sent to who tries a role with a wrong
// password: whether the role has a verifier, a password, none, is expired or does not exist,
// it is the same but for random bytes, and costs the same number of key derivations, at the
// first login and at later ones.
func TestNoRoleIsGivenAway(t *testing.T) {
	entries := map[string]Secret{"verifier": {SCRAM: verifier(t, "right")}, "plain": {Plain: "right"}, "noword": {}}
	for _, m := range []Method{SCRAM, Password} {
		for _, asked := range []bool{false, true} {
			book := NewBook(entries)
			if asked {
				book = NewBook(nil).Open()
			}
			first := ""
			for _, user := range []string{"verifier", "plain", "noword", "expired", "ghost"} {
				var s Secrets = book
				if asked { // of an expired role nothing is left, as of one that does not exist
					s = Guest{book, user, entries[user]}
				}
				for round := range 2 {
					before := book.runs.Load()
					got := exchange(t, s, m, user)
					runs := book.runs.Load() - before
					if want := uint64(1); round == 0 || m == Password {
						if runs != want {
							t.Errorf("%s, %s: %d derivations at login %d", m, user, runs, round)
						}
					} else if runs != 0 {
						t.Errorf("%s, %s: %d derivations at a later login", m, user, runs)
					}
					if first == "" {
						first = got
					}
					if got != first {
						t.Errorf("%s, asked of Postgres %v: %s is told\n%s\nand verifier\n%s", m, asked, user, got, first)
					}
				}
			}
		}
	}
}

// The book remembers for whom it has derived keys, and no more than it may.
func TestDerivedKeysAreBounded(t *testing.T) {
	book := NewBook(map[string]Secret{"plain": {Plain: "x"}})
	book.iterations = 1
	for i := range maxDerived + 500 {
		book.verifier(fmt.Sprint("ghost", i), "", nil)
	}
	if n := len(book.derived); n > maxDerived+1 {
		t.Errorf("%d are kept", n)
	}
}
