package parity

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// A refusal must be to the client as if its statement had failed in PostgreSQL. So a
// conversation in which pgweir has refused something is played with PostgreSQL once more,
// with a statement that fails in each place where there was a refusal: then the two must
// agree again in everything, from ReadyForQuery's state to the rows in the tables.

// stumble is a name that PostgreSQL does not know, and shows in its error.
const (
	stumble    = "refused_by_pgweir"
	noFunction = "function with OID 0 does not exist" // of a FunctionCall
)

// isRefusal reports whether a message is a refusal by pgweir that keeps the session.
func isRefusal(m wiretest.Message) bool {
	return m.Type == wire.MsgErrorResponse && wiretest.ErrorField(m.Body, 'V') == "ERROR" && refusedFor(m) != "" &&
		refusedFor(m) != "statement_mode"
}

// refusedFor is the reason in an error of pgweir's, "" in any other message.
func refusedFor(m wiretest.Message) string {
	if m.Type != wire.MsgErrorResponse {
		return ""
	}
	rest, ok := strings.CutPrefix(wiretest.ErrorField(m.Body, 'D'), "reason=")
	if !ok || !strings.HasPrefix(wiretest.ErrorField(m.Body, 'M'), "pgweir: ") {
		return ""
	}
	reason, _, _ := strings.Cut(rest, " ")
	return reason
}

// afterLogin is what a server has said behind the first ReadyForQuery; ok is false if there
// was none.
func afterLogin(b []byte) (msgs []wiretest.Message, ok bool) {
	for len(b) > 0 && strings.IndexByte("NSG", b[0]) >= 0 && loneByte(b) {
		b = b[1:]
	}
	msgs, _ = wiretest.Messages(b)
	i := slices.IndexFunc(msgs, func(m wiretest.Message) bool { return m.Type == wire.MsgReadyForQuery })
	return msgs[i+1:], i >= 0
}

// errUnclear says that the bytes alone do not tell which answer belongs to which request.
var errUnclear = errors.New("which request was refused cannot be told")

// refusals returns the numbers of the requests in whose place refusals stand among the
// answers.
func refusals(requests, answers []wiretest.Message) ([]int, error) {
	w := walk{requests: requests}
	var list []int
	for _, m := range answers {
		if isRefusal(m) {
			w.trim()
			if w.copying || w.at >= len(requests) {
				return nil, errUnclear
			}
			list = append(list, w.at)
		}
		if err := w.receive(m); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// walk goes along the requests as their answers come.
type walk struct {
	requests []wiretest.Message
	at       int
	copying  bool // the request at is in COPY FROM STDIN
}

// trim steps over requests without an answer.
func (w *walk) trim() {
	for w.at < len(w.requests) && !w.copying && slices.Contains([]byte{
		wire.MsgFlush, wire.MsgCopyData, wire.MsgCopyDone, wire.MsgCopyFail,
	}, w.requests[w.at].Type) {
		w.at++
	}
}

// receive takes an answer.
func (w *walk) receive(m wiretest.Message) error {
	w.trim()
	if w.at >= len(w.requests) {
		return nil // asynchronous
	}
	typ := w.requests[w.at].Type
	simple := typ == wire.MsgQuery || typ == wire.MsgFunctionCall
	switch m.Type {
	case wire.MsgErrorResponse:
		if w.copying {
			return errUnclear
		}
		if !simple {
			for w.at < len(w.requests) && w.requests[w.at].Type != wire.MsgSync {
				w.at++
			}
		}
	case wire.MsgReadyForQuery:
		w.at++
	case wire.MsgCopyInResponse:
		w.copying = true
	case wire.MsgCommandComplete, wire.MsgEmptyQueryResponse, wire.MsgPortalSuspended:
		if w.copying {
			w.copying = false
			w.requests = w.without()
		}
		if !simple {
			w.at++
		}
	case wire.MsgParseComplete, wire.MsgBindComplete, wire.MsgCloseComplete, wire.MsgNoData:
		w.at++
	case wire.MsgRowDescription:
		if !simple {
			w.at++
		}
	}
	return nil
}

// without makes what the COPY has consumed messages without an answer, so that the numbers
// stay.
func (w *walk) without() []wiretest.Message {
	list := slices.Clone(w.requests)
	for i := w.at + 1; i < len(list); i++ {
		typ := list[i].Type
		list[i].Type = wire.MsgFlush
		if typ == wire.MsgCopyDone || typ == wire.MsgCopyFail {
			break
		}
	}
	return list
}

// requests are the messages that a sequence has a client send behind its login.
func (s *sequence) requests(client string) ([]wiretest.Message, error) {
	var all []wiretest.Message
	for _, st := range s.steps {
		if st.op != opSend || st.client != client {
			continue
		}
		msgs, rest := wiretest.Messages(st.bytes)
		if len(rest) > 0 {
			return nil, errUnclear
		}
		all = append(all, msgs...)
	}
	return all, nil
}

// leaves reports whether some Query ends a transaction in front of other statements. After a
// refusal pgweir wants that by itself: it has no server to which it could pass the rest.
func (s *sequence) leaves() bool {
	return slices.ContainsFunc(s.steps, func(st step) bool {
		msgs, _ := wiretest.Messages(st.bytes)
		return st.op == opSend && slices.ContainsFunc(msgs, func(m wiretest.Message) bool {
			first, rest, _ := bytes.Cut(m.Body, []byte{';'})
			return m.Type == wire.MsgQuery && len(bytes.Trim(rest, " ;\x00")) > 0 &&
				sqltext.Classify(first).Flags&sqltext.EndsTx != 0
		})
	})
}

// stumbling is the sequence with a statement that fails in the place of each of the given
// requests of its clients.
func (s *sequence) stumbling(at map[string][]int) *sequence {
	out := *s
	out.steps = slices.Clone(s.steps)
	seen := make(map[string]int)
	for i, st := range out.steps {
		if st.op != opSend {
			continue
		}
		msgs, rest := wiretest.Messages(st.bytes)
		var b []byte
		for _, m := range msgs {
			if slices.Contains(at[st.client], seen[st.client]) {
				b = append(b, stumbleAt(m)...)
			}
			if !slices.Contains(at[st.client], seen[st.client]) || !simpleRequest(m) {
				b = wire.AppendMessage(b, m.Type, m.Body)
			}
			seen[st.client]++
		}
		out.steps[i].bytes = append(b, rest...)
	}
	return &out
}

// simpleRequest reports whether the server answers a message with a ReadyForQuery of its own.
func simpleRequest(m wiretest.Message) bool {
	return m.Type == wire.MsgQuery || m.Type == wire.MsgFunctionCall
}

// stumbleAt is a request that fails as the message would if it were refused. As in a
// refusal, the BEGIN in front of other statements is done, and the unnamed statement is gone
// if it was to be parsed anew.
func stumbleAt(m wiretest.Message) []byte {
	const text = "select " + stumble
	switch {
	case m.Type == wire.MsgFunctionCall:
		return wiretest.AppendFunctionCall(nil, 0)
	case m.Type == wire.MsgQuery:
		if begin, _, several := bytes.Cut(m.Body, []byte{';'}); several && sqltext.Classify(begin).Kind == sqltext.Begin {
			return wire.AppendQuery(nil, string(begin)+"; "+text)
		}
		return wire.AppendQuery(nil, text)
	case m.Type == wire.MsgParse && m.Body[0] == 0:
		return wiretest.AppendParse(nil, "", text)
	}
	return wire.AppendDescribe(nil, 'S', stumble)
}
