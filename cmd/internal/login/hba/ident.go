package hba

import "strings"

// Maps say which system users, or names of certificates, may be which roles.
type Maps struct {
	lines []mapping
}

// mapping is a line of an ident file.
type mapping struct {
	name   string
	system pattern
	role   pattern
}

// LoadMaps reads a file in the syntax of pg_ident.conf with all that it includes: lines of
// map name, system user, role. With problems there are no maps.
func LoadMaps(path string) (*Maps, []Problem) { return loadMaps(local{}, path) }

func loadMaps(d disk, path string) (*Maps, []Problem) {
	l := load(d, path)
	m := &Maps{}
	for i := range l.lines {
		one, bad := parseMapping(&l.lines[i])
		if bad != nil {
			l.problems = append(l.problems, *bad)
			continue
		}
		m.lines = append(m.lines, one)
	}
	if len(l.problems) > 0 {
		return nil, l.problems
	}
	return m, nil
}

// firstGroup in the role of a map is what the first parentheses of its expression have matched.
const firstGroup = `\1`

func parseMapping(ln *line) (mapping, *Problem) {
	p := &parser{line: ln}
	m := mapping{name: p.one("map name").word}
	m.system.token = p.one("system user")
	m.role.token = p.one("role")
	if p.bad == nil && len(p.fields) > 0 {
		p.fail(p.fields[0][0].spot, "a map has three fields: its name, the system user and the role")
	}
	if p.bad != nil {
		return m, p.bad
	}
	for _, it := range []*pattern{&m.system, &m.role} {
		if *it, p.bad = patternOf(it.token); p.bad != nil {
			return m, p.bad
		}
	}
	if m.substitutes() && m.system.expr.NumSubexp() == 0 {
		p.fail(m.system.spot, `the regular expression has no ( ) for the \1 of the role`)
	}
	return m, p.bad
}

// substitutes reports whether the role has a part of the system user in it.
func (m *mapping) substitutes() bool {
	_, group := m.role.group()
	return m.system.expr != nil && m.role.expr == nil && !group && strings.Contains(m.role.word, firstGroup)
}

// Has reports whether there is a map of that name.
func (m *Maps) Has(name string) bool {
	if m == nil {
		return false
	}
	for i := range m.lines {
		if m.lines[i].name == name {
			return true
		}
	}
	return false
}

// Lines is the number of lines with a mapping.
func (m *Maps) Lines() int {
	if m == nil {
		return 0
	}
	return len(m.lines)
}

// Allows reports whether a system user may be the role of q, by the map of that name. With
// no name the two have to be the same. The error is one of q.MemberOf.
func (m *Maps) Allows(name, system string, q *Query) (bool, error) {
	if name == "" {
		return system == q.Role, nil
	}
	if m == nil {
		return false, nil
	}
	for i := range m.lines {
		if one := &m.lines[i]; one.name == name {
			if ok, err := one.allows(system, q); ok || err != nil {
				return ok, err
			}
		}
	}
	return false, nil
}

func (m *mapping) allows(system string, q *Query) (bool, error) {
	if m.system.expr == nil {
		if m.system.word != system {
			return false, nil
		}
		return q.means(&m.role, q.Role)
	}
	at := m.system.expr.FindStringSubmatchIndex(system)
	switch {
	case at == nil:
		return false, nil
	case !m.substitutes():
		return q.means(&m.role, q.Role)
	case at[2] < 0: // the parentheses had no part in the match
		return false, nil
	}
	// What comes of it is a name and nothing else, whatever it looks like.
	return strings.Replace(m.role.word, firstGroup, system[at[2]:at[3]], 1) == q.Role, nil
}
