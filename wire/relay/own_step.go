package relay

import (
	"github.com/pgweir/pgweir/wire/sqltext"
)

// What ends a transaction, and what SAVEPOINT, RELEASE and ROLLBACK TO do inside it, counts for
// pgweir's own parameters when the server says that it is done. Its CommandComplete gives no
// names and does not tell ROLLBACK from ROLLBACK TO, so what the text says is kept until then,
// for clients that have ever set such a parameter. Where it is not known, as in a text that
// is too long to be looked at as a whole, a ROLLBACK undoes everything at the end of the
// transaction, unless that is a COMMIT, which keeps everything.

const (
	// maxSteps bounds what is kept of one text; of one with more nothing is.
	maxSteps = 256
	// maxMarks bounds what is kept of the savepoints of a transaction, in bytes of names and
	// values and markCost for each. Above it the oldest are forgotten: a ROLLBACK TO one of
	// them undoes all that the transaction has set.
	maxMarks = 32 << 10
	// markCost is what a savepoint costs beside its letters, about.
	markCost = 64
	// maxName is how much of the name of a savepoint counts in Postgres, in bytes.
	maxName = 63
)

// ownMark is a savepoint. Those from before the first change in a transaction are not kept:
// ROLLBACK TO a name that is not known goes back to what the transaction began with.
type ownMark struct {
	name          string
	cost          int
	was           *ownValues // shared by savepoints with no change between them
	want, applied *Params    // as in ownState
}

// ownValues is what held at a savepoint.
type ownValues struct {
	session, local Own
	locals         uint8
	version        uint32
}

// stepsQuery notes the steps of a Query in e, which must wait for an earlier one that is not
// answered. It returns the statement's flags, without Session if the steps say all of that.
func (c *Client) stepsQuery(st sqltext.Statement, text []byte, e *entry) (rest sqltext.Flags, wait bool) {
	rest = st.Flags
	var steps []sqltext.Step
	switch w := c.own; {
	case rest&sqltext.Multi == 0:
		if w != nil && stepKind(st.Kind) && (!plainEnd(st.Kind) || w.want != nil) { // else its ReadyForQuery says enough
			steps = []sqltext.Step{{Kind: st.Kind, Name: st.Name(text)}}
		}
	case rest&sqltext.Session != 0, w != nil && rest&(sqltext.EndsTx|sqltext.Savepoints) != 0:
		list, left, ok := sqltext.Steps(text, maxSteps)
		if !ok {
			return rest, false
		}
		sets := false
		for i := range list {
			l := &list[i]
			var known bool
			if l.Settings, known = unreported(l.Settings); !known {
				left |= sqltext.Session
			}
			sets = sets || len(l.Settings) > 0
		}
		if rest = rest&^sqltext.Session | left&sqltext.Session; sets || w != nil {
			steps = list
		}
	}
	if steps == nil {
		return rest, false
	}
	w := c.owned()
	if w.stepped {
		c.stalled = true
		return rest, true
	}
	w.steps, w.stepped, e.steps = steps, true, true
	return rest, false
}

// stepKind tells the statements that are steps.
func stepKind(k sqltext.Kind) bool {
	return endsTx(k) || k == sqltext.Savepoint || k == sqltext.Release || k == sqltext.RollbackTo
}

// plainEnd tells the ends of a transaction behind which none is open.
func plainEnd(k sqltext.Kind) bool { return k == sqltext.Commit || k == sqltext.Rollback }

// bindStep notes what a portal that is bound will do; st may be nil.
func (c *Client) bindStep(st *Statement) {
	c.step = sqltext.Other
	c.finishes = st != nil && st.flags&sqltext.EndsTx != 0 && endsTx(st.exit())
	if st == nil || !stepKind(st.kind) {
		return
	}
	c.step = st.kind
	if w := c.own; w != nil && !endsTx(st.kind) {
		w.bound = st.savepoint()
	}
}

// savepoint returns the name of the savepoint that a statement is about.
func (st *Statement) savepoint() string {
	text := st.text()
	return sqltext.Classify(text).Name(text)
}

// takeStep returns what the portal does that was bound last.
func (c *Client) takeStep() (st sqltext.Step) {
	st.Kind, c.step = c.step, sqltext.Other
	if w := c.own; w != nil {
		st.Name, w.bound = w.bound, ""
	}
	return st
}

// endSteps forgets the steps of an entry that is answered, or never will be.
func (s *Server) endSteps(e *entry) {
	if e.steps && s.client != nil && s.client.own != nil {
		s.client.own.endSteps()
	}
}

func (w *ownState) endSteps() { w.steps, w.stepped = nil, false }

// ownStep handles the tag of a statement.
func (c *Client) ownStep(e *entry, tag []byte) {
	w := c.own
	switch tag[0] {
	case 'C', 'R', 'S', 'P':
	default:
		return
	}
	switch {
	case tagIs(tag, "COMMIT"), tagIs(tag, "PREPARE TRANSACTION"):
		w.step(e)
		c.endOwn(true)
	case tagIs(tag, "ROLLBACK"):
		switch st := w.step(e); st.Kind {
		case sqltext.Other:
			w.failed = true // until a COMMIT: it may have been to a savepoint only
		case sqltext.RollbackTo:
			c.server.block = true
			w.backTo(st.Name)
		default:
			c.endOwn(false)
		}
	case tagIs(tag, "SET"), tagIs(tag, "RESET"), tagIs(tag, "SET CONSTRAINTS"):
		if !e.steps {
			return
		}
		if st := w.step(e); st.Kind != sqltext.Set && st.Kind != sqltext.Reset {
			c.server.dirt |= dirtSettings // something else has run than was read
		} else if len(st.Settings) > 0 {
			c.changeSettings(st.Settings)
		}
	case tagIs(tag, "SAVEPOINT"):
		if st := w.step(e); st.Kind == sqltext.Savepoint {
			w.mark(st.Name)
		}
	case tagIs(tag, "RELEASE"):
		if st := w.step(e); st.Kind == sqltext.Release {
			w.forget(w.find(st.Name))
		}
	}
}

// step returns the step that a tag is about.
func (w *ownState) step(e *entry) (st sqltext.Step) {
	switch {
	case e.steps && len(w.steps) > 0:
		st, w.steps = w.steps[0], w.steps[1:]
	case e.step != sqltext.Other:
		st = sqltext.Step{Kind: e.step, Name: e.name}
	}
	st.Name = st.Name[:min(len(st.Name), maxName)]
	return st
}

// mark notes a savepoint.
func (w *ownState) mark(name string) {
	n := len(w.marks)
	if !w.changed && w.locals == 0 && w.want == nil && n == 0 {
		return
	}
	m := ownMark{name: name, cost: markCost + len(name), want: w.want, applied: w.applied}
	if w.want != nil && (n == 0 || w.marks[n-1].want != w.want) {
		m.cost += 2 * (w.want.size + len(w.want.kv)*markCost)
	}
	if n > 0 && w.marks[n-1].was.version == w.version {
		m.was = w.marks[n-1].was
	} else {
		m.was = &ownValues{w.session, w.local, w.locals, w.version}
		m.cost += m.was.cost()
	}
	w.marks = append(w.marks, m)
	w.marked += m.cost
	for w.marked > maxMarks {
		w.marked -= w.marks[0].cost
		w.marks[0] = ownMark{}
		w.marks = w.marks[1:]
	}
}

// cost is what the values of a savepoint cost, as if nothing else had them.
func (v *ownValues) cost() int {
	n := 4 * markCost
	for k := range v.session {
		n += len(v.session[k]) + len(v.local[k])
	}
	return n
}

// find returns the latest savepoint of a name; -1 = it is not known.
func (w *ownState) find(name string) int {
	for i := len(w.marks) - 1; i >= 0; i-- {
		if w.marks[i].name == name {
			return i
		}
	}
	return -1
}

// forget drops the savepoints from the one at i on; all for one that is not known, as it is
// older than all that are.
func (w *ownState) forget(i int) {
	i = max(i, 0)
	for _, m := range w.marks[i:] {
		w.marked -= m.cost
	}
	clear(w.marks[i:])
	w.marks = w.marks[:i]
}

// backTo undoes what was set since a savepoint.
func (w *ownState) backTo(name string) {
	w.failed = false
	w.version++
	i := w.find(name)
	if i < 0 {
		w.want, w.applied = nil, nil
		w.forget(0)
		if w.changed {
			w.session, w.changed = w.before, false
		}
		w.locals = 0
		return
	}
	w.forget(i + 1)
	was := w.marks[i].was
	w.session, w.local, w.locals = was.session, was.local, was.locals
	w.want, w.applied = w.marks[i].want, w.marks[i].applied
}
