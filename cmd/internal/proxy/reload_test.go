package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/control"
	"github.com/pgweir/pgweir/cmd/internal/login"
	"github.com/pgweir/pgweir/cmd/internal/loop"
	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/upstream"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
)

// reload puts a changed copy of the settings into force.
func reload(t *testing.T, px *Proxy, change func(*plan.Settings)) {
	t.Helper()
	s := *px.settings.Load()
	s.Upstreams, s.Databases, s.Workloads = slices.Clone(s.Upstreams), slices.Clone(s.Databases), slices.Clone(s.Workloads)
	change(&s)
	if err := px.Apply(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
}

// look runs f on the loop.
func look(t *testing.T, px *Proxy, f func(now int64)) {
	t.Helper()
	if err := px.do(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// until waits for what is true on the loop.
func until(t *testing.T, px *Proxy, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		is := false
		look(t, px, func(int64) { is = holds() })
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never came true: %s", what)
		}
		settled(t, px)
	}
}

// What nobody waits for any more is not done later, behind the caller's back.
func TestWhatWasGivenUpIsNotDone(t *testing.T) {
	px, _ := start(t, nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	px.post(func(int64) { close(entered); <-leave })
	<-entered
	ctx, cancel := context.WithCancelCause(t.Context())
	errWhy := errors.New("why")
	cancel(errWhy)
	done := false
	err := px.do(ctx, func(int64) { done = true })
	close(leave)
	look(t, px, func(int64) {})
	if !errors.Is(err, errWhy) || done {
		t.Errorf("%v, done %v", err, done)
	}
}

// A client that was about to log in to what a reload has taken away does not stay there.
func TestReloadDuringALogin(t *testing.T) {
	for name, change := range map[string]func(*plan.Settings){
		"the database is gone":        func(s *plan.Settings) { s.Databases = nil },
		"it has another name":         func(s *plan.Settings) { s.Databases[0].DBName = "other" },
		"its servers have their role": func(s *plan.Settings) { s.Databases[0].User = "owner" },
		"it is elsewhere": func(s *plan.Settings) {
			u := s.Upstreams[0]
			u.Name = "elsewhere"
			s.Upstreams = append(s.Upstreams, u)
			s.Databases[0].Upstream = u.Name
		},
	} {
		t.Run(name, func(t *testing.T) {
			px, address := start(t, func(o *Options) {
				o.Settings.Auth.Method = login.Password
				o.Settings.Auth.Book = bookOf("secret")
			})
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(patience))
			b, err := wire.AppendStartup(nil, 0, []wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: "db"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Write(b); err != nil {
				t.Fatal(err)
			}
			if typ, _, err := wire.ReadMessage(conn, 1000); err != nil || typ != wire.MsgAuthentication {
				t.Fatalf("%c %v", typ, err)
			}
			reload(t, px, change)
			if _, err := conn.Write(wire.AppendPassword(nil, "secret")); err != nil {
				t.Fatal(err)
			}
			for {
				typ, body, err := wire.ReadMessage(conn, 1000)
				if err != nil {
					t.Fatal(err)
				}
				if typ == wire.MsgErrorResponse {
					wantCode(t, wire.ErrorFields(body), "57P01")
					break
				}
				if typ == wire.MsgReadyForQuery {
					t.Fatal("it is let in")
				}
			}
			until(t, px, "nobody is left", func() bool { return px.clients.Load() == 0 })
		})
	}
}

// Names that nobody has used before are refused when there are too many, those of others
// are not.
func TestTooManyNames(t *testing.T) {
	px, address := start(t, func(o *Options) { o.Settings.Databases = []plan.Database{{Name: "*", Upstream: "main"}} })
	look(t, px, func(int64) { px.maxGroups = 2 })
	for _, name := range []string{"a", "b"} {
		if _, err := connect(t, address, name); err != nil {
			t.Fatal(err)
		}
	}
	_, err := connect(t, address, "c")
	wantCode(t, err, "53400")
	if _, err := connect(t, address, "a"); err != nil {
		t.Error(err)
	}
	look(t, px, func(int64) {
		if n := len(px.upstreams["main"].core.Keys()); n != 2 {
			t.Errorf("%d keys are kept", n)
		}
	})
}

// bookOf is a book of no file, in which app has that password.
func bookOf(password string) *login.BookFile {
	f, err := login.OpenBook("", func() (*login.Book, error) {
		return login.NewBook(map[string]login.Secret{"app": {Plain: password}}), nil
	})
	if err != nil {
		panic(err) // reading it does not fail
	}
	return f
}

// New passwords are for those who are connected already, too.
func TestReloadBringsNewPasswords(t *testing.T) {
	px, address := start(t, func(o *Options) {
		o.Settings.Databases = append(o.Settings.Databases, plan.Database{Name: "owned", Upstream: "main", User: "owner", Passwords: upstream.Fixed("old")})
		o.Settings.Auth.Book = bookOf("old")
	})
	for _, name := range []string{"db", "owned"} {
		if _, err := connect(t, address, name); err != nil {
			t.Fatal(err)
		}
	}
	reload(t, px, func(s *plan.Settings) {
		s.Databases[1].Passwords = upstream.Fixed("new")
		s.Auth.Book = bookOf("new")
	})
	look(t, px, func(int64) {
		for _, k := range px.upstreams["main"].core.Keys() {
			got := k.Target.(*target)
			if k.Role == "app" && got.credentials.Password != "new" || k.Role == "owner" && got.passwords != upstream.Fixed("new") {
				t.Errorf("%s logs in with %+v", k.Role, got)
			}
		}
	})
}

// A descriptor that the kernel does not take is a login that has failed.
func TestServerThatIsNotAdopted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	px, address := start(t, func(o *Options) {
		o.Settings.Upstreams[0].Hosts = upstream.Options{
			Hosts: []upstream.Host{{Network: "tcp", Address: ln.Addr().String()}}, ConnectTimeout: time.Second,
		}
		o.Settings.Workloads[0].NoServerWait = time.Millisecond
	})
	refused := make(chan error, 1)
	go func() {
		_, err := login.Dial(context.Background(), login.Target{Network: "tcp", Address: address, User: "app", Database: "db"})
		refused <- err
	}()
	up := px.upstreams["main"]
	var dialling []*pool.Server
	until(t, px, "a server is being opened", func() bool {
		dialling = up.core.Set().Servers(nil)
		return len(dialling) > 0
	})
	look(t, px, func(now int64) {
		h := &serverConn{up: up, sv: dialling[0].Payload.(*session.Server), opened: func(*loop.Conn, int64) {}}
		h.End(nil, 0, now)
	})
	select {
	case err := <-refused:
		wantCode(t, err, "57P03")
	case <-time.After(patience):
		t.Fatal("nobody is told")
	}
}

// A pause of everything is one also where nobody has come yet, and of what a reload brings.
func TestPauseOfEverything(t *testing.T) {
	px, address := start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := px.Pause(ctx, ""); err != nil {
		t.Fatal(err)
	}
	reload(t, px, func(s *plan.Settings) {
		u := s.Upstreams[0]
		u.Name = "elsewhere"
		s.Upstreams = append(s.Upstreams, u)
		s.Databases = append(s.Databases, plan.Database{Name: "other", Upstream: u.Name})
	})
	in := make(chan error, 1)
	go func() {
		s, err := login.Dial(context.Background(), login.Target{Network: "tcp", Address: address, User: "app", Database: "other"})
		if err == nil {
			err = s.Conn.Close()
		}
		in <- err
	}()
	up := px.upstreams["elsewhere"]
	until(t, px, "it waits", func() bool { return up.core.Gate().Stats().Paused == 1 })
	for _, want := range []bool{true, false} {
		if changed, err := px.Resume(ctx, ""); err != nil || changed != want {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	select {
	case err := <-in:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("it is still paused")
	}
}

// A database that only "*" covers can be paused before anybody has used it.
func TestPauseBeforeTheFirstClient(t *testing.T) {
	px, address := start(t, func(o *Options) { o.Settings.Databases = []plan.Database{{Name: "*", Upstream: "main"}} })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if ahead, err := px.Pause(ctx, "later"); !ahead || err != nil {
		t.Fatalf("ahead %v, %v", ahead, err)
	}
	paused := func() (names []string) {
		s, err := px.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range s.Databases {
			if d.Paused {
				names = append(names, d.Name)
			}
		}
		return names
	}
	if got := paused(); !slices.Equal(got, []string{"later"}) {
		t.Errorf("paused: %v", got)
	}
	if _, err := connect(t, address, "another"); err != nil {
		t.Fatal(err)
	}
	in := make(chan error, 1)
	go func() {
		s, err := login.Dial(context.Background(), login.Target{Network: "tcp", Address: address, User: "app", Database: "later"})
		if err == nil {
			err = s.Conn.Close()
		}
		in <- err
	}()
	until(t, px, "it waits", func() bool { return px.upstreams["main"].core.Gate().Stats().Paused == 1 })
	for _, want := range []bool{true, false} {
		if changed, err := px.Resume(ctx, "later"); err != nil || changed != want {
			t.Fatalf("changed %v, %v", changed, err)
		}
	}
	if err := <-in; err != nil {
		t.Error(err)
	}
	if got := paused(); got != nil {
		t.Errorf("paused: %v", got)
	}
	if ahead, err := px.Pause(ctx, "later"); ahead || err != nil {
		t.Errorf("ahead %v, %v", ahead, err)
	}
	for name, err := range map[string]error{
		"kill": px.Kill(ctx, "nowhere"), "reconnect": px.Reconnect(ctx, "nowhere"), "wait": px.WaitClose(ctx, "nowhere"),
	} {
		if !errors.Is(err, control.ErrNoDatabase) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is remembered of names that nobody has used is bounded.
func TestPausesBeforeTheFirstClientAreBounded(t *testing.T) {
	px, address := start(t, func(o *Options) { o.Settings.Databases = []plan.Database{{Name: "*", Upstream: "main"}} })
	if _, err := connect(t, address, "used"); err != nil {
		t.Fatal(err)
	}
	name := func(i int) string { return "later" + strconv.Itoa(i) }
	for i := range maxApart {
		if _, err := px.Pause(t.Context(), name(i)); err != nil {
			t.Fatal(err)
		}
		if err := px.Disable(t.Context(), name(i)); err != nil {
			t.Fatal(err)
		}
	}
	pause := func(name string) error {
		_, err := px.Pause(t.Context(), name)
		return err
	}
	if err := pause("more"); !errors.Is(err, control.ErrTooManyNames) {
		t.Errorf("one more: %v", err)
	}
	if err := px.Disable(t.Context(), "more"); !errors.Is(err, control.ErrTooManyNames) {
		t.Errorf("one more: %v", err)
	}
	for _, known := range []string{name(7), "used"} {
		if err := pause(known); err != nil {
			t.Errorf("%s: %v", known, err)
		}
	}
	for _, last := range []string{name(7), "used"} {
		if _, err := px.Resume(t.Context(), last); err != nil {
			t.Errorf("%s: %v", last, err)
		}
	}
	if err := px.Enable(t.Context(), name(7)); err != nil {
		t.Error(err)
	}
	if err := errors.Join(pause("more"), px.Disable(t.Context(), "more")); err != nil {
		t.Errorf("in its place: %v", err)
	}
}

// Servers are kept open for workloads, databases and upstreams that there are.
func TestMinimumsEndWithWhatTheyAreFor(t *testing.T) {
	for name, change := range map[string]func(*plan.Settings){
		"workload": func(s *plan.Settings) {
			s.Workloads = []plan.Workload{{Name: "another", Share: 1, MaxWait: patience}}
		},
		"database": func(s *plan.Settings) { s.Databases = nil },
		"upstream": func(s *plan.Settings) {
			s.Upstreams[0].Name, s.Databases = "another", []plan.Database{{Name: "db", Upstream: "another"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			px, address := start(t, func(o *Options) {
				o.Settings.Workloads[0].MinPoolSize = 2
				o.Settings.Upstreams[0].IdleTimeout = time.Millisecond
				o.Settings.WorkloadOf = func(string, string, string, netip.Addr) int { return 0 }
			})
			if _, err := connect(t, address, "db"); err != nil {
				t.Fatal(err)
			}
			up := px.upstreams["main"]
			until(t, px, "two servers are open", func() bool { return up.core.Set().Stats().Idle == 2 })
			reload(t, px, change)
			until(t, px, "none is", func() bool { st := up.core.Set().Stats(); return st.Idle+st.Dialling+st.Closing == 0 })
		})
	}
}

// noPassword is what a password's file or command may say.
type noPassword struct{}

func (noPassword) Password(context.Context) (string, error) {
	return "", errors.New("vault: token s.12345 has expired")
}

// Why there is no password is for the log.
func TestClientsLearnNothingOfPasswords(t *testing.T) {
	_, address := start(t, func(o *Options) {
		o.Settings.Databases[0].Passwords = noPassword{}
		o.Settings.Workloads[0].NoServerWait = time.Millisecond
	})
	_, err := connect(t, address, "db")
	wantCode(t, err, "57P03")
	if e, _ := errors.AsType[*wire.Error](err); strings.Contains(e.Message+e.Detail+e.Hint, "vault") {
		t.Errorf("told %+v", e)
	}
}

// A reload changes the order of a queue, whether it refuses early, and how long each class
// waits; a workload keeps its place in the plan.
func TestTheGuardIsReloadable(t *testing.T) {
	px, _ := start(t, nil)
	name := px.settings.Load().Workloads[0].Name
	planned := func() (p admission.Workload) {
		look(t, px, func(int64) {
			up := px.upstream("main")
			p = up.plan[up.index[name]]
		})
		return p
	}
	before := planned()
	if before.Policy != admission.Guard || before.Mode != admission.Enforce || before.ClassWait != [admission.Classes]int64{} {
		t.Fatalf("%+v", before)
	}
	reload(t, px, func(s *plan.Settings) {
		w := &s.Workloads[0]
		w.Queue, w.Guard = admission.CoDel, admission.DryRun
		w.ClassWait = [admission.Classes]time.Duration{3 * time.Second, 2 * time.Second, time.Second, time.Millisecond}
	})
	want := before
	want.Policy, want.Mode, want.ClassWait = admission.CoDel, admission.DryRun, [admission.Classes]int64{3e9, 2e9, 1e9, 1e6}
	if got := planned(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	reload(t, px, func(s *plan.Settings) {
		w := &s.Workloads[0]
		w.Queue, w.Guard, w.ClassWait = admission.Guard, admission.Enforce, [admission.Classes]time.Duration{}
	})
	if got := planned(); got != before {
		t.Errorf("%+v, want %+v", got, before)
	}
}
