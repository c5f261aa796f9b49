package sqltext

import "bytes"

// prefixed scans a string or identifier that begins with a letter at i, or
// returns tokEOF when it is a word after all.
func (s *scanner) prefixed(i int) token {
	c := s.src[i] | 0x20
	if s.src[i+1] == '\'' {
		switch c {
		case 'e':
			return s.quote(i, i+1, tokEscape)
		case 'n':
			return s.quote(i, i+1, tokString)
		case 'b', 'x':
			return s.quote(i, i+1, tokCoded)
		}
		return tokEOF
	}
	if c != 'u' || i+2 >= len(s.src) {
		return tokEOF
	}
	switch s.src[i+2] {
	case '\'':
		return s.quote(i, i+2, tokCoded)
	case '"':
		return s.identifier(i, i+2, tokUnicode)
	}
	return tokEOF
}

// quote scans a string that starts at i and whose first quote is at q.
func (s *scanner) quote(i, q int, t token) token {
	s.start = i
	if t == tokEscape || t == tokString && s.mode&modeEscape != 0 {
		s.pos = s.escaped(q + 1)
		return t
	}
	src, j := s.src, q+1
	for {
		n := bytes.IndexByte(src[j:], '\'')
		if n < 0 {
			s.broken = true
			s.pos = len(src)
			return t
		}
		if n > 0 && src[j+n-1] == '\\' {
			s.ambiguous = true
		}
		j += n + 1
		if j >= len(src) || src[j] != '\'' {
			s.pos = j
			return t
		}
		j++
	}
}

// escaped scans a string with backslash escapes from behind its first quote,
// together with its continuations on later lines: they share its rules.
func (s *scanner) escaped(j int) int {
	src := s.src
	for j < len(src) {
		switch src[j] {
		case '\\':
			if src[j-1] >= 0x80 {
				if j+1 < len(src) && (src[j+1] == '\'' || src[j+1] == '\\') {
					s.ambiguous = true
				}
				if s.mode&modeWide != 0 {
					j++
					continue
				}
			}
			j += 2
		case '\'':
			j++
			if j < len(src) && src[j] == '\'' {
				j++
				continue
			}
			if k := continuation(src, j); k > 0 {
				j = k
				continue
			}
			return j
		default:
			j++
		}
	}
	s.broken = true
	return len(src)
}

// continuation returns the offset behind the quote that continues a string
// ended at j, or 0: only white space with a line break and line comments may
// stand between.
func continuation(src []byte, j int) int {
	broken := false
	for j < len(src) {
		switch c := src[j]; {
		case c == '\n' || c == '\r':
			broken = true
			j++
		case classes[c] == clSpace:
			j++
		case c == '-' && j+1 < len(src) && src[j+1] == '-':
			j = lineEnd(src, j+2)
		case c == '\'' && broken:
			return j + 1
		default:
			return 0
		}
	}
	return 0
}

// identifier scans a quoted identifier that starts at i, its quote at q.
func (s *scanner) identifier(i, q int, t token) token {
	s.start = i
	src, j := s.src, q+1
	for {
		n := bytes.IndexByte(src[j:], '"')
		if n < 0 {
			s.broken = true
			s.pos = len(src)
			return t
		}
		j += n + 1
		if j >= len(src) || src[j] != '"' {
			s.pos = j
			return t
		}
		j++
	}
}

// dollar scans a parameter, a dollar-quoted string or a lone dollar sign.
func (s *scanner) dollar(i int) token {
	src, j := s.src, i+1
	if j < len(src) && digit(src[j]) {
		for j < len(src) && digit(src[j]) {
			j++
		}
		s.start, s.pos = i, j
		return tokParam
	}
	for j < len(src) && src[j] != '$' && classes[src[j]]&clWord != 0 {
		j++
	}
	if j >= len(src) || src[j] != '$' {
		return s.one(i, tokSymbol)
	}
	tag := src[i : j+1]
	s.start = i
	n := bytes.Index(src[j+1:], tag)
	if n < 0 {
		s.broken = true
		s.pos = len(src)
		return tokDollar
	}
	s.pos = j + 1 + n + len(tag)
	return tokDollar
}
