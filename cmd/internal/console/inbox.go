package console

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
)

// Bounds of what is held for one peer.
const (
	longestMessage = 32 << 10 // bytes of one message
	readAhead      = 16       // messages that wait behind the one being answered
)

// message is what the session needs of a message of the peer, in memory of its own.
type message struct {
	kind    byte   // its letter
	name    string // of the statement, or of what Describe and Close mean
	portal  string // of Bind and Execute
	text    string // of Query and Parse
	what    byte   // of Describe and Close: 'S' or 'P'
	formats formats
	params  int    // how many values Bind has
	rows    uint32 // how many Execute wants; 0 = all
}

// inbox reads messages ahead, on a goroutine, so that the end of the peer is seen while a
// command waits.
type inbox struct {
	messages chan message  // closed after the last one
	gone     chan struct{} // closed when nothing more will be read
	err      error         // why; valid once gone is closed. nil = the peer left
}

// read reads until the peer leaves, breaks the protocol, or stop is closed and the
// connection too.
func (b *inbox) read(backend *pgproto3.Backend, stop <-chan struct{}) {
	defer close(b.messages)
	for {
		m, err := backend.Receive()
		if err != nil {
			b.end(err)
			return
		}
		if _, ok := m.(*pgproto3.Terminate); ok {
			b.end(nil)
			return
		}
		select {
		case b.messages <- keep(m):
		case <-stop:
			b.end(nil)
			return
		}
	}
}

// end says that nothing more will be read.
func (b *inbox) end(err error) {
	if _, broken := errors.AsType[net.Error](err); !broken && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		b.err = err
	}
	close(b.gone)
}

// keep copies what is needed of a message.
func keep(m pgproto3.FrontendMessage) message {
	switch m := m.(type) {
	case *pgproto3.Query:
		return message{kind: wire.MsgQuery, text: m.String}
	case *pgproto3.Parse:
		return message{kind: wire.MsgParse, name: m.Name, text: m.Query}
	case *pgproto3.Bind:
		return message{
			kind: wire.MsgBind, name: m.PreparedStatement, portal: m.DestinationPortal,
			formats: slices.Clone(m.ResultFormatCodes), params: len(m.Parameters),
		}
	case *pgproto3.Describe:
		return message{kind: wire.MsgDescribe, what: m.ObjectType, name: m.Name}
	case *pgproto3.Execute:
		return message{kind: wire.MsgExecute, portal: m.Portal, rows: m.MaxRows}
	case *pgproto3.Close:
		return message{kind: wire.MsgClose, what: m.ObjectType, name: m.Name}
	case *pgproto3.Sync:
		return message{kind: wire.MsgSync}
	case *pgproto3.Flush:
		return message{kind: wire.MsgFlush}
	case *pgproto3.FunctionCall:
		return message{kind: wire.MsgFunctionCall}
	case *pgproto3.CopyData, *pgproto3.CopyDone, *pgproto3.CopyFail:
		return message{kind: wire.MsgCopyData}
	}
	return message{} // a password: not now
}
