package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// packet puts the length word in front of a body.
func packet(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...)
}

const (
	v30 = "\x00\x03\x00\x00"
	v32 = "\x00\x03\x00\x02"
)

func TestReadStartup(t *testing.T) {
	for name, tc := range map[string]struct {
		in   []byte
		want Packet
	}{
		"ssl":    {AppendSSLRequest(nil), SSLRequest{}},
		"gssenc": {AppendGSSENCRequest(nil), GSSENCRequest{}},
		"cancel 3.0": {
			AppendCancelRequest(nil, 7, []byte("abcd")),
			&CancelRequest{PID: 7, Secret: []byte("abcd")},
		},
		"cancel 3.2": {
			AppendCancelRequest(nil, 1<<31, bytes.Repeat([]byte{9}, MaxSecret)),
			&CancelRequest{PID: 1 << 31, Secret: bytes.Repeat([]byte{9}, MaxSecret)},
		},
		"no parameters": {packet(v30 + "\x00"), &Startup{Major: 3}},
		"in order": {
			packet(v32 + "user\x00u\x00zeta\x001\x00alpha\x00\x00\x00"),
			&Startup{Major: 3, Minor: 2, Params: []Param{{"user", "u"}, {"zeta", "1"}, {"alpha", ""}}},
		},
		"the last of a name counts": {
			packet(v30 + "user\x00u\x00a\x001\x00user\x00v\x00a\x002\x00a\x003\x00\x00"),
			&Startup{Major: 3, Params: []Param{{"user", "v"}, {"a", "3"}}},
		},
		"grease": {
			packet("\x00\x03\x27\x0f" + "user\x00u\x00_pq_.test\x00\x00_pq_.x\x00y\x00\x00"),
			&Startup{Major: 3, Minor: 9999, Params: []Param{{"user", "u"}}, Unknown: []string{"_pq_.test", "_pq_.x"}},
		},
		"largest": {
			packet(v30 + "a\x00" + strings.Repeat("x", MaxStartup-8) + "\x00\x00"),
			&Startup{Major: 3, Params: []Param{{"a", strings.Repeat("x", MaxStartup-8)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := bytes.NewReader(append(tc.in, "next"...))
			got, err := ReadStartup(iotest.OneByteReader(in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
			if rest, _ := io.ReadAll(in); string(rest) != "next" {
				t.Errorf("left %q of what follows", rest)
			}
		})
	}
}

func TestReadStartupRefuses(t *testing.T) {
	const (
		length = "invalid length of startup packet"
		layout = "invalid startup packet layout: expected terminator as last byte"
		secret = "invalid length of cancel key in cancel request packet"
	)
	for name, tc := range map[string]struct {
		in            []byte
		code, message string
	}{
		"length 0":              {[]byte{0, 0, 0, 0}, "08P01", length},
		"length 7":              {[]byte{0, 0, 0, 7, 0, 3, 0}, "08P01", length},
		"one too long":          {[]byte{0, 0, 0x27, 0x15}, "08P01", length},
		"negative length":       {[]byte{0xff, 0xff, 0xff, 0xff}, "08P01", length},
		"TLS":                   {[]byte{0x16, 3, 1, 0}, "08P01", length},
		"no terminator":         {packet(v30), "08P01", layout},
		"name without end":      {packet(v30 + "user"), "08P01", layout},
		"name without value":    {packet(v30 + "user\x00"), "08P01", layout},
		"value without end":     {packet(v30 + "user\x00u"), "08P01", layout},
		"value but no end":      {packet(v30 + "user\x00u\x00"), "08P01", layout},
		"bytes after the end":   {packet(v30 + "user\x00u\x00\x00\x00"), "08P01", layout},
		"ssl with a body":       {packet("\x04\xd2\x16\x2f\x00"), "08P01", length},
		"gssenc with a body":    {packet("\x04\xd2\x16\x30\x00"), "08P01", length},
		"cancel without pid":    {packet("\x04\xd2\x16\x2eabc"), "08P01", "invalid length of cancel request packet"},
		"cancel without secret": {packet("\x04\xd2\x16\x2e\x00\x00\x00\x01"), "08P01", secret},
		"cancel, secret too short": {
			packet("\x04\xd2\x16\x2e\x00\x00\x00\x01abc"), "08P01", secret,
		},
		"cancel, secret too long": {
			packet("\x04\xd2\x16\x2e\x00\x00\x00\x01" + strings.Repeat("x", MaxSecret+1)), "08P01", secret,
		},
		"protocol 2.0": {
			packet("\x00\x02\x00\x00" + strings.Repeat("\x00", 288)), "0A000",
			"unsupported frontend protocol 2.0: server supports 3.0 to 3.2",
		},
		"protocol 4.0": {
			packet("\x00\x04\x00\x00\x00"), "0A000",
			"unsupported frontend protocol 4.0: server supports 3.0 to 3.2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := ReadStartup(bytes.NewReader(tc.in))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v, %v", p, err)
			}
			if e.Severity != "FATAL" || e.Code != tc.code || e.Message != tc.message {
				t.Errorf("%v", e)
			}
		})
	}
}

func TestReadStartupEnds(t *testing.T) {
	whole := packet(v30 + "user\x00u\x00\x00")
	for n := range whole {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		if _, err := ReadStartup(bytes.NewReader(whole[:n])); err != want {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", 70)
	for _, tc := range []struct {
		params         []Param
		user, database string
	}{
		{[]Param{{"user", "u"}}, "u", "u"},
		{[]Param{{"user", "u"}, {"database", ""}}, "u", "u"},
		{[]Param{{"database", "d"}, {"user", "u"}}, "u", "d"},
		{[]Param{{"user", long}, {"database", long + "x"}}, long[:63], long[:63]},
		{[]Param{{"USER", "u"}}, "", ""},
		{[]Param{{"user", ""}}, "", ""},
		{nil, "", ""},
	} {
		s := &Startup{Params: tc.params}
		user, database, err := s.Names()
		if user != tc.user || database != tc.database || (err == nil) != (tc.user != "") {
			t.Errorf("%v: %q, %q, %v", tc.params, user, database, err)
		}
		if err != nil && err.Code != "28000" {
			t.Errorf("%v: %v", tc.params, err)
		}
	}
}

func TestAppendStartupRefuses(t *testing.T) {
	for name, ps := range map[string][]Param{
		"zero byte in a value": {{"application_name", "x\x00user\x00postgres"}},
		"zero byte in a name":  {{"x\x00user", "postgres"}},
		"empty name":           {{"", "x"}},
		"too large":            {{"a", strings.Repeat("x", MaxStartup)}},
	} {
		out, err := AppendStartup([]byte("before"), 0, ps)
		if err == nil || string(out) != "before" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
	if _, err := AppendStartup(nil, 0, []Param{{"password", "secret\x00"}}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("the error tells the value: %v", err)
	}
	if out, err := AppendStartup(nil, 0, []Param{{"a", strings.Repeat("x", MaxStartup-8)}}); err != nil || len(out) != MaxStartup+4 {
		t.Errorf("the largest: %d bytes, %v", len(out), err)
	}
}

func TestNegotiation(t *testing.T) {
	for name, tc := range map[string]struct {
		s      Startup
		speaks uint16
		want   *Negotiation
	}{
		"3.0":         {Startup{Major: 3}, 0, nil},
		"3.1 is 3.0":  {Startup{Major: 3, Minor: 1}, 0, nil},
		"3.2":         {Startup{Major: 3, Minor: 2}, 2, nil},
		"3.3":         {Startup{Major: 3, Minor: 3}, 2, &Negotiation{Major: 3, Minor: 2}},
		"grease":      {Startup{Major: 3, Minor: 9999}, 2, &Negotiation{Major: 3, Minor: 2}},
		"option, 3.0": {Startup{Major: 3, Unknown: []string{"_pq_.a", "_pq_.b"}}, 0, &Negotiation{Major: 3, Unknown: []string{"_pq_.a", "_pq_.b"}}},
		"option, 3.1": {Startup{Major: 3, Minor: 1, Unknown: []string{"_pq_.a"}}, 0, &Negotiation{Major: 3, Minor: 1, Unknown: []string{"_pq_.a"}}},
		"option, 3.9": {Startup{Major: 3, Minor: 9, Unknown: []string{"_pq_.a"}}, 2, &Negotiation{Major: 3, Minor: 2, Unknown: []string{"_pq_.a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.s.Speaks(); got != tc.speaks {
				t.Errorf("speaks 3.%d", got)
			}
			msg := tc.s.AppendNegotiation(nil)
			if tc.want == nil {
				if len(msg) > 0 {
					t.Errorf("answered %q", msg)
				}
				return
			}
			typ, body, err := ReadMessage(bytes.NewReader(msg), 1000)
			if err != nil || typ != MsgNegotiateProtocolVersion {
				t.Fatal(typ, err)
			}
			got, err := ParseNegotiation(body)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(*tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseNegotiationRefuses(t *testing.T) {
	for _, body := range []string{
		"", "\x00\x03\x00\x00\x00\x00\x00", "\x00\x03\x00\x00\x00\x00\x00\x01", "\x00\x03\x00\x00\x00\x00\x00\x01a",
		"\x00\x03\x00\x00\xff\xff\xff\xffa\x00", "\x00\x03\x00\x00\x00\x00\x00\x00a\x00",
	} {
		if n, err := ParseNegotiation([]byte(body)); err == nil {
			t.Errorf("%q: %v", body, n)
		}
	}
}
