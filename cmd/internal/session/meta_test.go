package session

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/sqltext"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// asks runs statements, each to its end, and the last only until it was let in.
func (l *lab) asks(t *testing.T, now int64, texts ...string) {
	t.Helper()
	for i, text := range texts {
		ask := wire.AppendQuery(nil, text)
		if n := l.client.Data(ask, now); n != len(ask) {
			t.Fatalf("%q: %d of %d bytes used", text, n, len(ask))
		}
		if i < len(texts)-1 {
			l.serve(now)
		}
	}
}

// serve answers what the server was asked for, if it was.
func (l *lab) serve(now int64) {
	if sv := l.client.server; sv != nil {
		sv.Data([]byte{'I', 0, 0, 0, 4, 'Z', 0, 0, 0, 5, 'I'}, now)
	}
}

// in gives the client's group another workload.
func (l *lab) in(change func(*Workload)) {
	w := *l.client.group.Workload
	change(&w)
	l.client.group.Workload = &w
}

func (l *lab) limit(r Role) { l.core.Limit(func(string) Role { return r }) }

func TestWhoSaysWhatARequestIs(t *testing.T) {
	const all = admission.CriticalPlus
	login := relay.Own{sqltext.TagClass: "sheddable", sqltext.TagTenant: "login"}
	for name, c := range map[string]struct {
		texts  []string
		own    relay.Own
		most   admission.Class
		class  admission.Class
		tenant string
	}{
		"nobody":      {texts: []string{"select 2"}, most: all, class: admission.SheddablePlus},
		"login":       {texts: []string{"select 2"}, own: login, most: all, class: admission.Sheddable, tenant: "login"},
		"SET":         {texts: []string{"set pgweir.class = critical", "select 2"}, own: login, most: all, class: admission.Critical, tenant: "login"},
		"SET LOCAL":   {texts: []string{"begin", "set local pgweir.class = critical", "select 2"}, own: login, most: all, class: admission.Critical, tenant: "login"},
		"LOCAL ended": {texts: []string{"begin", "set local pgweir.class = critical", "commit", "select 2"}, own: login, most: all, class: admission.Sheddable, tenant: "login"},
		"tag": {
			texts: []string{"set pgweir.class = sheddable", "select 2 /*pgweir.class='critical_plus',pgweir.tenant='t%201'*/"},
			own:   login, most: all, class: admission.CriticalPlus, tenant: "t 1",
		},
		"tag, once": {
			texts: []string{"select 2 /*pgweir.class='critical_plus',pgweir.tenant='t1'*/", "select 3"},
			most:  all, class: admission.SheddablePlus,
		},
		"no class":    {texts: []string{"select 2 /*pgweir.class='urgent'*/"}, most: all, class: admission.SheddablePlus},
		"cap":         {texts: []string{"select 2 /*pgweir.class='critical_plus'*/"}, most: admission.Critical, class: admission.Critical},
		"cap of both": {texts: []string{"select 2"}, most: admission.Sheddable, class: admission.Sheddable},
		"reset":       {texts: []string{"set pgweir.tenant = t2", "discard all", "select 2"}, own: login, most: all, class: admission.Sheddable, tenant: "login"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.limit(Role{MaxClass: c.most, PromoteShare: 1})
			l.in(func(w *Workload) { w.Class = admission.SheddablePlus })
			if c.own != (relay.Own{}) {
				l.client.Declare(c.own)
			}
			l.asks(t, 2, c.texts...)
			if name := l.core.TenantName(0, l.client.wait.Tenant); l.client.wait.Class != c.class || name != c.tenant {
				t.Errorf("class %v of tenant %q, want %v of %q", l.client.wait.Class, name, c.class, c.tenant)
			}
		})
	}
}

func TestValuesWithoutMeaningAreCounted(t *testing.T) {
	l := newLab(t)
	l.asks(t, 2, "set pgweir.class = urgent", "select 2", "select 3",
		"select 4 /*pgweir.deadline_ms='soon',pgweir.attempt='0',traceparent='x',pgweir.tenant=''*/")
	want := [sqltext.TagKeys]uint64{1, 1, 1, 1, 1}
	if got := l.core.MetaCounts().Unknown; got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
	if w := &l.client.wait; w.Class != admission.Critical || w.Deadline != 0 || w.Attempt != 0 {
		t.Errorf("class %v deadline %d attempt %d", w.Class, w.Deadline, w.Attempt)
	}
}

func TestDeadlineIsTheFirstThatIsSaid(t *testing.T) {
	for _, c := range []struct {
		workload int64
		texts    []string
		want     int64
	}{
		{0, []string{"select 2"}, 0},
		{5e9, []string{"select 2"}, 5e9},
		{5e9, []string{"select 2 /*pgweir.deadline_ms='250'*/"}, 250e6},
		{5e9, []string{"select 2 /*pgweir.deadline_ms=250000*/"}, 5e9},
		{0, []string{"set pgweir.deadline_ms = 300", "select 2", "select 3"}, 300e6},
		{0, []string{"set pgweir.deadline_ms = 0", "select 2"}, 0},
		{1e9, []string{"set pgweir.deadline_ms = '2000'", "select 2"}, 1e9},
	} {
		l := newLab(t)
		l.in(func(w *Workload) { w.Deadline = c.workload })
		l.asks(t, 1000, c.texts...)
		want := c.want
		if want != 0 {
			want += 1000
		}
		if got := l.client.wait.Deadline; got != want {
			t.Errorf("%v with %d: %d, want %d", c.texts, c.workload, got, want)
		}
	}
}

func TestContinuing(t *testing.T) {
	const trace = " /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/"
	l := newLab(t)
	now := int64(1e9)
	// since is before how many of the texts that work began which this one goes on with.
	var came []int64
	ask := func(wait int64, text string, since int) {
		t.Helper()
		now += wait
		l.asks(t, now, text)
		came = append(came, now)
		w, began := &l.client.wait, came[len(came)-1-since]
		if w.Continuing != (since > 0) || w.Since != began {
			t.Errorf("%q after %d: continuing %v, since %d, not %d", text, wait, w.Continuing, w.Since, began)
		}
		l.serve(now)
	}
	ask(0, "select 1"+trace, 0)
	ask(continueWindow-1, "select 2", 1)
	ask(continueWindow, "select 3", 0)
	ask(traceWindow/2, "select 4"+trace, 3)
	ask(traceWindow, "select 5"+trace, 0)
	ask(1, "select 6", 1)
	l.client.wasRefused()
	ask(1, "select 7", 0)
}

// Who is refused has no trace to go on with either.
func TestARefusalEndsATrace(t *testing.T) {
	tr := newTraces()
	id := tr.id([]byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	if id == 0 || tr.id([]byte("00-0af7651916cd43dd8448eb211c80319c")) != 0 {
		t.Fatal("no id, or one of half a traceparent")
	}
	tr.served(id, 0, 1)
	if _, ok := tr.continues(id, 2); !ok {
		t.Error("not known")
	}
	tr.refused(id)
	if _, ok := tr.continues(id, 3); ok {
		t.Error("known after a refusal")
	}
	for i := range uint64(5 * maxTraces) {
		tr.served(i, 0, 4)
		if n := len(tr.now) + len(tr.past); n > 2*maxTraces {
			t.Fatalf("%d traces are remembered", n)
		}
	}
	if _, ok := tr.continues(5*maxTraces-1, 4); !ok {
		t.Error("the latest is forgotten")
	}
}

func TestTriedTooOften(t *testing.T) {
	for counts, want := range map[bool]string{true: "reason=attempts", false: ""} {
		l := newLab(t)
		l.in(func(w *Workload) { w.CountsAttempts = counts })
		l.asks(t, 2, "select a /*pgweir.attempt='3'*/", "select a /*pgweir.attempt='4',pgweir.tenant='a b'*/")
		if got := bytes.Contains(l.user.last, []byte("reason=attempts")); got != (want != "") {
			t.Errorf("told %q", l.user.last)
		}
		if want != "" && (!bytes.Contains(l.user.last, []byte(`tenant="a b"`)) || !bytes.Contains(l.user.last, []byte("retry=no"))) {
			t.Errorf("told %q", l.user.last)
		}
		if want != "" && l.client.ended {
			t.Error("the session was ended")
		}
	}
}

func TestMetaOfARequest(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	l := newLab(t)
	if m := l.client.Meta(); m.Tenant != "" {
		t.Errorf("%+v before any request", m)
	}
	l.asks(t, 2, "set pgweir.tenant = t1", "select 2 /*pgweir.attempt=2,traceparent='"+parent+"'*/")
	want := Meta{Class: admission.Critical, Tenant: "t1", Named: true, Attempt: 2, Traceparent: parent}
	if m := l.client.Meta(); m != want {
		t.Errorf("%+v", m)
	}
}

// What is said of a request that runs is no part of the next, and all that a session holds
// is given back when it ends.
func TestSessionsGiveBackWhatTheyHold(t *testing.T) {
	l := newLab(t)
	l.limit(Role{MaxClass: admission.Critical, PromoteShare: 1})
	l.in(func(w *Workload) { w.Class = admission.Sheddable })
	l.asks(t, 2, "set pgweir.tenant = t1", "select 2 /*pgweir.class='critical'*/")
	n := l.core.names
	if l.client.wait.Class != admission.Critical || !l.client.meta.promoted {
		t.Fatal("not promoted")
	}
	l.client.Lost(5)
	for i := range n.tenants {
		if n.tenants[i].refs != 0 {
			t.Errorf("%q is held", n.tenants[i].key.name)
		}
	}
	if r := l.core.names.roles[0]; r.promised != 0 {
		t.Errorf("%v is promised", r.promised)
	}
}

// The time that statements need is known by their shape, but asked for only while others wait.
func TestExpectedTime(t *testing.T) {
	l := newLab(t)
	now := int64(1)
	for i := range 200 {
		l.asks(t, now, fmt.Sprintf("select a from b where c = %d", i))
		if l.client.wait.Expected != 0 {
			t.Fatal("expected, though nobody waits")
		}
		now += 50e6
		l.serve(now)
	}
	user := &sink{}
	other, third := l.login(user, 2), l.login(&sink{}, 3)
	l.asks(t, now, "select 1")
	other.Data(wire.AppendQuery(nil, "select 2"), now)
	third.Data(wire.AppendQuery(nil, "SELECT a FROM b WHERE c = 7 -- again"), now)
	if e := third.wait.Expected; e < 45e6 || e > 55e6 {
		t.Errorf("expected %d", e)
	}
}

func TestPreparedStatementsHaveTheirShape(t *testing.T) {
	l := newLab(t)
	l.core.asked = observeEvery - 2
	prepare := wire.AppendEmpty(wiretest.AppendParse(nil, "s", "select a from b where c = 1"), wire.MsgSync)
	l.client.Data(prepare, 2)
	l.server.Data([]byte{'1', 0, 0, 0, 4, 'Z', 0, 0, 0, 5, 'I'}, 2)
	r := relay.Request{Text: []byte("select a from b where c = 2")}
	want := l.core.shapes.of(&r, l.client.info.group)
	l.core.asked = observeEvery - 1
	run := wire.AppendEmpty(wire.AppendExecute(wiretest.AppendBind(nil, wiretest.Bind{Statement: "s"})), wire.MsgSync)
	l.client.Data(run, 3)
	if got := l.client.meta.shape; got != want || got == 0 {
		t.Errorf("shape %x, want %x", got, want)
	}
}

// reading is a request with a text.
func reading(text string) relay.Request {
	return relay.Request{Kind: sqltext.Read, Text: []byte(text), Comments: int32(sqltext.Classify([]byte(text)).Comments())}
}

func BenchmarkDescribe(b *testing.B) {
	for name, text := range map[string]string{
		"plain":  "SELECT abalance FROM pgbench_accounts WHERE aid = 12345678;",
		"tagged": "SELECT abalance FROM pgbench_accounts WHERE aid = 1 /*pgweir.class='sheddable',pgweir.tenant='t1'*/",
		"traced": "SELECT abalance FROM pgbench_accounts WHERE aid = 1 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	} {
		b.Run(name, func(b *testing.B) {
			l := newLab(b)
			r := reading(text)
			now := int64(1)
			b.ReportAllocs()
			for b.Loop() {
				now += 1e6
				l.client.describe(now, &r)
				l.client.wasServed(now, 1e6)
			}
		})
	}
}

func TestDescribingDoesNotAllocate(t *testing.T) {
	l := newLab(t)
	r := reading("select 1 /*pgweir.class='sheddable',pgweir.tenant='" + strings.Repeat("t", 40) +
		"',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/")
	now := int64(1)
	run := func() {
		now += 1e6
		l.client.describe(now, &r)
		l.client.wasServed(now, 1e6)
	}
	for range 2 * observeEvery {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every client has one once it has asked for anything, as long as it stays.
func TestMetadataIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(metadata{}); n > 144 {
		t.Errorf("what is known of a client's request takes %d bytes", n)
	}
}
