package login

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
)

// patience bounds every wait of the tests. It says nothing about speed.
const patience = 30 * time.Second

// pipe returns both ends of a connection in memory, closed at the end of the test.
func pipe(t *testing.T) (ours, peers net.Conn) {
	t.Helper()
	ours, peers = net.Pipe()
	for _, c := range []net.Conn{ours, peers} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	return ours, peers
}

// play writes and expects in turn what a script says: "> bytes" to write, "< bytes"
// to read, "." to end the connection.
func play(conn net.Conn, script ...string) error {
	for _, step := range script {
		switch step[0] {
		case '>':
			if _, err := conn.Write([]byte(step[2:])); err != nil {
				return err
			}
		case '<':
			got := make([]byte, len(step)-2)
			if n, err := io.ReadFull(conn, got); err != nil {
				return errors.Join(errors.New("got "+string(got[:n])), err)
			}
			if string(got) != step[2:] {
				return errors.New("got " + string(got) + ", expected " + step[2:])
			}
		case '.':
			return conn.Close()
		}
	}
	return nil
}

// background runs f and returns a function that waits for its error.
func background(f func() error) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() error { return <-done }
}

func startup(t *testing.T, minor uint16, params ...wire.Param) string {
	t.Helper()
	b, err := wire.AppendStartup(nil, minor, params)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAccept(t *testing.T) {
	ssl, gss := string(wire.AppendSSLRequest(nil)), string(wire.AppendGSSENCRequest(nil))
	joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"}, wire.Param{Name: "database", Value: "db"})
	grease := startup(t, 9999, wire.Param{Name: "user", Value: "joe"}, wire.Param{Name: "_pq_.x", Value: "1"})
	for name, tc := range map[string]struct {
		script         []string
		user, database string
		unknown        []string
	}{
		"plain":        {[]string{"> " + joe}, "joe", "db", nil},
		"ssl":          {[]string{"> " + ssl, "< N", "> " + joe}, "joe", "db", nil},
		"gss, ssl":     {[]string{"> " + gss, "< N", "> " + ssl, "< N", "> " + joe}, "joe", "db", nil},
		"ssl, gss":     {[]string{"> " + ssl, "< N", "> " + gss, "< N", "> " + joe}, "joe", "db", nil},
		"in pieces":    {[]string{"> " + ssl[:3], "> " + ssl[3:], "< N", "> " + joe[:8], "> " + joe[8:9], "> " + joe[9:]}, "joe", "db", nil},
		"to the byte":  {[]string{"> " + joe, "> next"}, "joe", "db", nil},
		"negotiation":  {[]string{"> " + grease, "< v\x00\x00\x00\x13\x00\x03\x00\x02\x00\x00\x00\x01_pq_.x\x00"}, "joe", "joe", []string{"_pq_.x"}},
		"no more than": {[]string{"> " + startup(t, 2, wire.Param{Name: "user", Value: "x"})}, "x", "x", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pipe(t)
			wait := background(func() error { return play(peer, tc.script...) })
			a, err := Accept(ours, nil)
			c, cancel := a.Client, a.Cancel
			if err != nil || cancel != nil {
				t.Fatal(c, cancel, err)
			}
			if c.User != tc.user || c.Database != tc.database {
				t.Errorf("user %q, database %q", c.User, c.Database)
			}
			if d := cmp.Diff(tc.unknown, c.Startup.Unknown); d != "" {
				t.Error(d)
			}
			if strings.HasSuffix(tc.script[len(tc.script)-1], "next") {
				next := make([]byte, 4)
				if _, err := io.ReadFull(ours, next); err != nil || string(next) != "next" {
					t.Errorf("%q, %v", next, err)
				}
			}
			if err := wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAcceptCancel(t *testing.T) {
	ours, peer := pipe(t)
	request := string(wire.AppendCancelRequest(nil, 7, []byte("secret of some length")))
	wait := background(func() error { return play(peer, "> "+string(wire.AppendSSLRequest(nil)), "< N", "> "+request) })
	a, err := Accept(ours, nil)
	c, cancel := a.Client, a.Cancel
	if c != nil || err != nil {
		t.Fatal(c, err)
	}
	if d := cmp.Diff(&wire.CancelRequest{PID: 7, Secret: []byte("secret of some length")}, cancel); d != "" {
		t.Error(d)
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
}

func TestAcceptRefuses(t *testing.T) {
	ssl, gss := string(wire.AppendSSLRequest(nil)), string(wire.AppendGSSENCRequest(nil))
	joe := startup(t, 0, wire.Param{Name: "user", Value: "joe"})
	for name, tc := range map[string]struct {
		script []string
		want   string // SQLSTATE, "EOF" or "half"
	}{
		"left":                  {[]string{"."}, "EOF"},
		"left after ssl":        {[]string{"> " + ssl, "< N", "."}, "EOF"},
		"left in a request":     {[]string{"> " + ssl[:5], "."}, "half"},
		"left in a packet":      {[]string{"> " + joe[:12], "."}, "half"},
		"left after a length":   {[]string{"> " + joe[:4], "."}, "half"},
		"left in a length":      {[]string{"> " + joe[:3], "."}, "half"},
		"ssl twice":             {[]string{"> " + ssl, "< N", "> " + ssl}, "0A000"},
		"gss twice":             {[]string{"> " + gss, "< N", "> " + ssl, "< N", "> " + gss}, "0A000"},
		"clear text behind ssl": {[]string{"> " + ssl + joe[:1]}, "08P01"},
		"session behind ssl":    {[]string{"> " + ssl + joe}, "08P01"},
		"ssl behind gss":        {[]string{"> " + gss + ssl}, "08P01"},
		"no user":               {[]string{"> " + startup(t, 0, wire.Param{Name: "database", Value: "db"})}, "28000"},
		"protocol 2":            {[]string{"> \x00\x00\x00\x09\x00\x02\x00\x00\x00"}, "0A000"},
		"not ours":              {[]string{"> GET / HTTP/1.1\r\n\r\n"}, "08P01"},
		"TLS":                   {[]string{"> \x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}, "08P01"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, peer := pipe(t)
			wait := background(func() error { return play(peer, tc.script...) })
			a, err := Accept(ours, nil)
			c, cancel := a.Client, a.Cancel
			if c != nil || cancel != nil {
				t.Fatal(c, cancel)
			}
			switch e, ok := errors.AsType[*wire.Error](err); {
			case ok && e.Code == tc.want && e.Severity == "FATAL":
			case err == io.EOF && tc.want == "EOF", err == io.ErrUnexpectedEOF && tc.want == "half":
			default:
				t.Errorf("%v", err)
			}
			_ = ours.Close() // a peer that has more to say must not wait
			if err := wait(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
		})
	}
}

// A length that no packet has is refused while the client waits for the answer with
// nothing more to say.
func TestAcceptRefusesALengthAtOnce(t *testing.T) {
	for _, length := range []string{"\x00\x00\x00\x00", "\x00\x00\x00\x04", "\x00\x00\x00\x07", "\x00\x00\x27\x15", "\xff\xff\xff\xff"} {
		ours, peer := pipe(t)
		wait := background(func() error { return play(peer, "> "+length[:1], "> "+length[1:]) })
		_, err := Accept(ours, nil)
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Code != "08P01" {
			t.Errorf("%q: %v", length, err)
		}
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
}

func TestAcceptIsBounded(t *testing.T) {
	ours, _ := pipe(t)
	if err := ours.SetDeadline(longAgo()); err != nil {
		t.Fatal(err)
	}
	_, err := Accept(ours, nil)
	if nerr, ok := errors.AsType[net.Error](err); !ok || !nerr.Timeout() {
		t.Error(err)
	}
}
