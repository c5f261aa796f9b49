package wiretest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// Feature is a kind of conversation that Script may leave out.
type Feature uint32

// The features of Script.
const (
	Extended      Feature = 1 << iota // Parse, Bind, Execute and their kin
	Named                             // named prepared statements
	Transactions                      // BEGIN and what belongs to it
	CopyIn                            // COPY FROM STDIN
	CopyOut                           // COPY TO STDOUT
	FunctionCalls                     // FunctionCall
	Errors                            // statements that fail
	Reported                          // SET of parameters that are reported
	Unreported                        // SET of parameters that are not
	Discards                          // DISCARD ALL, DEALLOCATE, RESET ALL
	Listens                           // LISTEN
	Sleeps                            // statements that take time
	Cancels                           // OpCancel, often in a sleep
	Abrupt                            // ends without Terminate
	Malformed                         // bytes that are not the protocol
	Own                               // SET, RESET and SHOW of pgweir's own parameters
	Pinned                            // state of a session beyond its transactions
	Resets                            // RESET and SET ... TO DEFAULT of parameters that are not reported
)

// ScriptOptions bounds what Script makes.
type ScriptOptions struct {
	// Client is a prefix of ids and nonces; it must be unique in a world and
	// consist of lower-case letters, digits and underscores.
	Client string
	// Length is the number of small conversations in a row; 0 means 1 to 8.
	Length int
	// Without turns features off.
	Without Feature
	// SleepMS is the longest sleep in milliseconds; 0 means 20.
	SleepMS int
	// MaxRow is the largest size of a row; 0 means 200, rarely 20,000.
	MaxRow int
	// Trailing puts id comments behind statements instead of in front or inside.
	Trailing bool
}

// Script returns a random conversation of one client after its login, realistic
// or nasty. Every statement but a few shared ones carries an id, every nonce is
// unique, and the answers depend on nothing but this conversation.
func Script(rnd *rand.Rand, o ScriptOptions) []Step {
	s := &scripter{r: rnd, o: o}
	if s.o.SleepMS == 0 {
		s.o.SleepMS = 20
	}
	n := o.Length
	if n == 0 {
		n = 1 + rnd.IntN(8)
	}
	for range n {
		s.piece()
		if !s.chance(6) { // else the next one is pipelined behind it
			s.wait()
		}
	}
	s.finish()
	return s.steps
}

// scripter collects steps.
type scripter struct {
	r      *rand.Rand
	o      ScriptOptions
	n      int // ids given
	steps  []Step
	buf    []byte // not yet in a step
	expect int    // messages sent since the last wait that ReadyForQuery answers
	named  map[string]bool
}

func (s *scripter) has(f Feature) bool { return s.o.Without&f == 0 }

// chance is true once in n times.
func (s *scripter) chance(n int) bool { return s.r.IntN(n) == 0 }

func pick[T any](s *scripter, from ...T) T { return from[s.r.IntN(len(from))] }

// send ends the current step.
func (s *scripter) send() {
	if len(s.buf) > 0 {
		s.steps = append(s.steps, Step{Op: OpSend, Bytes: s.buf})
		s.buf = nil
	}
}

// wait ends the current step and waits for all answers.
func (s *scripter) wait() {
	s.send()
	s.steps = append(s.steps, Step{Op: OpWaitReady, N: s.expect})
	s.expect = 0
}

// flush sends Flush and waits for the answers up to there.
func (s *scripter) flush() {
	s.buf = wire.AppendEmpty(s.buf, wire.MsgFlush)
	s.await()
}

// await waits without a Flush: for the answer to a simple COPY.
func (s *scripter) await() {
	s.send()
	s.steps = append(s.steps, Step{Op: OpWaitFlush})
}

// pause ends the step, waits or pipelines on, as luck will have it.
func (s *scripter) pause() {
	switch s.r.IntN(4) {
	case 0: // the next message goes into the same write
	case 1:
		s.send()
	default:
		s.wait()
	}
}

func (s *scripter) query(text string) {
	s.buf = wire.AppendQuery(s.buf, text)
	s.expect++
}

func (s *scripter) sync() {
	s.buf = wire.AppendEmpty(s.buf, wire.MsgSync)
	s.expect++
}

func (s *scripter) parse(name, text string, types ...uint32) {
	// Tags that servers are not told; but what rows are filled with depends on the text.
	if name != "" && !s.o.Trailing && s.n%3 == 0 && !strings.Contains(strings.ToLower(text), "rows") {
		text += fmt.Sprintf(" /*pgweir.tenant='t%d'*/", s.n%2)
	}
	s.buf = AppendParse(s.buf, name, text, types...)
}

func (s *scripter) bind(b Bind) { s.buf = AppendBind(s.buf, b) }

func (s *scripter) describe(what byte, name string) { s.buf = wire.AppendDescribe(s.buf, what, name) }

func (s *scripter) execute(portal string, limit int) { s.buf = AppendExecute(s.buf, portal, limit) }

func (s *scripter) close(what byte, name string) { s.buf = wire.AppendClose(s.buf, what, name) }

// nonce returns a value that nobody else uses.
func (s *scripter) nonce() string {
	s.n++
	return fmt.Sprintf("%s_n%d", s.o.Client, s.n)
}

// tag adds an id to a statement, and some of the freedom that SQL gives.
func (s *scripter) tag(text string) string {
	s.n++
	id := fmt.Sprintf("/*id=%s_%d*/", s.o.Client, s.n)
	first, rest, _ := strings.Cut(text, " ")
	if s.chance(3) {
		first = strings.ToUpper(first)
	}
	if s.o.Trailing {
		return first + " " + rest + " " + id
	}
	gap := pick(s, " ", " ", "  ", "\n", "\t", " /* a; b */ ")
	if s.chance(3) && rest != "" {
		return first + gap + id + " " + rest
	}
	return id + gap + first + " " + rest
}

// work returns a statement that does something and succeeds outside of a
// failed transaction.
func (s *scripter) work() string {
	text := ""
	switch s.r.IntN(8) {
	case 0, 1:
		text = "nonce " + s.nonce()
	case 2:
		text = fmt.Sprintf("insert %d", s.r.IntN(5))
	case 3:
		text = fmt.Sprintf("rows %d %d", s.r.IntN(6), s.rowSize())
	case 4:
		text = fmt.Sprintf("select %d", s.r.IntN(1000))
	case 5:
		text = s.reading()
	case 6:
		text = "notice 'careful'"
	case 7:
		if s.has(Sleeps) {
			text = fmt.Sprintf("sleep %d", 1+s.r.IntN(s.o.SleepMS))
		} else {
			text = "nonce " + s.nonce()
		}
	}
	return s.tag(text)
}

func (s *scripter) rowSize() int {
	if s.o.MaxRow > 0 {
		return s.r.IntN(s.o.MaxRow + 1)
	}
	if s.chance(20) {
		return s.r.IntN(20000)
	}
	return s.r.IntN(200)
}

// reading returns a statement that reads parameters.
func (s *scripter) reading() string {
	if s.chance(2) {
		return pick(s, "whoami all", "show search_path", "show work_mem", "show statement_timeout")
	}
	return pick(s, "whoami", "show application_name", "show DateStyle", "show timezone")
}

// failing returns a statement that fails.
func (s *scripter) failing() string {
	switch s.r.IntN(7) {
	case 0:
		return s.tag("select * from missing")
	case 1:
		return s.tag("utter nonsense")
	case 2:
		return s.tag("set datestyle = 'bad'")
	case 3:
		return s.tag("show nothing_of_this_name")
	case 4:
		if s.has(Sleeps) {
			return s.tag(fmt.Sprintf("sleepfail %d", 1+s.r.IntN(s.o.SleepMS)))
		}
	}
	return s.tag("fail " + pick(s, "22012", "23505", "40001", "P0001"))
}

// any returns a statement that mostly works.
func (s *scripter) any() string {
	if s.has(Errors) && s.chance(6) {
		return s.failing()
	}
	return s.work()
}

// setting returns a statement that changes a reported parameter.
func (s *scripter) setting() string {
	name := pick(s, "application_name", "DateStyle", "intervalstyle", "TimeZone", "standard_conforming_strings")
	value := map[string][]string{
		"application_name":            {"'app one'", "two", "''"},
		"DateStyle":                   {"'ISO, DMY'", "sql, dmy", "german", "iso"},
		"intervalstyle":               {"'iso_8601'", "sql_standard", "postgres"},
		"TimeZone":                    {"'Europe/Berlin'", "'UTC'", "\"Asia/Tokyo\""},
		"standard_conforming_strings": {"on", "off", "'true'"},
	}[name]
	v := value[s.r.IntN(len(value))]
	switch s.r.IntN(6) {
	case 0:
		return s.tag("reset " + name)
	case 1:
		return s.tag(fmt.Sprintf("set %s to default", name))
	case 2:
		return s.tag(fmt.Sprintf("set local %s = %s", name, v))
	case 3:
		if !strings.ContainsAny(v, "'") {
			v = "'" + strings.Trim(v, `"`) + "'"
		}
		local := pick(s, "true", "false")
		return s.tag(fmt.Sprintf("select %sset_config('%s', %s, %s)", pick(s, "", "pg_catalog."), name, v, local))
	}
	return s.tag(fmt.Sprintf("set %s%s = %s", pick(s, "", "session "), name, v))
}
