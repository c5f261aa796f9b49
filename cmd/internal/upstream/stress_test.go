package upstream

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
)

// TestManyDial lets many dial while hosts come and go and the options change. The
// race detector and the end of it all are the test.
func TestManyDial(t *testing.T) {
	acts := []behaviour{postgres(primary, false), postgres(primary, true), postgres(standby, false), resets, says("57P03", "starting up")}
	var fakes []*fake
	var hosts []Host
	for range 3 {
		f := newFake(t, acts[0])
		fakes, hosts = append(fakes, f), append(hosts, f.host)
	}
	l := newLab(t, Options{Hosts: hosts, Attrs: Primary})
	moved := l.options.Load().Moved
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 40 {
				s, err := l.dial()
				if _, g := l.Current(); err == nil && s.Generation > g {
					t.Errorf("a session of generation %d in generation %d", s.Generation, g)
				}
			}
		})
	}
	work.Go(func() {
		for i := range 100 {
			fakes[rand.IntN(len(fakes))].become(acts[rand.IntN(len(acts))])
			if i%10 == 0 {
				attrs := []Attrs{Any, Primary, PreferStandby}[rand.IntN(3)]
				l.Reconfigure(Options{Hosts: hosts[:1+rand.IntN(3)], Attrs: attrs, ConnectTimeout: patience, Moved: moved})()
			}
			_, _ = l.Current()
		}
	})
	work.Wait()
	for _, f := range fakes {
		f.become(acts[0])
		await(t, "no connection is left", func() bool { return f.open() == 0 })
	}
	l.Reconfigure(Options{Hosts: hosts, ConnectTimeout: patience, Moved: moved})()
	if _, err := l.dial(); err != nil {
		t.Error(err)
	}
	for key, h := range l.known {
		if h.probed {
			t.Errorf("%s is being tried by nobody", key)
		}
	}
}

func TestANameThatIsNotResolvedIsPassedBy(t *testing.T) {
	f := newFake(t, postgres(primary, false))
	l := newLab(t, Options{
		Hosts: []Host{{"tcp", "slow:1"}, f.host},
		Resolve: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
	})
	l.reaches(f.host)
	if h := l.known["slow:1"]; h == nil || h.failures != 1 || h.probed {
		t.Errorf("%+v", h)
	}
}
