package relay

import (
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

func params(list ...string) *Params {
	ps := NoParams()
	for i := 0; i < len(list); i += 2 {
		ps = ps.with(list[i], list[i+1], false)
	}
	return ps
}

func TestSettingsFromOneClientToTheNext(t *testing.T) {
	known := map[Param]struct{}{{Name: "work_mem", Value: "7MB"}: {}, {Name: "role", Value: "bob"}: {}, {Name: "app.x", Value: "1"}: {}}
	for name, c := range map[string]struct {
		have, want *Params
		sql        string
		safe       bool
	}{
		"a known value":      {params(), params("work_mem", "7MB"), "SELECT pg_catalog.set_config('work_mem','7MB',false)", true},
		"an unknown value":   {params(), params("work_mem", "8MB"), "SELECT pg_catalog.set_config('work_mem','8MB',false)", false},
		"a role waits":       {params(), params("role", "bob"), "SELECT pg_catalog.set_config('role','bob',false)", false},
		"exactly these":      {params("work_mem", "8MB", "jit", "off"), params("jit", "off"), `RESET "work_mem";`, true},
		"a path that is not": {params("search_path", "a"), params(), `RESET "search_path";`, false},
		"what perhaps not everybody may reset": {
			params("log_statement", "all", "jit", "off"), params("jit", "off"),
			"SET SESSION AUTHORIZATION DEFAULT;RESET ALL;SELECT pg_catalog.set_config('jit','off',false)", false,
		},
		"in the order of the client": {
			params(), params("log_statement", "all", "role", "bob", "app.x", "1"),
			"SELECT pg_catalog.set_config('log_statement','all',false),pg_catalog.set_config('role','bob',false),pg_catalog.set_config('app.x','1',false)", false,
		},
		"another role": {
			params("role", "al", "work_mem", "7MB"), params("role", "bob", "work_mem", "7MB"),
			`SET SESSION AUTHORIZATION DEFAULT;RESET "role";SELECT pg_catalog.set_config('role','bob',false)`, false,
		},
		"no session authorization any more, but the same role": {
			params("session_authorization", "al", "role", "bob"), params("role", "bob"),
			`SET SESSION AUTHORIZATION DEFAULT;RESET "role";SELECT pg_catalog.set_config('role','bob',false)`, false,
		},
		"known, but perhaps not to this role": {
			params("role", "bob"), params("role", "bob", "app.x", "1"),
			`SET SESSION AUTHORIZATION DEFAULT;RESET "role";SELECT pg_catalog.set_config('role','bob',false),pg_catalog.set_config('app.x','1',false)`, false,
		},
	} {
		if sql, safe := settings(c.have, c.want, known); sql != c.sql || safe != c.safe {
			t.Errorf("%s: %s %v, want %s %v", name, sql, safe, c.sql, c.safe)
		}
	}
}

func TestSettingsThatDoNotChangeTexts(t *testing.T) {
	plain := params("search_path", "a")
	for _, p := range []*Params{
		params("search_path", "a", "app.user_id", "42"), params("statement_timeout", "5s", "search_path", "a"),
		params("application_name", "x", "search_path", "a", "enable_seqscan", "off"),
	} {
		if p.texts != plain.texts {
			t.Errorf("%v: another statement is prepared for it", p.All())
		}
	}
	for _, p := range []*Params{params(), params("search_path", "b"), params("search_path", "a", "DateStyle", "ISO"), params("search_path", "a", "role", "bob")} {
		if p.texts == plain.texts {
			t.Errorf("%v: the same statement is used", p.All())
		}
	}
	if a, b := params("a.b", "1", "c.d", "2"), params("c.d", "2", "a.b", "1"); !a.equal(b) || a.Meaning() != b.Meaning() {
		t.Error("the order makes other settings")
	}
}

// refusing is a rig whose first server, used second, refuses what the relay sets.
func refusing(t *testing.T) *rig {
	r := newRig(t, 2)
	r.servers[0].b = wiretest.NewBackend(wiretest.BackendOptions{Before: func(_ int, m wiretest.Message) *wire.Error {
		if m.Type == wire.MsgQuery && strings.Contains(string(m.Body), "pg_catalog.set_config('work_mem'") {
			return &wire.Error{Severity: "ERROR", Code: "42501", Message: "no such luck"}
		}
		return nil
	}})
	return r
}

// answers returns the codes of the errors and the tags that the client was told, and forgets them.
func (r *rig) answers() string {
	var list []string
	msgs, _ := wiretest.Messages(r.out)
	for _, m := range msgs {
		switch m.Type {
		case wire.MsgErrorResponse:
			list = append(list, wire.ErrorFields(m.Body).Code)
		case wire.MsgCommandComplete:
			list = append(list, strings.TrimRight(string(m.Body), "\x00"))
		case wire.MsgReadyForQuery:
			list = append(list, string(m.Body))
		}
	}
	r.out = nil
	return strings.Join(list, " ")
}

func query(texts ...string) (b []byte) {
	for _, text := range texts {
		b = wire.AppendQuery(b, text)
	}
	return b
}

func TestSettingsThatAreRefused(t *testing.T) {
	r := refusing(t)
	want := func(what, told string) {
		t.Helper()
		if got := r.answers(); got != told {
			t.Errorf("%s: told %s, want %s", what, got, told)
		}
	}
	r.send(query("set work_mem = '8MB'"))
	want("the first server", "SET I")
	r.send(query("insert 1"))
	want("the second", "22023 I")
	r.next = 1
	r.send(query("insert 1", "insert 2"))
	if got := r.answers(); !strings.HasPrefix(got, "22023 I") {
		t.Errorf("pipelined: %s", got)
	}
	// A command about it is run, alone; what is behind it has to wait for its outcome.
	r.next = 1
	r.send(query("set work_mem = 'much'"))
	want("a wrong value", "22023 I")
	r.next = 1
	r.send(query("set work_mem = 'much'", "insert 3"))
	if got := r.answers(); !strings.HasPrefix(got, "22023 I") || r.next < 3 {
		t.Errorf("%s, with %d servers", got, r.next)
	}
	r.next = 1
	r.send(query("reset work_mem"))
	want("RESET", "RESET I")
	r.next = 1
	r.send(query("insert 4"))
	want("after it", "INSERT 0 4 I")
}
