package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
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
		d.openSection("workload", workloadFields(&d.config.Workload))
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
		full := kind + "." + name
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
		d.openSection("upstream."+u.Name, upstreamFields(u))
	}
	for i := range d.config.Databases {
		b := &d.config.Databases[i]
		d.openSection("database."+b.Name, databaseFields(b))
	}
}

// isNamed reports whether sections of this kind carry a name.
func isNamed(section string) bool { return section == "upstream" || section == "database" }

// header checks the head of a section.
func (d *decoder) header(s *section) {
	full := strings.Join(s.path, ".")
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
	name := strings.Join(s.path, ".")
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
		d.complainOnce(s, strings.Join(s.path, ".")+" is "+notYet, "Leave it out.")
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
		d.openSection("workload", workloadFields(&d.config.Workload))
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
		d.complainOnce(s, "["+s.path[0]+"."+s.path[1]+"] has no sections within it", "")
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
	case section == "database" && (name == "pgweir" || name == "pgbouncer"):
		d.complain("database."+name, at, "the name is reserved for the console", "")
	case section == "upstream" && name == anyDatabase:
		d.complain("", at, `an upstream cannot be called "*"`, "Write [upstream.main].")
	}
}

// unknownSection complains about a section that nobody knows.
func (d *decoder) unknownSection(s *section, full string) {
	known := slices.Concat([]string{"log", "tls", "auth", "upstream", "database", "workload"}, laterSections())
	fix := "The sections are [log], [tls], [auth], [upstream.NAME], [database.NAME] and [[workload]]."
	if near := Nearest(s.path[0], known); near != "" {
		fix = "Did you mean " + bracketed(near, s.path[1:]) + "?"
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
	return "[" + strings.Join(append([]string{section}, rest...), ".") + "]"
}

// entry reads one key.
func (d *decoder) entry(s *section, e entry) {
	full := slices.Concat(s.path, e.path)
	table, key := full[:len(full)-1], full[len(full)-1]
	section := strings.Join(table, ".")
	if _, isOpen := d.open[section]; !isOpen || len(table) > 2 {
		d.stray(s, full, e)
		return
	}
	if len(e.path) == 3 {
		d.checkName(table[0], table[1], e.key)
	}
	kind := ""
	if len(table) > 0 {
		kind = table[0]
	}
	d.key(section, kind, key, e)
}

// stray complains about a key whose section does not exist.
func (d *decoder) stray(s *section, full []string, e entry) {
	fake := section{path: full[:len(full)-1], at: e.key, entries: []entry{e}}
	before := len(d.problems)
	if len(e.path) > 1 || len(s.path) == 0 {
		d.header(&fake)
	}
	if len(d.problems) == before && !d.said[strings.Join(fake.path, ".")] {
		d.complain(strings.Join(full, "."), e.key, "is not a key", "")
	}
}

// key finds a key's field and gives it the value.
func (d *decoder) key(section, table, key string, e entry) {
	full := key
	if section != "" {
		full = section + "." + key
	}
	d.given[full] = e.value.at
	fields := d.open[section]
	i := slices.IndexFunc(fields, func(f field) bool { return f.Name == key })
	if i >= 0 {
		d.set(full, fields[i], e.value)
		return
	}
	if later, ok := findLater(table, key); ok {
		if !same(later.already, e.value) {
			d.complain(full, e.key, "is "+notYet, laterFix(key, later.already))
		}
		return
	}
	d.unknownKey(full, table, key, e)
}

// laterFix is what to do about a key of a later version.
func laterFix(key, already string) string {
	if already == "" {
		return "Leave it out."
	}
	return "Leave it out, or write " + key + " = " + already + "."
}

// same reports whether a value is what the TOML text says.
func same(text string, v node) bool {
	if text == "" {
		return false
	}
	want := literal(text)
	return want.kind == v.kind && want.text == v.text && len(v.items) == 0
}

// unknownKey complains about a key that nobody knows and tries to tell what was meant.
func (d *decoder) unknownKey(full, table, key string, e entry) {
	for _, s := range sections() {
		if s.name == key {
			d.complain(full, e.key, "is a section, not a key", "Write "+bracketed(key, nil)+" on a line of its own.")
			return
		}
	}
	if slices.Contains(laterSections(), key) {
		d.complain(full, e.key, "is "+notYet, "Leave it out.")
		return
	}
	d.complain(full, e.key, "is not a key"+inSection(table), d.meant(table, key))
}

// inSection names a section for a message.
func inSection(table string) string {
	if table == "" {
		return " at the top of the file"
	}
	return " of " + bracketed(table, nil)
}

// meant guesses what an unknown key was meant to be.
func (d *decoder) meant(table, key string) string {
	var here, later []string
	for _, s := range sections() {
		for _, f := range s.fields {
			switch {
			case s.name == table:
				here = append(here, f.Name)
			case f.Name == key:
				return "It belongs to " + belongsTo(s.name) + "."
			}
		}
	}
	if fix := elsewhere(key); fix != "" {
		return fix
	}
	if near := Nearest(key, here); near != "" {
		return "Did you mean " + near + "?"
	}
	for _, k := range laterKeys() {
		if k.section == table {
			later = append(later, k.name)
		} else if k.name == key {
			return "It belongs to " + belongsTo(k.section) + ", and is " + notYet + "."
		}
	}
	if near := Nearest(key, later); near != "" {
		return "Did you mean " + near + "? It is " + notYet + "."
	}
	return "The keys here are " + strings.Join(here, ", ") + "."
}

// belongsTo names the home of a key.
func belongsTo(section string) string {
	if section == "" {
		return "the top of the file, above the first [section]"
	}
	return bracketed(section, nil)
}

// set gives a field its value and turns complaints into problems.
func (d *decoder) set(full string, f field, n node) {
	v, ok := d.resolve(full, n)
	if !ok {
		d.bad[full] = true
		return
	}
	for c := f.kind.set(v); c != nil; c = c.also {
		d.bad[full] = true
		fix := c.advice
		if c.fix != "" {
			fix = "Write " + f.Name + " = " + c.fix + "."
		}
		d.complain(full, place(v, c), c.message, fix)
	}
}

// place is where in the file a complaint points.
func place(v value, c *complaint) span {
	target := v.node
	if c.element > 0 && c.element <= len(v.items) {
		target = v.items[c.element-1]
	}
	if c.at.known() && target.plain && v.env == "" {
		start := target.at.from + 1
		return span{start + c.at.from, min(start+c.at.to, max(target.at.to-1, start+c.at.from+1))}
	}
	return target.at
}

// resolve replaces ${NAME}, in a value or in the elements of a list.
func (d *decoder) resolve(full string, n node) (value, bool) {
	v := value{node: n, dir: d.src.dir}
	if n.kind != unstable.String {
		v.items = slices.Clone(n.items)
		for i, item := range v.items {
			element, ok := d.resolve(full, item)
			if !ok {
				return v, false
			}
			v.items[i] = element.node
		}
		return v, true
	}
	variable, ok := variable(n.text)
	if !ok {
		return v, true
	}
	v.env = variable
	v.text = d.getenv(variable)
	if v.text == "" {
		d.complain(full, n.at, "the environment variable "+strconv.Quote(variable)+" is not set, or empty", "")
		return v, false
	}
	return v, true
}

// variable is NAME of a text that is ${NAME} and nothing else.
func variable(text string) (string, bool) {
	inner, ok := strings.CutPrefix(text, "${")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(inner, "}")
}
