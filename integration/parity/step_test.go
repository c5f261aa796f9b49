package parity

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// parseStep reads one line: an optional client and a colon, a verb, its arguments.
func parseStep(line string) (step, error) {
	s := step{client: "a"}
	if len(line) > 2 && line[1] == ':' {
		s.client, line = line[:1], strings.TrimSpace(line[2:])
	}
	verb, rest, _ := strings.Cut(line, " ")
	var err error
	switch verb {
	case "start":
		s.op = opStart
		s.bytes, err = startPacket(rest)
	case "startraw":
		s.op = opStart
		s.bytes, err = unhex(rest)
	case "wait":
		s.op = opWait
	case "flushed":
		s.op = opFlushed
	case "asleep":
		s.op = opAsleep
	case "byte":
		s.op = opByte
	case "half":
		s.op = opHalf
	case "close":
		s.op = opClose
	case "closed":
		s.op = opClosed
	case "cancel":
		s.op = opCancel
	case "admin":
		s.op, s.text = opAdmin, rest
	default:
		s.op = opSend
		s.bytes, err = message(verb, rest)
	}
	return s, err
}

// startPacket reads "[minor=N] name=value ...", where a value may be quoted. User and
// database are app unless they are given.
func startPacket(rest string) ([]byte, error) {
	words, err := split(rest)
	if err != nil {
		return nil, err
	}
	minor := 0
	var params []wire.Param
	given := map[string]bool{}
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not name=value", w)
		}
		if name == "minor" {
			if minor, err = strconv.Atoi(value); err != nil {
				return nil, err
			}
			continue
		}
		given[name] = true
		params = append(params, wire.Param{Name: name, Value: value})
	}
	for _, name := range []string{"user", "database"} {
		if !given[name] {
			params = append(params, wire.Param{Name: name, Value: "app"})
		}
	}
	return wire.AppendStartup(nil, uint16(minor), params)
}

// split cuts a line into words; a part in double quotes is read as Go does.
func split(s string) ([]string, error) {
	var words []string
	var w strings.Builder
	inWord := false
	for len(s) > 0 {
		switch {
		case s[0] == ' ':
			if inWord {
				words = append(words, w.String())
				w.Reset()
			}
			inWord, s = false, s[1:]
		case s[0] == '"':
			q, err := strconv.QuotedPrefix(s)
			if err != nil {
				return nil, err
			}
			text, err := strconv.Unquote(q)
			if err != nil {
				return nil, err
			}
			w.WriteString(text)
			inWord, s = true, s[len(q):]
		default:
			w.WriteByte(s[0])
			inWord, s = true, s[1:]
		}
	}
	if inWord {
		words = append(words, w.String())
	}
	return words, nil
}

// message reads one frontend message.
func message(verb, rest string) ([]byte, error) {
	switch verb {
	case "Q":
		return wire.AppendQuery(nil, rest), nil
	case "Qq": // with escapes
		text, err := strconv.Unquote(rest)
		return wire.AppendQuery(nil, text), err
	case "Qbig": // a comment of so many bytes before the text
		n, text, _ := strings.Cut(rest, " ")
		size, err := strconv.Atoi(n)
		return wire.AppendQuery(nil, "/*"+strings.Repeat("x", size)+"*/ "+text), err
	case "P":
		name, text, _ := strings.Cut(rest, " ")
		return wiretest.AppendParse(nil, plain(name), text), nil
	case "Pbig":
		f := strings.SplitN(rest, " ", 3)
		size, err := strconv.Atoi(f[1])
		return wiretest.AppendParse(nil, plain(f[0]), "/*"+strings.Repeat("x", size)+"*/ "+f[2]), err
	case "PT": // with types
		f := strings.SplitN(rest, " ", 3)
		types, err := numbers[uint32](f[1])
		return wiretest.AppendParse(nil, plain(f[0]), f[2], types...), err
	case "B":
		return bind(rest)
	case "D", "C":
		f := strings.Fields(rest)
		if verb == "C" {
			return wire.AppendClose(nil, f[0][0], plain(f[1])), nil
		}
		return wire.AppendDescribe(nil, f[0][0], plain(f[1])), nil
	case "E":
		name, limit, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi("0" + limit)
		return wiretest.AppendExecute(nil, plain(name), n), err
	case "S", "H", "c", "X":
		return wire.AppendEmpty(nil, verb[0]), nil
	case "d":
		return wire.AppendMessage(nil, wire.MsgCopyData, []byte(rest+"\n")), nil
	case "dq":
		text, err := strconv.Unquote(rest)
		return wire.AppendMessage(nil, wire.MsgCopyData, []byte(text)), err
	case "dbig": // rows of two columns in one message
		n, err := strconv.Atoi(rest)
		return wire.AppendMessage(nil, wire.MsgCopyData, bytes.Repeat([]byte("7\tsome text that is repeated\n"), n)), err
	case "f":
		return wire.AppendCopyFail(nil, rest), nil
	case "F":
		return functionCall(rest)
	case "raw":
		return unhex(rest)
	case "m": // a type and a quoted body
		if len(rest) < 3 {
			return nil, errors.New("no body")
		}
		body, err := strconv.Unquote(rest[2:])
		return wire.AppendMessage(nil, rest[0], []byte(body)), err
	}
	return nil, fmt.Errorf("unknown verb %q", verb)
}

// plain is the name that a word stands for: "_" is the empty one.
func plain(word string) string {
	if word == "_" {
		return ""
	}
	return word
}

// bind reads "portal statement [p:formats] [r:formats] values...".
func bind(rest string) ([]byte, error) {
	words, err := split(rest)
	if err != nil || len(words) < 2 {
		return nil, errors.Join(err, errors.New("portal and statement are needed"))
	}
	b := wiretest.Bind{Portal: plain(words[0]), Statement: plain(words[1])}
	for _, w := range words[2:] {
		kind, value, _ := strings.Cut(w, ":")
		switch {
		case kind == "p":
			b.ParamFormats, err = numbers[int16](value)
		case kind == "r":
			b.ResultFormats, err = numbers[int16](value)
		case kind == "x":
			var v []byte
			v, err = unhex(value)
			b.Params = append(b.Params, v)
		case kind == "big":
			var n int
			n, err = strconv.Atoi(value)
			b.Params = append(b.Params, bytes.Repeat([]byte{'y'}, n))
		case w == "NULL":
			b.Params = append(b.Params, nil)
		default:
			b.Params = append(b.Params, []byte(w))
		}
		if err != nil {
			return nil, err
		}
	}
	return wiretest.AppendBind(nil, b), nil
}

func numbers[T int16 | uint32](list string) ([]T, error) {
	var out []T
	for w := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, T(n))
	}
	return out, nil
}

// functionCall reads "oid arguments...", four-byte integers or NULL.
func functionCall(rest string) ([]byte, error) {
	words := strings.Fields(rest)
	oid, err := strconv.ParseUint(words[0], 10, 32)
	if err != nil {
		return nil, err
	}
	var args [][]byte
	for _, w := range words[1:] {
		if w == "NULL" {
			args = append(args, nil)
			continue
		}
		n, err := strconv.ParseInt(w, 10, 32)
		if err != nil {
			return nil, err
		}
		args = append(args, []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return wiretest.AppendFunctionCall(nil, uint32(oid), args...), nil
}

func unhex(s string) ([]byte, error) { return hex.DecodeString(strings.ReplaceAll(s, " ", "")) }
