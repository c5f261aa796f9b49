package proxy

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/journal"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
)

// refuser is a client of a proxy that does not run, and a function that refuses it.
func refuser(t testing.TB, px *Proxy) (cl *session.Client, refuse func(admission.Reason)) {
	t.Helper()
	up := px.upstreams["main"]
	g := up.core.Groups()[0]
	params := relay.NewParams([]relay.Param{{Name: "application_name", Value: "web-1"}})
	cl = up.core.NewClient(nil, g, params, wire.NewCancelKey(1, 0))
	cl.Tag = &clientConn{id: 7, up: up, cl: cl, addr: "10.0.0.9:4001"}
	v := admission.Verdict{Outcome: admission.Refused, Waited: int64(61 * time.Millisecond), Queued: 27, Slots: 16}
	e := &wire.Error{Severity: "ERROR", Code: "53300", Message: "pgweir: no", Detail: "reason=queue_age pool=api", Hint: "retry_after_ms=250 retry=yes"}
	return cl, func(r admission.Reason) {
		v.Reason = r
		up.Refused(cl, v, e, false)
	}
}

func TestRefusalsAreKeptAndLogged(t *testing.T) {
	px := crowded(t, 1, 2, 1)
	var log bytes.Buffer
	px.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	_, refuse := refuser(t, px)
	for range 1500 {
		refuse(admission.QueueAge)
	}
	refuse(admission.NoServer)
	px.turnedAway(&wire.Error{Severity: "FATAL", Code: "53300", Detail: "reason=max_client_conn"}, "10.0.0.10:1")

	list := px.refusals.Newest()
	if len(list) != journal.Kept {
		t.Fatalf("%d are kept", len(list))
	}
	want := state.Refusal{
		At:     time.Now(),
		Client: "10.0.0.9:4001", ClientID: 7, Upstream: "main", Database: "db_0", Role: "role_0", Application: "web-1",
		Workload: "workload_0", Class: "critical", Reason: "no_server", Code: "53300", Detail: "reason=queue_age pool=api",
		Hint: "retry_after_ms=250 retry=yes", Waited: 61 * time.Millisecond,
	}
	if got := list[0].State(list[0].At, want.At); got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if got := list[1].State(0, time.Time{}); got.Reason != "queue_age" {
		t.Errorf("%+v", got)
	}
	doors := px.turned.Newest()
	if len(doors) != 1 || doors[0].Reason != "max_client_conn" || doors[0].Client != "10.0.0.10:1" || !doors[0].Login || doors[0].At.IsZero() {
		t.Errorf("turned away: %+v", doors)
	}
	if n := strings.Count(log.String(), "msg=refusing"); n != 2 {
		t.Errorf("%d lines for two kinds:\n%s", n, log.String())
	}
	for _, want := range []string{"reason=queue_age", "class=critical", "client=10.0.0.9:4001", "queued=27", "slots=16", "waited=61ms"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in\n%s", want, log.String())
		}
	}
	kinds := px.refusals.Kinds(1, time.Now())
	if len(kinds) != 2 || kinds[0].N+kinds[1].N != 1501 {
		t.Errorf("%+v", kinds)
	}
}

func TestRefusalsDoNotAllocate(t *testing.T) {
	px := crowded(t, 1, 2, 1)
	_, refuse := refuser(t, px)
	for range journal.Kept {
		refuse(admission.QueueAge)
	}
	if n := testing.AllocsPerRun(1000, func() { refuse(admission.QueueAge) }); n != 0 {
		t.Errorf("%v allocations for a refusal", n)
	}
}

// BenchmarkRefused is what a refusal costs on top of what the gate and the session do.
func BenchmarkRefused(b *testing.B) {
	px := crowded(b, 1, 2, 1)
	_, refuse := refuser(b, px)
	b.ReportAllocs()
	for b.Loop() {
		refuse(admission.QueueAge)
	}
}
