package sqltext

import "encoding/binary"

// token is the kind of the last token scanned.
type token uint8

const (
	tokEOF       token = iota
	tokSemicolon       // ;
	tokWord            // unquoted identifier or keyword
	tokQuoted          // "..."
	tokUnicode         // U&"..."
	tokString          // '...', also N'...'
	tokEscape          // E'...'
	tokCoded           // U&'...', B'...', X'...'
	tokDollar          // $tag$...$tag$
	tokNumber          // 1, 1.5, 1e10
	tokParam           // $1
	tokOpen            // (
	tokClose           // )
	tokComma           // ,
	tokDot             // .
	tokSymbol          // any other byte
)

// class says what a byte may begin.
type class uint8

const (
	clSymbol class = iota
	clSpace
	clLetter
	clPrefix // letters that may belong to a quote: B E N U X
	clDigit
	clString
	clQuoted
	clDollar
	clSemicolon
	clOpen
	clClose
	clComma
	clDot
	clMinus
	clSlash

	clMask class = 0x0f
	clWord class = 0x80 // may continue a word
)

// classes maps bytes to classes; filled once and never written again.
var classes = buildClasses()

func buildClasses() (t [256]class) {
	for c := range t {
		switch b := byte(c); {
		case b >= 0x80, b == '_', 'a' <= b|0x20 && b|0x20 <= 'z':
			t[c] = clLetter | clWord
		case '0' <= b && b <= '9':
			t[c] = clDigit | clWord
		}
	}
	for _, c := range []byte("benuxBENUX") {
		t[c] = clPrefix | clWord
	}
	for _, c := range []byte(" \t\n\r\f\v") {
		t[c] = clSpace
	}
	for c, v := range map[byte]class{
		'\'': clString, '"': clQuoted, '$': clDollar | clWord, ';': clSemicolon, '(': clOpen, ')': clClose,
		',': clComma, '.': clDot, '-': clMinus, '/': clSlash,
	} {
		t[c] = v
	}
	return t
}

// mode selects how backslashes are read.
type mode uint8

const (
	modeEscape mode = 1 << iota // standard_conforming_strings = off
	modeWide                    // a backslash after a byte above 0x7f is the second half of a character

	modes mode = 1 << iota // number of combinations
)

// scanner cuts a text into tokens, skipping white space and comments.
type scanner struct {
	src   []byte
	pos   int    // next byte to read
	start int    // first byte of the last token
	fold  uint64 // folded first bytes of the last word
	tail  int    // start of the first comment since the last token, or -1

	mode      mode
	ambiguous bool // another mode might read this text differently
	broken    bool // a quote or comment was not closed
}

// text returns the bytes of the last token.
func (s *scanner) text() []byte { return s.src[s.start:s.pos] }

// next scans one token.
func (s *scanner) next() token {
	src, i := s.src, s.pos
	s.tail = -1
	for i < len(src) {
		switch classes[src[i]] & clMask {
		case clSpace:
			i++
			continue
		case clLetter:
			return s.word(i)
		case clPrefix:
			if i+1 < len(src) && (src[i+1] == '\'' || src[i+1] == '&') {
				if t := s.prefixed(i); t != tokEOF {
					return t
				}
			}
			return s.word(i)
		case clDigit:
			return s.number(i)
		case clString:
			return s.quote(i, i, tokString)
		case clQuoted:
			return s.identifier(i, i, tokQuoted)
		case clDollar:
			return s.dollar(i)
		case clSemicolon:
			return s.one(i, tokSemicolon)
		case clOpen:
			return s.one(i, tokOpen)
		case clClose:
			return s.one(i, tokClose)
		case clComma:
			return s.one(i, tokComma)
		case clDot:
			return s.one(i, tokDot)
		case clMinus:
			if i+1 < len(src) && src[i+1] == '-' {
				s.comment(i)
				i = lineEnd(src, i+2)
				continue
			}
			return s.one(i, tokSymbol)
		case clSlash:
			if i+1 < len(src) && src[i+1] == '*' {
				s.comment(i)
				i = s.block(i + 2)
				continue
			}
			return s.one(i, tokSymbol)
		default:
			return s.one(i, tokSymbol)
		}
	}
	s.start, s.pos = len(src), len(src)
	return tokEOF
}

func (s *scanner) one(i int, t token) token {
	s.start, s.pos = i, i+1
	return t
}

// comment notes a comment at i. A hint counts like a token.
func (s *scanner) comment(i int) {
	switch {
	case i+2 < len(s.src) && s.src[i] == '/' && s.src[i+2] == '+':
		s.tail = -1
	case s.tail < 0:
		s.tail = i
	}
}

func (s *scanner) word(i int) token {
	src, j := s.src, i+1
	for j < len(src) && classes[src[j]]&clWord != 0 {
		j++
	}
	s.start, s.pos = i, j
	if i+8 > len(src) {
		s.fold = foldHead(src[i:j])
		return tokWord
	}
	head := binary.LittleEndian.Uint64(src[i:]) | foldBits
	if n := uint(j - i); n < 8 {
		head &= 1<<(8*n) - 1
	}
	s.fold = head
	return tokWord
}

// number takes digits, a fraction and an exponent, or 0x, 0o, 0b and digits.
// Letters that follow are left to be a word of their own, as servers before 15
// read "select 1into t".
func (s *scanner) number(i int) token {
	src := s.src
	s.start = i
	if src[i] == '0' && i+2 < len(src) && hexDigit(src[i+2]) {
		switch src[i+1] | 0x20 {
		case 'x', 'o', 'b':
			j := i + 3
			for j < len(src) && (hexDigit(src[j]) || src[j] == '_') {
				j++
			}
			s.pos = j
			return tokNumber
		}
	}
	j := fraction(src, i+1)
	if j < len(src) && src[j]|0x20 == 'e' {
		k := j + 1
		if k < len(src) && (src[k] == '+' || src[k] == '-') {
			k++
		}
		if k < len(src) && digit(src[k]) {
			j = fraction(src, k+1)
		}
	}
	s.pos = j
	return tokNumber
}

// fraction skips digits, dots and the underscores between digits.
func fraction(src []byte, i int) int {
	for i < len(src) {
		c := src[i]
		if !digit(c) && c != '.' && (c != '_' || i+1 == len(src) || !digit(src[i+1])) {
			break
		}
		i++
	}
	return i
}

func hexDigit(c byte) bool { return digit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func digit(c byte) bool { return '0' <= c && c <= '9' }

// lineEnd returns the offset of the line break that ends a comment at i.
func lineEnd(src []byte, i int) int {
	for i < len(src) && src[i] != '\n' && src[i] != '\r' {
		i++
	}
	return i
}

// block skips a comment whose opening ends at i, with the comments inside it.
func (s *scanner) block(i int) int {
	src, depth := s.src, 1
	for i+1 < len(src) {
		switch {
		case src[i] == '*' && src[i+1] == '/':
			i += 2
			if depth--; depth == 0 {
				return i
			}
		case src[i] == '/' && src[i+1] == '*':
			i += 2
			depth++
		default:
			i++
		}
	}
	s.broken = true
	return len(src)
}
