package hba

import (
	"strings"
	"unicode/utf8"
)

// spot is a place in a file.
type spot struct {
	*logical
	pos int // the byte of the line
}

// nowhere in a file is the file as a whole.
func nowhere(file string) spot { return spot{logical: &logical{file: file}} }

// where is the line, and the character in it, from 1; 0 and 0 for the file as a whole.
func (s spot) where() (line, column int) {
	if len(s.parts) == 0 {
		return 0, 0
	}
	p := s.parts[0]
	for _, next := range s.parts[1:] {
		if next.at > s.pos {
			break
		}
		p = next
	}
	return p.line, 1 + utf8.RuneCountInString(s.text[p.at:s.pos])
}

// token is a word of a file.
type token struct {
	spot
	word   string
	quoted bool // it began with a quote: then it is no keyword, group or file
}

// is reports whether the token is a keyword.
func (t token) is(word string) bool { return !t.quoted && t.word == word }

// logical is a line as it counts, and where the lines of the file begin in it of
// which a backslash at the end has made one.
type logical struct {
	file  string
	text  string
	parts []part
}

// part is one of these lines.
type part struct{ at, line int }

// logicalLines splits a text. A backslash at the end of a line continues it, in quotes and
// comments, too, as in Postgres.
func logicalLines(file, text string) []logical {
	var list []logical
	var b strings.Builder
	var parts []part
	for number := 1; text != ""; number++ {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		line = strings.TrimRight(line, "\r")
		parts = append(parts, part{b.Len(), number})
		if joined, more := strings.CutSuffix(line, `\`); more && text != "" {
			b.WriteString(joined)
			continue
		}
		b.WriteString(strings.TrimSuffix(line, `\`))
		list = append(list, logical{file, b.String(), parts})
		b.Reset()
		parts = nil
	}
	return list
}

// scanner takes a line apart.
type scanner struct {
	*logical
	pos int
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// token returns the next word; comma says that another of the same field follows, and
// ok that there was one.
func (s *scanner) token() (t token, comma, ok bool, bad *Problem) {
	for s.pos < len(s.text) && (isBlank(s.text[s.pos]) || s.text[s.pos] == ',') {
		s.pos++
	}
	var b strings.Builder
	t.spot = spot{s.logical, s.pos}
	inside, wasQuote, sawQuote := false, false, false
	var opened int
	for ; s.pos < len(s.text); s.pos++ {
		c := s.text[s.pos]
		if !inside {
			if isBlank(c) {
				break
			}
			if c == '#' {
				s.pos = len(s.text)
				break
			}
			if c == ',' {
				s.pos++
				comma = true
				break
			}
		}
		if c != '"' || wasQuote {
			b.WriteByte(c)
		}
		// A quote within quotes is two of them.
		wasQuote = inside && c == '"' && !wasQuote
		if c == '"' {
			if inside = !inside; inside {
				opened = s.pos
			}
			sawQuote = true
			t.quoted = t.quoted || b.Len() == 0
		}
	}
	if inside {
		return t, false, false, (spot{s.logical, opened}).problem("this quote is not closed on its line")
	}
	t.word = b.String()
	return t, comma, sawQuote || b.Len() > 0, nil
}
