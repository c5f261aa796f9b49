package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseParameterStatus(t *testing.T) {
	body := AppendParameterStatus(nil, "TimeZone", "")[HeaderLen:]
	if p, err := ParseParameterStatus(body); err != nil || p != (Param{"TimeZone", ""}) {
		t.Errorf("%v, %v", p, err)
	}
	for _, bad := range []string{"", "a", "a\x00", "a\x00b", "a\x00b\x00c", "\x00b\x00", "\x00\x00"} {
		if p, err := ParseParameterStatus([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, p)
		}
	}
}

func TestParseBackendKeyData(t *testing.T) {
	for _, n := range []int{4, 32, 256} {
		secret := bytes.Repeat([]byte{7}, n)
		body := AppendBackendKeyData(nil, 1<<31|5, secret)[HeaderLen:]
		pid, got, err := ParseBackendKeyData(body)
		if err != nil || pid != 1<<31|5 || !bytes.Equal(got, secret) {
			t.Errorf("%d bytes: %d, %v, %v", n, pid, got, err)
		}
		if body[4] = 8; got[0] != 7 {
			t.Error("the secret is not a copy")
		}
	}
	for _, n := range []int{0, 3, 7, 261} {
		if _, _, err := ParseBackendKeyData(make([]byte, n)); err == nil {
			t.Errorf("accepted %d bytes", n)
		}
	}
}

func TestParseReadyForQuery(t *testing.T) {
	for _, state := range []byte{Idle, InTransaction, InFailed} {
		if got, err := ParseReadyForQuery([]byte{state}); err != nil || got != state {
			t.Errorf("%q: %q, %v", state, got, err)
		}
	}
	for _, bad := range []string{"", "X", "II", "\x00"} {
		if got, err := ParseReadyForQuery([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
}

func TestErrorFields(t *testing.T) {
	all := &Error{Severity: "FATAL", Code: "53300", Message: "m", Detail: "d", Hint: "h"}
	const noMessage = "the server sent an error without a message"
	for name, tc := range map[string]struct {
		body string
		want *Error
	}{
		"our own":            {string(AppendError(nil, all)[HeaderLen:]), all},
		"translated":         {"SFATALE\x00VFATAL\x00C53300\x00Mm\x00\x00", &Error{Severity: "FATAL", Code: "53300", Message: "m"}},
		"before 9.6":         {"SPANIC\x00CXX001\x00Mm\x00\x00", &Error{Severity: "PANIC", Code: "XX001", Message: "m"}},
		"no SQLSTATE":        {"SERROR\x00Mm\x00\x00", &Error{Severity: "ERROR", Code: "XX000", Message: "m"}},
		"no severity":        {"C42601\x00Mm\x00\x00", &Error{Severity: "ERROR", Code: "42601", Message: "m"}},
		"nothing":            {"", &Error{Severity: "ERROR", Code: "XX000", Message: noMessage}},
		"terminator only":    {"\x00", &Error{Severity: "ERROR", Code: "XX000", Message: noMessage}},
		"no terminator":      {"SFATAL\x00C28P01\x00Mm\x00", &Error{Severity: "FATAL", Code: "28P01", Message: "m"}},
		"field without end":  {"SFATAL\x00C28P01\x00Mm", &Error{Severity: "FATAL", Code: "28P01", Message: noMessage}},
		"field without text": {"SFATAL\x00C", &Error{Severity: "FATAL", Code: "XX000", Message: noMessage}},
		"unknown fields":     {"SERROR\x00?x\x00P5\x00C42601\x00Mm\x00\x00", &Error{Severity: "ERROR", Code: "42601", Message: "m"}},
		"after the end":      {"SERROR\x00\x00C42601\x00", &Error{Severity: "ERROR", Code: "XX000", Message: noMessage}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, ErrorFields([]byte(tc.body))); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestCancelKey(t *testing.T) {
	for minor, n := range map[uint16]int{0: 4, 2: 32} {
		k := NewCancelKey(0, minor)
		if k.PID == 0 || k.PID >= 1<<31 || len(k.Secret()) != n {
			t.Errorf("3.%d: pid %d, %d bytes", minor, k.PID, len(k.Secret()))
		}
		if k.Secret()[0] ^= 1; k == NewCancelKey(k.PID, minor) {
			t.Error("two keys are equal")
		}
		p, err := ReadStartup(bytes.NewReader(AppendCancelRequest(nil, k.PID, k.Secret())))
		if err != nil {
			t.Fatal(err)
		}
		r := p.(*CancelRequest)
		if !k.Matches(r) {
			t.Error("does not match itself")
		}
		for i := range r.Secret {
			r.Secret[i] ^= 1
			if k.Matches(r) {
				t.Errorf("byte %d does not count", i)
			}
			r.Secret[i] ^= 1
		}
		if k.Matches(&CancelRequest{PID: k.PID, Secret: append(k.Secret(), 0)}) {
			t.Error("a longer secret matches")
		}
		if k.Matches(&CancelRequest{PID: k.PID + 1, Secret: k.Secret()}) {
			t.Error("another pid matches")
		}
		pid, secret, err := ParseBackendKeyData(k.Append(nil)[HeaderLen:])
		if err != nil || pid != k.PID || !bytes.Equal(secret, k.Secret()) {
			t.Errorf("told %d %x, %v", pid, secret, err)
		}
	}
	if (CancelKey{}).Matches(&CancelRequest{}) {
		t.Error("the zero key matches")
	}
	if k := NewCancelKey(1<<31|9, 0); k.PID != 9 {
		t.Errorf("pid %d", k.PID)
	}
}

func TestPasswords(t *testing.T) {
	if p, err := ParsePassword([]byte("se cret\x00")); err != nil || p != "se cret" {
		t.Errorf("%q, %v", p, err)
	}
	for _, bad := range []string{"", "x", "x\x00y", "x\x00\x00"} {
		if p, err := ParsePassword([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, p)
		}
	}
	// As coreutils' md5sum computes them.
	stored := MD5Password("joe", "secret")
	if stored != "md5c59ec932d911ffdf487595b5a2adf973" {
		t.Error(stored)
	}
	if got := MD5Response(stored, [4]byte{1, 2, 3, 4}); got != "md5850be429f1fe77df3f603ac424abb440" {
		t.Error(got)
	}
	MD5Response("", [4]byte{}) // damaged, but no panic
}

func TestSASLInitial(t *testing.T) {
	body := AppendSASLInitial(nil, "SCRAM-SHA-256", []byte("n,,n=,r=x"))[HeaderLen:]
	if m, r, err := ParseSASLInitial(body); err != nil || m != "SCRAM-SHA-256" || string(r) != "n,,n=,r=x" {
		t.Errorf("%q, %q, %v", m, r, err)
	}
	if m, r, err := ParseSASLInitial([]byte("X\x00\xff\xff\xff\xff")); err != nil || m != "X" || r != nil {
		t.Errorf("%q, %q, %v", m, r, err)
	}
	for _, bad := range []string{
		"", "X", "X\x00", "X\x00\x00\x00\x00", "X\x00\x00\x00\x00\x02a", "X\x00\x00\x00\x00\x01ab",
		"X\x00\xff\xff\xff\xffa", "X\x00\x7f\xff\xff\xffa",
	} {
		_, _, err := ParseSASLInitial([]byte(bad))
		var e *Error
		if !errors.As(err, &e) || e.Code != "08P01" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMechanisms(t *testing.T) {
	_, data, err := ParseAuthentication(AppendAuthSASL(nil, "A", "B-PLUS")[HeaderLen:])
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseMechanisms(data)
	if err != nil || strings.Join(got, " ") != "A B-PLUS" {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "A", "A\x00", "\x00A\x00", "A\x00\x00\x00"} {
		if got, err := ParseMechanisms([]byte(bad)); err == nil {
			t.Errorf("%q: %q", bad, got)
		}
	}
	if _, _, err := ParseAuthentication([]byte("abc")); err == nil {
		t.Error("accepted three bytes")
	}
}
