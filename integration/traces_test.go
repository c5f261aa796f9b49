package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A client that is up to no good, or calls what it does not know, leaves something on the
// only server there is; the next client asks for it. What each does is one batch of messages
// with one answer. Trap 50.
func TestTracesOfHostileClients(t *testing.T) {
	f := startFront(t, plan{slots: 1})
	f.sql(t, "app", "create table words(w tsvector); grant all on words to app")
	const (
		advisory = "select count(*) from pg_locks where locktype = 'advisory'"
		temp     = "select count(*) from pg_class where relpersistence = 't'"
		workMem  = "select current_setting('work_mem')"
		listens  = "select count(*) from pg_listening_channels()"
	)
	query := func(sql string) []byte { return wire.AppendQuery(nil, sql) }
	for name, c := range map[string]struct {
		params   []wire.Param
		leave    [][]byte
		ask      string
		want     string
		mayError bool // the hostile client may be refused
	}{
		"a function call that locks": {
			leave: [][]byte{wiretest.AppendFunctionCall(nil, 2880, make([]byte, 8))},
			ask:   advisory, want: "0", mayError: true,
		},
		"a function call that sets": {
			leave: [][]byte{wiretest.AppendFunctionCall(nil, 2078, []byte("work_mem"), []byte("77MB"), []byte{0})},
			ask:   workMem, want: "4MB",
		},
		"a statement prepared for another session, executed by its name on the server": {
			leave: [][]byte{
				parsed("mine", "set work_mem = '77MB'"), query("execute pgweir_1"), query("execute pgweir_2"), query("execute pgweir_3"),
			},
			ask: workMem, want: "4MB", mayError: true,
		},
		"an anonymous block with dynamic text": {
			leave: [][]byte{query("do $$ begin execute 'create te' || 'mp table t()'; end $$")},
			ask:   temp, want: "0",
		},
		"an anonymous block with an escaped name": {
			leave: [][]byte{query(`do $$ begin perform U&"pg\005fadvisory\005flock"(7); end $$`)},
			ask:   advisory, want: "0",
		},
		"an anonymous block that listens": {
			leave: [][]byte{query("do $$ begin execute 'LIS' || 'TEN news'; end $$")},
			ask:   listens, want: "0",
		},
		"text inside a function that runs it": {
			leave: [][]byte{query("select query_to_xml('select set_config(''work_mem'', ''77MB'', false)', true, false, '')")},
			ask:   workMem, want: "4MB",
		},
		"text inside a function of the full text search": {
			leave: [][]byte{query("select * from ts_stat('select w from words where set_config(''work_mem'', ''77MB'', false) = '''' or pg_advisory_lock(9)::text = ''x''')")},
			ask:   workMem + " || (" + advisory + ")", want: "4MB0", mayError: true,
		},
		"a temporary search path in the startup packet": {
			params: []wire.Param{{Name: "search_path", Value: "pg_temp"}},
			leave:  [][]byte{query("create table secret as select 1 as one")},
			ask:    temp, want: "0", mayError: true,
		},
		"a temporary search path in the startup packet's options": {
			params: []wire.Param{{Name: "options", Value: `-c search_path=PG_TEMP,public`}},
			leave:  [][]byte{parsed("", "create table secret()"), unnamed()},
			ask:    temp, want: "0", mayError: true,
		},
		"a temporary search path of the transaction": {
			leave: [][]byte{query("begin"), query("set local search_path = 'pg_temp'"), query("create table secret()"), query("commit")},
			ask:   temp, want: "0",
		},
		"a setting by way of a view": {
			leave: [][]byte{query("update pg_settings set setting = 99999 where name = 'work_mem'")},
			ask:   workMem, want: "4MB",
		},
		"a sequence's last value": {
			leave: [][]byte{query("create temp sequence s"), query("select nextval('s')")},
			ask:   temp, want: "0", mayError: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			params := append([]wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: "app"}}, c.params...)
			hostile, err := dialRaw(f.Endpoint, params...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = hostile.conn.Close() }()
			for _, b := range c.leave {
				a, err := hostile.ask(b)
				if err != nil || a.err != nil && !c.mayError {
					t.Fatal(errors.Join(err, answerError(a)))
				}
			}
			// It stays, so that nothing is cleaned for its end.
			next, err := dialRaw(f.Endpoint, params[:2]...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = next.conn.Close() }()
			a, err := next.ask(query(c.ask))
			if err != nil || a.err != nil {
				t.Fatal(errors.Join(err, answerError(a)))
			}
			if got := strings.Join(a.rows, ","); got != c.want {
				t.Errorf("the next client finds %q, want %q", got, c.want)
			}
		})
	}
}

// parsed prepares a statement and ends the batch.
func parsed(name, sql string) []byte {
	return wire.AppendEmpty(wiretest.AppendParse(nil, name, sql), wire.MsgSync)
}

// unnamed runs the unnamed statement.
func unnamed() []byte {
	b := wiretest.AppendExecute(wiretest.AppendBind(nil, wiretest.Bind{}), "", 0)
	return wire.AppendEmpty(b, wire.MsgSync)
}

// Whoever drops what pgweir has prepared for others, by its name on the server, gets
// nobody into trouble but himself.
func TestDroppedStatementsOfOthers(t *testing.T) {
	f := startFront(t, plan{slots: 1})
	f.sql(t, "app", `create function drop_all() returns void language plpgsql as $$ begin execute 'deallocate all'; end $$`)
	for name, drop := range map[string][]byte{
		"by name":            wire.AppendQuery(nil, "deallocate pgweir_1"),
		"by quoted name":     wire.AppendQuery(nil, `deallocate "pgweir_1"`),
		"by name, extended":  append(parsed("", "deallocate pgweir_1"), unnamed()...),
		"behind another":     wire.AppendQuery(nil, "select 1; deallocate pgweir_1"),
		"in a block":         wire.AppendQuery(nil, "do $$ begin execute 'deallo' || 'cate all'; end $$"),
		"inside a function":  wire.AppendQuery(nil, "select drop_all()"),
		"by Close":           wire.AppendEmpty(wire.AppendClose(nil, 'S', "pgweir_1"), wire.MsgSync),
		"by way of EXECUTE":  wire.AppendQuery(nil, "prepare x as select drop_all(); execute x"),
		"all, as it is done": wire.AppendQuery(nil, "deallocate all"),
	} {
		t.Run(name, func(t *testing.T) {
			open := func() *rawClient {
				c, err := dialRaw(f.Endpoint, wire.Param{Name: "user", Value: "app"}, wire.Param{Name: "database", Value: "app"})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.conn.Close() })
				return c
			}
			victim, hostile := open(), open()
			use := wiretest.AppendBind(nil, wiretest.Bind{Statement: "s"})
			use = wire.AppendEmpty(wiretest.AppendExecute(use, "", 0), wire.MsgSync)
			if a, err := victim.ask(append(wiretest.AppendParse(nil, "s", "select 'kept by name'"), use...)); err != nil || a.err != nil {
				t.Fatal(errors.Join(err, answerError(a)))
			}
			for id := range 20 { // whatever number it has
				b := strings.ReplaceAll(string(drop), "pgweir_1", "pgweir_"+string(rune('0'+id%10)))
				if a, err := hostile.ask([]byte(b)); err != nil {
					t.Fatal(errors.Join(err, answerError(a)))
				}
				if strings.Count(string(drop), "S\x00\x00\x00\x04") == 2 {
					if _, err := hostile.answer(); err != nil {
						t.Fatal(err)
					}
				}
			}
			failed := 0
			for range 4 {
				a, err := victim.ask(use)
				if err != nil {
					t.Fatal(err)
				}
				if a.err != nil {
					failed++
					t.Log(a.err)
				}
			}
			if failed > 1 {
				t.Errorf("the other client's statement failed %d times of 4", failed)
			}
		})
	}
}
