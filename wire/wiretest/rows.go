package wiretest

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/pgweir/pgweir/wire"
)

// sendRows sends rows until the end, the limit, or until the frontend has to
// read first.
func (b *Backend) sendRows(x *execution) bool {
	q := x.portal
	if !q.begun {
		q.begun = true
		if err := b.open(x); err != nil {
			return b.check(err)
		}
	}
	for !q.atEnd {
		if x.limit > 0 && x.count == x.limit {
			b.exec = nil
			b.tx.pipelining = true
			b.put(wire.AppendEmpty(nil, wire.MsgPortalSuspended))
			return true
		}
		if q.pos == q.rows {
			q.atEnd = true
			break
		}
		if b.full() {
			return false
		}
		row, err := b.row(x, q.pos)
		if err != nil {
			return b.check(err)
		}
		b.put(row)
		q.pos++
		x.count++
		if err := b.strike(x, x.count); err != nil || b.dead {
			return b.check(err)
		}
	}
	tag := x.st.tag
	if tag == "SELECT" {
		tag += " " + strconv.Itoa(x.count)
	}
	b.complete(x, tag)
	return true
}

// open computes how many rows a portal has, and what must not change between
// them.
func (b *Backend) open(x *execution) *wire.Error {
	q, st := x.portal, x.st
	q.rows = 1
	switch st.kind {
	case kRows:
		q.rows = st.n
	case kLeft:
		q.fill = [][]byte{[]byte(b.Left())}
	case kLock:
		q.fill = [][]byte{b.lock(st)}
	case kExecute:
		q.fill = [][]byte{[]byte(strconv.Itoa(b.prepared[st.name].st.n))}
	case kShow:
		q.fill = [][]byte{[]byte(b.set.get(st.name))}
	case kWhoami:
		names := tracked()
		if st.fails {
			names = append(names, others()...)
			slices.Sort(names)
		}
		for _, name := range names {
			q.fill = append(q.fill, []byte(findGUC(name).name+"="+b.set.get(name)))
		}
		q.rows = len(q.fill)
	}
	return nil
}

// row builds row i of a portal.
func (b *Backend) row(x *execution, i int) ([]byte, *wire.Error) {
	st, q := x.st, x.portal
	var cols [][]byte
	switch st.kind {
	case kSelect:
		v := []byte(strconv.Itoa(st.n))
		if format(q.formats, 0) == 1 {
			v = binary.BigEndian.AppendUint32(nil, uint32(st.n))
		}
		cols = [][]byte{v}
	case kRows:
		cols = [][]byte{filler(st.text, i, st.k)}
	case kNonce:
		v := argument(q, st.value, st.param)
		b.effect(x, string(v), 1)
		cols = [][]byte{v}
	case kSetConfig:
		for _, c := range st.configs {
			v := argument(q, c.value, c.param)
			value := string(v)
			set := &value
			if c.null || v == nil {
				set = nil
			}
			now, err := b.set.set(c.name, set, c.local)
			if err != nil {
				return nil, err
			}
			cols = append(cols, []byte(now))
		}
	case kSleep:
		cols = [][]byte{{}}
	case kLock:
		cols = [][]byte{q.fill[i]}
		if lockBool(st.name) && format(q.formats, 0) == 1 {
			cols = [][]byte{{map[string]byte{"t": 1, "f": 0}[string(q.fill[i])]}}
		}
	default:
		cols = [][]byte{q.fill[i]}
	}
	body := binary.BigEndian.AppendUint16(nil, uint16(len(cols)))
	for _, c := range cols {
		body = appendValue(body, c)
	}
	return wire.AppendMessage(nil, wire.MsgDataRow, body), nil
}

// argument returns a literal, or the parameter that stands for it.
func argument(q *portal, literal string, param int) []byte {
	if param == 0 {
		return []byte(literal)
	}
	return q.params[param-1]
}

// filler returns k bytes of letters that depend on the text and the row.
func filler(text string, row, k int) []byte {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text))
	seed := h.Sum32() + uint32(row)*2654435761
	out := make([]byte, k)
	for i := range out {
		out[i] = 'a' + byte(seed>>27)%26
		seed = seed*1664525 + 1013904223
	}
	return out
}

// column is a column of a result.
type column struct {
	name string
	oid  uint32
	size int16
}

// columns returns the columns of a statement's result; none means that it
// returns no rows.
func (s *stmt) columns() []column {
	if s == nil {
		return nil
	}
	text := func(name string) []column { return []column{{name, oidText, -1}} }
	switch s.kind {
	case kSelect:
		return []column{{"?column?", oidInt4, 4}}
	case kRows:
		return text("rows")
	case kNonce:
		return text("nonce")
	case kWhoami:
		return text("whoami")
	case kSleep:
		return []column{{s.name, oidVoid, 4}}
	case kMissing:
		return text("?column?")
	case kLeft:
		return text("left")
	case kExecute:
		return []column{{"?column?", oidInt4, 4}}
	case kLock:
		if lockBool(s.name) {
			return []column{{s.name, oidBool, 1}}
		}
		return []column{{s.name, oidVoid, 4}}
	case kSetConfig:
		var out []column
		for range s.configs {
			out = append(out, text("set_config")...)
		}
		return out
	case kShow:
		if g := findGUC(s.name); g != nil {
			return text(g.name)
		}
		return text(s.typed)
	}
	return nil
}

// format returns the format code of column i.
func format(formats []int16, i int) int16 {
	switch {
	case len(formats) == 1:
		return formats[0]
	case i < len(formats):
		return formats[i]
	}
	return 0
}

func appendRowDescription(dst []byte, columns []column, formats []int16) []byte {
	body := binary.BigEndian.AppendUint16(nil, uint16(len(columns)))
	for i, c := range columns {
		body = append(append(body, c.name...), 0)
		body = append(body, 0, 0, 0, 0, 0, 0) // no table, no attribute number
		body = binary.BigEndian.AppendUint32(body, c.oid)
		body = binary.BigEndian.AppendUint16(body, uint16(c.size))
		body = append(body, 0xff, 0xff, 0xff, 0xff) // no type modifier
		body = binary.BigEndian.AppendUint16(body, uint16(format(formats, i)))
	}
	return wire.AppendMessage(dst, wire.MsgRowDescription, body)
}
