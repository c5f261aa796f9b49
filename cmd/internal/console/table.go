package console

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// typ is a column's type, by its object id in Postgres.
type typ uint32

const (
	boolean typ = 16
	integer typ = 20 // int8
	str     typ = 25 // text
	real    typ = 701
)

// size is the length of a value, as RowDescription tells it.
func (t typ) size() int16 {
	switch t {
	case boolean:
		return 1
	case integer, real:
		return 8
	}
	return -1
}

// column is a column of a table.
type column struct {
	name string
	typ  typ
}

// columns makes columns of names; one with a "#" in front holds integers, with "~" numbers
// with a fraction, and all others text.
func columns(names ...string) []column {
	list := make([]column, len(names))
	for i, n := range names {
		switch n[0] {
		case '#':
			list[i] = column{n[1:], integer}
		case '~':
			list[i] = column{n[1:], real}
		default:
			list[i] = column{n, str}
		}
	}
	return list
}

// describe makes the RowDescription of columns.
func describe(list []column, f formats) *pgproto3.RowDescription {
	d := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(list))}
	for i, c := range list {
		d.Fields[i] = pgproto3.FieldDescription{
			Name: []byte(clean(c.name)), DataTypeOID: uint32(c.typ), DataTypeSize: c.typ.size(), TypeModifier: -1,
		}
		if f.binary(i) {
			d.Fields[i].Format = pgproto3.BinaryFormat
		}
	}
	return d
}

// formats are a Bind's result formats: none = text, one = for all columns, or one each.
type formats []int16

// binary reports whether column i is asked for in binary.
func (f formats) binary(i int) bool {
	switch len(f) {
	case 0:
		return false
	case 1:
		return f[0] == pgproto3.BinaryFormat
	}
	return i < len(f) && f[i] == pgproto3.BinaryFormat
}

// row is one row under construction. It is used again for the next one; values beyond the
// width are dropped, so that columns of ours can be left out.
type row struct {
	formats formats
	width   int
	message pgproto3.DataRow
	scratch []byte
	size    int // bytes of the values
}

// begin empties the row.
func (r *row) begin() *row {
	r.message.Values = r.message.Values[:0]
	r.scratch, r.size = r.scratch[:0], 0
	return r
}

// full reports whether no further value is wanted.
func (r *row) full() bool { return len(r.message.Values) >= r.width }

// put adds what was appended to scratch since from.
func (r *row) put(from int) *row {
	r.message.Values = append(r.message.Values, r.scratch[from:len(r.scratch):len(r.scratch)])
	r.size += len(r.scratch) - from
	return r
}

func (r *row) binary() bool { return r.formats.binary(len(r.message.Values)) }

// text adds a text.
func (r *row) text(s string) *row {
	if r.full() {
		return r
	}
	from := len(r.scratch)
	r.scratch = append(r.scratch, clean(s)...)
	if r.scratch == nil {
		r.scratch = []byte{} // nil would be NULL
	}
	return r.put(from)
}

// optional adds a text, or NULL if it is empty.
func (r *row) optional(s string) *row {
	if s == "" {
		return r.null()
	}
	return r.text(s)
}

// null adds NULL.
func (r *row) null() *row {
	if !r.full() {
		r.message.Values = append(r.message.Values, nil)
	}
	return r
}

// number adds integers.
func (r *row) number(list ...int64) *row {
	for _, n := range list {
		if r.full() {
			return r
		}
		from := len(r.scratch)
		if r.binary() {
			r.scratch = binary.BigEndian.AppendUint64(r.scratch, uint64(n))
		} else {
			r.scratch = strconv.AppendInt(r.scratch, n, 10)
		}
		r.put(from)
	}
	return r
}

// count adds integers.
func (r *row) count(list ...int) *row {
	for _, n := range list {
		r.number(int64(n))
	}
	return r
}

// total adds counters. What does not fit into an int8 is cut off.
func (r *row) total(list ...uint64) *row {
	for _, n := range list {
		r.number(int64(min(n, math.MaxInt64)))
	}
	return r
}

// flag adds 1 or 0.
func (r *row) flag(yes bool) *row {
	if yes {
		return r.number(1)
	}
	return r.number(0)
}

// truth adds a boolean.
func (r *row) truth(yes bool) *row {
	if r.full() {
		return r
	}
	from := len(r.scratch)
	switch {
	case r.binary() && yes:
		r.scratch = append(r.scratch, 1)
	case r.binary():
		r.scratch = append(r.scratch, 0)
	case yes:
		r.scratch = append(r.scratch, 't')
	default:
		r.scratch = append(r.scratch, 'f')
	}
	return r.put(from)
}

// fraction adds numbers with two digits behind the point.
func (r *row) fraction(list ...float64) *row {
	for _, n := range list {
		if r.full() {
			return r
		}
		from := len(r.scratch)
		n = math.Round(n*100) / 100
		if r.binary() {
			r.scratch = binary.BigEndian.AppendUint64(r.scratch, math.Float64bits(n))
		} else {
			r.scratch = strconv.AppendFloat(r.scratch, n, 'f', -1, 64)
		}
		r.put(from)
	}
	return r
}

// millis adds a duration in milliseconds.
func (r *row) millis(d time.Duration) *row { return r.number(d.Milliseconds()) }

// split adds a duration as seconds and the microseconds beyond them.
func (r *row) split(d time.Duration) *row {
	return r.number(int64(d/time.Second), int64(d%time.Second/time.Microsecond))
}

// moment adds a time as PgBouncer writes it, or NULL.
func (r *row) moment(t time.Time) *row {
	if t.IsZero() {
		return r.null()
	}
	return r.text(t.UTC().Format("2006-01-02 15:04:05 UTC"))
}

// instant adds a time with its milliseconds, or NULL.
func (r *row) instant(t time.Time) *row {
	if t.IsZero() {
		return r.null()
	}
	return r.text(t.UTC().Format("2006-01-02 15:04:05.000 UTC"))
}

// clean makes a text fit for the wire: what clients call themselves may be anything.
func clean(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
