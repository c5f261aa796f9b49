package document

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem is one reason why a configuration is refused.
type Problem struct {
	File    string // as given to the loader; "URL" for a lone URL
	Line    int    // from 1; 0 when the problem is not at one place
	Column  int    // from 1, in characters
	Key     string // what it is about, such as "upstream.main.budget"; may be empty
	Message string // what is wrong
	Fix     string // what to write instead; may be empty
	Excerpt string // the line with a caret under the place, secrets replaced; may be empty
}

// Error is the problem in one line, so that a Problem serves as an error.
func (p Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	b.WriteString(": " + p.Message)
	return b.String()
}

// Detail is the problem as `check` shows it: the line of [Problem.Error], the excerpt, and
// what to write instead. It ends without a newline.
func (p Problem) Detail() string {
	text := p.Error()
	if p.Excerpt != "" {
		text += "\n" + p.Excerpt
	}
	if p.Fix != "" {
		text += "\n    " + strings.ReplaceAll(p.Fix, "\n", "\n    ")
	}
	return text
}

// Sort orders problems as a reader meets them in the file.
func Sort(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		switch {
		case a.Line == 0 || b.Line == 0:
			return cmp.Compare(b.Line, a.Line) // what has no place comes last
		default:
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}
	})
}

// Span is a range of bytes of the file. The zero span is no place at all.
type Span struct{ From, To int }

// Known reports whether s is a place at all.
func (s Span) Known() bool { return s.To > s.From }

// Source is the text that problems point into.
type Source struct {
	Name  string
	Text  string
	Dir   string // relative paths in the file start here
	Alias string // what a place in it is called where lines mean nothing; else ""
}

// Origin is a place for people: "pgweir.toml:12", or the alias.
func (s *Source) Origin(at Span) string {
	if s.Alias != "" {
		return s.Alias
	}
	return s.Name + ":" + strconv.Itoa(1+strings.Count(s.Text[:min(at.From, len(s.Text))], "\n"))
}

// Locate fills in place and excerpt of a problem.
func (s *Source) Locate(p Problem, at Span) Problem {
	p.File = s.Name
	if !at.Known() || at.From > len(s.Text) {
		return p
	}
	start := strings.LastIndexByte(s.Text[:at.From], '\n') + 1
	line, _, _ := strings.Cut(s.Text[start:], "\n")
	line = strings.TrimSuffix(line, "\r")
	p.Line = 1 + strings.Count(s.Text[:start], "\n")
	p.Column = 1 + utf8.RuneCountInString(s.Text[start:at.From])
	p.Excerpt = excerpt(p.Line, line, Span{at.From - start, at.To - start})
	return p
}

// widest is how many characters of a line an excerpt shows.
const widest = 100

// excerpt shows a line and a caret under each character of the place in it.
func excerpt(number int, line string, at Span) string {
	line, at = mask(line, Span{min(at.From, len(line)), min(at.To, len(line))})
	text := printable(line)
	from := utf8.RuneCountInString(line[:at.From])
	to := max(from+1, utf8.RuneCountInString(line[:at.To]))
	if left := from - widest/2; left > 0 && len(text) > widest {
		text, from, to = append([]rune("..."), text[left:]...), from-left+3, to-left+3
	}
	if len(text) > widest {
		text = append(text[:widest:widest], []rune("...")...)
		to = min(to, widest)
	}
	var pad strings.Builder
	for _, r := range text[:min(from, len(text))] {
		if r != '\t' {
			r = ' '
		}
		pad.WriteRune(r)
	}
	gutter := fmt.Sprintf("%5d | ", number)
	return gutter + strings.TrimRight(string(text), " \t") +
		"\n" + strings.Repeat(" ", len(gutter)-2) + "| " + pad.String() + strings.Repeat("^", max(1, to-from))
}

// printable replaces what could move a terminal's cursor.
func printable(line string) []rune {
	text := []rune(line)
	for i, r := range text {
		if r != '\t' && !unicode.IsPrint(r) {
			text[i] = '?'
		}
	}
	return text
}
