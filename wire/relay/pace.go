package relay

import "github.com/pgweir/pgweir/wire"

// Where the time that a statement takes is limited, it has to be known when one ends and the
// next begins, and what may be stopped of it at any time.

// SetPaced makes each Execute of the client be answered as soon as it is done, also where its
// batch goes on: the server is told to flush. The client sees the same answers.
func (c *Client) SetPaced(on bool) { c.paced = on }

// Pace sends the Flush of a paced client that is due: its latest Execute has no Sync behind it
// yet. Call it when no more of what the client has sent can be read.
func (c *Client) Pace(p *Plan) {
	s := c.server
	if s == nil || !s.unflushed {
		return
	}
	s.unflushed = false
	s.inject(p, wire.AppendEmpty(nil, wire.MsgFlush))
}

// Steps counts the statements that the server has ended; it wraps around. Those of one Query
// count as one, and so do the ones of a batch whose client is not paced.
func (s *Server) Steps() uint32 { return s.steps }

// Turns counts the transactions that the server has ended, as far as that can be seen; it
// wraps around. What COMMIT ends inside a procedure can't.
func (s *Server) Turns() uint32 { return s.turns }

// Stop says whether what a server runs may be stopped by a CancelRequest.
type Stop uint8

// The answers of MayStop.
const (
	Never   Stop = iota // not now: it ends a transaction, or is none of the client's
	IfAlone             // if no commit waits for a standby: else it could be done, and reported as done, without it
	Always
)

// MayStop reports whether a CancelRequest may be sent for what the server runs, at any place
// of a pipeline. It may meet what is behind it.
func (s *Server) MayStop() Stop {
	if !s.Cancellable() {
		return Never
	}
	q := s.fifo.rest()
	for i := range q {
		e := &q[i]
		if e.end || e.kind == kSync { // a Sync commits
			return Never
		}
		if e.kind.ready() || e.kind == kExecute {
			break // this is what runs
		}
	}
	switch {
	case s.ends:
		return IfAlone
	case s.ReadsOnly(), s.tx != wire.Idle, s.block:
		return Always // nothing of it ends the block that is open
	}
	return IfAlone
}

// Excuse makes the client be told e if what runs now fails because it was cancelled. The
// severity must be ERROR.
func (s *Server) Excuse(e *wire.Error) { s.excuse, s.excused = e, s.steps }

// excuseFor returns what the client is told in the place of an error of the server, or nil.
func (s *Server) excuseFor(raw []byte) *wire.Error {
	if s.excuse == nil || s.excused != s.steps {
		return nil
	}
	if code, ok := wire.ErrorField(raw[wire.HeaderLen:], 'C'); !ok || code != wire.CodeQueryCanceled {
		return nil
	}
	return s.excuse
}
