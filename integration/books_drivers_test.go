package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/integration/drivers"
)

// The same with drivers of other languages, with several times what two slots can do, of
// several classes and tenants, with deadlines before which some of it is stopped while it
// runs: whatever happens to a statement, a transfer happens in whole or not at all, and who
// reads COMMIT has it.
func TestBooksBalanceWithDrivers(t *testing.T) {
	f := startFront(t, plan{
		slots: 2,
		more:  "[[workload]]\nname = \"default\"\nmax_wait = { critical = \"60ms\", sheddable = \"20ms\" }\n",
	})
	f.sql(t, "app", bookSchema)
	f.psql(t, "select 1")
	all := make(map[string]bool)
	for _, name := range []string{"psycopg2", "psycopg", "asyncpg", "pg", "jdbc"} {
		t.Run(name, func(t *testing.T) {
			driver, err := drivers.Start(name)
			if errors.Is(err, drivers.ErrMissing) && os.Getenv("PGWEIR_REQUIRE_DRIVERS") == "" {
				t.Skipf("%v (.ci/setup drivers installs it)", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := driver.Close(); err != nil {
					t.Error(err)
				}
			}()
			before, failed := len(all), make(map[string]int)
			err = driver.Do(t.Context(), drivers.Job{
				To: f.Endpoint, User: f.app.User, Database: f.app.Database, Application: name,
				Mode: drivers.Transfer, Workers: 15, Transfers: 8,
				Tags: []string{
					"", "/*pgweir.class='sheddable',pgweir.tenant='a'*/", "/*pgweir.tenant='b',pgweir.attempt='2'*/",
					"/*pgweir.deadline_ms='30'*/", "/*pgweir.class='critical',pgweir.deadline_ms='8'*/",
				},
			}, func(e drivers.Event) {
				switch e.Kind {
				case drivers.Committed:
					all[e.Text] = true
				case drivers.Failed:
					failed[codeAndReason(e)]++
				case drivers.Broken:
					t.Errorf("%+v", e)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d transfers committed, statements failed: %v", len(all)-before, failed)
			if f.proc != nil && (len(all) == before || len(failed) == 0) {
				t.Error("both must happen")
			}
			for what := range failed {
				switch code, _, _ := strings.Cut(what, " "); code {
				case "53300", "57014", "25P02":
				default:
					t.Errorf("a statement failed with %s", what)
				}
			}
			checkBooks(t, f, all)
		})
	}
}

// codeAndReason is what a statement failed with.
func codeAndReason(e drivers.Event) string {
	reason, _, _ := strings.Cut(strings.TrimPrefix(e.Detail, "reason="), " ")
	return strings.TrimSpace(fmt.Sprint(e.Code, " ", reason))
}
