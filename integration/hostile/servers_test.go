package hostile

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// court is a pgweir with two upstreams: one that lies, of database "lies", and an honest one,
// of any other.
type court struct {
	*stand
	liar *fake
}

func convene(t *testing.T, top ...string) *court {
	t.Helper()
	c := &court{liar: startFake(t)}
	honest := startFake(t)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.stand = start(t, strings.Join(top, "")+fmt.Sprintf(`
[log]
level = "debug"
[auth]
auth_type = "trust"
[console]
admin_users = ["app"]
[upstream.liar]
url = %q
budget = 3
reserve = 1
connect_rate = 1000
server_connect_timeout = "500ms"
[upstream.honest]
url = %q
budget = 3
reserve = 1
[database.lies]
upstream = "liar"
user = "app"
password_file = %q
[database."*"]
upstream = "honest"
[[workload]]
name = "default"
max_wait = %q
no_server_wait = "10s"
`, c.liar.url(), honest.url(), password, "10s"))
	for _, database := range []string{"lies", "fair"} { // so that all that is started once is there
		first := mustEnter(t, c.Endpoint, database)
		if err := first.query("select 1"); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
	}
	c.rest(t, 0)
	c.settle(t)
	return c
}

// request is a case: what the server does when it is asked, and what becomes of the client.
type request struct {
	name string
	lie  lie
	ask  []byte // nil: one Query
	told string // the SQLSTATE that the client is told; "": no error
	// ended is the reason for which its session has ended; "": it goes on
	ended string
	// keeps: the server is not given up
	keeps bool
}

func queryLie() []byte { return wire.AppendQuery(nil, "nonce lie") }

func parseLie() []byte {
	b := wiretest.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(nil, "", "nonce lie"), wiretest.Bind{}), "", 0)
	return wire.AppendEmpty(b, wire.MsgSync)
}

// message is a message with any body.
func message(typ byte, body string) []byte { return wire.AppendMessage(nil, typ, []byte(body)) }

// claims is the header of a message that says how long it is.
func claims(typ byte, length uint32) []byte {
	return []byte{typ, byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length)}
}

func ready(state byte) []byte { return wire.AppendReadyForQuery(nil, state) }

func notice(i int) []byte {
	return wire.AppendNotice(nil, &wire.Error{Severity: "NOTICE", Code: "00000", Message: fmt.Sprint("notice ", i)})
}

func parameter(i int) []byte { return wire.AppendParameterStatus(nil, fmt.Sprint("lie", i), "x") }

const desync = "server_desync"

// requests are the lies in the place of answers.
func requests() []request {
	fatal := wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "go"})
	failure := wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "P0001", Message: "no"})
	bare := func(fields string) []byte { return append(message('E', fields), ready('I')...) }
	list := []request{
		{name: "a message of an unknown type", lie: says(message('~', "abc")), told: "57P01", ended: desync},
		{name: "a frontend's message", lie: says(message('Q', "select 1\x00")), told: "57P01", ended: desync},
		{name: "an Authentication message", lie: says(wire.AppendAuthentication(nil, wire.AuthOK, nil)), told: "57P01", ended: desync},
		{name: "a request for a password", lie: says(wire.AppendAuthentication(nil, wire.AuthCleartext, nil)), told: "57P01", ended: desync},
		{name: "BackendKeyData again", lie: says(wire.AppendBackendKeyData(nil, 1, []byte("abcd"))), told: "57P01", ended: desync},
		{name: "a negotiation of the version", lie: says(message('v', "\x00\x03\x00\x00\x00\x00\x00\x00")), told: "57P01", ended: desync},
		{name: "ReadyForQuery in a state that is none", lie: says(message('C', "SELECT 1\x00"), ready('X')), told: "57P01", ended: desync},
		{name: "ReadyForQuery without a state", lie: says(message('C', "SELECT 1\x00"), message('Z', "")), told: "57P01", ended: desync},
		{name: "ReadyForQuery with two states", lie: says(message('C', "SELECT 1\x00"), message('Z', "II")), told: "57P01", ended: desync},
		{name: "ReadyForQuery twice", lie: adds(ready('I'))},
		{name: "a row behind ReadyForQuery", lie: adds(message('D', "\x00\x00"))},
		{name: "an answer nobody asked for", lie: adds(message('C', "SELECT 1\x00"), ready('I'))},
		{name: "the end of a Parse that was none", lie: says(message('1', "")), told: "57P01", ended: desync},
		{name: "the end of a Close that was none", lie: says(message('3', "")), told: "57P01", ended: desync},
		{name: "the answer to a function call", lie: says(message('V', "\xff\xff\xff\xff")), told: "57P01", ended: desync},
		{name: "PortalSuspended for a Query", lie: says(message('s', "")), told: "57P01", ended: desync},
		{name: "COPY both ways", lie: says(message('W', "\x00\x00\x00")), told: "57P01", ended: desync},
		{name: "BindComplete before ParseComplete", lie: says(message('2', ""), message('1', "")), ask: parseLie(), told: "57P01", ended: desync},
		{name: "ReadyForQuery before the end of a batch", lie: says(message('1', ""), ready('I')), ask: parseLie(), told: "57P01", ended: desync},
		{name: "CommandComplete for a Parse", lie: says(message('C', "SELECT 1\x00")), ask: parseLie(), told: "57P01", ended: desync},
		{name: "a length of three", lie: says(claims('D', 3)), told: "57P01", ended: desync},
		{name: "a negative length", lie: says(claims('D', 0xffffffff)), told: "57P01", ended: desync},
		{name: "a length of two gigabytes", lie: says(claims('D', 0x7fffffff)), told: "57P01", ended: desync},
		{name: "a ReadyForQuery of a gigabyte", lie: says(claims('Z', 1<<30-1)), told: "57P01", ended: desync},
		{name: "a ParameterStatus of a gigabyte", lie: says(claims('S', 1<<30-1)), told: "57P01", ended: desync},
		{name: "a row of a gigabyte, which does not come", lie: leaves(claims('D', 1<<30-1), make([]byte, 1<<16)), ended: "server_lost"},
		{name: "a ParameterStatus without an end", lie: says(message('S', "name")), told: "57P01", ended: desync},
		{name: "a ParameterStatus without a value", lie: says(message('S', "name\x00")), told: "57P01", ended: desync},
		{name: "parameters without an end", lie: endless(parameter), told: "57P01", ended: desync},
		{name: "an error without fields", lie: tells(bare("\x00")), told: "XX000", keeps: true},
		{name: "an error without a body", lie: tells(bare("")), told: "XX000", keeps: true},
		{name: "an error whose fields do not end", lie: tells(bare("SERROR\x00VERROR\x00C42601\x00Mno end")), told: "42601", keeps: true},
		{name: "an error of 100 kB", lie: tells(bare("SERROR\x00VERROR\x00CP0001\x00M" + strings.Repeat("x", 100<<10) + "\x00\x00")), told: "P0001", keeps: true},
		{name: "a severity that is none", lie: tells(bare("SDOOM\x00VDOOM\x00CP0001\x00Mdoom\x00\x00")), told: "P0001", keeps: true},
		{name: "an error before the answer", lie: precedes(failure), told: "P0001", keeps: true},
		{name: "FATAL, and it goes on", lie: precedes(fatal), told: "57P01", ended: "server_lost"},
		{name: "FATAL twice", lie: leaves(fatal, fatal), told: "57P01", ended: "server_lost"},
		{name: "FATAL behind the answer", lie: adds(fatal)},
		{name: "an error behind the answer", lie: adds(failure)},
		{name: "a notification nobody can read", lie: precedes(message('A', "")), keeps: true},
		{name: "a notice without fields", lie: precedes(message('N', "")), keeps: true},
		{name: "a row that is none", lie: tells(message('D', "\xff\xff"), message('C', "\x00"), ready('I')), keeps: true},
		{name: "CommandComplete without a tag", lie: says(message('C', ""), ready('I')), told: "57P01", ended: desync},
		{name: "not Postgres at all", lie: says([]byte("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n")), told: "57P01", ended: desync},
		{name: "zeros", lie: says(make([]byte, 1<<16)), told: "57P01", ended: desync},
		{name: "silence and the end", lie: leaves(), told: "57P01", ended: "server_lost"},
	}
	return list
}

// A server that answers a request with what is no answer is given up; the client is told,
// the next one gets another server, and nothing is left behind. Trap 16.
func TestServersThatLie(t *testing.T) {
	t.Parallel()
	court := convene(t)
	next := mustEnter(t, court.Endpoint, "lies")
	beside := court.watch(t, "fair")
	for _, c := range requests() {
		t.Run(c.name, func(t *testing.T) { court.try(t, c, next) })
	}
	beside.look(t)
}

// try plays a case. next is a client that asks afterwards.
func (ct *court) try(t *testing.T, c request, next *client) {
	victim := mustEnter(t, ct.Endpoint, "lies")
	if err := victim.query("select 1"); err != nil { // so that there is a server
		t.Fatal(err)
	}
	before, err := ct.books()
	if err != nil {
		t.Fatal(err)
	}
	was, err := ct.scrape()
	if err != nil {
		t.Fatal(err)
	}
	from := ct.logLength(t)
	ct.liar.at(nil, c.lie)
	ask := c.ask
	if ask == nil {
		ask = queryLie()
	}
	_, err = victim.ask(ask)
	if got := code(err); got != c.told {
		t.Errorf("the client is told %v, want %q", err, c.told)
	}
	if c.ended == "" {
		if err := victim.query("select 1"); err != nil {
			t.Errorf("its next query: %v", err)
		}
	} else if _, err := victim.end(); err != nil {
		t.Error(err)
	}
	if err := next.query("select 1"); err != nil {
		t.Errorf("the next client: %v", err)
	}
	_ = victim.Close()
	before.Clients--
	ct.balanced(t, before)
	now, err := ct.scrape()
	if err != nil {
		t.Fatal(err)
	}
	if c.ended != "" {
		reason := fmt.Sprintf("reason=%q", c.ended)
		if n := now.Sum("pgweir_sessions_ended_total", reason) - was.Sum("pgweir_sessions_ended_total", reason); n != 1 {
			t.Errorf("%v sessions ended for the reason %s", n, c.ended)
		}
		ct.logged(t, from, "session ended", "reason="+c.ended)
	}
	const broken = "pgweir_servers_closed_total"
	if n := now.Sum(broken, "liar", "broken") - was.Sum(broken, "liar", "broken"); (n == 0) != c.keeps {
		t.Errorf("%v servers were given up", n)
	}
}

// A server dies at each byte of its answer. What has come of a message is passed on, and
// nothing is put behind a part of one. Trap 43.
func TestServersThatDieAtEachByte(t *testing.T) {
	t.Parallel()
	court := convene(t)
	beside := court.watch(t, "fair")
	next := mustEnter(t, court.Endpoint, "lies")
	before := court.rest(t, 2)
	for _, ask := range [][]byte{queryLie(), parseLie()} {
		whole := 1
		for cut := 0; cut < whole; cut++ {
			victim := mustEnter(t, court.Endpoint, "lies")
			court.liar.at(nil, func(conn net.Conn, honest []byte) bool {
				whole = len(honest)
				_, _ = conn.Write(honest[:min(cut, whole)])
				return false
			})
			_, err := victim.ask(ask)
			if err == nil {
				t.Fatalf("%d bytes of %d are an answer", cut, whole)
			}
			if told := code(err); told != "" && told != "57P01" {
				t.Errorf("after %d bytes: %v", cut, err)
			}
			_ = victim.Close()
			if err := next.query("select 1"); err != nil {
				t.Fatalf("the next client, after %d bytes: %v", cut, err)
			}
		}
		if whole < 20 {
			t.Errorf("an answer of %d bytes", whole)
		}
	}
	beside.look(t)
	before.Clients--
	court.balanced(t, before)
}

// What an idle server says unasked does not reach the next client. Trap 39.
func TestIdleServersThatTalk(t *testing.T) {
	t.Parallel()
	court := convene(t)
	beside := court.watch(t, "fair")
	next := mustEnter(t, court.Endpoint, "lies")
	before := court.rest(t, 2)
	for name, says := range map[string][]byte{
		"an answer":           bytes.Join([][]byte{message('T', "\x00\x00"), message('D', "\x00\x00"), message('C', "SELECT 1\x00"), ready('I')}, nil),
		"ReadyForQuery":       ready('I'),
		"an error":            wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "P0001", Message: "unasked"}),
		"goodbye":             wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "unasked"}),
		"a row of a gigabyte": claims('D', 1<<30-1),
		"nonsense":            []byte("nonsense"),
	} {
		t.Run(name, func(t *testing.T) {
			talk, said := make(chan struct{}), make(chan struct{})
			court.liar.at(nil, func(conn net.Conn, honest []byte) bool {
				if _, err := conn.Write(honest); err != nil {
					return false
				}
				<-talk
				_, _ = conn.Write(says)
				close(said)
				drain(conn)
				return false
			})
			if err := next.query("nonce lie"); err != nil {
				t.Fatal(err)
			}
			court.rest(t, 2)
			close(talk)
			<-said
			for range 3 {
				if rows, err := next.ask(queryLie()); err != nil || rows != 1 {
					t.Errorf("%d rows, %v", rows, err)
				}
			}
			court.balanced(t, before)
		})
	}
	beside.look(t)
}

// A server that sends without an end to a client that does not read is not read either; when
// the client has left it is cancelled, and its slot is taken until its connection ends.
// Traps 46, 56.
func TestServersWithoutEnd(t *testing.T) {
	t.Parallel()
	court := convene(t)
	beside := court.watch(t, "fair")
	before := court.rest(t, 1)
	for name, next := range map[string]func(int) []byte{
		"notices": notice,
		"rows":    func(int) []byte { return message('D', "\x00\x01\x00\x00\x00\x01x") },
		"a row of a gigabyte": func(i int) []byte {
			if i == 0 {
				return claims('D', 1<<30-1)
			}
			return make([]byte, 4096)
		},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			court.liar.at(nil, func(conn net.Conn, honest []byte) bool {
				go func() {
					<-over
					_ = conn.Close()
				}()
				return endless(next)(conn, honest)
			})
			victim := mustEnter(t, court.Endpoint, "lies")
			if _, err := victim.Write(wire.AppendQuery(nil, "select 1 /* lie */")); err != nil { // known to be a read
				t.Fatal(err)
			}
			if _, err := victim.r.Peek(1); err != nil {
				t.Fatal(err)
			}
			m, err := court.scrape()
			if err != nil {
				t.Fatal(err)
			}
			cancels := m.Sum("pgweir_cancels_total", "liar")
			_ = victim.Close()
			eventually(t, "it is cancelled", func() bool {
				m, err = court.scrape()
				return err == nil && m.Sum("pgweir_cancels_total", "liar") > cancels
			})
			if m.Sum("pgweir_slots", "liar", "running") != 1 {
				t.Error("the slot is free while the server works")
			}
			if heap := m.Sum("go_memstats_heap_inuse_bytes"); heap > 100<<20 {
				t.Errorf("%v bytes of memory", heap)
			}
			close(over)
			court.balanced(t, before)
		})
	}
	beside.look(t)
}
