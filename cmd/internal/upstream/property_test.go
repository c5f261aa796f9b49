package upstream

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyHosts lets hosts of all kinds come and go. Whoever dials reaches one that
// fits, if there is one, and leaves no connection behind.
func TestAnyHosts(t *testing.T) {
	kinds := []struct {
		name  string
		act   behaviour
		role  role
		serve bool
	}{
		{"primary", postgres(primary, false), primary, true},
		{"standby", postgres(standby, false), standby, true},
		{"read only", postgres(readOnly, false), readOnly, true},
		{"old primary", postgres(primary, true), primary, true},
		{"old standby", postgres(standby, true), standby, true},
		{"resets", resets, role{}, false},
		{"starting", says("57P03", "starting up"), role{}, false},
		{"no Postgres", greets, role{}, false},
	}
	const n = 3
	var fakes []*fake
	var hosts []Host
	for range n {
		f := newFake(t, resets)
		fakes, hosts = append(fakes, f), append(hosts, f.host)
	}
	rapid.Check(t, func(rt *rapid.T) {
		attrs := Attrs(rapid.IntRange(int(Any), int(PreferStandby)).Draw(rt, "attrs"))
		l := newLab(t, Options{Hosts: hosts, Attrs: attrs})
		generation := uint64(0)
		var served Host
		for step := range rapid.IntRange(1, 4).Draw(rt, "steps") {
			fits, serves := make(map[Host]bool), make(map[Host]bool)
			for i, f := range fakes {
				k := kinds[rapid.IntRange(0, len(kinds)-1).Draw(rt, fmt.Sprintf("kind of %d", i))]
				f.become(k.act)
				fits[f.host] = k.serve && attrs.fits(k.role)
				serves[f.host] = k.serve
			}
			clear(l.known) // as after a while
			s, err := l.dial()
			best := fits[hosts[0]] || fits[hosts[1]] || fits[hosts[2]]
			pass := attrs == PreferStandby && (serves[hosts[0]] || serves[hosts[1]] || serves[hosts[2]])
			switch {
			case err == nil && !fits[s.Where.Host] && (best || !pass || !serves[s.Where.Host]):
				rt.Fatalf("step %d: reached %v", step, s.Where)
			case err != nil && (best || pass):
				rt.Fatalf("step %d: %v", step, err)
			case err != nil:
				continue
			}
			if s.Where.Host != served {
				generation, served = generation+1, s.Where.Host
			}
			if h, g := l.Current(); h != served || g != generation || s.Generation != g {
				rt.Fatalf("step %d: current %v, generation %d and %d, expected %v and %d", step, h, g, s.Generation, served, generation)
			}
			if got := uint64(len(l.moved())); got != generation-1 {
				rt.Fatalf("step %d: %d moves in generation %d", step, got, generation)
			}
		}
	})
	for _, f := range fakes {
		await(t, "no connection is left", func() bool { return f.open() == 0 })
	}
}
