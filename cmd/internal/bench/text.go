package bench

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// told is what a client says about a request.
type told struct {
	class, tenant string
	deadline      time.Duration // 0: none
	attempt       int           // 1 is not said
	trace         string        // empty: none
}

// pairs are the tags that have a value, in the order of their names.
func (t told) pairs() [][2]string {
	var list [][2]string
	add := func(name, value string) {
		if value != "" {
			list = append(list, [2]string{name, value})
		}
	}
	if t.attempt > 1 {
		add("pgweir.attempt", strconv.Itoa(t.attempt))
	}
	add("pgweir.class", t.class)
	if t.deadline > 0 {
		add("pgweir.deadline_ms", strconv.FormatInt(t.deadline.Milliseconds(), 10))
	}
	add("pgweir.tenant", t.tenant)
	add("traceparent", t.trace)
	return list
}

// comment is the tags in sqlcommenter's form, to be put behind a statement; empty if there
// are none.
func (t told) comment() string {
	var words []string
	for _, p := range t.pairs() {
		words = append(words, p[0]+"='"+url.PathEscape(p[1])+"'")
	}
	if words == nil {
		return ""
	}
	return " /*" + strings.Join(words, ",") + "*/"
}

// settings are the SET statements that say the same to a session.
func (t told) settings() string {
	var b strings.Builder
	for _, p := range t.pairs() {
		if name := p[0]; strings.HasPrefix(name, "pgweir.") && name != "pgweir.attempt" {
			fmt.Fprintf(&b, "SET %s = '%s';", name, strings.ReplaceAll(p[1], "'", "''"))
		}
	}
	return b.String()
}

// options are the same in the startup packet.
func (t told) options() string {
	escape := strings.NewReplacer(`\`, `\\`, ` `, `\ `)
	var words []string
	for _, p := range t.pairs() {
		if name := p[0]; strings.HasPrefix(name, "pgweir.") && name != "pgweir.attempt" {
			words = append(words, "-c "+name+"="+escape.Replace(p[1]))
		}
	}
	return strings.Join(words, " ")
}

// filler puts an arrival's numbers into texts.
type filler struct {
	loopsPerMS float64
	counter    string // a sequence; empty: nothing is counted
}

// fill replaces the placeholders of a text.
func (f filler) fill(text string, a Arrival) string {
	if !strings.Contains(text, "{") {
		return text
	}
	count := "0"
	if f.counter != "" {
		count = "nextval('" + f.counter + "')"
	}
	loops := max(1, int64(f.loopsPerMS*float64(a.Work)/float64(time.Millisecond)))
	return strings.NewReplacer(
		"{seconds}", strconv.FormatFloat(a.Work.Seconds(), 'f', -1, 64),
		"{loops}", strconv.FormatInt(loops, 10),
		"{id}", strconv.Itoa(a.ID),
		"{count}", count,
	).Replace(text)
}

// uses reports that some text of the load has a placeholder.
func (l *Load) uses(placeholder string) bool {
	for i := range l.Streams {
		for _, q := range l.Streams[i].Queries {
			if slices.ContainsFunc(q.Statements, func(s string) bool { return strings.Contains(s, placeholder) }) {
				return true
			}
		}
	}
	return false
}

// The statements for work that is slept and for work that is computed. They need no table,
// no function and no right.
const (
	// Nap binds a server for the time of the work and costs no CPU.
	Nap = "SELECT pg_sleep({seconds}), {count}"
	// Burn keeps a core of the database busy; how long depends on what else it has to do.
	// The rows go by one at a time: none is stored, and none is sent.
	Burn = "SELECT count(*), {count} FROM (SELECT generate_series(1, {loops})) AS loop"
)
