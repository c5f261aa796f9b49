package wiretest

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
)

// statement is a prepared statement.
type statement struct {
	st    *stmt // nil: the text was empty
	types []uint32
	sql   bool // by PREPARE
}

// portal is a statement bound to its parameters.
type portal struct {
	st      *stmt // nil: empty
	params  [][]byte
	formats []int16
	level   int  // depth of savepoints at its creation
	failed  bool // its transaction failed under it
	done    bool // it returns no rows and has run
	begun   bool
	atEnd   bool
	pos     int
	rows    int
	fill    [][]byte // rows that were computed when it began: SHOW, whoami
}

func (b *Backend) parse(r *reader) *wire.Error {
	name, text := r.string(), r.string()
	var types []uint32
	for range r.int16() {
		if r.err != nil {
			break
		}
		types = append(types, uint32(r.int32()))
	}
	if err := r.end(); err != nil {
		return err
	}
	b.start()
	if name == "" {
		delete(b.prepared, "")
	}
	stmts, err := parse(text)
	if err != nil {
		return err
	}
	p := &statement{}
	switch {
	case len(stmts) > 1:
		return newError("42601", "cannot insert multiple commands into a prepared statement")
	case len(stmts) == 1:
		p.st = stmts[0]
		if err := b.inFailed(p.st); err != nil {
			return err
		}
		if err := b.analyse(p.st); err != nil {
			return err
		}
		p.types = inferTypes(types, p.st.params)
	default:
		p.types = inferTypes(types, 0)
	}
	if name != "" && b.prepared[name] != nil {
		return newError("42P05", "prepared statement \"%s\" already exists", name)
	}
	b.prepared[name] = p
	b.put(wire.AppendEmpty(nil, wire.MsgParseComplete))
	return nil
}

// Type OIDs.
const (
	oidBool = 16
	oidInt4 = 23
	oidText = 25
	oidVoid = 2278
)

// inferTypes fills in the types that Parse left to the server: all are text.
func inferTypes(types []uint32, used int) []uint32 {
	for len(types) < used {
		types = append(types, 0)
	}
	for i, t := range types {
		if t == 0 {
			types[i] = oidText
		}
	}
	return types
}

// prepared statement by name, or the error that Postgres gives.
func (b *Backend) statement(name string) (*statement, *wire.Error) {
	p := b.prepared[name]
	switch {
	case p != nil:
		return p, nil
	case name == "":
		return nil, newError("26000", "unnamed prepared statement does not exist")
	}
	return nil, newError("26000", "prepared statement \"%s\" does not exist", name)
}

func (b *Backend) bind(r *reader) *wire.Error {
	portalName, name := r.string(), r.string()
	if r.err != nil {
		return r.err
	}
	p, err := b.statement(name)
	if err != nil {
		return err
	}
	b.start()
	formats := r.formats()
	n := r.int16()
	switch {
	case r.err != nil:
		return r.err
	case len(formats) > 1 && len(formats) != n:
		return newError("08P01", "bind message has %d parameter formats but %d parameters", len(formats), n)
	case n != len(p.types):
		return newError("08P01", "bind message supplies %d parameters, but prepared statement \"%s\" requires %d",
			n, name, len(p.types))
	}
	if b.tx.block == blockFailed && (p.st == nil || !p.st.exitsTx() || n != 0) {
		return b.inFailed(nil)
	}
	if portalName != "" && b.portals[portalName] != nil {
		return newError("42P03", "cursor \"%s\" already exists", portalName)
	}
	b.tx.snapshot = b.tx.snapshot || n > 0
	q := &portal{st: p.st, level: len(b.tx.marks)}
	b.portals[portalName] = q
	for range n {
		q.params = append(q.params, r.value())
	}
	q.formats = r.formats()
	if err := r.end(); err != nil {
		return err
	}
	return b.bound(q)
}

// bound checks a new portal as PortalStart does and answers.
func (b *Backend) bound(q *portal) *wire.Error {
	if q.st != nil {
		if err := b.analyse(q.st); err != nil {
			return err
		}
		if n := len(q.st.columns()); n > 0 && len(q.formats) > 1 && len(q.formats) != n {
			return newError("08P01", "bind message has %d result formats but query has %d columns", len(q.formats), n)
		}
	}
	b.put(wire.AppendEmpty(nil, wire.MsgBindComplete))
	return nil
}

func (b *Backend) portal(name string) (*portal, *wire.Error) {
	if q := b.portals[name]; q != nil {
		return q, nil
	}
	return nil, newError("34000", "portal \"%s\" does not exist", name)
}

func (b *Backend) describe(r *reader) *wire.Error {
	what, name := r.byte(), r.string()
	if err := r.end(); err != nil {
		return err
	}
	switch what {
	case 'S':
		b.start()
		p, err := b.statement(name)
		if err != nil {
			return err
		}
		return b.describeStatement(p)
	case 'P':
		b.start()
		q, err := b.portal(name)
		if err != nil {
			return err
		}
		return b.describeRows(q.st, q.formats)
	}
	return newError("08P01", "invalid DESCRIBE message subtype %d", what)
}

func (b *Backend) describeStatement(p *statement) *wire.Error {
	if b.tx.block == blockFailed && len(p.st.columns()) > 0 {
		return b.inFailed(nil)
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(len(p.types)))
	for _, t := range p.types {
		body = binary.BigEndian.AppendUint32(body, t)
	}
	b.put(wire.AppendMessage(nil, wire.MsgParameterDescription, body))
	return b.describeRows(p.st, nil)
}

func (b *Backend) describeRows(st *stmt, formats []int16) *wire.Error {
	columns := st.columns()
	if len(columns) == 0 {
		b.put(wire.AppendEmpty(nil, wire.MsgNoData))
		return nil
	}
	if err := b.inFailed(nil); err != nil {
		return err
	}
	b.put(appendRowDescription(nil, columns, formats))
	return nil
}

func (b *Backend) close(r *reader) *wire.Error {
	what, name := r.byte(), r.string()
	if err := r.end(); err != nil {
		return err
	}
	switch what {
	case 'S':
		delete(b.prepared, name)
	case 'P':
		delete(b.portals, name)
	default:
		return newError("08P01", "invalid CLOSE message subtype %d", what)
	}
	b.put(wire.AppendEmpty(nil, wire.MsgCloseComplete))
	return nil
}

func (b *Backend) execute(r *reader) *wire.Error {
	name, limit := r.string(), r.int32()
	if err := r.end(); err != nil {
		return err
	}
	q, err := b.portal(name)
	if err != nil {
		return err
	}
	if q.st == nil {
		b.put(wire.AppendEmpty(nil, wire.MsgEmptyQueryResponse))
		return nil
	}
	b.start()
	st := q.st
	if q.failed {
		st = nil // its plan is gone: even a ROLLBACK is not recognised
	}
	if err := b.inFailed(st); err != nil {
		return err
	}
	x := &execution{st: q.st, portal: q, name: name, limit: max(limit, 0)}
	if err := b.admit(x); err != nil {
		return err
	}
	if q.failed || q.done {
		return newError("55000", "portal \"%s\" cannot be run", name)
	}
	b.exec = x
	return nil
}

// endExecute is what follows an Execute that ran to its end.
func (b *Backend) endExecute(st *stmt, tag string) {
	if st.isTx() || st.kind == kDiscard {
		b.finish()
	} else {
		b.tx.pipelining = true
	}
	b.put(wire.AppendCommandComplete(nil, tag))
}
