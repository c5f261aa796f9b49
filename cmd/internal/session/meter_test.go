package session

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/admission/quota"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

const ms = int64(1e6)

// done is a server's answer to a statement.
func done() []byte { return wire.AppendReadyForQuery(wire.AppendCommandComplete(nil, "SELECT 0"), 'I') }

// ratedLab is a lab with rates.
type ratedLab struct {
	*lab
	rates  *Rates
	blocks []quota.Blocked
	alarms int
	now    int64
}

func newRatedLab(t testing.TB, list ...Rate) *ratedLab {
	t.Helper()
	l := &ratedLab{lab: newLab(t), now: 1e9}
	l.client.Address = netip.MustParseAddr("10.0.0.1")
	l.rates = NewRates(func(_ *Client, b quota.Blocked, alarm bool) {
		l.blocks = append(l.blocks, b)
		if alarm {
			l.alarms++
		}
	})
	l.rates.Reconfigure(l.now, list, Matcher{}, 1)
	l.core.SetRates(l.rates)
	return l
}

// ask has a client send a statement. It returns what the client was told at once, and whether
// a server got it; if so it was answered after it had run for some time.
func (l *ratedLab) ask(cl *Client, user *sink, runs int64) (told string, served bool) {
	return l.run(cl, user, "select work()", runs)
}

// run is ask for any statement.
func (l *ratedLab) run(cl *Client, user *sink, text string, runs int64) (told string, served bool) {
	q := wire.AppendQuery(nil, text)
	user.last = nil
	used := cl.Data(q, l.now)
	if cl.server == nil {
		if used < len(q) && !cl.HeldBack() && !cl.ended {
			return "nothing, and it waits", false
		}
		return string(user.last), false
	}
	l.now += runs
	for cl.server != nil { // settings may have gone ahead, and have to be accepted first
		cl.server.Data(done(), l.now)
		if used < len(q) {
			used += cl.Data(q[used:], l.now)
		}
	}
	return "", true
}

func (l *ratedLab) one() (told string, served bool) { return l.ask(l.client, l.user, 0) }

func TestARateRefusesAndTellsTheWait(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerTenant, PerSecond: 10, Burst: 2, Text: "10/s"})
	for i := range 2 {
		if told, ok := l.one(); !ok {
			t.Fatalf("statement %d: %q", i, told)
		}
	}
	l.now += 30*ms + 1
	told, ok := l.one()
	if ok {
		t.Fatal("the third was served")
	}
	for _, want := range []string{"ERROR", "53400", `reason=rate pool=default class=critical wait_ms=0`, `per=tenant rate="10/s"`, "retry_after_ms=70 retry=yes"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %q", want, told)
		}
	}
	if !strings.HasSuffix(told, "Z\x00\x00\x00\x05I") {
		t.Errorf("the answer ends with %q", told[len(told)-6:])
	}
	st := l.core.Gate().Stats()
	if st.Refused[admission.Rate] != 1 || len(l.env.refused) != 1 || l.env.refused[0] != admission.Rate {
		t.Errorf("counted: %v %v", st.Refused, l.env.refused)
	}
	if l.now += 70*ms - 1; func() bool { _, ok := l.one(); return !ok }() {
		t.Error("refused after the time that was told")
	}
	var s RateState
	l.rates.States(func(r RateState) { s = r })
	if s.Passed != 3 || s.Refused != 1 || s.Would != 0 || s.Keys != 1 || s.Name != "r" {
		t.Errorf("%+v", s)
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}

// Statements within a transaction are never refused, but they count.
func TestStatementsInATransactionAreDebt(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 10, Burst: 2})
	l.client.Data(wire.AppendQuery(nil, "begin"), l.now)
	l.client.Data(wire.AppendQuery(nil, "select 1"), l.now)
	ready := func(tx byte) []byte { return wire.AppendReadyForQuery(wire.AppendCommandComplete(nil, "SELECT 0"), tx) }
	began := wire.AppendCommandComplete(wire.AppendEmpty(wire.AppendEmpty(nil, '1'), '2'), "BEGIN") // ours
	l.server.Data(append(began, ready('T')...), l.now)
	for range 10 { // five times the bucket
		if n := l.client.Data(wire.AppendQuery(nil, "select 2"), l.now); n == 0 || l.client.server == nil {
			t.Fatalf("refused within a transaction: %s, told %q", l.client, l.user.last)
		}
		l.server.Data(ready('T'), l.now)
	}
	l.client.Data(wire.AppendQuery(nil, "commit"), l.now)
	l.server.Data(ready('I'), l.now)
	if l.client.server != nil {
		t.Fatal("still in the transaction")
	}
	told, ok := l.one()
	if ok || !strings.Contains(told, "retry_after_ms=300 ") { // a burst of debt, and one more
		t.Errorf("after it: served=%v %q", ok, told)
	}
}

func TestServerTimeIsCharged(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerClient, PerSecond: 0.5, Burst: 0.1, ServerTime: true, Text: "500ms/s"})
	if _, ok := l.ask(l.client, l.user, 150*ms); !ok {
		t.Fatal("the first was refused")
	}
	told, ok := l.one()
	if ok || !strings.Contains(told, "retry_after_ms=100 ") || !strings.Contains(told, `per=client rate="500ms/s"`) {
		t.Errorf("50 ms in debt at 500 ms/s: served=%v %q", ok, told)
	}
	l.now += 100 * ms
	if told, ok := l.one(); !ok {
		t.Errorf("after that time: %q", told)
	}
}

// A client that left owes what the server went on to do for it.
func TestWhoLeavesIsChargedToo(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 0.5, Burst: 0.1, ServerTime: true})
	q := wire.AppendQuery(nil, "select work()")
	l.client.Data(q, l.now)
	l.client.Lost(l.now)
	other := &sink{}
	cl := l.login(other, 2)
	l.now += 150 * ms
	l.server.Data(done(), l.now)
	if told, ok := l.ask(cl, other, 0); ok || !strings.Contains(told, "retry_after_ms=100 ") {
		t.Errorf("served=%v %q", ok, told)
	}
}

// Of several rates all must have room; the refusal takes nothing from those that have.
func TestAllRatesMustAgree(t *testing.T) {
	l := newRatedLab(t,
		Rate{Name: "role", Per: PerRole, PerSecond: 1, Burst: 5},
		Rate{Name: "tenant", Per: PerTenant, PerSecond: 1, Burst: 2},
		Rate{Name: "another tenant's", Per: PerTenant, PerSecond: 1, Burst: 1}, // not the first
	)
	served := 0
	for range 10 {
		if _, ok := l.one(); ok {
			served++
		}
	}
	if served != 2 {
		t.Errorf("%d served, want the 2 of the tenant", served)
	}
	var left int
	b := l.rates.limiter.Bucket(0, "role", "")
	for l.rates.limiter.Wait(l.now, &b, 1) == 0 {
		l.rates.limiter.Charge(l.now, &b, 1)
		left++
	}
	if left != 3 {
		t.Errorf("%d left for the role, want 3", left)
	}
}

func TestDryRunLetsPass(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 2, Mode: admission.DryRun, Escalation: quota.Block},
		Rate{Name: "off", Per: PerTenant, PerSecond: 1, Burst: 1, Mode: admission.Off})
	for range 300 {
		if told, ok := l.one(); !ok {
			t.Fatalf("refused: %q", told)
		}
	}
	var list []RateState
	l.rates.States(func(r RateState) { list = append(list, r) })
	if list[0].Passed != 2 || list[0].Would != 298 || list[1].RateCounts != (RateCounts{}) {
		t.Errorf("%+v", list)
	}
}

// A probe is never refused, and takes nothing: a pool that sends one before each use would
// leave nothing for the work.
func TestProbesPass(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 2})
	q := wire.AppendQuery(nil, "select 1")
	reply := answer(q)
	for i := range 20 {
		if l.client.Data(q, l.now); l.client.server == nil {
			t.Fatalf("probe %d was refused: %q", i, l.user.last)
		}
		l.server.Data(reply, l.now)
	}
	for i := range 3 {
		if _, ok := l.one(); ok != (i < 2) {
			t.Errorf("statement %d of a burst of 2 behind the probes: %v", i, ok)
		}
	}
}

// A reload that changes no name keeps what was taken; one that takes the rates away frees
// whoever was kept to them.
func TestRatesAfterAReload(t *testing.T) {
	r := Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 2}
	l := newRatedLab(t, r)
	l.one()
	l.one()
	l.rates.Reconfigure(l.now, []Rate{{Name: "new", Per: PerClient, PerSecond: 1, Burst: 100}, r}, Matcher{}, 1)
	if _, ok := l.one(); ok {
		t.Error("a reload has filled the bucket")
	}
	l.rates.Reconfigure(l.now, nil, Matcher{}, 1)
	if told, ok := l.one(); !ok {
		t.Errorf("without rates: %q", told)
	}
	l.core.SetRates(nil)
	if told, ok := l.one(); !ok {
		t.Errorf("without: %q", told)
	}
}

// What the gate refuses after the rate has let it pass counts; the next request counts anew.
func TestEachRequestPaysOnce(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 3})
	q := wire.AppendQuery(nil, "select work()")
	l.client.Data(q, l.now)
	l.server.Gone(l.now) // after it was sent: lost
	if !l.client.ended {
		t.Fatal("the session goes on without its server")
	}
	other := &sink{}
	cl := l.login(other, 2)
	l.core.Fire(l.now + 1e9) // dials may be held up after a loss
	cl.Data(q, l.now)
	if !cl.wait.Waiting() {
		t.Skip("another server was there at once")
	}
	cl.CancelRequest(l.now, func() {})
	cl.Data(q, l.now) // refused by the cancel
	cl.Data(q, l.now)
	var s RateState
	l.rates.States(func(r RateState) { s = r })
	if s.Passed != 3 {
		t.Errorf("%d passed, want 3: %+v", s.Passed, s)
	}
}

// tease has the client ask again and again, each time too early.
func (l *ratedLab) tease(n int) (told string) {
	for range n {
		told, _ = l.one()
	}
	return told
}

func TestDelayedRefusal(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 1, Text: "1/s", Escalation: quota.Delay})
	l.one()
	if told := l.tease(20); told == "" { // the first of these was told to wait for the first time
		t.Fatal("held back too early")
	}
	if told, ok := l.one(); told != "" || ok || !l.client.HeldBack() || !l.user.paused {
		t.Fatalf("the twentieth violation: %q, held back %v", told, l.client.HeldBack())
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
	other := &sink{}
	cl := l.login(other, 2)
	cl.Address = l.client.Address
	if l.rates.parked != 1 || l.rates.mostParked != 1 {
		t.Fatalf("%d of %d held back", l.rates.parked, l.rates.mostParked)
	}
	if told, _ := l.ask(cl, other, 0); !strings.Contains(told, "reason=rate") {
		t.Errorf("beyond the bound: %q", told)
	}
	next := l.core.Fire(l.now)
	if want := l.now + 1e9; next != want {
		t.Fatalf("fires in %d ns, want 1 s", next-l.now)
	}
	l.now = next - 300*ms
	b := l.rates.limiter.Bucket(0, "role", "")
	l.rates.limiter.Charge(l.now, &b, 1) // by somebody else
	l.now = next
	l.core.Fire(l.now)
	if l.client.HeldBack() || l.user.paused {
		t.Fatal("still held back")
	}
	l.client.Data(wire.AppendQuery(nil, "select work()"), l.now)
	told := string(l.user.last)
	if !strings.Contains(told, "wait_ms=1000 ") || !strings.Contains(told, "retry_after_ms=1000 retry=yes") || !strings.HasSuffix(told, "I") {
		t.Errorf("%q", told)
	}
	st := l.rates.Escalation(l.now)
	if st.Parked != 0 || st.Delayed != 1 || st.Violations == 0 || l.rates.parked != 0 {
		t.Errorf("%+v", st)
	}
}

// Whoever leaves, cancels, is ended or drained while its refusal is held back leaves nothing
// behind.
func TestTheHeldBackMayLeave(t *testing.T) {
	for name, leave := range map[string]func(l *ratedLab){
		"lost":   func(l *ratedLab) { l.client.Lost(l.now) },
		"eof":    func(l *ratedLab) { l.client.EOF(l.now) },
		"killed": func(l *ratedLab) { l.client.Kill(draining, Killed, l.now) },
		"departs": func(l *ratedLab) {
			l.client.Depart(l.now, draining, IdleTimeout)
		},
		"drained": func(l *ratedLab) {
			l.core.Drain(l.now, func(yield func(*Client)) { yield(l.client) })
		},
		"cancelled": func(l *ratedLab) {
			over := false
			l.client.CancelRequest(l.now, func() { over = true })
			l.client.Data(wire.AppendQuery(nil, "select work()"), l.now)
			if told := string(l.user.last); !over || !strings.Contains(told, "57014") {
				panic(told)
			}
			l.client.Lost(l.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 1, Burst: 1, Escalation: quota.Delay})
			l.tease(22)
			if !l.client.HeldBack() {
				t.Fatal("not held back")
			}
			leave(l)
			if !l.client.ended || len(l.core.parked) != 0 || l.rates.parked != 0 || l.client.HeldBack() {
				t.Errorf("ended %v, %d held back", l.client.ended, len(l.core.parked))
			}
			l.core.Fire(l.now + 10e9)
			if err := l.core.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBlockedSessionsEnd(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 0.01, Burst: 1, Escalation: quota.Block})
	l.rates.mostParked = 0 // answered at once
	l.one()
	told := l.tease(1 + 20 + 99)
	if len(l.blocks) != 0 || !strings.Contains(told, "reason=rate") {
		t.Fatalf("blocked too early: %q", told)
	}
	told = l.tease(1)
	for _, want := range []string{"FATAL", "53400", "reason=blocked", "left_ms=10000", "retry=no"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %q", want, told)
		}
	}
	if !l.client.ended || len(l.blocks) != 1 || l.alarms != 0 || l.env.ended[0] != TurnedAway {
		t.Fatalf("ended %v, blocks %v, reasons %v", l.client.ended, l.blocks, l.env.ended)
	}
	if b := l.blocks[0]; b.Address != l.client.Address || b.Role != "role" || b.Until != l.now+10e9 {
		t.Errorf("%+v", b)
	}
	other := &sink{}
	cl := l.login(other, 2)
	cl.Address = l.client.Address
	if told, _ := l.ask(cl, other, 0); !strings.Contains(told, "reason=blocked") || !cl.ended || len(l.blocks) != 1 {
		t.Errorf("another session of the role there: %q", told)
	}
	elsewhere := &sink{}
	cl = l.login(elsewhere, 3)
	if told, _ := l.ask(cl, elsewhere, 0); !strings.Contains(told, "reason=rate") || cl.ended {
		t.Errorf("the role at another address: %q", told)
	}
	if st := l.rates.Escalation(l.now); st.Blocks != 1 || st.Blocked != 1 || st.Ended != 2 {
		t.Errorf("%+v", st)
	}
}

func TestRatesDoNotAllocate(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "a", Per: PerRole, PerSecond: 1e6, Burst: 1000},
		Rate{Name: "b", Per: PerTenant, PerSecond: 1000, Burst: 1000, ServerTime: true})
	q := wire.AppendQuery(nil, "select work()")
	reply := done()
	run := func() {
		l.now += ms
		l.client.Data(q, l.now)
		l.server.Data(reply, l.now)
	}
	run()
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for a statement within its rates", n)
	}
}

func TestRateNames(t *testing.T) {
	for _, p := range []Per{PerClient, PerRole, PerTenant} {
		var back Per
		if back.UnmarshalText([]byte(p.String())) != nil || back != p {
			t.Errorf("%s", p)
		}
	}
	var p Per
	if p.UnmarshalText([]byte("table")) == nil || pers.String() != "unknown" {
		t.Error("unknown kinds pass")
	}
}

// Each session is for the first rate of a kind that is for it and its tenant; addresses and
// tenants are told apart.
func TestWhomARateIsFor(t *testing.T) {
	l := newRatedLab(t)
	list := []Rate{
		{Name: "others", Per: PerTenant, PerSecond: 1, Burst: 1},
		{Name: "a", Per: PerTenant, PerSecond: 1, Burst: 2},
		{Name: "all", Per: PerTenant, PerSecond: 1, Burst: 3},
		{Name: "address", Per: PerClient, PerSecond: 1, Burst: 100},
	}
	l.rates.Reconfigure(l.now, list, Matcher{
		Of: func(s *Subject) []int {
			if s.Database == "db" && s.Role == "role" {
				return []int{1, 2, 3}
			}
			return []int{0}
		},
		Tenant: func(rate int, tenant string) bool { return rate != 1 || tenant == "a" },
	}, 1)
	for _, c := range []struct {
		tenant, address string
		served          int
	}{{"a", "10.0.0.1", 2}, {"b", "10.0.0.1", 3}, {"c", "", 3}, {"a", "10.0.0.2", 0}} {
		cl := l.loginAs(c.tenant)
		if c.address != "" {
			cl.Address = netip.MustParseAddr(c.address)
		}
		served := 0
		for range 5 {
			if _, ok := l.ask(cl, cl.conn.(*sink), 0); ok {
				served++
			}
		}
		if served != c.served {
			t.Errorf("tenant %s at %q: %d served, want %d", c.tenant, c.address, served, c.served)
		}
	}
	var states []RateState
	l.rates.States(func(r RateState) { states = append(states, r) })
	if states[0].Keys != 0 || states[1].Keys != 1 || states[2].Keys != 2 || states[3].Keys != 2 {
		t.Errorf("%+v", states)
	}
}

// The tenant is what the statement's own tag says, else what the session has set, else its
// application_name.
func TestWhoseStatementItIs(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerTenant, PerSecond: 0.01, Burst: 1})
	cl := l.loginAs("app")
	user := cl.conn.(*sink)
	for i, c := range []struct {
		set, text string
		served    bool
	}{
		{"", "select work()", true},
		{"", "select work()", false},
		{"", "select work() /*pgweir.tenant='a'*/", true},
		{"", "select work() /*pgweir.tenant='a'*/", false},
		{"", "select work() /*pgweir.class='sheddable'*/", false},
		{"", "select work() /*pgweir.tenant='b',pgweir.class='sheddable'*/", true},
		{"set pgweir.tenant = 'c'", "select work()", true},
		{"", "select work()", false},
		{"", "select work() /*pgweir.tenant='d'*/", true},
		{"set pgweir.tenant = 'a'", "select work()", false},
		{"reset pgweir.tenant", "select work()", false},
	} {
		if c.set != "" {
			cl.Data(wire.AppendQuery(nil, c.set), l.now)
		}
		if told, ok := l.run(cl, user, c.text, 0); ok != c.served {
			t.Errorf("%d: %s %s: served=%v %q", i, c.set, c.text, ok, told)
		}
	}
}

// loginAs logs in a client with an application_name.
func (l *ratedLab) loginAs(application string) *Client {
	params := relay.NewParams([]relay.Param{{Name: "application_name", Value: application}})
	cl := l.core.NewClient(&sink{}, l.core.Group(l.core.Key("db", "role"), "db", "role", anyone()), params, wire.NewCancelKey(9, 0))
	cl.Start(l.now)
	for cl.login {
		l.server.Data(done(), l.now) // its settings are accepted
	}
	return cl
}

func BenchmarkRate(b *testing.B) {
	l := newRatedLab(b, Rate{Name: "a", Per: PerRole, PerSecond: 1e9, Burst: 1e9}, Rate{Name: "b", Per: PerTenant, PerSecond: 1e9, Burst: 1e9})
	l.one()
	b.ReportAllocs()
	for b.Loop() {
		l.now += 1000
		l.client.within(l.now)
		l.client.unpaid()
	}
}

// A statement that a driver prepares in a round trip of its own counts when it is run.
func TestAParseIsNoStatement(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 0.01, Burst: 2})
	for i := range 5 {
		parse := wire.AppendEmpty(wiretest.AppendParse(nil, "s", fmt.Sprint("select work", i)), wire.MsgSync)
		l.client.Data(parse, l.now)
		if l.client.server == nil {
			t.Fatalf("a Parse is refused: %q", l.user.last)
		}
		l.server.Data(wire.AppendReadyForQuery(wire.AppendEmpty(nil, '1'), 'I'), l.now)
		l.client.Data(wire.AppendEmpty(wire.AppendClose(nil, 'S', "s"), wire.MsgSync), l.now)
	}
	for i, want := range []bool{true, true, false} {
		if _, ok := l.one(); ok != want {
			t.Errorf("statement %d: served=%v", i, ok)
		}
	}
}

// What is answered here costs nothing: BEGIN, SET, and what fails in a failed transaction.
func TestWhatNeedsNoServerIsFree(t *testing.T) {
	l := newRatedLab(t, Rate{Name: "r", Per: PerRole, PerSecond: 0.01, Burst: 1})
	l.one()
	for range 20 {
		l.client.Data(wire.AppendQuery(nil, "begin"), l.now)
		l.client.Data(wire.AppendQuery(nil, "rollback"), l.now)
	}
	if n := l.core.Counts().Refused; n != 0 {
		t.Errorf("%d refused", n)
	}
	l.client.Data(wire.AppendQuery(nil, "begin"), l.now)
	l.client.Data(wire.AppendQuery(nil, "select work()"), l.now)
	if told := string(l.user.last); !strings.Contains(told, "reason=rate") || !strings.HasSuffix(told, "E") {
		t.Errorf("the first statement of a transaction: %q", told)
	}
	l.client.Data(wire.AppendQuery(nil, "rollback"), l.now)
	if l.client.link.Tx() != wire.Idle {
		t.Error("still in a transaction")
	}
	if l.client.link.Mode() != relay.Transaction {
		t.Error("another mode")
	}
}
