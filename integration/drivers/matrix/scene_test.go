package matrix

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// theme is something that all drivers do.
type theme struct {
	name    string
	workers int
	// play does it, as one worker.
	play func(w *worker)
	// pool is one more option of the pool: what the driver prepares by itself is in its way.
	pool string
	// tokens must be in what each worker has seen.
	tokens []string
	// moving: workers go on until each has had two servers.
	moving bool
	// alone is instead of play for what has no counterpart without pgweir.
	alone func(t *testing.T, s *stage, a agent) outcome
}

// outcome is what a theme has come to with a driver.
type outcome string

const (
	holds outcome = "yes" // as with a direct connection
	none  outcome = "–"   // the driver has no means for it
)

// scene is one theme with one driver at one endpoint.
type scene struct {
	*testing.T
	*stage
	theme  theme
	agent  agent
	to     pgtest.Endpoint
	direct bool

	meet    *barrier
	restart func()
}

// worker is one of those who play a theme. Its connection has its number.
type worker struct {
	*scene
	n    int
	out  []string
	pids map[string]bool
	none bool
}

// compare has a driver play a theme, directly and through pgweir, and compares.
func (th theme) compare(t *testing.T, s *stage, a agent) outcome {
	if _, ok := a.(pgbench); ok {
		return th.bench(t, s)
	}
	if th.alone != nil {
		return th.alone(t, s, a)
	}
	want, skipped := th.once(t, s, a, s.Endpoint, true)
	if skipped {
		return none
	}
	if t.Failed() {
		return "failed"
	}
	got, _ := th.once(t, s, a, s.front, false)
	if diff := cmp.Diff(want, got); diff != "" && !t.Failed() {
		t.Errorf("worker %s (- directly, + through pgweir):\n%s", first(want, got), diff)
	}
	for n, out := range got {
		all := strings.Join(out, "\n")
		for _, token := range th.tokens {
			if !strings.Contains(all, token) {
				t.Fatalf("worker %d has not seen %q in:\n%s", n, token, all)
			}
		}
	}
	return holds
}

// first is the first line in which the two differ.
func first(want, got [][]string) string {
	for n := range got {
		for i, line := range got[n] {
			if i >= len(want[n]) || want[n][i] != line {
				return fmt.Sprintf("%d, line %d:\n%s\n%s", n, i, strings.Join(want[n][i:min(i+1, len(want[n]))], ""), line)
			}
		}
	}
	return "none of those"
}

// once plays a theme at one endpoint and returns what each worker has seen.
func (th theme) once(t *testing.T, s *stage, a agent, to pgtest.Endpoint, direct bool) (seen [][]string, skipped bool) {
	t.Helper()
	s.reset(t)
	sc := &scene{T: t, stage: s, theme: th, agent: a, to: to, direct: direct, meet: newBarrier(th.workers)}
	if th.name == "57P01" && !direct {
		r := s.restarting(t)
		sc.to, sc.restart = r.Endpoint, r.restart
	}
	size := fmt.Sprintf("size=%d", th.workers+1)
	if reply := a.do(0, "pool", sc.options(size, th.pool)...); reply.code() != "" {
		t.Fatalf("pool: %v", reply)
	}
	if !direct {
		defer s.stir(t, sc.to)()
	}
	var all sync.WaitGroup
	workers := make([]*worker, th.workers)
	for i := range workers {
		w := &worker{scene: sc, n: i, pids: make(map[string]bool)}
		workers[i] = w
		all.Go(func() {
			defer sc.meet.leave()
			th.play(w)
		})
	}
	all.Wait()
	for _, w := range workers {
		seen = append(seen, w.out)
		skipped = skipped || w.none
	}
	return seen, skipped
}

// options are those of a pool or connection.
func (s *scene) options(more ...string) []string {
	more = slices.DeleteFunc(more, func(option string) bool { return option == "" })
	return append([]string{"host=" + s.to.Host, fmt.Sprintf("port=%d", s.to.Port), "user=app", "password=" + password, "database=app"}, more...)
}

// do carries out a command on the worker's connection.
func (w *worker) do(verb string, args ...string) answer { return w.agent.do(w.n, verb, args...) }

// must is do for what does not fail. What the driver has no means for is done by SQL.
func (w *worker) must(verb string, args ...string) answer {
	w.Helper()
	a := w.able(verb, args...)
	if a.code() != "" || !a.can() {
		w.Errorf("worker %d: %s %.300q: %v; before it: %.300q", w.n, verb, args, a, w.out[max(0, len(w.out)-3):])
		runtime.Goexit()
	}
	return a
}

// able is do by the driver's own means or else by SQL.
func (w *worker) able(verb string, args ...string) answer {
	a := w.do(verb, args...)
	if a.can() {
		return a
	}
	switch verb {
	case "begin", "commit", "rollback":
		if len(args) > 0 {
			return w.do("exec", verb+" isolation level "+args[0])
		}
		return w.do("exec", verb)
	case "savepoint", "release":
		return w.do("exec", verb+" "+args[0])
	case "rollbackto":
		return w.do("exec", "rollback to savepoint "+args[0])
	case "lowrite":
		return w.do("query", "select lo_from_bytea(0, convert_to($1::text, 'UTF8'))::text", args[0])
	case "loread":
		return w.do("query", "select convert_from(lo_get("+args[0]+"), 'UTF8')")
	}
	return a
}

// has is must for a verb without which the theme ends, as the driver has no means for it.
func (w *worker) has(verb string, args ...string) answer {
	w.Helper()
	a := w.do(verb, args...)
	if !a.can() {
		w.cannot()
	}
	if a.code() != "" {
		w.Errorf("worker %d: %s %.300q: %v", w.n, verb, args, a)
		runtime.Goexit()
	}
	return a
}

// cannot ends the theme.
func (w *worker) cannot() {
	w.none = true
	runtime.Goexit()
}

// say notes what was seen.
func (w *worker) say(format string, args ...any) { w.out = append(w.out, fmt.Sprintf(format, args...)) }

// here notes which server has the transaction.
func (w *worker) here() {
	w.Helper()
	w.pids[w.must("query", "select pg_backend_pid()::text").cell()] = true
}

// rounds calls do so many times, and on until the worker has had two servers; say is for the
// first ones only, as the others differ in number.
func (w *worker) rounds(n int, do func(round int)) {
	w.Helper()
	for i := 0; i < n || !w.direct && len(w.pids) < 2; i++ {
		before := len(w.out)
		do(i)
		if i >= n {
			w.out = w.out[:before]
		}
		if i > 2000 {
			w.Errorf("worker %d has always had the same server %v", w.n, slices.Collect(maps.Keys(w.pids)))
			return
		}
	}
}

// barrier has workers wait for each other.
type barrier struct {
	mu      sync.Mutex
	changed sync.Cond
	of      int
	waiting int
	round   int
}

func newBarrier(of int) *barrier {
	b := &barrier{of: of}
	b.changed.L = &b.mu
	return b
}

// wait waits until all who have not left do.
func (b *barrier) wait() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
	round := b.round
	b.passLocked()
	for b.round == round {
		b.changed.Wait()
	}
}

func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of--
	b.passLocked()
}

// passLocked begins the next round if all are there.
func (b *barrier) passLocked() {
	if b.waiting > 0 && b.waiting >= b.of {
		b.waiting = 0
		b.round++
		b.changed.Broadcast()
	}
}
