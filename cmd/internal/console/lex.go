package console

import (
	"strings"
	"unicode/utf8"
)

// kind is what a token is.
type kind uint8

const (
	word   kind = iota // letters, digits, _ $ . - and everything beyond ASCII
	quoted             // "...": text is what is between the quotes
	text               // '...' or $tag$...$tag$: likewise
	param              // $1
	other              // one character
)

// token is a piece of a statement.
type token struct {
	kind     kind
	text     string
	from, to int // bytes of the whole query
}

// is reports whether a token is a word, whatever its case.
func (t token) is(s string) bool { return t.kind == word && strings.EqualFold(t.text, s) }

// sign reports whether a token is one character.
func (t token) sign(s string) bool { return t.kind == other && t.text == s }

// lexer cuts a query into tokens.
type lexer struct {
	in string
	at int
}

// next returns the next token, or false at the end.
func (l *lexer) next() (token, bool, error) {
	if err := l.skip(); err != nil {
		return token{}, false, err
	}
	from := l.at
	if from == len(l.in) {
		return token{}, false, nil
	}
	t := token{from: from}
	var err error
	switch c := l.in[from]; {
	case c == '"':
		t.kind = quoted
		t.text, err = l.until('"', false)
	case c == '\'':
		t.kind = text
		t.text, err = l.until('\'', false)
	case (c == 'e' || c == 'E') && strings.HasPrefix(l.in[from+1:], "'"):
		t.kind = text
		l.at++
		t.text, err = l.until('\'', true)
	case c == '$':
		t.kind, t.text, err = l.dollar()
	case c == '.' || isWord(c):
		t.text = l.word()
	default:
		l.at++
		t.kind, t.text = other, l.in[from:l.at]
	}
	t.to = l.at
	return t, true, err
}

// skip passes white space and comments.
func (l *lexer) skip() error {
	for l.at < len(l.in) {
		rest := l.in[l.at:]
		switch {
		case strings.IndexByte(" \t\n\r\f\v", rest[0]) >= 0:
			l.at++
		case strings.HasPrefix(rest, "--"):
			if i := strings.IndexAny(rest, "\r\n"); i >= 0 {
				l.at += i
			} else {
				l.at = len(l.in)
			}
		case strings.HasPrefix(rest, "/*"):
			if err := l.comment(); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// comment passes a comment, which may contain comments.
func (l *lexer) comment() error {
	from, depth := l.at, 0
	for l.at < len(l.in) {
		switch rest := l.in[l.at:]; {
		case strings.HasPrefix(rest, "/*"):
			depth++
			l.at += 2
		case strings.HasPrefix(rest, "*/"):
			l.at += 2
			if depth--; depth == 0 {
				return nil
			}
		default:
			l.at++
		}
	}
	return syntax(from, "unterminated comment")
}

// until reads up to a quote; two of them stand for one, and with escapes a backslash takes
// the character behind it as it is.
func (l *lexer) until(quote byte, escapes bool) (string, error) {
	from := l.at
	var b strings.Builder
	for i := from + 1; i < len(l.in); i++ {
		c := l.in[i]
		switch {
		case c == '\\' && escapes && i+1 < len(l.in):
			i++
			b.WriteByte(l.in[i])
		case c != quote:
			b.WriteByte(c)
		case i+1 < len(l.in) && l.in[i+1] == quote:
			i++
			b.WriteByte(quote)
		default:
			l.at = i + 1
			return b.String(), nil
		}
	}
	l.at = len(l.in)
	return "", syntax(from, "unterminated quoted text")
}

// dollar reads $1 or $tag$...$tag$; a lone $ is a character like others.
func (l *lexer) dollar() (kind, string, error) {
	from, i := l.at, l.at+1
	for i < len(l.in) && l.in[i] >= '0' && l.in[i] <= '9' {
		i++
	}
	if i > from+1 {
		l.at = i
		return param, l.in[from:i], nil
	}
	for i < len(l.in) && isWord(l.in[i]) && l.in[i] != '$' && l.in[i] != '-' {
		i++
	}
	if i == len(l.in) || l.in[i] != '$' {
		l.at++
		return other, "$", nil
	}
	tag := l.in[from : i+1]
	body, _, ok := strings.Cut(l.in[i+1:], tag)
	if !ok {
		l.at = len(l.in)
		return text, "", syntax(from, "unterminated quoted text")
	}
	l.at = i + 1 + len(body) + len(tag)
	return text, body, nil
}

// word reads a word; two dashes start a comment and end it.
func (l *lexer) word() string {
	from := l.at
	for l.at++; l.at < len(l.in); l.at++ {
		c := l.in[l.at]
		dash := c == '-' && !strings.HasPrefix(l.in[l.at:], "--")
		if !isWord(c) && c != '.' && c != '$' && !dash {
			break
		}
	}
	return l.in[from:l.at]
}

// isWord reports whether a word may begin with c.
func isWord(c byte) bool {
	return c == '_' || c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// statement is one command of a query, without its semicolon.
type statement struct {
	query  string // the whole query
	tokens []token
}

// split cuts a query into its statements. Empty ones are left out.
func split(query string) ([]statement, error) {
	l := lexer{in: query}
	var list []statement
	var now []token
	for {
		t, ok, err := l.next()
		if err != nil {
			return nil, at(query, err)
		}
		if !ok || t.sign(";") {
			if len(now) > 0 {
				list = append(list, statement{query, now})
			}
			now = nil
		} else {
			now = append(now, t)
		}
		if !ok {
			return list, nil
		}
	}
}

// from returns the text of the statement from token i on, as it was written.
func (s *statement) from(i int) string {
	if i >= len(s.tokens) {
		return ""
	}
	return s.query[s.tokens[i].from:s.tokens[len(s.tokens)-1].to]
}
