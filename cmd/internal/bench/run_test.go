package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// cluster is one Postgres for all tests of the package.
var cluster *pgtest.Cluster

func TestMain(m *testing.M) {
	os.Exit(func() int {
		c, err := pgtest.Start(context.Background(), pgtest.Options{})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cluster = c
		defer func() { _ = c.Stop() }()
		return m.Run()
	}())
}

// target is the cluster, with a counter of the test's own.
func target(t *testing.T, counter string) Target {
	t.Helper()
	url := cluster.DSN(pgtest.Superuser, "postgres")
	to := Target{Name: "postgres", URL: url, Direct: url, Counter: counter}
	if counter != "" {
		remove, err := to.MakeCounter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := remove(); err != nil {
				t.Error(err)
			}
		})
	}
	return to
}

// run runs a load that has to come to an end.
func run(t *testing.T, to Target, l Load) *Result {
	t.Helper()
	r, err := Run(t.Context(), to, l, Options{Settle: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if r.Failure != nil {
		t.Fatal(r.Failure)
	}
	return r
}

func phases(t *testing.T, text string) []Phase {
	t.Helper()
	list, err := ParsePhases(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func nap(d time.Duration) []Query {
	return []Query{{Statements: []string{Nap}, Work: Work{Mean: d}}}
}

func TestEverythingIsServed(t *testing.T) {
	to := target(t, "counted_served")
	for _, protocol := range []Protocol{Simple, Extended, Prepared} {
		for _, tell := range []Tell{ByComment, BySet, AtStartup, Untold} {
			t.Run(protocol.String()+" "+tell.String(), func(t *testing.T) {
				r := run(t, to, Load{Phases: phases(t, "200x100ms"), Even: true, Sessions: 4, Streams: []Stream{
					{
						Share: 1, Class: "critical", Tenants: []string{"it's", "b c"}, Deadline: true, Patience: 10 * time.Second,
						Tell: tell, Trace: true, Protocol: protocol, Queries: nap(time.Millisecond),
					},
				}})
				s := r.Sum(Filter{})
				if s.Asked != 20 || s.By[Served] != 20 || len(s.Took) != 20 || len(s.Why) != 0 || s.Lost != 0 {
					t.Errorf("%+v", s)
				}
				if !r.Counted || r.Most.Executed != 20 || r.Wasted() != 0 || r.Counts.Reconnects() != 0 {
					t.Errorf("%d executed, %d wasted, %+v", r.Most.Executed, r.Wasted(), r.Counts)
				}
				if n := r.Sum(Filter{Tenant: "it's"}).Asked; n != 10 {
					t.Errorf("%d of a tenant", n)
				}
			})
		}
	}
}

func TestPatienceEnds(t *testing.T) {
	for _, leave := range []Leave{Close, Cancel, CancelClose, Walk} {
		t.Run(leave.String(), func(t *testing.T) {
			to := target(t, "counted_"+fmt.Sprint(int(leave)))
			long := 400 * time.Millisecond // nobody stops it
			switch leave {
			case Cancel:
				long = time.Minute
			case CancelClose: // the request may come before its statement
				long = 3 * time.Second
			}
			r := run(t, to, Load{Phases: phases(t, "50x100ms"), Even: true, Streams: []Stream{
				{Share: 1, Patience: 50 * time.Millisecond, Leave: leave, Queries: nap(long)},
			}})
			s := r.Sum(Filter{})
			if s.By[GaveUp] != 5 || len(s.Why) != 1 || s.Why[0].N != 5 {
				t.Errorf("%+v", s)
			}
			left, least, most := 5, int64(5), int64(5)
			switch leave {
			case Cancel:
				left, least, most = 0, 0, 0
			case CancelClose:
				least, most = 0, 4
			}
			if r.Counts.Left != left || r.Counts.Lost != 0 || r.Wasted() < least || r.Wasted() > most || r.Unsettled {
				t.Errorf("%+v, %d wasted, unsettled %v", r.Counts, r.Wasted(), r.Unsettled)
			}
		})
	}
}

func TestClientsThatWait(t *testing.T) {
	r := run(t, target(t, "counted_clients"), Load{Streams: []Stream{
		{Name: "a", Clients: 3, Each: 7, Tenants: []string{"x", "y", "z"}, NameTenants: true, Queries: nap(time.Millisecond)},
		{Name: "b", Clients: 1, Each: 2, Queries: nap(time.Millisecond)},
	}})
	if a, b := r.Sum(Filter{Stream: "a"}), r.Sum(Filter{Stream: "b"}); a.By[Served] != 21 || b.By[Served] != 2 || a.Last == 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	if n := r.Sum(Filter{Tenant: "z"}).Asked; n != 7 {
		t.Errorf("%d of a client", n)
	}
}

func TestPagesEndAtTheFirstError(t *testing.T) {
	page := Query{Statements: []string{"SELECT 1", "SELECT 1/({id}-1), {count}"}, Repeat: 3, IDs: 1}
	l := Load{Streams: []Stream{{Clients: 1, Each: 2, Queries: []Query{page}}}}
	for _, goOn := range []bool{false, true} {
		l.Streams[0].Queries[0].GoOn = goOn
		r, err := Run(t.Context(), target(t, "counted_pages"), l, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := r.Sum(Filter{})
		done := 2
		if goOn {
			done = 6
		}
		if s.By[Failed] != 2 || s.Done != done || s.Broken != done || s.Lost != 0 || s.Why[0].Code != "22012" || r.Failure == nil {
			t.Errorf("%+v, %v", s, r.Failure)
		}
	}
}

func TestChurn(t *testing.T) {
	r := run(t, target(t, ""), Load{Streams: []Stream{{Clients: 1, Each: 5, Churn: 2, Queries: nap(0)}}})
	if s := r.Sum(Filter{}); s.By[Served] != 5 || r.Counts.Grown != 3 || r.Counts.Reconnects() != 0 {
		t.Errorf("%+v %+v", s, r.Counts)
	}
}

func TestTransactionsAreNotLeftOpen(t *testing.T) {
	q := Query{Statements: []string{"BEGIN", "SELECT 1/0", "SELECT 2"}, GoOn: true}
	l := Load{Streams: []Stream{{Clients: 1, Each: 3, Queries: []Query{q}}}}
	r, err := Run(t.Context(), target(t, ""), l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// A BEGIN in a transaction would be a warning, a SELECT in a failed one 25P02.
	if s := r.Sum(Filter{}); s.Done != 3 || len(s.Why) != 1 || s.Why[0].Code != "22012" {
		t.Errorf("%+v", s)
	}
}

func TestTooFewConnections(t *testing.T) {
	r := run(t, target(t, ""), Load{Phases: phases(t, "100x100ms"), Even: true, MaxSessions: 2, Streams: []Stream{
		{Share: 1, Patience: 150 * time.Millisecond, Leave: Cancel, Queries: nap(time.Minute)},
	}})
	s := r.Sum(Filter{})
	if s.By[Unsent] == 0 || s.By[Unsent]+s.By[GaveUp] != 10 {
		t.Errorf("%+v", s)
	}
	if r.Most.Open > 3 { // and the one that watches is not counted
		t.Errorf("%d connections", r.Most.Open)
	}
}

func TestBurnTakesAsLongAsItSays(t *testing.T) {
	to := target(t, "counted_burn")
	perMS, err := Calibrate(t.Context(), to)
	if err != nil || perMS < 100 {
		t.Fatalf("%g rows in a millisecond, %v", perMS, err)
	}
	work := Query{Statements: []string{Burn}, Work: Work{20 * time.Millisecond, 1}}
	r := run(t, to, Load{LoopsPerMS: perMS, Streams: []Stream{{Clients: 1, Each: 10, Queries: []Query{work}}}})
	if r.Most.Executed != 10 || r.Sum(Filter{}).By[Served] != 10 {
		t.Errorf("%+v", r.Most)
	}
}

func TestRunEndsEarly(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := Load{Phases: phases(t, "100x1h"), Sessions: 4, Streams: []Stream{{Share: 1, Queries: nap(time.Millisecond)}}}
	var marks []Mark
	_, err := Run(ctx, target(t, ""), l, Options{Forget: true, Every: time.Millisecond, Look: func(m Mark) {
		if marks = append(marks, m); m.By[Served] > 0 {
			cancel()
		}
	}})
	if err == nil || len(marks) == 0 || !slices.IsSortedFunc(marks, func(a, b Mark) int { return int(a.At - b.At) }) {
		t.Errorf("%v after %d looks", err, len(marks))
	}
}

func TestNobodyListens(t *testing.T) {
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("postgres://nobody@127.0.0.1:%d/none?sslmode=disable", port)
	l := Load{Phases: phases(t, "10x1s"), Streams: []Stream{{Share: 1, Queries: nap(0)}}}
	if _, err := Run(t.Context(), Target{Name: "nowhere", URL: url}, l, Options{}); err == nil {
		t.Error("a result")
	}
}
