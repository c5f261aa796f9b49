package roster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// postgres answers questions about roles.
type postgres struct {
	mu    sync.Mutex
	roles map[string]string // with their passwords
	err   error
	delay time.Duration
	asked atomic.Int64
}

func (p *postgres) ask(ctx context.Context, name string) (Role, error) {
	p.asked.Add(1)
	p.mu.Lock()
	delay, err := p.delay, p.err
	password, ok := p.roles[name]
	p.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return Role{}, ctx.Err()
	}
	if err != nil || !ok {
		return Role{}, err
	}
	return Role{Exists: true, Secret: login.Secret{Plain: password}, Groups: []string{name}}, nil
}

func (p *postgres) set(f func(p *postgres)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *postgres) roster(age time.Duration) *Roster { return New(Options{Ask: p.ask, Age: age}) }

func wantRole(t *testing.T, r *Roster, name, password string) {
	t.Helper()
	got, err := r.Role(context.Background(), name)
	if err != nil || got.Secret.Plain != password {
		t.Errorf("%s: %+v, %v; want %q", name, got, err, password)
	}
}

func TestManyAskOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &postgres{roles: map[string]string{"app": "x"}, delay: time.Second}
		r := p.roster(time.Minute)
		var work sync.WaitGroup
		for range 1000 {
			work.Go(func() { wantRole(t, r, "app", "x") })
		}
		impatient, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if _, err := r.Role(impatient, "app"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waits on: %v", err)
		}
		work.Wait()
		if n := p.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// The same for a role that there is and one that there is not: the time an answer takes tells
// nothing.
func TestAnswersAreFreshForTheSameTime(t *testing.T) {
	for _, name := range []string{"app", "ghost"} {
		synctest.Test(t, func(t *testing.T) {
			p := &postgres{roles: map[string]string{"app": "x"}}
			r := p.roster(time.Minute)
			for i, step := range []struct {
				wait  time.Duration
				asked int64
				doubt bool
			}{{0, 1, false}, {Fresh - 1, 1, false}, {1, 2, false}, {0, 2, true}, {0, 2, false}, {doubtTime, 2, true}, {0, 3, false}} {
				<-time.After(step.wait)
				if step.doubt {
					r.Doubt(name)
					continue
				}
				if _, err := r.Role(t.Context(), name); err != nil {
					t.Error(err)
				}
				if n := p.asked.Load(); n != step.asked {
					t.Errorf("%s, step %d: asked %d times, want %d", name, i, n, step.asked)
				}
			}
		})
	}
}

func TestOldAnswersServeWhilePostgresIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &postgres{roles: map[string]string{"app": "x"}}
		r := p.roster(30 * time.Second)
		wantRole(t, r, "app", "x")
		away := errors.New("away")
		p.set(func(p *postgres) { p.err = away; p.roles["app"] = "y" })
		<-time.After(Fresh)
		wantRole(t, r, "app", "x")
		r.Doubt("app")
		wantRole(t, r, "app", "x")
		if _, err := r.Role(t.Context(), "new"); err != away {
			t.Errorf("who is not known: %v", err)
		}
		if n := p.asked.Load(); n != 2 {
			t.Errorf("asked %d times: one who is away is left alone for a second", n)
		}
		p.set(func(p *postgres) { p.err, p.delay = nil, time.Hour }) // a black hole
		<-time.After(downTime)
		begin := time.Now()
		wantRole(t, r, "app", "x")
		if d := time.Since(begin); d != askTime {
			t.Errorf("waited %v for the old answer", d)
		}
		<-time.After(30 * time.Second)
		p.set(func(p *postgres) { p.err, p.delay = away, 0 })
		if _, err := r.Role(t.Context(), "app"); err != away {
			t.Errorf("an answer that is too old: %v", err)
		}
		p.set(func(p *postgres) { p.err = nil })
		<-time.After(downTime)
		wantRole(t, r, "app", "y")
		if s := r.Stats(); s.Stale != 3 || s.Kept != 1 || s.Failed != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// A question that Postgres refuses says nothing about others.
func TestAQuestionOfOneRoleFailsAlone(t *testing.T) {
	p := &postgres{roles: map[string]string{"app": "x"}}
	r := New(Options{Age: time.Minute, Ask: func(ctx context.Context, name string) (Role, error) {
		if name == "odd" {
			return Role{}, &QueryError{errors.New("no")}
		}
		return p.ask(ctx, name)
	}})
	if _, err := r.Role(t.Context(), "odd"); err == nil || err.Error() != "no" {
		t.Error(err)
	}
	wantRole(t, r, "app", "x")
}

func TestKeptAnswersAreBounded(t *testing.T) {
	p := &postgres{roles: map[string]string{"app": "x"}}
	r := p.roster(time.Hour)
	wantRole(t, r, "app", "x")
	for i := range maxRoles + 100 {
		wantRole(t, r, fmt.Sprint("ghost", i), "")
	}
	if s := r.Stats(); s.Kept != maxRoles || s.Strangers != maxRoles-1 {
		t.Errorf("%+v", s)
	}
	asked := p.asked.Load()
	wantRole(t, r, "app", "x") // not pushed out by names that anybody can think of
	if p.asked.Load() != asked {
		t.Error("asked again")
	}
	r.Forget()
	if s := r.Stats(); s.Kept != 0 || s.Strangers != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPasswordCounts(t *testing.T) {
	now := time.Now()
	x := login.Secret{Plain: "x"}
	for i, c := range []struct {
		r    Role
		want login.Secret
	}{
		{Role{Secret: x}, x},
		{Role{Secret: x, Exists: true, Until: now.Add(1)}, x},
		{Role{Secret: x, Exists: true, Until: now}, login.Secret{}},
		{Role{Secret: x, Exists: true, Until: now.Add(-time.Hour)}, login.Secret{}},
		{Role{Secret: x, Exists: true, NoLogin: true}, login.Secret{}},
		{Role{}, login.Secret{}},
	} {
		if got := c.r.Password(now); got != c.want {
			t.Errorf("%d: %+v", i, got)
		}
	}
	member := Role{Exists: true, Groups: []string{"a", "b"}}
	if !member.MemberOf("b") || member.MemberOf("c") || (&Role{Groups: []string{"b"}}).MemberOf("b") {
		t.Error("groups")
	}
}
