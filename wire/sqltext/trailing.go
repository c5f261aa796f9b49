package sqltext

import "bytes"

// Trailing returns where the comments at the end of a text begin, or len(text)
// if it does not end in a comment: text[:Trailing(text)] does the same without
// its tags. Semicolons between and behind those comments belong to the tail. An
// optimiser hint (a block comment that begins with a plus sign) is no tag and
// stays, and so does the tail of a text whose end is in doubt: a quote is not
// closed, or another setting of the server would read it differently.
func Trailing(text []byte) (start int) {
	if !mayTrail(text) {
		return len(text)
	}
	s := scanner{src: text}
	start = s.trailing()
	if s.broken {
		return len(text)
	}
	for m := mode(1); s.ambiguous && m < modes; m++ {
		if !sameCut(text, start, m) {
			return len(text)
		}
	}
	return start
}

// sameCut reports whether cutting at start changes nothing under a mode: its
// tail begins there too, or the text is a syntax error with and without it.
func sameCut(text []byte, start int, m mode) bool {
	whole := scanner{src: text, mode: m}
	if at := whole.trailing(); !whole.broken {
		return at == start
	}
	kept := scanner{src: text[:start], mode: m}
	kept.trailing()
	return kept.broken
}

// mayTrail is a cheap test that most texts without a trailing comment fail.
func mayTrail(text []byte) bool {
	text = trimEnd(text)
	return bytes.HasSuffix(text, []byte("*/")) || bytes.Contains(text, []byte("--"))
}

// trimEnd cuts off white space and semicolons.
func trimEnd(text []byte) []byte {
	end := len(text)
	for end > 0 && (text[end-1] == ';' || classes[text[end-1]] == clSpace) {
		end--
	}
	return text[:end]
}

// trailing scans to the end for Trailing.
func (s *scanner) trailing() int {
	start := -1
	for {
		t := s.next()
		if start < 0 {
			start = s.tail
		}
		switch t {
		case tokEOF:
			if start < 0 {
				return len(s.src)
			}
			return start
		case tokSemicolon:
		default:
			start = -1
		}
	}
}
