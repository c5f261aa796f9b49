package wire

import (
	"encoding/binary"
)

// HeaderLen is the length of a message's header: a type byte and a big-endian
// length that counts itself but not the type.
const HeaderLen = 5

// Transaction states as ReadyForQuery reports them.
const (
	Idle          byte = 'I' // no transaction is open
	InTransaction byte = 'T' // inside a transaction block
	InFailed      byte = 'E' // inside a transaction block that has failed
)

// Message types that a frontend sends.
const (
	MsgQuery        byte = 'Q'
	MsgParse        byte = 'P'
	MsgBind         byte = 'B'
	MsgDescribe     byte = 'D'
	MsgExecute      byte = 'E'
	MsgClose        byte = 'C'
	MsgSync         byte = 'S'
	MsgFlush        byte = 'H'
	MsgFunctionCall byte = 'F'
	MsgTerminate    byte = 'X'
	MsgCopyData     byte = 'd' // both directions
	MsgCopyDone     byte = 'c' // both directions
	MsgCopyFail     byte = 'f'
	MsgPassword     byte = 'p' // also SASLInitialResponse and SASLResponse
)

// Message types that a backend sends.
const (
	MsgAuthentication           byte = 'R'
	MsgBackendKeyData           byte = 'K'
	MsgBindComplete             byte = '2'
	MsgCloseComplete            byte = '3'
	MsgCommandComplete          byte = 'C'
	MsgCopyInResponse           byte = 'G'
	MsgCopyOutResponse          byte = 'H'
	MsgCopyBothResponse         byte = 'W'
	MsgDataRow                  byte = 'D'
	MsgEmptyQueryResponse       byte = 'I'
	MsgErrorResponse            byte = 'E'
	MsgFunctionCallResponse     byte = 'V'
	MsgNegotiateProtocolVersion byte = 'v'
	MsgNoData                   byte = 'n'
	MsgNoticeResponse           byte = 'N'
	MsgNotificationResponse     byte = 'A'
	MsgParameterDescription     byte = 't'
	MsgParameterStatus          byte = 'S'
	MsgParseComplete            byte = '1'
	MsgPortalSuspended          byte = 's'
	MsgReadyForQuery            byte = 'Z'
	MsgRowDescription           byte = 'T'
)

// begin appends a header whose length end fills in.
func begin(dst []byte, typ byte) ([]byte, int) {
	return append(dst, typ, 0, 0, 0, 0), len(dst)
}

// end writes the length of the message that starts at start.
func end(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	return dst
}

// AppendMessage appends a message of the given type and body.
func AppendMessage(dst []byte, typ byte, body []byte) []byte {
	dst = append(dst, typ, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(dst[len(dst)-4:], uint32(len(body)+4))
	return append(dst, body...)
}

// AppendReadyForQuery appends ReadyForQuery with one of the states Idle,
// InTransaction and InFailed.
func AppendReadyForQuery(dst []byte, state byte) []byte {
	return append(dst, MsgReadyForQuery, 0, 0, 0, 5, state)
}

// AppendCommandComplete appends CommandComplete with a tag such as "BEGIN".
func AppendCommandComplete(dst []byte, tag string) []byte {
	return appendString(dst, MsgCommandComplete, tag)
}

// AppendQuery appends a simple Query.
func AppendQuery(dst []byte, text string) []byte {
	return appendString(dst, MsgQuery, text)
}

// AppendCopyFail appends CopyFail with the reason that Postgres will quote.
func AppendCopyFail(dst []byte, reason string) []byte {
	return appendString(dst, MsgCopyFail, reason)
}

func appendString(dst []byte, typ byte, s string) []byte {
	dst, at := begin(dst, typ)
	dst = append(dst, s...)
	return end(append(dst, 0), at)
}

// AppendParse appends Parse for the statement name; tail is the rest of the
// body as it stands on the wire: text, terminator, parameter types.
func AppendParse(dst []byte, name string, tail string) []byte {
	dst, at := begin(dst, MsgParse)
	dst = append(append(dst, name...), 0)
	return end(append(dst, tail...), at)
}

// AppendBindNone appends Bind of a statement without parameters to the unnamed
// portal, all results as text.
func AppendBindNone(dst []byte, statement string) []byte {
	dst, at := begin(dst, MsgBind)
	dst = append(dst, 0)
	dst = append(append(dst, statement...), 0)
	return end(append(dst, 0, 0, 0, 0, 0, 0), at)
}

// AppendExecute appends Execute of the unnamed portal without a row limit.
func AppendExecute(dst []byte) []byte {
	return append(dst, MsgExecute, 0, 0, 0, 9, 0, 0, 0, 0, 0)
}

// AppendDescribe appends Describe of a statement ('S') or portal ('P').
func AppendDescribe(dst []byte, what byte, name string) []byte {
	return appendTarget(dst, MsgDescribe, what, name)
}

// AppendClose appends Close of a statement ('S') or portal ('P').
func AppendClose(dst []byte, what byte, name string) []byte {
	return appendTarget(dst, MsgClose, what, name)
}

func appendTarget(dst []byte, typ, what byte, name string) []byte {
	dst, at := begin(dst, typ)
	dst = append(append(dst, what), name...)
	return end(append(dst, 0), at)
}

// AppendEmpty appends a message without a body: Sync, Flush, Terminate,
// CopyDone, ParseComplete, BindComplete, CloseComplete, NoData,
// EmptyQueryResponse, PortalSuspended.
func AppendEmpty(dst []byte, typ byte) []byte {
	return append(dst, typ, 0, 0, 0, 4)
}

// AppendParameterStatus appends ParameterStatus.
func AppendParameterStatus(dst []byte, name, value string) []byte {
	dst, at := begin(dst, MsgParameterStatus)
	dst = append(append(dst, name...), 0)
	dst = append(append(dst, value...), 0)
	return end(dst, at)
}

// AppendBackendKeyData appends BackendKeyData. Protocol 3.0 wants a secret of
// 4 bytes, 3.2 allows 4 to 256.
func AppendBackendKeyData(dst []byte, pid uint32, secret []byte) []byte {
	dst, at := begin(dst, MsgBackendKeyData)
	dst = binary.BigEndian.AppendUint32(dst, pid)
	return end(append(dst, secret...), at)
}
