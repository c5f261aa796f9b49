package relay

import (
	"bytes"

	"github.com/pgweir/pgweir/wire"
)

// What the pools of drivers send when an application gives a connection back, as asyncpg
// does after every use. Outside a transaction a client without a server has none of what it
// would remove, so no server is asked: a pool whose clean-up is refused throws the connection
// away, and opens a new one in the worst moment.

// cleanUps are the statements that such a text may consist of, in lower case.
func cleanUps() [4]string {
	return [...]string{"select pg_advisory_unlock_all()", "close all", "unlisten *", "reset all"}
}

// longestCleanUp bounds the length of such a text.
const longestCleanUp = 128

// cleanUp reads a text that consists of nothing else, and returns its statements as
// indices of cleanUps. There is at least one, and they end with nothing.
func cleanUp(text []byte) (list [8]byte, n int, ok bool) {
	if len(text) > longestCleanUp || !bytes.Contains(text, []byte("pg_advisory_unlock_all()")) {
		return list, 0, false
	}
	for len(text) > 0 {
		var piece []byte
		piece, text, _ = bytes.Cut(text, []byte{';'})
		if piece = bytes.TrimSpace(piece); len(piece) == 0 {
			continue
		}
		found := false
		for i, s := range cleanUps() {
			if len(piece) == len(s) && bytes.EqualFold(piece, []byte(s)) {
				if n == len(list) {
					return list, 0, false
				}
				list[n], found = byte(i), true
				n++
			}
		}
		if !found {
			return list, 0, false
		}
	}
	return list, n, n > 0
}

// cleans answers a Query that only cleans up. It reports whether the text is such a one, and
// there is nothing that a server would have to tell: settings that go back to what they were.
func (c *Client) cleans(text []byte, p *Plan) bool {
	if c.tx != wire.Idle || !c.apart() || !c.want.equal(c.initial) {
		return false
	}
	list, n, ok := cleanUp(text)
	if !ok {
		return false
	}
	p.client(p.build(func(dst []byte) []byte {
		for _, i := range list[:n] {
			switch i {
			case 0:
				dst = wire.AppendMessage(dst, wire.MsgRowDescription, unlockRow)
				dst = wire.AppendMessage(dst, wire.MsgDataRow, []byte{0, 1, 0, 0, 0, 0})
				dst = wire.AppendCommandComplete(dst, "SELECT 1")
			case 1:
				dst = wire.AppendCommandComplete(dst, "CLOSE CURSOR ALL")
			case 2:
				dst = wire.AppendCommandComplete(dst, "UNLISTEN")
			case 3:
				c.resetOwn()
				dst = wire.AppendCommandComplete(dst, "RESET")
			}
		}
		return wire.AppendReadyForQuery(dst, wire.Idle)
	}))
	c.endOwn(true)
	return true
}

// unlockRow describes the row of pg_advisory_unlock_all(): one column of type void.
var unlockRow = []byte("\x00\x01pg_advisory_unlock_all\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\xe6\x00\x04\xff\xff\xff\xff\x00\x00")
