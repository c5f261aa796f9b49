package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// budget = "auto" counts the connections of others, not pgweir's own, and a reload counts
// anew: the others may be those of a pgweir that was about to end.
func TestAutomaticBudgetIsWorkedOutAnew(t *testing.T) {
	t.Parallel()
	if os.Getenv(directEnv) != "" {
		t.Skip("needs pgweir")
	}
	const most = 40
	f := startBehind(t, plan{settings: map[string]string{"max_connections": fmt.Sprint(most), "superuser_reserved_connections": "0"}})
	others := make([]*pgx.Conn, 20)
	for i := range others {
		c, err := pgx.Connect(t.Context(), f.URL(f.app))
		if err != nil {
			t.Fatal(err)
		}
		others[i] = c
	}
	proc := pgtest.Pgweir(t, fmt.Sprintf(`
[auth]
auth_type = "trust"
[console]
admin_users = ["app"]
[upstream.main]
url = %q
[database."*"]
[[workload]]
name = "default"
min_pool_size = 3
`, f.cluster.URL(f.app)))
	budget := func() string {
		t.Helper()
		out, err := proc.Psql(t.Context(), pgtest.Login{User: "app", Database: "pgweir"}, "show upstreams")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := func(others int) string {
		return fmt.Sprintf("0.7 x (%d - 0 - 0 - %d) = %d", most, others, (most-others)*7/10)
	}
	eventually(t, "the budget beside the others", func() bool { return strings.Contains(budget(), want(len(others))) })
	if _, err := proc.Psql(t.Context(), f.app, "select 1"); err != nil { // servers of its own do not count
		t.Fatal(err)
	}
	for _, c := range others {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	f.await(t, "count(*) <= 3 from pg_stat_activity where usename = 'app'")
	if _, err := proc.Psql(t.Context(), pgtest.Login{User: "app", Database: "pgweir"}, "reload"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the budget without the others", func() bool { return strings.Contains(budget(), want(0)) })
}
