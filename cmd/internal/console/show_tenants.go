package console

import "context"

// mostTenants bounds SHOW TENANTS: it is for whom to look at, and there may be thousands.
const mostTenants = 100

func tenants(ctx context.Context, q *query) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	list, err := q.c.guard.Tenants(ctx)
	if err != nil {
		return err
	}
	for i := range list[:min(len(list), mostTenants)] {
		t := &list[i]
		r := q.begin().text(t.Workload).text(t.Upstream).text(t.Class.String()).text(t.Role).text(t.Tenant)
		if err := q.end(r.count(t.Waiting, t.Running).millis(t.Served).total(t.Granted, t.Refused)); err != nil {
			return err
		}
	}
	return nil
}
