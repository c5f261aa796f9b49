package session

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// cappedLab is a lab whose role has ceilings.
func cappedLab(t testing.TB, limits map[Timeout]int64) *lab {
	t.Helper()
	l := newLab(t)
	r := Role{MaxClass: admission.Critical, PromoteShare: 1, Ceiling: true}
	for timeout, ns := range limits {
		r.Timeouts[timeout] = ns
	}
	l.core.Limit(func(string) Role { return r })
	return l
}

func batch(texts ...string) (b []byte) {
	for _, text := range texts {
		b = wire.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(b, "", text), wiretest.Bind{}))
	}
	return b
}

func synced(b []byte) []byte { return wire.AppendEmpty(b, wire.MsgSync) }

func query(text string) []byte { return wire.AppendQuery(nil, text) }

// told is the last error that the client was told, or nil.
func (l *lab) told() *wire.Error {
	msgs, _ := wiretest.Messages(l.user.last)
	for _, m := range msgs {
		if m.Type == wire.MsgErrorResponse {
			return wire.ErrorFields(m.Body)
		}
	}
	return nil
}

// run sends a request and its answer.
func (l *lab) run(t *testing.T, b *wiretest.Backend, ask []byte, now int64) {
	t.Helper()
	if n := l.client.Data(ask, now); n != len(ask) {
		t.Fatalf("%d of %d bytes were read", n, len(ask))
	}
	b.Feed(ask)
	b.Run()
	l.server.Data(b.Output(), now)
}

// block opens a transaction block on the server.
func (l *lab) block(t *testing.T) {
	t.Helper()
	b := wiretest.NewBackend(wiretest.BackendOptions{})
	for _, ask := range [][]byte{query("begin"), query("select 1")} {
		l.client.Data(ask, 2)
		b.Feed(ask)
	}
	b.Run()
	out := bytes.Replace(b.Output(), wire.AppendReadyForQuery(nil, wire.InTransaction), nil, 1) // the BEGIN goes ahead in a batch of the SELECT
	l.server.Data(append(wire.AppendEmpty(wire.AppendEmpty(nil, wire.MsgParseComplete), wire.MsgBindComplete), out...), 2)
	if l.server.link.Tx() != wire.InTransaction {
		t.Fatalf("no block: %s", l.server)
	}
}

func TestStatementCeiling(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{StatementTimeout: 100 * ms})
	l.client.Data(query("select 1"), 2)
	if next := l.core.Fire(100 * ms); next != 100*ms+2 || l.env.cancels != 0 {
		t.Fatalf("%d cancels in time, next look at %d", l.env.cancels, next)
	}
	l.core.Fire(100*ms + 2)
	if l.env.cancels != 1 || !l.user.paused || !slices.Equal(l.env.stopped, []Timeout{StatementTimeout}) {
		t.Fatalf("%d cancels, client paused: %v, stopped %v", l.env.cancels, l.user.paused, l.env.stopped)
	}
	l.core.Fire(110 * ms)
	if l.env.cancels != 1 {
		t.Error("another cancel while one is under way")
	}
	l.core.CancelDone(110*ms, l.server, true)
	if !l.user.resumed {
		t.Error("the client is not read again")
	}
	l.core.Fire(500 * ms)
	if l.env.cancels != 2 {
		t.Error("no second cancel, although the first came too early")
	}
	l.server.Data(canceled(wire.Idle), 501*ms)
	l.core.CancelDone(502*ms, l.server, true)
	e := l.told()
	if e == nil || e.Code != "57014" || e.Message != "canceling statement due to statement timeout" || e.Detail != "reason=statement_timeout limit_ms=100" || !strings.HasPrefix(e.Hint, "retry=no; ") {
		t.Errorf("the client was told %+v", e)
	}
	l.core.Fire(20e9)
	if l.client.ended || l.env.cancels != 2 || len(l.core.caps) != 0 || len(l.env.stopped) != 1 {
		t.Errorf("ended %v, %d cancels, %d looks, stopped %v", l.client.ended, l.env.cancels, len(l.core.caps), l.env.stopped)
	}
	l.client.Data(query("select 1"), 30e9)
	l.server.Data(canceled(wire.Idle), 30e9+1)
	if e := l.told(); e == nil || e.Detail != "" {
		t.Errorf("of another cancel: %+v", e)
	}
	if err := l.core.Check(); err != nil {
		t.Error(err)
	}
}

// Each statement has its time, and a look is only planned where none is planned before.
func TestCeilingsAreLazy(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{StatementTimeout: 100 * ms, TransactionTimeout: 1000 * ms, IdleTimeoutInTx: 200 * ms, LockTimeout: 50 * ms})
	ask := query("select 1")
	reply := answer(ask)
	l.client.Data(ask, 2)
	l.server.Data(reply, 3)
	l.core.Fire(3)
	l.core.TimerChanged()
	now, plans := int64(3), 0
	run := func() {
		now += ms / 100
		l.client.Data(ask, now)
		if l.core.TimerChanged() {
			plans++
		}
		l.server.Data(reply, now)
		l.core.TimerChanged()
	}
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations for a transaction under ceilings", n)
	}
	if plans != 0 || len(l.core.caps) != 1 {
		t.Errorf("%d plans in 2 ms, %d looks", plans, len(l.core.caps))
	}
	for range 10_000 { // a second
		run()
		l.core.Fire(now)
	}
	if l.env.cancels != 0 || l.env.asks != 0 || len(l.env.stopped) != 0 {
		t.Errorf("%d cancels, %d questions, stopped %v", l.env.cancels, l.env.asks, l.env.stopped)
	}
	if next := l.core.Fire(now + 50*ms); len(l.core.caps) != 0 || next == now+50*ms {
		t.Errorf("%d looks while nothing runs", len(l.core.caps))
	}
}

// What is stopped of a role's work, and what never.
func TestWhatACeilingStops(t *testing.T) {
	copyIn := wire.AppendMessage(nil, wire.MsgCopyInResponse, []byte{0, 0, 0})
	for name, c := range map[string]struct {
		block   bool // in a transaction block
		ask     []byte
		reply   []byte
		alone   bool
		cancels int
		fails   bool // the COPY
	}{
		"read":                                {ask: query("select 1"), cancels: 1},
		"write":                               {ask: query("update t set a = 1")},
		"write, no standby":                   {ask: query("update t set a = 1"), alone: true, cancels: 1},
		"DO":                                  {ask: query("do $$ begin end $$")},
		"DO, no standby":                      {ask: query("do $$ begin end $$"), alone: true, cancels: 1},
		"write in a block":                    {block: true, ask: query("update t set a = 1"), cancels: 1},
		"DO in a block":                       {block: true, ask: query("do $$ begin end $$"), cancels: 1},
		"COMMIT":                              {block: true, ask: query("commit"), alone: true},
		"COMMIT, extended":                    {block: true, ask: synced(batch("commit")), alone: true},
		"PREPARE TRANSACTION":                 {block: true, ask: query("prepare transaction 'x'"), alone: true},
		"text that ends in COMMIT":            {ask: query("begin; select 1; commit")},
		"text that ends in COMMIT, alone":     {ask: query("begin; select 1; commit"), alone: true, cancels: 1},
		"pipeline that ends in COMMIT":        {block: true, ask: synced(batch("select 1", "commit"))},
		"pipeline that ends in COMMIT, alone": {block: true, ask: synced(batch("select 1", "commit")), alone: true, cancels: 1},
		"in the middle of a pipeline":         {block: true, ask: bytes.Join([][]byte{synced(batch("select 1")), synced(batch("select 2"))}, nil), cancels: 1},
		"without a Sync":                      {block: true, ask: batch("select 1"), cancels: 1},
		"Sync behind what is answered": {
			ask: synced(batch("insert into t values (1)")), alone: true,
			reply: []byte("1\x00\x00\x00\x042\x00\x00\x00\x04C\x00\x00\x00\x0fINSERT 0 1\x00"),
		},
		"COPY FROM STDIN": {ask: query("copy t from stdin"), reply: copyIn, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := cappedLab(t, map[Timeout]int64{StatementTimeout: 100 * ms})
			l.env.alone = c.alone
			if c.block {
				l.block(t)
			}
			if n := l.client.Data(c.ask, 3); n != len(c.ask) {
				t.Fatalf("%d of %d bytes were read", n, len(c.ask))
			}
			l.server.Data(c.reply, 4)
			l.wire.last = nil
			l.core.Fire(100*ms + 4)
			if l.env.cancels != c.cancels {
				t.Errorf("%d cancels, want %d", l.env.cancels, c.cancels)
			}
			if fails := bytes.HasPrefix(l.wire.last, []byte{wire.MsgCopyFail}); fails != c.fails {
				t.Errorf("the server was told %q", l.wire.last)
			}
			if l.client.ended {
				t.Error("the session was ended")
			}
		})
	}
}

// Each statement of a batch has its own time: the server is asked to flush what it has done.
func TestCeilingOfEachStatementOfABatch(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{StatementTimeout: 100 * ms})
	l.block(t)
	l.client.Data(batch("select 1"), 2)
	flush := wire.AppendEmpty(nil, wire.MsgFlush)
	if !bytes.HasSuffix(l.wire.last, flush) {
		t.Fatalf("no Flush behind a lone Execute: %q", l.wire.last)
	}
	ask := batch("select 1", "select 2")
	l.client.Data(synced(ask), 3)
	if n := bytes.Count(l.wire.last, flush); n != 1 {
		t.Errorf("%d Flush messages for two statements and a Sync", n)
	}
	done := []byte("1\x00\x00\x00\x042\x00\x00\x00\x04C\x00\x00\x00\x0dSELECT 1\x00")
	for i := range int64(3) {
		l.core.Fire((90*i + 89) * ms)
		l.server.Data(done, 90*(i+1)*ms)
	}
	if l.env.cancels != 0 {
		t.Error("a statement that took 90 ms was cancelled")
	}
}

func TestTransactionCeilings(t *testing.T) {
	limits := map[Timeout]int64{TransactionTimeout: 100 * ms, IdleTimeoutInTx: 50 * ms}
	begin := func(t *testing.T) (*lab, *wiretest.Backend) {
		l := cappedLab(t, limits)
		b := wiretest.NewBackend(wiretest.BackendOptions{})
		ask := query("begin; select 1")
		l.run(t, b, ask, 2)
		return l, b
	}
	ends := func(t *testing.T, l *lab, code string, reason Reason) {
		t.Helper()
		e := l.told()
		if e == nil || e.Code != code || e.Severity != wire.SeverityFatal || e.Detail == "" {
			t.Errorf("the client was told %+v", e)
		}
		if !l.client.ended || !slices.Equal(l.env.ended, []Reason{reason}) || l.server.pool.State() != pool.Closing {
			t.Errorf("ended %v, server %s", l.env.ended, l.server)
		}
		l.server.Gone(200 * ms)
		l.core.Fire(10e9)
		if err := l.core.Check(); err != nil || len(l.core.caps) != 0 {
			t.Errorf("%v, %d looks", err, len(l.core.caps))
		}
	}
	t.Run("idle", func(t *testing.T) {
		l, _ := begin(t)
		l.core.Fire(50*ms + 1)
		if l.client.ended {
			t.Fatal("too soon")
		}
		l.core.Fire(50*ms + 2)
		ends(t, l, "25P03", OverIdle)
		if l.env.cancels != 0 {
			t.Error("a cancel for nothing")
		}
	})
	t.Run("busy", func(t *testing.T) {
		l, b := begin(t)
		for now := 30 * ms; now < 100*ms; now += 30 * ms {
			l.core.Fire(now)
			l.run(t, b, query("select 1"), now)
		}
		l.core.Fire(100*ms + 2)
		ends(t, l, "25P04", OverTransaction)
	})
	t.Run("in a write", func(t *testing.T) {
		l, _ := begin(t)
		l.client.Data(query("update t set a = 1"), 3)
		l.core.Fire(100*ms + 2)
		if l.env.cancels != 1 {
			t.Errorf("%d cancels", l.env.cancels)
		}
		l.core.CancelDone(101*ms, l.server, true)
		ends(t, l, "25P04", OverTransaction)
	})
	t.Run("in COMMIT", func(t *testing.T) {
		l, b := begin(t)
		l.client.Data(query("commit"), 3)
		l.core.Fire(10e9)
		if l.client.ended || l.env.cancels != 0 {
			t.Fatalf("ended %v, %d cancels", l.client.ended, l.env.cancels)
		}
		b.Feed(query("commit"))
		b.Run()
		l.server.Data(b.Output(), 10e9)
		if l.client.server != nil || l.client.ended {
			t.Errorf("after the COMMIT: %s", l.client)
		}
	})
	t.Run("AND CHAIN", func(t *testing.T) {
		l, b := begin(t)
		for now := 40 * ms; now < 400*ms; now += 40 * ms {
			l.core.Fire(now)
			l.run(t, b, query("commit and chain"), now)
		}
		if l.client.ended {
			t.Error("a chain of short transactions was stopped")
		}
	})
}

// Who does not take what it is sent keeps its server from being cancelled, but not for long.
func TestStubbornClient(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{StatementTimeout: 100 * ms})
	l.client.Data(query("select 1"), 2)
	l.user.unsent = 1000
	now := 100*ms + 2
	for ; now < 2e9; now += ms {
		l.core.Fire(now)
		for l.server.Cancelling() {
			l.core.CancelDone(now, l.server, true)
		}
	}
	if l.client.ended {
		t.Fatal("too soon")
	}
	l.core.Fire(10e9)
	if !l.client.ended || !slices.Equal(l.env.ended, []Reason{OverStatement}) || len(l.env.stopped) != 1 {
		t.Errorf("ended %v, stopped %v", l.env.ended, l.env.stopped)
	}
}

func TestLockCeiling(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{LockTimeout: 100 * ms})
	l.client.Data(query("select 1"), 2)
	l.core.Fire(100*ms + 2)
	if l.env.asks != 1 {
		t.Fatalf("asked %d times", l.env.asks)
	}
	l.core.LockWaits(110*ms, 101*ms, nil)
	if l.env.cancels != 0 {
		t.Fatal("cancelled what does not wait")
	}
	if l.core.Fire(600 * ms); l.env.asks != 1 {
		t.Errorf("asked %d times within half a second", l.env.asks)
	}
	l.core.Fire(601 * ms)
	l.core.LockWaits(610*ms, 602*ms, map[*Server]int64{l.server: 550 * ms})
	if l.env.asks != 2 || l.env.cancels != 0 {
		t.Fatalf("asked %d times, %d cancels for a wait of 60 ms", l.env.asks, l.env.cancels)
	}
	l.core.Fire(650 * ms)
	l.core.LockWaits(651*ms, 650*ms, map[*Server]int64{l.server: 550 * ms})
	if l.env.asks != 3 || l.env.cancels != 1 {
		t.Fatalf("asked %d times, %d cancels for a wait of 101 ms", l.env.asks, l.env.cancels)
	}
	l.server.Data(canceled(wire.Idle), 652*ms)
	if e := l.told(); e == nil || e.Code != "55P03" || e.Detail != "reason=lock_timeout limit_ms=100" {
		t.Errorf("the client was told %+v", e)
	}
}

// An answer that is about an earlier statement is of no use.
func TestLateAnswerAboutLocks(t *testing.T) {
	l := cappedLab(t, map[Timeout]int64{LockTimeout: 100 * ms})
	l.client.Data(query("select 1"), 2)
	l.core.Fire(100*ms + 2)
	l.server.Data(answer(query("select 1")), 105*ms)
	l.client.Data(query("select 1"), 106*ms)
	l.core.LockWaits(110*ms, 101*ms, map[*Server]int64{l.server: 1})
	if l.env.cancels != 0 {
		t.Error("the next statement was cancelled")
	}
}

func TestNoCeiling(t *testing.T) {
	for name, change := range map[string]func(l *lab){
		"tools":  func(l *lab) { l.client.group.Workload.Uncapped = true },
		"reload": func(l *lab) { l.core.Limit(func(string) Role { return Role{} }) },
	} {
		t.Run(name, func(t *testing.T) {
			l := cappedLab(t, map[Timeout]int64{StatementTimeout: 1, TransactionTimeout: 1, IdleTimeoutInTx: 1, LockTimeout: 1})
			change(l)
			l.client.Data(query("select 1"), 2)
			l.core.Fire(10e9)
			if l.env.cancels+l.env.asks != 0 || len(l.core.caps) != 0 || l.client.ended {
				t.Errorf("%d cancels, %d questions, %d looks", l.env.cancels, l.env.asks, len(l.core.caps))
			}
		})
	}
}
