package upstream

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
)

func TestAttrs(t *testing.T) {
	for _, tc := range []struct {
		attrs Attrs
		fits  []role
	}{
		{Any, []role{primary, standby, readOnly}},
		{ReadWrite, []role{primary}},
		{ReadOnly, []role{standby, readOnly}},
		{Primary, []role{primary, readOnly}},
		{Standby, []role{standby}},
		{PreferStandby, []role{primary, standby, readOnly}},
	} {
		if got, err := ParseAttrs(tc.attrs.String()); got != tc.attrs || err != nil {
			t.Errorf("%v becomes %v, %v", tc.attrs, got, err)
		}
		for _, r := range []role{primary, standby, readOnly} {
			want := ": " + wrongRole{r}.Error()
			for _, f := range tc.fits {
				if f == r {
					want = ""
				}
			}
			for _, old := range []bool{false, true} {
				if old && tc.attrs == Primary && r == readOnly {
					continue // answer and role differ in nothing else
				}
				f := newFake(t, postgres(r, old))
				l := newLab(t, Options{Hosts: []Host{f.host}, Attrs: tc.attrs})
				s, err := l.Dial(bounded(t), Request{Database: "d", Role: "r"})
				if err == nil {
					isClean(t, s, r)
				}
				if got := text(err, f.host); got != want {
					t.Errorf("%v of %+v, old %v: %q, expected %q", tc.attrs, r, old, got, want)
				}
			}
		}
	}
	if _, err := ParseAttrs("master"); err == nil {
		t.Error("master is accepted")
	}
}

// text is an error's text without the host in front.
func text(err error, h Host) string {
	if err == nil {
		return ""
	}
	return err.Error()[len(h.Address):]
}

// isClean asks something on a connection, to which the answer must be the next thing
// that comes, and ends it.
func isClean(t *testing.T, s *Session, r role) {
	t.Helper()
	if err := s.Conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Conn.Write(wire.AppendQuery(nil, "who are you")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(r.answer()))
	if _, err := io.ReadFull(s.Conn, got); err != nil || !bytes.Equal(got, r.answer()) {
		t.Errorf("%q, %v", got, err)
	}
	s.End(bounded(t))
}

func TestAWrongRoleIsBelievedForAWhile(t *testing.T) {
	a, b := newFake(t, postgres(standby, false)), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}, Attrs: Primary})
	l.reaches(b.host)
	b.stop()
	l.known[a.host.Address].roleEnd = time.Now().Add(time.Hour)
	if err := l.fails(); err.Error() != fmt.Sprintf("%v: is a standby; %v: connection refused", a.host, b.host) {
		t.Error(err)
	}
	if n := a.logins.Load(); n != 1 {
		t.Errorf("%d logins", n)
	}
	a.become(postgres(primary, false))
	l.known[a.host.Address].roleEnd = time.Now()
	l.reaches(a.host)
	if m := l.moved(); len(m) != 1 || m[0].to.Host != a.host {
		t.Errorf("%v", m)
	}
}

// The default of a role or database says nothing about others on the same host.
func TestReadOnlyByDefaultIsNotTheHosts(t *testing.T) {
	f := newFake(t, postgres(readOnly, false))
	l := newLab(t, Options{Hosts: []Host{f.host}, Attrs: ReadWrite})
	if err := l.fails(); text(err, f.host) != ": is read only by default" {
		t.Error(err)
	}
	f.become(postgres(primary, false))
	l.reaches(f.host)
}

func TestPromotionIsSeenWhileTheOldPrimaryHangs(t *testing.T) {
	hole, b := newHole(t), newFake(t, postgres(standby, false))
	l := newLab(t, Options{Hosts: []Host{hole, b.host}, Attrs: ReadWrite})
	go func() {
		await(t, "the standby was asked", func() bool { return b.logins.Load() == 1 })
		b.become(postgres(primary, false))
	}()
	l.reaches(b.host) // by the Dial that has asked the standby
}

func TestPreferStandby(t *testing.T) {
	a, b := newFake(t, postgres(primary, false)), newFake(t, postgres(standby, false))
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}, Attrs: PreferStandby})
	s := l.reaches(b.host)
	if s.Generation != 1 || len(l.moved()) > 0 {
		t.Errorf("generation %d, moves %v", s.Generation, l.moved())
	}
	await(t, "the primary is left alone", func() bool { return a.open() == 0 })
	b.stop()
	l.reaches(a.host) // believed to be the primary: passable
	if n := a.logins.Load(); n != 2 {
		t.Errorf("%d logins to the primary", n)
	}
	delete(l.known, a.host.Address)
	l.reaches(a.host) // one login is enough to find out that there is nothing better
	if n := a.logins.Load(); n != 3 {
		t.Errorf("%d logins to the primary", n)
	}
	b.start(postgres(standby, false))
	l.known[b.host.Address].until = time.Now()
	l.reaches(b.host)
}

func TestPreferStandbyWaitsNoLongerThanItMust(t *testing.T) {
	a, hole := newFake(t, postgres(primary, false)), newHole(t)
	// Longer than the test is patient: the end of the time-out would end the search, too.
	l := newLab(t, Options{Hosts: []Host{a.host, hole}, Attrs: PreferStandby, ConnectTimeout: 2 * patience})
	l.reaches(a.host)
}

func TestNamesHaveSeveralAddresses(t *testing.T) {
	f := newFake(t, postgres(primary, false))
	port := netip.MustParseAddrPort(f.host.Address).Port()
	names := map[string][]netip.Addr{"db": {netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("::ffff:127.0.0.1")}}
	h := Host{"tcp", fmt.Sprintf("db:%d", port)}
	l := newLab(t, Options{Hosts: []Host{h}, Resolve: resolver(names)})
	s := l.reaches(h)
	if s.Where.Address != f.host.Address || s.Where.AddrPort() != netip.MustParseAddrPort(f.host.Address) {
		t.Errorf("%v", s.Where)
	}
	if want := h.Address + " (" + f.host.Address + ")"; s.Where.String() != want {
		t.Errorf("%v", s.Where)
	}
	refused := l.known[fmt.Sprintf("127.0.0.9:%d", port)]
	if refused.failures != 1 {
		t.Errorf("%+v", *refused)
	}
	clear(l.known)
	l.reaches(h)
	if l.known[fmt.Sprintf("127.0.0.9:%d", port)] != nil {
		t.Error("the address that served last was not first")
	}
}

// A name whose addresses take turns must not look like a failover each time; one
// whose address has died is a failover.
func TestWhenTheAddressOfANameChanges(t *testing.T) {
	h := Host{"tcp", "db:1"}
	one, two := Place{h, "127.0.0.1:1"}, Place{h, "127.0.0.2:1"}
	l := newLab(t, Options{Hosts: []Host{h}, Attrs: Primary})
	o := l.options.Load()
	serve := func(p Place) uint64 {
		k := &candidate{place: p, key: p.Address}
		l.begin(k, true)
		return l.serves(o, k)
	}
	for _, p := range []Place{one, two, one} {
		if g := serve(p); g != 1 || l.current != p {
			t.Errorf("%v: generation %d", p, g)
		}
	}
	l.failed(o, &candidate{place: one, key: one.Address}, io.EOF)
	if g := serve(two); g != 2 {
		t.Errorf("generation %d after the address died", g)
	}
	l.answered(o, &candidate{place: two, key: two.Address}, true, true)
	if g := serve(one); g != 3 || len(l.moved()) != 2 {
		t.Errorf("generation %d after the other became a standby, moves %v", g, l.moved())
	}
}
