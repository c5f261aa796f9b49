package sqltext

import "testing"

// Each line of a group has the shape of the group and of no other.
var shapes = [][]string{
	{
		"SELECT * FROM t WHERE id = 1", "select * from T where ID=2;", "SELECT * FROM t WHERE id = $1",
		"/* a */ SELECT * -- b\n FROM t\tWHERE id = 'x'", `SELECT * FROM "t" WHERE "id" = -1.5e3`, "SELECT * FROM t WHERE id = NULL",
		";;SELECT * FROM t WHERE id = $$x$$;;", "SELECT * FROM t WHERE id = E'a\\'' -- c", "SELECT * FROM t WHERE id = true",
		"SELECT * FROM t WHERE id = 'a'\n'b'", "SELECT * FROM t WHERE id = 0x1f", "SELECT * FROM t WHERE id = 1_000",
		"SELECT * FROM t WHERE id = + 1", "SELECT * FROM t WHERE id = B'01'",
	},
	{`SELECT * FROM "T" WHERE id = 1`},
	{`SELECT * FROM t WHERE "ID" = 1`},
	{"SELECT * FROM t WHERE id > 1"},
	{"SELECT * FROM t WHERE id = id"},
	{"SELECT * FROM t WHERE id = 1; SELECT 2", "SELECT * FROM t WHERE id = 1;; SELECT 3 ;"},
	{"SELECT * FROM t WHERE id IS NULL"},
	{"SELECT * FROM t WHERE id IS TRUE"},
	{"SELECT * FROM t WHERE id IN (1)", "SELECT * FROM t WHERE id IN (1, 2, -3)", "SELECT * FROM t WHERE id in ($1,$2,$3,$4)", "SELECT * FROM t WHERE id IN ('a', NULL)"},
	{"SELECT * FROM t WHERE id NOT IN (1)", "SELECT * FROM t WHERE id NOT IN (1, 2)"},
	{"SELECT * FROM t WHERE id IN (1, a)"},
	{"SELECT * FROM t WHERE id IN (SELECT 1)"},
	{"SELECT * FROM t WHERE (a, b) IN ((1, 2))", "SELECT * FROM t WHERE (a, b) IN ((1, 2), ($1, $2), (3, 4))"},
	{"SELECT * FROM t WHERE (a, b) IN ((1, 2, 3))"},
	{"SELECT * FROM t WHERE a = ANY (ARRAY[1])", "SELECT * FROM t WHERE a = ANY (array[1, 2, 3])"},
	{"SELECT * FROM t WHERE a = ANY (ARRAY[[1, 2]])", "SELECT * FROM t WHERE a = ANY (array[[1, 2], [3, 4]])"},
	{"SELECT a[1] FROM t"},
	{"SELECT a[1], 2 FROM t"},
	{"INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES ($1, $2), ($3, $4)", "insert into t values (1, default), (null, 'x'), (-1, 5)"},
	{"INSERT INTO t VALUES (1, 2, 3)"},
	{"INSERT INTO t VALUES (1, now())"},
	{"INSERT INTO t VALUES (1, now()), (2, now())"},
	{"INSERT INTO t (a, b) VALUES (1, 2)", "INSERT INTO t(a,b) VALUES (1, 2), (3, 4)"},
	{"SELECT f(1)"},
	{"SELECT f(1, 2)", "SELECT f('a', -2)"},
	{"SELECT f(1), (2)"},
	{"SELECT f((1), (2))"},
	{"SELECT 1", "SELECT -1", "SELECT 'a'"},
	{"SELECT 1, 2"},
	{"SELECT a - 1", "SELECT a-2"},
	{"SELECT a + 1"},
	{"SELECT current_date - 7"},
	{"SELECT current_date + 7"},
	{"SELECT (a) - 1", "SELECT (a) - $1"},
	{"SELECT a FROM t WHERE a BETWEEN 1 AND 2", "SELECT a FROM t WHERE a BETWEEN -1 AND -2"},
	{"SELECT - a"},
	{`SELECT "user"`},
	{"SELECT user"},
	{"SELECT a.b"},
	{"SELECT a, b"},
	{"SELECT ab"},
	{"SELECT a b"},
	{"SELECT abcdefgh"},
	{"SELECT abcdefgh i"},
	{"SELECT abcdefghi", `SELECT "abcdefghi"`, "SELECT ABCDEFGHI"},
	{"SELECT É"},
	{"SELECT é"},
	{`SELECT U&"a"`},
	{"CREATE TABLE t (a varchar(10) DEFAULT 5)", "CREATE TABLE t (a varchar(20) DEFAULT 'x')"},
	{"CREATE TABLE t (a varchar(10))"},
	{"UPDATE t SET a = DEFAULT", "UPDATE t SET a = 1"},
	{"BEGIN"},
	{"COMMIT", "commit;"},
	{"", ";", "/* a */", "-- b"},
}

func TestFingerprintPartition(t *testing.T) {
	groups := make(map[uint64]string)
	for _, group := range shapes {
		want := Fingerprint([]byte(group[0]))
		if other, taken := groups[want]; taken {
			t.Errorf("%q and %q have one fingerprint", group[0], other)
		}
		groups[want] = group[0]
		for _, text := range group[1:] {
			if got := Fingerprint([]byte(text)); got != want {
				t.Errorf("%q differs from %q", text, group[0])
			}
		}
	}
}

// Fingerprints are kept and compared by more than one process: a change of
// this value is a change of every stored one.
func TestFingerprintIsStable(t *testing.T) {
	if got := Fingerprint([]byte(pgbenchSelect)); got != 0xb3985efc2f6b2a48 {
		t.Errorf("fingerprint of %q = %#x", pgbenchSelect, got)
	}
}
