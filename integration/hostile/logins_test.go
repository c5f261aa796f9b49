package hostile

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// drip sends bytes one by one, and stays.
func drip(pause time.Duration) lie {
	return func(conn net.Conn, honest []byte) bool {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for i := range honest {
			<-tick.C
			if _, err := conn.Write(honest[i : i+1]); err != nil {
				return false
			}
		}
		return true
	}
}

// hangs says nothing until the other side leaves.
func hangs(conn net.Conn, _ []byte) bool {
	drain(conn)
	return false
}

// logins are the lies in the place of a login. After each the next server is honest, so who
// waits for one is served.
func logins() map[string]lie {
	ok := wire.AppendAuthentication(nil, wire.AuthOK, nil)
	sasl := wire.AppendAuthSASL(nil, "SCRAM-SHA-256")
	key := wire.AppendBackendKeyData(nil, 7, []byte("abcd"))
	welcome := func(b ...[]byte) []byte { return append(append([]byte(nil), ok...), bytes.Join(b, nil)...) }
	list := map[string]lie{
		"it hangs":                       hangs,
		"it drips":                       drip(20 * time.Millisecond),
		"it leaves at once":              leaves(),
		"it leaves after authentication": leaves(ok),
		"ready before authentication":    says(ready('I')),
		"authenticated twice":            says(ok, ok, ready('I')),
		"in a transaction":               says(welcome(key, ready('T'))),
		"in a state that is none":        says(welcome(key, ready('X'))),
		"a key of 3 bytes":               says(welcome(message('K', "abc"), ready('I'))),
		"a key of 257 bytes":             says(welcome(wire.AppendBackendKeyData(nil, 7, make([]byte, 257)), ready('I'))),
		"parameters without an end":      endless(parameter),
		"parameters after that":          precedes2(ok, endless(parameter)),
		"notices without an end":         endless(notice),
		"a method that is none":          says(wire.AppendAuthentication(nil, 99, nil)),
		"GSSAPI":                         says(wire.AppendAuthentication(nil, 7, nil)),
		"a challenge without SASL":       says(wire.AppendAuthentication(nil, wire.AuthSASLContinue, []byte("r=x,s=AAAA,i=1"))),
		"mechanisms without an end":      says(wire.AppendAuthentication(nil, wire.AuthSASL, []byte("SCRAM-SHA-256"))),
		"a nonce of 9 kB":                says(sasl, wire.AppendAuthentication(nil, wire.AuthSASLContinue, []byte("r="+strings.Repeat("n", 9000)+",s=AAAA,i=1"))),
		"a length of three":              says(claims('R', 3)),
		"a message of two gigabytes":     says(claims('R', 0x7fffffff)),
		"rows":                           says(welcome(message('D', "\x00\x00"), ready('I'))),
		"an error without fields":        says(message('E', "\x00")),
		"an error without a body":        says(message('E', "")),
		"an error of 1 MB":               says(message('E', "SFATAL\x00VFATAL\x00C57P03\x00M"+strings.Repeat("x", 1<<20)+"\x00\x00")),
		"not full, and stays":            says(wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P03", Message: "starting up"})),
		"full, after authentication":     leaves(ok, wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "53300", Message: "too many clients"})),
		"shut, after authentication":     leaves(ok, wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "go"})),
		"HTTP":                           says([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")),
		"ssh":                            says([]byte("SSH-2.0-OpenSSH_9.6\r\n")),
	}
	return list
}

// permanent are the lies that another try would meet again, so that who waits is told at once.
func permanent(name string) bool { return name == "a method that is none" || name == "GSSAPI" }

// precedes2 is two lies, one after the other.
func precedes2(first []byte, then lie) lie {
	return func(conn net.Conn, honest []byte) bool {
		if _, err := conn.Write(first); err != nil {
			return false
		}
		return then(conn, honest)
	}
}

// A login that a server does not let come to its end is given up in time, counted and
// logged; whoever waits for a server is served by the next. Trap 42.
func TestLoginsThatLie(t *testing.T) {
	t.Parallel()
	court := convene(t)
	beside := court.watch(t, "fair")
	next := mustEnter(t, court.Endpoint, "lies")
	console := mustEnter(t, court.Endpoint, "pgweir")
	court.rest(t, 3)
	court.settle(t)
	before, err := court.books()
	if err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, l lie, refused bool) {
		t.Helper()
		was, err := court.scrape()
		if err != nil {
			t.Fatal(err)
		}
		court.liar.at(l, nil)
		if err := console.query("RECONNECT lies"); err != nil {
			t.Fatal(err)
		}
		err = next.query("select 1")
		if refused && code(err) != "53300" {
			t.Errorf("who waits for a server: %v", err)
		} else if refused {
			err = next.query("select 1")
		}
		if err != nil {
			t.Errorf("who waits for a server: %v", err)
		}
		court.balanced(t, before)
		now, err := court.scrape()
		if err != nil {
			t.Fatal(err)
		}
		if n := now.Sum("pgweir_server_logins_total", "liar", "failed") - was.Sum("pgweir_server_logins_total", "liar", "failed"); n != 1 {
			t.Errorf("%v logins have failed", n)
		}
	}
	for name, l := range logins() {
		t.Run(name, func(t *testing.T) { try(t, l, permanent(name)) })
	}
	for _, cut := range []int{1, 4, 8, 9, 12, 13, 14, 40, 150, 299} {
		t.Run(fmt.Sprintf("it leaves after %d bytes", cut), func(t *testing.T) {
			try(t, func(conn net.Conn, honest []byte) bool {
				_, _ = conn.Write(honest[:min(cut, len(honest)-1)])
				return false
			}, false)
		})
	}
	court.logged(t, 0, "login to server failed", "upstream=liar", "database=lies")
	beside.look(t)
}

// The keys by which Postgres knows a request to cancel are what the server says, also if it
// says it twice: the last counts, as in libpq.
func TestKeyTwice(t *testing.T) {
	t.Parallel()
	court := convene(t)
	console := mustEnter(t, court.Endpoint, "pgweir")
	next := mustEnter(t, court.Endpoint, "lies")
	court.liar.at(func(conn net.Conn, honest []byte) bool {
		twice := append(wire.AppendBackendKeyData(nil, 1<<30, []byte("none")), honest[9:]...)
		_, err := conn.Write(append(append([]byte(nil), honest[:9]...), twice...))
		return err == nil
	}, nil)
	if err := console.query("RECONNECT lies"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- next.query("sleep 100000 /*id=x*/") }()
	eventually(t, "it runs", func() bool {
		m, err := court.scrape()
		return err == nil && m.Sum("pgweir_slots", "liar", "running") == 1
	})
	if err := cancel(court.Endpoint, next.pid, next.key); err != nil {
		t.Fatal(err)
	}
	if err := <-done; code(err) != "57014" {
		t.Errorf("cancelled: %v", err)
	}
}
