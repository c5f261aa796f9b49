package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

func TestParsePhases(t *testing.T) {
	got, err := ParsePhases("80x5s, 0.5x1m")
	if diff := cmp.Diff([]Phase{{Rate: 80, For: 5 * time.Second}, {Rate: 0.5, For: time.Minute}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got[0].String() != "80x5s" || got[0].Title() != "80/s" || (Phase{Name: "calm"}).Title() != "calm" {
		t.Error(got[0].String(), got[0].Title())
	}
	for _, text := range []string{"", "80", "80x", "x5s", "-1x5s", "80x0s", "80x-1s", "NaNx5s", "Infx5s", "80x5s,", "80x5"} {
		if got, err := ParsePhases(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestParseSmallThings(t *testing.T) {
	for text, want := range map[string]Work{"50ms": {50 * time.Millisecond, 0}, "lognormal:2s:0.5": {2 * time.Second, 0.5}, "lognormal:1s": {time.Second, 1}} {
		if got, err := ParseWork(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Retry{
		"none": {}, "3@100ms": {Most: 3, Delay: 100 * time.Millisecond},
		"2@1s+hint+doubling": {2, time.Second, true, true},
	} {
		if got, err := ParseRetry(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]float64{"25%": 0.25, "0.5": 0.5, "0": 0} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Query{
		"SELECT 1":               {Statements: []string{"SELECT 1"}, Weight: 1},
		"0.5x BEGIN; SELECT 1; ": {Statements: []string{"BEGIN", "SELECT 1"}, Weight: 0.5},
		"SELECT a x FROM b":      {Statements: []string{"SELECT a x FROM b"}, Weight: 1},
	} {
		got, err := ParseQuery(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for what, err := range map[string]error{
		"work": second(ParseWork("fast")), "sigma": second(ParseWork("lognormal:1s:-1")), "negative work": second(ParseWork("-1s")),
		"retry": second(ParseRetry("3")), "retry word": second(ParseRetry("3@1s+often")), "retries": second(ParseRetry("101@1s")),
		"share": second(ParseShare("-1%")), "no share": second(ParseShare("")), "query": second(ParseQuery(" ; ")),
		"tell": second(ParseTell("shout")), "protocol": second(ParseProtocol("")), "leave": second(ParseLeave("stay")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNamesComeBack(t *testing.T) {
	for i := range tellNames() {
		if got, err := ParseTell(Tell(i).String()); err != nil || got != Tell(i) {
			t.Error(got, err)
		}
	}
	for i := range protocolNames() {
		if got, err := ParseProtocol(Protocol(i).String()); err != nil || got != Protocol(i) {
			t.Error(got, err)
		}
	}
	for i := range leaveNames() {
		if got, err := ParseLeave(Leave(i).String()); err != nil || got != Leave(i) {
			t.Error(got, err)
		}
	}
	for o := range Outcomes {
		if o.String() == "unknown" {
			t.Errorf("outcome %d has no name", o)
		}
	}
	if Outcomes.String() != "unknown" {
		t.Error(Outcomes.String())
	}
}

func TestParseStream(t *testing.T) {
	base := Stream{Patience: time.Second, Queries: []Query{{Statements: []string{"SELECT 2"}, Work: Work{Mean: time.Second}}}}
	s := base
	err := s.ParseStream(`name=web share=25% class=critical tenant=a,b by_name=true deadline=1 trace=false tell=set protocol=prepared ` +
		`patience=2s leave=walk retry=2@5ms churn=3 read_rate=100 user=u password='p w' database=d application_name=app ` +
		`query='3x SELECT \'x\'' page=4 pause=5ms go_on=true work=lognormal:9ms:2 query='SELECT 4'`)
	if err != nil {
		t.Fatal(err)
	}
	both := Query{Statements: []string{"SELECT 'x'"}, Repeat: 4, Pause: 5 * time.Millisecond, GoOn: true, Weight: 3, Work: Work{9 * time.Millisecond, 2}}
	other := both
	other.Statements, other.Weight = []string{"SELECT 4"}, 1
	want := Stream{
		Name: "web", Share: 0.25, Class: "critical", Tenants: []string{"a", "b"}, NameTenants: true, Deadline: true, Tell: BySet,
		Protocol: Prepared, Patience: 2 * time.Second, Leave: Walk, Retry: Retry{Most: 2, Delay: 5 * time.Millisecond}, Churn: 3, ReadRate: 100,
		User: "u", Password: "p w", Database: "d", Application: "app", Queries: []Query{both, other},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if base.Queries[0].Repeat != 0 {
		t.Error("the query of another stream was changed")
	}
	if s := base; s.ParseStream("clients=2 each=3 think=1s rate=0 tenants=3 work=2s") != nil || s.Clients != 2 || s.Each != 3 ||
		s.Think != time.Second || !slices.Equal(s.Tenants, []string{"t1", "t2", "t3"}) || s.Queries[0].Work.Mean != 2*time.Second {
		t.Errorf("%+v", s)
	}
	for _, text := range []string{
		"x", "x=1", "name", "share=a", "query='SELECT 1", "deadline=maybe", "clients=two", "think=1", "tenants=0", "a b=c", "=1",
		"query=", "work=x", "retry=x", "rate=x", "tell=x", "protocol=x", "leave=x", "patience=x",
	} {
		if s := base; s.ParseStream(text) == nil {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestConninfoNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, value := rapid.StringMatching(`[a-z_]{1,9}`).Draw(t, "key"), rapid.String().Draw(t, "value")
		quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value)
		words, err := conninfo(key + "='" + quoted + "'")
		if err != nil || len(words) != 1 || words[0] != [2]string{key, value} {
			t.Fatalf("%q, %v", words, err)
		}
		_, _ = conninfo(value) // whatever comes of it
	})
}

func TestCheckRefuses(t *testing.T) {
	good := func() *Load {
		return &Load{Phases: []Phase{{Rate: 1, For: time.Second}}, Streams: []Stream{{Share: 1, Queries: nap(0)}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Load, *Stream){
		"no stream":          func(l *Load, _ *Stream) { l.Streams = nil },
		"rate":               func(l *Load, _ *Stream) { l.Phases[0].Rate = -1 },
		"no time":            func(l *Load, _ *Stream) { l.Phases[0].For = 0 },
		"too much":           func(l *Load, _ *Stream) { l.Phases[0] = Phase{Rate: 1e6, For: time.Hour} },
		"same name":          func(l *Load, s *Stream) { l.Streams = append(l.Streams, *s) },
		"class":              func(_ *Load, s *Stream) { s.Class = "vip" },
		"no share":           func(_ *Load, s *Stream) { s.Share = 0 },
		"wrong share":        func(_ *Load, s *Stream) { s.Share = math.NaN() },
		"share of clients":   func(_ *Load, s *Stream) { s.Clients = 1 },
		"each of nobody":     func(_ *Load, s *Stream) { s.Each = 1 },
		"share and rate":     func(_ *Load, s *Stream) { s.Rate = 1 },
		"endless clients":    func(l *Load, s *Stream) { l.Phases, s.Share, s.Clients = nil, 0, 1 },
		"negative":           func(_ *Load, s *Stream) { s.Patience = -1 },
		"retries":            func(_ *Load, s *Stream) { s.Retry.Most = 101 },
		"tenant names":       func(_ *Load, s *Stream) { s.NameTenants = true },
		"no query":           func(_ *Load, s *Stream) { s.Queries = nil },
		"empty query":        func(_ *Load, s *Stream) { s.Queries[0].Statements = nil },
		"negative query":     func(_ *Load, s *Stream) { s.Queries[0].Pause = -1 },
		"weight":             func(_ *Load, s *Stream) { s.Queries[0].Weight = math.Inf(1) },
		"work":               func(_ *Load, s *Stream) { s.Queries[0].Work.Sigma = 6 },
		"own rate too large": func(_ *Load, s *Stream) { s.Share, s.Rate = 0, 2e6 },
	} {
		l := good()
		spoil(l, &l.Streams[0])
		if err := l.Check(); err == nil {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

func TestTags(t *testing.T) {
	all := told{"critical", "it's 50%/*", 250 * time.Millisecond, 2, "00-ab-cd-01"}
	for what, pair := range map[string][2]string{
		"comment":   {all.comment(), " /*pgweir.attempt='2',pgweir.class='critical',pgweir.deadline_ms='250',pgweir.tenant='it%27s%2050%25%2F%2A',traceparent='00-ab-cd-01'*/"},
		"settings":  {all.settings(), "SET pgweir.class = 'critical';SET pgweir.deadline_ms = '250';SET pgweir.tenant = 'it''s 50%/*';"},
		"options":   {all.options(), `-c pgweir.class=critical -c pgweir.deadline_ms=250 -c pgweir.tenant=it's\ 50%/*`},
		"nothing":   {told{attempt: 1}.comment() + told{}.settings() + told{}.options(), ""},
		"some":      {told{tenant: "a"}.comment(), " /*pgweir.tenant='a'*/"},
		"filled":    {filler{1000, "seq"}.fill("{seconds} {loops} {id} {count} {x}", Arrival{Work: 1500 * time.Millisecond, ID: 7}), "1.5 1500000 7 nextval('seq') {x}"},
		"uncounted": {filler{}.fill("{count} {loops}", Arrival{}), "0 1"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, want %s", what, pair[0], pair[1])
		}
	}
	s := Stream{Class: "sheddable", Tenants: []string{"a", "b"}, Patience: time.Second, Deadline: true}
	if got := s.told(1); got != (told{"sheddable", "b", time.Second, 1, ""}) {
		t.Errorf("%+v", got)
	}
	s.NameTenants, s.Deadline = true, false
	if got := s.told(1); got != (told{"sheddable", "", 0, 1, ""}) {
		t.Errorf("%+v", got)
	}
}

func TestJudge(t *testing.T) {
	pg := func(severity, code, message, detail string) error {
		return &pgconn.PgError{Severity: severity, Code: code, Message: message, Detail: detail}
	}
	for name, c := range map[string]struct {
		err   error
		what  Outcome
		cause Cause
	}{
		"served":            {nil, Served, Cause{}},
		"pgweir":            {pg("ERROR", "53300", "pgweir: no", "reason=queue_age pool=a"), Refused, Cause{"53300", "queue_age", false}},
		"deadline":          {pg("ERROR", "57014", "pgweir: late", "reason=deadline"), Refused, Cause{"57014", "deadline", false}},
		"cancelled":         {pg("ERROR", "57014", "canceling statement due to user request", ""), Stopped, Cause{"57014", "", false}},
		"pgbouncer":         {pg("FATAL", "08P01", "query_wait_timeout", ""), Refused, Cause{"08P01", "query_wait_timeout", true}},
		"full server":       {pg("FATAL", "53300", "sorry, too many clients already", ""), Refused, Cause{"53300", "", true}},
		"starting":          {pg("FATAL", "57P03", "the database system is starting up", ""), Refused, Cause{"57P03", "", true}},
		"division":          {pg("ERROR", "22012", "division by zero", ""), Failed, Cause{"22012", "", false}},
		"no code":           {pg("ERROR", "", "what", ""), Failed, Cause{"", "what", false}},
		"patience":          {fmt.Errorf("read: %w", os.ErrDeadlineExceeded), GaveUp, Cause{Reason: "patience"}},
		"closed":            {io.ErrUnexpectedEOF, Failed, Cause{Reason: "connection closed"}},
		"reset":             {syscall.ECONNRESET, Failed, Cause{Reason: "connection closed"}},
		"refused":           {syscall.ECONNREFUSED, Failed, Cause{Reason: "connection refused"}},
		"anything":          {errors.New("what"), Failed, Cause{Reason: "other error"}},
		"no session":        {errNoSession, Unsent, Cause{Reason: "no free connection"}},
		"answer before end": {errors.Join(pg("ERROR", "53300", "pgweir: no", "reason=x"), os.ErrDeadlineExceeded), Refused, Cause{"53300", "x", false}},
	} {
		if what, cause := judge(c.err); what != c.what || cause != c.cause {
			t.Errorf("%s: %v %+v", name, what, cause)
		}
	}
	if text := (Cause{"08P01", "query_wait_timeout", true}).String(); text != "08P01 query_wait_timeout (FATAL)" {
		t.Error(text)
	}
}

func TestRetryPauses(t *testing.T) {
	hinted := func(hint string) error { return &pgconn.PgError{Code: "53300", Hint: hint} }
	plain := Retry{Most: 2, Delay: 100 * time.Millisecond}
	doubling, honest := plain, plain
	doubling.Doubling, honest.Honour = true, true
	for name, c := range map[string]struct {
		retry Retry
		n     int
		err   error
		want  time.Duration
		again bool
	}{
		"none":             {Retry{}, 1, io.EOF, 0, false},
		"first":            {plain, 1, io.EOF, 50 * time.Millisecond, true},
		"second":           {plain, 2, io.EOF, 50 * time.Millisecond, true},
		"enough":           {plain, 3, io.EOF, 0, false},
		"hint ignored":     {plain, 1, hinted("retry_after_ms=900 retry=no"), 50 * time.Millisecond, true},
		"doubled":          {doubling, 2, io.EOF, 100 * time.Millisecond, true},
		"hint":             {honest, 1, hinted("retry_after_ms=900 retry=yes"), 900 * time.Millisecond, true},
		"of no use":        {honest, 1, hinted("retry_after_ms=900 retry=no"), 0, false},
		"of no use, plain": {honest, 1, hinted("retry=no"), 0, false},
		"no hint":          {honest, 1, hinted("try later"), 50 * time.Millisecond, true},
		"wrong hint":       {honest, 1, hinted("retry_after_ms=-1"), 50 * time.Millisecond, true},
	} {
		if got, again := c.retry.pause(c.n, c.err, 0.5); got != c.want || again != c.again {
			t.Errorf("%s: %v, %v", name, got, again)
		}
	}
}
