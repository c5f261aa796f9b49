package parity

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// frame is one message of a server as it is compared.
type frame struct {
	line  string // all of it, in words
	place string // where in PostgreSQL's source an error was raised: only PostgreSQL knows
	login bool   // it stands before the first ReadyForQuery
}

// frames takes a stream of a server apart. Bytes that are no whole message make a frame
// of their own.
func frames(b []byte) []frame {
	var list []frame
	for len(b) > 0 && strings.IndexByte("NSG", b[0]) >= 0 && loneByte(b) {
		list = append(list, frame{line: fmt.Sprintf("answer to a request for encryption: %c", b[0])})
		b = b[1:]
	}
	msgs, rest := wiretest.Messages(b)
	login := true
	for _, m := range msgs {
		f := oneFrame(m)
		f.login = login
		list = append(list, f)
		login = login && m.Type != wire.MsgReadyForQuery
	}
	if len(rest) > 0 {
		list = append(list, frame{line: fmt.Sprintf("%d bytes of no message: %q", len(rest), short(rest))})
	}
	return list
}

// loneByte tells an answer to SSLRequest from a NoticeResponse or ParameterStatus: no
// length that makes sense follows it.
func loneByte(b []byte) bool {
	return len(b) < wire.HeaderLen || binary.BigEndian.Uint32(b[1:]) > 1<<24
}

func oneFrame(m wiretest.Message) frame {
	switch m.Type {
	case wire.MsgErrorResponse, wire.MsgNoticeResponse:
		return errorFrame(m)
	case wire.MsgBackendKeyData:
		return frame{line: fmt.Sprintf("BackendKeyData with a secret of %d bytes", len(m.Body)-4)}
	case wire.MsgNotificationResponse:
		return frame{line: fmt.Sprintf("NotificationResponse %s", short(m.Body[min(4, len(m.Body)):]))}
	}
	return frame{line: messageName(m.Type) + " " + short(m.Body)}
}

// short writes a body in words that differ when the body does.
func short(b []byte) string {
	if len(b) > 300 {
		return fmt.Sprintf("%d bytes, SHA-256 %x", len(b), sha256.Sum256(b))
	}
	return fmt.Sprintf("%q", b)
}

// errorFrame keeps every field, those about the source apart.
func errorFrame(m wiretest.Message) frame {
	var line, place strings.Builder
	line.WriteString(messageName(m.Type))
	b := m.Body
	for len(b) > 1 {
		value, rest, ok := strings.Cut(string(b[1:]), "\x00")
		if !ok {
			fmt.Fprintf(&line, " unterminated %q", b)
			return frame{line: line.String()}
		}
		switch b[0] {
		case 'F', 'L', 'R':
			fmt.Fprintf(&place, " %c=%s", b[0], value)
		case 'M':
			fmt.Fprintf(&line, " M=%q", ownName(value))
		default:
			fmt.Fprintf(&line, " %c=%q", b[0], value)
		}
		b = []byte(rest)
	}
	return frame{line: line.String(), place: place.String()}
}

// ownName hides the number in a name that pgweir has given to a statement on a server.
func ownName(text string) string {
	before, after, ok := strings.Cut(text, `"pgweir_`)
	if !ok {
		return text
	}
	return before + `"pgweir_N` + strings.TrimLeft(after, "0123456789")
}

// withoutSigns drops what pgweir says to a client that has ended its sending side, to find
// out whether somebody still listens: an application_name as it is already. It is the one
// thing that may be said in addition anywhere.
func withoutSigns(direct, through []frame) []frame {
	var out []frame
	for _, f := range through {
		if strings.HasPrefix(f.line, `ParameterStatus "application_name`) &&
			!slices.ContainsFunc(direct, func(d frame) bool { return !d.login && same(d, f) }) && !f.login {
			continue
		}
		out = append(out, f)
	}
	return out
}

func messageName(typ byte) string {
	names := map[byte]string{
		wire.MsgAuthentication: "Authentication", wire.MsgParameterStatus: "ParameterStatus",
		wire.MsgReadyForQuery: "ReadyForQuery", wire.MsgCommandComplete: "CommandComplete",
		wire.MsgDataRow: "DataRow", wire.MsgRowDescription: "RowDescription",
		wire.MsgParseComplete: "ParseComplete", wire.MsgBindComplete: "BindComplete",
		wire.MsgCloseComplete: "CloseComplete", wire.MsgNoData: "NoData",
		wire.MsgParameterDescription: "ParameterDescription", wire.MsgPortalSuspended: "PortalSuspended",
		wire.MsgEmptyQueryResponse: "EmptyQueryResponse", wire.MsgErrorResponse: "ErrorResponse",
		wire.MsgNoticeResponse: "NoticeResponse", wire.MsgCopyInResponse: "CopyInResponse",
		wire.MsgCopyOutResponse: "CopyOutResponse", wire.MsgCopyData: "CopyData", wire.MsgCopyDone: "CopyDone",
		wire.MsgFunctionCallResponse: "FunctionCallResponse", 'v': "NegotiateProtocolVersion",
	}
	if n := names[typ]; n != "" {
		return n
	}
	return fmt.Sprintf("message of type %q", typ)
}

// differing lists what only PostgreSQL said ("- ...") and what only pgweir said
// ("+ ..."), in order; it is empty if both said the same. An error that pgweir passes on
// must name the place in the source that PostgreSQL named.
func differing(client string, direct, through []frame) []string {
	for len(direct) > 0 && len(through) > 0 && same(direct[0], through[0]) {
		direct, through = direct[1:], through[1:]
	}
	if len(direct)*len(through) > 1<<22 {
		return []string{
			fmt.Sprintf("- %s %d frames from %s on", client, len(direct), direct[0].line),
			fmt.Sprintf("+ %s %d frames from %s on", client, len(through), through[0].line),
		}
	}
	// The longest common subsequence.
	n, m := len(direct), len(through)
	common := make([][]int, n+1)
	for i := range common {
		common[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if same(direct[i], through[j]) {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []string
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && same(direct[i], through[j]):
			i, j = i+1, j+1
		case j == m || i < n && common[i+1][j] >= common[i][j+1]:
			out = append(out, "- "+client+" "+direct[i].shown(through))
			i++
		default:
			out = append(out, "+ "+client+" "+through[j].shown(direct))
			j++
		}
	}
	return out
}

// shown is the frame as a difference shows it: with the place if that is the difference.
func (f frame) shown(others []frame) string {
	if slices.ContainsFunc(others, func(o frame) bool { return o.line == f.line && !same(f, o) && !same(o, f) }) {
		return f.line + f.place
	}
	return f.line
}

// same compares two frames. PostgreSQL complains of a failed transaction in several places,
// and where a statement has to be parsed again for its Bind it is the Parse that complains.
func same(direct, through frame) bool {
	return direct.line == through.line &&
		(through.place == "" || direct.place == through.place || strings.Contains(through.line, `C="25P02"`))
}
