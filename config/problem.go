package config

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
	File    string // as given to the loader; "URL" for [FromURL]
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

// sortProblems orders problems as a reader meets them in the file.
func sortProblems(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		switch {
		case a.Line == 0 || b.Line == 0:
			return cmp.Compare(b.Line, a.Line) // what has no place comes last
		default:
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}
	})
}

// span is a range of bytes of the file. The zero span is no place at all.
type span struct{ from, to int }

func (s span) known() bool { return s.to > s.from }

// source is the text that problems point into.
type source struct {
	name string
	text string
	dir  string // relative paths in the file start here
}

// origin is a place for people: "pgweir.toml:12"; "SET" and "url" have no lines.
func (s *source) origin(at span) string {
	switch s.name {
	case setSource:
		return setSource
	case urlSource:
		return "url"
	}
	return s.name + ":" + strconv.Itoa(1+strings.Count(s.text[:min(at.from, len(s.text))], "\n"))
}

// locate fills in place and excerpt of a problem.
func (s *source) locate(p Problem, at span) Problem {
	p.File = s.name
	if !at.known() || at.from > len(s.text) {
		return p
	}
	start := strings.LastIndexByte(s.text[:at.from], '\n') + 1
	line, _, _ := strings.Cut(s.text[start:], "\n")
	line = strings.TrimSuffix(line, "\r")
	p.Line = 1 + strings.Count(s.text[:start], "\n")
	p.Column = 1 + utf8.RuneCountInString(s.text[start:at.from])
	p.Excerpt = excerpt(p.Line, line, span{at.from - start, at.to - start})
	return p
}

// widest is how many characters of a line an excerpt shows.
const widest = 100

// excerpt shows a line and a caret under each character of the place in it.
func excerpt(number int, line string, at span) string {
	line, at = mask(line, span{min(at.from, len(line)), min(at.to, len(line))})
	text := printable(line)
	from := utf8.RuneCountInString(line[:at.from])
	to := max(from+1, utf8.RuneCountInString(line[:at.to]))
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
