package hostile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// loginTimeout is how long a client may take to log in.
const loginTimeout = time.Second

// besieged is a court whose servers are honest, before clients that are not.
func besieged(t *testing.T) *court {
	t.Helper()
	return convene(t, fmt.Sprintf("client_login_timeout = %q\nmax_logins = 32\nmax_client_conn = 300\nreserved_clients = 2\n", loginTimeout))
}

// opening is a case before the login: what is sent, and the SQLSTATE that comes back before
// the end.
type opening struct {
	name string
	send []byte
	told string
}

func packet(code uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	return append(binary.BigEndian.AppendUint32(b, code), body...)
}

const version3 = 3 << 16

func openings() []opening {
	word := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	var many strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&many, "%x\x00\x00", i)
	}
	return []opening{
		{"a length of zero", word(0), "08P01"},
		{"a length of seven", append(word(7), 0, 3, 0), "08P01"},
		{"a length of 10005", word(10_005), "08P01"},
		{"a negative length", word(0xffffffff), "08P01"},
		{"a length of two gigabytes", word(0x7fffffff), "08P01"},
		{"protocol 2", packet(2<<16, strings.Repeat("\x00", 288)), "0A000"},
		{"protocol 9", packet(9<<16, "user\x00app\x00\x00"), "0A000"},
		{"no parameters", packet(version3, "\x00"), "28000"},
		{"no terminator", packet(version3, "user\x00app\x00"), "08P01"},
		{"a name without a value", packet(version3, "user"), "08P01"},
		{"more behind the terminator", packet(version3, "user\x00app\x00\x00more"), "08P01"},
		{"bytes that are no UTF-8", packet(version3, "user\x00app\x00database\x00x\x00client_encoding\x00\xff\xfe\x00\x00"), "22023"},
		{"a parameter that is none", packet(version3, "user\x00app\x00database\x00x\x00no such\x001\x00\x00"), "42704"},
		{"a thousand parameters", packet(version3, "user\x00app\x00database\x00x\x00"+many.String()+"\x00"), "42704"},
		{"options without an end", packet(version3, "user\x00app\x00database\x00x\x00options\x00-c\x00\x00"), "42601"},
		{"a role of 9 kB", packet(version3, "user\x00"+strings.Repeat("r", 9000)+"\x00\x00"), ""},
		{"replication of a kind that is none", packet(version3, "user\x00app\x00replication\x00maybe\x00\x00"), "22023"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: db\r\n\r\n"), "08P01"},
		{"ssh", []byte("SSH-2.0-OpenSSH_9.6\r\n"), "08P01"},
		{"TLS", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("x", 512)), ""},
		{"zeros", make([]byte, 4096), "08P01"},
		{"a cancel of nobody", packet(1234<<16|5678, "\x00\x00\x00\x01\x00\x00\x00\x01"), ""},
		{"a cancel with a key of 3 bytes", packet(1234<<16|5678, "\x00\x00\x00\x01abc"), "08P01"},
		{"a cancel with a key of 257 bytes", packet(1234<<16|5678, "\x00\x00\x00\x01"+strings.Repeat("k", 257)), "08P01"},
		{"a request for TLS, and another", append(packet(1234<<16|5679, ""), packet(1234<<16|5679, "")...), ""},
		{"a login behind a request for TLS", append(packet(1234<<16|5679, ""), startup("fair")...), "08P01"},
	}
}

// failed counts sessions that a server did not take.
const failed = `pgweir_sessions_ended_total{reason="login_failed"}`

// What does not become a login ends with a reason and leaves nothing. Traps 23, 24, 25, 27,
// 52.
func TestHostileOpenings(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	for _, o := range openings() {
		t.Run(o.name, func(t *testing.T) {
			was, err := c.scrape()
			if err != nil {
				t.Fatal(err)
			}
			h, err := knock(c.Endpoint)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = h.Close() }()
			if _, err := h.Write(o.send); err != nil {
				t.Fatal(err)
			}
			if o.told == "" {
				_ = h.SetDeadline(time.Now().Add(loginTimeout / 4)) // it may be let in, or wait
				told, _ := h.end()
				t.Log(told)
				return
			}
			told, err := h.end()
			if err != nil || told == nil || told.Code != o.told || told.Severity != wire.SeverityFatal {
				t.Errorf("told %v, %v; want %s", told, err, o.told)
			}
			const counter = "pgweir_refusals_total"
			if now, err := c.scrape(); err != nil || now.Sum(counter) == was.Sum(counter) && now.Sum(failed) == was.Sum(failed) {
				t.Errorf("not counted, %v", err)
			}
		})
	}
	c.balanced(t, before)
	beside.look(t)
}

// Clients that do not get on with their login are let go after client_login_timeout, however
// they pass the time, and hold no place after it. Trap 27.
func TestSlowOpenings(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	hello := startup("fair")
	var slow []*client
	for i := range 20 {
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		slow = append(slow, h)
		go func() { // one byte at a time, and then nothing
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for _, b := range hello[:min(len(hello)-1, i)] {
				<-tick.C
				if _, err := h.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
	}
	for i, h := range slow {
		if told, err := h.end(); err != nil || told != nil && told.Code != "08P01" {
			t.Errorf("after %d bytes: %v, %v", i, told, err)
		}
		_ = h.Close()
	}
	m, err := c.scrape()
	if n := m.Sum("pgweir_refusals_total", `reason="login_timeout"`); err != nil || n < 20 {
		t.Errorf("%v of %d are counted, %v", n, len(slow), err)
	}
	c.logged(t, 0, "login refused", "reason=login_timeout")
	for n := range len(hello) { // and those who leave in the middle
		h, err := knock(c.Endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Write(hello[:n]); err != nil {
			t.Fatal(err)
		}
		if n%2 == 0 {
			reset(h)
		}
		_ = h.Close()
		if n%16 == 0 { // not more than may log in at once
			c.balanced(t, before)
		}
	}
	c.balanced(t, before)
	beside.look(t)
}

// reset makes the end of a connection a reset.
func reset(c *client) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it ends in order, which will do
	}
}

// Every type of message with bodies that do not fit, alone, in a transaction, in a batch and
// in a COPY: the session goes on or ends, the server is clean for the next.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	next := mustEnter(t, c.Endpoint, "fair")
	before := c.rest(t, 2)
	bodies := []string{"", "\x00", "\x00\x00\x00\x00", strings.Repeat("\xff", 64), "\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", "name\x00\xff\xfe\xfd\x00\x7f\xff\xff\xff"}
	states := map[string][]byte{
		"idle":             nil,
		"in a transaction": wire.AppendQuery(nil, "begin; select 1"),
		"in a batch":       wiretest.AppendParse(nil, "", "select 1"),
		"in a copy":        wire.AppendQuery(nil, "copy t from stdin"),
		"in a failed one":  wire.AppendQuery(nil, "begin; fail 22012"),
	}
	for name, first := range states {
		t.Run(name, func(t *testing.T) {
			for i := range 256 {
				typ := byte(i)
				h, err := enter(c.Endpoint, "fair")
				if err != nil {
					t.Fatal(err)
				}
				b := append([]byte(nil), first...)
				b = append(b, message(typ, bodies[i%len(bodies)])...)
				b = append(b, wire.AppendQuery(nil, "select 1")...)
				b = append(b, message('X', "")...)
				_, werr := h.Write(b)
				if _, err := h.end(); err != nil {
					t.Errorf("message %q: %v", typ, errors.Join(err, werr))
				}
				_ = h.Close()
				if err := next.query("select 1"); err != nil {
					t.Fatalf("the next client, after message %q: %v", typ, err)
				}
			}
			c.balanced(t, before)
		})
	}
	beside.look(t)
}

// A batch that ends anywhere, by a close, a reset or half of one.
func TestTruncatedSessions(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	next := mustEnter(t, c.Endpoint, "fair")
	before := c.rest(t, 2)
	script := bytes.Join([][]byte{
		wire.AppendQuery(nil, "begin"), parseLie(), wire.AppendQuery(nil, "copy t from stdin"), message('d', "1\n"), message('c', ""),
		wiretest.AppendFunctionCall(nil, 177, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}), wire.AppendQuery(nil, "commit"),
	}, nil)
	for n := range len(script) + 1 {
		h, err := enter(c.Endpoint, "fair")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Write(script[:n]); err != nil {
			t.Fatal(err)
		}
		switch n % 3 {
		case 0:
			reset(h)
		case 1:
			if tcp, ok := h.Conn.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			if _, err := h.end(); err != nil {
				t.Errorf("half closed after %d bytes: %v", n, err)
			}
		}
		_ = h.Close()
		if err := next.query("select 1"); err != nil {
			t.Fatalf("the next client, after %d bytes: %v", n, err)
		}
	}
	c.balanced(t, before)
	beside.look(t)
}

// excess is a case of too much of something that is allowed.
type excess struct {
	name string
	// send is repeated so many times, then last is sent; the answers are read meanwhile.
	send  func(i int) []byte
	times int
	last  []byte
}

func excesses() []excess {
	query := func(sql string) []byte { return wire.AppendQuery(nil, sql) }
	always := func(b []byte) func(int) []byte { return func(int) []byte { return b } }
	return []excess{
		{"savepoints", func(i int) []byte {
			if i == 0 {
				return query("begin; select 1")
			}
			return query(fmt.Sprint("savepoint s", i))
		}, 100_000, query("rollback")},
		{"savepoints before any work", func(i int) []byte {
			if i == 0 {
				return query("begin")
			}
			return query(fmt.Sprint("set local pgweir.tenant = 'x", i, "'; savepoint s", i))
		}, 20_000, query("rollback")},
		{"names of statements", func(i int) []byte {
			return wiretest.AppendParse(nil, fmt.Sprint("s", i), "select 1")
		}, 50_000, message('S', "")},
		{"texts of statements", func(i int) []byte {
			return wiretest.AppendParse(nil, fmt.Sprint("s", i), fmt.Sprint("select ", i))
		}, 20_000, message('S', "")},
		{"portals", func(i int) []byte {
			if i == 0 {
				return wiretest.AppendParse(nil, "", "select 1")
			}
			return wiretest.AppendBind(nil, wiretest.Bind{Portal: fmt.Sprint("p", i)})
		}, 20_000, message('S', "")},
		{"Syncs", always(message('S', "")), 100_000, nil},
		{"Flushes", always(message('H', "")), 100_000, message('S', "")},
		{"Closes of nothing", always(message('C', "Snothing\x00")), 50_000, message('S', "")},
		{"empty queries", always(query("")), 50_000, nil},
		{"BEGINs", always(query("begin")), 50_000, query("rollback")},
		{"errors", always(query("selec")), 10_000, nil},
		{"CopyData outside a copy", always(message('d', "x")), 50_000, message('S', "")},
		{"notices", always(query("notice x")), 10_000, nil},
		{"settings", func(i int) []byte { return query(fmt.Sprint("set my.x", i, " = 1")) }, 2_000, nil},
		{"names of applications", func(i int) []byte { return query(fmt.Sprint("set application_name = 'a", i, "'")) }, 5_000, nil},
		{"tenants", func(i int) []byte { return query(fmt.Sprint("select 1 /*pgweir.tenant='t", i, "'*/")) }, 10_000, nil},
		{"channels", func(i int) []byte { return query(fmt.Sprint("listen c", i)) }, 2_000, nil},
	}
}

// Too much of what is allowed is bounded: it is answered, or refused and the session ended;
// the memory is given back. Nobody else waits for it.
func TestExcesses(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	for _, e := range excesses() {
		t.Run(e.name, func(t *testing.T) {
			h := mustEnter(t, c.Endpoint, "fair")
			wrote := make(chan error, 1)
			go func() {
				var b []byte
				for i := range e.times {
					if b = append(b, e.send(i)...); len(b) > 64<<10 {
						if _, err := h.Write(b); err != nil {
							wrote <- err
							return
						}
						b = b[:0]
					}
				}
				_, err := h.Write(append(append(b, e.last...), message('X', "")...))
				wrote <- err
			}()
			if told, err := h.end(); err != nil {
				t.Errorf("told %v: %v", told, err)
			} else if told != nil {
				t.Log(told)
			}
			_ = h.Close()
			<-wrote
			c.balanced(t, before)
		})
	}
	m, err := c.scrape()
	if err != nil {
		t.Fatal(err)
	}
	if heap := m.Sum("go_memstats_heap_inuse_bytes"); heap > 200<<20 {
		t.Errorf("%v bytes of memory", heap)
	}
	beside.look(t)
}

// A client that does not read is not written to without an end; one that sends its request
// byte by byte holds no server meanwhile.
func TestSlowSessions(t *testing.T) {
	t.Parallel()
	c := besieged(t)
	beside := c.watch(t, "fair")
	before := c.rest(t, 1)
	var deaf []*client
	for range 2 {
		h := mustEnter(t, c.Endpoint, "lies")
		if _, err := h.Write(wire.AppendQuery(nil, "rows 20000 1000")); err != nil {
			t.Fatal(err)
		}
		deaf = append(deaf, h)
	}
	slow := mustEnter(t, c.Endpoint, "fair")
	for _, b := range wire.AppendQuery(nil, "select 1") {
		if m, err := c.scrape(); err != nil || m.Sum("pgweir_slots", "honest", "running") > 1 {
			t.Fatalf("%v slots are taken, %v", m.Sum("pgweir_slots", "honest", "running"), err) // one is of the client beside
		}
		if _, err := slow.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := slow.answer(); err != nil {
		t.Error(err)
	}
	eventually(t, "both servers work", func() bool {
		m, err := c.scrape()
		return err == nil && m.Sum("pgweir_slots", "liar", "running") == 2
	})
	if m, err := c.scrape(); err != nil || m.Sum("go_memstats_heap_inuse_bytes") > 100<<20 {
		t.Errorf("%v bytes of memory, %v", m.Sum("go_memstats_heap_inuse_bytes"), err)
	}
	for _, h := range append(deaf, slow) {
		_ = h.Close()
	}
	c.balanced(t, before)
	beside.look(t)
}
