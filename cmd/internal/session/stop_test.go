package session

import (
	"bytes"
	"testing"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// canceled is what a server says whose Query was cancelled.
func canceled(tx byte) []byte {
	e := &wire.Error{Severity: "ERROR", Code: "57014", Message: "canceling statement due to user request"}
	return wire.AppendReadyForQuery(wire.AppendError(nil, e), tx)
}

// until gives the client's next request, which comes at now, a deadline.
func until(cl *Client, now, deadline int64) {
	w := *cl.group.Workload
	w.Deadline = deadline - now
	cl.group.Workload = &w
}

func TestDeadlineOfARead(t *testing.T) {
	l := newLab(t)
	until(l.client, 2, 100)
	l.client.Data(wire.AppendQuery(nil, "select 1"), 2)
	if next := l.core.Fire(99); next != 100 || l.env.cancels != 0 {
		t.Fatalf("%d cancels before the deadline, next look at %d", l.env.cancels, next)
	}
	l.core.Fire(103)
	if l.env.cancels != 1 || !l.user.paused {
		t.Fatalf("%d cancels at the deadline; client paused: %v", l.env.cancels, l.user.paused)
	}
	if n := l.client.Data(wire.AppendQuery(nil, "select 2"), 104); n != 0 {
		t.Fatalf("%d bytes were read that the cancel could meet", n)
	}
	if l.core.Fire(1e9); l.env.cancels != 1 {
		t.Error("another cancel while one is under way")
	}
	l.server.Data(canceled(wire.Idle), 110)
	if !l.user.resumed || !bytes.Contains(l.user.last, []byte("57014")) || l.client.ended {
		t.Errorf("the client was told %q", l.user.last)
	}
	if l.server.pool.State().String() == "idle" && l.core.set.Stats().Held == 0 {
		t.Error("the server is free before the cancel is over")
	}
	l.core.CancelDone(120, l.server, true)
	c := l.core.Counts()
	if c.Cancels != 1 || c.CancelsEffective != 1 || c.CancelsLate != 0 || c.Wasted != 1 || c.WastedTime != 10 {
		t.Errorf("counts %+v", c)
	}
	if tr := l.client.group.Traffic; tr.Wasted != 1 || tr.WastedTime != 10*time.Nanosecond {
		t.Errorf("traffic %+v", tr)
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}

// A statement whose cancel came too early is cancelled again, later and later; one that ends
// by itself meanwhile is not.
func TestDeadlineIsKeptAtIt(t *testing.T) {
	l := newLab(t)
	until(l.client, 2, 100)
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	now := int64(100)
	for i := 1; i <= 4; i++ {
		l.core.Fire(now)
		if l.env.cancels != i {
			t.Fatalf("%d cancels at %d, want %d", l.env.cancels, now, i)
		}
		l.core.CancelDone(now, l.server, true)
		next := l.core.Fire(now)
		if next <= now {
			t.Fatalf("look again at %d, it is %d", next, now)
		}
		now = next
	}
	l.server.Data(answer(ask), now)
	l.core.Fire(now + 10e9)
	if c := l.core.Counts(); c.Cancels != 4 || c.CancelsLate != 1 || c.CancelsEffective != 0 {
		t.Errorf("counts %+v", c)
	}
	if len(l.core.looks) != 0 {
		t.Error("the server is still looked at")
	}
}

// TestWhatADeadlineStops is about trap 47.
func TestWhatADeadlineStops(t *testing.T) {
	copyIn := wire.AppendMessage(nil, wire.MsgCopyInResponse, []byte{0, 0, 0})
	extended := func(text string) []byte {
		return wire.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(nil, "", text), wiretest.Bind{}))
	}
	sync := func(b []byte) []byte { return wire.AppendEmpty(b, wire.MsgSync) }
	both := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	q := func(text string) []byte { return wire.AppendQuery(nil, text) }
	for name, c := range map[string]struct {
		begin, ask, reply []byte
		alone             bool // no commit waits for a standby
		cancels           int
		fails             bool // the COPY
	}{
		"read":                             {ask: q("select 1"), cancels: 1},
		"read, extended":                   {ask: sync(extended("select 1")), cancels: 1},
		"read, its Sync to come":           {ask: wire.AppendEmpty(extended("select 1"), wire.MsgFlush), cancels: 1},
		"write":                            {ask: q("update t set a = 1"), alone: true, cancels: 1},
		"write, commits may wait":          {ask: q("update t set a = 1")},
		"write, extended":                  {ask: sync(extended("insert into t values (1)")), alone: true, cancels: 1},
		"write, extended, commits may":     {ask: sync(extended("insert into t values (1)"))},
		"text with a COMMIT":               {ask: q("update t set a = 1; commit"), alone: true},
		"text with PREPARE TRANSACTION":    {ask: q("begin; update t set a = 1; prepare transaction 'x'"), alone: true},
		"batch with a COMMIT":              {ask: sync(both(extended("begin"), extended("select 1"), extended("commit"))), alone: true},
		"statement of a transaction":       {begin: q("begin"), ask: q("select 1"), alone: true},
		"two batches":                      {ask: both(sync(extended("select 1")), sync(extended("select 2"))), alone: true},
		"two queries":                      {ask: both(q("select 1"), q("select 2")), alone: true},
		"second of two, the first is done": {ask: both(q("select 1"), q("select 2")), reply: answer(q("select 1")), alone: true},
		"COPY IN":                          {ask: q("copy t from stdin"), reply: copyIn, fails: true},
		"COPY IN, its end was sent": {
			ask:   both(q("copy t from stdin"), wire.AppendEmpty(nil, wire.MsgCopyDone)),
			reply: copyIn, alone: true, cancels: 1,
		},
		"COPY OUT": {ask: q("copy t to stdout"), reply: wire.AppendMessage(nil, wire.MsgCopyOutResponse, []byte{0, 0, 0}), cancels: 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.env.alone = c.alone
			l.client.Data(c.begin, 2)
			until(l.client, 3, 100)
			if n := l.client.Data(c.ask, 3); n != len(c.ask) {
				t.Fatalf("%d of %d bytes were read", n, len(c.ask))
			}
			l.server.Data(c.reply, 4)
			l.wire.last = nil
			l.core.Fire(100)
			if l.env.cancels != c.cancels {
				t.Errorf("%d cancels, want %d", l.env.cancels, c.cancels)
			}
			if fails := bytes.HasPrefix(l.wire.last, []byte{wire.MsgCopyFail}); fails != c.fails {
				t.Errorf("the server was told %q", l.wire.last)
			}
			if c.fails {
				l.core.Fire(10e9)
				l.client.Data(append(wire.AppendMessage(nil, wire.MsgCopyData, []byte("1\n")), wire.AppendEmpty(nil, wire.MsgCopyDone)...), 101)
				l.server.Data(canceled(wire.Idle), 102)
				if l.client.server != nil || l.client.ended || l.server.closing {
					t.Errorf("after the COPY: %s, %s", l.client, l.server)
				}
			}
		})
	}
}

// The time for which a server works on after its client has left is counted.
func TestWorkForTheDeparted(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		cancels int
	}{"read": {"select 1", 1}, "write": {"update t set a = 1", 0}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.client.group.Workload.CancelAbandoned = true
			l.client.Data(wire.AppendQuery(nil, c.text), 2)
			l.client.Lost(5)
			if l.env.cancels != c.cancels {
				t.Errorf("%d cancels, want %d", l.env.cancels, c.cancels)
			}
			for range c.cancels {
				l.core.CancelDone(7, l.server, true)
			}
			l.server.Data(canceled(wire.Idle), 25)
			if n := l.core.Counts(); n.Wasted != 1 || n.WastedTime != 20 || int(n.CancelsEffective) != c.cancels {
				t.Errorf("counts %+v", n)
			}
			if err := l.core.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// In a queue that serves also those who have left nobody is asked whether he is there, and
// what runs for them is counted.
func TestQueueThatServesTheDeparted(t *testing.T) {
	l := newLab(t)
	user := &sink{}
	other := l.login(user, 2)
	other.group.Workload.ServesGone = true
	ask := wire.AppendQuery(nil, "select 1")
	l.client.Data(ask, 2)
	other.Data(ask, 3)
	writes := user.writes
	other.Hangup(4)
	if user.writes != writes || other.ended {
		t.Fatal("it was asked whether it is there")
	}
	l.server.Data(answer(ask), 10)
	if other.server == nil || !user.resumed {
		t.Fatal("it was not served")
	}
	other.Data(ask, 11)
	other.EOF(11)
	if user.writes != writes || l.env.cancels != 0 {
		t.Error("it was asked whether it is there, or its work was cancelled")
	}
	l.server.Data(answer(ask), 30)
	if c := l.core.Counts(); c.Wasted != 1 || c.WastedTime != 20 || c.Transactions != 2 {
		t.Errorf("counts %+v", c)
	}
	if !other.ended {
		t.Error("its session goes on")
	}
}

func TestDeadlinesDoNotAllocate(t *testing.T) {
	l := newLab(t)
	ask := wire.AppendQuery(nil, "select 1")
	reply := answer(ask)
	now := int64(3)
	until(l.client, 0, 1e9)
	run := func() {
		now++
		l.client.Data(ask, now)
		l.server.Data(reply, now)
	}
	run()
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for a transaction with a deadline", n)
	}
	if l.env.cancels != 0 || len(l.core.looks) != 0 {
		t.Errorf("%d cancels, %d servers looked at", l.env.cancels, len(l.core.looks))
	}
}
