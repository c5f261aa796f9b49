package session

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Whatever comes, the names are bounded, a number means one tenant as long as anybody may
// stand under it, and who uses a name keeps its number.
func TestTenantsAreBoundedAndTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNames()
		n.limit = rapid.IntRange(1, 8).Draw(t, "limit")
		now := int64(0)
		held := map[string]uint32{}
		seen := map[string]int64{} // when one was asked for last
		number := map[string]uint32{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += rapid.Int64Range(0, 60e9).Draw(t, "later")
			name := fmt.Sprintf("t%d", rapid.IntRange(0, 15).Draw(t, "name"))
			got, own := n.tenant(now, 1, []byte(name))
			if len(n.tenants) > n.limit || len(n.byTenant) > n.limit {
				t.Fatalf("%d names", len(n.tenants))
			}
			if own == (got < sharedTenants) {
				t.Fatalf("number %d, its own: %v", got, own)
			}
			_, kept := held[name]
			if at, known := seen[name]; known && (now-at < forgetAfter || kept) && got != number[name] {
				t.Fatalf("%s was %d and is %d", name, number[name], got)
			}
			delete(seen, name)
			if !own {
				continue
			}
			if n.tenantName(got) != name {
				t.Fatalf("%d is called %q", got, n.tenantName(got))
			}
			seen[name], number[name] = now, got
			if rapid.Bool().Draw(t, "hold") && !kept {
				n.hold(got, 1)
				held[name] = got
			} else if kept {
				n.hold(got, -1)
				delete(held, name)
			}
		}
	})
}

// Roles have their own tenants, and long names are cut.
func TestTenantsOfRoles(t *testing.T) {
	n := newNames()
	a, _ := n.tenant(0, 1, []byte("t"))
	b, _ := n.tenant(0, 2, []byte("t"))
	if a == b {
		t.Error("two roles' tenants are one")
	}
	long := slices.Repeat([]byte("x"), 1000)
	c, _ := n.tenant(0, 1, long)
	if got := n.tenantName(c); len(got) != maxTenantName {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// Those who share a number share it with others after a while.
func TestSharedNumbersAreDrawnAnew(t *testing.T) {
	n := newNames()
	n.limit = 1
	first, _ := n.tenant(0, 1, []byte("first"))
	n.hold(first, 1)
	draw := func(now int64) (list []uint32) {
		for i := range 50 {
			t, _ := n.tenant(now, 1, fmt.Appendf(nil, "t%d", i))
			list = append(list, t)
		}
		return list
	}
	a, b := draw(1), draw(2)
	epoch := n.epoch
	if !slices.Equal(a, b) {
		t.Error("drawn anew at once")
	}
	if c := draw(1 + reseed); slices.Equal(a, c) || n.epoch == epoch {
		t.Error("never drawn anew")
	}
	if n.shared != 150 {
		t.Errorf("%d counted", n.shared)
	}
}

// However a role mixes its work, about promote_share of it is above its workload's class.
func TestPromotedWorkIsItsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		wanted := rapid.Float64Range(0, 1).Draw(t, "wanted")
		flight := rapid.IntRange(1, 40).Draw(t, "in flight")
		rnd := rapid.Int64Range(0, 1<<62).Draw(t, "seed")
		r := &roleState{limits: Role{PromoteShare: share}}
		type request struct {
			promise  float64
			promoted bool
		}
		var running []request
		var work, above float64
		now := int64(0)
		for range 4000 {
			rnd = rnd*6364136223846793005 + 1442695040888963407
			u := float64(uint64(rnd)>>11) / (1 << 53)
			var q request
			if u < wanted {
				q.promise, q.promoted = r.promote(now, 0)
			}
			if running = append(running, q); len(running) > flight {
				q, running = running[0], running[1:]
				cost := int64(5e6 + 90e6*u)
				r.charge(now, cost, q.promoted)
				if q.promoted {
					r.release(q.promise)
					above += float64(cost)
				}
				work += float64(cost)
			}
			now += 5e6
		}
		if above > (share+0.05)*work+2*workFloor {
			t.Fatalf("%.0f ms of %.0f are above, at most %.2f may be", above/1e6, work/1e6, share)
		}
		if least := min(share, wanted) - 0.15; above < least*work {
			t.Fatalf("%.0f ms of %.0f are above, %.2f of it wanted to be and %.2f may", above/1e6, work/1e6, wanted, share)
		}
	})
}

// The learned patience is nine tenths of the time after which the first tenth of the latest
// gives up.
func TestPatienceIsTheFirstTenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p patience
		all := rapid.SliceOfN(rapid.Int64Range(1e6, 100e9), 0, 3*patienceSamples).Draw(t, "gave up")
		for _, ns := range all {
			p.gaveUp(ns)
		}
		got := p.deadline()
		if len(all) < enoughPatience {
			if got != 0 {
				t.Fatalf("%d of %d samples", got, len(all))
			}
			return
		}
		last := slices.Sorted(slices.Values(all[max(len(all)-patienceSamples, 0):]))
		want := 0.9 * float64(last[len(last)/10])
		if f := float64(got); f > want*1.001 || f < want/patienceRatio*0.999 {
			t.Fatalf("%d, want about %.0f", got, want)
		}
	})
}

// Clients that give up teach how long they wait; it is good for waiting only.
func TestPatienceIsLearned(t *testing.T) {
	l := newLab(t)
	now := int64(0)
	for i := range uint32(enoughPatience + 1) {
		now += 10e9
		l.asks(t, now, "select 1")
		other := l.login(&sink{}, i+2)
		l.in(func(w *Workload) { w.Learn = true })
		other.Data([]byte{'Q', 0, 0, 0, 13, 's', 'e', 'l', 'e', 'c', 't', ' ', '2', 0}, now)
		if !other.wait.Waiting() {
			t.Fatal("it does not wait")
		}
		switch {
		case i == enoughPatience:
			if d := other.wait.Deadline - now; d > 450e6 || d < 380e6 {
				t.Errorf("a deadline of %d", d)
			}
		case i%2 == 0:
			other.CancelRequest(now+500e6, func() {})
		}
		other.EOF(now + 500e6)
		l.serve(now + 600e6)
	}
	now += 10e9
	l.asks(t, now, "select 3")
	if d := l.client.wait.Deadline; d != 0 {
		t.Errorf("what runs has a deadline of %d", d)
	}
}
