package wiretest

import (
	"encoding/binary"

	"github.com/pgweir/pgweir/wire"
)

// Message is one message of the protocol, without its length.
type Message struct {
	Type byte
	Body []byte // aliases the input of Messages
}

// Messages splits b into whole messages. What follows the last whole message,
// or starts with an impossible length, comes back as rest.
func Messages(b []byte) (msgs []Message, rest []byte) {
	for len(b) >= wire.HeaderLen {
		n := int(int32(binary.BigEndian.Uint32(b[1:]))) + 1
		if n < wire.HeaderLen || n > len(b) {
			break
		}
		msgs = append(msgs, Message{Type: b[0], Body: b[wire.HeaderLen:n:n]})
		b = b[n:]
	}
	return msgs, b
}

// AppendParse appends a Parse of text under name ("" is the unnamed statement)
// with the given parameter types; a missing type is for the server to infer.
func AppendParse(dst []byte, name, text string, types ...uint32) []byte {
	tail := append([]byte(text), 0)
	tail = binary.BigEndian.AppendUint16(tail, uint16(len(types)))
	for _, t := range types {
		tail = binary.BigEndian.AppendUint32(tail, t)
	}
	return wire.AppendParse(dst, name, string(tail))
}

// Bind describes a Bind message. The zero value binds the unnamed statement to
// the unnamed portal, without parameters, all results as text.
type Bind struct {
	Portal        string
	Statement     string
	Params        [][]byte // nil element = NULL
	ParamFormats  []int16  // none, one for all, or one each: 0 text, 1 binary
	ResultFormats []int16  // the same for the columns of the result
}

// AppendBind appends the Bind message that d describes.
func AppendBind(dst []byte, d Bind) []byte {
	body := append([]byte(d.Portal), 0)
	body = append(append(body, d.Statement...), 0)
	body = appendFormats(body, d.ParamFormats)
	body = appendValues(body, d.Params)
	return wire.AppendMessage(dst, wire.MsgBind, appendFormats(body, d.ResultFormats))
}

// AppendExecute appends an Execute of portal that returns at most limit rows,
// all of them if limit is 0.
func AppendExecute(dst []byte, portal string, limit int) []byte {
	body := append([]byte(portal), 0)
	body = binary.BigEndian.AppendUint32(body, uint32(limit))
	return wire.AppendMessage(dst, wire.MsgExecute, body)
}

// AppendFunctionCall appends a FunctionCall with arguments and result in
// binary. The fake knows one function: OID 177, int4pl.
func AppendFunctionCall(dst []byte, oid uint32, args ...[]byte) []byte {
	body := binary.BigEndian.AppendUint32(nil, oid)
	body = appendFormats(body, []int16{1})
	body = appendValues(body, args)
	return wire.AppendMessage(dst, wire.MsgFunctionCall, binary.BigEndian.AppendUint16(body, 1))
}

func appendFormats(dst []byte, formats []int16) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(formats)))
	for _, f := range formats {
		dst = binary.BigEndian.AppendUint16(dst, uint16(f))
	}
	return dst
}

func appendValues(dst []byte, values [][]byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(values)))
	for _, v := range values {
		dst = appendValue(dst, v)
	}
	return dst
}

// appendValue appends a length and the value; nil is NULL.
func appendValue(dst, v []byte) []byte {
	if v == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	return append(dst, v...)
}

// reader takes a message's body apart as Postgres' pq_getmsg functions do. The
// first failure sticks; later reads yield zero values.
type reader struct {
	b   []byte
	err *wire.Error
}

func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = newError("08P01", "%s", text)
	}
	r.b = nil
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail("insufficient data left in message")
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail("no data left in message")
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) int16() int {
	if b := r.bytes(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int {
	if b := r.bytes(4); b != nil {
		return int(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func (r *reader) string() string {
	for i, c := range r.b {
		if c == 0 {
			s := string(r.b[:i])
			r.b = r.b[i+1:]
			return s
		}
	}
	r.fail("invalid string in message")
	return ""
}

// end fails unless everything was read.
func (r *reader) end() *wire.Error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("invalid message format")
	}
	return r.err
}

// formats reads a counted list of format codes.
func (r *reader) formats() []int16 {
	n := r.int16()
	var f []int16
	for range n {
		if r.err != nil {
			return nil
		}
		f = append(f, int16(r.int16()))
	}
	return f
}

// value reads a length and a value; nil is NULL.
func (r *reader) value() []byte {
	n := r.int32()
	if n == -1 || r.err != nil {
		return nil
	}
	if v := r.bytes(n); v != nil {
		return append(make([]byte, 0, n), v...)
	}
	return nil
}
