package console

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
)

// Bounds of what one session may prepare.
const (
	mostStatements = 1000
	mostTexts      = 1 << 20 // bytes
	mostPortals    = 100
)

// statementPlan is a prepared statement; its plan is nil if its text was empty.
type statementPlan struct {
	plan *plan
	text int // bytes
}

// portal is a bound statement, and where its rows are.
type portal struct {
	plan    *plan // nil: an empty text
	formats formats
	next    func() (*row, bool) // of the rows; nil before a first Execute with a bound
	stop    func()
	err     error // of making rows
	sent    uint64
	done    bool
}

// extended answers a message of the extended protocol. After an error the session skips to
// the next Sync.
func (s *session) extended(m message) error {
	switch m.kind {
	case wire.MsgParse:
		return s.prepare(m)
	case wire.MsgBind:
		return s.bind(m)
	case wire.MsgDescribe:
		return s.describe(m)
	case wire.MsgExecute:
		return s.execute(m)
	}
	if m.what == 'S' {
		s.forget(m.name)
	} else {
		s.dropPortal(m.name)
	}
	s.out.send(&pgproto3.CloseComplete{}, 0)
	return nil
}

// prepare answers Parse.
func (s *session) prepare(m message) error {
	list, err := s.c.parse(m.text)
	switch {
	case err != nil:
		return err
	case len(list) > 1:
		return fail(wire.CodeSyntaxError, "cannot insert multiple commands into a prepared statement")
	}
	if m.name == "" {
		s.forget("")
	} else if s.statements[m.name] != nil {
		return fail(wire.CodeDuplicateStatement, "prepared statement %q already exists", shorten(m.name))
	}
	if len(s.statements) >= mostStatements || s.texts+len(m.text) > mostTexts {
		return fail(wire.CodeConfigurationLimit, "too many prepared statements").because("DEALLOCATE ALL drops them.")
	}
	st := &statementPlan{text: len(m.text)}
	if len(list) == 1 {
		st.plan = s.plan(list[0])
	}
	s.statements[m.name] = st
	s.texts += st.text
	s.out.send(&pgproto3.ParseComplete{}, 0)
	return nil
}

// forget drops a prepared statement, if there is one.
func (s *session) forget(name string) {
	if st := s.statements[name]; st != nil {
		s.texts -= st.text
		delete(s.statements, name)
	}
}

// bind answers Bind.
func (s *session) bind(m message) error {
	st := s.statements[m.name]
	switch {
	case st == nil:
		return fail(wire.CodeInvalidStatementName, "prepared statement %q does not exist", shorten(m.name))
	case m.params > 0:
		return fail(wire.CodeProtocolViolation, "bind message supplies %d parameters, but the statement requires 0", m.params)
	case st.plan != nil && len(m.formats) > 1 && len(m.formats) != len(st.plan.columns):
		return fail(wire.CodeProtocolViolation, "bind message has %d result formats but query has %d columns", len(m.formats), len(st.plan.columns))
	}
	if m.portal == "" {
		s.dropPortal("")
	} else if s.portals[m.portal] != nil {
		return fail("42P03", "portal %q already exists", shorten(m.portal))
	}
	if len(s.portals) >= mostPortals {
		return fail(wire.CodeConfigurationLimit, "too many portals")
	}
	s.portals[m.portal] = &portal{plan: st.plan, formats: m.formats}
	s.out.send(&pgproto3.BindComplete{}, 0)
	return nil
}

// describe answers Describe.
func (s *session) describe(m message) error {
	var p *plan
	var f formats
	if m.what == 'S' {
		st := s.statements[m.name]
		if st == nil {
			return fail(wire.CodeInvalidStatementName, "prepared statement %q does not exist", shorten(m.name))
		}
		p = st.plan
		s.out.send(&pgproto3.ParameterDescription{}, 0)
	} else {
		po := s.portals[m.name]
		if po == nil {
			return fail(wire.CodeInvalidCursorName, "portal %q does not exist", shorten(m.name))
		}
		p, f = po.plan, po.formats
	}
	if p == nil || p.columns == nil {
		s.out.send(&pgproto3.NoData{}, 0)
	} else {
		s.out.send(describe(p.columns, f), 64*len(p.columns))
	}
	return nil
}

// execute answers Execute.
func (s *session) execute(m message) error {
	po := s.portals[m.portal]
	if po == nil {
		return fail(wire.CodeInvalidCursorName, "portal %q does not exist", shorten(m.portal))
	}
	if po.plan == nil {
		s.out.send(&pgproto3.EmptyQueryResponse{}, 0)
		return nil
	}
	if err := s.permit(po.plan); err != nil {
		return err
	}
	if po.done {
		return fail("55000", "portal %q cannot be run", shorten(m.portal))
	}
	if po.plan.rows != nil && (m.rows > 0 || po.next != nil) {
		return s.some(po, m.rows)
	}
	po.done = true
	return s.complete(po.plan, po.formats)
}

// some sends the next rows of a portal, at most so many; 0 = all that are left.
func (s *session) some(po *portal, most uint32) error {
	if po.next == nil {
		po.next, po.stop = iter.Pull(s.sequence(po))
	}
	for n := uint32(0); most == 0 || n < most; n++ {
		r, ok := po.next()
		if !ok {
			po.done = true
			if po.err != nil {
				return s.explain(po.plan, po.err)
			}
			s.out.send(&pgproto3.CommandComplete{CommandTag: po.plan.tagOf(po.sent)}, 0)
			return nil
		}
		po.sent++
		s.out.send(&r.message, r.size+4*len(r.message.Values))
		if s.out.err != nil {
			return s.out.err
		}
	}
	s.out.send(&pgproto3.PortalSuspended{}, 0)
	return nil
}

// sequence turns the rows of a portal around: they are taken instead of given.
func (s *session) sequence(po *portal) iter.Seq[*row] {
	return func(yield func(*row) bool) {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		po.err = po.plan.rows(ctx, s.row(po.plan, po.formats), func(r *row) error {
			if !yield(r) {
				return errClosed
			}
			return nil
		})
	}
}

// dropPortal closes a portal, if there is one.
func (s *session) dropPortal(name string) {
	po := s.portals[name]
	if po == nil {
		return
	}
	if po.stop != nil {
		po.stop()
	}
	delete(s.portals, name)
}

// dropPortals closes all portals.
func (s *session) dropPortals() {
	for name := range s.portals {
		s.dropPortal(name)
	}
}
