package sim

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// check verifies the world at rest.
func (w *world) check() error {
	if err := w.core.Check(); err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	if st := w.core.Gate().Stats(); st.Running != 0 || st.Waiting != 0 || st.Sessions != 0 {
		return fmt.Errorf("at rest %d tickets are out, %d sessions keep a server and %d wait\n%s", st.Running, st.Sessions, st.Waiting, w.servers())
	}
	st := w.core.Set().Stats()
	if st.Busy != 0 || st.Closing != 0 || st.Held != 0 || st.Dialling != 0 {
		return fmt.Errorf("at rest the pool holds %+v\n%s", st, w.servers())
	}
	if st.Idle > w.o.Budget {
		return fmt.Errorf("at rest %d servers are open, %d allowed", st.Idle, w.o.Budget)
	}
	if st.Idle != w.opened {
		return fmt.Errorf("at rest the pool knows %d servers, %d are open", st.Idle, w.opened)
	}
	if w.core.Clients() != 0 {
		return fmt.Errorf("at rest %d sessions are left", w.core.Clients())
	}
	if w.rates != nil && w.rates.Escalation(w.now).Parked > 0 {
		return errors.New("at rest refusals are held back")
	}
	for _, be := range w.backends {
		if !be.gone && !be.b.Idle() {
			return fmt.Errorf("backend %s is idle in the pool but not in itself: state %c", be.sv.Info().Role, be.b.TxState())
		}
		if left := be.b.Left(); !be.gone && left != "" {
			return fmt.Errorf("a server has kept for a client that left: %s", left)
		}
	}
	for _, c := range w.clients {
		if err := c.check(); err != nil {
			return fmt.Errorf("client %d: %w", c.id, err)
		}
	}
	return nil
}

// check compares what the client was told with what a server of its own would
// have said.
func (c *client) check() error {
	if !c.welcome || c.hostile {
		return nil // refused at login, or not worth it
	}
	if c.reason == session.ServerDesync && !c.w.killing {
		return fmt.Errorf("out of step with its server\nsent\n%s\ngot\n%s", wiretest.DumpFrontend(c.sent), wiretest.DumpBackend(c.got))
	}
	params := make(map[string]string)
	for _, p := range c.params {
		params[p.Name] = p.Value
	}
	effects := &wiretest.Effects{}
	o := oracle{got: withoutNotifications(c.got), knocked: c.conn.hungUp, forgetful: c.w.o.Memory < 1<<20}
	if o.knocked {
		o.got = withoutKnock(o.got)
	}
	if o.excuses = c.w.capped; o.excuses {
		o.got = withoutExcuses(o.got)
	}
	o.b = wiretest.NewBackend(wiretest.BackendOptions{
		Params: params, Outcomes: c.w.outcomes, Effects: effects, Oracle: true, Before: o.before,
	})
	msgs, rest := wiretest.Messages(c.sent)
	var most []byte // what it had to say, kept back or not, before the end
	for _, m := range msgs {
		if all := o.all(); len(all) > len(most) {
			most = all // less is left of it when it dies
		}
		m = o.beginFirst(m)
		o.b.Feed(wire.AppendMessage(nil, m.Type, m.Body))
		o.b.Run()
		o.want = append(o.want, o.b.Output()...)
	}
	o.b.Feed(rest)
	o.b.Run()
	if !o.b.Dead() {
		o.want = append(o.want, o.b.Output()...)
		most = o.all()
	}
	if c.closed || c.halfDone {
		o.b.EOF()
		o.b.Run()
	}
	o.want = append(o.want, o.b.Output()...)
	got, cut := o.strip(o.got, c.closed || c.lost)
	want := o.said()
	ok := bytes.Equal(got, want)
	if cut {
		ok = bytes.HasPrefix(want, withoutPromises(got)) || bytes.HasPrefix(most, withoutPromises(got))
	}
	if !ok {
		return fmt.Errorf("answers differ (session ended: %s, closed by itself %v)\nsent\n%s\ngot\n%s\nwant\n%s", c.reason, c.closed,
			wiretest.DumpFrontend(c.sent), wiretest.DumpBackend(c.got), wiretest.DumpBackend(o.want))
	}
	return c.checkEffects(effects, cut)
}

// checkEffects verifies that nothing ran more often than it was asked to.
func (c *client) checkEffects(want *wiretest.Effects, cut bool) error {
	seen := make(map[string]bool)
	for _, e := range want.All() {
		if e.ID != "" {
			seen[e.ID] = true
		}
	}
	for _, e := range c.w.effects.All() {
		if strings.HasPrefix(e.ID, fmt.Sprintf("c%d_", c.id)) {
			seen[e.ID] = true
		}
	}
	for id := range seen {
		ran, done := c.w.effects.Count(id)
		may, must := want.Count(id)
		if ran > may || !cut && (ran != may || done != must) {
			return fmt.Errorf("statement %s ran %d times and was committed %d times; %d and %d are right (%s)\nsent\n%s\ngot\n%s", id, ran, done, may, must, c.reason, wiretest.DumpFrontend(c.sent), wiretest.DumpBackend(c.got))
		}
	}
	return nil
}

// oracle is a private server that is told what pgweir refused.
type oracle struct {
	b    *wiretest.Backend
	got  []byte // what the client was told
	want []byte // what the oracle has said so far
	// refused: the transaction has failed by a refusal.
	refused bool
	// forgetful: the memory for statements is small.
	forgetful bool
	// knocked: the client was told something to see whether it is there.
	knocked bool
	// excuses: it was told of what a ceiling has stopped.
	excuses bool
}

// said is what the oracle has said so far, but for what can't be compared.
func (o *oracle) said() []byte { return o.comparable(o.want) }

// all is that, and what it keeps back.
func (o *oracle) all() []byte {
	return o.comparable(append(o.want[:len(o.want):len(o.want)], o.b.Unflushed()...))
}

func (o *oracle) comparable(b []byte) []byte {
	if o.knocked {
		b = withoutKnock(b)
	}
	if o.excuses {
		b = withoutExcuses(b)
	}
	return b
}

// before makes a message fail with pgweir's refusal where the client was told
// one: in its place in the stream of answers.
func (o *oracle) before(_ int, m wiretest.Message) *wire.Error {
	switch m.Type {
	case wire.MsgQuery, wire.MsgParse, wire.MsgBind, wire.MsgDescribe, wire.MsgExecute, wire.MsgClose, wire.MsgFunctionCall:
	default:
		return nil // not a request
	}
	o.want = append(o.want, o.b.Output()...)
	said := o.all()
	if len(said) >= len(o.got) || !bytes.Equal(o.got[:len(said)], said) {
		return nil
	}
	msgs, _ := wiretest.Messages(o.got[len(said):])
	if len(msgs) == 0 || msgs[0].Type != wire.MsgErrorResponse {
		return nil
	}
	e := wire.ErrorFields(msgs[0].Body)
	if e.Severity == wire.SeverityError && (strings.HasPrefix(e.Detail, "reason=") || e.Code == readOnly) {
		o.refused = true
		return e
	}
	if o.forgetful && e.Code == "26000" && strings.HasPrefix(e.Message, "unnamed ") {
		return e // the text did not fit into the memory for statements
	}
	if o.refused = o.refused && o.b.TxState() == wire.InFailed; o.refused && e.Code == "25P02" {
		// Nothing of the transaction has reached a server, so pgweir answers
		// for it. It does not parse SQL: what Postgres would call a syntax
		// error or an unknown statement gets the answer that all get.
		return e
	}
	return nil
}

// beginFirst runs the BEGIN at the head of a string of statements alone, where the
// client was told that it has run and that the rest was refused. It returns the
// message that is left.
func (o *oracle) beginFirst(m wiretest.Message) wiretest.Message {
	first, rest, ok := bytes.Cut(m.Body, []byte(";"))
	said := len(o.said())
	if m.Type != wire.MsgQuery || !ok || o.b.TxState() != wire.Idle || len(o.b.Unflushed()) > 0 || said > len(o.got) {
		return m
	}
	told, _ := wiretest.Messages(o.got[said:])
	if len(told) < 2 || told[0].Type != wire.MsgCommandComplete || told[1].Type != wire.MsgErrorResponse {
		return m
	}
	if e := wire.ErrorFields(told[1].Body); e.Severity != wire.SeverityError || !strings.HasPrefix(e.Detail, "reason=") {
		return m // not a refusal: a ceiling has ended the session
	}
	o.b.Feed(wire.AppendQuery(nil, string(first)))
	o.b.Run()
	o.want = append(o.want, bytes.TrimSuffix(o.b.Output(), wire.AppendReadyForQuery(nil, wire.InTransaction))...)
	return wiretest.Message{Type: m.Type, Body: rest}
}

// strip takes a last word, pgweir's or a dying server's, off the transcript. It reports whether the
// transcript may end before the oracle's.
func (o *oracle) strip(got []byte, cut bool) ([]byte, bool) {
	msgs, rest := wiretest.Messages(got)
	if cut && len(rest) > 0 && rest[0] == wire.MsgErrorResponse && bytes.Contains(rest, []byte("Mpgweir: ")) {
		return got[:len(got)-len(rest)], cut // half of a refusal
	}
	if len(msgs) == 0 || len(rest) > 0 {
		return got, cut
	}
	last := msgs[len(msgs)-1]
	if last.Type != wire.MsgErrorResponse {
		return got, cut
	}
	e := wire.ErrorFields(last.Body)
	if e.Severity != wire.SeverityFatal {
		return got, cut
	}
	return got[:len(got)-len(last.Body)-wire.HeaderLen], true
}

// servers lists the servers for a failure.
func (w *world) servers() string {
	var b strings.Builder
	for _, sv := range w.core.Set().Servers(nil) {
		fmt.Fprintln(&b, sv.Payload)
	}
	for _, be := range w.backends {
		fmt.Fprintf(&b, "backend gone=%v tx=%c idle=%v unsent=%d kept=%d in=%d fin=%v eof=%v\n", be.gone, be.b.TxState(), be.b.Idle(),
			len(be.conn.unsent), len(be.conn.kept), len(be.conn.in), be.conn.fin, be.conn.eof)
	}
	return b.String()
}

// withoutKnock removes what pgweir says to a peer that has ended its writing
// side, to learn whether anybody still listens.
func withoutKnock(b []byte) (out []byte) {
	msgs, rest := wiretest.Messages(b)
	for _, m := range msgs {
		if m.Type == wire.MsgParameterStatus && bytes.HasPrefix(m.Body, []byte("application_name\x00")) {
			continue
		}
		out = wire.AppendMessage(out, m.Type, m.Body)
	}
	return append(out, rest...)
}

// withoutNotifications removes what a client that listens is told at any time.
func withoutNotifications(b []byte) []byte {
	if bytes.IndexByte(b, wire.MsgNotificationResponse) < 0 {
		return b
	}
	var out []byte
	msgs, rest := wiretest.Messages(b)
	for _, m := range msgs {
		if m.Type != wire.MsgNotificationResponse {
			out = wire.AppendMessage(out, m.Type, m.Body)
		}
	}
	if len(rest) > 0 && rest[0] == wire.MsgNotificationResponse {
		rest = nil // cut off by the end
	}
	return append(out, rest...)
}

// withoutPromises removes from the end what pgweir says at once where it knows
// it: a server keeps these back until a Sync, and loses them when it or the
// client ends before that.
func withoutPromises(b []byte) []byte {
	msgs, _ := wiretest.Messages(b)
	for i := len(msgs) - 1; i >= 0; i-- {
		switch msgs[i].Type {
		case wire.MsgParseComplete, wire.MsgCloseComplete, wire.MsgBindComplete, wire.MsgNoData,
			wire.MsgParameterDescription, wire.MsgCommandComplete:
			b = b[:len(b)-wire.HeaderLen-len(msgs[i].Body)]
		default:
			return b
		}
	}
	return b
}
