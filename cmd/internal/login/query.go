package login

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pgweir/pgweir/wire"
)

// Query runs one statement that gives one row, and returns the row's columns as
// text; NULL is the empty text. What the server reports meanwhile goes into
// s.Status, and nothing is read past ReadyForQuery.
//
// A *[Refusal] is the server's own error. After any error, of which some wrap
// [ErrProtocol], the connection is of no use any more. All is bounded by ctx.
func (s *Server) Query(ctx context.Context, sql string) (row []string, err error) {
	release := bound(ctx, s.Conn)
	defer release()
	if _, err := s.Conn.Write(wire.AppendQuery(nil, sql)); err != nil {
		return nil, blame(ctx, err)
	}
	a := answer{status: s.status}
	err = a.read(s.Conn)
	if a.refused != nil {
		return nil, a.refused // an end of the connection was what it announced
	}
	if err != nil {
		return nil, blame(ctx, closed(err))
	}
	if a.rows != 1 {
		return nil, fmt.Errorf("%w: %d rows where one was expected", ErrProtocol, a.rows)
	}
	return a.row, nil
}

// answer is what came for a query.
type answer struct {
	status  func(wire.Param)
	rows    int
	row     []string // the first
	refused error
}

// read takes messages up to ReadyForQuery, within the bounds of a log-in.
func (a *answer) read(conn io.Reader) error {
	return readAnswer(conn, maxMessages, "messages after a query", a.message)
}

// readAnswer hands messages to take until it is done, at most so many of what and no more bytes
// than a log-in may have.
func readAnswer(conn io.Reader, most int, what string, take func(typ byte, body []byte) (done bool, err error)) error {
	bytes := 0
	for range most {
		typ, body, err := wire.ReadMessage(conn, maxMessage)
		if bad, ok := errors.AsType[*wire.LengthError](err); ok {
			return fmt.Errorf("%w: %w", ErrProtocol, bad)
		}
		if err != nil {
			return err
		}
		if bytes += len(body); bytes > maxLogin {
			break
		}
		if done, err := take(typ, body); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: no end of %s", ErrProtocol, what)
}

// closed says so of a connection that has ended where a message was to come.
func closed(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// message takes one message; done means that the server waits for the next query.
func (a *answer) message(typ byte, body []byte) (done bool, err error) {
	switch typ {
	case wire.MsgRowDescription, wire.MsgCommandComplete, wire.MsgNoticeResponse, wire.MsgNotificationResponse:
	case wire.MsgErrorResponse:
		a.refused = refusal(body)
	case wire.MsgParameterStatus:
		p, err := wire.ParseParameterStatus(body)
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		a.status(p)
	case wire.MsgDataRow:
		if a.rows++; a.rows == 1 {
			a.row, err = columns(body)
		}
	case wire.MsgReadyForQuery:
		if state, err := wire.ParseReadyForQuery(body); err != nil || state != wire.Idle {
			return false, fmt.Errorf("%w: not idle after a query", ErrProtocol)
		}
		return true, nil
	default:
		return false, fmt.Errorf("%w: message of type %q after a query", ErrProtocol, typ)
	}
	return false, err
}

// columns reads a DataRow, with NULL as the empty text.
func columns(body []byte) ([]string, error) {
	list, err := cells(body)
	var row []string
	for _, c := range list {
		if c == nil {
			c = new(string)
		}
		row = append(row, *c)
	}
	return row, err
}

// cells reads a DataRow, with NULL as nil.
func cells(body []byte) (row []*string, err error) {
	damaged := fmt.Errorf("%w: damaged row", ErrProtocol)
	if len(body) < 2 {
		return nil, damaged
	}
	n, body := int(binary.BigEndian.Uint16(body)), body[2:]
	for range n {
		if len(body) < 4 {
			return nil, damaged
		}
		size := int64(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		switch {
		case size == -1:
			row = append(row, nil)
			continue
		case size < -1 || size > int64(len(body)):
			return nil, damaged
		}
		text := string(body[:size])
		row, body = append(row, &text), body[size:]
	}
	if len(body) > 0 {
		return nil, damaged
	}
	return row, nil
}
