package relay

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

func TestSavepointsUndoOwnParameters(t *testing.T) {
	const set = "set local pgweir.tenant = "
	for name, c := range map[string]struct {
		in   string // | between what is sent
		want string
	}{
		"back":                    {"begin|savepoint s|" + set + "b|rollback to s", "a"},
		"back to the second":      {"begin|" + set + "b|savepoint s|" + set + "c|rollback to savepoint s", "b"},
		"twice":                   {"begin|" + set + "b|savepoint s|" + set + "c|rollback to s|" + set + "d|rollback to s", "b"},
		"release":                 {"begin|savepoint s|" + set + "b|release s", "b"},
		"release inside":          {"begin|" + set + "b|savepoint s|savepoint r|" + set + "c|release r|rollback to s", "b"},
		"same name":               {"begin|" + set + "b|savepoint s|" + set + "c|savepoint s|" + set + "d|release s|rollback to s", "b"},
		"older than any change":   {"begin|savepoint s|savepoint r|" + set + "b|savepoint t|rollback to r", "a"},
		"set":                     {"begin|set pgweir.tenant = b|savepoint s|set pgweir.tenant = c|rollback to s|commit", "b"},
		"set, all undone":         {"begin|savepoint s|set pgweir.tenant = c|rollback to s|commit", "a"},
		"reset all":               {"begin|set pgweir.tenant = b|savepoint s|reset all|rollback to s|commit", "b"},
		"behind an error":         {"begin|" + set + "b|savepoint s|" + set + "c|fail 22012|rollback to s", "b"},
		"and rolled back":         {"begin|set pgweir.tenant = b|savepoint s|fail 22012|rollback to s|rollback", "a"},
		"and chain":               {"begin|select 1|" + set + "b|rollback and chain", "a"},
		"commit of failed, chain": {"begin|set pgweir.tenant = b|fail 22012|commit and chain", "a"},
		"in one text":             {"begin|" + set + "b|savepoint s; select 1; savepoint r|" + set + "c|release r; rollback to s; select 2", "b"},
		"ends in one text":        {"begin|select 1|set pgweir.tenant = b|rollback; begin; savepoint s|" + set + "c|rollback to s", "a"},
		"quoted":                  {`begin|` + set + `b|savepoint "S s"|` + set + `c|savepoint S|rollback to "S s"`, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			for form, frame := range map[string]func(string) []byte{"simple": q, "extended": func(text string) []byte { return sync(run(text)) }} {
				if form == "extended" && strings.Contains(c.in, ";") {
					continue
				}
				r := newRig(t, 2)
				r.send(q("set pgweir.tenant = a"))
				for text := range strings.SplitSeq(c.in, "|") {
					r.send(frame(text))
				}
				if got := r.shown("pgweir.tenant"); got != c.want {
					t.Errorf("%s: %q, want %q", form, got, c.want)
				}
			}
		})
	}
}

// Postgres cuts names.
func TestLongNamesOfSavepoints(t *testing.T) {
	w := &ownState{}
	name := strings.Repeat("s", maxName)
	for _, step := range []entry{{step: sqltext.Savepoint, name: name + "1"}, {step: sqltext.Savepoint, name: name}} {
		if got := w.step(&step).Name; got != name {
			t.Errorf("%q", got)
		}
	}
}

// However many savepoints a client has, what is kept of them is bounded, and the latest are
// right.
func TestSavepointsAreBounded(t *testing.T) {
	r := newRig(t, 1)
	r.send(q("begin"))
	value := func(i int) string { return fmt.Sprintf("v%0100d", i) }
	for i := range 2000 {
		r.send(q("set local pgweir.tenant = " + value(i)))
		r.send(q(fmt.Sprintf("savepoint s%d", i)))
		if w := r.client.own; w.marked > maxMarks || len(w.marks) > maxMarks/markCost {
			t.Fatalf("%d savepoints of %d bytes", len(w.marks), w.marked)
		}
	}
	r.send(q("rollback to s1990"))
	if got := r.shown("pgweir.tenant"); got != value(1990) {
		t.Errorf("%q behind the latest", got)
	}
	r.send(q("rollback to s7"))
	if got := r.shown("pgweir.tenant"); got != "" {
		t.Errorf("%q behind one that was forgotten", got)
	}
	r.send(q("commit"))
	if w := r.client.own; w.marks != nil || w.marked != 0 {
		t.Errorf("%d savepoints are kept", len(w.marks))
	}
}

// Who has never set anything has nothing kept.
func TestSavepointsOfOthersCostNothing(t *testing.T) {
	r := newRig(t, 1)
	for _, text := range []string{"begin", "savepoint s", "select 1; savepoint r", "rollback to s", "commit"} {
		r.send(q(text))
	}
	if r.client.own != nil {
		t.Error("something is kept")
	}
}

// Whatever a client does, pgweir's own parameters hold what a server's own would.
func TestOwnParametersAreAsTheServers(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		d := dual{rig: newRig(t, 2), r: rand.New(rand.NewPCG(uint64(seed), 1))}
		for range 20 {
			d.step()
			d.compare(seed)
		}
	}
}

// dual says everything twice: about a parameter of pgweir's and about one of the server's.
type dual struct {
	*rig
	r    *rand.Rand
	said []string
}

func (d *dual) text() []string {
	pick := func(from ...string) string { return from[d.r.IntN(len(from))] }
	switch d.r.IntN(12) {
	case 0, 1, 2:
		how, value := pick("set ", "set local "), pick("x", "y", "z", "default")
		return []string{how + "pgweir.tenant = " + value, how + "application_name = " + value}
	case 3, 4:
		return []string{"savepoint " + pick("a", "b", `"A"`)}
	case 5, 6:
		return []string{"rollback to " + pick("a", "savepoint b", `"A"`)}
	case 7:
		return []string{"release " + pick("a", "savepoint b", `"A"`)}
	case 8, 9:
		return []string{"begin"}
	case 10:
		return []string{pick("commit", "rollback", "end", "abort", "commit and chain", "rollback and chain", "prepare transaction 'x'", "reset all")}
	}
	return []string{pick("select 1", "fail 22012", "savepoint a; select 1; savepoint b", "rollback to a; select 2", "select 1; release b", "rollback; begin", "commit; begin; savepoint a")}
}

// step sends one or a few statements, one after the other, pipelined or in a batch.
func (d *dual) step() {
	var in []byte
	batch := d.r.IntN(3) == 0
	for range 1 + d.r.IntN(3) {
		for _, text := range d.text() {
			if strings.Contains(text, ";") && batch {
				continue
			}
			switch {
			case batch:
				in = append(in, run(text)...)
				d.said = append(d.said, text)
			case d.r.IntN(2) == 0:
				in = append(in, q(text)...)
				d.said = append(d.said, "Q:"+text)
			default:
				in = append(in, sync(run(text))...)
				d.said = append(d.said, text, "S")
			}
		}
	}
	if batch {
		in = append(in, sync()...)
		d.said = append(d.said, "S")
	}
	d.said = append(d.said, ".")
	d.out = nil
	d.send(in)
}

func (d *dual) compare(seed int) {
	d.t.Helper()
	if d.out[len(d.out)-1] == wire.InFailed {
		return
	}
	want := d.shown("application_name")
	if got := d.shown("pgweir.tenant"); got != want {
		d.t.Fatalf("seed %d: %q, the server has %q, behind %s", seed, got, want, strings.Join(d.said, " | "))
	}
}
