package wiretest

import (
	"fmt"
	"strings"
)

// unreported changes parameters of which the client is not told, in all the ways there are,
// and looks at them: they must be the client's own.
func (s *scripter) unreported() {
	block := s.has(Transactions) && s.chance(2)
	if block {
		s.query("begin")
		s.pause()
	}
	marks := 0
	for range 1 + s.r.IntN(4) {
		switch n := s.r.IntN(10); {
		case n == 0 && block:
			marks++
			s.query(fmt.Sprintf("savepoint u%d", s.r.IntN(2)))
		case n == 1 && marks > 0:
			s.query(pick(s, "rollback to ", "release ") + fmt.Sprintf("u%d", s.r.IntN(2)))
		case n == 2:
			s.query(s.several(block))
		case n == 3 && s.has(Errors):
			s.query(s.failing())
		case n < 7 && s.has(Extended):
			s.batch(s.unreportedSetting())
			if s.chance(2) {
				s.batch(s.any())
			}
			s.sync()
		default:
			s.query(s.unreportedSetting())
		}
		s.pause()
	}
	if block {
		s.query(s.endText())
		s.query(s.tag("rollback"))
	}
	s.query(s.tag("whoami all"))
}

// several is a string of statements with settings among them.
func (s *scripter) several(block bool) string {
	setting := func() string {
		for {
			if text := s.unreportedSetting(); !strings.Contains(text, "set_config") { // which is not followed there
				return text
			}
		}
	}
	parts := []string{setting(), s.any(), setting()}
	if s.has(Transactions) && s.chance(2) {
		parts[s.r.IntN(3)] = pick(s, "savepoint u0", "rollback to u0", "commit", "rollback")
	}
	if s.has(Transactions) && !block && s.chance(3) {
		parts = append([]string{"begin"}, append(parts, setting(), pick(s, "commit", "rollback"))...)
	}
	return strings.Join(parts, "; ")
}

// unreportedSetting returns a statement that changes a parameter that is not reported.
func (s *scripter) unreportedSetting() string {
	name := pick(s, "work_mem", "search_path", "statement_timeout", "enable_seqscan", "row_security", "Extra_Float_Digits", "bytea_output")
	value := map[string][]string{
		"work_mem":           {"'8MB'", "64", "'1GB'"},
		"search_path":        {"a, b", `"C d", 'e'`, "public", "''"},
		"statement_timeout":  {"'50s'", "0", "7000"},
		"enable_seqscan":     {"off", "'on'"},
		"row_security":       {"off", "on"},
		"Extra_Float_Digits": {"-3", "0", "2", "4"},
		"bytea_output":       {"escape", "'hex'", "\"escape\"", "bad"},
	}[name]
	v := value[s.r.IntN(len(value))]
	if !s.has(Errors) && (v == "4" || v == "bad") {
		v = "default"
	}
	n := s.r.IntN(9)
	if !s.has(Resets) && n < 3 {
		n = 5
	}
	switch n {
	case 0:
		return s.tag("reset " + name)
	case 1:
		return s.tag(fmt.Sprintf("set %s to default", name))
	case 2:
		return s.tag("reset all")
	case 3:
		return s.tag(fmt.Sprintf("set local %s = %s", name, v))
	case 4:
		v = "'" + strings.Trim(v, `'"+`) + "'"
		if strings.ContainsAny(v, ` "`) {
			v = "'x, y'"
		}
		if name == "search_path" && s.chance(3) {
			return s.tag(fmt.Sprintf("select set_config('%s', %s, false), set_config('work_mem', '9MB', %s)", name, v, pick(s, "true", "false")))
		}
		return s.tag(fmt.Sprintf("select %sset_config('%s', %s, %s)", pick(s, "", "pg_catalog."), name, v, pick(s, "true", "false")))
	}
	return s.tag(fmt.Sprintf("set %s%s %s %s", pick(s, "", "session "), name, pick(s, "=", "to"), v))
}
