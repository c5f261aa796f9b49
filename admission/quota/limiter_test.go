package quota

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

const (
	ms  = int64(1e6)
	sec = int64(1e9)
)

// one returns a limiter with one rule and a bucket of it.
func one(r Rule) (*Limiter, Bucket) {
	l := New(0)
	l.Reconfigure(0, []Rule{r})
	return l, l.Bucket(0, "app", "")
}

// A quiet client comes with 40 statements within a second: the bucket lets the burst
// through, and what flows back meanwhile, and not one more.
func TestABurstAndThenTheRate(t *testing.T) {
	l, b := one(Rule{PerSecond: 10, Burst: 20})
	now := 100 * sec
	var passed []int
	for i := range 40 {
		if ok, _ := l.Take(now, &b, 1); ok {
			passed = append(passed, i)
		}
		now += 25 * ms
	}
	// 20 at once; within the 975 ms until the last one, 9 flow back.
	if len(passed) != 29 {
		t.Errorf("%d of 40 passed, want 29: %v", len(passed), passed)
	}
	if ok, wait := l.Take(now, &b, 1); !ok || wait != 0 { // 1,000 ms: the tenth has just come back
		t.Errorf("the tenth that flows back: %v, wait %d", ok, wait)
	}
	if ok, wait := l.Take(now, &b, 1); ok || wait != 100*ms {
		t.Errorf("an empty bucket: %v, wait %d ns, want 100 ms", ok, wait)
	}
}

// The greedy client of the overload's third example: 400 statements a second for 5 s, and
// 150/s with a burst of 15.
func TestGreedy(t *testing.T) {
	l, b := one(Rule{PerSecond: 150, Burst: 15})
	passed := 0
	for i := range int64(2000) {
		if ok, _ := l.Take(sec+i*sec/400, &b, 1); ok {
			passed++
		}
	}
	if passed < 758 || passed > 765 { // 15 + 150 x 5 at most
		t.Errorf("%d of 2,000 passed, want about 760", passed)
	}
}

func genRule(t *rapid.T, serverTime bool) Rule {
	r := Rule{Name: "r", ServerTime: serverTime}
	if serverTime {
		r.PerSecond = rapid.Float64Range(0.001, 64).Draw(t, "per second")
		r.Burst = rapid.Float64Range(0, 30).Draw(t, "burst")
	} else {
		r.PerSecond = rapid.OneOf(rapid.Float64Range(0.001, 1e6), rapid.SampledFrom([]float64{1, 3, 7, 10, 150, 1.0 / 60})).Draw(t, "per second")
		r.Burst = float64(rapid.IntRange(0, 1000).Draw(t, "burst"))
	}
	return r
}

// step is a time between two requests that matters at a rate.
func step(t *rapid.T, unit float64) int64 {
	return int64(rapid.Float64Range(0, 3).Draw(t, "step") * unit * rapid.SampledFrom([]float64{0, 0.1, 1, 10}).Draw(t, "times"))
}

// In no window pass more statements than the burst and what flows back meanwhile.
func TestNeverMoreThanTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRule(t, false)
		l, b := one(r)
		unit, burst := 1e9/r.PerSecond, max(r.Burst, 1)
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		var at []int64
		for range rapid.IntRange(1, 80).Draw(t, "requests") {
			now += step(t, unit)
			for range rapid.IntRange(1, 40).Draw(t, "at once") {
				if ok, _ := l.Take(now, &b, 1); ok {
					at = append(at, now)
				}
			}
		}
		for i := range at {
			for j := i; j < len(at); j++ {
				n, most := float64(j-i+1), burst+float64(at[j]-at[i])/unit
				if n > most*(1+1e-12)+1e-6 {
					t.Fatalf("%v passed within %d ns, at most %v may", n, at[j]-at[i], most)
				}
			}
		}
	})
}

// What is not used is not lost as long as the bucket is not full: who asks all the time gets
// all that there is.
func TestAllOfTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{PerSecond: rapid.Float64Range(0.01, 5000).Draw(t, "per second"), Burst: float64(rapid.IntRange(1, 50).Draw(t, "burst"))}
		l, b := one(r)
		start := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		now, passed := start, 0
		for range 200 {
			ok, wait := l.Take(now, &b, 1)
			if ok {
				passed++
			}
			now += wait
		}
		want := r.Burst + float64(now-start)*r.PerSecond/1e9
		if math.Abs(float64(passed)-want) > 1.001 {
			t.Fatalf("%d passed in %d ns, want %v", passed, now-start, want)
		}
	})
}

// Who comes back after the wait that was told passes; a nanosecond earlier nobody does.
func TestTheHintIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		serverTime := rapid.Bool().Draw(t, "server-time")
		r := genRule(t, serverTime)
		l, b := one(r)
		unit, ask := 1e9/r.PerSecond, int64(1)
		if serverTime {
			ask = 0
		}
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		refused := 0
		for range rapid.IntRange(1, 50).Draw(t, "requests") {
			now += step(t, unit)
			if rapid.Bool().Draw(t, "charge") {
				cost := rapid.Int64Range(0, 3).Draw(t, "statements")
				if serverTime {
					cost = rapid.Int64Range(0, 100*sec).Draw(t, "server-time")
				}
				l.Charge(now, &b, cost)
			}
			ok, wait := l.Take(now, &b, ask)
			switch {
			case ok && wait != 0 || !ok && wait <= 0:
				t.Fatalf("ok=%v with a wait of %d", ok, wait)
			case ok:
				continue
			}
			refused++
			if early, again := l.Take(now+wait-1, &b, ask); early || again != 1 {
				t.Fatalf("1 ns before the time: %v, wait %d", early, again)
			}
			if ok, again := l.Take(now+wait, &b, ask); !ok {
				t.Fatalf("at the time: refused, wait %d", again)
			}
			now += wait
		}
	})
}

// Nobody waits for longer than a bucket that is a whole burst in debt takes.
func TestDebtIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		serverTime := rapid.Bool().Draw(t, "server-time")
		r := genRule(t, serverTime)
		l, b := one(r)
		burst, unit, ask := max(r.Burst, 1), 1e9/r.PerSecond, int64(1)
		if serverTime {
			burst, unit, ask = max(r.Burst, 1e-3)*1e9, 1/r.PerSecond, 0
		}
		now := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "charges") {
			now += rapid.Int64Range(0, sec).Draw(t, "step")
			l.Charge(now, &b, rapid.Int64Range(0, math.MaxInt64).Draw(t, "cost"))
			most := (burst + float64(ask)) * unit // from a burst in debt to room for one
			if wait := l.Wait(now, &b, ask); float64(wait) > most*(1+1e-9)+2 {
				t.Fatalf("wait %d ns, at most %v", wait, most)
			}
		}
	})
}

// Server-time is what may be used per second in the long run, whatever the statements take,
// as long as none takes more than a burst.
func TestServerTimeIsChargedAfterTheFact(t *testing.T) {
	l, b := one(Rule{ServerTime: true, PerSecond: 0.5, Burst: 0.5}) // 500 ms per second
	now, used := sec, int64(0)
	start := now
	for range 1000 {
		ok, wait := l.Take(now, &b, 0)
		if !ok {
			now += wait
			continue
		}
		cost := 30 * ms
		now += cost // the statement runs
		used += cost
		l.Charge(now, &b, cost)
	}
	if share := float64(used) / float64(now-start); share < 0.499 || share > 0.52 {
		t.Errorf("%.3f of the time was used, want 0.5 and the burst", share)
	}
	l.Charge(now, &b, 3600*sec)
	if wait := l.Wait(now, &b, 0); wait != sec { // 0.5 s of debt flow back in a second
		t.Errorf("after a statement of an hour: wait %d ns, want 1 s", wait)
	}
}

func TestRefund(t *testing.T) {
	l, b := one(Rule{PerSecond: 10, Burst: 3})
	other := l.Bucket(0, "other", "")
	l.Refund(&other, 1) // not known
	l.Charge(sec, &b, 3)
	l.Refund(&b, 2)
	if ok, wait := l.Take(sec, &b, 3); ok || wait != 100*ms {
		t.Errorf("2 of 3 are there again: took 3: %v, wait %d", ok, wait)
	}
	if ok, _ := l.Take(sec, &b, 2); !ok {
		t.Error("2 of 3 are there again, and can't be taken")
	}
	l.Refund(&b, 1000)
	if ok, _ := l.Take(sec, &b, 3); !ok {
		t.Error("a full bucket")
	}
	if ok, _ := l.Take(sec, &b, 1); ok {
		t.Error("a bucket holds more than its burst")
	}
}

func TestReconfigureKeepsWhatWasTaken(t *testing.T) {
	l := New(0)
	l.Reconfigure(0, []Rule{{Name: "a", Keys: "role", PerSecond: 10, Burst: 20}, {Name: "b", Keys: "role", PerSecond: 1, Burst: 1}})
	now := sec
	a, b := l.Bucket(0, "app", ""), l.Bucket(1, "app", "")
	l.Charge(now, &a, 20)
	l.Charge(now, &b, 1)
	l.Reconfigure(now, []Rule{{Name: "c", PerSecond: 1}, {Name: "a", Keys: "role", PerSecond: 100, Burst: 20}})
	if wait := l.Wait(now, &a, 1); wait != 10*ms {
		t.Errorf("empty, at ten times the rate: wait %d ns, want 10 ms", wait)
	}
	if again := l.Bucket(1, "app", ""); l.Wait(now, &again, 1) != 10*ms {
		t.Error("the rule's new handle stands for another bucket")
	}
	if ok, _ := l.Take(now, &b, 1); !ok {
		t.Error("a rule that is gone refuses")
	}
	if n := l.Stats(0).Keys + l.Stats(1).Keys; n != 1 || len(l.table.byName) != 1 {
		t.Errorf("%d buckets known, want 1", n)
	}
	l.Reconfigure(now, []Rule{{Name: "a", Keys: "tenant", PerSecond: 100, Burst: 20}})
	if ok, _ := l.Take(now, &a, 1); !ok || l.Stats(0).Keys != 0 {
		t.Error("a rule with other keys has kept the buckets")
	}
}

func TestReconfigureKeepsLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		serverTime := rapid.Bool().Draw(t, "server-time")
		from, to := genRule(t, serverTime), genRule(t, serverTime)
		l, b := one(from)
		now := rapid.Int64Range(0, 1<<40).Draw(t, "now")
		l.Charge(now, &b, rapid.Int64Range(1, 1000).Draw(t, "cost"))
		level := func() float64 { // what was taken, in units of cost
			full, _ := l.find(&b)
			return float64(full-now) / b.rule.unit
		}
		before := level()
		l.Reconfigure(now, []Rule{to})
		most := 2 * float64(b.rule.depth) / b.rule.unit
		slack := 1 + 2/min(b.rule.unit, 1)*2 // times are whole ns
		if got, want := level(), min(before, most); math.Abs(got-want) > want*1e-9+slack {
			t.Fatalf("%v taken before, %v after, want %v", before, got, want)
		}
	})
}

// However many keys come, so many are known; and what goes is a full bucket wherever there
// is one nearby.
func TestMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 50).Draw(t, "most")
		l := New(most)
		l.Reconfigure(0, []Rule{{Name: "slow", PerSecond: 1, Burst: 5}, {Name: "fast", PerSecond: 1000, Burst: 5}})
		handles := map[string]*Bucket{}
		now := sec
		for range rapid.IntRange(1, 300).Draw(t, "takes") {
			now += rapid.Int64Range(0, sec/10).Draw(t, "step")
			rule, key := rapid.IntRange(0, 1).Draw(t, "rule"), fmt.Sprint(rapid.IntRange(0, 80).Draw(t, "key"))
			id := fmt.Sprint(rule, key)
			if handles[id] == nil {
				b := l.Bucket(rule, "role", key)
				handles[id] = &b
			}
			b := handles[id]
			_, known := l.table.byName[b.name]
			var full int
			for _, e := range l.table.full {
				if e <= now {
					full++
				}
			}
			evicted := l.Stats(0).Evicted + l.Stats(1).Evicted
			debts := debtors(l, now)
			l.Charge(now, b, 1)
			if l.Stats(0).Evicted+l.Stats(1).Evicted > evicted && (known || full > 0 && debtors(l, now) <= debts) {
				t.Fatalf("a bucket that is not full was forgotten although %d are, or for one that is known (%v)", full, known)
			}
			if n := len(l.table.byName); n > most || len(l.table.entries) > most || l.Stats(0).Keys+l.Stats(1).Keys != n {
				t.Fatalf("%d buckets in %d places, at most %d", n, len(l.table.entries), most)
			}
			if fresh := l.Bucket(rule, "role", key); l.Wait(now, &fresh, 1) != l.Wait(now, b, 1) {
				t.Fatal("an old handle stands for another bucket than a new one")
			}
		}
	})
}

// debtors is how many buckets are not full.
func debtors(l *Limiter, now int64) (n int) {
	for _, full := range l.table.full {
		if full > now {
			n++
		}
	}
	return n
}

func TestNothingIsAllocatedForAKnownKey(t *testing.T) {
	l, b := one(Rule{PerSecond: 10, Burst: 20})
	now := sec
	l.Charge(now, &b, 1)
	if n := testing.AllocsPerRun(100, func() {
		now += ms
		l.Take(now, &b, 1)
		b = l.Bucket(0, "app", "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTake(b *testing.B) {
	l, k := one(Rule{PerSecond: 1e6, Burst: 20})
	now := sec
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		l.Take(now, &k, 1)
	}
}

func BenchmarkTakeOfAnotherKey(b *testing.B) {
	l, _ := one(Rule{PerSecond: 1e6, Burst: 20})
	names := make([]string, 1<<16)
	for i := range names {
		names[i] = fmt.Sprint("tenant", i)
	}
	now, i := sec, 0
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		i++
		k := l.Bucket(0, "app", names[i%len(names)])
		l.Take(now, &k, 1)
	}
}

// Every key is new and the table is full of buckets that are not: the worst there is.
func BenchmarkTakeOfInventedKeys(b *testing.B) {
	l, _ := one(Rule{PerSecond: 0.001, Burst: 20})
	names := make([]string, 1<<18)
	for i := range names {
		names[i] = fmt.Sprint("tenant", i)
	}
	now, i := sec, 0
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		i++
		k := l.Bucket(0, "app", names[i%len(names)])
		l.Take(now, &k, 1)
	}
}
