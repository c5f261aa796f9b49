package wire

import (
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Kinds of Authentication messages.
const (
	AuthOK           uint32 = 0  // no data: authenticated
	AuthCleartext    uint32 = 3  // no data: wants the password as it is
	AuthMD5          uint32 = 5  // data: 4 bytes of salt
	AuthSASL         uint32 = 10 // data: names of mechanisms
	AuthSASLContinue uint32 = 11 // data: the mechanism's
	AuthSASLFinal    uint32 = 12 // data: the mechanism's
)

// MaxToken is the largest password or SASL message that is read, in bytes;
// Postgres has the same bound. Tokens of cloud providers take kilobytes.
const MaxToken = 65535

// AppendAuthentication appends an Authentication message.
func AppendAuthentication(dst []byte, kind uint32, data []byte) []byte {
	dst, at := begin(dst, MsgAuthentication)
	dst = binary.BigEndian.AppendUint32(dst, kind)
	return end(append(dst, data...), at)
}

// AppendAuthSASL appends AuthenticationSASL with the mechanisms offered.
func AppendAuthSASL(dst []byte, mechanisms ...string) []byte {
	var data []byte
	for _, m := range mechanisms {
		data = append(append(data, m...), 0)
	}
	return AppendAuthentication(dst, AuthSASL, append(data, 0))
}

// ParseAuthentication reads the body of an Authentication message; data is part
// of it.
func ParseAuthentication(body []byte) (kind uint32, data []byte, err error) {
	if len(body) < 4 {
		return 0, nil, errors.New("malformed Authentication message: no kind")
	}
	return binary.BigEndian.Uint32(body), body[4:], nil
}

// ParseMechanisms reads the data of an AuthenticationSASL.
func ParseMechanisms(data []byte) ([]string, error) {
	var names []string
	for {
		name, rest, ok := cutString(data)
		switch {
		case !ok, name == "" && len(rest) > 0:
			return nil, errors.New("AuthenticationSASL is not a list of names")
		case name == "":
			return names, nil
		}
		names, data = append(names, name), rest
	}
}

// AppendPassword appends a PasswordMessage: the password as it is, or what
// [MD5Response] made of it.
func AppendPassword(dst []byte, password string) []byte {
	return appendString(dst, MsgPassword, password)
}

// ParsePassword reads the body of a PasswordMessage.
func ParsePassword(body []byte) (string, error) {
	password, rest, ok := cutString(body)
	if !ok || len(rest) > 0 {
		return "", violation("invalid password packet size")
	}
	return password, nil
}

// AppendSASLInitial appends a SASLInitialResponse.
func AppendSASLInitial(dst []byte, mechanism string, response []byte) []byte {
	dst, at := begin(dst, MsgPassword)
	dst = append(append(dst, mechanism...), 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(response)))
	return end(append(dst, response...), at)
}

// ParseSASLInitial reads the body of a SASLInitialResponse. The response is part
// of the body, nil if the client sent none. The error is an *Error to answer.
func ParseSASLInitial(body []byte) (mechanism string, response []byte, err error) {
	mechanism, rest, ok := cutString(body)
	if !ok || len(rest) < 4 {
		return "", nil, violation("insufficient data left in message")
	}
	length, rest := binary.BigEndian.Uint32(rest), rest[4:]
	if length == 1<<32-1 && len(rest) == 0 {
		return mechanism, nil, nil
	}
	if uint64(length) != uint64(len(rest)) {
		return "", nil, violation("invalid message format")
	}
	return mechanism, rest, nil
}

// MD5Password is the form in which Postgres stores a password by md5: "md5" and
// 32 hexadecimal digits.
func MD5Password(user, password string) string { return md5Hex([]byte(password + user)) }

// MD5Response answers AuthenticationMD5Password; stored is the form that
// [MD5Password] makes.
func MD5Response(stored string, salt [4]byte) string {
	return md5Hex(append([]byte(stored[min(len(stored), 3):]), salt[:]...))
}

func md5Hex(b []byte) string {
	sum := md5.Sum(b)
	return "md5" + hex.EncodeToString(sum[:])
}
