package parity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// flapsEnv is how many rounds the conversations are played while limits flap.
const flapsEnv = "PGWEIR_PARITY_FLAPS"

// hostile has messages that are malformed, in which nobody looks for limits.
const hostile = "hostile.txt"

// Conversations are played while patience, bounds, order and rates of the queue change from
// moment to moment, and others take the slots. What comes back is what PostgreSQL says, or
// refusals at any place, each of which does to the rest of the conversation exactly what an
// error of PostgreSQL's does: see refusal_test.go.
func TestParityWhileLimitsFlap(t *testing.T) {
	corpus := loadCorpus(t)
	seed := number(t, seedEnv, rand.Uint64())
	t.Logf("%s=%d", seedEnv, seed)
	l := emptyLab(t)
	f := startFlapping(t, l, rand.New(rand.NewPCG(seed, 7)))
	for round := range number(t, flapsEnv, 1) {
		rnd := rand.New(rand.NewPCG(seed, 100+round))
		list := slices.DeleteFunc(slices.Clone(corpus), func(s *sequence) bool {
			return s.outside() || s.file == hostile || !f.by.plays(s) || s.below > 0 && l.version >= s.below
		})
		rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		f.besides(t, list, rnd)
		for _, s := range list {
			if f.alone(s) && !t.Failed() {
				f.judge(t, s, rnd.Uint64())
			}
		}
	}
	f.calm(t)
	t.Log(f.seen.String())
	if f.seen.refused.Load() == 0 || f.seen.same.Load() == 0 {
		t.Error("something did not happen at all")
	}
}

// flapping is a pgweir whose limits change all the time.
type flapping struct {
	l    *lab
	by   *pgweir
	proc *pgtest.Proc
	seen flapTally

	stop func() error
}

// flapTally counts conversations and refusals.
type flapTally struct {
	same, refused, atLogin, loose, refusals, changes atomic.Int64
	mu                                               sync.Mutex
	reasons                                          map[string]int
}

func (s *flapTally) String() string {
	return fmt.Sprintf("%d conversations as with PostgreSQL, %d with %d refusals and else as with PostgreSQL, %d with a login refused, %d of which only the frame was looked at; %d changes of the limits; reasons: %v",
		s.same.Load(), s.refused.Load(), s.refusals.Load(), s.atLogin.Load(), s.loose.Load(), s.changes.Load(), s.reasons)
}

// flapConfig is a configuration: random limits, or none with a nil rnd.
func flapConfig(port int, upstream string, rnd *rand.Rand) string {
	wait, waiting, queue, rate := "60s", 1000, "guard", ""
	if rnd != nil {
		wait = []string{"60s", "1ms", "3ms", "20ms"}[rnd.IntN(4)]
		waiting = []int{1000, 1, 2}[rnd.IntN(3)]
		queue = []string{"guard", "guard", "bounded", "fifo-gone", "lifo-deadline", "codel", "priority"}[rnd.IntN(7)]
		if rnd.IntN(3) == 0 {
			rate = fmt.Sprintf("[[rate]]\nname = \"flap\"\nper = \"client\"\nrate = \"%d/s\"\nburst = %d\n", 1+rnd.IntN(20), 1+rnd.IntN(4))
		}
	}
	return fmt.Sprintf(`
listen = ["127.0.0.1:%d"]
http = "none"
drain_delay = "0s"
max_prepared_statements = 8
query_text_limit = "64KiB"
[auth]
auth_type = "trust"
[console]
admin_users = ["app"]
[upstream.main]
url = %q
budget = 4
reserve = 1
[database."*"]
upstream = "main"
[[workload]]
name = "default"
share = "100%%"
max_pinned = "100%%"
max_wait = %q
max_waiting = %d
queue = %q
%s`, port, upstream, wait, waiting, queue, rate)
}

// startFlapping starts pgweir, what changes its limits, and those who take its slots.
func startFlapping(t *testing.T, l *lab, rnd *rand.Rand) *flapping {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	upstream := l.cluster.DSN("app", "app")
	f := &flapping{l: l, proc: pgtest.Pgweir(t, flapConfig(port, upstream, nil))}
	f.seen.reasons = make(map[string]int)
	f.by = &pgweir{Endpoint: f.proc.Endpoint, mode: transaction, servers: 3}
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	limits := rand.New(rand.NewPCG(rnd.Uint64(), 3)) // each goroutine has its own
	g.Go(func() error {
		console, err := pgconn.Connect(ctx, f.by.DSN("app", "pgweir"))
		if err != nil {
			return err
		}
		defer func() { _ = console.Close(context.WithoutCancel(ctx)) }()
		for rest(ctx, limits, 12) {
			if err := f.set(context.WithoutCancel(ctx), console, flapConfig(port, upstream, limits)); err != nil {
				return err
			}
		}
		return f.set(context.WithoutCancel(ctx), console, flapConfig(port, upstream, nil))
	})
	for i := range 3 {
		rnd := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
		g.Go(func() error { return f.crowd(ctx, rnd) })
	}
	f.stop = sync.OnceValue(func() error {
		cancel()
		return g.Wait()
	})
	t.Cleanup(func() { _ = f.stop() })
	return f
}

// set puts a configuration into force.
func (f *flapping) set(ctx context.Context, console *pgconn.PgConn, text string) error {
	if err := os.WriteFile(f.proc.ConfigFile, []byte(text), 0o600); err != nil {
		return err
	}
	f.seen.changes.Add(1)
	return console.Exec(ctx, "RELOAD").Close()
}

// crowd takes a slot for moments.
func (f *flapping) crowd(ctx context.Context, rnd *rand.Rand) error {
	c, err := pgconn.Connect(ctx, f.by.DSN("app", "app"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	for rest(ctx, rnd, 10) {
		sql := fmt.Sprintf("select pg_sleep(%f)", rnd.Float64()*0.012)
		err := c.Exec(context.WithoutCancel(ctx), sql).Close()
		if e, ok := errors.AsType[*pgconn.PgError](err); err != nil && (!ok || e.Severity != "ERROR") {
			return err
		}
	}
	return nil
}

// rest waits for a random time of at most so many ms; it is false when ctx has ended.
func rest(ctx context.Context, rnd *rand.Rand, most int) bool {
	timer := time.NewTimer(time.Duration(rnd.IntN(most*1000)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// calm ends the changes and checks that everything is served again.
func (f *flapping) calm(t *testing.T) {
	t.Helper()
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	if err := f.l.serves(t.Context(), f.by); err != nil {
		t.Errorf("when it was calm again: %v", err)
	}
}

// besides plays all conversations that leave nothing behind, in random company.
func (f *flapping) besides(t *testing.T, list []*sequence, rnd *rand.Rand) {
	const company = 6
	list = slices.DeleteFunc(slices.Clone(list), f.alone)
	for group := range slices.Chunk(list, company) {
		var g errgroup.Group
		for _, s := range group {
			seed := rnd.Uint64()
			g.Go(func() error {
				f.judge(t, s, seed)
				return nil
			})
		}
		_ = g.Wait() // failures are reported as they come
		if t.Failed() {
			return
		}
	}
}

// judge plays a conversation and compares it with what PostgreSQL says to the same one with
// errors in the place of the refusals.
func (f *flapping) judge(t *testing.T, s *sequence, seed uint64) {
	alone := f.alone(s)
	got, after, err := f.play(t.Context(), s, alone, f.by.Endpoint, rand.New(rand.NewPCG(seed, 1)))
	if err != nil {
		t.Errorf("%v: %v\n%s", s, err, got.dump())
		return
	}
	at, refused, err := f.refusals(s, got)
	if err != nil {
		f.seen.loose.Add(1)
		return
	}
	if refused.login {
		f.seen.atLogin.Add(1)
		return
	}
	if refused.n > 0 && (len(s.differs(transaction).want) > 0 || s.prefix != "" || s.leaves()) {
		f.seen.loose.Add(1) // what differs on purpose may do so elsewhere
		return
	}
	stumbling := s.stumbling(at)
	want, tables, err := f.play(t.Context(), stumbling, alone, f.l.cluster.Endpoint, nil)
	if err != nil {
		t.Errorf("%v: PostgreSQL itself: %v\n%s", s, err, want.dump())
		return
	}
	if diff := f.differing(s, want, got); !slices.Equal(diff, s.differs(transaction).want) {
		t.Errorf("%v: refused at %v; differs (- PostgreSQL with errors there, + pgweir):\n%s\nPostgreSQL said:\n%spgweir said:\n%s",
			s, at, strings.Join(diff, "\n"), want.dump(), got.dump())
		return
	}
	if diff := cmp.Diff(tables, after); diff != "" && s.prefix == "" && !got.left() {
		t.Errorf("%v: refused at %v; other rows are left in the tables (-PostgreSQL +pgweir):\n%s", s, at, diff)
	}
	if refused.n == 0 {
		f.seen.same.Add(1)
	} else {
		f.seen.refused.Add(1)
		f.seen.refusals.Add(int64(refused.n))
	}
}

// tidy drops the tables whose end was refused.
const tidy = `do $$ declare r record; begin
	for r in select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
		and relname not in ('t', 'acct', 'def', 'cp', 'cpcheck', 'cpfail') loop
		execute format('drop table %I cascade', r.relname);
	end loop; end $$;` + "\n"

// left reports whether some client has left before it was told all: what it was refused last
// nobody knows.
func (t transcript) left() bool {
	for _, c := range t {
		if c.gone {
			return true
		}
	}
	return false
}

// alone reports whether a conversation changes tables: nothing may run beside it.
func (f *flapping) alone(s *sequence) bool {
	return s.alone || slices.ContainsFunc(s.steps, func(st step) bool {
		return st.op == opSend && bytes.Contains(bytes.ToLower(st.bytes), []byte("create table"))
	})
}

// play plays a sequence with a server; the tables are brought back before and read afterwards
// if it writes.
func (f *flapping) play(ctx context.Context, s *sequence, alone bool, to pgtest.Endpoint, rnd *rand.Rand) (got transcript, tables string, err error) {
	if alone {
		if err := f.l.exec(ctx, tidy+reset); err != nil {
			return nil, "", err
		}
	}
	got, err = f.l.play(ctx, s, to, rnd)
	if err == nil && alone {
		tables, err = f.tables(ctx)
	}
	return got, tables, err
}

// tables is quiet without a look at the crowd, which writes nothing.
func (f *flapping) tables(ctx context.Context) (string, error) {
	const idle = "count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle' and query not like 'select pg_sleep(0.%'"
	if err := f.l.until(ctx, idle); err != nil {
		return "", err
	}
	return f.l.rows(ctx)
}

// found is how a conversation was refused.
type found struct {
	n     int
	login bool
}

// refusals finds what was refused: the numbers of requests by client.
func (f *flapping) refusals(s *sequence, got transcript) (at map[string][]int, how found, err error) {
	at = make(map[string][]int)
	for _, name := range slices.Sorted(maps.Keys(got)) {
		answers, welcome := afterLogin(got[name].bytes)
		if !welcome {
			if n := len(answers); n > 0 && refusedFor(answers[n-1]) != "" {
				how.login = true
				f.seen.note("login " + refusedFor(answers[n-1]))
			}
			continue
		}
		if !slices.ContainsFunc(answers, isRefusal) {
			continue
		}
		for _, m := range answers {
			if isRefusal(m) {
				f.seen.note(refusedFor(m))
			}
		}
		requests, err := s.requests(name)
		if err != nil {
			return nil, how, err
		}
		if at[name], err = refusals(requests, answers); err != nil {
			return nil, how, err
		}
		how.n += len(at[name])
	}
	return at, how, nil
}

func (s *flapTally) note(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reasons[reason]++
}

// differing compares all clients; a refusal is as good as the error in its place.
func (f *flapping) differing(s *sequence, want, got transcript) (diff []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		direct, through := alike(want.frames(name)), alike(got.frames(name))
		if got[name].halved {
			through = withoutSigns(direct, through)
		}
		if s.prefix != "" || got[name].gone {
			direct = direct[:min(len(direct), len(through))]
		}
		if got[name].gone {
			through = through[:len(direct)]
		}
		diff = append(diff, differing(name, direct, through)...)
	}
	return diff
}

// alike writes refusals and the errors in their places in the same words, and the errors in
// the transaction that has failed by it: PostgreSQL looks for a portal, a statement or the
// grammar before it says that, pgweir, which has no server then, does not.
func alike(list []frame) []frame {
	failed := false
	for i, f := range list {
		if strings.HasPrefix(f.line, "ReadyForQuery") {
			failed = failed && f.line == `ReadyForQuery "E"`
		}
		if !strings.HasPrefix(f.line, "ErrorResponse") {
			continue
		}
		if failed && (strings.Contains(f.line, ` C="25P02"`) || strings.Contains(f.line, ` C="34000"`) || strings.Contains(f.line, ` C="26000"`) || strings.Contains(f.line, ` C="42601"`)) {
			list[i] = frame{line: "an error in a failed transaction"}
		}
		ours := strings.Contains(f.line, ` S="ERROR"`) && strings.Contains(f.line, ` M="pgweir: `) && strings.Contains(f.line, ` D="reason=`) && !strings.Contains(f.line, "statement_mode")
		if ours || strings.Contains(f.line, stumble) || strings.Contains(f.line, noFunction) {
			list[i], failed = frame{line: "a refusal", login: f.login}, true
		}
	}
	return list
}
