package config

import (
	"slices"
	"strings"
)

// decoder fills a Config from a document and collects what is wrong with it.
type decoder struct {
	src      *source
	getenv   func(string) string
	config   *Config
	problems []Problem

	given map[string]span // where each key and each named section is, by its full name
	bad   map[string]bool // keys whose value was refused
	open  map[string][]field
	said  map[string]bool // sections about which there is a problem already
}

// complain notes a problem at a place.
func (d *decoder) complain(key string, at span, message, fix string) {
	d.problems = append(d.problems, d.src.locate(Problem{Key: key, Message: message, Fix: fix}, at))
}

// decode reads all sections of a document.
func (d *decoder) decode(doc document) {
	d.openSection("", topFields(d.config))
	d.openSection("log", logFields(&d.config.Log))
	d.openSection("tls", tlsFields(&d.config.TLS))
	d.openSection("auth", authFields(&d.config.Auth))
	d.countNames(doc)
	for i := range doc.sections {
		s := &doc.sections[i]
		d.header(s)
		for _, e := range s.entries {
			d.entry(s, e)
		}
	}
	if _, ok := d.open["workload"]; !ok {
		d.openSection("workload", workloadFields(&d.config.Workloads[0]))
	}
}

// openSection makes a section's keys known, each with its default.
func (d *decoder) openSection(name string, fields []field) {
	defaults(fields, d.src.dir)
	d.open[name] = fields
}

// countNames makes room for all upstreams and databases before any is filled: the fields
// point into the slices.
func (d *decoder) countNames(doc document) {
	count := func(kind, name string, at span) {
		full := dotted(kind, name)
		if _, twice := d.given[full]; twice {
			return
		}
		d.given[full] = at
		if kind == "upstream" {
			d.config.Upstreams = append(d.config.Upstreams, Upstream{Name: name})
		} else {
			d.config.Databases = append(d.config.Databases, Database{Name: name})
		}
	}
	for _, s := range doc.sections {
		if len(s.path) == 2 && isNamed(s.path[0]) && !s.element {
			count(s.path[0], s.path[1], s.at)
		}
		for _, e := range s.entries {
			if full := slices.Concat(s.path, e.path); len(full) == 3 && isNamed(full[0]) && !s.element {
				count(full[0], full[1], e.key)
			}
		}
	}
	for i := range d.config.Upstreams {
		u := &d.config.Upstreams[i]
		d.openSection(dotted("upstream", u.Name), upstreamFields(u))
	}
	for i := range d.config.Databases {
		b := &d.config.Databases[i]
		d.openSection(dotted("database", b.Name), databaseFields(b))
	}
}

// isNamed reports whether sections of this kind carry a name.
func isNamed(section string) bool { return section == "upstream" || section == "database" }

// header checks the head of a section.
func (d *decoder) header(s *section) {
	full := dotted(s.path...)
	switch {
	case len(s.path) == 0:
	case slices.Contains(laterSections(), s.path[0]):
		d.complainOnce(s, "["+full+"] is "+notYet, "Leave the section out.")
	case s.path[0] == "workload":
		d.workload(s)
	case isNamed(s.path[0]):
		d.named(s, full)
	case isPlain(s.path[0]):
		if len(s.path) > 1 {
			d.complainOnce(s, "["+s.path[0]+"] has no sections within it", "")
		} else if s.element {
			d.complainOnce(s, "there is only one ["+full+"]", "Write ["+full+"].")
		}
	default:
		d.unknownSection(s, full)
	}
}

// isPlain reports whether there is one section of this name, without a name of its own.
func isPlain(section string) bool { return slices.Contains([]string{"log", "tls", "auth"}, section) }

// complainOnce notes a problem of a section; its keys are not looked at then.
func (d *decoder) complainOnce(s *section, message, fix string) {
	name := dotted(s.path...)
	if s.element || !d.said[name] {
		d.complain("", s.at, message, fix)
	}
	d.said[name] = true
	s.entries = nil
}

// workload checks the head of [[workload]] and makes its keys known.
func (d *decoder) workload(s *section) {
	_, twice := d.given["workload"]
	switch {
	case len(s.path) > 1 && findsLater("workload", s.path[1]):
		d.complainOnce(s, dotted(s.path...)+" is "+notYet, "Leave it out.")
	case len(s.path) > 1 && s.path[1] == "max_wait":
		d.complainOnce(s, "a max_wait for each class is "+notYet, `Write one: max_wait = "2s".`)
	case len(s.path) > 1:
		d.complainOnce(s, "[workload] has no sections within it", "Write [[workload]].")
	case !s.element:
		d.complainOnce(s, "there may be several workloads, so each begins with two brackets", "Write [[workload]].")
	case twice:
		d.complainOnce(s, "more than one workload is "+notYet, `Keep the one named "default".`)
	default:
		d.given["workload"] = s.at
		d.openSection("workload", workloadFields(&d.config.Workloads[0]))
	}
}

// findsLater is findLater for a condition.
func findsLater(section, key string) bool {
	_, ok := findLater(section, key)
	return ok
}

// named checks the head of [upstream.NAME] and [database.NAME].
func (d *decoder) named(s *section, full string) {
	switch {
	case len(s.path) == 1 && d.hasNamed(full) && !slices.ContainsFunc(s.entries, func(e entry) bool { return len(e.path) == 1 }):
		// [upstream] with main.url = "..." below it is unusual, and right.
	case len(s.path) == 1:
		d.complainOnce(s, "the section has no name", "Write "+exampleHeader(full)+".")
	case len(s.path) > 2:
		d.complainOnce(s, "["+dotted(s.path[:2]...)+"] has no sections within it", "")
	case s.element:
		d.complainOnce(s, "there is only one ["+full+"]", "Write ["+full+"].")
	default:
		d.checkName(s.path[0], s.path[1], s.at)
	}
}

// hasNamed reports whether there is a section of the kind with a name.
func (d *decoder) hasNamed(kind string) bool {
	return kind == "upstream" && len(d.config.Upstreams) > 0 || kind == "database" && len(d.config.Databases) > 0
}

// exampleHeader is a header with a name.
func exampleHeader(section string) string {
	if section == "database" {
		return `[database.shop], or [database."*"] for every database`
	}
	return "[" + section + ".main]"
}

// checkName checks the name of an upstream or database.
func (d *decoder) checkName(section, name string, at span) {
	switch {
	case name == "" || len(name) > 63 || strings.ContainsFunc(name, isControl):
		d.complain("", at, "a name has 1 to 63 bytes and no control characters", "")
		d.bad[dotted(section, name)] = true
	case section == "database" && (name == "pgweir" || name == "pgbouncer"):
		d.complain(dotted("database", name), at, "the name is reserved for the console", "")
	case section == "upstream" && name == anyDatabase:
		d.complain("", at, `an upstream cannot be called "*"`, "Write [upstream.main].")
		d.bad[dotted(section, name)] = true
	}
}

// unknownSection complains about a section that nobody knows.
func (d *decoder) unknownSection(s *section, full string) {
	known := slices.Concat([]string{"log", "tls", "auth", "upstream", "database", "workload"}, laterSections())
	fix := "The sections are [log], [tls], [auth], [upstream.NAME], [database.NAME] and [[workload]]."
	if near := Nearest(s.path[0], known); near != "" {
		fix = "Did you mean " + bracketed(near, s.path[1:]) + "?"
		d.said[near] = true // so nobody says that it is missing
	} else if s.path[0] == "databases" || s.path[0] == "pgbouncer" || s.path[0] == "users" {
		fix = "PgBouncer's files are " + notYet + "."
	}
	message := "[" + full + "] is not a section"
	for _, f := range d.open[""] {
		if f.Name == full {
			message, fix = full+" is a key, not a section", "Write "+full+" = "+f.Default+"."
		}
	}
	d.complainOnce(s, message, fix)
}

// bracketed is the header of a section, with the rest of a name behind it.
func bracketed(section string, rest []string) string {
	if section == "workload" || section == "rate" {
		return "[[" + section + "]]"
	}
	if len(rest) == 0 && isNamed(section) {
		rest = []string{"NAME"}
	}
	return "[" + dotted(append([]string{section}, rest...)...) + "]"
}
