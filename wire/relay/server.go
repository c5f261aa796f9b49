package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// Shared is what all sessions of a process have in common. It belongs to one
// loop.
type Shared struct {
	Statements  *Statements
	MaxPrepared int // prepared statements kept on one server connection
	TextLimit   int // bytes; a longer statement streams, and only its beginning is looked at
	// MaxOutstanding bounds the answers that a client may be owed before it is not read any
	// more; 0 = 4,096.
	MaxOutstanding int
	groups         uint32
	rest           Counts
	asked          asked
	facts          map[uint32]*Facts // by group, those of the last server that was new
}

// asked is the text of the request for which the last Acquire asked, here because it is
// wanted once, and clients are many.
type asked struct {
	by   *Client
	text []byte
	st   *Statement
}

// NewGroup numbers a database and role.
func (sh *Shared) NewGroup() uint32 {
	sh.groups++
	return sh.groups
}

// dirt is what a server must be cleaned of before another client may have it.
type dirt uint8

const (
	dirtSettings dirt = 1 << iota // SET SESSION AUTHORIZATION DEFAULT; RESET ALL
	dirtSession                   // DISCARD ALL: temp tables, LISTEN, advisory locks, cursors, SQL PREPARE, doubts about ours
	dirtLibrary                   // nothing takes a library away that was loaded
)

// dirtOf maps what a statement may leave behind to what cleans it. The flags are without
// Session if all is known that it sets.
func dirtOf(f sqltext.Flags) dirt {
	var d dirt
	if f&sqltext.Session != 0 {
		d |= dirtSettings
	}
	if f&(sqltext.Temp|sqltext.Listen|sqltext.Prepare|sqltext.Cursor|sqltext.Advisory|sqltext.Dealloc) != 0 {
		d |= dirtSession
	}
	if f&sqltext.Load != 0 {
		d |= dirtLibrary
	}
	return d
}

// Reported tells whether every supported server announces changes of this
// lower-cased parameter with ParameterStatus, so that it can follow its client.
func Reported(name string) bool {
	switch name {
	case applicationName, "client_encoding", "datestyle", "intervalstyle", "timezone", "standard_conforming_strings":
		return true
	}
	return false
}

// Server is the protocol state of one server connection. Owned by the loop that
// owns the connection.
type Server struct {
	shared *Shared
	group  uint32
	client *Client // nil while idle, being cleaned or drained for a client that left
	keeper *Client // whose it is, also while client is nil: see Client.Keep
	pinner Pinner
	fifo   fifo

	tx       byte   // state of the last ReadyForQuery
	batch    bool   // extended messages were sent and no Sync yet
	asked    bool   // the server was sent some of them
	exits    bool   // what was sent of the open batch leaves a failed transaction, if it succeeds
	skip     bool   // the server discards until a Sync that was not sent yet
	copyIn   bool   // the head entry is a COPY FROM STDIN in progress
	doubt    bool   // Syncs may or may not have been read inside a COPY: a probe will tell
	simple   bool   // the COPY in doubt was a simple Query
	later    []byte // to be sent when the client's message under way has ended
	answered []byte // states of the ReadyForQuery that came during a doubt
	orphan   bool   // its client left: swallow what comes
	cleaning bool   // an earlier client's traces are being removed

	reset   resetting
	heal    healing
	opening bool // in statement mode: what runs may open a transaction block
	writes  bool // something outstanding is not known to be a read
	ends    bool // something outstanding may end a transaction
	stopped bool // something of the bound client's was cancelled
	// replied: the first request of the bound client is answered.
	replied bool
	// unflushed: what an Execute of a paced client is answered may be kept back by the server.
	unflushed bool
	steps     uint32      // statements that have ended
	turns     uint32      // transactions that have
	excuse    *wire.Error // what the bound client is told if what runs is cancelled
	excused   uint32      // the steps before that
	copyOut   bool        // the head entry is a COPY TO STDOUT in progress

	rest        int  // bytes of the current message's body still to come
	restForward bool // they are the client's
	fatal       bool // FATAL came: the connection is about to end, and the client knows why
	dying       bool // the same, whoever knows

	begun       bool // the pending BEGIN was sent and is not answered: nothing may follow the first request
	beginFailed bool // the pending BEGIN failed: the client is told 'E'
	touched     bool // the bound client has sent something
	statements  int  // of these
	block       bool // it is known that a transaction block has been opened, before tx says so
	counts      *Counts
	fresh       bool // the open batch has its own unnamed statement
	foreign     bool // an unnamed statement of an earlier client may be there
	unnamed     *Statement

	dirt     dirt
	applied  *Params // settings that differ from this connection's defaults
	accepted map[Param]struct{}
	status   []Param // ParameterStatus as last reported
	defaults []Param // ParameterStatus at login
	facts    *Facts  // the same, shared
	prepared lru
	unclosed []*prepared // still there because their Close was skipped
	before   *Params     // applied before the settings that are under way
	failure  *wire.Error // why they failed
}

// maxAccepted bounds the values remembered as accepted on one server.
const maxAccepted = 512

// NewServer returns the state of a server connection right after its login;
// status is its ParameterStatus messages, group as for NewClient.
func NewServer(shared *Shared, group uint32, status []Param) *Server {
	return &Server{
		shared: shared, group: group, tx: wire.Idle, applied: &Params{}, status: status, defaults: status,
		facts:    shared.factsOf(group, status),
		accepted: make(map[Param]struct{}),
		prepared: lru{byKey: make(map[prepKey]*prepared)},
	}
}

// Status returns the server's ParameterStatus as last reported. The caller must
// not change it.
func (s *Server) Status() []Param { return s.status }

// Tx returns the state of the last ReadyForQuery.
func (s *Server) Tx() byte { return s.tx }

// Outstanding returns the number of answers that the server still owes.
func (s *Server) Outstanding() int { return s.fifo.total }

// Dirty reports whether the server must be cleaned before it goes back.
func (s *Server) Dirty() bool { return s.dirt != 0 }

// Spoiled reports whether nothing would make the server what it was: it must be closed.
func (s *Server) Spoiled() bool { return s.dirt&dirtLibrary != 0 }

// Dying reports whether the server has said that it is about to close: it takes no more
// requests, though its connection may end a while later.
func (s *Server) Dying() bool { return s.dying }

// Told reports whether the client has been given the server's last word: when
// the connection ends now, nothing must be added.
func (s *Server) Told() bool { return s.fatal }

// MidMessage reports whether a message for the client is only partly passed on.
func (s *Server) MidMessage() bool { return s.rest > 0 && s.restForward }

// Touched reports whether the bound client has sent anything: if not, it does
// not matter to it when this server ends.
func (s *Server) Touched() bool { return s.touched }

// Statements is how many statements the bound client has sent: queries, portals that it has
// run and function calls.
func (s *Server) Statements() int { return s.statements }

// Cancellable reports whether a CancelRequest sent now can only meet work of
// the client's own: something runs and none of it is ours.
func (s *Server) Cancellable() bool {
	if s.fifo.empty() {
		return false
	}
	for i := range s.fifo.rest() {
		switch s.fifo.rest()[i].inj {
		case injNone:
		case injBegin:
			// The pending BEGIN is answered together with what it precedes, so to
			// wait for its answer would be to wait for the end of what is to be
			// cancelled. If the cancel meets the BEGIN, that fails with it.
		default:
			return false
		}
	}
	return true
}

// ReadsOnly reports whether all that is outstanding is known to read, so that
// cancelling it loses nothing.
func (s *Server) ReadsOnly() bool { return !s.writes || s.copyOut && s.fifo.total == 1 }

// CopyingIn reports whether the server waits for COPY data.
func (s *Server) CopyingIn() bool { return s.copyIn }

// WaitsForClient reports whether the server can't come to a boundary unless the
// client says more: COPY data, a Sync, or the end of its transaction.
func (s *Server) WaitsForClient() bool {
	return s.fifo.empty() || s.batch || s.skip || s.copyIn && !s.copyEnding()
}

// Flush makes the server send the answers that it may be keeping back, so that
// what was asked for is answered before the client is told that it has broken
// the protocol. It reports whether answers are to come.
func (s *Server) Flush(p *Plan) bool {
	if s.fifo.empty() || s.copyIn {
		return false
	}
	if s.batch {
		p.server(p.build(func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.MsgFlush) }))
	}
	return true
}

// boundary reports whether nothing is outstanding and the server waits for a
// new command.
func (s *Server) boundary() bool {
	return s.fifo.total == 0 && !s.batch && !s.skip && s.rest == 0
}

// maxStatus bounds the parameters that a server reports; Postgres has about fifteen.
const maxStatus = 256

// setStatus records a ParameterStatus. It reports false if there are too many.
func (s *Server) setStatus(name, value string) bool {
	for i := range s.status {
		if s.status[i].Name == name {
			if s.status[i].Value != value {
				list := make([]Param, len(s.status))
				copy(list, s.status)
				list[i].Value = value
				s.status = list
			}
			return true
		}
	}
	if len(s.status) >= maxStatus {
		return false
	}
	s.status = append(s.status[:len(s.status):len(s.status)], Param{Name: name, Value: value})
	return true
}

// isDefault reports whether value is what the server reported at login.
func (s *Server) isDefault(name, value string) bool {
	for i := range s.defaults {
		if s.defaults[i].Name == name {
			return s.defaults[i].Value == value
		}
	}
	return false
}

// accept remembers that the server has taken these settings.
func (s *Server) accept(ps *Params) {
	if len(s.accepted)+len(ps.kv) > maxAccepted {
		clear(s.accepted)
	}
	for _, p := range ps.kv {
		if !ps.acting || anybodys(p.Name) { // else it may be the right of that role
			s.accepted[p] = struct{}{}
		}
	}
}

// Free drops the references that the server holds. The connection is closed.
func (s *Server) Free() {
	t := s.shared.Statements
	for _, e := range s.fifo.rest() {
		t.release(e.old)
	}
	s.client = nil
	if s.keeper != nil {
		s.keeper.kept, s.keeper = nil, nil
	}
	s.fifo = fifo{}
	t.release(s.unnamed)
	s.unnamed = nil
	for p := s.prepared.oldest(); p != nil; p = s.prepared.oldest() {
		s.prepared.remove(p)
		t.release(p.key.st)
	}
}
