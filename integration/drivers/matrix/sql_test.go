package matrix

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lib/pq"
)

// sqlAgent is database/sql with lib/pq: either by a connection of the pool for each number, or
// by the pool itself, which takes any of its connections for each statement.
type sqlAgent struct {
	whole bool

	mu    sync.Mutex
	db    *sql.DB
	conns map[int]*sqlSession
	heard map[int][]string
}

// sqlSession is what a number stands for.
type sqlSession struct {
	runner
	conn     *sql.Conn // nil: the pool itself
	own      *sql.DB   // of a connection that is not of the pool
	tx       *sql.Tx
	prepared map[string]*sql.Stmt
	stop     context.CancelFunc // of what runs long
}

// runner is a pool, a connection or a transaction.
type runner interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

func newPq() agent { return &sqlAgent{conns: make(map[int]*sqlSession)} }

func newSQL() agent { return &sqlAgent{conns: make(map[int]*sqlSession), whole: true} }

func (a *sqlAgent) close() error {
	if a.db == nil {
		return nil
	}
	return a.db.Close()
}

func (a *sqlAgent) do(conn int, verb string, args ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lines, err := a.carryOut(ctx, conn, verb, args)
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return append(lines, failure(string(e.Code), e.Message, e.Detail, e.Hint))
	} else if err != nil {
		return append(lines, failure("", err.Error(), "", ""))
	}
	return lines
}

// pool makes a pool, which keeps notices for whoever is alone with it.
func (a *sqlAgent) pool(o map[string]string) (*sql.DB, error) {
	dsn := fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=disable", o["host"], o["port"], o["user"], o["password"], o["database"])
	if o["tz"] != "" {
		dsn += " timezone=" + o["tz"]
	}
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(pq.ConnectorWithNoticeHandler(connector, func(e *pq.Error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for conn, list := range a.heard {
			a.heard[conn] = append(list, e.Severity+":  "+e.Message)
		}
	})), nil
}

func (a *sqlAgent) set(conn int, s *sqlSession) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.prepared = make(map[string]*sql.Stmt)
	a.conns[conn] = s
}

func (a *sqlAgent) carryOut(ctx context.Context, conn int, verb string, args []string) (answer, error) {
	switch verb {
	case "pool":
		_ = a.close() // the old one
		db, err := a.pool(keyed(args))
		if err != nil {
			return nil, err
		}
		size, _ := strconv.Atoi(keyed(args)["size"])
		db.SetMaxOpenConns(size)
		db.SetMaxIdleConns(size)
		a.db = db
		return nil, nil
	case "connect":
		if keyed(args)["enc"] != "" {
			return answer{{"no"}}, nil // it speaks UTF8 only
		}
		db, err := a.pool(keyed(args))
		if err != nil {
			return nil, err
		}
		c, err := db.Conn(ctx)
		a.set(conn, &sqlSession{runner: c, conn: c, own: db})
		return nil, err
	case "open":
		if a.whole {
			a.set(conn, &sqlSession{runner: a.db})
			return nil, nil
		}
		c, err := a.db.Conn(ctx)
		if err == nil {
			a.set(conn, &sqlSession{runner: c, conn: c})
		}
		return nil, err
	}
	a.mu.Lock()
	s := a.conns[conn]
	a.mu.Unlock()
	if s == nil && verb != "cancel" {
		return nil, errors.New("no connection")
	}
	switch verb {
	case "cancel":
		n, _ := strconv.Atoi(args[0]) // a number
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns[n].stop()
		return nil, nil
	case "long":
		return s.long(ctx, a, args[0])
	case "notices":
		return a.notices(ctx, conn, s, args[0])
	case "ping":
		if s.conn == nil {
			return nil, a.db.PingContext(ctx)
		}
		return nil, s.conn.PingContext(ctx)
	}
	return s.carryOut(ctx, a, verb, args)
}

func (s *sqlSession) carryOut(ctx context.Context, a *sqlAgent, verb string, args []string) (answer, error) {
	switch verb {
	case "close":
		return nil, s.giveBack()
	case "query":
		rows, err := s.now().QueryContext(ctx, args[0], anys(args[1:])...)
		return all(rows, err)
	case "exec":
		rows, err := s.now().QueryContext(ctx, args[0])
		return all(rows, err)
	case "prepare":
		statement, err := s.runner.PrepareContext(ctx, args[1])
		s.prepared[args[0]] = statement
		return nil, err
	case "run":
		statement := s.prepared[args[0]]
		if s.tx != nil {
			statement = s.tx.StmtContext(ctx, statement)
		}
		rows, err := statement.QueryContext(ctx, anys(args[1:])...)
		return all(rows, err)
	case "begin":
		return nil, s.begin(ctx, a, args)
	case "commit", "rollback":
		tx := s.tx
		s.tx = nil
		if verb == "rollback" {
			return nil, tx.Rollback()
		}
		return nil, tx.Commit()
	case "copyin":
		return s.copyIn(ctx, a, args[0], args[1])
	case "types":
		return s.types(ctx)
	}
	return answer{{"no"}}, nil
}

// now is where statements go: the transaction, if there is one.
func (s *sqlSession) now() runner {
	if s.tx != nil {
		return s.tx
	}
	return s.runner
}

func (s *sqlSession) giveBack() error {
	for _, statement := range s.prepared {
		_ = statement.Close() // a connection that is lost has none
	}
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	if s.own != nil {
		err = errors.Join(err, s.own.Close())
	}
	if errors.Is(err, sql.ErrConnDone) {
		return nil // the pool has thrown it away
	}
	return err
}

// begin begins a transaction, which must outlive the command: database/sql rolls it back at
// the end of its context.
func (s *sqlSession) begin(ctx context.Context, a *sqlAgent, args []string) (err error) {
	ctx = context.WithoutCancel(ctx)
	options := &sql.TxOptions{}
	if len(args) > 0 {
		options.Isolation = sql.LevelSerializable
	}
	if s.conn != nil {
		s.tx, err = s.conn.BeginTx(ctx, options)
	} else {
		s.tx, err = a.db.BeginTx(ctx, options)
	}
	return err
}

func anys(args []string) (list []any) {
	for _, arg := range args {
		list = append(list, arg)
	}
	return list
}

// all reads all results.
func all(rows *sql.Rows, err error) (answer, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var lines answer
	for more := true; more; more = rows.NextResultSet() {
		names, err := rows.Columns()
		if err != nil {
			return lines, err
		}
		cells := make([]any, len(names))
		into := make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				return lines, err
			}
			line := []string{"row"}
			for _, v := range cells {
				if b, ok := v.([]byte); ok && len(b) < 200 {
					v = string(b)
				}
				line = append(line, cell(v))
			}
			lines = append(lines, line)
		}
		lines = append(lines, []string{"end"})
	}
	return lines, rows.Err()
}

// copyIn is lib/pq's way: a prepared COPY whose rows are its parameters, in a transaction.
func (s *sqlSession) copyIn(ctx context.Context, a *sqlAgent, text, data string) (_ answer, err error) {
	tx := s.tx
	if tx == nil {
		if err := s.begin(ctx, a, nil); err != nil {
			return nil, err
		}
		tx = s.tx
		s.tx = nil
		defer func() {
			if err != nil {
				_ = tx.Rollback()
			} else {
				err = tx.Commit()
			}
		}()
	}
	statement, err := tx.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(data) {
		if _, err := statement.ExecContext(ctx, anys(strings.Split(strings.TrimSpace(line), "\t"))...); err != nil {
			_ = statement.Close()
			return nil, err
		}
	}
	if _, err := statement.ExecContext(ctx); err != nil {
		_ = statement.Close()
		return nil, err
	}
	return nil, statement.Close()
}

// long is stopped by its context, on which lib/pq cancels it.
func (s *sqlSession) long(ctx context.Context, a *sqlAgent, text string) (answer, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.mu.Lock()
	s.stop = stop
	a.mu.Unlock()
	rows, err := s.now().QueryContext(ctx, text)
	return all(rows, err)
}

func (a *sqlAgent) notices(ctx context.Context, conn int, s *sqlSession, text string) (answer, error) {
	a.mu.Lock()
	a.heard = map[int][]string{conn: nil}
	a.mu.Unlock()
	_, err := s.now().ExecContext(ctx, text)
	a.mu.Lock()
	defer a.mu.Unlock()
	var lines answer
	for _, text := range a.heard[conn] {
		lines = append(lines, []string{"notice", text})
	}
	a.heard = nil
	return lines, err
}

func (s *sqlSession) types(ctx context.Context) (answer, error) {
	rows, err := s.now().QueryContext(ctx, `select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::numeric, $7::text, $8::text, $9::bytea, `+
		`$10::timestamptz, $11::date, $12::int[], $13::jsonb, $14::uuid`,
		nil, true, int64(-1<<31), int64(1<<63-1), 1.5, "12345678901234567890.123456789", "é\t'\\", "", everyByte(),
		time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC), "0001-01-01", "{1,NULL,3}", `{"a": [1, null]}`, "00000000-0000-0000-0000-000000000005")
	return all(rows, err)
}
