package matrix

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// keyed makes a map of arguments "key=value".
func keyed(args []string) map[string]string {
	o := make(map[string]string)
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		o[key] = value
	}
	return o
}

// pgxAgent is pgx, with a pool by the rules of pgx's own, which is not among the modules of
// this one.
type pgxAgent struct {
	mu    sync.Mutex
	dsn   map[string]string
	idle  []*pgxSession
	conns map[int]*pgxSession
}

// pgxSession is a connection in use.
type pgxSession struct {
	*pgx.Conn
	alone   bool
	tx      []pgx.Tx // the transaction and its savepoints
	notices []string
	stop    context.CancelFunc // of the statement that runs long
}

func newPgx() agent { return &pgxAgent{conns: make(map[int]*pgxSession)} }

func (a *pgxAgent) close() error {
	for _, c := range a.idle {
		_ = c.Close(context.Background())
	}
	return nil
}

func (a *pgxAgent) session(conn int) *pgxSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conns[conn]
}

func (a *pgxAgent) do(conn int, verb string, args ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lines, err := a.carryOut(ctx, conn, verb, args)
	if err != nil {
		lines = append(lines, pgxFailure(err))
	}
	return lines
}

func pgxFailure(err error) []string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return failure(e.Code, e.Message, e.Detail, e.Hint)
	}
	return failure("", err.Error(), "", "")
}

func (a *pgxAgent) dial(ctx context.Context, o map[string]string) (*pgxSession, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%s user=%s password=%s dbname=%s sslmode=disable",
		o["host"], o["port"], o["user"], o["password"], o["database"]))
	if err != nil {
		return nil, err
	}
	for key, name := range map[string]string{"tz": "timezone", "enc": "client_encoding"} {
		if o[key] != "" {
			config.RuntimeParams[name] = o[key]
		}
	}
	s := &pgxSession{}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { // while the session waits for an answer
		s.notices = append(s.notices, n.Severity+":  "+n.Message)
	}
	s.Conn, err = pgx.ConnectConfig(ctx, config)
	return s, err
}

// open takes an idle connection or dials.
func (a *pgxAgent) open(ctx context.Context, conn int) error {
	a.mu.Lock()
	s := (*pgxSession)(nil)
	if n := len(a.idle); n > 0 {
		s = a.idle[n-1]
		a.idle = a.idle[:n-1]
	}
	dsn := a.dsn
	a.mu.Unlock()
	var err error
	if s == nil {
		if s, err = a.dial(ctx, dsn); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns[conn] = s
	return nil
}

// giveBack closes what pgx's pool would close.
func (a *pgxAgent) giveBack(ctx context.Context, conn int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.conns[conn]
	delete(a.conns, conn)
	if s == nil {
		return nil
	}
	if p := s.PgConn(); s.alone || s.IsClosed() || p.IsBusy() || p.TxStatus() != 'I' {
		return s.Close(ctx)
	}
	a.idle = append(a.idle, s)
	return nil
}

func (a *pgxAgent) carryOut(ctx context.Context, conn int, verb string, args []string) (answer, error) {
	switch verb {
	case "pool":
		_ = a.close()
		a.dsn, a.idle = keyed(args), nil
		return nil, nil
	case "connect":
		s, err := a.dial(ctx, keyed(args))
		if err != nil {
			return nil, err
		}
		s.alone = true
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns[conn] = s
		return nil, nil
	case "open":
		return nil, a.open(ctx, conn)
	case "close":
		return nil, a.giveBack(ctx, conn)
	case "cancel":
		n, _ := strconv.Atoi(args[0]) // a number
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns[n].stop()
		return nil, nil
	}
	s := a.session(conn)
	if s == nil {
		return nil, errors.New("no connection")
	}
	return s.carryOut(ctx, a, verb, args)
}

func (s *pgxSession) carryOut(ctx context.Context, a *pgxAgent, verb string, args []string) (answer, error) {
	switch verb {
	case "query":
		return s.query(ctx, args[0], args[1:])
	case "exec":
		return s.exec(ctx, args[0])
	case "prepare":
		_, err := s.Prepare(ctx, args[0], args[1])
		return nil, err
	case "run":
		return s.query(ctx, args[0], args[1:])
	case "begin", "commit", "rollback", "savepoint", "rollbackto", "release":
		return nil, s.transaction(ctx, verb, args)
	case "copyin":
		tag, err := s.PgConn().CopyFrom(ctx, strings.NewReader(args[1]), args[0])
		return answer{{"end", tag.String()}}, err
	case "copyout":
		return s.copyOut(ctx, args[0])
	case "lowrite", "loread":
		return s.largeObject(ctx, verb, args[0])
	case "pipeline":
		return s.pipeline(ctx, args)
	case "long":
		return s.long(ctx, a, args[0])
	case "notices":
		s.notices = nil
		lines, err := s.exec(ctx, args[0])
		for _, text := range s.notices {
			lines = append(lines, []string{"notice", text})
		}
		return lines, err
	case "types":
		return s.types(ctx)
	case "ping":
		return nil, s.Ping(ctx)
	}
	return answer{{"no"}}, nil
}

// query is pgx's default: statements of a cache, binary formats.
func (s *pgxSession) query(ctx context.Context, sql string, args []string) (answer, error) {
	var values []any
	for _, arg := range args {
		values = append(values, arg)
	}
	rows, err := s.Query(ctx, sql, values...)
	if err != nil {
		return nil, err
	}
	lines, err := rowsOf(rows)
	if err != nil {
		return lines, err
	}
	return append(lines, []string{"end", rows.CommandTag().String()}), nil
}

// rowsOf reads all rows to their end.
func rowsOf(rows pgx.Rows) (lines answer, err error) {
	defer rows.Close()
	for rows.Next() {
		row, err := rows.Values()
		if err != nil {
			return lines, err
		}
		line := []string{"row"}
		for _, v := range row {
			line = append(line, cell(v))
		}
		lines = append(lines, line)
	}
	return lines, rows.Err()
}

// cell is a value as text.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return null
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprint(v)
}

func (s *pgxSession) exec(ctx context.Context, sql string) (answer, error) {
	results, err := s.PgConn().Exec(ctx, sql).ReadAll()
	var lines answer
	for _, r := range results {
		for _, row := range r.Rows {
			line := []string{"row"}
			for _, v := range row {
				if v == nil {
					line = append(line, null)
				} else {
					line = append(line, string(v))
				}
			}
			lines = append(lines, line)
		}
		if r.Err == nil {
			lines = append(lines, []string{"end", r.CommandTag.String()})
		}
	}
	return lines, err
}

func (s *pgxSession) transaction(ctx context.Context, verb string, args []string) error {
	top := len(s.tx) - 1
	pop := func(end func(context.Context) error) error {
		s.tx = s.tx[:top]
		return end(ctx)
	}
	switch verb {
	case "begin":
		options := pgx.TxOptions{}
		if len(args) > 0 {
			options.IsoLevel = pgx.Serializable
		}
		tx, err := s.BeginTx(ctx, options)
		s.tx = []pgx.Tx{tx}
		return err
	case "savepoint":
		tx, err := s.tx[top].Begin(ctx)
		s.tx = append(s.tx, tx)
		return err
	case "rollbackto":
		if err := pop(s.tx[top].Rollback); err != nil {
			return err
		}
		return s.transaction(ctx, "savepoint", nil) // its own has gone with the rollback
	case "rollback":
		return pop(s.tx[top].Rollback)
	}
	return pop(s.tx[top].Commit)
}

func (s *pgxSession) copyOut(ctx context.Context, sql string) (answer, error) {
	var to bytes.Buffer
	tag, err := s.PgConn().CopyTo(ctx, &to, sql)
	var lines answer
	for line := range strings.Lines(to.String()) {
		lines = append(lines, []string{"row", strings.TrimSuffix(line, "\n")})
	}
	return append(lines, []string{"end", tag.String()}), err
}

func (s *pgxSession) largeObject(ctx context.Context, verb, arg string) (answer, error) {
	all := s.tx[0].LargeObjects()
	if verb == "loread" {
		oid, _ := strconv.ParseUint(arg, 10, 32) // of an answer
		lo, err := all.Open(ctx, uint32(oid), pgx.LargeObjectModeRead)
		if err != nil {
			return nil, err
		}
		var to bytes.Buffer
		_, err = to.ReadFrom(lo)
		return answer{{"row", to.String()}}, errors.Join(err, lo.Close())
	}
	oid, err := all.Create(ctx, 0)
	if err != nil {
		return nil, err
	}
	lo, err := all.Open(ctx, oid, pgx.LargeObjectModeWrite)
	if err != nil {
		return nil, err
	}
	_, err = lo.Write([]byte(arg))
	return answer{{"row", strconv.Itoa(int(oid))}}, errors.Join(err, lo.Close())
}

// pipeline sends a batch.
func (s *pgxSession) pipeline(ctx context.Context, statements []string) (answer, error) {
	var b pgx.Batch
	for _, sql := range statements {
		b.Queue(sql)
	}
	results := s.SendBatch(ctx, &b)
	var lines answer
	for range statements {
		rows, err := results.Query()
		if err != nil {
			return lines, errors.Join(err, ignore(results.Close()))
		}
		for rows.Next() {
			line := []string{"row"}
			for _, v := range rows.RawValues() {
				line = append(line, hex.EncodeToString(v))
			}
			lines = append(lines, line)
		}
		rows.Close()
		if rows.Err() != nil {
			return lines, errors.Join(rows.Err(), ignore(results.Close()))
		}
		lines = append(lines, []string{"end", rows.CommandTag().String()})
	}
	return lines, results.Close()
}

// ignore drops an error that repeats another.
func ignore(error) error { return nil }

// long is cancelled by pgx's own request: the end of a context would close the connection. The
// request must not end with the statement: PostgreSQL sends two signals, and closes its
// connection behind the second.
func (s *pgxSession) long(ctx context.Context, a *pgxAgent, sql string) (answer, error) {
	a.mu.Lock()
	s.stop = func() { _ = s.PgConn().CancelRequest(context.WithoutCancel(ctx)) } // what came of it the statement tells
	a.mu.Unlock()
	_, err := s.PgConn().Exec(ctx, sql).ReadAll()
	return nil, err
}

func (s *pgxSession) types(ctx context.Context) (answer, error) {
	var lines answer
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		rows, err := s.Query(ctx, `select $1::int, $2::bool, $3::int, $4::bigint, $5::float8, $6::text::numeric::text, $7::text, $8::text, $9::bytea, `+
			`$10::timestamptz, $11::text::date, $12::int[], $13::text::jsonb, $14::text::uuid`,
			mode, nil, true, int32(-1<<31), int64(1<<63-1), 1.5, "12345678901234567890.123456789", "é\t'\\", "", everyByte(),
			time.Date(2024, 2, 29, 12, 34, 56, 789012000, time.UTC), "0001-01-01", []int32{1, 3}, `{"a": [1, null]}`, "00000000-0000-0000-0000-000000000005")
		if err != nil {
			return lines, err
		}
		some, err := rowsOf(rows)
		lines = append(lines, some...)
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

// everyByte has all values of a byte.
func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
