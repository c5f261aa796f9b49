package admission

import "testing"

// suffer lets time go on at a key whose servers die as soon as they are open: for 60 ms of each
// 100 they are being opened, then they are open, and for 35 none can be. It returns the first
// verdict, at the latest at until.
func suffer(t *testing.T, g *Gate, s *weather, k Key, now, until int64) (Verdict, int64) {
	t.Helper()
	for step := 0; now < until; step++ {
		next := now + 60*ms
		switch step % 3 {
		case 0:
			s.set(k, false, true)
		case 1:
			s.set(k, false, false)
			next = now + 5*ms
		case 2:
			s.set(k, true, false)
			next = now + 35*ms
		}
		for now < next {
			due, out := g.Fire(now, nil)
			if err := g.Check(); err != nil {
				t.Fatal(err)
			}
			if len(out) > 0 {
				return out[0], now
			}
			now = min(due, next)
		}
	}
	return Verdict{}, now
}

// Whose servers die over and over is told so when max_wait and no_server_wait are over, to the
// nanosecond, whoever it is and whatever the guard does beside. The clock of its max_wait would
// still stand at a few ms then.
func TestDyingServersKeepNobodyForEver(t *testing.T) {
	for name, c := range map[string]struct {
		w    Waiter
		plan func(*Workload)
		want int64 // ns
	}{
		"somebody":     {want: 500 * ms},
		"probe":        {w: Waiter{Probe: true}, want: 2200 * ms},
		"session":      {w: Waiter{Want: Session}, want: 900 * ms},
		"reserved":     {w: Waiter{Reserved: true}, want: 500 * ms},
		"continuing":   {w: Waiter{Continuing: true}, want: 500 * ms},
		"begun":        {w: Waiter{Begun: true}, want: 500 * ms},
		"far deadline": {w: Waiter{Deadline: 100_000 * ms}, want: 500 * ms},
		"of its class": {w: Waiter{Class: Sheddable}, plan: func(l *Workload) { l.ClassWait[Sheddable.index()] = 100 * ms }, want: 300 * ms},
		"patient":      {plan: func(l *Workload) { l.Patient = true }, want: 500 * ms},
		"dry run":      {plan: func(l *Workload) { l.Mode = DryRun }, want: 500 * ms},
		"off":          {plan: func(l *Workload) { l.Mode = Off }, want: 500 * ms},
		"fifo":         {plan: func(l *Workload) { l.Policy = FIFO }, want: 500 * ms},
		"by default":   {plan: func(l *Workload) { l.NoServerWait = 0 }, want: 600 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			l := Workload{MaxWait: 300 * ms, NoServerWait: 200 * ms, SessionWait: 700 * ms}
			if c.plan != nil {
				c.plan(&l)
			}
			s := newWeather()
			g := New(Plan{Slots: 2, Extra: 1, Workloads: []Workload{l}}, s, nil)
			if v := g.Admit(0, &c.w); v.Outcome != Queued {
				t.Fatalf("%+v", v)
			}
			v, _ := suffer(t, g, s, 0, 0, 100_000*ms)
			if v.W != &c.w || v.Reason != NoServer || v.Waited != c.want {
				t.Errorf("%v (%v) after %d ms, want %d", v.Outcome, v.Reason, v.Waited/ms, c.want/ms)
			}
		})
	}
}

// Who says that he waits for no server at all when there is none waits for no more than max_wait
// while one is opened.
func TestBoundWithoutNoServerWait(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 300 * ms, NoServerWait: 1}}}, s, nil)
	s.set(0, false, true)
	g.Admit(0, &Waiter{})
	if next, out := g.Fire(0, nil); next != 300*ms+1 || len(out) != 0 {
		t.Fatalf("next %d, %+v", next, out)
	}
	if _, out := g.Fire(300*ms+1, nil); len(out) != 1 || out[0].Reason != NoServer {
		t.Fatalf("%+v", out)
	}
}

// A pause is an operator's, who ends it: what was waited before counts, the pause does not.
func TestPauseIsNotBounded(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 1, Workloads: []Workload{{MaxWait: 300 * ms, NoServerWait: 200 * ms}}}, s, nil)
	w := &Waiter{}
	g.Admit(0, w)
	now := int64(0)
	for i := range int64(3) {
		v, at := suffer(t, g, s, 0, now, now+100*ms)
		if v.W != nil {
			t.Fatalf("%+v", v)
		}
		g.Pause(at, []Key{0})
		late := &Waiter{}
		g.Admit(at+50*ms, late)
		if next, out := g.Fire(at+10_000*ms, nil); len(out) != 0 || next != never {
			t.Fatalf("pause %d: next %d, %+v", i, next/ms, out)
		}
		now = at + 20_000*ms
		g.Resume(now, []Key{0}, nil)
		g.Withdraw(now, late)
	}
	v, at := suffer(t, g, s, 0, now, now+10_000*ms)
	if v.W != w || v.Reason != NoServer || at != now+200*ms {
		t.Errorf("%+v, %d ms after the last pause", v, (at-now)/ms)
	}
}

// Who has waited most of the time for a slot is told that, for it is the slots that somebody has
// to look at; who has waited for a slot only, at his time and no other.
func TestBoundSaysWhatWasLacking(t *testing.T) {
	for name, c := range map[string]struct {
		want   Want
		busy   int64 // for how long no slot is free, of each 100 ms, while servers are being opened
		reason Reason
		waited int64
	}{
		"mostly a server": {Transaction, 30, NoServer, 600 * ms},
		"half and half":   {Transaction, 50, NoServer, 600 * ms},
		"mostly a slot":   {Transaction, 60, QueueAge, 600 * ms},
		"hardly a server": {Transaction, 90, QueueAge, 440 * ms},
		"only a slot":     {Slot, 100, QueueAge, 400 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			s := newWeather()
			s.set(0, false, true)
			p := Plan{Slots: 1, Workloads: []Workload{{MaxWait: 400 * ms, NoServerWait: 200 * ms}}}
			none := p
			none.Slots = 0
			g := New(none, s, nil)
			g.Admit(0, &Waiter{Want: c.want})
			var out []Verdict
			for now := int64(0); len(out) == 0 && now < 10_000*ms; now += ms {
				switch now % (100 * ms) {
				case 0:
					out = g.Reconfigure(now, none, out)
				case c.busy * ms:
					out = g.Reconfigure(now, p, out)
				default:
					_, out = g.Fire(now, out)
				}
			}
			if len(out) != 1 || out[0].Reason != c.reason || out[0].Waited != c.waited {
				t.Errorf("%+v", out)
			}
		})
	}
}

// Whose server ends before it has served asks for another one, and goes on with his wait: also
// the time in which the server was his counts, but not what he took to ask again.
func TestWaitGoesOnWhenTheServerWasOfNoUse(t *testing.T) {
	s := newWeather()
	g := New(Plan{Slots: 2, Workloads: []Workload{{MaxWait: 300 * ms, NoServerWait: 200 * ms}}}, s, nil)
	w := &Waiter{}
	now := int64(0)
	for i := range 4 { // 100 ms each, the first of them without a wait
		s.idle[0] = max(1-i, 0)
		if v := g.Admit(now, w); i > 0 {
			if v.Outcome != Queued {
				t.Fatalf("%+v", v)
			}
			now += 60 * ms
			s.set(0, false, true)
			if _, out := g.Fire(now, nil); len(out) != 0 {
				t.Fatalf("%+v", out)
			}
			s.idle[0] = 1
			if out := g.Supplied(now, 0, nil); len(out) != 1 || out[0].W != w {
				t.Fatalf("%+v", out)
			}
			now += 40 * ms
		} else {
			now += 100 * ms
		}
		g.Done(now, Ticket{}, 1, nil)
		w.Again(now)
		now += 1000 * ms
	}
	other := &Waiter{}
	g.Admit(now, other) // who stands before it, and may wait for longer
	g.Admit(now, w)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	if next, _ := g.Fire(now, nil); next != now+100*ms {
		t.Fatalf("again in %d ms", (next-now)/ms)
	}
	// A plan that grants more, a pause, and another order change nothing of what it has had.
	more := Plan{Slots: 2, Workloads: []Workload{{MaxWait: 350 * ms, NoServerWait: 200 * ms, Policy: FIFO}}}
	g.Reconfigure(now+30*ms, more, nil)
	g.Pause(now+40*ms, []Key{0})
	g.Resume(now+5040*ms, []Key{0}, nil)
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	now += 5150 * ms
	if next, out := g.Fire(now-1, nil); next != now || len(out) != 0 {
		t.Fatalf("again in %d, %+v", next-now, out)
	}
	if _, out := g.Fire(now, nil); len(out) != 1 || out[0].W != w || out[0].Reason != NoServer {
		t.Fatalf("%+v", out)
	}
	// What comes next is another work.
	g.Withdraw(now, other)
	for i := range 3 {
		switch i {
		case 1:
			w.Again(now)
			g.Refuse(now, w, Pins)
		case 2:
			w.Again(now)
			w.Arrive(now)
		}
		g.Admit(now, w)
		if next, _ := g.Fire(now, nil); next != now+550*ms {
			t.Fatalf("again in %d ms", (next-now)/ms)
		}
		g.Withdraw(now, w)
	}
}
