package config

import (
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/pgweir/pgweir/admission"
)

// shortestWait and longestWait bound max_wait and deadline.
const (
	shortestWait = time.Millisecond
	longestWait  = time.Hour
)

// waits is max_wait: a duration for all classes, or a table of them.
func waits(w *Workload) kind {
	one := period(&w.MaxWait, shortestWait, longestWait)
	k := kind{admits: one.admits + ", or a table of them by class"}
	k.get = func() string {
		if w.named == [admission.Classes]Duration{} {
			return one.get()
		}
		var list []string
		for i, d := range w.named {
			if d != 0 {
				list = append(list, admission.ClassAt(i).String()+" = "+quoted(d.String()))
			}
		}
		return "{ " + strings.Join(list, ", ") + " }"
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.InlineTable {
			return classWaits(w, v)
		}
		problem := one.set(v)
		if problem == nil {
			w.named = [admission.Classes]Duration{}
		}
		return problem
	}
	return k
}

// classWaits reads the table.
func classWaits(w *Workload, v value) *complaint {
	var named [admission.Classes]Duration
	var problems *complaint
	if len(v.items) == 0 {
		return &complaint{message: "the table names no class", fix: `{ critical = "2s", sheddable = "500ms" }`}
	}
	for i, item := range v.items {
		problem := classWait(&named, v.names[i].text, value{node: item, env: v.env})
		if problem != nil {
			problem.element = i + 1
			problems = problems.and(problem)
		}
	}
	if problems == nil {
		w.named = named
	}
	return problems
}

// classWait reads the wait of the class of a name.
func classWait(named *[admission.Classes]Duration, class string, v value) *complaint {
	i := slices.Index(plainClasses(), class)
	if i < 0 {
		advice := "Write " + orList(plainClasses()) + "."
		if near := Nearest(class, plainClasses()); near != "" {
			advice = "Did you mean " + near + "?"
		}
		return &complaint{message: quoted(class) + " is not a class", advice: advice, onName: true}
	}
	problem := period(&named[i], shortestWait, longestWait).set(v)
	if problem != nil && problem.fix != "" {
		problem.fix, problem.advice = "", "Write "+class+" = "+problem.fix+"."
	}
	return problem
}

// plainClasses are the names of the classes.
func plainClasses() []string {
	var list []string
	for _, c := range classes() {
		list = append(list, c.String())
	}
	return list
}

// settleWaits makes MaxWait and ClassWait of the classes that are named. usual is what
// clients wait when nobody says.
func (w *Workload) settleWaits(usual Duration) {
	w.ClassWait = [admission.Classes]Duration{}
	i := slices.IndexFunc(w.named[:], func(d Duration) bool { return d != 0 })
	if i < 0 {
		return
	}
	wait := max(usual, w.named[i])
	for i, d := range w.named {
		if d != 0 {
			wait = d
		}
		w.ClassWait[i] = wait
	}
	w.MaxWait = slices.Max(w.ClassWait[:])
}

// deadline is how long clients wait: a duration, "none" or "learn".
func deadline(w *Workload) kind {
	d := None
	inner := periodOrNone(&d, shortestWait, longestWait)
	k := kind{admits: `"none", "learn" or ` + strings.TrimPrefix(inner.admits, `"none" or `)}
	k.get = func() string {
		switch {
		case w.LearnDeadline:
			return `"learn"`
		case w.Deadline == 0:
			return `"none"`
		default:
			return quoted(w.Deadline.String())
		}
	}
	k.set = func(v value) *complaint {
		if v.kind == unstable.String && v.text == "learn" {
			w.Deadline, w.LearnDeadline = 0, true
			return nil
		}
		if problem := inner.set(v); problem != nil {
			problem.message = strings.Replace(problem.message, inner.admits, k.admits, 1)
			problem.advice = strings.Replace(problem.advice, inner.admits, k.admits, 1)
			return problem
		}
		w.Deadline, w.LearnDeadline = max(d, 0), false
		return nil
	}
	return k
}

// isTableValue reports whether a table at a path is the value of a key, rather than a
// section. A path of one part is what literal reads.
func isTableValue(path []string) bool {
	return len(path) == 1 && path[0] == literalKey || len(path) == 2 && path[0] == workloadKind && path[1] == "max_wait"
}

// gatherWaits turns max_wait.critical = "2s" and [workload.max_wait] into what they are
// short for: one key, whose value is a table.
func (doc *document) gatherWaits() {
	var sections []section
	head := -1
	for _, s := range doc.sections {
		if len(s.path) == 2 && isTableValue(s.path) && !s.element && head >= 0 {
			sections[head].addWaits(s.at, s.entries)
			continue
		}
		sections = append(sections, s)
		if s.isHead() && s.path[0] == workloadKind {
			head = len(sections) - 1
			sections[head].joinWaits()
		}
	}
	doc.sections = sections
}

// joinWaits gathers those of a section's own keys.
func (s *section) joinWaits() {
	isWait := func(e entry) bool { return len(e.path) > 1 && e.path[0] == "max_wait" }
	if !slices.ContainsFunc(s.entries, isWait) {
		return
	}
	var waits, others []entry
	for _, e := range s.entries {
		if isWait(e) {
			e.path = e.path[1:]
			waits = append(waits, e)
		} else {
			others = append(others, e)
		}
	}
	s.entries = others
	s.addWaits(waits[0].key, waits)
}

// addWaits adds max_wait with a table.
func (s *section) addWaits(at span, entries []entry) {
	table := node{kind: unstable.InlineTable, at: at}
	for _, e := range entries {
		table.names = append(table.names, nodeName{dotted(e.path...), e.key})
		table.items = append(table.items, e.value)
	}
	s.entries = append(s.entries, entry{path: []string{"max_wait"}, key: at, value: table})
}
