package parity

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// answerOf is a stream of a server: a login, a row, an error.
func answerOf(row string, e *wire.Error) []byte {
	b := wire.AppendReadyForQuery(wire.AppendParameterStatus(nil, "application_name", ""), wire.Idle)
	b = wire.AppendMessage(b, wire.MsgDataRow, []byte(row))
	b = wire.AppendError(b, e)
	return wire.AppendReadyForQuery(b, wire.Idle)
}

// The comparison sees what it is there for.
func TestDifference(t *testing.T) {
	plain := &wire.Error{Severity: "ERROR", Code: "22012", Message: "division by zero"}
	other := &wire.Error{Severity: "ERROR", Code: "22003", Message: "division by zero"}
	placed := func(line string) []byte {
		return wire.AppendMessage(nil, wire.MsgErrorResponse, []byte("SERROR\x00CXX000\x00Msorry\x00Fx.c\x00L"+line+"\x00Rf\x00\x00"))
	}
	for name, c := range map[string]struct {
		direct, through []byte
		want            []string
	}{
		"equal":                         {answerOf("1", plain), answerOf("1", plain), nil},
		"a row":                         {answerOf("1", plain), answerOf("2", plain), []string{`- a DataRow "1"`, `+ a DataRow "2"`}},
		"a code":                        {answerOf("1", plain), answerOf("1", other), []string{`- a ErrorResponse S="ERROR" V="ERROR" C="22012" M="division by zero"`, `+ a ErrorResponse S="ERROR" V="ERROR" C="22003" M="division by zero"`}},
		"one more":                      {nil, wire.AppendReadyForQuery(nil, 'I'), []string{`+ a ReadyForQuery "I"`}},
		"the end is missing":            {wire.AppendReadyForQuery(nil, 'I'), wire.AppendReadyForQuery(nil, 'I')[:3], []string{`- a ReadyForQuery "I"`, `+ a 3 bytes of no message: "\"Z\\x00\\x00\""`}},
		"a place is not known":          {placed("7"), wire.AppendMessage(nil, wire.MsgErrorResponse, []byte("SERROR\x00CXX000\x00Msorry\x00\x00")), nil},
		"another place":                 {placed("7"), placed("8"), []string{`- a ErrorResponse S="ERROR" C="XX000" M="sorry" F=x.c L=7 R=f`, `+ a ErrorResponse S="ERROR" C="XX000" M="sorry" F=x.c L=8 R=f`}},
		"long bodies with another byte": {answerOf(strings.Repeat("x", 999), plain), answerOf(strings.Repeat("x", 998)+"y", plain), []string{"-", "+"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := differing("a", frames(c.direct), frames(c.through))
			if slices.Equal(c.want, []string{"-", "+"}) {
				if len(got) != 2 {
					t.Errorf("the difference is %q", got)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The sign of life that pgweir gives to a client that has ended its sending side is left
// out, and nothing else.
func TestWithoutSigns(t *testing.T) {
	login := wire.AppendReadyForQuery(wire.AppendParameterStatus(nil, "application_name", "x"), wire.Idle)
	sign := wire.AppendParameterStatus(slices.Clone(login), "application_name", "x")
	if got := withoutSigns(frames(login), frames(sign)); !slices.Equal(got, frames(login)) {
		t.Errorf("%v is left", got)
	}
	other := wire.AppendParameterStatus(slices.Clone(login), "TimeZone", "UTC")
	if got := withoutSigns(frames(login), frames(other)); !slices.Equal(got, frames(other)) {
		t.Errorf("%v is left", got)
	}
}

func TestParseCorpusRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a line before the first":       "Q select 1",
		"no steps":                      "== empty\n% alone",
		"an unknown verb":               "== x\nNONSENSE 1",
		"an unknown attribute":          "== x\n% nonsense\nQ",
		"a difference without a reason": "== x\nQ\n- a ReadyForQuery",
		"a bad number":                  "== x\n% trap one\nQ",
		"bad hexadecimal digits":        "== x\nraw 5",
		"a bind without a statement":    "== x\nB _",
	} {
		if list, err := parseCorpus("f", text); err == nil {
			t.Errorf("%s: taken for %v", name, list)
		}
	}
}

// Refusals are found where they are.
func TestRefusalsAreFound(t *testing.T) {
	refusal := &wire.Error{Severity: "ERROR", Code: "53300", Message: "pgweir: no", Detail: "reason=queue_full pool=x"}
	other := &wire.Error{Severity: "ERROR", Code: "22012", Message: "division by zero"}
	script := "== x\nP _ begin\nB _ _\nE _\nP s select 1\nB _ s\nD P _\nE _\nS\nQ copy t from stdin\nd 1\nc\nQ select 1\nQ select 2\nQ select 3\n"
	list, err := parseCorpus("f", script)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := list[0].requests("a")
	if err != nil {
		t.Fatal(err)
	}
	b := wire.AppendCommandComplete(wire.AppendEmpty(wire.AppendEmpty(nil, wire.MsgParseComplete), wire.MsgBindComplete), "BEGIN")
	b = wire.AppendReadyForQuery(wire.AppendError(b, refusal), 'E')                                            // instead of Parse s
	b = wire.AppendMessage(b, wire.MsgCopyInResponse, []byte{0, 0, 0})                                         // the COPY takes its data
	b = wire.AppendReadyForQuery(wire.AppendCommandComplete(b, "COPY 1"), 'T')                                 //
	b = wire.AppendReadyForQuery(wire.AppendError(b, other), 'I')                                              // select 1
	b = wire.AppendReadyForQuery(wire.AppendError(b, refusal), 'I')                                            // select 2
	b = wire.AppendReadyForQuery(wire.AppendError(wire.AppendCommandComplete(b, "BEGIN"), refusal), wire.Idle) // select 3
	answers, _ := wiretest.Messages(b)
	at, err := refusals(requests, answers)
	if want := []int{3, 12, 13}; err != nil || !slices.Equal(at, want) {
		t.Errorf("found at %v, %v; want %v", at, err, want)
	}
	stumbling := list[0].stumbling(map[string][]int{"a": {3, 12}})
	got, err := stumbling.requests("a")
	if err != nil || len(got) != len(requests)+1 || got[3].Type != wire.MsgDescribe || !strings.Contains(string(got[13].Body), stumble) {
		t.Errorf("%v, %v", got, err)
	}
}
