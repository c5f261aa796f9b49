package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// stressed is one client and what it must see. Its connection is nil before the first
// login and after a lost one.
type stressed struct {
	f    *front
	id   int
	rnd  *rand.Rand
	done *stressTally
	// outages: Postgres may go away, so that it may be refused and told so in all ways.
	outages bool

	conn  *rawClient
	asked int
	// The settings: what RESET goes back to, what the session has, and what it sees, which
	// differs from that inside a transaction.
	first, kept, now stressValues
	parsed           []stressPrepared // the prepared statements of the connection, by number
	began            time.Time        // when the last request was sent
	cancels          *stressCancels   // of the connection
	past             []string         // what it has sent of late
}

// stressPrepared is a prepared statement: its text, none if there is none, and what it puts
// before the nonce.
type stressPrepared struct{ text, mark string }

// stressCancels are the requests to cancel of one connection. They outlive it.
type stressCancels struct {
	mu      sync.Mutex
	pending int
	ended   time.Time // the last
}

func (c *stressCancels) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending += n
	c.ended = time.Now()
}

// meant reports whether a request that began then may have met a cancel of its own client.
func (c *stressCancels) meant(began time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending > 0 || !c.ended.Before(began)
}

// live acts until the end. Only what must not happen is an error.
func (s *stressed) live(ctx context.Context) error {
	defer s.drop(false)
	var late sync.WaitGroup
	defer late.Wait()
	for ctx.Err() == nil {
		if s.conn != nil && s.rnd.IntN(16) == 0 {
			s.cancelLater(&late)
		}
		if err := s.judge(s.act()); err != nil {
			return fmt.Errorf("client %d: %w, after\n%s", s.id, err, strings.Join(s.past, "\n"))
		}
	}
	return nil
}

// judge returns the errors that must not be, and prepares for what comes after the others.
func (s *stressed) judge(err error) error {
	if err == nil {
		return nil
	}
	told, ok := errors.AsType[*rawError](err)
	if ok && !told.fatal {
		switch {
		case told.code == "57014" && s.cancels.meant(s.began):
			s.done.cancelled.Add(1)
		case told.code == "53300" && s.outages:
			s.done.told("53300 " + told.reason)
		default:
			return err
		}
		if s.conn == nil {
			return nil // it was about to leave
		}
		return s.judge(s.recover())
	}
	switch {
	case ok && (told.code == "57P01" || s.outages && slices.Contains([]string{"53300", "57P02", "57P03"}, told.code)):
		s.done.told(strings.TrimSpace("FATAL " + told.code + " " + told.reason))
	case !ok && lostServer(err):
		s.done.told("end of connection")
	default:
		return err
	}
	if s.conn != nil {
		s.done.lost.Add(1)
	}
	s.drop(false)
	return nil
}

// recover leaves the transaction that has failed, whose changes are undone.
func (s *stressed) recover() error {
	s.now = s.kept
	if s.conn.state != wire.Idle {
		return s.exec("rollback")
	}
	return s.reports()
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
	case n < 35:
		return s.askOnce()
	case n < 53:
		return s.transaction()
	case n < 65:
		return s.pipeline()
	case n < 70:
		return s.copyThrough()
	case n < 83:
		return s.set()
	case n < 91:
		return s.cancel()
	}
	return s.vanish()
}

func (s *stressed) login() error {
	params := s.startup()
	s.parsed, s.cancels = make([]stressPrepared, 4), &stressCancels{}
	conn, err := openRaw(s.f.Endpoint, s.rnd.IntN(2) == 0)
	if err != nil {
		return err
	}
	s.note(fmt.Append(nil, params))
	if s.conn, err = enterRaw(conn, params...); err != nil {
		return err
	}
	s.done.logins.Add(1)
	return s.reports()
}

// nonce is a text that nobody else has.
func (s *stressed) nonce() string {
	s.asked++
	return fmt.Sprintf("n-%d-%d", s.id, s.asked)
}

// question is a query whose only row is a nonce, a literal or a parameter, and what
// [stressLook] finds.
func (s *stressed) question(what string) string {
	q := "select " + what + "::text, " + stressLook
	if s.rnd.IntN(3) == 0 {
		q += fmt.Sprintf(" from pg_sleep(%.4f)", s.rnd.Float64()*0.003)
	}
	return q
}

// stressAsked is a request that is under way. Once it is answered, without an error, it has
// had its effects.
type stressAsked struct {
	rows     []string
	settings *stressChange // before the question, in the same batch
	number   int           // of the statement that it prepares or closes; -1: none
	prepared stressPrepared
}

// ask appends a question in a random way of the protocol, that is answered by one
// ReadyForQuery. A statement is prepared or closed only if its number is not among those
// that are busy, and is so then.
func (s *stressed) ask(b []byte, busy map[int]bool) ([]byte, *stressAsked) {
	q := &stressAsked{rows: []string{s.nonce()}, number: -1}
	nonce := []byte(q.rows[0])
	k := s.rnd.IntN(len(s.parsed))
	switch way := s.rnd.IntN(8); {
	case way < 2 || busy[k] && way < 4:
		return wire.AppendQuery(b, s.question("'"+q.rows[0]+"'")), q
	case way < 4 || busy[k]:
		b = wiretest.AppendParse(b, "", s.question("$1"))
		b = wiretest.AppendBind(b, wiretest.Bind{Params: [][]byte{nonce}})
		if s.rnd.IntN(2) == 0 {
			b = wire.AppendDescribe(b, 'P', "")
		}
	default:
		// All clients use the same few names, for texts of their own and common ones.
		name, p := fmt.Sprint("s", k), s.parsed[k]
		if p.text == "" || s.rnd.IntN(8) == 0 {
			q.number, busy[k] = k, true
			p = s.prepare()
			q.prepared, s.parsed[k] = p, stressPrepared{}
			b = wire.AppendClose(b, 'S', name) // it is not known whether there is one
			b = wiretest.AppendParse(b, name, p.text)
			s.done.parses.Add(1)
		}
		q.rows[0] = p.mark + q.rows[0]
		b = wiretest.AppendBind(b, wiretest.Bind{Statement: name, Params: [][]byte{nonce}})
		s.done.prepared.Add(1)
	}
	return wire.AppendEmpty(wiretest.AppendExecute(b, "", 0), wire.MsgSync), q
}

// prepare makes the text of a statement: everybody's, that of some, or one of its own.
func (s *stressed) prepare() stressPrepared {
	switch s.rnd.IntN(3) {
	case 0:
		return stressPrepared{text: s.question("$1")}
	case 1:
		mark := fmt.Sprintf("some-%d ", s.id%16)
		return stressPrepared{s.question("'" + mark + "' || $1"), mark}
	}
	s.asked++
	mark := fmt.Sprintf("own-%d-%d ", s.id, s.asked)
	return stressPrepared{s.question("'" + mark + "' || $1"), mark}
}

// send sends requests.
func (s *stressed) send(b []byte) error {
	s.began = time.Now()
	s.note(b)
	return s.conn.send(b)
}

// note remembers what is sent, for the case that something goes wrong.
func (s *stressed) note(b []byte) {
	const few = 12
	text := strings.ReplaceAll(string(b), stressLook, "...")
	if s.past = append(s.past, strconv.Quote(text[:min(len(text), 400)])); len(s.past) > few {
		s.past = s.past[1:]
	}
}

// answered compares the next answer.
func (s *stressed) answered(q *stressAsked) error {
	a, err := s.conn.answer()
	if err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	if q.settings != nil {
		q.settings.apply(&s.now)
		s.kept = s.now
		s.done.sets.Add(1)
	}
	want := slices.Clone(q.rows)
	for i := range want {
		want[i] += "|" + s.now.row()
	}
	if !slices.Equal(a.rows, want) {
		return fmt.Errorf("the answer is\n%q instead of\n%q", a.rows, want)
	}
	if q.number >= 0 {
		s.parsed[q.number] = q.prepared
	}
	s.done.answer(s.began)
	return s.reports()
}

func (s *stressed) askOnce() error {
	b, q := s.ask(nil, map[int]bool{})
	if err := s.send(b); err != nil {
		return err
	}
	return s.answered(q)
}

// pipeline asks several questions in one write. Some change a setting in the same batch.
func (s *stressed) pipeline() error {
	var b []byte
	asked, busy := make([]*stressAsked, 2+s.rnd.IntN(5)), map[int]bool{}
	for i := range asked {
		if s.rnd.IntN(4) == 0 {
			b, asked[i] = s.changeAndAsk(b)
		} else {
			b, asked[i] = s.ask(b, busy)
		}
	}
	if err := s.send(b); err != nil {
		return err
	}
	for i, q := range asked {
		err := s.answered(q)
		if told, ok := errors.AsType[*rawError](err); ok && !told.fatal && i+1 < len(asked) {
			err = s.judge(err) // those that come behind it are answered as well
		}
		if err != nil || s.conn == nil {
			return err
		}
	}
	return nil
}

// changeAndAsk appends a change of a setting and a question that finds it, in one batch.
func (s *stressed) changeAndAsk(b []byte) ([]byte, *stressAsked) {
	q := &stressAsked{rows: []string{s.nonce()}, number: -1}
	s.asked++
	all := stressSettings(s.rnd, s.id, s.asked)
	one := all[s.rnd.IntN(len(all))]
	q.settings = &stressChange{sql: "set " + one.name + " = " + one.literal(), apply: one.apply}
	question := s.question("'" + q.rows[0] + "'")
	if s.rnd.IntN(2) == 0 {
		return wire.AppendQuery(b, q.settings.sql+"; "+question), q
	}
	for _, sql := range []string{q.settings.sql, question} {
		b = wiretest.AppendParse(b, "", sql)
		b = wiretest.AppendExecute(wiretest.AppendBind(b, wiretest.Bind{}), "", 0)
	}
	return wire.AppendEmpty(b, wire.MsgSync), q
}

// exec runs a statement that returns nothing of interest.
func (s *stressed) exec(sql string) error {
	_, err := s.run(wire.AppendQuery(nil, sql))
	return err
}

// run sends a request that must not fail.
func (s *stressed) run(b []byte) (answer, error) {
	if err := s.send(b); err != nil {
		return answer{}, err
	}
	a, err := s.conn.answer()
	if err == nil && a.err != nil {
		err = a.err
	}
	return a, err
}
