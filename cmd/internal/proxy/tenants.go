package proxy

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// lastTenants bounds the tenants of an upstream that are told of.
const lastTenants = 1000

// Tenants implements state.Inspector.
func (px *Proxy) Tenants(ctx context.Context) (list []state.Tenant, err error) {
	var ups []*cluster
	if err = px.do(ctx, func(int64) {
		for _, up := range px.upstreams {
			if !up.forgotten() {
				ups = append(ups, up)
			}
		}
	}); err != nil {
		return nil, err
	}
	for _, up := range ups {
		rows, err := up.tenants(ctx)
		if err != nil {
			return nil, err
		}
		list = append(list, rows...)
	}
	slices.SortStableFunc(list, func(a, b state.Tenant) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Served, a.Served), cmp.Compare(b.Refused, a.Refused))
	})
	return list, nil
}

// tenants are the most important of those that the gate knows. It asks for some of them in each
// turn of the loop.
func (up *cluster) tenants(ctx context.Context) ([]state.Tenant, error) {
	top, at := make([]admission.TenantStats, 0, lastTenants), 0
	err := onLoop(up.px.do).slices(ctx, func(int64) (more bool) {
		at, top = up.core.Gate().Accounts(top, lastTenants, at, rowsPerTurn)
		return at >= 0
	})
	if err != nil {
		return nil, err
	}
	top = admission.Rank(top)
	list := make([]state.Tenant, 0, len(top))
	err = up.px.do(ctx, func(int64) {
		for i := range top {
			t := &top[i]
			list = append(list, state.Tenant{
				Upstream: up.name, Workload: up.names[t.Workload], Class: t.Class,
				Role: up.core.RoleName(t.Role), Tenant: up.core.TenantName(t.Role, t.Tenant),
				Waiting: t.Waiting, Running: t.Running, Served: time.Duration(t.Served), Granted: t.Granted, Refused: t.Refused,
			})
		}
	})
	return list, err
}
