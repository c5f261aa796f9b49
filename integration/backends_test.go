package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// backends watches how many processes of a PostgreSQL serve role app: by looking at them,
// so that it neither disturbs nor is one of them.
type backends struct {
	stop, done chan struct{}
	dir        string
	most       int
	samples    int
}

// watchBackends watches until the end of the test, or until the result is asked for.
func watchBackends(t *testing.T, c *pgtest.Cluster) *backends {
	t.Helper()
	b := &backends{stop: make(chan struct{}), done: make(chan struct{}), dir: c.DataDir}
	go b.watch()
	t.Cleanup(b.end)
	return b
}

func (b *backends) watch() {
	defer close(b.done)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		b.most = max(b.most, backendsOf(b.dir))
		b.samples++
		select {
		case <-b.stop:
			return
		case <-tick.C:
		}
	}
}

func (b *backends) end() {
	select {
	case <-b.stop:
	default:
		close(b.stop)
	}
	<-b.done
}

// within ends the watch and fails the test if there were more than budget.
func (b *backends) within(t *testing.T, budget int) {
	t.Helper()
	b.end()
	t.Logf("at most %d of %d backends in %d samples", b.most, budget, b.samples)
	if b.most > budget {
		t.Errorf("%d backends, the budget is %d", b.most, budget)
	}
	if b.most == 0 {
		t.Error("no backend was ever seen")
	}
}

// backendsOf counts the backends of app by the titles of the postmaster's children.
func backendsOf(dataDir string) (n int) {
	pidFile, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return 0 // it is not running
	}
	pid, _, _ := strings.Cut(string(pidFile), "\n")
	list, err := os.ReadFile(fmt.Sprintf("/proc/%s/task/%[1]s/children", pid))
	if err != nil {
		return 0
	}
	for child := range strings.FieldsSeq(string(list)) {
		title, err := os.ReadFile("/proc/" + child + "/cmdline")
		if err == nil && strings.HasPrefix(string(title), "postgres: app app ") {
			n++
		}
	}
	return n
}

func TestBackendsAreCounted(t *testing.T) {
	f := startBehind(t, plan{})
	for range 3 {
		c, err := pgx.Connect(t.Context(), f.URL(f.app))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close(t.Context()) })
	}
	if n := backendsOf(f.cluster.DataDir); n != 3 {
		t.Errorf("%d backends of 3", n)
	}
}
