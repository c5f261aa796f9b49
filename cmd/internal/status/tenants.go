package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// tenants remembers what tenants had done, so that it can be told what they do now.
type tenants struct {
	at   time.Time
	last map[tenantKey]state.Tenant
}

// tenantKey tells them apart.
type tenantKey struct {
	upstream, workload, role, tenant string
	class                            admission.Class
}

// rows are the tenants that do something, those that are refused most first, and how many
// others there are. Of one that was not known a moment ago there are no rates yet.
func (t *tenants) rows(list []state.Tenant, now time.Time) (rows []tenantView, more int) {
	secs := max(now.Sub(t.at).Seconds(), 1e-3)
	next := make(map[tenantKey]state.Tenant, len(list))
	rows = make([]tenantView, 0, len(list))
	for i := range list {
		s := &list[i]
		key := tenantKey{s.Upstream, s.Workload, s.Role, s.Tenant, s.Class}
		next[key] = *s
		was, known := t.last[key]
		if !known || was.Granted > s.Granted || was.Served > s.Served {
			was = *s // it was forgotten meanwhile, if it was known: its counts began again
		}
		v := tenantView{
			Tenant: s.Tenant, Role: s.Role, Workload: s.Workload, Class: s.Class.String(), Waiting: s.Waiting, Running: s.Running,
			Slots: (s.Served - was.Served).Seconds() / secs, Served: per(s.Granted, was.Granted, secs), Refused: per(s.Refused, was.Refused, secs),
		}
		if v.Waiting > 0 || v.Running > 0 || v.Served > 0 || v.Refused > 0 {
			rows = append(rows, v)
		}
	}
	t.at, t.last = now, next
	slices.SortStableFunc(rows, func(a, b tenantView) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Slots, a.Slots))
	})
	return cut(rows, maxTenantRows)
}
