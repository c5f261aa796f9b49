package upstream

import (
	"context"
	"io"
	"testing"
	"time"
)

// newDial makes the dial of a lab as Dial does, without running it.
func newDial(l *lab) *dial {
	d := &dial{c: l.Cluster, o: l.options.Load(), events: make(chan event), timer: time.NewTimer(never), reasons: make(map[Place]error)}
	d.target.User, d.target.Database = "r", "d"
	l.t.Cleanup(func() { d.timer.Stop() })
	d.plan(time.Now())
	return d
}

// Of two dials that found the same host due, the second goes on to the next.
func TestOneProbeOfTwoThatPlannedIt(t *testing.T) {
	a, b := newFake(t, hangs), newFake(t, hangs)
	l := newLab(t, Options{Hosts: []Host{a.host, b.host}})
	l.known[a.host.Address] = &health{failures: 1}
	one, two := newDial(l), newDial(l)
	ctx, cancel := context.WithCancel(bounded(t))
	for _, d := range []*dial{one, two} {
		for d.front == nil {
			d.begin(ctx, time.Now())
		}
	}
	if one.front.place.Host != a.host || two.front.place.Host != b.host {
		t.Errorf("tried are %v and %v", one.front.place, two.front.place)
	}
	two.front = nil
	two.begin(ctx, time.Now())
	if two.front == nil || two.front.place.Host != a.host {
		t.Error("what is left is not tried all the same")
	}
	cancel()
	one.settle(nil)
	two.settle(nil)
	if l.known[a.host.Address].probed {
		t.Error("still being tried")
	}
}

func TestAHostThatWasGivenUpFailsOnce(t *testing.T) {
	a := newFake(t, hangs)
	l := newLab(t, Options{Hosts: []Host{a.host}})
	d := newDial(l)
	k := d.queue[0]
	d.front, d.queue = k, nil
	d.giveUp(time.Now())
	if err := d.refuse(bounded(t), event{k: k, stage: refused, err: io.EOF}, time.Now()); err != nil {
		t.Error(err)
	}
	if h := l.known[a.host.Address]; h.failures != 1 {
		t.Errorf("%d failures", h.failures)
	}
	if d.reasons[k.place] != io.EOF {
		t.Errorf("the reason is %v", d.reasons[k.place])
	}
}

func TestASessionThatComesTooLateIsEnded(t *testing.T) {
	a := newFake(t, postgres(primary, false))
	l := newLab(t, Options{Hosts: []Host{a.host}})
	d := newDial(l)
	k := d.queue[0]
	d.running = 1
	go func() { d.events <- d.attempt(bounded(t), k) }()
	d.settle(nil)
	if a.logins.Load() != 1 {
		t.Fatal("there was no session")
	}
	await(t, "the session has ended", func() bool { return a.open() == 0 })
}

func TestMovesAreToldOneAtATime(t *testing.T) {
	a, b := Place{Host{"tcp", "127.0.0.1:1"}, "127.0.0.1:1"}, Place{Host{"tcp", "127.0.0.1:2"}, "127.0.0.1:2"}
	entered, leave := make(chan Place), make(chan struct{})
	c := New(Options{Hosts: []Host{a.Host, b.Host}, Moved: func(_, to Place) {
		entered <- to
		<-leave
	}})
	o := c.options.Load()
	serve := func(p Place) {
		k := &candidate{place: p, key: p.Address}
		c.begin(k, true)
		c.serves(o, k)
	}
	serve(a)
	told := make(chan struct{})
	go func() { serve(b); close(told) }()
	if to := <-entered; to != b {
		t.Errorf("moved to %v", to)
	}
	serve(a) // returns, though the first move is still being told
	close(leave)
	if to := <-entered; to != a {
		t.Errorf("moved to %v", to)
	}
	<-told
}

// A login may take its share, but where a role is asked for no more than a second.
func TestPatienceWithALogin(t *testing.T) {
	now := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), now.Add(time.Hour))
	defer cancel()
	for attrs, want := range map[Attrs]time.Duration{Any: 30 * time.Minute, Primary: loginPatience} {
		l := newLab(t, Options{Hosts: []Host{{"tcp", "127.0.0.1:1"}, {"tcp", "127.0.0.1:2"}}, Attrs: attrs})
		d := newDial(l)
		k := d.queue[0]
		d.queue = d.queue[1:]
		d.connectedAt(ctx, k, now)
		if got := k.deadline.Sub(now); got != want {
			t.Errorf("%v: %v, expected %v", attrs, got, want)
		}
	}
}
