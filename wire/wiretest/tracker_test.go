package wiretest

import (
	"testing"

	"github.com/pgweir/pgweir/wire"
)

// TestTrackerKnowsWhatIsMissing plays short dialogues; after each answer the
// tracker has to say whether more will come.
func TestTrackerKnowsWhatIsMissing(t *testing.T) {
	copyText := AppendParse(nil, "", "copy t from stdin")
	copyText = AppendExecute(AppendBind(copyText, Bind{}), "", 0)
	for _, c := range []struct {
		name    string
		sent    []byte
		answers string // types, E for ERROR; state after each: . open, ! settled, ? unsure
		after   string
	}{
		{"query", wire.AppendQuery(nil, ""), "TDCZ", "...!"},
		{"failed query", wire.AppendQuery(nil, ""), "EZ", ".!"},
		{"two queries", wire.AppendQuery(wire.AppendQuery(nil, ""), ""), "IZIZ", "...!"},
		{"batch", wire.AppendEmpty(copyText, wire.MsgSync), "12CZ", "...!"},
		{"failed batch", wire.AppendEmpty(copyText, wire.MsgSync), "EZ", ".!"},
		{"batch without Sync", copyText, "1E", ".!"},
		{"describe", wire.AppendDescribe(nil, 'S', ""), "tT", ".!"},
		{"simple copy", wire.AppendEmpty(wire.AppendQuery(nil, ""), wire.MsgCopyDone), "GCZ", "..!"},
		{"two copies", appendTypes(wire.AppendQuery(nil, ""), "cc"), "GCGCZ", "....!"},
		{"failed copy, late data", appendTypes(wire.AppendQuery(nil, ""), "dddc"), "GEZ", "..!"},
		{"extended copy", appendTypes(copyText, "dcS"), "12GCZ", "....!"},
		{"early Sync is read", appendTypes(copyText, "SdcS"), "12GCZ", "....!"},
		{"early Sync, failed", appendTypes(copyText, "SdcS"), "12GE", "...?"},
		{"late Sync, failed", appendTypes(copyText, "dcS"), "12GEZ", "....!"},
		{"failed before it began", appendTypes(copyText, "SdcS"), "1EZZ", "...!"},
		{"function", AppendFunctionCall(nil, 1), "VZ", ".!"},
	} {
		tr := &Tracker{}
		tr.Sent(c.sent)
		for i := range len(c.answers) {
			tr.Received(answer(c.answers[i]))
			state := byte('.')
			switch {
			case tr.Unsure():
				state = '?'
			case tr.Settled():
				state = '!'
			}
			if state != c.after[i] {
				t.Errorf("%s: after %q the state is %q", c.name, c.answers[:i+1], state)
			}
		}
	}
}

// A COPY waits for data until its end was sent, and in a batch flushed.
func TestTrackerFlushed(t *testing.T) {
	for _, c := range []struct {
		name string
		sent []byte
		want bool
	}{
		{"waits for data", AppendExecute(nil, "", 0), true},
		{"not flushed", appendTypes(AppendExecute(nil, "", 0), "dc"), true},
		{"flushed", appendTypes(AppendExecute(nil, "", 0), "dcH"), false},
		{"synced", appendTypes(AppendExecute(nil, "", 0), "dfS"), false},
		{"simple", appendTypes(wire.AppendQuery(nil, ""), "dc"), false},
	} {
		tr := &Tracker{}
		tr.Sent(c.sent)
		tr.Received(answer('G'))
		if tr.Flushed() != c.want {
			t.Errorf("%s: flushed %v", c.name, !c.want)
		}
	}
}

func TestTrackerResyncs(t *testing.T) {
	tr := &Tracker{}
	sent := AppendExecute(nil, "", 0)
	tr.Sent(appendTypes(sent, "SdcS"))
	for _, c := range []byte("GEZZ") {
		tr.Received(answer(c))
	}
	if !tr.Unsure() {
		t.Fatal("not unsure")
	}
	tr.Sent(tr.Resync())
	for i, c := range []byte("Z3Z") {
		if tr.Settled() {
			t.Fatalf("settled after %d", i)
		}
		tr.Received(answer(c))
	}
	if n, state := tr.Ready(); !tr.Settled() || n != 4 || state != wire.Idle {
		t.Errorf("settled %v, %d ReadyForQuery, state %q", tr.Settled(), n, state)
	}
}

func TestTrackerEnds(t *testing.T) {
	for name, f := range map[string]func(*Tracker){
		"FATAL": func(tr *Tracker) {
			tr.Received(wire.AppendError(nil, &wire.Error{Severity: "FATAL", Code: "57P01", Message: "x"}))
		},
		"Terminate": func(tr *Tracker) { tr.Sent(wire.AppendEmpty(nil, wire.MsgTerminate)) },
	} {
		tr := &Tracker{}
		tr.Sent(wire.AppendQuery(nil, ""))
		f(tr)
		if !tr.Ended() || !tr.Settled() {
			t.Errorf("%s does not end it", name)
		}
	}
}

func appendTypes(dst []byte, types string) []byte {
	dst = append([]byte(nil), dst...)
	for i := range len(types) {
		dst = wire.AppendEmpty(dst, types[i])
	}
	return dst
}

func answer(typ byte) []byte {
	switch typ {
	case wire.MsgErrorResponse:
		return wire.AppendError(nil, &wire.Error{Severity: "ERROR", Code: "XX000", Message: "x"})
	case wire.MsgReadyForQuery:
		return wire.AppendReadyForQuery(nil, wire.Idle)
	}
	return wire.AppendEmpty(nil, typ)
}
