package hostile

import (
	"context"
	"fmt"
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

// scrape asks for all metrics.
func (s *stand) scrape() (pgtest.Samples, error) { return pgtest.Metrics(s.http) }

// books reads them while the client beside does nothing.
func (s *stand) books() (b pgtest.Books, err error) {
	if s.beside != nil {
		s.beside.mu.Lock()
		defer s.beside.mu.Unlock()
	}
	b, err = s.Books(s.http)
	b.Goroutines = max(b.Goroutines, s.goroutines)
	return b, err
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
		s.goroutines = max(s.goroutines, b.Goroutines)
	}
}

// rest waits until nobody but idle clients is there, and returns the books.
func (s *stand) rest(t *testing.T, clients int) (b pgtest.Books) {
	t.Helper()
	eventually(t, fmt.Sprintf("rest, with %d clients", clients), func() bool {
		var err error
		b, err = s.books()
		return err == nil && b.Clients == clients && b.Waiting == 0 && b.Running == 0 && b.Busy == 0
	}, func() string { return fmt.Sprintf("%+v", b) })
	return b
}

// balanced waits until the books are as they were.
func (s *stand) balanced(t *testing.T, before pgtest.Books) {
	t.Helper()
	var now pgtest.Books
	eventually(t, "the books are as before", func() bool {
		b, err := s.books()
		now = b
		return err == nil && b.Same(before)
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
