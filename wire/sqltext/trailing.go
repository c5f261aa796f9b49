package sqltext

import "bytes"

// trailing returns where the comments at the end of a text begin, or -1 if it does not end in
// one or that is in doubt: it reads the text again, for Classify, under all settings.
func trailing(text []byte) (start int) {
	s := scanner{src: text}
	start = s.trailing()
	if s.broken || start == len(text) {
		return -1
	}
	for m := mode(1); m < modes; m++ {
		if !sameCut(text, start, m) {
			return -1
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

// blockEnds reports whether a text ends like a block comment.
func blockEnds(text []byte) bool { return bytes.HasSuffix(trimEnd(text), []byte("*/")) }

// trimEnd cuts off white space and semicolons.
func trimEnd(text []byte) []byte {
	end := len(text)
	for end > 0 && (text[end-1] == ';' || classes[text[end-1]] == clSpace) {
		end--
	}
	return text[:end]
}

// trailing scans to the end for the function of that name.
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
