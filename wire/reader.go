package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// chunk is what is allocated before the first byte of a body has arrived. A
// peer gets more only by sending more.
const chunk = 1024

// LengthError says that a message claims a length outside the bounds, or has a
// type that was not expected. The rest of the stream has no meaning any more.
type LengthError struct {
	Type   byte   // of the message
	Length uint32 // as claimed, counting itself
	Limit  int    // of the body, in bytes; -1: the type was not expected
}

// Error returns the text for logs.
func (e *LengthError) Error() string {
	if e.Limit < 0 {
		return fmt.Sprintf("unexpected message of type %q", e.Type)
	}
	return fmt.Sprintf("message of type %q claims %d bytes, allowed are 4 to %d", e.Type, e.Length, int64(e.Limit)+4)
}

// ReadMessage reads one message and not a byte more. A body of more than limit
// bytes is an error before anything is allocated for it; with types given, so
// is a message of another type. Those errors are *LengthError; io.EOF means
// that the peer ended between messages, io.ErrUnexpectedEOF within one.
func ReadMessage(r io.Reader, limit int, types ...byte) (typ byte, body []byte, err error) {
	var head [HeaderLen]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	typ = head[0]
	length := binary.BigEndian.Uint32(head[1:])
	if length < 4 || int64(length)-4 > int64(limit) {
		return typ, nil, &LengthError{typ, length, max(limit, 0)}
	}
	if len(types) > 0 && strings.IndexByte(string(types), typ) < 0 {
		return typ, nil, &LengthError{typ, length, -1}
	}
	body, err = readExact(r, int(length)-4)
	return typ, body, err
}

// readExact reads n bytes, n being within a bound that the caller has checked.
// The buffer grows with what arrives, not with what was claimed.
func readExact(r io.Reader, n int) ([]byte, error) {
	buf := make([]byte, min(n, chunk))
	for have := 0; ; {
		m, err := io.ReadFull(r, buf[have:])
		have += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if have == n {
			return buf, nil
		}
		grown := make([]byte, min(n, 2*have))
		copy(grown, buf)
		buf = grown
	}
}

// cutString splits b after its first zero byte. Reports false if there is none.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", b, false
}
