package session

import (
	"testing"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A transaction from the client's bytes to the answer: what pgweir does for it but for the
// system calls.
func BenchmarkTransaction(b *testing.B) {
	prepared := wire.AppendEmpty(wire.AppendExecute(wiretest.AppendBind(nil, wiretest.Bind{Statement: "s"})), wire.MsgSync)
	known := []byte{'2', 0, 0, 0, 4, 'C', 0, 0, 0, 13, 'S', 'E', 'L', 'E', 'C', 'T', ' ', '1', 0, 'Z', 0, 0, 0, 5, 'I'}
	extended := wire.AppendEmpty(wire.AppendExecute(wiretest.AppendBind(wiretest.AppendParse(nil, "", "select 1"), wiretest.Bind{})), wire.MsgSync)
	simple := wire.AppendQuery(nil, "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;")
	tagged := wire.AppendQuery(nil, "SELECT abalance FROM pgbench_accounts WHERE aid = 12345 /*pgweir.tenant='t1',traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/;")
	for _, c := range []struct {
		name       string
		ask, reply []byte
		mode       admission.Mode
	}{
		{"simple", simple, answer(wire.AppendQuery(nil, "select 1")), admission.Enforce},
		{"prepared", prepared, known, admission.Enforce},
		{"extended", extended, answer(extended), admission.Enforce},
		{"tagged", tagged, answer(wire.AppendQuery(nil, "select 1")), admission.Enforce},
		{"simple-off", simple, answer(wire.AppendQuery(nil, "select 1")), admission.Off},
		{"prepared-off", prepared, known, admission.Off},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newLab(b)
			l.core.Gate().Reconfigure(1, admission.Plan{Slots: 1, Workloads: []admission.Workload{{Mode: c.mode}}}, nil)
			first := wire.AppendEmpty(wiretest.AppendParse(nil, "s", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;"), wire.MsgSync)
			l.client.Data(first, 2)
			l.server.Data(answer(first), 2)
			now := int64(3)
			b.ReportAllocs()
			for b.Loop() {
				now += 50_000
				l.client.Data(c.ask, now)
				l.server.Data(c.reply, now+20_000)
			}
		})
	}
}

// A refusal from the client's bytes to the error that it gets, where the queue is full.
func BenchmarkRefusal(b *testing.B) {
	l := newLab(b)
	plan := admission.Plan{Slots: 1, Workloads: []admission.Workload{{MaxWaiting: 1}}}
	l.core.Gate().Reconfigure(1, plan, nil)
	ask := wire.AppendQuery(nil, "SELECT abalance FROM pgbench_accounts WHERE aid = 12345;")
	l.client.Data(ask, 2) // has the slot
	l.login(&sink{}, 2).Data(ask, 2)
	user := &sink{}
	other := l.login(user, 3)
	now := int64(3)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		other.Data(ask, now)
	}
	if user.last == nil || user.last[0] != wire.MsgErrorResponse || other.ended {
		b.Fatalf("told %s", wiretest.DumpBackend(user.last))
	}
}
