package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
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

// TestManySessions lets 200 sessions do everything at once on six servers: they ask by
// every way of the protocol, copy, set, cancel, vanish in the middle of anything, while
// backends are ended under them. Each answer must be the session's own, under its own
// settings. PostgreSQL has not one place more than pgweir may use.
//
// The workload is patient, for its clients often give up: the guard would make room at the
// cost of those who do not.
//
// [stressTimeEnv] and [stressClientsEnv] make it longer and larger.
func TestManySessions(t *testing.T) {
	duration, clients := stressSize(t, 8*time.Second, 200)
	const slots, budget, reserved, control = 6, 7, 2, 1
	most := budget + reserved + control
	if os.Getenv(directEnv) != "" {
		most += clients
	}
	f := startFront(t, plan{
		slots: slots,
		settings: map[string]string{
			"max_connections":                strconv.Itoa(most),
			"superuser_reserved_connections": strconv.Itoa(reserved),
			"track_activity_query_size":      "200",
		},
		top:  "max_logins = 1000\nmax_prepared_statements = 12\n",
		more: fmt.Sprintf("[[workload]]\nname = \"default\"\npatient = true\nmax_wait = %q\nmax_waiting = %d\n", patience, 2*clients),
	})
	f.sql(t, "app", "create table stress_copy(owner int, nonce text);\ngrant all on stress_copy to app")
	admin, err := pgconn.Connect(t.Context(), f.cluster.SocketEndpoint().DSN(pgtest.Superuser, "app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Close(context.WithoutCancel(t.Context())) })

	seed := rand.Uint64()
	t.Logf("%d sessions for %v, seed %d", clients, duration, seed)
	var done stressTally
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		s := &stressed{f: f, id: i, rnd: rand.New(rand.NewPCG(seed, uint64(i))), done: &done}
		g.Go(func() error { return s.live(ctx) })
	}
	g.Go(func() error { return endBackends(ctx, admin, &done) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Log(done.String())
	if !done.complete() {
		t.Error("something did not happen at all")
	}
	awaitIdle(t, admin)
	if f.proc != nil {
		everySlotIsFree(t, f, slots)
	}
	noRefusal(t, f)
}

// stressTally counts what has happened, so that a run in which nothing did is no success.
type stressTally struct {
	answers, transactions, copies, cancels, cancelled, sets, vanished, ended, lost atomic.Int64
}

func (s *stressTally) String() string {
	return fmt.Sprintf("%d answers, %d transactions, %d copies, %d cancels (%d met), %d settings, %d vanished, %d backends ended, %d sessions lost by it",
		s.answers.Load(), s.transactions.Load(), s.copies.Load(), s.cancels.Load(), s.cancelled.Load(),
		s.sets.Load(), s.vanished.Load(), s.ended.Load(), s.lost.Load())
}

func (s *stressTally) complete() bool {
	for _, n := range []*atomic.Int64{&s.answers, &s.transactions, &s.copies, &s.cancels, &s.cancelled, &s.sets, &s.vanished, &s.ended, &s.lost} {
		if n.Load() == 0 {
			return false
		}
	}
	return true
}

// endBackends ends a random backend of the role, again and again, and leaves pgweir the
// time to open others: it logs in to as many a second as its budget has places.
func endBackends(ctx context.Context, admin *pgconn.PgConn, done *stressTally) error {
	tick := time.NewTicker(400 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		out, err := adminAsk(admin, `select count(pg_terminate_backend(pid)) from (
			select pid from pg_stat_activity where usename = 'app' order by random() limit 1) s`)
		if err != nil {
			return err
		}
		if out == "1" {
			done.ended.Add(1)
		}
	}
}

// adminAsk returns the one value of a query.
func adminAsk(admin *pgconn.PgConn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, err := admin.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// awaitIdle waits until no backend of the role is in a transaction.
func awaitIdle(t *testing.T, admin *pgconn.PgConn) {
	t.Helper()
	const busy = "select count(*) from pg_stat_activity where usename = 'app' and state <> 'idle'"
	eventually(t, "no backend is in a transaction", func() bool {
		n, err := adminAsk(admin, busy)
		if err != nil {
			t.Fatal(err)
		}
		return n == "0"
	})
}

// noRefusal fails the test if PostgreSQL had to refuse a connection. (The end of the
// cluster looks for other words.)
func noRefusal(t *testing.T, f *front) {
	t.Helper()
	log, err := f.cluster.Log()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(log) {
		if strings.Contains(line, "remaining connection slots") || strings.Contains(line, "too many clients") {
			t.Errorf("a backend over the budget: %s", line)
		}
	}
}

// dateStyles are settings and how each shows the last day of 2020.
func dateStyles() [][2]string {
	return [][2]string{
		{"ISO, MDY", "2020-12-31"},
		{"German, DMY", "31.12.2020"},
		{"SQL, DMY", "31/12/2020"},
		{"SQL, MDY", "12/31/2020"},
		{"Postgres, DMY", "31-12-2020"},
	}
}

// stressed is one client and what it must see. Its connection is nil before the first
// login and after a lost one.
type stressed struct {
	f    *front
	id   int
	rnd  *rand.Rand
	done *stressTally

	conn   *rawClient
	logins int
	asked  int
	name   string    // its application_name
	style  [2]string // of dates
	parsed []string  // text of each prepared statement of the connection, by name
}

// live acts until the end. Only what must not happen is an error.
func (s *stressed) live(ctx context.Context) error {
	defer s.drop(false)
	for ctx.Err() == nil {
		err := s.act()
		if err != nil && stressLost(err) {
			s.done.lost.Add(1)
			s.drop(false)
			continue
		}
		if err != nil {
			return fmt.Errorf("client %d: %w", s.id, err)
		}
	}
	return nil
}

// stressLost tells what a client sees whose backend was ended.
func stressLost(err error) bool {
	e, ok := errors.AsType[*rawError](err)
	return ok && e.fatal && e.code == "57P01" || lostServer(err)
}

// drop gives the connection up.
func (s *stressed) drop(broken bool) {
	if s.conn == nil {
		return
	}
	if broken {
		s.conn.reset()
	} else {
		_ = s.conn.conn.Close()
	}
	s.conn = nil
}

// act does one thing.
func (s *stressed) act() error {
	if s.conn == nil {
		return s.login()
	}
	switch n := s.rnd.IntN(100); {
	case n < 40:
		return s.askOnce()
	case n < 60:
		return s.transaction()
	case n < 70:
		return s.pipeline()
	case n < 76:
		return s.copyThrough()
	case n < 82:
		return s.set()
	case n < 90:
		return s.cancel()
	}
	return s.vanish()
}

func (s *stressed) login() error {
	s.logins++
	styles := dateStyles()
	s.style = styles[s.rnd.IntN(len(styles))]
	s.name = fmt.Sprintf("stress-%d-%d", s.id, s.logins)
	s.parsed = make([]string, 4)
	var err error
	s.conn, err = dialRaw(s.f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"},
		wire.Param{Name: "application_name", Value: s.name}, wire.Param{Name: "DateStyle", Value: s.style[0]})
	return err
}

// nonce is a text that nobody else has.
func (s *stressed) nonce() string {
	s.asked++
	return fmt.Sprintf("n-%d-%d", s.id, s.asked)
}

// want is the row that answers a question for a nonce.
func (s *stressed) want(nonce string) string { return nonce + "|" + s.name + "|" + s.style[1] }

// question is a query whose only row is [stressed.want]; what is a literal or a parameter.
func (s *stressed) question(what string) string {
	q := "select " + what + "::text, current_setting('application_name'), date '2020-12-31'::text"
	if s.rnd.IntN(3) == 0 {
		q += fmt.Sprintf(" from pg_sleep(%.4f)", s.rnd.Float64()*0.003)
	}
	return q
}

// ask appends a question for the nonce, in a random way of the protocol, that is answered
// by one ReadyForQuery.
func (s *stressed) ask(b []byte, nonce string) []byte {
	switch s.rnd.IntN(4) {
	case 0:
		return wire.AppendQuery(b, s.question("'"+nonce+"'"))
	case 1:
		b = wiretest.AppendParse(b, "", s.question("$1"))
		b = wiretest.AppendBind(b, wiretest.Bind{Params: [][]byte{[]byte(nonce)}})
		if s.rnd.IntN(2) == 0 {
			b = wire.AppendDescribe(b, 'P', "")
		}
	default:
		// All clients use the same few names, for texts of their own and common ones.
		k := s.rnd.IntN(len(s.parsed))
		name := fmt.Sprintf("s%d", k)
		if s.parsed[k] != "" && s.rnd.IntN(8) == 0 {
			b = wire.AppendClose(b, 'S', name)
			s.parsed[k] = ""
		}
		if s.parsed[k] == "" {
			s.parsed[k] = s.question("$1")
			if s.rnd.IntN(2) == 0 {
				s.parsed[k] += fmt.Sprintf(" /* %d */", s.id%16)
			}
			b = wiretest.AppendParse(b, name, s.parsed[k])
		}
		b = wiretest.AppendBind(b, wiretest.Bind{Statement: name, Params: [][]byte{[]byte(nonce)}})
	}
	return wire.AppendEmpty(wiretest.AppendExecute(b, "", 0), wire.MsgSync)
}

// check compares an answer.
func (s *stressed) check(a answer, nonce string) error {
	if a.err != nil {
		return a.err
	}
	if len(a.rows) != 1 || a.rows[0] != s.want(nonce) {
		return fmt.Errorf("the answer is %q instead of %q", a.rows, s.want(nonce))
	}
	s.done.answers.Add(1)
	return nil
}

func (s *stressed) askOnce() error {
	nonce := s.nonce()
	a, err := s.conn.ask(s.ask(nil, nonce))
	if err != nil {
		return err
	}
	return s.check(a, nonce)
}

// pipeline asks several questions in one write.
func (s *stressed) pipeline() error {
	var b []byte
	nonces := make([]string, 2+s.rnd.IntN(5))
	for i := range nonces {
		nonces[i] = s.nonce()
		b = s.ask(b, nonces[i])
	}
	if err := s.conn.send(b); err != nil {
		return err
	}
	for _, nonce := range nonces {
		a, err := s.conn.answer()
		if err != nil {
			return err
		}
		if err := s.check(a, nonce); err != nil {
			return err
		}
	}
	return nil
}

// transaction changes the name for its own time and asks; afterwards all is as before.
func (s *stressed) transaction() error {
	s.done.transactions.Add(1)
	name := s.name
	if err := s.conn.exec("begin"); err != nil {
		return err
	}
	if s.rnd.IntN(2) == 0 {
		s.name += "-tx"
		if err := s.conn.exec("set local application_name = '" + s.name + "'"); err != nil {
			return err
		}
	}
	for range 1 + s.rnd.IntN(3) {
		if err := s.askOnce(); err != nil {
			return err
		}
	}
	if s.conn.state != wire.InTransaction {
		return fmt.Errorf("state %c inside a transaction", s.conn.state)
	}
	s.name = name
	if err := s.conn.exec([]string{"commit", "rollback"}[s.rnd.IntN(2)]); err != nil {
		return err
	}
	if s.conn.state != wire.Idle {
		return fmt.Errorf("state %c after a transaction", s.conn.state)
	}
	return s.askOnce()
}

// copyThrough copies rows in and out again, in one transaction.
func (s *stressed) copyThrough() error {
	s.done.copies.Add(1)
	nonce := s.nonce()
	if err := s.conn.exec("begin"); err != nil {
		return err
	}
	a, err := s.conn.ask(wire.AppendQuery(nil, "copy stress_copy from stdin"))
	if err != nil || !a.copyIn {
		return errors.Join(err, answerError(a))
	}
	row := fmt.Sprintf("%d\t%s\n", s.id, nonce)
	b := wire.AppendMessage(nil, wire.MsgCopyData, []byte(row+row[:3]))
	b = wire.AppendMessage(b, wire.MsgCopyData, []byte(row[3:]))
	a, err = s.conn.ask(wire.AppendEmpty(b, wire.MsgCopyDone))
	if err != nil || a.err != nil {
		return errors.Join(err, answerError(a))
	}
	a, err = s.conn.ask(wire.AppendQuery(nil, fmt.Sprintf("copy (select owner, nonce from stress_copy where owner = %d) to stdout", s.id)))
	if err != nil || a.err != nil {
		return errors.Join(err, answerError(a))
	}
	want := fmt.Sprintf("%d|%s", s.id, nonce)
	if !slices.Equal(a.rows, []string{want, want}) {
		return fmt.Errorf("copied %q and %q came back", want, a.rows)
	}
	s.done.answers.Add(1)
	return s.conn.exec("rollback")
}

// answerError is what an answer complains of, if it does.
func answerError(a answer) error {
	if a.err != nil {
		return a.err
	}
	return nil
}

// set changes settings for the rest of the session.
func (s *stressed) set() error {
	s.done.sets.Add(1)
	styles := dateStyles()
	style := styles[s.rnd.IntN(len(styles))]
	if err := s.conn.exec("set DateStyle = '" + style[0] + "'"); err != nil {
		return err
	}
	s.style = style
	s.asked++
	name := fmt.Sprintf("set-%d-%d", s.id, s.asked)
	if err := s.conn.exec("set application_name = '" + name + "'"); err != nil {
		return err
	}
	s.name = name
	return s.askOnce()
}

// cancel cancels a statement of its own, early or late. What comes next must not feel it.
func (s *stressed) cancel() error {
	s.done.cancels.Add(1)
	if err := s.conn.send(wire.AppendQuery(nil, fmt.Sprintf("select pg_sleep(%.4f)", s.rnd.Float64()*0.02))); err != nil {
		return err
	}
	if err := s.conn.cancel(s.f.Endpoint); err != nil {
		return err
	}
	a, err := s.conn.answer()
	if err != nil {
		return err
	}
	if a.err != nil && a.err.code != "57014" {
		return a.err
	}
	if a.err != nil {
		s.done.cancelled.Add(1)
	}
	return s.askOnce()
}

// vanish leaves in the middle of something.
func (s *stressed) vanish() error {
	s.done.vanished.Add(1)
	defer s.drop(s.rnd.IntN(2) == 0)
	if s.rnd.IntN(2) == 0 {
		if err := s.conn.exec("begin"); err != nil {
			return err
		}
		if err := s.askOnce(); err != nil {
			return err
		}
	}
	question := s.ask(nil, s.nonce())
	switch s.rnd.IntN(6) {
	case 0: // nothing under way
		return nil
	case 1: // a statement runs
		return s.conn.send(wire.AppendQuery(nil, "select pg_sleep(0.01)"))
	case 2: // half of a message
		return s.conn.send(question[:1+s.rnd.IntN(len(question)-1)])
	case 3: // a batch without its Sync
		return s.conn.send(question[:max(len(question)-5, 1)])
	case 4: // data on the way
		return s.conn.send(wire.AppendMessage(wire.AppendQuery(nil, "copy stress_copy from stdin"), wire.MsgCopyData, []byte("1\tx\n")))
	}
	return s.conn.send(append(question, wire.AppendEmpty(nil, wire.MsgTerminate)...)) // goodbye, unheard
}
