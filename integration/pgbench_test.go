package integration

import (
	"regexp"
	"strconv"
	"testing"
)

// Sixteen clients on four servers, each way of speaking, reading and writing. pgbench ends
// with an error as soon as one of its clients does.
func TestPgbench(t *testing.T) {
	f := startFront(t, plan{slots: 4})
	if _, err := f.Pgbench(t.Context(), f.app, "-i", "-q", "-s", "1"); err != nil {
		t.Fatal(err)
	}
	processed := regexp.MustCompile(`number of transactions actually processed: (\d+)`)
	failed := regexp.MustCompile(`number of failed transactions: ([1-9]\d*)`)
	for _, script := range []string{"tpcb-like", "select-only"} {
		for _, mode := range []string{"simple", "extended", "prepared"} {
			t.Run(script+" "+mode, func(t *testing.T) {
				// Two threads on purpose: in the prepared mode a thread of pgbench waits for
				// the answer to each Parse, while other clients of its own are in transactions
				// that nobody else continues.
				out, err := f.Pgbench(t.Context(), f.app, "-n", "-b", script, "-M", mode, "-c", "16", "-j", "2", "-T", "2")
				if err != nil {
					t.Fatal(err)
				}
				m := processed.FindStringSubmatch(out)
				if m == nil {
					t.Fatalf("output: %s", out)
				}
				if n, err := strconv.Atoi(m[1]); err != nil || n == 0 {
					t.Errorf("%s transactions, %v", m[1], err)
				}
				if m := failed.FindString(out); m != "" {
					t.Error(m)
				}
			})
		}
	}
	// What TPC-B promises of its data.
	f.psql(t, `do $$ begin
	assert (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches), 'branches';
	assert (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history), 'history';
end $$`)
}
