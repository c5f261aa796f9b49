package relay

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/pgweir/pgweir/wire/sqltext"
)

// Statement is a prepared statement's text and parameter types, shared by all
// clients and servers that use it.
type Statement struct {
	tail  string // a Parse message's body behind the name
	kind  sqltext.Kind
	flags sqltext.Flags
	refs  int32
	// comments is how many bytes at the end of the text are comments.
	comments int32
	owned    bool        // in the table
	dirt     dirt        // what it may leave on a server
	own      *ownCommand // it is about one of pgweir's own parameters
	sets     []sqltext.Setting
	outdated []byte // what a server has said when it was out of date there; nil = never
	shape    uint64 // its fingerprint, once it was asked for
	// alias is the name that a client gave it last. The next will call it the
	// same, and then shares it.
	alias *named
	// base is what servers are told in its place, once it was asked for: see plain.
	base *Statement
	// proven is where a server has accepted the text: a Parse of it needs none.
	proven []proof
}

// proof names servers that understand a text alike: those of one database and
// role, under settings of one meaning.
type proof struct {
	group   uint32
	meaning uint64
}

// maxProofs bounds the proofs kept of one text.
const maxProofs = 8

func (st *Statement) prove(p proof) {
	if !st.provenAt(p) {
		if len(st.proven) >= maxProofs {
			st.proven = st.proven[:0]
		}
		st.proven = append(st.proven, p)
	}
}

func (st *Statement) provenAt(p proof) bool { return slices.Contains(st.proven, p) }

// Statements interns statements by text and types. Its memory is bounded: above
// the bound nothing new is remembered. It belongs to one loop.
type Statements struct {
	byTail  map[string]*Statement
	bytes   int
	limit   int
	scratch []byte // of cut
}

// statementOverhead is what an interned statement costs beside its text.
const statementOverhead = 128

// NewStatements returns a table that remembers at most limit bytes.
func NewStatements(limit int) *Statements {
	return &Statements{byTail: make(map[string]*Statement), limit: limit}
}

// Bytes returns the memory held, as counted against the limit.
func (t *Statements) Bytes() int { return t.bytes }

// Len returns the number of statements held.
func (t *Statements) Len() int { return len(t.byTail) }

// intern returns the statement with this tail, with a reference for the caller.
// It returns nil when the table is full.
func (t *Statements) intern(tail []byte) *Statement {
	if st := t.byTail[string(tail)]; st != nil {
		st.refs++
		return st
	}
	cost := len(tail) + statementOverhead
	if t.bytes+cost > t.limit {
		return nil
	}
	st := &Statement{tail: string(tail), refs: 1, owned: true}
	c := sqltext.Classify(textOf(tail))
	st.take(c, tail)
	t.byTail[st.tail] = st
	t.bytes += cost
	return st
}

// take notes what was found out about a statement's text.
func (st *Statement) take(c sqltext.Statement, tail []byte) {
	st.kind, st.flags, st.comments, st.own = c.Kind, c.Flags, int32(c.Comments()), ownTail(c, tail)
	rest := c.Flags
	if rest&(sqltext.Session|sqltext.Multi) == sqltext.Session {
		var known bool
		if st.sets, known = settingsOf(c, textOf(tail)); known || c.Kind == sqltext.Discard {
			rest &^= sqltext.Session
		}
	}
	st.dirt = dirtOf(rest)
}

// classify tells what a Parse tail is: its text is read unless it is in the table, where it
// was read before. The answer is not in the table itself.
func (t *Statements) classify(tail []byte) (st Statement) {
	if known := t.byTail[string(tail)]; known != nil {
		st.kind, st.flags, st.comments, st.own, st.dirt = known.kind, known.flags, known.comments, known.own, known.dirt
		return st
	}
	st.take(sqltext.Classify(textOf(tail)), tail)
	return st
}

// retain adds a reference; nil is allowed.
func retain(st *Statement) *Statement {
	if st != nil {
		st.refs++
	}
	return st
}

// release drops a reference; nil is allowed.
func (t *Statements) release(st *Statement) {
	if st == nil {
		return
	}
	if st.refs--; st.refs == 0 && st.owned {
		delete(t.byTail, st.tail)
		t.bytes -= len(st.tail) + statementOverhead
		if st.base != st {
			t.release(st.base)
		}
	}
}

// textOf returns the statement text at the start of a Parse tail.
func textOf(tail []byte) []byte {
	if i := bytes.IndexByte(tail, 0); i >= 0 {
		return tail[:i]
	}
	return tail
}

// Fingerprint returns the text's shape; 0 = it is not known. It is computed once.
func (st *Statement) Fingerprint() uint64 {
	if st.shape == 0 && st.tail != "" {
		st.shape = sqltext.Fingerprint(st.text())
	}
	return st.shape
}

// text returns the statement's text, which nobody may change.
func (st *Statement) text() []byte {
	return textOf(unsafe.Slice(unsafe.StringData(st.tail), len(st.tail)))
}

// local reports whether running the statement needs no server.
func (st *Statement) local() bool { return st.own != nil || localKind(st.kind) }

// names is a client's prepared statements. Most clients have few, so it is a
// slice until it grows long.
type names struct {
	list  []*named       // a pointer each: most are other clients' as well
	index map[string]int // position in list, once it is long
	// bytes is what they cost, charged what of it counts towards the limit of Statements.
	bytes, charged int
}

const (
	// nameOverhead is what a name costs beside its letters, about.
	nameOverhead = 100
	// freeNames is how many bytes of names each client may have that count towards no
	// limit but that of the number of clients.
	freeNames = 64 << 10
)

// cost is what a name costs its client: most share it with others, but who has very many
// has names of its own.
func (e *named) cost() int {
	if e.st.owned {
		return len(e.name) + nameOverhead
	}
	return len(e.name) + nameOverhead + len(e.st.tail) + statementOverhead
}

// roomFor reports whether the client may have one more name, whose text costs so much.
func (c *Client) roomFor(name []byte, text int) bool {
	more := c.names.bytes + len(name) + nameOverhead + text - freeNames - c.names.charged
	t := c.shared.Statements
	return more <= 0 || t.bytes+more <= t.limit
}

// addName defines a name, which must not be defined.
func (c *Client) addName(e *named) {
	c.names.put(e)
	c.charge(e.cost())
}

// dropName removes the name at i and returns what it stood for.
func (c *Client) dropName(i int) (string, *Statement) {
	cost := c.names.list[i].cost()
	name, st := c.names.take(i)
	c.charge(-cost)
	return name, st
}

// charge counts what the client's names cost more.
func (c *Client) charge(cost int) {
	n := &c.names
	n.bytes += cost
	charged := max(n.bytes-freeNames, 0)
	c.shared.Statements.bytes += charged - n.charged
	n.charged = charged
}

type named struct {
	name string
	st   *Statement
}

// indexAfter is the length from which a map finds names faster than a scan.
const indexAfter = 24

func (n *names) find(name []byte) int {
	if n.index != nil {
		if i, ok := n.index[string(name)]; ok {
			return i
		}
		return -1
	}
	for i := range n.list {
		if n.list[i].name == string(name) {
			return i
		}
	}
	return -1
}

func (n *names) get(name []byte) *Statement {
	st, _ := n.lookup(name)
	return st
}

// lookup returns the statement and the name as a string that may be kept.
func (n *names) lookup(name []byte) (*Statement, string) {
	if i := n.find(name); i >= 0 {
		return n.list[i].st, n.list[i].name
	}
	return nil, ""
}

// or is get, but unnamed for the empty name.
func (n *names) or(name []byte, unnamed *Statement) *Statement {
	if len(name) == 0 {
		return unnamed
	}
	return n.get(name)
}

// aliasOf returns the statement under a name, shared between clients that use
// the same.
func (st *Statement) aliasOf(name []byte) *named {
	if st.alias == nil || st.alias.name != string(name) {
		st.alias = &named{string(name), st}
	}
	return st.alias
}

// put defines a name, which must not be defined.
func (n *names) put(e *named) {
	if len(n.list) == cap(n.list) { // grow by a quarter: most clients stay as they are
		n.list = append(make([]*named, 0, 1+len(n.list)+len(n.list)/4), n.list...)
	}
	n.list = append(n.list, e)
	switch {
	case n.index != nil:
		n.index[e.name] = len(n.list) - 1
	case len(n.list) > indexAfter:
		n.index = make(map[string]int, 2*indexAfter)
		for i := range n.list {
			n.index[n.list[i].name] = i
		}
	}
}

// take removes the name at i and returns what it stood for.
func (n *names) take(i int) (string, *Statement) {
	e, last := n.list[i], len(n.list)-1
	n.list[i] = n.list[last]
	n.list[last] = nil
	n.list = n.list[:last]
	if n.index != nil {
		delete(n.index, e.name)
		if i < last {
			n.index[n.list[i].name] = i
		}
	}
	return e.name, e.st
}
