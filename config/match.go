package config

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/pgweir/pgweir/config/schema"
)

// WorkloadOf is the workload of a client, as an index into Workloads: the first that
// matches. database is the name that the client asked for; the zero client is a Unix
// socket.
func (c *Config) WorkloadOf(database, role, application string, client netip.Addr) int {
	if c.matcher == nil { // made by hand
		return len(c.Workloads) - 1
	}
	return c.matcher.find(database, role, application, client.Unmap().WithZone(""))
}

// matcher finds the workload of a client without asking each: a workload that names its
// roles, applications or databases letter by letter is only asked for those.
type matcher struct {
	rules         []rule
	byRole        map[string][]int // indices of rules, in order
	byApplication map[string][]int
	byDatabase    map[string][]int
	others        []int
}

// rule is the Match of a workload or rate; tenants are looked at apart.
type rule struct {
	role, database, application, tenant patterns
	client                              []netip.Prefix
	unix                                bool
}

// newRule prepares a Match.
func newRule(m Match) rule {
	return rule{
		role: newPatterns(m.Role), database: newPatterns(m.Database),
		application: newPatterns(m.ApplicationName), client: m.Client, unix: m.Unix,
	}
}

// newMatcher prepares the workloads of a configuration.
func newMatcher(list []Workload) *matcher {
	m := &matcher{byRole: map[string][]int{}, byApplication: map[string][]int{}, byDatabase: map[string][]int{}}
	for i, w := range list {
		r := newRule(w.Match)
		m.rules = append(m.rules, r)
		switch {
		case r.role.exact():
			file(m.byRole, r.role, i)
		case r.application.exact():
			file(m.byApplication, r.application, i)
		case r.database.exact():
			file(m.byDatabase, r.database, i)
		default:
			m.others = append(m.others, i)
		}
	}
	return m
}

// file puts a rule under each of the words that it asks for.
func file(index map[string][]int, p patterns, rule int) {
	for word := range p.words {
		index[word] = append(index[word], rule)
	}
}

// find is the first rule that matches, or the last.
func (m *matcher) find(database, role, application string, client netip.Addr) int {
	lists := [...][]int{m.byRole[role], m.byApplication[application], m.byDatabase[database], m.others}
	for {
		first := -1
		for i, list := range lists {
			if len(list) > 0 && (first < 0 || list[0] < lists[first][0]) {
				first = i
			}
		}
		if first < 0 {
			return len(m.rules) - 1
		}
		candidate := lists[first][0]
		lists[first] = lists[first][1:]
		if m.rules[candidate].matches(database, role, application, client) {
			return candidate
		}
	}
}

// matches reports whether all of it fits.
func (r *rule) matches(database, role, application string, client netip.Addr) bool {
	return r.matchesClient(client) && r.role.match(role) && r.database.match(database) && r.application.match(application)
}

// matchesClient reports whether the client comes from one of the places.
func (r *rule) matchesClient(client netip.Addr) bool {
	if len(r.client) == 0 && !r.unix {
		return true
	}
	if !client.IsValid() {
		return r.unix
	}
	for _, p := range r.client {
		if p.Contains(client) {
			return true
		}
	}
	return false
}

// patterns is a list of globs. The zero patterns fit everything.
type patterns struct {
	words map[string]struct{} // those without a wildcard
	globs []string            // the others
}

// newPatterns sorts the globs of a list.
func newPatterns(list []string) patterns {
	if schema.FitsAll(list) {
		return patterns{}
	}
	p := patterns{words: map[string]struct{}{}}
	for _, text := range list {
		if strings.ContainsAny(text, "*?") {
			p.globs = append(p.globs, text)
		} else {
			p.words[text] = struct{}{}
		}
	}
	return p
}

// exact reports whether only known words fit.
func (p patterns) exact() bool { return p.words != nil && len(p.globs) == 0 }

// match reports whether one of the globs fits.
func (p patterns) match(text string) bool {
	if p.words == nil {
		return true
	}
	if _, found := p.words[text]; found {
		return true
	}
	for _, g := range p.globs {
		if glob(g, text) {
			return true
		}
	}
	return false
}

// glob reports whether text fits pattern, in which * is any text and ? one character. It
// goes back to the last star only, so it takes len(pattern) x len(text) steps at most.
func glob(pattern, text string) bool {
	p, t, star, resume := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && pattern[p] == '?':
			_, size := utf8.DecodeRuneInString(text[t:])
			p, t = p+1, t+size
		case p < len(pattern) && pattern[p] == text[t]:
			p, t = p+1, t+1
		case star >= 0:
			_, size := utf8.DecodeRuneInString(text[resume:])
			resume += size
			p, t = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
