package login

import (
	"bytes"
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/scram"
)

// canned is a connection whose peer has sent everything already and reads nothing.
type canned struct {
	net.Conn
	in      *bytes.Reader
	written int
}

func (c *canned) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *canned) Write(b []byte) (int, error) { c.written += len(b); return len(b), nil }
func (*canned) SetDeadline(time.Time) error   { return nil }

func FuzzServerSide(f *testing.F) {
	f.Add([]byte(notice + ok + version + key + ready))
	f.Add([]byte(clear + ok + ready))
	f.Add([]byte(sasl + string(wire.AppendAuthentication(nil, wire.AuthSASLContinue, []byte("r=,s=,i=")))))
	f.Add([]byte(string(wire.AppendAuthentication(nil, wire.AuthMD5, []byte("salt"))) + ok + ready))
	f.Add([]byte("Ecould not fork\n\x00"))
	f.Fuzz(func(t *testing.T, says []byte) {
		c := &canned{in: bytes.NewReader(says)}
		s, err := Login(context.Background(), c, Target{User: "u", Database: "d", Credentials: Credentials{Password: "p"}})
		if (s == nil) == (err == nil) {
			t.Fatal(s, err)
		}
		if s != nil && (c.in.Len() > 0 && bytes.HasSuffix(says[:len(says)-c.in.Len()], []byte(ready)) != true) {
			t.Fatal("read past ReadyForQuery")
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(columnsOf("1", "x") + complete + ready))
	f.Add([]byte(notice + version + failure + ready))
	f.Add([]byte(row("\x00\x01\xff\xff\xff\xff") + ready))
	f.Fuzz(func(t *testing.T, says []byte) {
		c := &canned{in: bytes.NewReader(says)}
		row, err := (&Server{Conn: c}).Query(context.Background(), "select 1")
		if row != nil && err != nil {
			t.Fatal(row, err)
		}
		if read := says[:len(says)-c.in.Len()]; err == nil && !bytes.HasSuffix(read, []byte(ready)) {
			t.Fatal("not read up to ReadyForQuery")
		}
	})
}

func FuzzClientSide(f *testing.F) {
	start, err := wire.AppendStartup(nil, 0, []wire.Param{{Name: "user", Value: "scram"}})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 4 {
		f.Add(byte(i), append(wire.AppendSSLRequest(nil), start...))
		f.Add(byte(i), append(start, wire.AppendPassword(nil, "wrong")...))
		f.Add(byte(i), append(start, wire.AppendSASLInitial(nil, scram.Mechanism, []byte("n,,n=,r=abc"))...))
		f.Add(byte(i), wire.AppendCancelRequest(nil, 1, []byte("abcd")))
	}
	// Who is let in by accident has guessed 32 bytes.
	book := NewBook(map[string]Secret{
		"scram": {SCRAM: &scram.Verifier{Iterations: 1, Salt: []byte("salt"), StoredKey: scram.Key{1}, ServerKey: scram.Key{2}}},
		"md5":   {MD5: "md5" + "00000000000000000000000000000000"},
	})
	f.Fuzz(func(t *testing.T, method byte, says []byte) {
		conn := &canned{in: bytes.NewReader(says)}
		a, err := Accept(conn, nil)
		c, cancel := a.Client, a.Cancel
		if err != nil || cancel != nil {
			if c != nil {
				t.Fatal(c, cancel, err)
			}
			return
		}
		m := []Method{Password, MD5, SCRAM, Trust}[method%4]
		if err := Authenticate(conn, c, m, book, nil); err == nil && m != Trust {
			t.Fatalf("%s let %q in", m, c.User)
		} else if err == io.EOF && conn.written == 0 {
			t.Fatal("never asked")
		}
	})
}
