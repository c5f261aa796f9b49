package relay

import (
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// State of a session that is no setting and no statement of the protocol can't follow its
// client to another server. So the client keeps the server on which it has left some, in
// whatever mode: it is pinned. What is left is read from the texts, and counts when the server
// says that they have run, and if it ends with a rollback, when it is known that there was
// none. Before a text is sent that would leave something, Pinner is asked.
//
// In doubt something is there: what a savepoint takes back, or a name that is not known, stays
// until all of its kind is taken away. What functions and DO blocks leave is not seen: it ends
// with the transaction, as the server is cleaned then.

// Pins is a set of kinds of state for which a server is kept.
type Pins uint8

// The kinds.
const (
	PinListen  Pins   = 1 << iota // LISTEN
	PinPrepare                    // statements prepared by SQL
	PinTemp                       // temporary tables, views, sequences
	PinCursor                     // cursors WITH HOLD
	PinLock                       // advisory locks of the session
	PinLoad                       // libraries
	pins       = iota             // how many there are
)

var pinNames = [pins]string{"listen", "prepare", "temp", "cursor", "lock", "load"}

// String returns the kinds as the console and errors name them, with commas; "" if there is
// none.
func (p Pins) String() string {
	var list []string
	for i, name := range pinNames {
		if p&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, ",")
}

// Pinner decides whether a server may be kept.
type Pinner interface {
	// Pin is asked before the bound client's server is sent what would leave state of these
	// kinds. An error is told to the client in the place of the answer; its severity must be
	// ERROR. It must not call back.
	Pin(Pins) *wire.Error
}

// SetPinner sets who is asked; without one everything is allowed.
func (s *Server) SetPinner(p Pinner) { s.pinner = p }

const (
	// pinFlags are those of texts that may leave something.
	pinFlags = sqltext.Temp | sqltext.Listen | sqltext.Prepare | sqltext.Cursor | sqltext.Advisory | sqltext.Load
	// maxChanges bounds what is kept of one text.
	maxChanges = 256
	// maxPinNames bounds the names of a client for each kind, and the changes of a transaction
	// that wait for its end; above it names are not known.
	maxPinNames = 1000
)

// pinState is what a client has left on its server. Those that never leave anything have none.
type pinState struct {
	names   [pins]map[string]struct{}
	vague   Pins // something is there whose name is not known
	locks   int  // advisory locks that are counted
	open    []pinChange
	portals map[string][]sqltext.Change // what those do that leave or take something
}

// pinChange is a change that counts if its transaction, or a part of it, is committed.
type pinChange struct {
	sqltext.Change
	maybe bool // undone unless something is committed
}

// leaving is what an entry of the answer queue changes when it has run.
type leaving struct {
	changes []sqltext.Change
	at      int // the statement that runs
}

// pinOf maps an effect to the kind of what it leaves or takes.
func pinOf(e sqltext.Effect) Pins {
	switch e {
	case sqltext.Listens, sqltext.Unlistens:
		return PinListen
	case sqltext.Prepares, sqltext.Forgets:
		return PinPrepare
	case sqltext.Creates, sqltext.Drops, sqltext.Alters:
		return PinTemp
	case sqltext.Declares, sqltext.Closes:
		return PinCursor
	case sqltext.TakesLock, sqltext.TriesLock, sqltext.MayLock, sqltext.Unlocks, sqltext.UnlocksAll:
		return PinLock
	case sqltext.Loads:
		return PinLoad
	}
	return 0
}

// Pinned returns what the client has left on its server.
func (c *Client) Pinned() Pins {
	if c.pins == nil {
		return 0
	}
	return c.pins.kinds()
}

// kinds are those of what is there.
func (w *pinState) kinds() Pins {
	p := w.vague
	for i := range w.names {
		if len(w.names[i]) > 0 {
			p |= 1 << i
		}
	}
	if w.locks > 0 {
		p |= PinLock
	}
	return p
}

// Unpin forgets what the client has left: its server is taken from it.
func (c *Client) Unpin() { c.pins = nil }

// WouldPin returns what the request for which the last Acquire asked would leave, as far as
// it has come.
func (c *Client) WouldPin() Pins {
	if c.mode == Session || c.shared.asked.by != c || c.request.Flags&pinFlags == 0 && !c.want.temp {
		return 0
	}
	return remains(sqltext.Changes(c.shared.asked.text, maxChanges, c.want.temp))
}

// leaves reports whether any of the changes leaves something.
func leaves(list []sqltext.Change) bool {
	return slices.ContainsFunc(list, func(c sqltext.Change) bool { return c.Effect.Leaves() })
}

// remains returns the kinds of what is left when all of the changes have been made.
func remains(list []sqltext.Change) Pins {
	if !leaves(list) {
		return 0
	}
	var w pinState
	for i := range list {
		switch list[i].Effect {
		case sqltext.TakesLock, sqltext.TriesLock:
			w.locks++
		case sqltext.Unlocks:
			w.locks = max(w.locks-1, 0)
		default:
			w.change(&list[i])
		}
	}
	w.committed()
	return w.kinds()
}

// changes returns what a text, nil if nobody has it, is to change, and asks whether it may. It
// returns nil if there is nothing that would have to be known.
func (c *Client) changes(f sqltext.Flags, text []byte) ([]sqltext.Change, *wire.Error) {
	if c.pins == nil && f&pinFlags == 0 && !c.want.temp {
		return nil, nil
	}
	list := sqltext.Changes(text, maxChanges, c.want.temp)
	if text == nil {
		list = sqltext.Leftovers(f)
	}
	if c.pins == nil && !leaves(list) {
		return nil, nil
	}
	if e := c.mayPin(remains(list)); e != nil {
		return nil, e
	}
	if c.pins == nil {
		c.pins = &pinState{}
	}
	return list, nil
}

// mayPin asks whether state of these kinds may be left.
func (c *Client) mayPin(p Pins) *wire.Error {
	if q := c.server.pinner; q != nil && p != 0 {
		return q.Pin(p)
	}
	return nil
}

// leavingOf makes what an entry has of changes.
func leavingOf(list []sqltext.Change) *leaving {
	if len(list) == 0 {
		return nil
	}
	return &leaving{changes: list}
}

// pinPortal notes what a portal does that is bound to st, which is nil if that is not known.
func (c *Client) pinPortal(portal []byte, st *Statement) *wire.Error {
	var list []sqltext.Change
	if st != nil {
		var e *wire.Error
		var text []byte // nil if nobody has it
		if st.tail != "" {
			text = st.text()
		}
		if list, e = c.changes(st.flags, text); e != nil {
			return e
		}
	}
	w := c.pins
	switch {
	case w == nil:
	case len(list) == 0:
		delete(w.portals, string(portal))
	default:
		if w.portals == nil {
			w.portals = make(map[string][]sqltext.Change)
		}
		w.portals[string(portal)] = list
	}
	return nil
}

// runsPortal returns what an Execute changes.
func (c *Client) runsPortal(body []byte) *leaving {
	if c.pins == nil || len(c.pins.portals) == 0 {
		return nil
	}
	name, _, _ := cstring(body)
	return leavingOf(c.pins.portals[string(name)])
}

// refuseText sends what the server must refuse in the place of a Query or FunctionCall that
// is not to be sent; the client is told e.
func (c *Client) refuseText(m message, e *wire.Error, p *Plan) int {
	p.server(p.build(func(dst []byte) []byte { return wire.AppendQuery(dst, "EXECUTE "+poisonName) }))
	q := entry{kind: kQuery, fate: replace, err: e}
	if m.typ() == wire.MsgQuery {
		q = c.dropUnnamed(q)
	} else { // the server's is gone
		c.server.setUnnamed(nil)
		c.server.foreign = true
	}
	c.server.push(q)
	return c.take(m, p, true)
}

// ran is called when a statement of an entry has run. more says that it will go on.
func (c *Client) ran(l *leaving, more bool) {
	w := c.pins
	if w == nil {
		return
	}
	for i := range l.changes {
		if l.changes[i].At == l.at {
			w.change(&l.changes[i])
		}
	}
	if !more {
		l.at++
	}
}

// row counts the advisory lock that a row is about.
func (c *Client) row(l *leaving, body []byte) {
	w := c.pins
	if w == nil {
		return
	}
	const head = 2 + 4 // of the only column
	yes := len(body) > head && (body[head] == 't' || body[head] == 1)
	for i := range l.changes {
		if l.changes[i].At != l.at {
			continue
		}
		switch e := l.changes[i].Effect; {
		case e == sqltext.TakesLock, e == sqltext.TriesLock && yes:
			w.locks++
		case e == sqltext.Unlocks && yes:
			w.locks = max(w.locks-1, 0)
		}
	}
}

// change does what a statement that has run has done.
func (w *pinState) change(c *sqltext.Change) {
	switch e := c.Effect; e {
	case sqltext.MayLock, sqltext.Loads:
		w.vague |= pinOf(e)
	case sqltext.Prepares:
		w.add(PinPrepare, c.Name)
	case sqltext.Forgets:
		w.remove(PinPrepare, c.Name)
	case sqltext.Closes:
		w.remove(PinCursor, c.Name)
		w.open = slices.DeleteFunc(w.open, func(o pinChange) bool {
			return o.Effect == sqltext.Declares && (c.Name == "" || o.Name == c.Name)
		})
	case sqltext.UnlocksAll:
		w.locks, w.vague = 0, w.vague&^PinLock
	case sqltext.Discards:
		*w = pinState{vague: w.vague & PinLoad, portals: w.portals}
	case sqltext.Listens, sqltext.Unlistens, sqltext.Creates, sqltext.Declares, sqltext.Drops, sqltext.Alters:
		switch {
		case len(w.open) < maxPinNames:
			w.open = append(w.open, pinChange{Change: *c})
		case e.Leaves():
			w.vague |= pinOf(e)
		}
	}
}

// apply does what a change that waited for the end of its transaction does.
func (w *pinState) apply(c *sqltext.Change) {
	switch p := pinOf(c.Effect); {
	case c.Effect == sqltext.Alters:
		if i := p.index(); len(w.names[i]) > 0 {
			w.names[i], w.vague = nil, w.vague|p
		}
	case c.Effect.Leaves():
		w.add(p, c.Name)
	default:
		w.remove(p, c.Name)
	}
}

// index is the place of a kind's names.
func (p Pins) index() int {
	i := 0
	for ; p > 1; p >>= 1 {
		i++
	}
	return i
}

// add notes something of a kind; its name is "" if it is not known.
func (w *pinState) add(p Pins, name string) {
	i := p.index()
	if name == "" || len(w.names[i]) >= maxPinNames {
		w.vague |= p
		return
	}
	if w.names[i] == nil {
		w.names[i] = make(map[string]struct{})
	}
	w.names[i][name] = struct{}{}
}

// remove takes something of a kind away; the name "" is all.
func (w *pinState) remove(p Pins, name string) {
	i := p.index()
	if name == "" {
		w.names[i], w.vague = nil, w.vague&^p
		return
	}
	delete(w.names[i], name)
}

// committed is called when something of the transaction is committed.
func (w *pinState) committed() {
	for i := range w.open {
		w.apply(&w.open[i].Change)
	}
	w.open = nil
}

// undone is called when the transaction, or a part of it, is rolled back: what it has taken
// away may be there again, and what it has left may be gone.
func (w *pinState) undone() {
	w.open = slices.DeleteFunc(w.open, func(o pinChange) bool { return !o.Effect.Leaves() })
	for i := range w.open {
		w.open[i].maybe = true
	}
}

// ended is called when no transaction is open any more.
func (w *pinState) ended() {
	for i := range w.open {
		if !w.open[i].maybe {
			w.apply(&w.open[i].Change)
		}
	}
	w.open = nil
}

// pinTag notes what a CommandComplete means for what the client leaves.
func (s *Server) pinTag(e *entry, tag []byte) {
	c := s.client
	if c == nil || c.pins == nil {
		return
	}
	if e.left != nil {
		c.ran(e.left, false)
	}
	switch {
	case tag[0] == 'C' && tagIs(tag, "COMMIT"), tag[0] == 'P' && tagIs(tag, "PREPARE TRANSACTION"):
		c.pins.committed()
	case tag[0] == 'R' && tagIs(tag, "ROLLBACK"):
		c.pins.undone()
	}
}

// pinError notes what an error of the entry at the head means for what the client leaves. Of
// locks that may have been taken before it nothing is known, unless the text was not run at all.
func (s *Server) pinError(raw []byte) {
	c := s.client
	if c == nil || c.pins == nil {
		return
	}
	if e := s.fifo.first(); e.left != nil && e.fate == forward {
		code, _ := wire.ErrorField(raw[wire.HeaderLen:], 'C')
		for i := range e.left.changes {
			if ch := &e.left.changes[i]; ch.At == e.left.at && ch.Effect == sqltext.MayLock && !strings.HasPrefix(code, "42") {
				c.pins.change(ch)
			}
		}
	}
	c.pins.undone()
}

// pinReady settles what a transaction has left that is over.
func (s *Server) pinReady() {
	if c := s.client; c != nil && c.pins != nil && s.tx == wire.Idle {
		c.pins.ended()
	}
}

// pinOver forgets the portals at the end of a transaction, and everything if nothing is left.
func (c *Client) pinOver() {
	switch {
	case c.pins == nil:
	case c.Pinned() == 0:
		c.pins = nil
	default:
		c.pins.portals = nil
	}
}

// apart reports whether no server has anything of the client's between its transactions.
func (c *Client) apart() bool { return c.mode != Session && c.kept == nil }
