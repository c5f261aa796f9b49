package upstream

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/wire"
)

var (
	primary  = role{}
	standby  = role{standby: true}
	readOnly = role{readOnly: true}
)

func TestTheHostThatServedLastIsFirst(t *testing.T) {
	a, b := newFake(t, postgres(primary, false)), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}})
	if h, g := l.Current(); g != 0 || h != (Host{}) {
		t.Errorf("before the first dial %v, %d", h, g)
	}
	s := l.reaches(a.host)
	if h, g := l.Current(); g != 1 || h != a.host || s.Generation != 1 {
		t.Errorf("after the first dial %v, %d, session %d", h, g, s.Generation)
	}
	a.stop()
	for range 3 {
		s = l.reaches(b.host)
	}
	a.start(postgres(primary, false))
	l.reaches(b.host)
	want := []move{{Place{a.host, a.host.Address}, Place{b.host, b.host.Address}}}
	if d := cmp.Diff(want, l.moved(), cmp.AllowUnexported(move{})); d != "" {
		t.Error(d)
	}
	if h, g := l.Current(); g != 2 || h != b.host || s.Generation != 2 {
		t.Errorf("after the move %v, %d, session %d", h, g, s.Generation)
	}
	b.stop()
	l.reaches(a.host)
}

func TestAHostThatDoesNotAnswerIsPassedBy(t *testing.T) {
	for name, tc := range map[string]struct {
		host  func(*testing.T) Host
		attrs Attrs
	}{
		"dead":         {func(t *testing.T) Host { return newDead(t).host }, Any},
		"resets":       {func(t *testing.T) Host { return newFake(t, resets).host }, Any},
		"silent":       {newHole, Any},
		"silent, role": {newHole, Primary},
		"hangs, role":  {func(t *testing.T) Host { return newFake(t, hangs).host }, Primary},
		"starting":     {func(t *testing.T) Host { return newFake(t, says("57P03", "starting up")).host }, Any},
		"ends":         {func(t *testing.T) Host { return newFake(t, says("57P01", "shutting down")).host }, Any},
		"no socket":    {func(t *testing.T) Host { return Host{"unix", socketPath(t)} }, Any},
		"no name":      {func(*testing.T) Host { return Host{"tcp", "nowhere:1"} }, Any},
		"no port":      {func(*testing.T) Host { return Host{"tcp", "nowhere"} }, Any},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad, good := tc.host(t), newFake(t, postgres(primary, false))
			// A share of this time-out is longer than the test is patient.
			l := newLab(t, Options{Hosts: []Host{bad, good.host}, Attrs: tc.attrs, Resolve: resolver(nil), ConnectTimeout: 4 * patience})
			l.reaches(good.host)
			if good.accepted.Load() != 1 {
				t.Errorf("%d connections", good.accepted.Load())
			}
			await(t, "no connection is left", func() bool { return good.open() == 0 })
		})
	}
}

func TestTheLoginHasItsShareOfTheTimeout(t *testing.T) {
	bad, good := newFake(t, hangs), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{bad.host, good.host}, ConnectTimeout: 2 * time.Second})
	l.reaches(good.host)
	await(t, "the login that hung has ended", func() bool { return bad.open() == 0 })
	if l.known[bad.host.Address].failures != 1 {
		t.Errorf("%d failures noted", l.known[bad.host.Address].failures)
	}
}

func TestErrorNamesEveryHost(t *testing.T) {
	dead, other := newDead(t), newFake(t, postgres(standby, false))
	l := newLab(t, Options{Hosts: []Host{other.host, dead.host, {"tcp", "nowhere:1"}}, Attrs: ReadWrite, Resolve: resolver(nil)})
	err := l.fails()
	want := other.host.Address + ": is a standby; " + dead.host.Address + ": connection refused; nowhere:1: lookup nowhere: no such host"
	if err.Error() != want {
		t.Errorf("%q, expected %q", err, want)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) || Permanent(err) {
		t.Error("not what it is")
	}
	hosts, ok := errors.AsType[*HostsError](err)
	if !ok || len(hosts.Hosts) != 3 || hosts.Hosts[1].Where.Host != dead.host {
		t.Errorf("%#v", err)
	}
}

func TestNoHosts(t *testing.T) {
	newLab(t, Options{}).fails()
}

func TestTimeoutSaysSo(t *testing.T) {
	hole, hung := newHole(t), newFake(t, hangs)
	l := newLab(t, Options{Hosts: []Host{hole, hung.host}, ConnectTimeout: 10 * time.Millisecond})
	want := hole.Address + ": no answer within 10ms; " + hung.host.Address + ": not tried: no answer within 10ms"
	for range 20 { // who notices the end first is chance
		clear(l.known)
		if err := l.fails(); err.Error() != want {
			t.Errorf("%q, expected %q", err, want)
		}
	}
	if h := l.known[hole.Address]; h == nil || h.failures != 1 {
		t.Error("not noted as a failure")
	}
}

func TestTheCallersEndSaysNothingAboutTheHost(t *testing.T) {
	hung := newFake(t, hangs)
	l := newLab(t, Options{Hosts: []Host{hung.host}})
	ctx, cancel := context.WithCancel(bounded(t))
	go func() {
		await(t, "the login has begun", func() bool { return hung.open() == 1 })
		cancel()
	}()
	_, err := l.Dial(ctx, Request{Database: "d", Role: "r"})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if h := l.known[hung.host.Address]; h != nil && h.failures > 0 {
		t.Error("noted as a failure")
	}
}

func TestErrorOfTheServer(t *testing.T) {
	for name, tc := range map[string]struct {
		attrs  Attrs
		first  behaviour
		second role
		want   string // SQLSTATE, "" = the second host is reached, "none" = no host
	}{
		"any host would do":         {Any, says("28P01", "no"), primary, "28P01"},
		"the role is not known yet": {Primary, says("28000", "no entry"), primary, ""},
		"nor later":                 {Primary, says("28P01", "no"), standby, "28P01"},
		"full":                      {ReadWrite, says("53300", "sorry, too many clients already"), standby, "53300"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFake(t, tc.first), newFake(t, postgres(tc.second, false))
			l := newLab(t, Options{Hosts: []Host{a.host, b.host}, Attrs: tc.attrs})
			if tc.want == "" {
				l.reaches(b.host)
				return
			}
			err := l.fails()
			told, ok := errors.AsType[*wire.Error](err)
			if !ok || told.Code != tc.want {
				t.Errorf("%v, expected %s", err, tc.want)
			}
			if Permanent(err) != strings.HasPrefix(tc.want, "28") {
				t.Errorf("permanent: %v", Permanent(err))
			}
			if _, all := Full(err); all != (tc.want == "53300") {
				t.Errorf("full: %v", all)
			}
			for _, f := range []*fake{a, b} {
				if h := l.known[f.host.Address]; h != nil && h.failures > 0 {
					t.Error("an answer is noted as a failure")
				}
			}
		})
	}
}

func TestErrorOfTheHostThatServesEndsTheSearch(t *testing.T) {
	a, b := newFake(t, postgres(primary, false)), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}, Attrs: ReadWrite})
	l.reaches(a.host)
	a.become(says("53300", `too many connections for role "r"`))
	err := l.fails()
	if _, ok := err.(*login.Refusal); !ok {
		t.Errorf("%T: %v", err, err)
	}
	if key, all := Full(err); !key || all {
		t.Error(key, all)
	}
	if b.accepted.Load() > 0 {
		t.Error("the other host was asked")
	}
}

func TestABadHostIsTriedByOneWhileOthersServe(t *testing.T) {
	a, b := newFake(t, hangs), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}, Attrs: Primary})
	now := time.Now()
	l.known[a.host.Address] = &health{failures: 3, until: now, err: errors.New("x")}
	first := make(chan error, 1)
	go func() { _, err := l.dial(); first <- err }()
	await(t, "the first tries the bad host", func() bool { return a.accepted.Load() == 1 })
	l.reaches(b.host)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	if a.accepted.Load() != 1 {
		t.Errorf("%d connections to the bad host", a.accepted.Load())
	}
	if h := l.known[a.host.Address]; h.probed || h.failures != 4 {
		t.Errorf("%+v", *h)
	}
}

func TestAllBadAreTriedAllTheSame(t *testing.T) {
	a, b := newDead(t), newDead(t)
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}})
	l.fails()
	for _, h := range l.known {
		h.until = time.Now()
	}
	l.fails()
	for key, h := range l.known {
		if h.probed || h.failures != 2 {
			t.Errorf("%s: %+v", key, *h)
		}
		h.until = time.Now().Add(time.Hour)
	}
	b.start(postgres(primary, false))
	l.reaches(b.host)
}
