package login

import (
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/pgweir/pgweir/wire"
)

// Select is a statement with its parameters, which are bound, never written into the text.
type Select struct {
	Text string
	Args []string // text, of types that the server finds out
}

// maxSelectRows bounds what a Select may give.
const maxSelectRows = 4096

// Select runs statements one after the other, each in a transaction of its own, and returns
// the rows of each as text. NULL is nil. All are sent before the first answer is awaited.
//
// A *[Refusal] is the server's own error in one of them; the connection then serves on. After
// any other error, of which some wrap [ErrProtocol], it is of no use any more. All is bounded
// by ctx.
func (s *Server) Select(ctx context.Context, list ...Select) (results [][][]*string, err error) {
	release := bound(ctx, s.Conn)
	defer release()
	var out []byte
	for _, q := range list {
		out = q.append(out)
	}
	if _, err := s.Conn.Write(out); err != nil {
		return nil, blame(ctx, err)
	}
	var refused error
	for range list {
		a := selected{answer: answer{status: s.status}}
		if err := a.read(s.Conn); err != nil {
			return nil, blame(ctx, errors.Join(closed(err), a.refused))
		}
		if refused == nil {
			refused = a.refused
		}
		results = append(results, a.rows)
	}
	if refused != nil {
		return nil, refused
	}
	return results, nil
}

// append appends the messages of a statement.
func (q *Select) append(b []byte) []byte {
	b = wire.AppendParse(b, "", q.Text+"\x00\x00\x00") // no types of parameters
	bind := []byte{0, 0, 0, 0}                         // unnamed portal and statement; all parameters as text
	bind = binary.BigEndian.AppendUint16(bind, uint16(len(q.Args)))
	for _, arg := range q.Args {
		bind = binary.BigEndian.AppendUint32(bind, uint32(len(arg)))
		bind = append(bind, arg...)
	}
	bind = append(bind, 0, 0) // all columns as text
	b = wire.AppendMessage(b, wire.MsgBind, bind)
	return wire.AppendEmpty(wire.AppendExecute(b), wire.MsgSync)
}

// selected is what came for one statement.
type selected struct {
	answer
	rows [][]*string
}

// read takes messages up to ReadyForQuery, within bounds.
func (a *selected) read(conn io.Reader) error {
	return readAnswer(conn, maxSelectRows+maxMessages, "rows", a.message)
}

// message takes one message, as answer's does, but all rows.
func (a *selected) message(typ byte, body []byte) (done bool, err error) {
	switch typ {
	case wire.MsgParseComplete, wire.MsgBindComplete, wire.MsgEmptyQueryResponse:
		return false, nil
	case wire.MsgDataRow:
		row, err := cells(body)
		if err == nil {
			a.rows = append(a.rows, row)
		}
		return false, err
	}
	return a.answer.message(typ, body)
}
