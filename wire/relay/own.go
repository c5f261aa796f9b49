package relay

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// Parameters whose names begin with ownPrefix are pgweir's own: they say what a client's
// requests are, and no server is asked about them. SET, RESET and SHOW of one of them,
// alone in a text, are answered here, in their turn: by themselves while no server is bound,
// and among a server's answers as a Parse that needs none. They hold, and are undone, as
// Postgres does it with its own, also by ROLLBACK TO a savepoint, see maxMarks. In a text of
// several statements, in DO and in set_config() they are the server's, where they mean
// nothing.
const ownPrefix = "pgweir."

// Own has a value for each of the parameters; "" = not set. They are numbered as tags are.
type Own [sqltext.TagKeys]string

// ownName returns a parameter's name.
func ownName(k sqltext.TagKey) string {
	if k == sqltext.TagTraceparent {
		return ownPrefix + k.String()
	}
	return k.String()
}

// ownKey finds a parameter by its lower-cased name; -1 = there is none.
func ownKey(name string) int8 {
	for k := range sqltext.TagKey(sqltext.TagKeys) {
		if name == ownName(k) {
			return int8(k)
		}
	}
	return -1
}

// SplitOwn takes pgweir's own parameters out of the settings of a startup packet; of equal
// names the last counts. An error is for the client: there is no such parameter.
func SplitOwn(list []Param) (own Own, rest []Param, err *wire.Error) {
	for _, p := range list {
		name := strings.ToLower(p.Name)
		if !strings.HasPrefix(name, ownPrefix) {
			rest = append(rest, p)
			continue
		}
		k := ownKey(name)
		if k < 0 {
			e := *unknownParameter(p.Name)
			e.Severity = wire.SeverityFatal
			return own, nil, &e
		}
		own[k] = p.Value
	}
	return own, rest, nil
}

// ownState is what a client has set of the parameters. Most clients have none.
type ownState struct {
	login   Own // of the startup packet: what RESET goes back to
	session Own
	local   Own // by SET LOCAL,
	locals  uint8
	want    *Params // the client's settings as the open transaction has made them, nil if it has not,
	applied *Params // and the server's
	before  Own     // session, as it was before the transaction that is open,
	changed bool    // and has changed it
	failed  bool    // the transaction, as far as it has come, will be rolled back
	version uint32
	portals []ownPortal // of commands
	marks   []ownMark   // the savepoints since the transaction has changed anything
	marked  int         // what they cost, see maxMarks
	steps   []sqltext.Step
	bounds  []portalSets // portals with names that set something
	stepped bool         // steps are those of a Query that is not answered
	bound   string       // the savepoint that the portal is about that was bound last
}

// SetOwn gives a client the values of its startup packet. Call it before anything else.
func (c *Client) SetOwn(o Own) {
	if o != (Own{}) {
		c.own = &ownState{login: o, session: o, version: 1}
	}
}

// Own returns the value that holds now of one of pgweir's own parameters; "" = not set.
func (c *Client) Own(k sqltext.TagKey) string {
	o := c.own
	switch {
	case o == nil:
		return ""
	case o.locals&(1<<k) != 0:
		return o.local[k]
	}
	return o.session[k]
}

// OwnVersion is different whenever a value of Own may be; 0 = none was ever set.
func (c *Client) OwnVersion() uint32 {
	if c.own == nil {
		return 0
	}
	return c.own.version
}

// ownCommand is a SET, RESET or SHOW of one of pgweir's own parameters.
type ownCommand struct {
	kind  sqltext.Kind
	key   int8   // -1 = there is none of that name
	name  string // for the answer to SHOW, and for the error
	value string
	reset bool // SET ... TO DEFAULT too
}

// ownOf returns the command that a text is, or nil.
func ownOf(st sqltext.Statement, text []byte) *ownCommand {
	switch st.Kind {
	case sqltext.Set, sqltext.SetLocal, sqltext.Reset, sqltext.Show:
	default:
		return nil
	}
	name := st.Name(text)
	if !strings.HasPrefix(name, ownPrefix) {
		return nil
	}
	o := &ownCommand{kind: st.Kind, key: ownKey(name), name: name, reset: st.Kind == sqltext.Reset}
	var plain bool
	if o.value, plain = st.Value(text); !plain {
		raw := st.Values(text)
		o.value, o.reset = string(raw), o.reset || bytes.EqualFold(raw, []byte("default"))
	}
	return o
}

// ownTail is ownOf for a Parse behind its name. With parameter types it is a server's.
func ownTail(st sqltext.Statement, tail []byte) *ownCommand {
	text := textOf(tail)
	if len(tail) != len(text)+3 {
		return nil
	}
	return ownOf(st, text)
}

func unknownParameter(name string) *wire.Error {
	return &wire.Error{
		Severity: "ERROR", Code: "42704", Message: `unrecognized configuration parameter "` + name + `"`,
		Detail: "reason=parameter", Hint: "retry=no; pgweir's are pgweir.class, .tenant, .deadline_ms, .attempt and .traceparent",
	}
}

var localOutside = &wire.Error{
	Severity: "WARNING", Code: "25P01", Message: "SET LOCAL can only be used in transaction blocks",
}

// runOwn does what a command says and appends its answer from the rows on. block says
// whether a transaction block is open.
func (c *Client) runOwn(dst []byte, o *ownCommand, block bool, form ownForm) []byte {
	switch o.kind {
	case sqltext.Show:
		if form&ownNoRow == 0 {
			value := c.Own(sqltext.TagKey(o.key))
			at := len(dst)
			dst = append(dst, wire.MsgDataRow, 0, 0, 0, 0, 0, 1)
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(value)))
			dst = append(dst, value...)
			setLength(dst[at:], len(dst)-at-1)
		}
		if form&ownSuspend != 0 {
			return wire.AppendEmpty(dst, wire.MsgPortalSuspended)
		}
		return wire.AppendCommandComplete(dst, "SHOW")
	case sqltext.Reset:
		c.changeOwn(o)
		return wire.AppendCommandComplete(dst, "RESET")
	case sqltext.SetLocal:
		if !block {
			dst = wire.AppendNotice(dst, localOutside)
		}
	}
	c.changeOwn(o)
	return wire.AppendCommandComplete(dst, "SET")
}

// changeOwn sets a value, as a part of the transaction that is open.
func (c *Client) changeOwn(o *ownCommand) {
	if c.own == nil {
		c.own = &ownState{}
	}
	w := c.own
	value := o.value
	if o.reset {
		value = w.login[o.key]
	}
	w.version++
	if o.kind == sqltext.SetLocal {
		w.local[o.key] = value
		w.locals |= 1 << o.key
		return
	}
	w.keep()
	w.session[o.key] = value
	w.locals &^= 1 << o.key
}

// keep remembers what a rollback goes back to.
func (w *ownState) keep() {
	if !w.changed {
		w.before, w.changed = w.session, true
	}
}

// resetOwn sets all values back to those of the login, as RESET ALL does.
func (c *Client) resetOwn() {
	if w := c.own; w != nil {
		w.keep()
		w.session, w.locals = w.login, 0
		w.version++
	}
}

// endOwn ends the transaction in which values were set.
func (c *Client) endOwn(committed bool) {
	w := c.own
	if w == nil {
		return
	}
	if w.locals != 0 || w.changed && !committed {
		w.version++
	}
	if w.changed && !committed {
		w.session = w.before
	}
	c.endSettings(committed)
	w.locals, w.changed, w.failed = 0, false, false
	w.marks, w.marked = nil, 0
}

// ownReady ends the transaction that the server has ended.
func (s *Server) ownReady() {
	if c := s.client; c != nil && c.own != nil && s.tx == wire.Idle && !s.beginFailed {
		if c.own.failed && c.own.want != nil {
			s.dirt |= dirtSettings // a procedure may have committed a part
		}
		c.endOwn(!c.own.failed)
	}
}

// ownPortal is a portal of a command that no server knows.
type ownPortal struct {
	name   string
	st     *Statement
	binary bool // the format that the client wants
	begun  bool // its row has been sent
}

// ownForm is how the result of a command looks.
type ownForm uint8

const (
	ownBinary  ownForm = 1 << iota // described as binary, which is the same for a text
	ownNoRow                       // the row was sent before
	ownSuspend                     // no more rows than that were asked for
)

// described is the form for a Describe.
func (q *ownPortal) described() ownForm {
	if q.binary {
		return ownBinary
	}
	return 0
}

// run is the form for an Execute of at most so many rows, 0 = all.
func (q *ownPortal) run(limit uint32) (f ownForm) {
	if q.begun {
		f = ownNoRow
	} else if limit == 1 {
		f = ownSuspend
	}
	q.begun = true
	return f
}

// limitOf reads the row limit of an Execute.
func limitOf(body []byte) uint32 {
	if len(body) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(body[len(body)-4:])
}

// maxOwnPortals bounds the portals of commands in one transaction.
const maxOwnPortals = 64

// ownPortal finds a portal by its name, or returns nil.
func (c *Client) ownPortal(name []byte) *ownPortal {
	if c.own == nil {
		return nil
	}
	for i := range c.own.portals {
		if q := &c.own.portals[i]; q.name == string(name) {
			return q
		}
	}
	return nil
}

// bindOwn makes a portal. It reports whether there is room.
func (c *Client) bindOwn(name []byte, st *Statement, formats []byte) bool {
	c.closeOwn(name)
	if c.own == nil {
		c.own = &ownState{}
	}
	if len(c.own.portals) >= maxOwnPortals {
		return false
	}
	c.own.portals = append(c.own.portals, ownPortal{name: string(name), st: retain(st), binary: binaryResult(formats)})
	return true
}

// closeOwn drops a portal and reports whether there was one.
func (c *Client) closeOwn(name []byte) bool {
	if c.own == nil {
		return false
	}
	for i, q := range c.own.portals {
		if q.name == string(name) {
			c.shared.Statements.release(q.st)
			c.own.portals = slices.Delete(c.own.portals, i, i+1)
			return true
		}
	}
	return false
}

// dropPortals drops all portals.
func (c *Client) dropPortals() {
	if c.own == nil {
		return
	}
	for _, q := range c.own.portals {
		c.shared.Statements.release(q.st)
	}
	c.own.portals = nil
}

// binaryResult reads the formats of a Bind without parameters behind its names.
func binaryResult(b []byte) bool {
	at := 2 + 2*(int(b[0])<<8|int(b[1])) + 2 // behind the parameters
	return len(b) >= at+4 && b[at+1] > 0 && b[at+3] == 1
}

// appendOwnRow appends what Describe says of a command's result.
func appendOwnRow(dst []byte, o *ownCommand, form ownForm) []byte {
	if o.kind != sqltext.Show {
		return wire.AppendEmpty(dst, wire.MsgNoData)
	}
	at := len(dst)
	dst = append(dst, wire.MsgRowDescription, 0, 0, 0, 0, 0, 1)
	dst = append(append(dst, o.name...), 0)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0) // a column of type text, of no table
	if form&ownBinary != 0 {
		dst[len(dst)-1] = 1
	}
	setLength(dst[at:], len(dst)-at-1)
	return dst
}

var noParameterTypes = []byte{0, 0}

// answerOwn answers a Query that is a command.
func (c *Client) answerOwn(o *ownCommand, tx byte, p *Plan) {
	p.client(p.build(func(dst []byte) []byte {
		if o.kind == sqltext.Show {
			dst = appendOwnRow(dst, o, 0)
		}
		dst = c.runOwn(dst, o, tx == wire.InTransaction, 0)
		if tx == wire.Idle {
			c.endOwn(true)
		}
		return wire.AppendReadyForQuery(dst, tx)
	}))
}
