package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// stressSchemas is how many schemas there are in which a table "mark" says which it is.
const stressSchemas = 6

// stressSchema makes what the stressed sessions look at.
func stressSchema() string {
	var b strings.Builder
	b.WriteString("create table stress_copy(owner int, nonce text);\ngrant all on stress_copy to app;\n")
	mark := func(schema string) {
		fmt.Fprintf(&b, "create table %s.mark as select '%[1]s'::text as name;\ngrant select on %[1]s.mark to app;\n", schema)
	}
	mark("public")
	for i := range stressSchemas {
		fmt.Fprintf(&b, "create schema s%d;\ngrant usage on schema s%[1]d to app;\n", i)
		mark(fmt.Sprint("s", i))
	}
	return b.String()
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

// stressValues are the settings of a session. All but DateStyle's and the schema are
// nobody else's, unless they are the defaults.
type stressValues struct {
	name          string    // application_name
	style         [2]string // DateStyle, and how it shows a day
	zone          string    // TimeZone,
	offset        int       // and how many seconds it is from UTC
	path, schema  string    // search_path, and where "mark" is found by it
	mem           string    // work_mem, which Postgres doesn't report
	custom, added string    // parameters that it doesn't know
}

// stressDefaults are those of a session that has asked for nothing but a name.
func stressDefaults(name string) stressValues {
	return stressValues{name: name, style: dateStyles()[0], zone: "UTC", path: `"$user", public`, schema: "public", mem: "4MB"}
}

// stressLook is what a question asks for beside its nonce: each value, and what comes of it.
const stressLook = `current_setting('application_name'), current_setting('DateStyle'), date '2020-12-31'::text,
 current_setting('TimeZone'), extract(timezone from timestamptz '2020-12-31 12:00:00+00')::int,
 current_setting('search_path'), (select name from mark), current_setting('work_mem'),
 coalesce(current_setting('app.custom', true), ''), coalesce(current_setting('app.added', true), '')`

// row is what stressLook finds.
func (v stressValues) row() string {
	return strings.Join([]string{
		v.name, v.style[0], v.style[1], v.zone, fmt.Sprint(v.offset), v.path, v.schema, v.mem, v.custom, v.added,
	}, "|")
}

// stressChange is a statement, or several, that changes values.
type stressChange struct {
	sql   string
	local bool // until the end of the transaction
	apply func(*stressValues)
}

// stressSetting is one parameter: a value of a session's own for it.
type stressSetting struct {
	name, value string
	quoted      bool // as a literal; else the value is as in SET
	apply       func(to *stressValues)
	reset       func(to, first *stressValues)
}

// stressSettings makes a value for each parameter that only client id has, and only once.
func stressSettings(rnd *rand.Rand, id, n int) []stressSetting {
	own := func(what string) string { return fmt.Sprintf("%s-%d-%d", what, id, n) }
	style := dateStyles()[rnd.IntN(len(dateStyles()))]
	hours, minutes := rnd.IntN(12), rnd.IntN(60)
	zone, offset := fmt.Sprintf("<%s>+%02d:%02d", own("Z"), hours, minutes), -(hours*3600 + minutes*60)
	schema := fmt.Sprint("s", rnd.IntN(stressSchemas))
	path := fmt.Sprintf("%s, own_%d_%d", schema, id, n)
	mem := fmt.Sprintf("%dkB", 1025+2*(id*500+n%500))
	return []stressSetting{
		{
			"application_name", own("set"), true, func(to *stressValues) { to.name = own("set") },
			func(to, first *stressValues) { to.name = first.name },
		},
		{
			"DateStyle", style[0], true, func(to *stressValues) { to.style = style },
			func(to, first *stressValues) { to.style = first.style },
		},
		{
			"TimeZone", zone, true, func(to *stressValues) { to.zone, to.offset = zone, offset },
			func(to, first *stressValues) { to.zone, to.offset = first.zone, first.offset },
		},
		{
			"search_path", path, false, func(to *stressValues) { to.path, to.schema = path, schema },
			func(to, first *stressValues) { to.path, to.schema = first.path, first.schema },
		},
		{
			"work_mem", mem, true, func(to *stressValues) { to.mem = mem },
			func(to, first *stressValues) { to.mem = first.mem },
		},
		{
			"app.custom", own("c"), true, func(to *stressValues) { to.custom = own("c") },
			func(to, first *stressValues) { to.custom = first.custom },
		},
		{
			"app.added", own("a"), true, func(to *stressValues) { to.added = own("a") },
			func(to, first *stressValues) { to.added = first.added },
		},
	}
}

// literal is the value in SET.
func (s stressSetting) literal() string {
	if s.quoted {
		return "'" + s.value + "'"
	}
	return s.value
}

// change makes a random change, one that lasts for a transaction only inside of one.
func (s *stressed) change(inside bool) stressChange {
	s.asked++
	all := stressSettings(s.rnd, s.id, s.asked)
	one, other := all[s.rnd.IntN(len(all))], all[s.rnd.IntN(len(all))]
	first := s.first
	switch n := s.rnd.IntN(20); {
	case n < 6:
		return stressChange{sql: "set " + one.name + " = " + one.literal(), apply: one.apply}
	case n < 10:
		return stressChange{sql: fmt.Sprintf("select set_config('%s', '%s', false)", one.name, one.value), apply: one.apply}
	case n < 12:
		return stressChange{
			sql:   "set " + one.name + " to " + one.literal() + "; set session " + other.name + " to " + other.literal(),
			apply: func(to *stressValues) { one.apply(to); other.apply(to) },
		}
	case n < 16 && inside: // where RESET goes back to the defaults of the server
		return stressChange{sql: "set local " + one.name + " = " + one.literal(), local: true, apply: one.apply}
	case inside:
		return stressChange{sql: fmt.Sprintf("select set_config('%s', '%s', true)", one.name, one.value), local: true, apply: one.apply}
	case n < 15:
		return stressChange{sql: "reset " + one.name, apply: func(to *stressValues) { one.reset(to, &first) }}
	case n < 16:
		return stressChange{sql: "reset all", apply: func(to *stressValues) { *to = first }}
	case n < 17:
		return stressChange{sql: "discard all", apply: func(to *stressValues) { *to = first; clear(s.parsed) }}
	}
	return stressChange{sql: "set " + one.name + " to default", apply: func(to *stressValues) { one.reset(to, &first) }}
}

// startup is what a session asks for in its startup packet: in any case a name and a DateStyle,
// others as parameters or among the options.
func (s *stressed) startup() []wire.Param {
	s.asked++
	s.first = stressDefaults(fmt.Sprintf("in-%d-%d", s.id, s.asked))
	params := []wire.Param{{Name: "user", Value: "app"}, {Name: "database", Value: "app"}, {Name: "application_name", Value: s.first.name}}
	var options []string
	for _, setting := range stressSettings(s.rnd, s.id, s.asked) {
		switch n := s.rnd.IntN(4); {
		case setting.name == "application_name" || setting.name != "DateStyle" && n < 2:
			continue
		case n == 3:
			options = append(options, "-c", setting.name+"="+strings.ReplaceAll(setting.value, " ", `\ `))
		default:
			params = append(params, wire.Param{Name: setting.name, Value: setting.value})
		}
		setting.apply(&s.first)
	}
	if options != nil {
		params = append(params, wire.Param{Name: "options", Value: strings.Join(options, " ")})
	}
	s.kept, s.now = s.first, s.first
	return params
}

// reports compares what Postgres has reported with what the session has set, and looks for
// reports of what it never had.
func (s *stressed) reports() error {
	for _, p := range s.conn.reported {
		own := fmt.Sprintf("-%d-", s.id)
		switch {
		case p.Name == "application_name" && !strings.Contains(p.Value, own), p.Name == "TimeZone" && p.Value != "UTC" && !strings.Contains(p.Value, own):
			return fmt.Errorf("it is told that its %s is %q, in %q", p.Name, p.Value, s.conn.reported)
		}
	}
	s.conn.reported = s.conn.reported[:0]
	if s.conn.state == wire.InFailed {
		return nil
	}
	for name, want := range map[string]string{"application_name": s.now.name, "DateStyle": s.now.style[0], "TimeZone": s.now.zone} {
		if got := s.conn.status[name]; got != want {
			return fmt.Errorf("its %s was reported as %q, and is %q", name, got, want)
		}
	}
	return nil
}
