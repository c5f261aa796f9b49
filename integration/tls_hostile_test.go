package integration

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

// descriptors is how many files and sockets pgweir has open.
func (o *operated) descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", o.proc.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// number is a metric's value.
func (o *operated) number(t *testing.T, series string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(o.metric(t, series), 64)
	if err != nil {
		t.Fatalf("%s: %v", series, err)
	}
	return v
}

// A thousand clients stop half-way through their handshakes and stay: max_logins bounds
// them, the login timeout ends them, others get in meanwhile, and nothing of them is left.
func TestHalfHandshakes(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{top: "max_logins = 200\nclient_login_timeout = \"2s\"\n"})
	if got := s.psql(t, "select 1"); got != "1" {
		t.Fatal(got)
	}
	lost := `pgweir_tls_handshakes_total{result="lost"}`
	fds, routines := s.descriptors(t), s.number(t, "go_goroutines")
	const clients = 1000
	hello := clientHello(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	ended := map[string]int{}
	for i := range clients {
		all.Go(func() {
			how := stopHalfWay(s.Addr(), hello[:1+i%len(hello)], i%2 == 0)
			mu.Lock()
			defer mu.Unlock()
			ended[how]++
		})
	}
	all.Wait()
	t.Logf("ended: %v; %v handshakes lost", ended, s.number(t, lost))
	if ended["open"] > 0 {
		t.Errorf("%d connections were still there after a minute", ended["open"])
	}
	if s.number(t, lost) == 0 {
		t.Error("no handshake is counted as lost")
	}
	if got := s.psql(t, "select 'and again'"); got != "and again" {
		t.Error(got)
	}
	eventually(t, "nothing of them is left", func() bool {
		return s.number(t, `pgweir_clients{state="login"}`) == 0 && s.descriptors(t) <= fds+2 && s.number(t, "go_goroutines") <= routines+3
	})
}

// stopHalfWay sends the beginning of a handshake and waits until the other side ends the
// connection.
func stopHalfWay(addr string, hello []byte, direct bool) string {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "not connected"
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err.Error()
	}
	if !direct {
		hello = append(wire.AppendSSLRequest(nil), hello...)
		// In two writes: else the second would be refused as having come in clear.
		if _, err := conn.Write(hello[:8]); err != nil {
			return "closed"
		}
		var answer [1]byte
		if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'S' {
			return "refused"
		}
		hello = hello[8:]
	}
	if _, err := conn.Write(hello); err != nil {
		return "closed"
	}
	_, err = io.Copy(io.Discard, conn)
	if nerr, ok := errors.AsType[net.Error](err); ok && nerr.Timeout() {
		return "open"
	}
	return "closed"
}

// clientHello is the first thing that a client says.
func clientHello(t *testing.T) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, 4096)
		n, _ := io.ReadAtLeast(theirs, b, 100) // a shorter one shows below
		_ = theirs.Close()
		got <- b[:n]
	}()
	_ = tls.Client(ours, insecure()).Handshake() // it ends when the pipe does
	hello := <-got
	if len(hello) < 100 || hello[0] != 0x16 {
		t.Fatalf("%x", hello)
	}
	return hello[:len(hello)-1] // never whole
}

// What is no TLS, or TLS that is not to be had, ends that connection with a reason, a count,
// and no harm to others.
func TestHostileTLS(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{})
	if got := s.psql(t, "select 1"); got != "1" {
		t.Fatal(got)
	}
	ssl := wire.AppendSSLRequest(nil)
	before := s.descriptors(t)
	for name, tc := range map[string]struct {
		says   []string // each waits for one byte of an answer
		reason string
	}{
		"clear text after SSLRequest":     {[]string{string(ssl) + "Q\x00\x00\x00\x0dselect 1\x00"}, "08P01"},
		"clear text after the answer":     {[]string{string(ssl), "Q\x00\x00\x00\x0dselect 1\x00"}, "tls"},
		"a huge record":                   {[]string{string(ssl), "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16)}, "tls"},
		"a record of nothing, many times": {[]string{string(ssl), strings.Repeat("\x16\x03\x01\x00\x00", 1000)}, "tls"},
		"a hello longer than any":         {[]string{string(ssl), "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("x", 1<<14)}, "tls"},
		"application data before a hello": {[]string{string(ssl), "\x17\x03\x03\x00\x05hello"}, "tls"},
		"SSL 2":                           {[]string{string(ssl), "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + strings.Repeat("x", 40)}, "tls"},
		"direct TLS of another protocol":  {[]string{"\x16\x03\x01\x00\x05hello"}, "tls"},
	} {
		t.Run(name, func(t *testing.T) {
			series := fmt.Sprintf(`pgweir_refusals_total{reason=%q,upstream="",workload=""}`, tc.reason)
			was := s.metric(t, series)
			conn, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			for i, text := range tc.says {
				if _, err := conn.Write([]byte(text)); err != nil {
					break // closed already
				}
				if i < len(tc.says)-1 {
					var answer [1]byte
					if _, err := io.ReadFull(conn, answer[:]); err != nil || answer[0] != 'S' {
						t.Fatalf("%q, %v", answer, err)
					}
				}
			}
			rest, err := io.ReadAll(conn)
			if nerr, ok := errors.AsType[net.Error](err); ok && nerr.Timeout() {
				t.Error("the connection stays")
			}
			if bytes.Contains(rest, []byte("?column?")) {
				t.Error("it was answered")
			}
			eventually(t, "it is counted", func() bool { return s.metric(t, series) != was })
		})
	}
	eventually(t, "the descriptors are closed", func() bool { return s.descriptors(t) <= before+1 })
	if got := s.psql(t, "select 'still there'"); got != "still there" {
		t.Error(got)
	}
}

// A session may be cut in the middle of a record, or be sent what no TLS is; it ends alone.
func TestBrokenSessionsOverTLS(t *testing.T) {
	t.Parallel()
	s := operateTLS(t, plan{})
	for name, harm := range map[string][]byte{
		"cut in a record":    []byte("\x17\x03\x03\x10\x00abc"),
		"a forged record":    append([]byte("\x17\x03\x03\x00\x40"), bytes.Repeat([]byte("x"), 0x40)...),
		"clear text":         []byte("Q\x00\x00\x00\x0dselect 1\x00"),
		"a handshake record": append([]byte("\x16\x03\x03\x00\x20"), bytes.Repeat([]byte("x"), 0x20)...),
		"nothing":            nil,
	} {
		conn, err := s.shake(t, insecure())
		if err != nil {
			t.Fatal(err)
		}
		c := &rawClient{conn: conn, r: bufio.NewReader(conn)}
		packet, err := wire.AppendStartup(nil, 0, []wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: "app"}})
		if err == nil {
			err = c.send(packet)
		}
		if err == nil {
			_, err = c.answer()
		}
		if err == nil {
			err = c.exec("begin; select 1")
		}
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := conn.NetConn().Write(harm); err != nil {
			t.Fatal(err)
		}
		if err := conn.NetConn().(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn.NetConn()); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
	eventually(t, "no session is left", func() bool {
		return s.show(t, "pgweir", "CLIENTS").count() == 0 && s.show(t, "pgweir", "SERVERS").count("state=active") == 0
	})
	if got := s.psql(t, "select 'still there'"); got != "still there" {
		t.Error(got)
	}
}

// A client that wants to negotiate anew, which TLS 1.2 has, is let go.
func TestRenegotiation(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip(err)
	}
	s := operateTLS(t, plan{})
	cmd := exec.CommandContext(t.Context(), openssl, "s_client", "-starttls", "postgres", "-tls1_2", "-legacy_renegotiation", "-connect", s.Addr())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the handshake is done", func() bool { return s.number(t, `pgweir_tls_handshakes_total{result="done"}`) > 0 })
	if _, err := io.WriteString(in, "R\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "RENEGOTIATING") {
		t.Errorf("%v: %s", err, &out)
	}
	_ = in.Close()
	eventually(t, "it is counted", func() bool {
		return s.metric(t, `pgweir_refusals_total{reason="tls",upstream="",workload=""}`) == "1"
	})
}
