package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ParseParameterStatus reads the body of a ParameterStatus.
func ParseParameterStatus(body []byte) (Param, error) {
	name, rest, ok := cutString(body)
	if ok && name != "" {
		if value, rest, ok := cutString(rest); ok && len(rest) == 0 {
			return Param{name, value}, nil
		}
	}
	return Param{}, errors.New("ParameterStatus is not a name and a value")
}

// ParseBackendKeyData reads the body of a BackendKeyData. The secret, MinSecret
// to MaxSecret bytes, is a copy.
func ParseBackendKeyData(body []byte) (pid uint32, secret []byte, err error) {
	if len(body) < 4+MinSecret || len(body) > 4+MaxSecret {
		return 0, nil, fmt.Errorf("BackendKeyData has %d bytes", len(body))
	}
	return binary.BigEndian.Uint32(body), append([]byte(nil), body[4:]...), nil
}

// ParseReadyForQuery reads the body of a ReadyForQuery: Idle, InTransaction or
// InFailed.
func ParseReadyForQuery(body []byte) (state byte, err error) {
	if len(body) == 1 && (body[0] == Idle || body[0] == InTransaction || body[0] == InFailed) {
		return body[0], nil
	}
	return 0, errors.New("ReadyForQuery has no known state")
}

// ErrorField returns one field of the body of an ErrorResponse or
// NoticeResponse: 'C' is the SQLSTATE, 'V' the severity, 'M' the message. It
// reports false for a field that is missing, also because the body is damaged.
func ErrorField(body []byte, code byte) (string, bool) {
	for len(body) > 1 && body[0] != 0 {
		field, value := body[0], body[1:]
		i := 0
		for i < len(value) && value[i] != 0 {
			i++
		}
		if i == len(value) {
			return "", false
		}
		if field == code {
			return string(value[:i]), true
		}
		body = value[i+1:]
	}
	return "", false
}

// ErrorFields reads the body of an ErrorResponse or NoticeResponse as far as it
// goes: no body is refused. The severity is the one that is never translated,
// where the server sends it. What is missing is filled in: severity ERROR, code
// CodeInternalError, and a message that says so.
func ErrorFields(body []byte) *Error {
	e := &Error{}
	for _, f := range []struct {
		to   *string
		code byte
		or   string
	}{
		{&e.Severity, 'S', SeverityError},
		{&e.Severity, 'V', ""},
		{&e.Code, 'C', CodeInternalError},
		{&e.Message, 'M', "the server sent an error without a message"},
		{&e.Detail, 'D', ""},
		{&e.Hint, 'H', ""},
	} {
		v, _ := ErrorField(body, f.code)
		if v == "" {
			v = f.or
		}
		if v != "" {
			*f.to = v
		}
	}
	return e
}
