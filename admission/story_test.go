package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestStories runs the files of testdata/stories, each of which tells what an operator would see. All
// times are virtual. The directive gate makes one, of workloads that its lines describe:
//
//	app max-wait=2s policy=guard mode=enforce patient max-waiting=20 share=0.5
//
// and run executes one command per line and prints what comes of each:
//
//	ANNA comes [class=C tenant=T role=R key=K workload=W takes=50ms deadline=100ms attempt=2 probe continuing]
//	ANNA leaves
//	20 WEB come every=10ms [the same]    a crowd, of which only tell speaks; together without every
//	5 WEB leave                          the first of those who wait
//	wait 30ms                            time goes on, and what happens is told
//	tell                                 what has become of the crowds since the last time
//	show                                 who waits, by class
//	stall 2s                             for so long nobody's work ends
//	pause K, resume K                    a database is paused, and goes on
//	change app policy=fifo               the configuration changes, without a restart
//
// Work takes=50ms if nothing else is said; the gate knows that from the start unless it is new.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		var s *story
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "gate":
				s = newStory(t, d)
				return ""
			case "run":
				return s.run(d)
			}
			d.Fatalf(t, "no such directive: %s", d.Cmd)
			return ""
		})
	})
}

// story is a gate whose clients and database follow a script.
type story struct {
	t       *testing.T
	g       *Gate
	plan    Plan
	loads   map[string]int
	names   map[string]uint32 // of tenants, roles and keys
	now     int64
	stalled int64 // until when nothing ends
	people  []*person
	crowds  []*group
	said    strings.Builder
}

// plenty is a supply with a server for everybody.
type plenty struct{}

func (plenty) Reserve(Key, int64) (uint32, bool) { return 1, true }
func (plenty) Demand(Key, int, int, int64)       {}
func (plenty) Steal(Key, int64, bool) bool       { return false }

// person is who asks for a slot, once.
type person struct {
	Waiter
	name   string
	crowd  *group // nil: what it meets is told at once
	comes  int64  // if it is expected
	expect bool
	takes  int64
	ends   int64 // when its work ends; 0 = it does not run
	ticket Ticket
	over   bool
}

// group is what became of many.
type group struct {
	name    string
	came    int
	left    int
	waits   []int64
	refused map[Reason][]int64
}

func newStory(t *testing.T, d *datadriven.TestData) *story {
	s := &story{t: t, loads: map[string]int{}, names: map[string]uint32{}}
	d.ScanArgs(t, "slots", &s.plan.Slots)
	for line := range strings.SplitSeq(d.Input, "\n") {
		if words := strings.Fields(line); len(words) > 0 {
			s.loads[words[0]] = len(s.plan.Workloads)
			s.plan.Workloads = append(s.plan.Workloads, Workload{Lendable: 1, Borrow: 1})
			s.configure(words)
		}
	}
	s.g = New(s.plan, plenty{}, nil)
	if !d.HasArg("new") {
		for _, l := range s.g.loads {
			l.drain = drainRate{50e6, window}
		}
		s.g.drain = drainRate{50e6, window}
	}
	return s
}

// configure sets what words say of the workload that the first of them names.
func (s *story) configure(words []string) {
	i, ok := s.loads[words[0]]
	if !ok {
		s.t.Fatalf("no workload %s", words[0])
	}
	l := &s.plan.Workloads[i]
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		known := true
		switch key {
		case "max-wait":
			l.MaxWait = s.ns(value)
		case "max-waiting":
			l.MaxWaiting = s.number(value)
		case "policy":
			l.Policy, known = ParsePolicy(value)
		case "mode":
			l.Mode, known = ParseMode(value)
		case "patient":
			l.Patient = true
		case "share":
			l.Share = float64(s.number(value)) / 100
		default:
			known = false
		}
		if !known {
			s.t.Fatalf("unknown: %s", word)
		}
	}
}

func (s *story) ns(value string) int64 {
	d, err := time.ParseDuration(value)
	if err != nil {
		s.t.Fatal(err)
	}
	return int64(d)
}

func (s *story) number(value string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(value, "%"))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// id is the number of a name.
func (s *story) id(name string) uint32 {
	if _, ok := s.names[name]; !ok {
		s.names[name] = uint32(len(s.names))
	}
	return s.names[name]
}

func (s *story) run(d *datadriven.TestData) string {
	s.said.Reset()
	for line := range strings.SplitSeq(d.Input, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		s.command(words)
		if err := s.g.Check(); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.said.String()
}

func (s *story) command(words []string) {
	word := func(i int) string {
		if i >= len(words) {
			s.t.Fatalf("too short: %v", words)
		}
		return words[i]
	}
	switch {
	case words[0] == "wait":
		s.pass(s.now + s.ns(word(1)))
	case words[0] == "tell":
		s.tell()
	case words[0] == "show":
		s.show()
	case words[0] == "stall":
		s.stall(s.now + s.ns(word(1)))
	case words[0] == "pause":
		s.g.Pause(s.now, []Key{Key(s.id(word(1)))})
	case words[0] == "resume":
		s.deliver(s.g.Resume(s.now, []Key{Key(s.id(word(1)))}, nil))
	case words[0] == "change":
		s.configure(words[1:])
		s.deliver(s.g.Reconfigure(s.now, s.plan, nil))
	case word(1) == "leaves":
		s.leave(words[0])
	case word(1) == "comes":
		p := s.person(words[2:])
		p.name = words[0]
		s.people = append(s.people, p)
		s.admit(p)
	case word(2) == "leave":
		for range s.number(words[0]) {
			s.leave(words[1])
		}
	case word(2) == "come":
		s.come(s.number(words[0]), words[1], words[3:])
	default:
		s.t.Fatalf("unknown: %v", words)
	}
}

func (s *story) person(words []string) *person {
	p := &person{comes: s.now, takes: 50 * ms}
	p.Attempt = 1
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		known := true
		switch key {
		case "class":
			p.Class, known = ParseClass(value)
		case "tenant":
			p.Tenant = s.id(value)
		case "role":
			p.Role = s.id(value)
		case "key":
			p.Key = Key(s.id(value))
		case "workload":
			p.Workload = uint16(s.loads[value])
		case "takes":
			p.takes = s.ns(value)
			p.Expected = p.takes
		case "deadline":
			p.Deadline = s.ns(value)
		case "attempt":
			p.Attempt = uint8(s.number(value))
		case "probe":
			p.Probe = true
		case "continuing":
			p.Continuing = true
		case "every":
		default:
			known = false
		}
		if !known {
			s.t.Fatalf("unknown: %s", word)
		}
	}
	return p
}

// come is a crowd of n.
func (s *story) come(n int, name string, words []string) {
	every := int64(0)
	for _, word := range words {
		if value, ok := strings.CutPrefix(word, "every="); ok {
			every = s.ns(value)
		}
	}
	i := slices.IndexFunc(s.crowds, func(c *group) bool { return c.name == name })
	if i < 0 {
		i = len(s.crowds)
		s.crowds = append(s.crowds, &group{name: name, refused: map[Reason][]int64{}})
	}
	for k := range n {
		p := s.person(words)
		p.name, p.crowd, p.comes, p.expect = name, s.crowds[i], s.now+int64(k)*every, true
		s.people = append(s.people, p)
	}
	s.pass(s.now)
}

// say tells what happens to p, unless it is one of a crowd.
func (s *story) say(p *person, format string, args ...any) {
	if p == nil || p.crowd == nil {
		fmt.Fprintf(&s.said, "%4d ms  %s\n", s.now/ms, fmt.Sprintf(format, args...))
	}
}

func (s *story) admit(p *person) {
	p.Owner = p
	p.expect = false
	if p.Deadline > 0 {
		p.Deadline += s.now
	}
	if p.crowd != nil {
		p.crowd.came++
	}
	v := s.g.Admit(s.now, &p.Waiter)
	if v.Outcome == Queued {
		s.say(p, "%s waits, one of %d", p.name, v.Queued)
	} else {
		s.deliver([]Verdict{v})
	}
	s.deliver(s.g.Displaced(nil))
}

func (s *story) leave(name string) {
	for _, p := range s.people {
		if p.name == name && p.Waiting() {
			s.g.Withdraw(s.now, &p.Waiter)
			p.over = true
			if p.crowd != nil {
				p.crowd.left++
			}
			s.say(p, "%s leaves", name)
			return
		}
	}
	s.t.Fatalf("%s does not wait", name)
}

func (s *story) deliver(out []Verdict) {
	for _, v := range out {
		p := v.W.Owner.(*person)
		c := p.crowd
		switch {
		case v.Outcome == Granted:
			p.ticket, p.ends = v.Ticket, max(s.now, s.stalled)+p.takes
			if c != nil {
				c.waits = append(c.waits, v.Waited)
			}
			s.say(p, "%s is served, after %d ms", p.name, v.Waited/ms)
		default:
			p.over = true
			if c != nil {
				c.refused[v.Reason] = append(c.refused[v.Reason], v.Waited)
			}
			s.say(p, "%s is refused after %d ms: %v, come back in %d ms", p.name, v.Waited/ms, v.Reason, v.RetryAfter/ms)
		}
	}
}

// pass lets time go on, and everything happen that is due on the way.
func (s *story) pass(until int64) {
	for {
		next, out := s.g.Fire(s.now, nil)
		s.deliver(out)
		var first *person
		at := min(until, next)
		for _, p := range s.people {
			due := cmp.Or(p.ends, p.comes)
			if (p.ends > 0 || p.expect) && (due < at || first == nil && due == at) {
				first, at = p, due
			}
		}
		s.now = at
		switch {
		case first == nil && next > until:
			s.now = until
			return
		case first == nil:
		case first.ends > 0:
			s.end(first)
		default:
			s.admit(first)
		}
	}
}

func (s *story) end(p *person) {
	held := p.takes
	p.ends, p.over = 0, true
	s.people = slices.DeleteFunc(s.people, func(p *person) bool { return p.over })
	s.deliver(s.g.Done(s.now, p.ticket, held, nil))
}

func (s *story) stall(until int64) {
	for _, p := range s.people {
		if p.ends > 0 {
			p.ends += until - s.now
		}
	}
	s.stalled = until
}

// tell says what became of the crowds, and forgets it.
func (s *story) tell() {
	for _, c := range s.crowds {
		var parts []string
		part := func(what string, waits []int64) {
			if len(waits) > 0 {
				slices.Sort(waits)
				parts = append(parts, fmt.Sprintf("%d %s after %d to %d ms, half of them after %d",
					len(waits), what, waits[0]/ms, waits[len(waits)-1]/ms, waits[len(waits)/2]/ms))
			}
		}
		part("served", c.waits)
		for r := range reasons {
			part("refused ("+r.String()+")", c.refused[r])
		}
		if c.left > 0 {
			parts = append(parts, fmt.Sprintf("%d left", c.left))
		}
		if c.came > 0 || len(parts) > 0 {
			s.say(nil, "of %d %s: %s", c.came, c.name, cmp.Or(strings.Join(parts, "; "), "nothing yet"))
		}
		*c = group{name: c.name, refused: map[Reason][]int64{}}
	}
}

func (s *story) show() {
	for name, i := range s.loads {
		st := s.g.Stats().Workloads[i]
		line := fmt.Sprintf("%s: %d run, %d wait", name, st.Running, st.Waiting)
		for c, k := range st.Classes {
			if k.Waiting > 0 || k.Standing {
				line += fmt.Sprintf(", %v %d", ClassAt(c), k.Waiting)
			}
			if k.Standing {
				line += " standing"
			}
			for r, n := range k.Would {
				if n > 0 {
					line += fmt.Sprintf(", would refuse %d (%v)", n, Reason(r))
				}
			}
		}
		if st.Paused > 0 {
			line += fmt.Sprintf(", %d paused", st.Paused)
		}
		if st.FalseRefusals > 0 {
			line += fmt.Sprintf(", %d refused in vain", st.FalseRefusals)
		}
		s.say(nil, "%s", line)
	}
}
