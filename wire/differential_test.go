package wire

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v2 "github.com/jackc/pgproto3/v2"
	v5 "github.com/jackc/pgx/v5/pgproto3"
	"pgregory.net/rapid"
)

// text draws what may stand in a string on the wire.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		b := rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 20).Draw(t, "text")
		return string(b)
	})
}

func name() *rapid.Generator[string] {
	return text().Filter(func(s string) bool { return s != "" && !strings.HasPrefix(s, protocolOption) })
}

func TestStartupAsOthersReadIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := rapid.MapOfN(name(), text(), 1, 12).Draw(t, "params")
		minor := rapid.SampledFrom([]uint16{0, 2}).Draw(t, "minor")
		var list []Param
		for _, n := range slices.Sorted(maps.Keys(params)) {
			list = append(list, Param{n, params[n]})
		}
		ours, err := AppendStartup(nil, minor, list)
		if err != nil {
			t.Fatal(err)
		}
		var five v5.StartupMessage
		if err := five.Decode(ours[4:]); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(params, five.Parameters); d != "" {
			t.Error(d)
		}
		theirs, err := five.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		sameStartup(t, theirs, minor, params)
		if minor > 0 {
			return // the archived codec knows 3.0 only
		}
		var two v2.StartupMessage
		if err := two.Decode(ours[4:]); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(params, two.Parameters); d != "" {
			t.Error(d)
		}
		if theirs, err = two.Encode(nil); err != nil {
			t.Fatal(err)
		}
		sameStartup(t, theirs, minor, params)
	})
}

func sameStartup(t *rapid.T, packet []byte, minor uint16, params map[string]string) {
	t.Helper()
	p, err := ReadStartup(bytes.NewReader(packet))
	if err != nil {
		t.Fatal(err)
	}
	s := p.(*Startup)
	got := make(map[string]string)
	for _, p := range s.Params {
		got[p.Name] = p.Value
	}
	if d := cmp.Diff(params, got); d != "" || s.Minor != minor || len(s.Unknown) > 0 {
		t.Error(s.Minor, s.Unknown, d)
	}
}

func TestRequestsAsOthersReadThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pid := rapid.Uint32().Draw(t, "pid")
		secret := rapid.SliceOfN(rapid.Byte(), MinSecret, MaxSecret).Draw(t, "secret")
		var five v5.CancelRequest
		if err := five.Decode(AppendCancelRequest(nil, pid, secret)[4:]); err != nil {
			t.Fatal(err)
		}
		theirs, err := five.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		p, err := ReadStartup(bytes.NewReader(theirs))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&CancelRequest{pid, secret}, p); d != "" {
			t.Error(d)
		}
		if len(secret) != 4 {
			secret = secret[:4]
		}
		var two v2.CancelRequest
		if err := two.Decode(AppendCancelRequest(nil, pid, secret)[4:]); err != nil || two.ProcessID != pid {
			t.Error(err, two)
		}
	})
	ssl, err := (&v5.SSLRequest{}).Encode(nil)
	if err != nil || !bytes.Equal(ssl, AppendSSLRequest(nil)) {
		t.Errorf("%x, %v", ssl, err)
	}
	gss, err := (&v5.GSSEncRequest{}).Encode(nil)
	if err != nil || !bytes.Equal(gss, AppendGSSENCRequest(nil)) {
		t.Errorf("%x, %v", gss, err)
	}
}

// message is a message type of either codec.
type message interface {
	Decode([]byte) error
	Encode([]byte) ([]byte, error)
}

// same checks that each of the others reads the message, and writes it as we do.
func same(t *rapid.T, ours []byte, others ...message) {
	t.Helper()
	for _, m := range others {
		if err := recovering(m, ours[HeaderLen:]); err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		theirs, err := m.Encode(nil)
		if err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%T: %v\nours   %q\ntheirs %q", m, err, ours, theirs)
		}
	}
}

// recovering shields from the archived codec, which panics on some input.
func recovering(d message, body []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return d.Decode(body)
}

func TestFrontendMessagesAsOthersWriteThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := text().Draw(t, "a"), text().Draw(t, "b")
		what := rapid.SampledFrom([]byte{'S', 'P'}).Draw(t, "what")
		same(t, AppendQuery(nil, a), &v5.Query{}, &v2.Query{})
		same(t, AppendParse(nil, a, b+"\x00\x00\x01\x00\x00\x00\x17"), &v5.Parse{}, &v2.Parse{})
		same(t, AppendBindNone(nil, a), &v5.Bind{}, &v2.Bind{})
		same(t, AppendExecute(nil), &v5.Execute{}, &v2.Execute{})
		same(t, AppendDescribe(nil, what, a), &v5.Describe{}, &v2.Describe{})
		same(t, AppendClose(nil, what, a), &v5.Close{}, &v2.Close{})
		same(t, AppendEmpty(nil, MsgSync), &v5.Sync{}, &v2.Sync{})
		same(t, AppendEmpty(nil, MsgFlush), &v5.Flush{}, &v2.Flush{})
		same(t, AppendEmpty(nil, MsgTerminate), &v5.Terminate{}, &v2.Terminate{})
		same(t, AppendEmpty(nil, MsgCopyDone), &v5.CopyDone{}, &v2.CopyDone{})
		same(t, AppendCopyFail(nil, a), &v5.CopyFail{}, &v2.CopyFail{})
		same(t, AppendPassword(nil, a), &v5.PasswordMessage{}, &v2.PasswordMessage{})
		same(t, AppendMessage(nil, MsgPassword, []byte(a)), &v5.SASLResponse{}, &v2.SASLResponse{})
		if a != "" && b != "" { // they write an empty response as none
			same(t, AppendSASLInitial(nil, a, []byte(b)), &v5.SASLInitialResponse{}, &v2.SASLInitialResponse{})
		}
	})
}

func TestBackendMessagesAsOthersWriteThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := text().Draw(t, "a"), text().Draw(t, "b")
		state := rapid.SampledFrom([]byte{Idle, InTransaction, InFailed}).Draw(t, "state")
		salt := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "salt")
		same(t, AppendReadyForQuery(nil, state), &v5.ReadyForQuery{}, &v2.ReadyForQuery{})
		same(t, AppendCommandComplete(nil, a), &v5.CommandComplete{}, &v2.CommandComplete{})
		same(t, AppendParameterStatus(nil, a, b), &v5.ParameterStatus{}, &v2.ParameterStatus{})
		same(t, AppendEmpty(nil, MsgParseComplete), &v5.ParseComplete{}, &v2.ParseComplete{})
		same(t, AppendEmpty(nil, MsgBindComplete), &v5.BindComplete{}, &v2.BindComplete{})
		same(t, AppendEmpty(nil, MsgCloseComplete), &v5.CloseComplete{}, &v2.CloseComplete{})
		same(t, AppendEmpty(nil, MsgNoData), &v5.NoData{}, &v2.NoData{})
		same(t, AppendEmpty(nil, MsgEmptyQueryResponse), &v5.EmptyQueryResponse{}, &v2.EmptyQueryResponse{})
		same(t, AppendEmpty(nil, MsgPortalSuspended), &v5.PortalSuspended{}, &v2.PortalSuspended{})
		same(t, AppendBackendKeyData(nil, 1<<31|7, salt), &v5.BackendKeyData{}, &v2.BackendKeyData{})
		same(t, AppendBackendKeyData(nil, 7, bytes.Repeat(salt, 64)), &v5.BackendKeyData{})
		same(t, AppendAuthentication(nil, AuthOK, nil), &v5.AuthenticationOk{}, &v2.AuthenticationOk{})
		same(t, AppendAuthentication(nil, AuthCleartext, nil), &v5.AuthenticationCleartextPassword{}, &v2.AuthenticationCleartextPassword{})
		same(t, AppendAuthentication(nil, AuthMD5, salt), &v5.AuthenticationMD5Password{}, &v2.AuthenticationMD5Password{})
		same(t, AppendAuthSASL(nil, "A"+a, "B"), &v5.AuthenticationSASL{}, &v2.AuthenticationSASL{})
		same(t, AppendAuthentication(nil, AuthSASLContinue, []byte(a)), &v5.AuthenticationSASLContinue{}, &v2.AuthenticationSASLContinue{})
		same(t, AppendAuthentication(nil, AuthSASLFinal, []byte(a)), &v5.AuthenticationSASLFinal{}, &v2.AuthenticationSASLFinal{})
		s := Startup{Major: 3, Minor: 9999, Unknown: []string{a, b}}
		same(t, s.AppendNegotiation(nil), &v5.NegotiateProtocolVersion{})
	})
}

func TestErrorsAsOthersReadThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := text().Filter(func(s string) bool { return s != "" })
		e := &Error{
			Severity: some.Draw(t, "severity"), Code: some.Draw(t, "code"), Message: some.Draw(t, "message"),
			Detail: text().Draw(t, "detail"), Hint: text().Draw(t, "hint"),
		}
		var five v5.ErrorResponse
		if err := five.Decode(AppendError(nil, e)[HeaderLen:]); err != nil {
			t.Fatal(err)
		}
		got := &Error{five.SeverityUnlocalized, five.Code, five.Message, five.Detail, five.Hint}
		if d := cmp.Diff(e, got); d != "" {
			t.Error(d)
		}
		theirs, err := (&v5.NoticeResponse{
			Severity: "other", SeverityUnlocalized: e.Severity, Code: e.Code, Message: e.Message, Detail: e.Detail,
			Hint: e.Hint, Position: 3, Where: "somewhere", Line: 9, UnknownFields: map[byte]string{'?': "x"},
		}).Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, ErrorFields(theirs[HeaderLen:])); d != "" {
			t.Error(d)
		}
		var two v2.NoticeResponse
		if err := recovering(&two, AppendNotice(nil, e)[HeaderLen:]); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(e, &Error{two.Severity, two.Code, two.Message, two.Detail, two.Hint}); d != "" {
			t.Error(d)
		}
	})
}

// TestArchivedCodecStillPanics keeps the reason on record why the archived codec
// must stay out of binaries, and shows that what it falls over cannot reach a
// parser of ours: we never read these messages, and delimit them by length.
func TestArchivedCodecStillPanics(t *testing.T) {
	minusTwo := "\xff\xff\xff\xfe"
	for _, tc := range []struct {
		two, five message
		body      string
	}{
		{&v2.DataRow{}, &v5.DataRow{}, "\x00\x01" + minusTwo},
		{&v2.Bind{}, &v5.Bind{}, "\x00\x00\x00\x00\x00\x01" + minusTwo + "\x00\x00"},
		{&v2.FunctionCall{}, &v5.FunctionCall{}, "\x00\x00\x00\x01\x00\x00\x00\x01" + minusTwo + "\x00\x00"},
	} {
		if err := recovering(tc.two, []byte(tc.body)); err == nil || !strings.HasPrefix(err.Error(), "panic:") {
			t.Errorf("%T: %v", tc.two, err)
		}
		if err := tc.five.Decode([]byte(tc.body)); err == nil {
			t.Errorf("%T accepts it", tc.five)
		}
		msg := AppendMessage(nil, 'x', []byte(tc.body))
		if _, body, err := ReadMessage(bytes.NewReader(msg), 100); err != nil || string(body) != tc.body {
			t.Errorf("%T: %q, %v", tc.two, body, err)
		}
	}
}
