package upstream

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/wire"
)

func TestReconfigure(t *testing.T) {
	a, b := newFake(t, postgres(primary, false)), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host}})
	moved := l.options.Load().Moved
	reconfigure := func(attrs Attrs, hosts ...Host) {
		l.Reconfigure(Options{Hosts: hosts, Attrs: attrs, Moved: moved})()
	}
	reconfigure(Any, a.host, b.host)
	l.reaches(a.host)
	reconfigure(Any, b.host, a.host)
	l.reaches(a.host) // it serves still
	if len(l.moved()) > 0 {
		t.Fatalf("%v", l.moved())
	}
	reconfigure(Any, b.host)
	if h, g := l.Current(); h != (Host{}) || g != 2 {
		t.Errorf("%v, generation %d", h, g)
	}
	if s := l.reaches(b.host); s.Generation != 3 {
		t.Errorf("generation %d", s.Generation)
	}
	reconfigure(Primary, b.host)
	l.reaches(b.host)
	want := []move{{from: Place{a.host, a.host.Address}}, {from: Place{b.host, b.host.Address}}}
	if d := cmp.Diff(want, l.moved(), cmp.AllowUnexported(move{})); d != "" {
		t.Error(d)
	}
}

// A dial that is under way when the options are replaced does not fail for what they were.
func TestADialThatFailsByOldOptions(t *testing.T) {
	old, now := newFake(t, hangs), newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{old.host}, ConnectTimeout: patience})
	type end struct {
		s   *Session
		err error
	}
	done := make(chan end, 1)
	go func() {
		s, err := l.dial()
		done <- end{s, err}
	}()
	await(t, "the old host is dialled", func() bool { return old.open() == 1 })
	o := *l.options.Load()
	o.Hosts = []Host{now.host}
	l.Reconfigure(o)()
	old.stop()
	switch e := <-done; {
	case e.err != nil:
		t.Error(e.err)
	case e.s.Where.Host != now.host:
		t.Errorf("it went to %v", e.s.Where)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.known[old.host.Address]; h != nil {
		t.Errorf("the old host is known for %+v", h)
	}
}

// Who began to dial before a move does not move the cluster back.
func TestALateSessionIsOfAnOldGeneration(t *testing.T) {
	a, b := Place{Host{"tcp", "127.0.0.1:1"}, "127.0.0.1:1"}, Place{Host{"tcp", "127.0.0.1:2"}, "127.0.0.1:2"}
	l := newLab(t, Options{Hosts: []Host{a.Host, b.Host}})
	o := l.options.Load()
	begin := func(p Place) *candidate {
		k := &candidate{place: p, key: p.Address}
		l.begin(k, true)
		return k
	}
	l.serves(o, begin(a))
	late, next := begin(a), begin(b)
	if g := l.serves(o, next); g != 2 {
		t.Errorf("generation %d", g)
	}
	if g := l.serves(o, late); g != 1 || l.current != b {
		t.Errorf("generation %d, current %v", g, l.current)
	}
	if g := l.serves(o, begin(b)); g != 2 || len(l.moved()) != 1 {
		t.Errorf("generation %d, moves %v", g, l.moved())
	}
}

func TestCancelGoesToTheVeryAddress(t *testing.T) {
	f := newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{f.host}, UserTimeout: time.Second})
	s := l.reaches(f.host)
	if err := l.Cancel(bounded(t), s.Where, false, s.PID, s.Secret); err != nil {
		t.Fatal(err)
	}
	want := []*wire.CancelRequest{{PID: 7, Secret: []byte("abcd")}}
	f.mu.Lock()
	if d := cmp.Diff(want, f.cancels); d != "" {
		t.Error(d)
	}
	f.mu.Unlock()
	f.stop()
	if err := l.Cancel(bounded(t), s.Where, false, s.PID, s.Secret); err == nil || err.Error() != f.host.Address+": connection refused" {
		t.Error(err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := socketPath(t)
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err == nil {
			_, err = wire.ReadStartup(conn)
			_ = conn.Close()
		}
		said <- errors.Join(err, ln.Close())
	}()
	l := newLab(t, Options{Hosts: []Host{{"unix", path}}, KeepaliveIdle: time.Second, UserTimeout: time.Second})
	if err := l.fails(); err.Error() != path+": server closed the connection: unexpected EOF" {
		t.Error(err)
	}
	if err := <-said; err != nil {
		t.Error(err)
	}
}

func TestSocketOptions(t *testing.T) {
	for _, c := range []struct {
		user, wanted        time.Duration // UserTimeout, and what it is on the socket
		idle, interval, why string
	}{
		{time.Hour, time.Hour, "30", "11", "as they are"},
		{1234 * time.Millisecond, 1234 * time.Millisecond, "1", "1", "within UserTimeout"},
	} {
		t.Run(c.why, func(t *testing.T) {
			f := newFake(t, postgres(primary, false))
			l := newLab(t, Options{
				Hosts:         []Host{f.host},
				KeepaliveIdle: 29500 * time.Millisecond, KeepaliveInterval: 11 * time.Second, KeepaliveCount: 4,
				UserTimeout: c.user,
			})
			s, err := l.Dial(bounded(t), Request{Database: "d", Role: "r"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.End(bounded(t))
			want := fmt.Sprintf("1 %s %s 4 %d 1", c.idle, c.interval, c.wanted.Milliseconds())
			if got := socketOptions(t, s.Conn.(*net.TCPConn)); got != want {
				t.Errorf("%s, expected %s", got, want)
			}
		})
	}
}

// socketOptions is SO_KEEPALIVE, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT and
// TCP_NODELAY.
func socketOptions(t *testing.T, conn *net.TCPConn) string {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, o := range [][2]int{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY},
	} {
		var got int
		var failed error
		if err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), o[0], o[1]) }); err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		values = append(values, strconv.Itoa(got))
	}
	return strings.Join(values, " ")
}

func TestWhatIsKnownIsBounded(t *testing.T) {
	c := New(Options{})
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range 10 * maxKnown {
		h := c.healthLocked(strings.Repeat("x", i))
		if i%2 == 0 {
			h.fail(errors.New("x"), time.Now())
		}
	}
	if len(c.known) > 2*maxKnown {
		t.Errorf("%d addresses", len(c.known))
	}
}

func TestFullAndPermanent(t *testing.T) {
	told := func(code, message, routine string) error {
		return &login.Refusal{Told: &wire.Error{Severity: "FATAL", Code: code, Message: message}, Routine: routine}
	}
	for _, tc := range []struct {
		err             error
		key, all, lasts bool
	}{
		{told("53300", `too many connections for role "r"`, ""), true, false, false},
		{told("53300", `too many connections for database "d"`, ""), true, false, false},
		{told("53300", `zu viele Verbindungen f*r Rolle >>r<<`, "InitializeSessionUserId"), true, false, false},
		{told("53300", `zu viele Verbindungen f*r Datenbank >>d<<`, "CheckMyDatabase"), true, false, false},
		{told("53300", "sorry, too many clients already", "InitProcess"), false, true, false},
		{told("53300", "remaining connection slots are reserved for roles with the SUPERUSER attribute", "InitPostgres"), false, true, false},
		{&wire.Error{Code: "53300", Message: "no more connections allowed (max_client_conn)"}, false, true, false},
		{told("28P01", "no", ""), false, false, true},
		{told("3D000", "no", ""), false, false, true},
		{told("42501", "no", ""), false, false, true},
		{told("57P03", "not now", ""), false, false, false},
		{login.ErrNoCredentials, false, false, true},
		{login.ErrMethod, false, false, true},
		{login.ErrImposter, false, false, false},
		{&HostsError{Hosts: []*HostError{{Err: told("28P01", "no", "")}, {Err: wrongRole{standby}}}}, false, false, true},
		{&HostsError{Hosts: []*HostError{{Err: told("28P01", "no", "")}, {Err: unix.ECONNREFUSED}}}, false, false, false},
		{&HostsError{Hosts: []*HostError{{Err: wrongRole{standby}}}}, false, false, false},
		{&HostsError{Hosts: []*HostError{{Err: told("53300", "sorry", "")}, {Err: unix.ECONNREFUSED}}}, false, false, false},
		{nil, false, false, false},
	} {
		key, all := Full(tc.err)
		if key != tc.key || all != tc.all || Permanent(tc.err) != tc.lasts {
			t.Errorf("%v: full %v %v, permanent %v", tc.err, key, all, Permanent(tc.err))
		}
	}
}
