package proxy

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// lastTenants bounds the tenants of an upstream that are told of.
const lastTenants = 1000

// Tenants implements Inspector.
func (px *Proxy) Tenants(ctx context.Context) (list []TenantState, err error) {
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
	for _, up := range ups { // each in a turn of its own
		if err = px.do(ctx, func(int64) { list = append(list, up.tenants()...) }); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b TenantState) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Served, a.Served), cmp.Compare(b.Refused, a.Refused))
	})
	return list, nil
}

// tenants are those that the gate knows. Loop thread.
func (up *cluster) tenants() []TenantState {
	known := up.core.Gate().Tenants(nil, lastTenants)
	list := make([]TenantState, 0, len(known))
	for i := range known {
		t := &known[i]
		list = append(list, TenantState{
			Upstream: up.name, Workload: up.names[t.Workload], Class: t.Class,
			Role: up.core.RoleName(t.Role), Tenant: up.core.TenantName(t.Role, t.Tenant),
			Waiting: t.Waiting, Running: t.Running, Served: time.Duration(t.Served), Granted: t.Granted, Refused: t.Refused,
		})
	}
	return list
}
