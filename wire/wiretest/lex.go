package wiretest

import (
	"strings"

	"github.com/pgweir/pgweir/wire"
)

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // unquoted, folded to lower case
	tokIdent            // "quoted"
	tokString           // 'quoted'
	tokNumber           // digits, perhaps with a point
	tokParam            // $1: text is the number
	tokOp               // any other character
)

type token struct {
	kind tokenKind
	text string
}

// sentence is one statement of a text: its tokens and the id that a comment
// inside it gives.
type sentence struct {
	tokens []token
	id     string
	text   string
}

// lexer cuts a text into sentences.
type lexer struct {
	s    string
	i    int
	from int // where the sentence began
	cur  sentence
	out  []sentence
}

// lex splits s at its semicolons. Sentences without a token are dropped, as
// the grammar of Postgres drops empty statements.
func lex(s string) ([]sentence, *wire.Error) {
	l := &lexer{s: s}
	for l.i < len(l.s) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	l.endSentence()
	return l.out, nil
}

func (l *lexer) endSentence() {
	if len(l.cur.tokens) > 0 {
		l.cur.text = l.s[l.from:min(l.i, len(l.s))]
		l.out = append(l.out, l.cur)
	}
	l.cur = sentence{}
}

func (l *lexer) add(kind tokenKind, text string) {
	l.cur.tokens = append(l.cur.tokens, token{kind, text})
}

func (l *lexer) next() *wire.Error {
	rest := l.s[l.i:]
	c := rest[0]
	switch {
	case strings.IndexByte(" \t\r\n\f\v", c) >= 0:
		l.i++
	case strings.HasPrefix(rest, "--"):
		if n := strings.IndexAny(rest, "\r\n"); n >= 0 {
			l.i += n
		} else {
			l.i = len(l.s)
		}
	case strings.HasPrefix(rest, "/*"):
		return l.comment(rest)
	case c == ';':
		l.endSentence()
		l.i++
		l.from = l.i
	case c == '\'':
		return l.quoted(rest, '\'', tokString, "unterminated quoted string at or near \"%s\"")
	case (c == 'e' || c == 'E') && len(rest) > 1 && rest[1] == '\'':
		return l.escaped(rest)
	case c == '"':
		return l.quoted(rest, '"', tokIdent, "unterminated quoted identifier at or near \"%s\"")
	case isDigit(c):
		l.take(rest, tokNumber, func(c byte) bool { return isDigit(c) || c == '.' })
	case c == '$' && len(rest) > 1 && isDigit(rest[1]):
		l.i++
		l.take(rest[1:], tokParam, isDigit)
	case isLetter(c):
		l.take(rest, tokWord, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '$' })
	default:
		l.add(tokOp, rest[:1])
		l.i++
	}
	return nil
}

// take adds the token that the longest run of ok bytes at the front makes.
func (l *lexer) take(rest string, kind tokenKind, ok func(byte) bool) {
	n := 1
	for n < len(rest) && ok(rest[n]) {
		n++
	}
	text := rest[:n]
	if kind == tokWord {
		text = strings.ToLower(text)
	}
	l.add(kind, text)
	l.i += n
}

// comment skips a comment, which may hold others, and reads its id.
func (l *lexer) comment(rest string) *wire.Error {
	depth := 0
	for n := 0; n+1 < len(rest); n++ {
		switch rest[n : n+2] {
		case "/*":
			depth++
			n++
		case "*/":
			depth--
			n++
			if depth == 0 {
				if id, ok := strings.CutPrefix(rest[2:n-1], "id="); ok {
					l.cur.id = id
				}
				l.i += n + 1
				return nil
			}
		}
	}
	return newError("42601", "unterminated /* comment at or near \"%s\"", rest)
}

// quoted reads a quoted token in which a doubled quote stands for one.
func (l *lexer) quoted(rest string, q byte, kind tokenKind, complaint string) *wire.Error {
	var text strings.Builder
	for n := 1; n < len(rest); n++ {
		if rest[n] != q {
			text.WriteByte(rest[n])
			continue
		}
		if n+1 < len(rest) && rest[n+1] == q {
			text.WriteByte(q)
			n++
			continue
		}
		l.add(kind, text.String())
		l.i += n + 1
		return nil
	}
	return newError("42601", complaint, rest)
}

// escaped reads E'...', in which a backslash takes the next character as it is.
// The escapes that stand for another character are not known to the fake.
func (l *lexer) escaped(rest string) *wire.Error {
	var text strings.Builder
	for n := 2; n < len(rest); n++ {
		c := rest[n]
		doubled := c == '\'' && n+1 < len(rest) && rest[n+1] == '\''
		switch {
		case doubled, c == '\\' && n+1 < len(rest):
			n++
			text.WriteByte(rest[n])
		case c == '\'':
			l.add(tokString, text.String())
			l.i += n + 1
			return nil
		default:
			text.WriteByte(c)
		}
	}
	return newError("42601", "unterminated quoted string at or near \"%s\"", rest)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
