package wiretest

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// DumpFrontend returns one line for each message that a frontend sent, such as
// `-> Query "select 1"`, and one for a rest that is no whole message.
func DumpFrontend(b []byte) string { return dump(b, "-> ", frontendLine) }

// DumpBackend returns one line for each message that a backend sent, such as
// `<- ParseComplete`.
func DumpBackend(b []byte) string { return dump(b, "<- ", backendLine) }

func dump(b []byte, arrow string, line func(Message) string) string {
	var out strings.Builder
	msgs, rest := Messages(b)
	for _, m := range msgs {
		out.WriteString(arrow + line(m) + "\n")
	}
	if len(rest) > 0 {
		fmt.Fprintf(&out, "%s(%d bytes: %s)\n", arrow, len(rest), short(rest))
	}
	return out.String()
}

// short quotes at most 60 bytes.
func short(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q... of %d", b[:60], len(b))
	}
	return fmt.Sprintf("%q", b)
}

func frontendLine(m Message) string {
	r := &reader{b: m.Body}
	switch m.Type {
	case wire.MsgQuery:
		return "Query " + short([]byte(r.string()))
	case wire.MsgParse:
		return fmt.Sprintf("Parse %q %s", r.string(), short([]byte(r.string())))
	case wire.MsgBind:
		return bindLine(r)
	case wire.MsgDescribe, wire.MsgClose:
		verb := map[byte]string{wire.MsgDescribe: "Describe", wire.MsgClose: "Close"}[m.Type]
		return fmt.Sprintf("%s %c %q", verb, r.byte(), r.string())
	case wire.MsgExecute:
		return fmt.Sprintf("Execute %q limit=%d", r.string(), r.int32())
	case wire.MsgSync:
		return "Sync"
	case wire.MsgFlush:
		return "Flush"
	case wire.MsgTerminate:
		return "Terminate"
	case wire.MsgFunctionCall:
		return fmt.Sprintf("FunctionCall %d", uint32(r.int32()))
	case wire.MsgCopyData:
		return "CopyData " + short(m.Body)
	case wire.MsgCopyDone:
		return "CopyDone"
	case wire.MsgCopyFail:
		return "CopyFail " + short([]byte(r.string()))
	}
	return fmt.Sprintf("%q %s", m.Type, short(m.Body))
}

func bindLine(r *reader) string {
	portal, name := r.string(), r.string()
	r.formats()
	var params []string
	for range r.int16() {
		if r.err != nil {
			break
		}
		params = append(params, short(r.value()))
	}
	return fmt.Sprintf("Bind portal=%q statement=%q params=[%s]", portal, name, strings.Join(params, " "))
}

func backendLine(m Message) string {
	r := &reader{b: m.Body}
	switch m.Type {
	case wire.MsgCommandComplete:
		return "CommandComplete " + r.string()
	case wire.MsgReadyForQuery:
		return fmt.Sprintf("ReadyForQuery %c", r.byte())
	case wire.MsgErrorResponse:
		return "ErrorResponse " + errorText(m.Body)
	case wire.MsgNoticeResponse:
		return "NoticeResponse " + errorText(m.Body)
	case wire.MsgParameterStatus:
		return fmt.Sprintf("ParameterStatus %s=%q", r.string(), r.string())
	case wire.MsgDataRow:
		return rowLine(r)
	case wire.MsgRowDescription:
		return fmt.Sprintf("RowDescription columns=%d first=%q", r.int16(), r.string())
	case wire.MsgCopyData:
		return "CopyData " + short(m.Body)
	case wire.MsgParameterDescription:
		return fmt.Sprintf("ParameterDescription %v", binaryWords(m.Body))
	case wire.MsgBackendKeyData:
		return fmt.Sprintf("BackendKeyData pid=%d", r.int32())
	}
	if name := plainName(m.Type); name != "" {
		return name
	}
	return fmt.Sprintf("%q %s", m.Type, short(m.Body))
}

// plainName names the backend messages of which the body is of no interest.
func plainName(typ byte) string {
	return map[byte]string{
		wire.MsgParseComplete:        "ParseComplete",
		wire.MsgBindComplete:         "BindComplete",
		wire.MsgCloseComplete:        "CloseComplete",
		wire.MsgNoData:               "NoData",
		wire.MsgPortalSuspended:      "PortalSuspended",
		wire.MsgEmptyQueryResponse:   "EmptyQueryResponse",
		wire.MsgCopyInResponse:       "CopyInResponse",
		wire.MsgCopyOutResponse:      "CopyOutResponse",
		wire.MsgCopyDone:             "CopyDone",
		wire.MsgFunctionCallResponse: "FunctionCallResponse",
		wire.MsgAuthentication:       "Authentication",
		wire.MsgNotificationResponse: "NotificationResponse",
	}[typ]
}

func rowLine(r *reader) string {
	var cols []string
	for range r.int16() {
		if r.err != nil {
			break
		}
		if v := r.value(); v == nil {
			cols = append(cols, "NULL")
		} else {
			cols = append(cols, short(v))
		}
	}
	return "DataRow [" + strings.Join(cols, " ") + "]"
}

func binaryWords(b []byte) []uint32 {
	var out []uint32
	for i := 2; i+4 <= len(b); i += 4 {
		out = append(out, binary.BigEndian.Uint32(b[i:]))
	}
	return out
}

// ErrorField returns a field of the body of an ErrorResponse or NoticeResponse,
// such as 'C' for the SQLSTATE; "" if it is missing.
func ErrorField(body []byte, field byte) string {
	r := &reader{b: body}
	for r.err == nil {
		f := r.byte()
		if f == 0 {
			break
		}
		if v := r.string(); f == field {
			return v
		}
	}
	return ""
}

func errorText(body []byte) string {
	text := ErrorField(body, 'V') + " " + ErrorField(body, 'C') + " " + fmt.Sprintf("%q", ErrorField(body, 'M'))
	if d := ErrorField(body, 'D'); d != "" {
		text += fmt.Sprintf(" detail=%q", d)
	}
	return text
}
