package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// What may be stopped of the work of a server. A CancelRequest names a backend and no
// statement: it meets what runs when it arrives. Whoever sends one on his own account has
// to know what that can be.

// note notes what a statement may do that is about to be sent.
func (s *Server) note(k sqltext.Kind, f sqltext.Flags) {
	if k != sqltext.Read && k != sqltext.Probe && k != sqltext.Show {
		s.writes = true
	}
	if f&sqltext.EndsTx != 0 {
		s.ends = true
	}
}

// noteAll notes a statement of which not everything is known.
func (s *Server) noteAll() { s.writes, s.ends = true, true }

// Answered reports whether the first request of the bound client, up to its ReadyForQuery,
// has been answered.
func (s *Server) Answered() bool { return s.replied }

// Stoppable reports whether a CancelRequest sent now meets nothing, if the client sends no
// more, but its first request, and that one may be cancelled: nothing of it ends a
// transaction, which could be cancelled while it waits for a standby and then is done and
// reported as done. Whether it writes is another question: see ReadsOnly.
func (s *Server) Stoppable() bool {
	if s.replied || s.ends || !s.Cancellable() {
		return false
	}
	q := s.fifo.rest()
	for i := range q {
		if !q[i].kind.ready() {
			continue
		}
		if q[i].n > 1 {
			return false
		}
		for j := i + 1; j < len(q); j++ {
			if q[j].kind != kCopyEnd {
				return false // pipelined behind it
			}
		}
	}
	return true
}

// FailCopy makes the COPY FROM STDIN that the server takes data for fail, with why in the
// error: a server that waits for data does not heed a CancelRequest. What the client
// still sends of its data is ignored by the server. It does nothing, and returns false, if
// no COPY waits for data.
func (s *Server) FailCopy(why string, p *Plan) bool {
	if !s.copyIn || s.doubt || s.copyEnding() {
		return false
	}
	s.inject(p, wire.AppendCopyFail(nil, why))
	s.push(entry{kind: kCopyEnd})
	return true
}

// Stopped reports whether a request since Bind has failed because it was cancelled.
func (s *Server) Stopped() bool { return s.stopped }

// heed notes an error that says that something was cancelled.
func (s *Server) heed(raw []byte) {
	if code, ok := wire.ErrorField(raw[wire.HeaderLen:], 'C'); ok && code == wire.CodeQueryCanceled {
		s.stopped = true
	}
}
