package sqltext

import (
	"reflect"
	"testing"
)

func set(name, value string) []Setting { return []Setting{{Name: name, Value: value}} }

func reset(name string) []Setting { return []Setting{{Name: name, Reset: true}} }

// TestSettings has the values as PostgreSQL 15 shows them after the statement.
func TestSettings(t *testing.T) {
	for text, want := range map[string][]Setting{
		"set work_mem = '7MB'":                            set("work_mem", "7MB"),
		"SET SESSION Work_Mem TO 7168;":                   set("work_mem", "7168"),
		"set a.b = 007":                                   set("a.b", "7"),
		"set a.b = -1.50":                                 set("a.b", "-1.50"),
		"set a.b = +3":                                    set("a.b", "3"),
		"set a.b = 99999999999":                           set("a.b", "99999999999"),
		"set a.b = on /* tag='x' */":                      set("a.b", "on"),
		"set a.b = E'x\\'y\\n'":                           set("a.b", "x'y\n"),
		"set a.b = 'it''s'":                               set("a.b", "it's"),
		"set a.b = $x$it's$x$":                            set("a.b", "it's"),
		"set a.b = Foo":                                   set("a.b", "foo"),
		`set "A"."B" = "Foo ""x"""`:                       set("a.b", `Foo "x"`),
		"set a.b = x, 'Y z'":                              set("a.b", "x, Y z"),
		"set search_path = a, B, \"C\", '$user', 'a, b'":  set("search_path", `a, b, "C", "$user", "a, b"`),
		"set search_path = user1, 'user', 'time', ''":     set("search_path", `user1, "user", "time", ""`),
		"set schema 'Foo'":                                set("search_path", `"Foo"`),
		"set work_mem to default":                         reset("work_mem"),
		"reset work_mem":                                  reset("work_mem"),
		"reset all":                                       reset("all"),
		"set role Bob":                                    set("role", "bob"),
		"set role 'Bob'":                                  set("role", "Bob"),
		"set role none":                                   set("role", "none"),
		"reset role":                                      reset("role"),
		"set session authorization bob":                   set("session_authorization", "bob"),
		"set session session authorization 'bob'":         set("session_authorization", "bob"),
		"set session authorization default":               reset("session_authorization"),
		"reset session authorization":                     reset("session_authorization"),
		"set local session authorization bob":             nil,
		"set local work_mem = 1":                          nil,
		"select set_config('Work_Mem', '7MB', false)":     set("work_mem", "7MB"),
		"select pg_catalog.set_config('a.b', '', 'f') x":  nil, // see below
		"select set_config('a.b', NULL, false)":           reset("a.b"),
		"select set_config('a.b', 'x', true)":             nil,
		"select set_config('search_path', 'a, B', false)": set("search_path", "a, B"),
		"select set_config('a', '1', false) as x, set_config('b', '2', true), pg_catalog.set_config('c', '3', false);": {
			{Name: "a", Value: "1"}, {Name: "c", Value: "3"},
		},
		"set session characteristics as transaction isolation level repeatable read, read only not deferrable": {
			{Name: "default_transaction_isolation", Value: "repeatable read"},
			{Name: "default_transaction_read_only", Value: "on"},
			{Name: "default_transaction_deferrable", Value: "off"},
		},
		"set session characteristics as transaction isolation level serializable read write": {
			{Name: "default_transaction_isolation", Value: "serializable"},
			{Name: "default_transaction_read_only", Value: "off"},
		},
	} {
		st := Classify([]byte(text))
		got, known := st.Settings([]byte(text))
		if !reflect.DeepEqual(got, want) || !known && want != nil {
			t.Errorf("%q: %v %v, want %v (%v)", text, got, known, want, st.Kind)
		}
	}
}

// TestSettingsUnknown has what only a server can evaluate.
func TestSettingsUnknown(t *testing.T) {
	for _, text := range []string{
		"set a.b = U&'x'", "set a.b = 0x10", "set a.b = 'a\\b'", "set a.b = E'\\x41'", "set a.b from current", "set xml option document",
		"select set_config('a.b', $1, false)", "select set_config('a.b', 'x', $1)", "select set_config('a.b', 'x' || 'y', false)",
		"select set_config('a.b', 'x', false) from t", "select set_config('a.b', 'x', 'true')", "select set_config('a.b', 'x', false), f()",
		"set a.b = 'x'; select 1", "do $$begin end$$", "set transaction read only", "select 1",
		"set a.b = an_identifier_that_is_longer_than_postgres_takes_it_and_would_be_cut",
	} {
		st := Classify([]byte(text))
		if list, known := st.Settings([]byte(text)); known {
			t.Errorf("%q: %v", text, list)
		}
	}
}

func TestStepsOfSettings(t *testing.T) {
	for text, want := range map[string]struct {
		steps []Step
		rest  Flags
	}{
		"set a.b = 1; set local c.d = 2; reset all; set constraints all immediate; select 1": {
			[]Step{{Kind: Set, Settings: set("a.b", "1")}, {Kind: Set}, {Kind: Reset, Settings: reset("all")}, {Kind: Set}}, Writes,
		},
		"set a.b = 1; do $$begin end$$":                       {[]Step{{Kind: Set, Settings: set("a.b", "1")}}, Session | Writes},
		"set a.b = 1; select set_config('a.b', '2', false)":   {[]Step{{Kind: Set, Settings: set("a.b", "1")}}, Session},
		"begin; set a.b = U&'x'; savepoint s; set a.b = 2":    {[]Step{{Kind: Set}, {Kind: Savepoint, Name: "s"}, {Kind: Set, Settings: set("a.b", "2")}}, Session},
		"set search_path = pg_temp; set role x; set nonsense": {[]Step{{Kind: Set, Settings: set("search_path", "pg_temp")}, {Kind: Set, Settings: set("role", "x")}, {Kind: Set}}, Temp | Session},
	} {
		steps, rest, ok := Steps([]byte(text), 9)
		if !ok || !reflect.DeepEqual(steps, want.steps) || rest&^(Writes|PlainBegin) != want.rest&^Writes {
			t.Errorf("%q: %v %v, want %v", text, steps, rest, want)
		}
	}
}
