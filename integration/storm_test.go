package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pgweir/pgweir/integration/pgtest"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// TestStorm has clients in all modes, who change their mode and leave traces, while
// administrators pause, kill, disable and reload, workloads come, go and change, budgets
// grow and shrink, and backends are ended. Nobody may find the trace of another, or another's
// rows. When it is over nothing is left, and everything works.
//
// [stressTimeEnv] and [stressClientsEnv] make it longer and larger.
func TestStorm(t *testing.T) {
	if os.Getenv(directEnv) != "" {
		t.Skip("PostgreSQL has neither workloads nor a console")
	}
	duration, clients := stressSize(t, 5*time.Second, 40)
	f := startFront(t, plan{
		slots: stormBudget - 1, settings: map[string]string{"max_connections": "40"},
		top: "max_logins = 1000\nreserved_clients = 5\n", more: stormConfig(nil),
	})
	text, err := os.ReadFile(f.proc.ConfigFile)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("%d clients for %v, seed %d", clients, duration, seed)
	var done stormTally
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		s := &stormed{f: f, id: i, rnd: rand.New(rand.NewPCG(seed, uint64(i))), done: &done}
		g.Go(func() error { return s.live(ctx) })
	}
	for i := range 3 {
		a := &administrator{f: f, rnd: rand.New(rand.NewPCG(seed, uint64(1000+i))), done: &done}
		if i == 0 {
			a.config = string(text)
		}
		g.Go(func() error { return a.live(ctx) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Log(done.String())
	if !done.complete() {
		t.Error("something did not happen at all")
	}
	calm(t, f, string(text))
}

// stormBudget is the largest budget, which PostgreSQL enforces.
const stormBudget = 8

// stormConfig is the tables of the workloads, random unless rnd is nil.
func stormConfig(rnd *rand.Rand) string {
	n := func(most int) int {
		if rnd == nil {
			return 0
		}
		return rnd.IntN(most)
	}
	modes := []string{"transaction", "session", "statement"}
	var b strings.Builder
	for i, mode := range modes {
		if n(8) == 7 {
			continue // it is gone: "default" takes its clients
		}
		if n(6) == 5 {
			mode = modes[n(3)]
		}
		fmt.Fprintf(&b, "[[workload]]\nname = %q\nmatch = { application_name = [%q] }\npool_mode = %q\nshare = \"%d%%\"\nlendable = \"%d%%\"\n",
			fmt.Sprint(modes[i], n(2)), modes[i]+"*", mode, 20+n(10), 50+50*n(2))
		fmt.Fprintf(&b, "max_wait = \"%dms\"\nsession_wait = \"%dms\"\nmin_pool_size = %d\n", 1000+n(1000), 1000+n(1000), n(3))
	}
	b.WriteString("[console]\nadmin_users = [\"app\"]\n")
	return b.String()
}

// stormTally counts what has happened.
type stormTally struct {
	answers, looks, traces, flaps, vanished, cancels, refused, lost, orders, reloads, ended atomic.Int64
}

func (s *stormTally) String() string {
	return fmt.Sprintf("%d answers, %d looks for traces, %d traces left, %d changes of mode, %d vanished, %d cancels, %d refusals, %d sessions lost, %d orders, %d reloads, %d backends ended",
		s.answers.Load(), s.looks.Load(), s.traces.Load(), s.flaps.Load(), s.vanished.Load(), s.cancels.Load(), s.refused.Load(),
		s.lost.Load(), s.orders.Load(), s.reloads.Load(), s.ended.Load())
}

func (s *stormTally) complete() bool {
	for _, n := range []*atomic.Int64{&s.answers, &s.looks, &s.traces, &s.flaps, &s.vanished, &s.cancels, &s.lost, &s.orders, &s.reloads, &s.ended} {
		if n.Load() == 0 {
			return false
		}
	}
	return true
}

// stormed is one client. Its connection is nil before the first login and after a lost one.
type stormed struct {
	f    *front
	id   int
	rnd  *rand.Rand
	done *stormTally

	conn  *rawClient
	asked int
}

// live acts until the end. Only what must not happen is an error.
func (s *stormed) live(ctx context.Context) error {
	defer s.drop()
	for ctx.Err() == nil {
		err := s.act()
		if e, ok := errors.AsType[*rawError](err); ok {
			switch {
			case e.fatal:
				s.drop()
			case e.code == "53300":
				s.done.refused.Add(1)
			case e.code == "0A000" || e.code == "25P02" || e.code == "57014": // statement mode; a refusal or cancel before
				_ = s.leaveTransaction()
			default:
				return fmt.Errorf("client %d: %w", s.id, err)
			}
			if e.fatal && e.code != "57P01" && e.code != "57P03" && e.code != "53300" && e.code != "0A000" {
				return fmt.Errorf("client %d: %w", s.id, err)
			}
			continue
		}
		if err != nil && lostServer(err) {
			s.drop()
			continue
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", s.id, err)
		}
	}
	return nil
}

func (s *stormed) drop() {
	if s.conn != nil {
		s.done.lost.Add(1)
		_ = s.conn.conn.Close()
		s.conn = nil
	}
}

func (s *stormed) leaveTransaction() error {
	if s.conn == nil || s.conn.state == wire.Idle {
		return nil
	}
	return s.run("rollback")
}

// application is a name that belongs to a mode.
func (s *stormed) application() string {
	return []string{"transaction", "session", "statement"}[s.rnd.IntN(3)] + "-" + strconv.Itoa(s.id)
}

func (s *stormed) act() (err error) {
	if s.conn == nil {
		s.conn, err = dialRaw(s.f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"},
			wire.Param{Name: "application_name", Value: s.application()})
		return err
	}
	switch n := s.rnd.IntN(100); {
	case n < 35:
		return s.ask()
	case n < 60:
		return s.look()
	case n < 75:
		return s.leaveTraces()
	case n < 82:
		s.done.flaps.Add(1)
		return s.run("set application_name = '" + s.application() + "'")
	case n < 88:
		return s.cancel()
	case n < 92:
		return s.listen()
	}
	return s.vanish()
}

// run runs one simple query; the error is the server's.
func (s *stormed) run(sql string) error {
	a, err := s.conn.ask(wire.AppendQuery(nil, sql))
	if err == nil && a.err != nil {
		return a.err
	}
	return err
}

// ask wants its own text back.
func (s *stormed) ask() error {
	s.asked++
	nonce := fmt.Sprintf("storm-%d-%d", s.id, s.asked)
	sleep := ""
	if s.rnd.IntN(3) == 0 {
		sleep = fmt.Sprintf(" from pg_sleep(%.4f)", s.rnd.Float64()*0.004)
	}
	var b []byte
	if s.rnd.IntN(2) == 0 {
		b = wire.AppendQuery(nil, "select '"+nonce+"'"+sleep)
	} else {
		b = wiretest.AppendParse(nil, "", "select $1::text"+sleep)
		b = wiretest.AppendBind(b, wiretest.Bind{Params: [][]byte{[]byte(nonce)}})
		b = wire.AppendEmpty(wiretest.AppendExecute(b, "", 0), wire.MsgSync)
	}
	a, err := s.conn.ask(b)
	if err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	if len(a.rows) != 1 || a.rows[0] != nonce {
		return fmt.Errorf("the answer is %q instead of %q", a.rows, nonce)
	}
	s.done.answers.Add(1)
	return nil
}

// look looks for traces of others, in one statement.
func (s *stormed) look() error {
	a, err := s.conn.ask(wire.AppendQuery(nil, `select coalesce(current_setting('storm.owner', true), ''),
		(select coalesce(string_agg(relname, ' '), '') from pg_class where relnamespace = pg_my_temp_schema()),
		(select coalesce(string_agg(name, ' '), '') from pg_prepared_statements where from_sql),
		(select coalesce(string_agg(c, ' '), '') from pg_listening_channels() c),
		(select coalesce(string_agg(objid::text, ' '), '') from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
		(select coalesce(string_agg(name, ' '), '') from pg_cursors where is_holdable),
		current_setting('work_mem'), session_user`))
	if err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	own := strconv.Itoa(s.id)
	if len(a.rows) != 1 {
		return fmt.Errorf("%d rows", len(a.rows))
	}
	values := strings.Split(a.rows[0], "|")
	for i, v := range values[:6] {
		if v != "" && v != own && v != "t"+own {
			return fmt.Errorf("value %d of %q is somebody else's", i, a.rows[0])
		}
	}
	if w := values[6]; w != "4MB" && w != strconv.Itoa(1025+s.id)+"kB" || values[7] != "app" {
		return fmt.Errorf("settings of somebody else's: %q", a.rows[0])
	}
	s.done.looks.Add(1)
	return nil
}

// leaveTraces leaves one or more things on the server, with its own name on them.
func (s *stormed) leaveTraces() error {
	all := []string{
		"set storm.owner = '%d'", "create temp table if not exists t%d()", "prepare t%[1]d as select %[1]d", "listen t%d",
		"select pg_try_advisory_lock(%d)", "declare t%d cursor with hold for select 1", "set work_mem = '100%02dkB'",
		"do $$ begin perform set_config('storm.owner', '%d', false); end $$",
	}
	block := s.rnd.IntN(2) == 0
	if block {
		if err := s.run("begin"); err != nil {
			return err
		}
	}
	for range 1 + s.rnd.IntN(3) {
		sql := all[s.rnd.IntN(len(all))]
		if strings.Contains(sql, "work_mem") {
			sql = fmt.Sprintf("set work_mem = '%dkB'", 1025+s.id)
		} else {
			sql = fmt.Sprintf(sql, s.id)
		}
		err := s.run(sql)
		if e, ok := errors.AsType[*rawError](err); ok && (e.code == "42P05" || e.code == "42P03") {
			break // it has prepared or declared it before
		}
		if err != nil {
			return err
		}
		s.done.traces.Add(1)
	}
	if s.conn.state == wire.Idle {
		return nil
	}
	return s.run([]string{"commit", "rollback"}[s.rnd.IntN(2)])
}

// listen notifies everybody, which only those get who listen for it themselves.
func (s *stormed) listen() error {
	return s.run(fmt.Sprintf("select pg_notify('t%d', repeat('x', 7000)) from generate_series(1, 20)", s.rnd.IntN(40)))
}

// cancel cancels a statement of its own, or nothing.
func (s *stormed) cancel() error {
	s.done.cancels.Add(1)
	if s.rnd.IntN(3) == 0 {
		return s.conn.cancel(s.f.Endpoint)
	}
	if err := s.conn.send(wire.AppendQuery(nil, "select pg_sleep(0.003)")); err != nil {
		return err
	}
	if err := s.conn.cancel(s.f.Endpoint); err != nil {
		return err
	}
	a, err := s.conn.answer()
	if err == nil && a.err != nil && a.err.code != "57014" {
		return a.err
	}
	return err
}

// vanish leaves in the middle of something.
func (s *stormed) vanish() error {
	s.done.vanished.Add(1)
	var b []byte
	switch s.rnd.IntN(4) {
	case 0:
		b = wire.AppendQuery(nil, fmt.Sprintf("select set_config('storm.owner', '%d', false), pg_sleep(0.01)", s.id))
	case 1:
		b = wire.AppendQuery(nil, "select repeat('x', 100000) from generate_series(1, 100)")
	case 2:
		b = wire.AppendQuery(nil, fmt.Sprintf("begin; create temp table t%d()", s.id))
	}
	if len(b) > 0 && s.rnd.IntN(3) == 0 {
		b = b[:len(b)-s.rnd.IntN(len(b))]
	}
	err := s.conn.send(b)
	if s.rnd.IntN(2) == 0 {
		s.conn.reset()
	} else {
		_ = s.conn.conn.Close()
	}
	s.conn = nil
	return err
}

// administrator gives orders at the console. The one that has the configuration rewrites it.
type administrator struct {
	f      *front
	rnd    *rand.Rand
	done   *stormTally
	config string
	conn   *pgconn.PgConn

	stopped bool // its last order has stopped something
}

func (a *administrator) live(ctx context.Context) error {
	defer func() {
		if a.conn != nil {
			_ = a.conn.Close(context.WithoutCancel(ctx)) // it has said all
		}
	}()
	tick := time.NewTicker(time.Duration(30+a.rnd.IntN(40)) * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return a.order(context.WithoutCancel(ctx), "RESUME") // or clients would wait for ever
		case <-tick.C:
		}
		if err := a.act(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("administrator: %w", err)
		}
	}
}

func (a *administrator) act(ctx context.Context) error {
	if a.config != "" {
		if err := a.rewrite(); err != nil {
			return err
		}
		return a.order(ctx, "RELOAD")
	}
	if a.rnd.IntN(4) == 0 {
		return a.endBackend(ctx)
	}
	orders := []string{
		"PAUSE", "PAUSE app", "RESUME", "RESUME app", "RESUME", "RECONNECT", "RECONNECT app", "KILL app", "RESUME app", "DISABLE app",
		"ENABLE app", "ENABLE app", "SHOW CLIENTS", "SHOW SERVERS", "SHOW POOLS", "SHOW WORKLOADS", "SET workload.default.max_wait = '1500ms'",
		"SET max_prepared_statements = 3", "SHOW STATS", "SHOW REFUSALS", "WAIT_CLOSE",
	}
	order := orders[a.rnd.IntN(len(orders))]
	if a.stopped {
		order = "RESUME"
	}
	a.stopped = strings.HasPrefix(order, "PAUSE") || strings.HasPrefix(order, "KILL")
	if strings.HasPrefix(order, "PAUSE") || strings.HasPrefix(order, "WAIT") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(a.rnd.IntN(50))*time.Millisecond)
		defer cancel()
		err := a.order(ctx, order)
		if ctx.Err() != nil {
			a.conn = nil // pgconn has closed it
			return nil
		}
		return err
	}
	return a.order(ctx, order)
}

// order gives one. That there was nothing to end is no error.
func (a *administrator) order(ctx context.Context, sql string) (err error) {
	if a.conn == nil || a.conn.IsClosed() {
		if a.conn, err = pgconn.Connect(ctx, a.f.URL(pgtest.Login{User: "app", Database: "pgweir"})); err != nil {
			return err
		}
	}
	_, err = a.conn.Exec(ctx, sql).ReadAll()
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.Code == "55000" || e.Code == "F0000") {
		err = nil // nothing was paused, or the file is wrong
	}
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	a.done.orders.Add(1)
	return nil
}

// rewrite makes another configuration: other workloads and another budget.
func (a *administrator) rewrite() error {
	base, _, _ := strings.Cut(a.config, "[[workload]]")
	budget := 3 + a.rnd.IntN(stormBudget-2)
	base = strings.Replace(base, fmt.Sprintf("budget    = %d", stormBudget), fmt.Sprintf("budget    = %d", budget), 1)
	base = strings.Replace(base, "instances = 1", "instances = 1\nconnect_rate = 1000", 1) // or all would wait for logins
	if a.rnd.IntN(10) == 0 {
		base += "[nonsense]\n"
	}
	next := a.f.proc.ConfigFile + ".new"
	if err := os.WriteFile(next, []byte(base+stormConfig(a.rnd)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(next, a.f.proc.ConfigFile); err != nil {
		return err
	}
	a.done.reloads.Add(1)
	return nil
}

func (a *administrator) endBackend(ctx context.Context) error {
	out, err := a.f.cluster.SQL(ctx, "app", `select count(pg_terminate_backend(pid)) from (
		select pid from pg_stat_activity where usename = 'app' order by random() limit 1) s`)
	if err == nil && out == "1\n" {
		a.done.ended.Add(1)
	}
	return err
}

// calm looks that everything is as it was before the storm.
func calm(t *testing.T, f *front, text string) {
	t.Helper()
	if err := os.WriteFile(f.proc.ConfigFile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	console := pgtest.Login{User: "app", Database: "pgweir"}
	ask := func(sql string) string {
		t.Helper()
		out, err := f.Psql(t.Context(), console, sql)
		if err != nil && !strings.Contains(err.Error(), "not paused") {
			t.Fatalf("%s: %v", sql, err)
		}
		return out
	}
	for _, sql := range []string{"RELOAD", "RESUME", "ENABLE app"} {
		ask(sql)
	}
	if out := ask("RESUME"); strings.Contains(out, "RESUME") {
		t.Error("it was still paused")
	}
	eventually(t, "nobody runs, waits or keeps a server", func() bool {
		for _, w := range stormTable(t, f, "SHOW WORKLOADS") {
			if w["running"] != "0" || w["waiting"] != "0" || w["held"] != "0" {
				return false
			}
		}
		return f.sql(t, "app", "select count(*) = 0 from pg_stat_activity where usename = 'app' and state <> 'idle'") == "t"
	})
	everySlotIsFree(t, f, stormBudget-1)
	noRefusal(t, f)
}

// stormTable is the answer to a SHOW, by the names of the columns.
func stormTable(t *testing.T, f *front, show string) (rows []map[string]string) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), f.URL(pgtest.Login{User: "app", Database: "pgweir"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }() // it was only read
	results, err := c.Exec(t.Context(), show).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range results[0].Rows {
		row := make(map[string]string)
		for i, d := range results[0].FieldDescriptions {
			row[d.Name] = string(values[i])
		}
		rows = append(rows, row)
	}
	return rows
}
