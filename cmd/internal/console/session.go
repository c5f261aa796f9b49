package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pgweir/pgweir/wire"
)

// session is one administrator's connection. Its fields belong to the goroutine of Serve;
// only the inbox is shared with the one that reads.
type session struct {
	c      *Console
	ctx    context.Context // of the connection's life
	who    Who
	in     inbox
	out    outbox
	state  byte              // of ReadyForQuery
	params map[string]string // what SHOW says of Postgres's parameters

	statements map[string]*statementPlan
	texts      int // bytes of their texts
	portals    map[string]*portal
	skipping   bool     // after an error, up to Sync
	after      []func() // to do when the answer is out
}

// Serve answers one administrator until it leaves or ctx ends, and closes the connection.
// AuthenticationOk has been sent; nothing that the peer sent behind its last answer has
// been read. The error says how the connection broke or how the peer broke the protocol;
// it is nil when the peer left or ctx ended.
func (c *Console) Serve(ctx context.Context, conn net.Conn, who Who) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &timed{Conn: conn, ctx: ctx, wait: c.o.WriteTimeout}
	backend := pgproto3.NewBackend(t, t)
	backend.SetMaxBodyLen(longestMessage)
	s := &session{
		c: c, ctx: ctx, who: who, state: wire.Idle, params: parameters(),
		in:         inbox{messages: make(chan message, readAhead), gone: make(chan struct{})},
		out:        outbox{backend: backend},
		statements: make(map[string]*statementPlan), portals: make(map[string]*portal),
	}
	hurry := context.AfterFunc(ctx, func() {
		_ = conn.SetWriteDeadline(time.Now().Add(lastWords)) // a closed connection needs none
	})
	stop, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		s.in.read(backend, stop)
	}()
	defer func() {
		if r := recover(); r != nil {
			c.o.Log.Error("console panicked", "panic", r, "stack", string(debug.Stack()))
			s.out.send(fatal(wire.CodeInternalError, "internal error in the console"), 0)
			s.out.flush()
			err = fmt.Errorf("console: panic: %v", r)
		}
		s.dropPortals()
		hurry()
		cancel()
		close(stop)
		_ = conn.Close() // it may be closed already
		<-read
	}()
	s.welcome()
	return s.loop()
}

// welcome says who speaks.
func (s *session) welcome() {
	s.params["server_version"] = "14.0/pgweir " + s.c.o.Version
	s.params["session_authorization"] = s.who.User
	for _, p := range s.who.Params {
		name := strings.ToLower(p.Name)
		if _, ok := s.params[name]; ok && name != "server_version" && name != "client_encoding" {
			_ = s.pretend(name, p.Value) // what can't be set stays as it is
		}
	}
	for _, name := range reported() {
		value := s.params[strings.ToLower(name)]
		s.out.send(&pgproto3.ParameterStatus{Name: name, Value: clean(value)}, len(value))
	}
	if s.who.Key.PID != 0 {
		s.out.send(&pgproto3.BackendKeyData{ProcessID: s.who.Key.PID, SecretKey: s.who.Key.Secret()}, 0)
	}
	s.ready()
}

// ready ends an answer.
func (s *session) ready() {
	s.out.send(&pgproto3.ReadyForQuery{TxStatus: s.state}, 0)
	s.out.flush()
	for _, f := range s.after {
		f()
	}
	s.after = nil
}

// loop answers messages.
func (s *session) loop() error {
	for s.out.err == nil {
		select {
		case <-s.ctx.Done():
			s.out.send(fatal(wire.CodeAdminShutdown, "pgweir: the console ends: pgweir shuts down"), 0)
			s.out.flush()
			return nil
		case m, ok := <-s.in.messages:
			if !ok {
				return s.left()
			}
			if err := s.handle(m); err != nil {
				s.out.send(fatal(wire.CodeProtocolViolation, err.Error()), 0)
				s.out.flush()
				return err
			}
		}
	}
	if s.ctx.Err() != nil {
		return nil
	}
	return s.out.err
}

// left deals with the end of what the peer sends.
func (s *session) left() error {
	err := s.in.err
	if err == nil || s.ctx.Err() != nil {
		return nil
	}
	code, text := wire.CodeProtocolViolation, "the message can't be read: "+err.Error()
	if _, ok := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); ok {
		code, text = wire.CodeProgramLimit, fmt.Sprintf("the console takes messages of at most %d bytes", longestMessage)
	}
	s.out.send(fatal(code, clean(text)), 0)
	s.out.flush()
	return err
}

// handle answers one message. An error ends the session.
func (s *session) handle(m message) error {
	if s.skipping && m.kind != wire.MsgSync {
		return nil
	}
	switch m.kind {
	case wire.MsgQuery:
		s.simple(m.text)
	case wire.MsgSync:
		s.skipping = false
		if s.state == wire.Idle {
			s.dropPortals()
		}
		s.ready()
	case wire.MsgFlush:
		s.out.flush()
	case wire.MsgFunctionCall:
		s.refuse(fail(wire.CodeFeatureNotSupported, "the console has no functions to call"))
		s.ready()
	case wire.MsgCopyData: // without a COPY it is ignored, as Postgres does
	case wire.MsgParse, wire.MsgBind, wire.MsgDescribe, wire.MsgExecute, wire.MsgClose:
		if err := s.extended(m); err != nil {
			s.refuse(err)
			s.out.flush() // now: the peer may wait for it before it sends Sync
			s.skipping = true
		}
	default:
		return errors.New("unexpected message")
	}
	return nil
}

// refuse sends an error.
func (s *session) refuse(err error) {
	r := response(err)
	s.out.send(r, len(r.Message)+len(r.Detail)+len(r.Hint))
}

// notice tells something beside an answer.
func (s *session) notice(severity, text, hint string) {
	text, hint = clean(text), clean(hint)
	s.out.send(&pgproto3.NoticeResponse{
		Severity: severity, SeverityUnlocalized: severity, Code: wire.CodeSuccessful, Message: text, Hint: hint,
	}, len(text)+len(hint))
}

// simple answers a Query: every command of it, up to the first error.
func (s *session) simple(query string) {
	s.forget("") // as Postgres does
	s.dropPortal("")
	list, err := s.c.parse(query)
	if err == nil && len(list) == 0 {
		s.out.send(&pgproto3.EmptyQueryResponse{}, 0)
	}
	for i := 0; err == nil && i < len(list); i++ {
		err = s.answer(list[i])
	}
	if err != nil {
		s.refuse(err)
	}
	s.ready()
}

// answer runs one command of a Query.
func (s *session) answer(cmd command) error {
	p := s.plan(cmd)
	if err := s.permit(p); err != nil {
		return err
	}
	if p.columns != nil {
		s.out.send(describe(p.columns, nil), 64*len(p.columns))
	}
	return s.complete(p, nil)
}

// complete runs a plan to its end and says so.
func (s *session) complete(p *plan, f formats) error {
	tag, err := s.run(p, f)
	if err != nil {
		return err
	}
	s.out.send(&pgproto3.CommandComplete{CommandTag: []byte(tag)}, len(tag))
	return nil
}
