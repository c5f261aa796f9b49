package hostile

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// patience bounds every wait for a condition. A test that needs it has failed.
const patience = 15 * time.Second

// stand is a pgweir with what its metrics say.
type stand struct {
	*pgtest.Proc
	http   string   // its listener for HTTP
	beside *watcher // nil = nobody

	goroutines int // the most that were seen while nothing was under way
}

// start starts pgweir with a configuration, to which the listener for HTTP is added.
func start(t *testing.T, config string) *stand {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{http: fmt.Sprintf("127.0.0.1:%d", port)}
	s.Proc = pgtest.Pgweir(t, fmt.Sprintf("http = %q\n", s.http)+config)
	return s
}

// metrics are the samples of one scrape, by their names with labels.
type metrics map[string]float64

// scrape asks for all metrics.
func (s *stand) scrape() (metrics, error) { return pgtest.Metrics(s.http) }

// sum adds up the samples of a metric whose labels contain all of the texts.
func (m metrics) sum(metric string, with ...string) (sum float64) {
	for name, v := range m {
		if (name == metric || strings.HasPrefix(name, metric+"{")) &&
			!slices.ContainsFunc(with, func(w string) bool { return !strings.Contains(name, w) }) {
			sum += v
		}
	}
	return sum
}

// books are what must be the same before and after.
type books struct {
	goroutines, descriptors  int // without those of connections that are meant to be there
	clients, waiting         int
	running, busy, open, all int // slots; connections that do something; connections; the budget
}

// books reads them while the client beside does nothing.
func (s *stand) books() (b books, err error) {
	if s.beside != nil {
		s.beside.mu.Lock()
		defer s.beside.mu.Unlock()
	}
	m, err := s.scrape()
	if err != nil {
		return b, err
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.Pid()))
	if err != nil {
		return b, err
	}
	b.clients = int(m.sum("pgweir_clients"))
	b.waiting = int(m.sum("pgweir_waiting_clients"))
	b.running = int(m.sum("pgweir_slots", `state="running"`))
	b.open = int(m.sum("pgweir_connections"))
	b.busy = b.open - int(m.sum("pgweir_connections", `state="idle"`))
	b.all = int(m.sum("pgweir_budget_connections"))
	b.goroutines = max(int(m.sum("go_goroutines")), s.goroutines)
	b.descriptors = len(fds) - b.open - b.clients
	return b, nil
}

// same reports whether nothing has leaked between two looks. What was still starting up or
// ending at the first may be less.
func (b books) same(before books) bool {
	return b.goroutines <= before.goroutines && b.descriptors <= before.descriptors && b.open <= b.all &&
		b.clients == before.clients && b.waiting == 0 && b.running == before.running && b.busy == before.busy && b.all == before.all
}

// settle learns how many goroutines there are while nothing is under way. It is one number
// for all cases, so that what each leaves behind adds up; the listener for HTTP has one more
// or less.
func (s *stand) settle(t *testing.T) {
	t.Helper()
	for range 10 {
		b, err := s.books()
		if err != nil {
			t.Fatal(err)
		}
		s.goroutines = max(s.goroutines, b.goroutines)
	}
}

// rest waits until nobody but idle clients is there, and returns the books.
func (s *stand) rest(t *testing.T, clients int) (b books) {
	t.Helper()
	eventually(t, fmt.Sprintf("rest, with %d clients", clients), func() bool {
		var err error
		b, err = s.books()
		return err == nil && b.clients == clients && b.waiting == 0 && b.running == 0 && b.busy == 0
	}, func() string { return fmt.Sprintf("%+v", b) })
	return b
}

// balanced waits until the books are as they were.
func (s *stand) balanced(t *testing.T, before books) {
	t.Helper()
	var now books
	eventually(t, "the books are as before", func() bool {
		b, err := s.books()
		now = b
		return err == nil && b.same(before)
	}, func() string { return fmt.Sprintf("before %+v\nafter  %+v", before, now) })
}

// eventually polls until done says so, and else fails with what more says.
func eventually(t *testing.T, what string, done func() bool, more ...func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, f := range more {
				t.Log(f())
			}
			t.Fatalf("it never came true: %s", what)
		}
	}
}

// logged waits until a line of the log contains all of the texts.
func (s *stand) logged(t *testing.T, from int, texts ...string) {
	t.Helper()
	eventually(t, "a line of the log with "+strings.Join(texts, ", "), func() bool {
		log, err := s.Log()
		if err != nil || len(log) < from {
			return false
		}
		for line := range strings.Lines(log[from:]) {
			if !slices.ContainsFunc(texts, func(w string) bool { return !strings.Contains(line, w) }) {
				return true
			}
		}
		return false
	}, func() string { log, _ := s.Log(); return log[min(from, len(log)):] })
}

// logLength is where the log ends now.
func (s *stand) logLength(t *testing.T) int {
	t.Helper()
	log, err := s.Log()
	if err != nil {
		t.Fatal(err)
	}
	return len(log)
}
