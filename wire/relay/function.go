package relay

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// function handles a FunctionCall, which names a function by its number.
func (c *Client) function(m message, p *Plan) int {
	if len(m.body()) < 4 && !m.complete() {
		return 0
	}
	left, refusal := c.pinFunction(m.body())
	if refusal != nil {
		return c.refuseText(m, refusal, p)
	}
	s := c.server
	if !largeObjects(m.body()) {
		s.dirt |= dirtSettings | dirtSession // it may set or lock
	}
	s.writes = true
	s.push(entry{kind: kFunction, left: left})
	return c.take(m, p, false)
}

// largeObjects reports whether a FunctionCall is one of those that libpq makes for large
// objects: they leave nothing behind their transaction.
func largeObjects(body []byte) bool {
	if len(body) < 4 {
		return false
	}
	switch binary.BigEndian.Uint32(body) {
	case 952, 953, 954, 955, 956, 957, 958, 964, 715, 1004, 3170, 3171, 3172:
		// lo_open, lo_close, loread, lowrite, lo_lseek, lo_creat, lo_tell, lo_unlink,
		// lo_create, lo_truncate, lo_lseek64, lo_tell64, lo_truncate64
		return true
	}
	return false
}

// pinFunction is changes for a FunctionCall.
func (c *Client) pinFunction(body []byte) (*leaving, *wire.Error) {
	if len(body) < 4 {
		return nil, nil
	}
	switch binary.BigEndian.Uint32(body) {
	case 2880, 2881, 2882, 2883, 2886, 2887, 2888, 2889: // pg_advisory_lock and its kin
	default:
		return nil, nil
	}
	if e := c.mayPin(PinLock); e != nil {
		return nil, e
	}
	if c.pins == nil {
		c.pins = &pinState{}
	}
	return leavingOf([]sqltext.Change{{Effect: sqltext.MayLock}}), nil
}
