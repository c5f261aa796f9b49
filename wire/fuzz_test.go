package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func FuzzReadStartup(f *testing.F) {
	f.Add(packet(v30 + "user\x00u\x00database\x00d\x00\x00"))
	f.Add(packet(v32 + "user\x00u\x00_pq_.x\x001\x00user\x00v\x00\x00"))
	f.Add(packet("\x00\x03\x27\x0f" + "user\x00u\x00\x00"))
	f.Add(packet("\x00\x02\x00\x00\x00"))
	f.Add(AppendSSLRequest(nil))
	f.Add(append(AppendGSSENCRequest(nil), AppendSSLRequest(nil)...))
	f.Add(AppendCancelRequest(nil, 1, []byte("abcd")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x16, 3, 1, 2, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		r := bytes.NewReader(in)
		p, err := ReadStartup(r)
		if p2, err2 := ReadStartup(iotest.OneByteReader(bytes.NewReader(in))); !cmp.Equal(p, p2) || (err == nil) != (err2 == nil) {
			t.Fatalf("depends on how it arrives: %v, %v; %v, %v", p, err, p2, err2)
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) && err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Fatal(err)
			}
			return
		}
		checkPacket(t, p, in[:len(in)-r.Len()])
	})
}

// checkPacket builds the packet again and reads that.
func checkPacket(t *testing.T, p Packet, in []byte) {
	var again []byte
	switch p := p.(type) {
	case SSLRequest:
		again = AppendSSLRequest(nil)
	case GSSENCRequest:
		again = AppendGSSENCRequest(nil)
	case *CancelRequest:
		again = AppendCancelRequest(nil, p.PID, p.Secret)
	case *Startup:
		p.AppendNegotiation(nil)
		if _, _, err := p.Names(); err == nil {
			opts, _ := p.Get("options")
			_, _ = SplitOptions(opts)
		}
		out, err := AppendStartup(nil, p.Minor, p.Params)
		if err != nil {
			t.Fatal(err)
		}
		p2, err := ReadStartup(bytes.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		p2.(*Startup).Unknown = p.Unknown
		if d := cmp.Diff(p, p2); d != "" {
			t.Fatal(d)
		}
		return
	}
	if !bytes.Equal(in, again) {
		t.Fatalf("%q became %q", in, again)
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add(AppendError(nil, &Error{Severity: "FATAL", Code: "53300", Message: "m"}), uint16(100))
	f.Add([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00"), uint16(4))
	f.Add([]byte("R\xff\xff\xff\xff"), uint16(1000))
	f.Add([]byte("R\x00\x00\x00\x03"), uint16(1000))
	f.Fuzz(func(t *testing.T, in []byte, limit uint16) {
		r := bytes.NewReader(in)
		typ, body, err := ReadMessage(r, int(limit))
		if err != nil {
			return
		}
		if len(body) > int(limit) {
			t.Fatalf("%d bytes, allowed %d", len(body), limit)
		}
		if !bytes.Equal(AppendMessage(nil, typ, body), in[:len(in)-r.Len()]) {
			t.Fatal("read another number of bytes than announced")
		}
	})
}

// FuzzBodies gives one body to every parser of bodies.
func FuzzBodies(f *testing.F) {
	f.Add(AppendParameterStatus(nil, "a", "b")[HeaderLen:])
	f.Add(AppendBackendKeyData(nil, 5, []byte("abcd"))[HeaderLen:])
	f.Add(AppendError(nil, &Error{Severity: "FATAL", Code: "53300", Message: "m", Detail: "d"})[HeaderLen:])
	f.Add(AppendAuthSASL(nil, "SCRAM-SHA-256")[HeaderLen:])
	f.Add(AppendSASLInitial(nil, "SCRAM-SHA-256", []byte("n,,n=,r=x"))[HeaderLen:])
	f.Add(AppendPassword(nil, "x")[HeaderLen:])
	f.Add((&Startup{Minor: 9, Unknown: []string{"_pq_.x"}}).AppendNegotiation(nil)[HeaderLen:])
	f.Add([]byte("SFATAL\x00C"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := ErrorFields(body)
		if e.Severity == "" || e.Code == "" || e.Message == "" {
			t.Fatalf("%+v", e)
		}
		if !cmp.Equal(e, ErrorFields(AppendError(nil, e)[HeaderLen:])) {
			t.Fatalf("%+v does not survive", e)
		}
		if p, err := ParseParameterStatus(body); err == nil && !bytes.Equal(AppendParameterStatus(nil, p.Name, p.Value)[HeaderLen:], body) {
			t.Fatalf("%v", p)
		}
		if pid, secret, err := ParseBackendKeyData(body); err == nil && !bytes.Equal(AppendBackendKeyData(nil, pid, secret)[HeaderLen:], body) {
			t.Fatal(pid, secret)
		}
		if p, err := ParsePassword(body); err == nil && !bytes.Equal(AppendPassword(nil, p)[HeaderLen:], body) {
			t.Fatal(p)
		}
		if m, r, err := ParseSASLInitial(body); err == nil && r != nil && !bytes.Equal(AppendSASLInitial(nil, m, r)[HeaderLen:], body) {
			t.Fatal(m, r)
		}
		if kind, data, err := ParseAuthentication(body); err == nil {
			if names, err := ParseMechanisms(data); err == nil && kind == AuthSASL && !bytes.Equal(AppendAuthSASL(nil, names...)[HeaderLen:], body) {
				t.Fatal(names)
			}
		}
		_, _ = ParseNegotiation(body)
		_, _ = ParseReadyForQuery(body)
	})
}

func FuzzSplitOptions(f *testing.F) {
	for _, s := range []string{"-c a=b", `--a-b=c\ d -ec x=y`, `\`, "-f s -tpa", "-- -", `-c a=\\ `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ps, err := SplitOptions(s)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			return
		}
		// What was understood can be said again, fully escaped.
		var again strings.Builder
		for _, p := range ps {
			again.WriteString("-c ")
			for _, c := range []byte(p.Name + "=" + p.Value) {
				again.WriteByte('\\')
				again.WriteByte(c)
			}
			again.WriteByte(' ')
		}
		ps2, err := SplitOptions(again.String())
		if err != nil || !cmp.Equal(ps, ps2) {
			t.Fatalf("%q: %v, %v, %v", s, ps, ps2, err)
		}
	})
}
