package sqltext

import (
	"strings"
	"testing"
)

type classifyCase struct {
	text  string
	kind  Kind
	flags Flags
	name  string
}

// check classifies one case and compares everything it promises.
func (c classifyCase) check(t *testing.T) {
	t.Helper()
	st := Classify([]byte(c.text))
	if st.Kind != c.kind || st.Flags != c.flags {
		t.Errorf("Classify(%q) = %v [%v], want %v [%v]", c.text, st.Kind, st.Flags, c.kind, c.flags)
	}
	if name := st.Name([]byte(c.text)); name != c.name {
		t.Errorf("name of %q = %q, want %q", c.text, name, c.name)
	}
}

func runCases(t *testing.T, cases []classifyCase) {
	t.Helper()
	for _, c := range cases {
		c.check(t)
	}
}

func TestClassifyEmpty(t *testing.T) {
	for _, text := range []string{
		"", " ", ";", " ; ;; ", "-- x", "/* x */", "/* /* ; */ */;", "\t\r\n\f\v", "-- a\n;-- b\r;", "/**/", "/*;*/--",
	} {
		classifyCase{text: text, kind: Empty}.check(t)
	}
}

func TestClassifyTransactionControl(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "BEGIN", kind: Begin, flags: PlainBegin},
		{text: "begin;", kind: Begin, flags: PlainBegin},
		{text: ";begin;;", kind: Begin, flags: PlainBegin},
		{text: "/* a */ BeGiN -- b", kind: Begin, flags: PlainBegin},
		{text: "BEGIN WORK", kind: Begin, flags: PlainBegin},
		{text: "BEGIN TRANSACTION", kind: Begin, flags: PlainBegin},
		{text: "START TRANSACTION", kind: Begin, flags: Start | PlainBegin},
		{text: "BEGIN ISOLATION LEVEL READ COMMITTED", kind: Begin, flags: PlainBegin},
		{text: "BEGIN ISOLATION LEVEL READ UNCOMMITTED", kind: Begin, flags: PlainBegin},
		{text: "BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;", kind: Begin, flags: PlainBegin},
		{text: "START TRANSACTION READ ONLY ISOLATION LEVEL REPEATABLE READ", kind: Begin, flags: Start | PlainBegin},
		{text: "BEGIN READ/**/ONLY", kind: Begin, flags: PlainBegin},
		{text: "BEGIN READ WRITE", kind: Begin},
		{text: "BEGIN ISOLATION LEVEL SERIALIZABLE", kind: Begin},
		{text: "BEGIN DEFERRABLE", kind: Begin},
		{text: "BEGIN NOT DEFERRABLE, READ ONLY", kind: Begin},
		{text: "START TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", kind: Begin, flags: Start},

		{text: "BEGIN READ", kind: Other},
		{text: "BEGIN READ ONLY,", kind: Other},
		{text: "BEGIN , READ ONLY", kind: Other},
		{text: "BEGIN READ ONLY,,READ WRITE", kind: Other},
		{text: "BEGIN ISOLATION LEVEL", kind: Other},
		{text: "BEGIN ISOLATION LEVEL SNAPSHOT", kind: Other},
		{text: "BEGIN ISOLATION LEVEL 'serializable'", kind: Other},
		{text: "BEGIN ISOLATION READ COMMITTED", kind: Other},
		{text: `BEGIN "work"`, kind: Other},
		{text: "BEGIN WORK TRANSACTION", kind: Other},
		{text: "BEGIN NOT", kind: Other},
		{text: "BEGIN IMMEDIATE", kind: Other},
		{text: "(BEGIN)", kind: Other, flags: Writes},
		{text: "START", kind: Other, flags: Writes},
		{text: "START WORK", kind: Other, flags: Writes},
		{text: "BEGIN; SELECT 1", kind: Other, flags: Multi},
		{text: "BEGIN; BEGIN", kind: Other, flags: Multi},
		{text: `BEGIN\;`, kind: Other},

		{text: "COMMIT", kind: Commit, flags: EndsTx},
		{text: "END", kind: Commit, flags: EndsTx},
		{text: "end work;", kind: Commit, flags: EndsTx},
		{text: "COMMIT TRANSACTION AND NO CHAIN", kind: Commit, flags: EndsTx},
		{text: "COMMIT AND CHAIN", kind: CommitChain, flags: EndsTx},
		{text: "COMMIT AND NO", kind: Other, flags: EndsTx},
		{text: "COMMIT WORK WORK", kind: Other, flags: EndsTx},
		{text: "COMMIT PREPARED 'x'", kind: Other, flags: EndsTx},
		{text: "ROLLBACK", kind: Rollback, flags: EndsTx},
		{text: "ABORT TRANSACTION", kind: Rollback, flags: EndsTx},
		{text: "ROLLBACK WORK AND NO CHAIN", kind: Rollback, flags: EndsTx},
		{text: "ROLLBACK AND CHAIN", kind: RollbackChain, flags: EndsTx},
		{text: "ROLLBACK TO a", kind: RollbackTo, name: "a"},
		{text: "ROLLBACK WORK TO SAVEPOINT a", kind: RollbackTo, name: "a"},
		{text: `ROLLBACK TRANSACTION TO "A"`, kind: RollbackTo, name: "A"},
		{text: "ROLLBACK TO savepoint", kind: RollbackTo, name: "savepoint"},
		{text: "ROLLBACK TO SAVEPOINT savepoint;", kind: RollbackTo, name: "savepoint"},
		{text: "ROLLBACK TO a b", kind: Other},
		{text: "ROLLBACK TO", kind: Other},
		{text: "ROLLBACK TO SAVEPOINT 'a'", kind: Other},
		{text: "ROLLBACK PREPARED 'x'", kind: Other, flags: EndsTx},
		{text: "PREPARE TRANSACTION 'x'", kind: Other, flags: EndsTx | Writes},
		{text: "PREPARE TRANSACTION E'x'", kind: Other, flags: EndsTx | Writes},
		{text: "PREPARE transaction AS SELECT 1", kind: Other, flags: EndsTx | Prepare | Writes},
		{text: "SAVEPOINT a", kind: Savepoint, name: "a"},
		{text: `savepoint "A"`, kind: Savepoint, name: "A"},
		{text: "SAVEPOINT savepoint", kind: Savepoint, name: "savepoint"},
		{text: "SAVEPOINT", kind: Other},
		{text: "SAVEPOINT a b", kind: Other},
		{text: "RELEASE a", kind: Release, name: "a"},
		{text: "RELEASE SAVEPOINT A;", kind: Release, name: "a"},
		{text: "release savepoint", kind: Release, name: "savepoint"},
		{text: "RELEASE SAVEPOINT 'a'", kind: Other},
		{text: "select 1; savepoint a", kind: Other, flags: Multi | Savepoints},
		{text: "release a; savepoint a", kind: Other, flags: Multi | Savepoints},
		{text: "rollback to a; select 1", kind: Other, flags: Multi | Savepoints},
	})
}

func TestClassifyPreparedStatements(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "DISCARD ALL", kind: Discard, flags: Session},
		{text: "discard all; -- x", kind: Discard, flags: Session},
		{text: "DISCARD PLANS", kind: Other},
		{text: "DISCARD ALL ALL", kind: Other, flags: Session},
		{text: "SELECT 1; DISCARD ALL", kind: Other, flags: Multi | Session | Dealloc},
		{text: "DEALLOCATE ALL", kind: DeallocateAll},
		{text: "DEALLOCATE PREPARE ALL;", kind: DeallocateAll},
		{text: "DEALLOCATE Foo_1$", kind: Deallocate, name: "foo_1$"},
		{text: "DEALLOCATE PREPARE foo", kind: Deallocate, name: "foo"},
		{text: "DEALLOCATE prepare", kind: Deallocate, name: "prepare"},
		{text: `DEALLOCATE "Foo ""b"`, kind: Deallocate, name: `Foo "b`},
		{text: `DEALLOCATE "all"`, kind: Deallocate, name: "all"},
		{text: "DEALLOCATE Ünï", kind: Deallocate, name: "Ünï"},
		{text: "DEALLOCATE", kind: Other},
		{text: "DEALLOCATE a b", kind: Other},
		{text: "DEALLOCATE a.b", kind: Other},
		{text: "DEALLOCATE select", kind: Other},
		{text: "DEALLOCATE current_timestamp", kind: Other},
		{text: "DEALLOCATE inner", kind: Other},
		{text: "DEALLOCATE 'a'", kind: Other},
		{text: `DEALLOCATE U&"a"`, kind: Other, flags: Session | Temp | Advisory},
		{text: "DEALLOCATE a; DEALLOCATE b", kind: Other, flags: Multi | Dealloc},
		{text: "PREPARE p AS SELECT 1", kind: Other, flags: Prepare | Writes},
		{text: "PREPARE p(int) AS INSERT INTO t VALUES ($1)", kind: Other, flags: Prepare | Writes},
		{text: "EXECUTE p", kind: Other, flags: Prepare | Writes},
	})
}

func TestClassifySettings(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "SET DateStyle = 'ISO'", kind: Set, flags: Session, name: "datestyle"},
		{text: "SET SESSION DateStyle TO iso, mdy;", kind: Set, flags: Session, name: "datestyle"},
		{text: `SET "DateStyle"=iso`, kind: Set, flags: Session, name: "datestyle"},
		{text: "SET pgweir.deadline_ms = 200", kind: Set, flags: Session, name: "pgweir.deadline_ms"},
		{text: `SET a . /* x */ "B".C to -1.5`, kind: Set, flags: Session, name: "a.b.c"},
		{text: "SET x TO DEFAULT", kind: Set, flags: Session, name: "x"},
		{text: "SET x = - /* y */ 1", kind: Set, flags: Session, name: "x"},
		{text: "SET x = - y", kind: Other, flags: Session},
		{text: "SET x = on", kind: Set, flags: Session, name: "x"},
		{text: "SET x = E'a\\'b'", kind: Set, flags: Session, name: "x"},
		{text: "SET TIME ZONE 'UTC'", kind: Set, flags: Session, name: "timezone"},
		{text: "SET TIME ZONE LOCAL", kind: Set, flags: Session, name: "timezone"},
		{text: "SET SESSION TIME ZONE -7", kind: Set, flags: Session, name: "timezone"},
		{text: "SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE", kind: Set, flags: Session, name: "timezone"},
		{text: "SET TIME ZONE utc", kind: Set, flags: Session, name: "timezone"},
		{text: "SET TIME ZONE work", kind: Other, flags: Session},
		{text: "SET TIME ZONE INTERVAL '1' HOUR", kind: Set, flags: Session, name: "timezone"},
		{text: "SET TIME ZONE INTERVAL '1' HOUR TO", kind: Other, flags: Session},
		{text: "SET TIME ZONE INTERVAL 1", kind: Other, flags: Session},
		{text: "SET NAMES utf8", kind: Other, flags: Session},
		{text: "SET NAMES DEFAULT", kind: Set, flags: Session, name: "client_encoding"},
		{text: "SET ROLE 1", kind: Other, flags: Session},
		{text: "SET a.select = 1", kind: Other, flags: Session},
		{text: "SET NAMES 'utf8'", kind: Set, flags: Session, name: "client_encoding"},
		{text: "SET NAMES", kind: Set, flags: Session, name: "client_encoding"},
		{text: "SET SCHEMA 'a'", kind: Set, flags: Session, name: "search_path"},
		{text: "SET ROLE bob", kind: Set, flags: Session, name: "role"},
		{text: "SET role = bob", kind: Set, flags: Session, name: "role"},
		{text: "SET session.x = 1", kind: Set, flags: Session, name: "session.x"},
		{text: "SET local.x = 1", kind: Set, flags: Session, name: "local.x"},
		{text: "SET transaction.x = 1", kind: Set, flags: Session, name: "transaction.x"},
		{text: "SET names TO 1", kind: Set, flags: Session, name: "names"},
		{text: "SET time = 1", kind: Set, flags: Session, name: "time"},
		{text: "SET LOCAL pgweir.class = 'batch'", kind: SetLocal, name: "pgweir.class"},
		{text: "SET LOCAL TIME ZONE 'UTC'", kind: SetLocal, name: "timezone"},
		{text: "SET LOCAL SESSION AUTHORIZATION bob", kind: SetLocal, name: "session_authorization"},
		{text: "SET LOCAL TRANSACTION READ ONLY", kind: Other},
		{text: "SET TRANSACTION READ ONLY", kind: Other},
		{text: "SET TRANSACTION SNAPSHOT 'x'", kind: Other},
		{text: "SET CONSTRAINTS ALL DEFERRED", kind: Other},
		{text: "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", kind: Set, flags: Session, name: "session characteristics"},
		{text: "SET SESSION AUTHORIZATION bob", kind: Set, flags: Session, name: "session_authorization"},
		{text: "SET SESSION TRANSACTION READ ONLY", kind: Other, flags: Session},
		{text: "SET XML OPTION DOCUMENT", kind: Other, flags: Session},
		{text: "SET x", kind: Other, flags: Session},
		{text: "SET x =", kind: Other, flags: Session},
		{text: "SET x = 1 2", kind: Other, flags: Session},
		{text: "SET x = 1,", kind: Other, flags: Session},
		{text: "SET x = select", kind: Other, flags: Session},
		{text: "SET x == 1", kind: Other, flags: Session},
		{text: "SET x := 1", kind: Other, flags: Session},
		{text: "SET x = 'a' || 'b'", kind: Other, flags: Session},
		{text: "SET x. = 1", kind: Other, flags: Session},
		{text: "SET x FROM CURRENT", kind: Other, flags: Session},
		{text: "SET a = 1; SET LOCAL b = 2", kind: Other, flags: Session | Multi},
		{text: "SET search_path = public, pg_temp", kind: Set, flags: Session | Temp, name: "search_path"},
		{text: "SET search_path = 'public', 'PG_temp'", kind: Set, flags: Session | Temp, name: "search_path"},

		{text: "RESET DateStyle", kind: Reset, flags: Session, name: "datestyle"},
		{text: "RESET ALL", kind: Reset, flags: Session, name: "all"},
		{text: "RESET TIME ZONE", kind: Reset, flags: Session, name: "timezone"},
		{text: "RESET SESSION AUTHORIZATION", kind: Reset, flags: Session, name: "session_authorization"},
		{text: "RESET TRANSACTION ISOLATION LEVEL", kind: Reset, flags: Session, name: "transaction_isolation"},
		{text: "RESET a.b", kind: Reset, flags: Session, name: "a.b"},
		{text: "RESET", kind: Other, flags: Session},
		{text: "RESET a b", kind: Other, flags: Session},
		{text: "SHOW TimeZone", kind: Show, name: "timezone"},
		{text: "SHOW ALL", kind: Show, name: "all"},
		{text: "SHOW TRANSACTION ISOLATION LEVEL;", kind: Show, name: "transaction_isolation"},
		{text: "SHOW a b", kind: Read},
	})
}

func TestClassifyReads(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "SELECT 1", kind: Probe},
		{text: "/* ping */ select/**/42 ; -- x", kind: Probe},
		{text: "SELECT 1.5", kind: Read},
		{text: "SELECT -1", kind: Read},
		{text: "SELECT 1 AS x", kind: Read},
		{text: "SELECT '1'", kind: Read},
		{text: "SELECT", kind: Read},
		{text: "(SELECT 1)", kind: Read},
		{text: "((SELECT 1) UNION (SELECT 2))", kind: Read},
		{text: pgbenchSelect, kind: Read},
		{text: "VALUES (1, 'a;b'), (2, 'insert')", kind: Read},
		{text: "TABLE t", kind: Read},
		{text: "WITH x AS (SELECT 1) SELECT * FROM x", kind: Read},
		{text: "WITH x AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT 1", kind: Other, flags: Writes},
		{text: "WITH x AS (UPDATE t SET a = 1) SELECT 1", kind: Other, flags: Writes},
		{text: "WITH x AS (DELETE FROM t) SELECT 1", kind: Other, flags: Writes},
		{text: "WITH x AS (MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE) SELECT 1", kind: Other, flags: Writes},
		{text: "SELECT * FROM t FOR UPDATE", kind: Read, flags: Locks},
		{text: "SELECT * FROM t FOR NO KEY UPDATE OF t NOWAIT", kind: Read, flags: Locks},
		{text: "SELECT * FROM t FOR SHARE", kind: Read, flags: Locks},
		{text: "SELECT * FROM t FOR KEY SHARE", kind: Read, flags: Locks},
		{text: "SELECT key, no FROM t WHERE share", kind: Read},
		{text: "SELECT 1 INTO t", kind: Other, flags: Writes},
		{text: "SELECT 1into t", kind: Other, flags: Writes},
		{text: "SELECT 1 INTO TEMP t", kind: Other, flags: Writes | Temp},
		{text: "SELECT 1 INTO LOCAL TEMPORARY TABLE t", kind: Other, flags: Writes | Temp},
		{text: "SELECT temp, temporary FROM t", kind: Read},
		{text: `SELECT "insert", 'delete' FROM "update" -- into`, kind: Read},
		{text: "EXPLAIN SELECT 1", kind: Read},
		{text: "EXPLAIN (FORMAT json) SELECT 1", kind: Read},
		{text: "EXPLAIN ANALYZE SELECT 1", kind: Other, flags: Writes},
		{text: "EXPLAIN (ANALYSE) EXECUTE p", kind: Other, flags: Prepare | Writes},
		{text: `EXPLAIN ("analyze") EXECUTE p`, kind: Other, flags: Prepare | Writes},
		{text: "EXPLAIN UPDATE t SET a = 1", kind: Other, flags: Writes},
		{text: "SELECT analyze FROM t", kind: Read},
		{text: "SELECT 1; SELECT 2", kind: Other, flags: Multi},
		{text: `SELECT 1\; SELECT 2`, kind: Other, flags: Multi},
		{text: "INSERT INTO t VALUES (1)", kind: Other, flags: Writes},
		{text: "SELECT case when a then 1 end FROM t", kind: Read},
	})
}

// everything is what a text may do that can't be read.
const everything = Session | Temp | Listen | Prepare | Cursor | Advisory | Dealloc

func TestClassifyFlags(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "CREATE TEMP TABLE t (a int)", flags: Temp | Writes},
		{text: "CREATE LOCAL TEMPORARY TABLE t ()", flags: Temp | Writes},
		{text: "CREATE GLOBAL TEMP TABLE t ()", flags: Temp | Writes},
		{text: "CREATE OR REPLACE TEMP VIEW v AS SELECT 1", flags: Temp | Writes},
		{text: "CREATE TABLE temp (a int)", flags: Writes},
		{text: "CREATE TABLE pg_temp.x ()", flags: Temp | Writes},
		{text: `INSERT INTO "pg_temp_3".x VALUES (1)`, flags: Temp | Writes},
		{text: "EXPLAIN ANALYZE CREATE TEMP TABLE t AS SELECT 1", flags: Temp | Writes},
		{text: "LISTEN a", flags: Listen | Writes},
		{text: "SELECT 1; LISTEN a", flags: Multi | Listen | Writes},
		{text: "SELECT listen FROM t", kind: Read},
		{text: "DECLARE c CURSOR WITH HOLD FOR SELECT 1", flags: Cursor | Writes},
		{text: "DECLARE c CURSOR WITHOUT HOLD FOR SELECT 1", flags: Writes},
		{text: "WITH hold AS (SELECT 1) SELECT * FROM hold", kind: Read},
		{text: "SELECT pg_advisory_lock(1)", kind: Read, flags: Advisory},
		{text: "SELECT PG_TRY_ADVISORY_LOCK_SHARED(1)", kind: Read, flags: Advisory},
		{text: `SELECT pg_catalog."pg_advisory_lock"(1)`, kind: Read, flags: Advisory},
		{text: "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2)", kind: Read},
		{text: "SELECT 'pg_advisory_lock'", kind: Read},
		{text: "COPY t FROM STDIN", flags: Copy | Writes},
		{text: "COPY (SELECT 1) TO STDOUT", flags: Copy | Writes},
		{text: "SELECT 1; COPY t TO STDOUT", flags: Multi | Copy | Writes},
		{text: "INSERT INTO t VALUES (1); COMMIT", flags: Multi | EndsTx | Writes},
		{text: "SELECT 1; END", flags: Multi | EndsTx},
		{text: "UPDATE pg_settings SET setting = 'x' WHERE name = 'y'", flags: Session | Writes},
		{text: "SELECT * FROM pg_settings", kind: Read},
		{text: "DO $$ begin create temp table x(); commit; end $$", flags: Session | Temp | Writes},
		{text: "DO $$ begin perform pg_advisory_lock(1); /* deallocate */ end $$", flags: Session | Advisory | Dealloc | Writes},
		{text: "DO $$ begin execute 'dea' || 'llocate all'; end $$", flags: everything | Writes},
		{text: `DO $$ begin perform U&"pg\005fadvisory\005flock"(1); end $$`, flags: everything | Writes},
		{text: `DO E'begin ex\x65cute \'create te\' || \'mp table x()\'; end'`, flags: everything | Writes},
		{text: "DO LANGUAGE plpgsql $$ begin null; end $$", flags: Session | Writes},
		{text: "DO $$ begin null; end $$ LANGUAGE PLpgSQL", flags: Session | Writes},
		{text: "DO LANGUAGE plpython3u $$ $$", flags: everything | Writes},
		{text: `DO LANGUAGE "plpgsql" $$ $$`, flags: everything | Writes},
		{text: "SELECT query_to_xml('select 1', true, false, '')", flags: Session | Advisory | Writes},
		{text: `SELECT * FROM "ts_stat"('select 1')`, flags: Session | Advisory | Writes},
		{text: "SELECT ts_stat FROM t", flags: Session | Advisory | Writes}, // as good as never
		{text: "DO 'begin null; end'", flags: Session | Writes},
		{text: "ALTER ROLE bob SET work_mem = '1MB'", flags: Writes},
		{text: "CREATE FUNCTION f() RETURNS int LANGUAGE sql SET search_path = a AS $$ SELECT 1; COMMIT; SET a = 1 $$", flags: Writes},
		{text: "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b)", flags: Writes},
		{text: "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END", flags: Writes},
		{text: "CREATE OR REPLACE PROCEDURE p() BEGIN ATOMIC END; COMMIT", flags: Writes | Multi | EndsTx},
		{text: "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; SET a = 1", flags: Writes | Multi | Session},
		{text: "CREATE VIEW v AS SELECT begin atomic FROM t; END", flags: Writes | Multi | EndsTx},
	})
}

func TestClassifySetConfig(t *testing.T) {
	runCases(t, []classifyCase{
		{text: "SELECT set_config('a.b', 'x', true)", kind: Read},
		{text: "SELECT pg_catalog . SET_CONFIG ( 'a', f(1, 2), /* x */ TRUE )", kind: Read},
		{text: "SELECT set_config('a', $1, true), set_config('b', $2, true)", kind: Read},
		{text: "SELECT set_config('a', 'x', false)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', $1)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', true or true)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', not true)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', (true))", kind: Read, flags: Session},
		{text: `SELECT set_config('a', 'x', "true")`, kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', t.true)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', 'x', true, 1)", kind: Read, flags: Session},
		{text: "SELECT set_config(is_local => false, setting_name => 'x', new_value => true)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', set_config('b', 'x', false), true)", kind: Read, flags: Session},
		{text: "SELECT set_config('a', (SELECT set_config('b', 'x', true)), true)", kind: Read, flags: Session},
		{text: `SELECT "set_config"('a', 'x', false)`, kind: Read, flags: Session},
		{text: `SELECT U&"set\005fconfig"('a', 'x', false)`, flags: Session | Temp | Advisory | Writes},
		{text: "SELECT set_config FROM t", kind: Read},
		{text: "SELECT set_config, (1) FROM t", kind: Read},
		{text: "SELECT set_config(", kind: Read, flags: Session},
		{text: "SELECT set_config('search_path', 'pg_temp', true)", kind: Read, flags: Temp},
	})
}

func TestClassifyQuoting(t *testing.T) {
	const outside, inside = "; COMMIT", " COMMIT "
	// Each opening swallows what its closing does not give back.
	for _, q := range []struct{ before, after string }{
		{"/* ", " */"},
		{"/* /* */ ", " */"},
		{"/* /*/ */ ", " */"},
		{"-- ", "\n"},
		{"+-- ", "\n"},
		{"+/* ", " */ 1"},
		{"*/* ", " */ 1"},
		{"'", "'"},
		{"'''", "'''"},
		{`'a''`, `'`},
		{`E'\'`, `'`},
		{`e'\\\'`, `'`},
		{"E'a'\n'\\'", "'"},
		{"E'a' -- x\r '\\'", "'"},
		{"U&'", "'"},
		{"N'", "'"},
		{"B'", "'"},
		{`"`, `"`},
		{`"a""`, `"`},
		{`U&"`, `"`},
		{"$$", "$$"},
		{"$a$ $b$ $$ $", " $a$"},
		{"$ä_1$", "$ä_1$"},
		{"1$a$", "$a$"},
		{"$1$a$", "$a$"},
		{"('", "')"},
	} {
		text := "SELECT " + q.before + outside + q.after
		if st := Classify([]byte(text)); st.Flags&(EndsTx|Multi) != 0 {
			t.Errorf("%q: %v, want nothing seen inside the quote", text, st.Flags)
		}
		text = "SELECT " + q.before + inside + q.after + outside
		if st := Classify([]byte(text)); st.Flags&(EndsTx|Multi) != EndsTx|Multi {
			t.Errorf("%q: %v, want the statement behind the quote", text, st.Flags)
		}
	}
	// What looks like an opening and is none.
	for _, q := range []string{
		"a$$b", "a$b$c", "$1", "$", "$1a$", "'a' 'b'", "E'\\\\'", "U&'\\'", "x /", "a - b", "u&a", "e", "'\n'", "U&x'a'",
		"E'a'/*\n*/'\\'", "E'a' '\\'",
	} {
		text := "SELECT " + q + outside
		if st := Classify([]byte(text)); st.Flags&(EndsTx|Multi) != EndsTx|Multi {
			t.Errorf("%q: %v, want the statement behind it", text, st.Flags)
		}
	}
}

func TestClassifyUnterminated(t *testing.T) {
	for _, text := range []string{"SELECT 'a", "SELECT 1 /* a", "SELECT $$ a", `SELECT "a`, "BEGIN /*", "BEGIN /* /* */", "COMMIT E'\\'", "/*"} {
		st := Classify([]byte(text))
		if st.Kind != Other || st.Flags&Writes == 0 || st.Flags&PlainBegin != 0 {
			t.Errorf("Classify(%q) = %v [%v], want other, writing", text, st.Kind, st.Flags)
		}
	}
}

// What a server reads depends on settings that the text does not show: then
// every reading counts.
func TestClassifyEveryReading(t *testing.T) {
	for _, c := range []struct {
		text string
		kind Kind
		must Flags
	}{
		{`SELECT 'C:\'`, Read, 0},
		{`SELECT '\\'`, Read, 0},
		{`SELECT '\'; SET a = 1; --'`, Other, Session | Multi},
		{`SELECT '\', '; SET a = 1; --'`, Other, Session | Multi},
		{`SELECT E'\\', '\'`, Read, 0},
		{"SELECT E'\x95\\'; SET a = 1; --'", Other, Session | Multi},
		{"SELECT E'\x95\\n'", Read, 0},
		{"SELECT E'é\\'e'", Read, 0},
		{"SELECT '\x95\\', E'\\', '; COMMIT; --'", Other, EndsTx},
	} {
		st := Classify([]byte(c.text))
		if st.Kind != c.kind || st.Flags&c.must != c.must {
			t.Errorf("Classify(%q) = %v [%v], want %v with [%v]", c.text, st.Kind, st.Flags, c.kind, c.must)
		}
	}
}

func TestToDefault(t *testing.T) {
	for text, want := range map[string]bool{
		"SET a TO DEFAULT":                         true,
		"set session a.b = default ; -- all":       true,
		"SET TIME ZONE DEFAULT":                    true,
		"SET TIME ZONE LOCAL":                      true,
		"SET NAMES DEFAULT":                        true,
		"SET a TO 'default'":                       false,
		`SET a TO "default"`:                       false,
		"SET a TO local":                           false,
		"SET TIME ZONE 'local'":                    false,
		"SET LOCAL a TO DEFAULT":                   false,
		"RESET a":                                  false,
		"SET SESSION AUTHORIZATION DEFAULT":        false,
		"SET a TO b":                               false,
		"SET default TO b":                         false,
		"SELECT set_config('a', 'default', false)": false,
	} {
		if got := Classify([]byte(text)).ToDefault([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		text, value string
		ok          bool
	}{
		{"SET a = 'it''s'", "it's", true},
		{"SET a TO Bob", "Bob", true},
		{`SET a = "B""c"`, `B"c`, true},
		{"SET a = -1.5e3 ;", "-1.5e3", true},
		{"SET LOCAL a = on", "on", true},
		{"SET TIME ZONE 'UTC'", "UTC", true},
		{"SET TIME ZONE 1", "1", true},
		{"SET a = ''", "", true},
		{"SET a = DEFAULT", "", false},
		{"SET a = b, c", "", false},
		{"SET TIME ZONE INTERVAL '1' HOUR", "", false},
		{"SET ROLE bob", "bob", true},
		{`SET a = 'b\c'`, "", false},
		{`SET a = E'b'`, "", false},
		{"SET a = N'b'", "", false},
		{"SET a = $$b$$", "", false},
		{"SET a = - 1", "", false},
		{"SET a = b c", "", false},
		{"RESET a", "", false},
		{"SELECT 1", "", false},
	} {
		value, ok := Classify([]byte(c.text)).Value([]byte(c.text))
		if value != c.value || ok != c.ok {
			t.Errorf("value of %q = %q, %v, want %q, %v", c.text, value, ok, c.value, c.ok)
		}
	}
}

func TestEveryKeywordIsFound(t *testing.T) {
	for _, s := range spelling {
		for _, word := range []string{s.word, strings.ToUpper(s.word)} {
			if got := lookup(foldHead([]byte(word)), []byte(word)); got != s.code {
				t.Errorf("lookup(%q) = %d, want %d", word, got, s.code)
			}
		}
		for _, word := range []string{s.word + "x", s.word[:len(s.word)-1] + "$"} {
			if got := lookup(foldHead([]byte(word)), []byte(word)); got != kwNone {
				t.Errorf("lookup(%q) = %d, want none", word, got)
			}
		}
	}
	if len(spelling) >= 256 || len(spelling) > slots/2 {
		t.Errorf("%d keywords: the table needs another size", len(spelling))
	}
}

func TestLabels(t *testing.T) {
	for k := Other; k <= Release; k++ {
		if k.String() == "" || k.String() == "unknown" {
			t.Errorf("kind %d has no label", k)
		}
	}
	if got := (Release + 1).String(); got != "unknown" {
		t.Errorf("label of no kind = %q", got)
	}
	if got := (Multi | Locks).String(); got != "multi|locks" {
		t.Errorf("flags = %q", got)
	}
	if got := Flags(0).String(); got != "" {
		t.Errorf("no flags = %q", got)
	}
}
