package wire

// Severities of errors and notices.
const (
	SeverityFatal   = "FATAL"   // the session ends
	SeverityError   = "ERROR"   // the session goes on
	SeverityWarning = "WARNING" // only in notices
)

// Error is what a client is told: the fields of an ErrorResponse or
// NoticeResponse that pgweir writes itself.
type Error struct {
	Severity string // "ERROR" (the session goes on), "FATAL" (it ends) or, in a notice, "WARNING"
	Code     string // SQLSTATE, five characters
	Message  string // one stable sentence; pgweir's own begin with "pgweir:"
	Detail   string // machine-readable key=value pairs; "" = none
	Hint     string // what to do; "" = none
}

// Error returns the text for logs.
func (e *Error) Error() string {
	s := e.Severity + " " + e.Code + ": " + e.Message
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// AppendError appends an ErrorResponse.
func AppendError(dst []byte, e *Error) []byte { return appendFields(dst, MsgErrorResponse, e) }

// AppendNotice appends a NoticeResponse.
func AppendNotice(dst []byte, e *Error) []byte { return appendFields(dst, MsgNoticeResponse, e) }

func appendFields(dst []byte, typ byte, e *Error) []byte {
	dst, at := begin(dst, typ)
	dst = appendField(dst, 'S', e.Severity)
	dst = appendField(dst, 'V', e.Severity)
	dst = appendField(dst, 'C', e.Code)
	dst = appendField(dst, 'M', e.Message)
	dst = appendField(dst, 'D', e.Detail)
	dst = appendField(dst, 'H', e.Hint)
	return end(append(dst, 0), at)
}

func appendField(dst []byte, code byte, v string) []byte {
	if v == "" {
		return dst
	}
	dst = append(append(dst, code), v...)
	return append(dst, 0)
}
