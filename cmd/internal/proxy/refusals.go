package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/journal"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/cmd/internal/state"
	"github.com/pgweir/pgweir/wire"
)

// Refused implements session.Env.
func (up *cluster) Refused(cl *session.Client, v admission.Verdict, e *wire.Error, login bool) {
	px, h, m := up.px, cl.Tag.(*clientConn), cl.Meta()
	f := journal.Refusal{
		At: px.loop.Now(), Waited: v.Waited, Upstream: up.name, Group: cl.Group(), Workload: cl.Group().Workload.Name, Client: h.id, Address: h.addr,
		Told: e, Application: clip(cl.Application()), Tenant: m.Tenant, Traceparent: m.Traceparent,
		Reason: v.Reason, Class: m.Class, Login: login,
	}
	px.refusals.Note(px.o.Log, &f, &v, m.Named)
}

// Refusals implements state.Inspector.
func (px *Proxy) Refusals(ctx context.Context) (list []state.Refusal, err error) {
	var kept []journal.Refusal
	var now int64
	var at time.Time
	err = px.do(ctx, func(n int64) {
		kept, now, at = px.refusals.Newest(), n, time.Now()
	})
	if err != nil {
		return nil, err
	}
	list = make([]state.Refusal, 0, len(kept))
	for i := range kept {
		list = append(list, kept[i].State(now, at))
	}
	list = append(list, px.turned.Newest()...)
	slices.SortStableFunc(list, func(a, b state.Refusal) int { return b.At.Compare(a.At) })
	return list[:min(len(list), journal.Kept)], nil
}

// clip bounds a name that a client has chosen.
func clip(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// turnedAway notes a client that was refused at the door.
func (px *Proxy) turnedAway(e *wire.Error, client string) {
	px.turned.Add(px.o.Log, time.Since(px.started).Nanoseconds(), e, client)
}
