package sqltext

import (
	"bytes"
	"iter"
)

// TagKey is one of the tags that mean something to a pooler.
type TagKey uint8

// The tags that are read.
const (
	TagClass       TagKey = iota // pgweir.class
	TagTenant                    // pgweir.tenant
	TagDeadline                  // pgweir.deadline_ms
	TagAttempt                   // pgweir.attempt
	TagTraceparent               // traceparent
	TagKeys        = iota        // how many there are
)

var tagNames = [TagKeys]string{"pgweir.class", "pgweir.tenant", "pgweir.deadline_ms", "pgweir.attempt", "traceparent"}

// String returns the key as it is written in a comment.
func (k TagKey) String() string { return tagNames[k] }

// tagWindow is how much of the end of a text is looked at for tags, in bytes.
const tagWindow = 512

// Tags returns the tags in the tail of a text that Statement.Comments tells, in the form that sqlcommenter gives them: key='value' with
// commas between, where keys and values may be percent-encoded and a quote inside a value has
// a backslash before it. Values without quotes are taken too. Only the last 512 bytes are
// looked at, only the keys of [TagKey] are reported, and what can't be read is passed over;
// where a key comes twice the last is the one that counts. A value refers to the tail unless
// it had to be decoded.
func Tags(tail []byte) iter.Seq2[TagKey, []byte] {
	return func(yield func(TagKey, []byte) bool) { eachTag(tail, yield) }
}

func eachTag(tail []byte, yield func(TagKey, []byte) bool) {
	whole := true
	if cut := len(tail) - tagWindow; cut > 0 {
		tail, whole = tail[cut:], false
	}
	for len(tail) > 0 {
		if whole {
			tail = openComment(tail)
		} else if i := bytes.IndexByte(tail, ','); i >= 0 {
			tail = tail[i+1:] // where a tag begins for certain
		} else {
			return
		}
		whole = true
		end := bytes.Index(tail, []byte("*/"))
		if end < 0 {
			return
		}
		if !eachPair(tail[:end], yield) {
			return
		}
		tail = tail[end+2:]
	}
}

// openComment returns what follows the opening of the first block comment of a tail.
func openComment(tail []byte) []byte {
	for len(tail) > 1 {
		switch {
		case tail[0] == '/' && tail[1] == '*':
			return tail[2:]
		case tail[0] == '-' && tail[1] == '-':
			tail = tail[lineEnd(tail, 2):]
		default:
			tail = tail[1:]
		}
	}
	return nil
}

// eachPair reports the tags of one comment.
func eachPair(body []byte, yield func(TagKey, []byte) bool) bool {
	for len(body) > 0 {
		i := bytes.IndexAny(body, "=,")
		if i < 0 {
			return true
		}
		if body[i] == ',' { // no tag
			body = body[i+1:]
			continue
		}
		key, known := tagKey(bytes.TrimSpace(body[:i]))
		var value []byte
		var ok bool
		value, body, ok = tagValue(body[i+1:])
		if known && ok && !yield(key, value) {
			return false
		}
	}
	return true
}

// tagKey finds a key, which may be percent-encoded.
func tagKey(name []byte) (TagKey, bool) {
	if bytes.IndexByte(name, '%') >= 0 {
		name = unescape(name)
	}
	for i, n := range tagNames {
		if string(name) == n {
			return TagKey(i), true
		}
	}
	return 0, false
}

// tagValue reads a value from behind its equals sign, and returns what follows its comma.
func tagValue(b []byte) (value, rest []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 || b[0] != '\'' {
		value, rest, _ = bytes.Cut(b, []byte{','})
		value = bytes.TrimSpace(value)
		return unescape(value), rest, len(value) > 0
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '\'':
			_, rest, _ = bytes.Cut(b[i+1:], []byte{','})
			return unescape(b[1:i]), rest, true
		}
	}
	return nil, nil, false // the quote is not closed: nothing behind it can be trusted
}

// unescape decodes %41 and a backslash before a byte. What is no escape stays as it is.
func unescape(b []byte) []byte {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '%' && i+2 < len(b) && hexDigit(b[i+1]) && hexDigit(b[i+2]):
			out = append(out, hexValue(b[i+1])<<4|hexValue(b[i+2]))
			i += 2
		case b[i] == '\\' && i+1 < len(b):
			i++
			out = append(out, b[i])
		default:
			out = append(out, b[i])
		}
	}
	return out
}

func hexValue(c byte) byte {
	if digit(c) {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
